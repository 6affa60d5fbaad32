"""Acceptance test of the course's GPU features on this machine, in less than twenty minutes.

    python benchmarks/gpu_acceptance.py                  all parts; prints the report's path
    python benchmarks/gpu_acceptance.py --only speed     one of them
    python benchmarks/gpu_acceptance.py --rehearse       the same parts, tiny, without a GPU

Each part is a process with its own time limit: one that fails, hangs or dies is reported, and the
others continue. Beside the report each part has a folder with its output and `recordings` for
lessons, none larger than 16 MiB. The exit code is 0 if every part passed."""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import time
from datetime import datetime
from pathlib import Path

from acceptance import box_home, notes, report
from acceptance.notes import Notes, Result
from acceptance.parts import PARTS, Part

HERE = Path(__file__).resolve()
ENDING_S = 5
# Factor on a rehearsal's limits: its machine is small and may be busy.
PATIENCE = 4


def in_its_own_process(part: Part, folder: Path, rehearse: bool) -> Result:
    """Run a part; when its time is up, kill it with all that it started."""
    place = folder / part.name
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    home = box_home.make()
    command = [sys.executable, str(HERE), "--part", part.name, "--out", str(folder)]
    command += ["--rehearse"] * rehearse
    began, otherwise = time.monotonic(), notes.FAILED
    limit_s = allowed_s(part, rehearse)
    with (place / "output.txt").open("w", encoding="utf-8") as output:
        process = subprocess.Popen(
            command, stdout=output, stderr=subprocess.STDOUT, start_new_session=True,
            env={**os.environ, box_home.VARIABLE: home},
        )  # fmt: skip
        try:
            process.wait(limit_s)
        except subprocess.TimeoutExpired:
            otherwise = notes.OUT_OF_TIME
        end(process)
    box_home.end_all(home)
    shutil.rmtree(place / "workspace", ignore_errors=True)
    elapsed_s = time.monotonic() - began
    said = (place / "output.txt").read_text(encoding="utf-8", errors="replace")[-4000:]
    return notes.read(part.name, place, elapsed_s, otherwise, said)


def allowed_s(part: Part, rehearse: bool) -> float:
    return part.limit_s * PATIENCE if rehearse else part.limit_s


def end(process: subprocess.Popen[bytes]) -> None:
    """End the part and its ranks, which are in its process group."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
            process.wait(ENDING_S)
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue


def play(name: str, folder: Path, rehearse: bool) -> int:
    """Run in the process of the part."""
    part = next(part for part in PARTS if part.name == name)
    place = folder / name
    place.mkdir(parents=True, exist_ok=True)
    good = notes.write(Notes(rehearse, place), part.work())
    return 0 if good else 1


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = [part.name for part in PARTS]
    parser.add_argument("--only", nargs="+", choices=names, default=names, metavar="PART")
    parser.add_argument("--rehearse", action="store_true", help="tiny sizes, also without a GPU")
    parser.add_argument("--out", type=Path, help="folder of report and recordings")
    parser.add_argument("--part", choices=names, help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> int:
    args = parsed()
    started = datetime.now()
    folder = (args.out or Path(f"gpu-acceptance-{started:%Y%m%d-%H%M%S}")).resolve()
    if args.part:
        return play(args.part, folder, args.rehearse)
    results: list[Result] = []
    about = {"started": started.isoformat(timespec="seconds"), "rehearsal": args.rehearse}
    for part in (part for part in PARTS if part.name in args.only):
        results.append(in_its_own_process(part, folder, args.rehearse))
        last = results[-1]
        limit_s = allowed_s(part, args.rehearse)
        print(
            f"{last.part:11} {last.status:12} {last.elapsed_s:5.0f} s of {limit_s:.0f}", flush=True
        )
        report.write(results, about, folder)  # after each part, in case of an interruption
    print(f"the report: {folder / 'report.md'}")
    return 0 if all(result.good for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
