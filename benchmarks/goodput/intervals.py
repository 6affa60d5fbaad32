"""Useful share of a job whose nodes fail at random, by checkpoint interval: Young and Daly compared
with measurements.

    python benchmarks/goodput/intervals.py --mean 8 --steps 120 --intervals 3 6 12 24 48 --seeds 3

One job for each interval and seed, one after the other, takes some minutes. The program prints a
table, the formula's interval for the times of the same jobs, and whether it is in the flat
range."""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile

from course_lib import Lab, fault, plan, read

# Share of the maximum that counts as equally good.
FLAT = 0.9


def measure(lab: Lab, steps: int, interval: int, mean_s: int, seed: int) -> read.Attempts:
    name = f"goodput-{interval}-{seed}"
    run = lab.submit(
        fault.restarts(
            name, mean_s=mean_s, seed=seed, save_interval=interval, iterations=steps, attempts=60,
            programs=lab.site.programs,
        )
    )  # fmt: skip
    run.wait(300)
    return read.attempts(run.log_file)


def failures_of(found: list[read.Attempts], interval: int) -> plan.Failures:
    """Return the job as a single node: time between failures, checkpoint and restart times of these
    runs. (Nodes fail while they work, not while they start.)"""
    died = max(1, sum(one.count - 1 for one in found))
    saves = sum(one.iterations // interval for one in found)
    worked_s = sum(one.useful_s + one.repeated_s + one.saving_s for one in found)
    return plan.Failures(
        node_mtbf_hours=worked_s / died / 3600,
        checkpoint_s=max(sum(one.saving_s for one in found) / max(saves, 1), 0.01),
        restart_s=(sum(one.total_s for one in found) - worked_s) / died,
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mean", type=int, default=8, help="seconds between failures")
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--intervals", type=int, nargs="+", default=[3, 6, 12, 24, 48])
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    lab = Lab(tempfile.mkdtemp(prefix="course-goodput-"), quiet=True)
    print("| steps | seconds | kept, measured | kept, predicted | deaths |\n|---|---|---|---|---|")
    every: list[read.Attempts] = []
    kept, saves_s = {}, []
    for interval in options.intervals:
        found = [
            measure(lab, options.steps, interval, options.mean, seed)
            for seed in range(1, options.seeds + 1)
        ]
        every += found
        step_s = statistics.median(one.useful_s / max(one.iterations, 1) for one in every)
        rate = failures_of(found, interval)
        saves_s.append(rate.checkpoint_s)
        predicted = plan.goodput(1, rate, interval * step_s).useful
        kept[interval] = sum(one.useful_s for one in found) / sum(one.total_s for one in found)
        print(f"| {interval} | {interval * step_s:.2f} | {100 * kept[interval]:.0f} % | "
              f"{100 * predicted:.0f} % | {sum(one.count - 1 for one in found)} |",
              flush=True)  # fmt: skip
    tell_best(kept, step_s, statistics.median(saves_s), options.mean)
    return 0


def tell_best(kept: dict[int, float], step_s: float, save_s: float, mean_s: float) -> None:
    """Print whether the formula's interval is in the range where almost nothing is lost."""
    flat = [interval for interval, share in kept.items() if share > FLAT * max(kept.values())]
    best = plan.checkpoint_interval(save_s, mean_s) / step_s
    inside = min(flat) / 2**0.5 <= best <= max(flat) * 2**0.5
    print(f"a checkpoint takes {save_s:.2f} s; best by Daly: every {best:.0f} steps; measured: at "
          f"least {100 * FLAT:.0f} % of the most from {min(flat)} to {max(flat)} steps "
          f"({'it lies within' if inside else 'it lies outside'})")  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
