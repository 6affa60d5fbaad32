"""Run your function on 1, 2, 3 and 4 ranks, and compare it with the serial model.

    torchrun --nproc-per-node 4 code/try_own.py work/my_ring.py --exercise ring

The inputs are drawn anew each time. Each rank writes its results into `verdict/` of the run folder
for the exercise's check. The learner's file is imported, except with `--exercise edits`: then it is
a training program, which runs while its actions are recorded."""

from __future__ import annotations

import importlib
import inspect
import os
import sys
import traceback
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, NoReturn

import torch
import torch.distributed as dist

from flags.parser import FlagParser
from flags.ranges import OneOf
from process.environment import environment_of_rank
from process.errors import node_name
from process.exit import run_and_exit
from process.own_program import keep_groups, limited_output, run_file
from process.pace import keep_pace
from process.rendezvous import open_store
from trials.calls import Calls
from trials.imports import CourseImport, refuse_course_imports
from trials.program.watched import Enough, Watched, fewer_ranks
from trials.ranks import Failed, Ranks, TorchsOwn, refuse_torchs_own
from trials.watchdog import LONGEST_S, Notes, Watchdog

# Module of each exercise's test, and the function in it if that is not `test`. Its first parameter
# has the name of what the learner writes.
EXERCISES = {
    "ring": "messages.ring",
    "ddp": "ddp",
    "buckets": "ddp test_buckets",
    "vocabulary": "layers.vocabulary",
    "zero1": "zero1",
    "fsdp": "fsdp",
    "clip": "layers.clipping",
    "column": "layers.linear test_column",
    "row": "layers.linear test_row",
    "attention": "layers.attention",
    "pipeline": "messages.pipeline",
    "context": "layers.context",
    "ring-attention": "layers.ring_attention",
    "experts": "layers.experts",
    "blocks": "layers.blocks",
    "parallelize": "mesh.parallelize",
    "resume": "program.resume",
    "watchdog": "program.missing_rank",
    "noise": "layers.noise",
    "packing": "layers.packing",
    "checkpoint": "layers.recomputed",
    "accumulate": "accumulate",
    "scaler": "scaler",
    "prefetch": "prefetch",
    "reduce-scatter": "messages.topology",
    "cure": "program.cure",
}
# What torch has already, and what the learner writes; "" means nothing.
TORCHS_OWN = dict.fromkeys(EXERCISES, "torch.nn.parallel.DistributedDataParallel") | {
    "checkpoint": "torch.utils.checkpoint.checkpoint",
    "accumulate": "",
    "scaler": "torch.amp.GradScaler",
    "prefetch": "torch.utils.data.DataLoader",
    "cure": "torch.utils.data.DataLoader",
}
# Limits for one number of ranks, if they differ from the watchdog's.
LIMITS_S = {"parallelize": 40.0, "watchdog": 40.0, "cure": 40.0}
WHOLE_PROGRAM = "edits"
NAMES = (*EXERCISES, WHOLE_PROGRAM)
FLAGS = [("--exercise", OneOf(NAMES), "ring", "exercise that the file solves")]
MOST_BYTES = 1 << 18
MEET = timedelta(seconds=60)
# Time without activity after which a program counts as stuck.
IDLE_S = 20.0
EXIT_FAILED = 1


class OwnGroup(RuntimeError):
    """Error: the learner's file creates a process group."""


def test_of(exercise: str) -> Callable[[Any, Ranks], None]:
    """Import this test alone, because DTensor, which one of them needs, takes seconds to load."""
    module, _, name = EXERCISES[exercise].partition(" ")
    test: Callable[[Any, Ranks], None]
    test = getattr(importlib.import_module(f"trials.{module}"), name or "test")
    return test


def refuse_group(*_: object, **__: object) -> NoReturn:
    raise OwnGroup("the trial makes the process group")


