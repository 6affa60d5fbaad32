"""What a test of a learner's code has on each rank: who it is, random numbers, and assertions."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NoReturn

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from trials.calls import Calls
from trials.compare import difference
from trials.watchdog import Notes


class Failed(Exception):
    """An assertion does not hold, here or on another rank."""


class TorchsOwn(RuntimeError):
    """The learner's code leaves the work to PyTorch."""


def refuse_torchs_own(*_: object, **__: object) -> NoReturn:
    raise TorchsOwn("torch.nn.parallel.DistributedDataParallel")


class Ranks:
    """The ranks of a test, seen from one of them. Before the learner's code runs again they agree,
    by a store that it does not use, that all assertions hold."""

    def __init__(self, notes: Notes, calls: Calls, store: dist.Store, seed: int) -> None:
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        self.notes, self.calls, self.store, self.seed = notes, calls, store, seed
        self.agreed = 0
        DistributedDataParallel.__init__ = refuse_torchs_own  # type: ignore[method-assign]

    def begin(self, case: str) -> None:
        """What follows is about another case: the calls of the one before are forgotten."""
        self.agree()
        self.calls.begin(self.size, case)

    def draw(self, *shapes: tuple[int, ...]) -> list[Tensor]:
        """The same random numbers on every rank, others each time."""
        self.seed += 1
        generator = torch.Generator().manual_seed(self.seed)
        return [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes]

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """The learner's code runs, and its calls are seen."""
        self.agree()
        self.calls.phase, self.calls.is_on = name, True
        with self.calls:
            yield
        self.calls.is_on = False

    def same(
        self, what: str, found: Any, wanted: Tensor | Mapping[str, Tensor], *,
        summands: Sequence[Any] = (), pieces: int = 1,
        mistakes: Mapping[str, Any] | None = None,
    ) -> None:  # fmt: skip
        """Asserts that a tensor, or each one of a table, is the right one. `summands` are what the
        ranks give to it, and `mistakes` results to which likely mistakes lead."""
        if isinstance(wanted, Tensor):
            told = difference(found, wanted, summands, pieces, mistakes)
            self.holds(what, not told, **told)
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

    def holds(self, what: str, ok: bool, **measured: Any) -> None:
        """Asserts, and writes down what was measured."""
        self.notes.write("result", what=what, ok=ok, **measured)
        if not ok:
            self._tell("failed")
            raise Failed(what)

    def agree(self) -> None:
        """All ranks go on, or none: who went on while another one stopped would wait for it for
        ever, and hide the mistake."""
        self._tell("well")
        keys = [self._key(rank) for rank in range(self.size)]
        if any(self.store.get(key) == b"failed" for key in keys):
            raise Failed("on another rank")
        self.agreed += 1

    def _tell(self, how: str) -> None:
        self.store.set(self._key(self.rank), how)

    def _key(self, rank: int) -> str:
        return f"trial/{self.size}/{self.agreed}/{rank}"
