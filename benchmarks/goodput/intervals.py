"""Kept work of a job whose nodes die at random, by the interval between checkpoints: Young and Daly
beside what is measured.

    python benchmarks/goodput/intervals.py --mean 8 --steps 120 --intervals 3 6 12 24 48 --seeds 3

A job for each interval and seed, one after the other; takes some minutes. Prints a table, and the
interval that the formula picks from the times that the same jobs show.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile

from course_lib import Lab, fault, plan, read


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


def failures_of(found: list[read.Attempts], mean_s: int, interval: int) -> plan.Failures:
    """One node that stands for the job: its time between failures, a checkpoint, and a restart."""
    saves = sum(one.iterations // interval for one in found)
    lost_s = [one.total_s - one.useful_s - one.repeated_s - one.saving_s for one in found]
    return plan.Failures(
        node_mtbf_hours=mean_s / 3600,
        checkpoint_s=max(sum(one.saving_s for one in found) / max(saves, 1), 0.01),
        restart_s=sum(lost_s) / sum(one.count for one in found),
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mean", type=int, default=8, help="seconds between failures")
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--intervals", type=int, nargs="+", default=[3, 6, 12, 24, 48])
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    lab = Lab(tempfile.mkdtemp(prefix="course-goodput-"), quiet=True)
    print(
        "| steps | seconds | kept, measured | kept, predicted | attempts |\n|---|---|---|---|---|"
    )
    rates = []
    for interval in options.intervals:
        found = [
            measure(lab, options.steps, interval, options.mean, seed)
            for seed in range(1, options.seeds + 1)
        ]
        step_s = statistics.median(one.useful_s / max(one.iterations, 1) for one in found)
        rates.append(failures_of(found, options.mean, interval))
        predicted = plan.goodput(1, rates[-1], interval * step_s).useful
        kept = statistics.median(one.useful for one in found)
        tries = sum(one.count for one in found)
        print(f"| {interval} | {interval * step_s:.2f} | {100 * kept:.0f} % | "
              f"{100 * predicted:.0f} % | {tries} |")  # fmt: skip
    save_s = statistics.median(rate.checkpoint_s for rate in rates)
    best_s = plan.checkpoint_interval(save_s, options.mean)
    print(f"a checkpoint takes {save_s:.2f} s; best by Daly: {best_s:.2f} s = "
          f"{best_s / step_s:.0f} steps")  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main())
