"""Check that a job with random interruptions ends with the losses of an undisturbed one.

    python benchmarks/goodput/same_losses.py --requeues 10 --deaths 30 --seed 1

First a job is removed from its nodes (`scontrol requeue`) repeatedly, then jobs run whose nodes
fail until enough have failed. The program prints a row for each job. `losses`: every line of every
attempt equals the undisturbed run's. `end`: weights and Adam's moments in the last checkpoint are
bitwise equal, as each of its files has the same checksum. The exit code is 1 if anything differs,
or if there were too few interruptions."""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
import tempfile
import time
from dataclasses import dataclass
from typing import Any

from course_lib import Lab, fault, read

PATIENCE_S = 1500
MOST_JOBS, SAVED = 20, 10
COLUMNS = ("job", "lives", "disturbed", "steps made", "of them again", "losses", "end")
LINE = re.compile(r" iteration +(\d+)/ .* lm loss: (\S+)")
LOADED, STEP = "successfully loaded", " iteration "


@dataclass(frozen=True)
class Told:
    """Content of a job's log and of its last checkpoint."""

    steps: list[tuple[int, str]]
    end: dict[str, Any]


def told(run: Any, iterations: int) -> Told:
    lines = LINE.findall(run.text)  # lines of all attempts; run.log keeps the last rows only
    last = run.paths.checkpoints / f"iter_{iterations:07d}" / "checksums.json"
    sums = json.loads(last.read_text()) if last.exists() else {}
    end = {name: at for name, at in sums.items() if name.endswith(".bin")}
    return Told([(int(step), loss) for step, loss in lines], end)


def row(name: str, lives: int, disturbed: int, seen: Told, undisturbed: Told) -> bool:
    losses = dict(undisturbed.steps)
    wrong = sum(losses.get(step) != loss for step, loss in seen.steps)
    wrong += len(losses.keys() - {step for step, _ in seen.steps})
    end = bool(seen.end) and seen.end == undisturbed.end
    again = len(seen.steps) - len({step for step, _ in seen.steps})
    cells = (name, lives, disturbed, len(seen.steps), again,
             f"{wrong} differ" if wrong else "equal", "equal" if end else "differs")  # fmt: skip
    print(f"| {' | '.join(map(str, cells))} |", flush=True)
    return end and not wrong


def wait_for_a_step(run: Any, lives: int) -> bool:
    """Wait for a step of this attempt; steps of the ending attempt do not count."""
    end_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < end_s and not run.ended:
        before, *loads = run.text.split(LOADED)
        if len(loads) == lives - 1 and STEP in (loads or [before])[-1]:
            return True
        time.sleep(0.1)
    return False


def requeued(lab: Lab, often: int, iterations: int, seed: int) -> bool:
    """Interrupt the job at a random time in each attempt, after at least one step."""
    habits: dict[str, Any] = {
        "iterations": iterations, "save": True, "save_interval": iterations, "log_interval": 1,
        "exit_signal_handler": True, "time_limit_minutes": 30,
    }  # fmt: skip
    plain = lab.submit(fault.recipe("undisturbed", **habits))
    plain.wait(PATIENCE_S)
    again = {"load": "{run}/checkpoints", "directives": {"open-mode": "append"}}
    run = lab.submit(fault.recipe("requeued", **again, **habits))
    drawn, done = random.Random(seed), 0
    step_s = plain.log.iterations["elapsed_ms"].median() / 1e3
    while done < often and wait_for_a_step(run, 1 + done):
        time.sleep(drawn.uniform(0, iterations / (2 * often)) * step_s)
        lab.jobs.slurm.call("scontrol", "requeue", str(run.job_id))
        done += 1
    run.wait(PATIENCE_S)
    lives = 1 + run.text.count(LOADED)
    same = row("requeued", lives, done, told(run, iterations), told(plain, iterations))
    return same and done == often


def killed(lab: Lab, deaths: int, iterations: int, mean_s: int, seed: int) -> bool:
    """Run jobs with different failure times until enough nodes have failed."""
    habits: dict[str, Any] = {
        "iterations": iterations, "save_interval": SAVED, "attempts": 60,
        "programs": lab.site.programs,
    }  # fmt: skip
    plain = lab.submit(fault.restarts("alive", mean_s=0, **habits))
    plain.wait(PATIENCE_S)
    undisturbed, same, died = told(plain, iterations), True, 0
    for number in range(seed, seed + MOST_JOBS):
        run = lab.submit(fault.restarts(f"dies-{number}", mean_s=mean_s, seed=number, **habits))
        run.wait(PATIENCE_S)
        went = read.attempts(run.log_file)
        died += went.count - went.finished
        seen = told(run, iterations)
        same &= row(run.name, went.count, went.count - went.finished, seen, undisturbed)
        if died >= deaths:
            break
    return same and died >= deaths


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requeues", type=int, default=10)
    parser.add_argument("--deaths", type=int, default=30)
    parser.add_argument("--mean", type=int, default=4, help="seconds between deaths, on average")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    lab = Lab(tempfile.mkdtemp(prefix="course-same-losses-"), quiet=True)
    print(f"| {' | '.join(COLUMNS)} |\n{'|---' * len(COLUMNS)}|", flush=True)
    same = True
    if options.requeues:
        same &= requeued(lab, options.requeues, options.steps, options.seed)
    if options.deaths:
        same &= killed(lab, options.deaths, options.steps, options.mean, options.seed)
    print("all as undisturbed" if same else "NOT as undisturbed")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