class Trial:
    """State of one rank: the learner's file and its record."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.rank, self.world, _ = environment_of_rank()
        self.notes = Notes(self.rank)
        self.calls = Calls(self.notes)
        self.notes.write("begin", rank=self.rank, world=self.world)
        # All ranks start before the first one runs code that may end it, and the store with it.
        self.store = open_store(self.rank, self.world, MEET, waits=True)
        self.watchdog = Watchdog(self.notes, file, self.store)
        refuse_course_imports(file.parent)

    def find(self, name: str, torchs_own: str) -> Any:
        """Return the learner's object of this name."""
        if torchs_own:
            refuse_torchs_own(torchs_own)
        sys.path.insert(0, str(self.file.parent))
        self.watchdog.begin()
        made, dist.init_process_group = dist.init_process_group, refuse_group
        try:
            found = run_file(self.file, "own")
        except OwnGroup as error:
            self.failed("own group", error)
        except BaseException as error:
            self.failed("cannot load", error)
        finally:
            dist.init_process_group = made
        self.watchdog.rest()
        if not callable(found.get(name)):
            there = [
                key for key, value in found.items()
                if callable(value) and getattr(value, "__module__", "") == "own"
            ]  # fmt: skip
            self.notes.write("no function", wanted=name, there=there[:8])
            self.watchdog.leave(EXIT_FAILED)
        return found[name]

    def attempt(self, test: Callable[[Any, Ranks], None], function: Any) -> None:
        """Test on growing groups of ranks; a rank outside the group waits for the next size."""
        seed = self.shared_seed()
        self.calls.install()
        for size in range(self.rank + 1, self.world + 1):
            self.notes.place = {"size": size, "case": "the ranks meet"}
            os.environ |= {"RANK": str(self.rank), "WORLD_SIZE": str(size)}
            group = dist.PrefixStore(f"trial/{size}", self.store)
            dist.init_process_group(
                "gloo", store=group, rank=self.rank, world_size=size, timeout=MEET
            )
            self.watchdog.begin()
            ranks = Ranks(self.notes, self.calls, self.store, seed + 1000 * size)
            try:
                test(function, ranks)
                ranks.agree()
            except Failed:
                pass  # all ranks have recorded it
            except BaseException as error:
                self.failed("error", error)
            self.watchdog.rest()
            dist.destroy_process_group()
        self.end()

    def follow(self) -> None:
        """Run a whole program on all ranks; then its first epoch on the ranks of one node."""
        self.watchdog.longest_s = IDLE_S
        watched = Watched(self.notes, self.watchdog.begin)
        watched.install()
        keep_pace()
        keep_groups()
        sys.argv = [str(self.file)]
        sys.path.insert(0, str(self.file.parent))
        self.follow_on(self.world, watched)
        self.all_have("followed")
        few = int(os.environ["LOCAL_WORLD_SIZE"])
        if self.rank < few < self.world:
            watched.begin(last_epoch=1)
            with fewer_ranks(few, dist.PrefixStore("trial/few", self.store)):
                self.follow_on(few, watched)
        self.end()

    def follow_on(self, size: int, watched: Watched) -> None:
        self.notes.place = {"size": size, "case": "the program"}
        self.notes.write("place", local_rank=environment_of_rank()[2], node=node_name())
        self.watchdog.begin()
        try:
            run_file(self.file, "__main__")
        except SyntaxError as error:
            self.failed("cannot load", error)
        except Enough:
            pass
        except BaseException as error:
            watched.finish()
            if not isinstance(error, SystemExit) or error.code:
                self.failed("error", error)
        watched.finish()
        self.watchdog.rest()
        self.notes.write("followed")
        if dist.is_initialized():
            dist.destroy_process_group()

    def all_have(self, what: str) -> None:
        self.store.set(f"trial/{what}/{self.rank}", "")
        self.store.wait([f"trial/{what}/{rank}" for rank in range(self.world)], MEET)

    def end(self) -> None:
        self.notes.write("end", world=self.world)
        self.store.set(f"trial/end/{self.rank}", "")
        if self.rank == 0:  # the store may be in this process
            self.store.wait([f"trial/end/{rank}" for rank in range(self.world)], MEET)

    def shared_seed(self) -> int:
        if self.rank == 0:
            self.store.set("trial/seed", str(int.from_bytes(os.urandom(3), "little")))
        return int(self.store.get("trial/seed"))

    def failed(self, event: str, error: BaseException) -> NoReturn:
        line = innermost_line(error, self.file) or getattr(error, "lineno", None)
        text = str(error.code if isinstance(error, SystemExit) else error)[:2000]
        kind = type(error).__name__
        if isinstance(error, CourseImport | TorchsOwn):
            event = "not own work"
        self.notes.write(event, kind=kind, text=text, line=line, phase=self.calls.phase)
        self.watchdog.leave(EXIT_FAILED)

    def printed_too_much(self, descriptor: int) -> None:
        self.notes.write("printed", bytes=MOST_BYTES)
        os.write(descriptor, f"[rank{self.rank}]: stopped: it prints without end\n".encode())
        os._exit(EXIT_FAILED)


def innermost_line(error: BaseException, file: Path) -> int | None:
    """Return the innermost line in the learner's file; functions that it calls are elsewhere."""
    calls = traceback.extract_tb(error.__traceback__)
    return next((call.lineno for call in reversed(calls) if call.filename == str(file)), None)


def main() -> int:
    parser = FlagParser(__doc__.splitlines()[0], {"flags": FLAGS})
    parser.add_argument("file", type=Path, help="file with your function")
    asked = parser.parse_all(None)
    # Imported before the watchdog counts.
    test = None if asked.exercise == WHOLE_PROGRAM else test_of(asked.exercise)
    trial = Trial(asked.file.resolve())
    trial.watchdog.longest_s = LIMITS_S.get(asked.exercise, LONGEST_S)
    torch.set_num_threads(1)
    with limited_output(trial.printed_too_much, MOST_BYTES):
        if test is None:
            trial.follow()
        else:
            name = next(iter(inspect.signature(test).parameters))
            trial.attempt(test, trial.find(name, TORCHS_OWN[asked.exercise]))
    return 0


if __name__ == "__main__":
    run_and_exit(main)
