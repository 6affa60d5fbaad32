"""Feeds damaged files to the readers until something raises, hangs or takes too much memory.

    python tests/read/fuzzing/fuzz.py --minutes 10                  # every reader in turn
    python tests/read/fuzzing/fuzz.py --minutes 3 nccl snapshot     # these only
    python tests/read/fuzzing/fuzz.py snapshot --only 1234          # one case again, by its number

A case is told by reader and number alone, so that it can be had again. Files that break a reader
are kept in `--keep`.
"""

from __future__ import annotations

import argparse
import copy
import random
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fuzz_mutations as mutations
from fuzz_seeds import Seeds, seeds_of

from course_lib import read

LOGS = Path(__file__).resolve().parents[4] / "shared" / "logs"
MOST_MIB = 1200
"""More data of the process than this raises MemoryError; it holds pandas and torch-free readers."""
MOST_S = 30


@dataclass(frozen=True)
class Kind:
    """Names of the file to write, how its content is damaged, and what is done with it."""

    names: tuple[str, ...]
    damage: Callable[[random.Random, Any, list[bytes]], bytes]
    use: Callable[[Path], object]


def ask(thing: object, names: str) -> None:
    """Many results are worked out when they are asked for."""
    for name in names.split():
        getattr(thing, name)


def use_training(path: Path) -> None:
    log = read.training_log(path)
    ask(log, "finished skipped nan parameter_count losses total_iterations last_iteration")
    str(log)
    follow = read.TrainingReader()
    data = path.read_bytes()[:300_000]
    for at in range(0, len(data), 7000):
        follow.feed(data[at : at + 7000])
    follow.result()


def use_nccl(path: Path) -> None:
    log = read.nccl(path)
    ask(log, "transports world_size")
    for communicator in [None, *log.communicators["communicator"][:3]]:
        log.matrix(communicator)
        log.counts(communicator)


def use_failure(path: Path) -> None:
    str(read.failure(path))
    read.failures([path])


def use_memory(path: Path) -> None:
    memory = read.memory(path)
    ask(memory, "peaks")
    for part in memory:
        assert part.peak_bytes == max(part.total_bytes, default=0)
        ask(part, "table peak_composition blocks fragments reserved level phases")
        part.downsample(50)
        part.at(5.0)


def use_profile(path: Path) -> None:
    profile = read.profile(path)
    ask(profile, "step_time overlap operators kernels communication skew spans ranges workers")
    ask(profile, "recommendations tensor_core_share gpu_utilisation device_kind world_size")
    ask(profile.memory, "peaks")


def use_links(path: Path) -> None:
    ask(read.links(path), "latency_us bandwidth_gb_s fits roads all_reduce_ms")


def use_monitor(path: Path) -> None:
    ask(read.monitor(path), "load ranks devices")


def use_slurm(path: Path) -> None:
    found = read.slurm(path)
    ask(found, "kind rows table")
    read.slurm(path.read_text(errors="replace"))
    for row in found.rows[:20]:
        read.expand_hosts(str(row.get("NODELIST") or row.get("NodeList") or ""))


KINDS = {
    "training_log": Kind(("a.log", "rank3.out"), mutations.text, use_training),
    "nccl": Kind(("a.log",), mutations.text, use_nccl),
    "failure": Kind(("a.log", "rank7.err"), mutations.text, use_failure),
    "memory": Kind(("rank0.jsonl",), mutations.json_lines, use_memory),
    "memory_profile": Kind(("rank0.pt.trace.json",), mutations.json_text, use_memory),
    "timeline": Kind(("a.raw.json", "a.raw"), mutations.json_text, use_memory),
    "snapshot": Kind(("a.pickle",), mutations.pickled, use_memory),
    "profile": Kind(("n1_5.55.pt.trace.json",), mutations.json_text, use_profile),
    "links": Kind(("links.json",), mutations.json_text, use_links),
    "monitor": Kind(("n1.jsonl",), mutations.json_lines, use_monitor),
    "slurm": Kind(("a.txt",), mutations.text, use_slurm),
}


def make(reader: str, seeds: Seeds, number: int, folder: Path) -> Path:
    """The file of one case."""
    random_ = random.Random(f"{reader} {number}")
    kind = KINDS[reader]
    if seeds.values:
        data = kind.damage(random_, copy.deepcopy(random_.choice(seeds.values)), seeds.texts)
    else:
        data = kind.damage(random_, random_.choice(seeds.texts), seeds.texts)
    name = random_.choice(kind.names)
    if random_.random() < 0.15:
        data = mutations.packed(random_, data)
        name += random_.choice((".gz", ".gz", ""))
    path = folder / name
    path.write_bytes(data)
    return path


def attempt(reader: str, path: Path) -> str | None:
    """What went wrong, as text."""
    signal.setitimer(signal.ITIMER_REAL, MOST_S)
    try:
        KINDS[reader].use(path)
    except Exception:
        return traceback.format_exc()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        path.unlink()
    return None


def _too_slow(*_: object) -> None:
    raise TimeoutError(f"more than {MOST_S} s")


def limit() -> None:
    """For this process: no more memory than `MOST_MIB`, no case longer than `MOST_S`."""
    signal.signal(signal.SIGALRM, _too_slow)
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    resource.setrlimit(resource.RLIMIT_DATA, (MOST_MIB << 20, hard))


def fuzz(reader: str, seconds: float, keep: Path) -> dict[str, int]:
    """Distinct failures, by the line of our code that raised, with the first case of each."""
    seeds, found = seeds_of(reader, LOGS if LOGS.is_dir() else None), {}
    end, number = time.monotonic() + seconds, 0
    with tempfile.TemporaryDirectory() as folder:
        while time.monotonic() < end:
            path = make(reader, seeds, number, Path(folder))
            data = path.read_bytes() if path.stat().st_size < 10**7 else b""
            error = attempt(reader, path)
            where = error and _where(error)
            if error and where not in found:
                found[where] = number
                (keep / f"{reader}-{number}-{path.name}").write_bytes(data)
                print(f"{reader} case {number} ({len(data)} bytes):\n{error}", flush=True)
            number += 1
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    print(f"{reader:15} {number:7} cases, {len(found)} failures, peak {peak} MiB", flush=True)
    return found


def _where(error: str) -> str:
    lines = [line.strip() for line in error.splitlines()]
    ours = [line for line in lines if "course_lib" in line and line.startswith("File")]
    return (ours or lines)[-1] + lines[-1][:40]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("readers", nargs="*", metavar="reader", help=", ".join(KINDS))
    parser.add_argument("--minutes", type=float, default=1.0, help="for each reader")
    parser.add_argument("--keep", type=Path, default=Path(tempfile.gettempdir()) / "fuzz-failures")
    parser.add_argument("--only", type=int, help="number of one case")
    args = parser.parse_args()
    args.keep.mkdir(parents=True, exist_ok=True)
    limit()
    found = {}
    for reader in args.readers or KINDS:
        if args.only is not None:
            seeds = seeds_of(reader, LOGS if LOGS.is_dir() else None)
            print(attempt(reader, make(reader, seeds, args.only, args.keep)) or "nothing raised")
        else:
            found |= fuzz(reader, args.minutes * 60, args.keep)
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
