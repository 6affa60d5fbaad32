"""Tools of a test on each rank: rank numbers, random numbers and assertions."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NoReturn

import torch
import torch.distributed as dist
from torch import Tensor

from process.own_program import KEPT
from trials.calls import MESSAGES, Calls
from trials.compare import difference
from trials.watchdog import Notes


class Failed(Exception):
    """Error: an assertion fails, here or on another rank."""


class TorchsOwn(RuntimeError):
    """Error: the learner's code leaves the work to PyTorch."""


def refuse_torchs_own(name: str) -> None:
    """Make every call of this function or class of torch fail, however it is imported."""

    def refuse(*_: object, **__: object) -> NoReturn:
        raise TorchsOwn(name)

    module, _, last = name.rpartition(".")
    place: Any = importlib.import_module(module)
    if isinstance(found := getattr(place, last), type):
        place, last = found, "__init__"
    setattr(place, last, refuse)


class Ranks:
    """Ranks of a test, from the view of one rank. Before the learner's code runs again, they agree
    through a separate store that all assertions hold."""

    def __init__(self, notes: Notes, calls: Calls, store: dist.Store, seed: int) -> None:
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        self.notes, self.calls, self.store, self.seed = notes, calls, store, seed
        self.agreed = 0

    def begin(self, case: str) -> None:
        """Begin another case and forget the calls of the previous one."""
        self.agree()
        self.calls.begin(self.size, case)

    def draw(self, *shapes: tuple[int, ...]) -> list[Tensor]:
        """Return the same random numbers on every rank, and different ones at each call."""
        self.seed += 1
        generator = torch.Generator().manual_seed(self.seed)
        return [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes]

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Run the learner's code in a phase and record its calls."""
        self.agree()
        self.calls.phase, self.calls.is_on = name, True
        with self.calls:
            yield
        self.calls.is_on = False

    def run(self, case: str, function: Callable[..., Any], *given: Any) -> Any:
        """Begin a case with the learner's code, which waits for all of its calls. What it makes
        stays alive, as it may hold the process group."""
        self.begin(case)
        with self.phase(case.partition(",")[0]):
            result = function(*given)
        if not isinstance(result, Tensor):
            KEPT.append(result)
        self.all_waited_for()
        return result

    def same(
        self, what: str, found: Any, wanted: Tensor | Mapping[str, Tensor], *,
        summands: Sequence[Any] = (), pieces: int = 1,
        mistakes: Mapping[str, Any] | None = None, **measured: Any,
    ) -> None:  # fmt: skip
        """Assert that a tensor, or each tensor of a table, is right. `summands` are the
        contributions of the ranks, `mistakes` are results of likely mistakes, and `measured` is
        for the hint."""
        if isinstance(wanted, Tensor):
            told = difference(found, wanted, summands, pieces, mistakes)
            self.holds(what, not told, **measured, **told)
            return
        wrong = {
            name: told
            for name, right in wanted.items()
            if (told := difference(
                found[name], right, [one[name] for one in summands], pieces,
                {mistake: table[name] for mistake, table in (mistakes or {}).items()},
            ))
        }  # fmt: skip
        first = next(iter(wrong), "")
        more: dict[str, Any] = {"part": first, "wrong": list(wrong), "of": len(wanted)}
        self.holds(what, not wrong, **wrong.get(first, {}), **(more if wrong else {}))

    def all_waited_for(self) -> None:
        unwaited = self.calls.unwaited
        self.holds("waited", not unwaited, **({"number": unwaited[0]} if unwaited else {}))

    def only_messages(self) -> None:
        others = sorted({one["call"] for one in self.calls.made} - {*MESSAGES})
        self.holds("messages alone", not others, collectives=others)

    def holds(self, what: str, ok: bool, **measured: Any) -> None:
        """Assert, and record what was measured."""
        self.notes.write("result", what=what, ok=ok, **measured)
        if not ok:
            self._tell("failed")
            raise Failed(what)

    def agree(self) -> None:
        """Continue on all ranks, or stop all. A rank alone would wait and hide the mistake."""
        self._tell("well")
        keys = [self._key(rank) for rank in range(self.size)]
        if any(self.store.get(key) == b"failed" for key in keys):
            raise Failed("on another rank")
        self.agreed += 1

    def _tell(self, how: str) -> None:
        self.store.set(self._key(self.rank), how)

    def _key(self, rank: int) -> str:
        return f"trial/{self.size}/{self.agreed}/{rank}"
