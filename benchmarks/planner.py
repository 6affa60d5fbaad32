"""Comparison of the planner with published measurements.

    python benchmarks/planner.py FOLDER [FOLDER …] [--rows N] [--held-out] [--write-residuals]

FOLDER holds CSV files: of the sources in planner_sources/, or with the columns of
`planner_sources.runs.COLUMNS` (see README.md). The program prints a table by source, the
worst rows, and the goals; it exits with 1 if a goal is missed or a file is not readable."""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path

import pandas as pd
from planner_sources import read_folder
from planner_sources.residuals import SLOW, held_out, write_residuals
from planner_sources.runs import MeasuredRun

from course_lib.plan.code_bases import STACKS
from course_lib.plan.estimate import Estimate
from course_lib.plan.published.intervals import bits, memory_keys, time_keys
from course_lib.plan.schedules.costs import messages


def compare(run: MeasuredRun) -> dict[str, object]:
    estimate = Estimate(run.model, run.layout, run.cluster, run.stack)
    layout = run.layout
    row: dict[str, object] = {
        "source": run.source,
        "model": run.model.name[:24],
        "devices": layout.devices,
        "sequence": run.model.sequence,
        "t": layout.tensor,
        "p": layout.pipeline,
        "d": layout.data,
        "v": layout.virtual,
        "mb": layout.micro_batch,
        "m": layout.micro_batches,
        "zero": layout.zero,
        "recompute": layout.recompute,
        "group": repr(run.group),
        "verdict": estimate.verdict,
        "overflowed": run.overflowed,
        "bits": bits(layout),
        "messages": messages(layout),
    }
    if run.iteration_s is not None:
        row |= _timed(run, estimate, run.iteration_s)
    if run.peak_gib is not None:
        gib = estimate.peak_gib(run.memory_kind, run.memory_of)
        row |= {
            "measured_gib": run.peak_gib,
            "predicted_gib": gib,
            "memory_error": gib / run.peak_gib - 1,
            "memory_keys": memory_keys(layout, run.stack),
        }
    return row


def _timed(run: MeasuredRun, estimate: Estimate, measured_s: float) -> dict[str, object]:
    low, high = estimate.interval
    unknown = STACKS["unknown"]
    other = Estimate(run.model, run.layout, run.cluster, unknown)
    return {
        "measured_s": measured_s,
        "predicted_s": estimate.seconds,
        "expected_s": estimate.expected_s,
        "error": estimate.seconds / measured_s - 1,
        "unknown_error": other.seconds / measured_s - 1,
        "inside": low <= measured_s <= high,
        "time_keys": time_keys(run.model, run.layout, run.cluster, run.stack),
        "unknown_keys": time_keys(run.model, run.layout, run.cluster, unknown),
    }


def compared(runs: list[MeasuredRun]) -> pd.DataFrame:
    """Return one row per run; values that were not measured are missing."""
    table = pd.DataFrame([compare(run) for run in runs])
    wanted = ("error", "unknown_error", "inside", "memory_error", "measured_s", "measured_gib")
    return table.assign(**{name: math.nan for name in wanted if name not in table})


def by_source(table: pd.DataFrame) -> pd.DataFrame:
    """Return errors in percent, one line per source and one for all."""
    groups = [*table.groupby("source"), ("all", table)]
    return pd.DataFrame([_summary(str(name), rows) for name, rows in groups]).set_index("source")


def _percent(values: pd.Series[float], quantile: float) -> float:
    return 100 * float(values.quantile(quantile)) if len(values) else math.nan


def _summary(name: str, rows: pd.DataFrame) -> dict[str, object]:
    timed, weighed = rows.dropna(subset=["error"]), rows.dropna(subset=["memory_error"])
    ranks = ranking(timed)
    best_in_three, regret = first_choices(ranks)
    return {
        "source": name,
        "timed": len(timed),
        "bias %": _percent(timed.error, 0.5),
        "median %": _percent(timed.error.abs(), 0.5),
        "p90 %": _percent(timed.error.abs(), 0.9),
        "unknown code %": _percent(timed.unknown_error.abs(), 0.5),
        "inside %": 100 * timed.inside.astype(float).mean() if len(timed) else math.nan,
        "groups": len(ranks),
        "best in 3 %": best_in_three,
        "regret p90 %": regret,
        "weighed": len(weighed),
        "memory median %": _percent(weighed.memory_error.abs(), 0.5),
        "memory p95 %": _percent(weighed.memory_error.abs(), 0.95),
        "overflowed": int((rows.overflowed == True).sum()),  # noqa: E712
        "said fits": int(wrongly_fits(rows).sum()),
    }


def ranking(timed: pd.DataFrame, fewest: int = 4) -> pd.DataFrame:
    """Return the measured place of the predicted best layout, and by how many percent it is slower
    than the measured best, for each group of at least `fewest` layouts. Repeated layouts count
    once, at their fastest."""
    found = []
    for _, rows in timed.groupby("group"):
        layouts = rows.groupby(["t", "p", "d", "v", "mb", "zero", "recompute"], sort=False)
        best = layouts[["measured_s", "expected_s"]].min()
        if len(best) >= fewest:
            chosen, measured_s = best.expected_s.idxmin(), best.measured_s
            regret = 100 * (measured_s[chosen] / measured_s.min() - 1)
            found.append((measured_s.rank(method="min")[chosen], regret))
    return pd.DataFrame(found, columns=["place", "regret"], dtype=float)


def first_choices(ranks: pd.DataFrame) -> tuple[float, float]:
    """Return the percentage of groups whose predicted best layout is among the measured best three,
    and the 90th percentile of the regret."""
    return 100 * float((ranks.place <= 3).mean()), float(ranks.regret.quantile(0.9))


def wrongly_fits(rows: pd.DataFrame) -> pd.Series[bool]:
    """Mark runs that overflowed although the prediction was an unqualified "fits"."""
    return (rows.overflowed == True) & (rows.verdict == "fits")  # noqa: E712


def goals(table: pd.DataFrame) -> list[tuple[str, float, str, bool]]:
    """Return (what, reached, goal, met); a goal without rows is not judged."""
    found: list[tuple[str, float, str, bool]] = []
    timed = table.dropna(subset=["error"])
    weighed = table.dropna(subset=["memory_error"]).memory_error.abs()
    other = timed[timed.source.str.match(OTHER_ON_H100)]
    few, many = other[other.devices <= 128], other[other.devices > 128]
    healthy = many[1 / (1 + many.error) <= SLOW]
    limits = [
        ("time, Megatron-like on A100, median %", _errors(timed, MEGATRON_ON_A100).median(), 5.0),
        ("time, vTrain on one node, mean %", _errors(timed, "vtrain-single").mean(), 6.0),
        ("time, vTrain on several nodes, mean %", _errors(timed, "vtrain-multi").mean(), 7.0),
        ("time, other code on up to 128 H100, median %", _errors(few).median(), 10.0),
        ("time, other code on more H100, median %", _errors(many).median(), 15.0),
        ("the same, without runs twice as slow, median %", _errors(healthy).median(), 15.0),
        ("memory, median %", _percent(weighed, 0.5), 4.0),
        ("memory, 95th percentile %", _percent(weighed, 0.95), 18.0),
        ("overflowed, and we said it fits", float(wrongly_fits(table).sum()), 0.0),
        ("vendor's runs that ran, and we said overflows, %", false_alarms(table), 3.0),
    ]
    for what, reached, limit in limits:
        if not math.isnan(reached):
            found.append((what, reached, f"≤ {limit:g}", reached <= limit))
    ranks = ranking(timed)
    if len(ranks):
        share, regret = first_choices(ranks)
        found.append(("best layout among measured best 3, %", share, "≥ 90", share >= 90))
        what = "regret of the best layout, 90th percentile %"
        found.append((what, regret, "≤ 15", regret <= 15))
    if len(timed):
        inside = 100 * float(timed.inside.astype(float).mean())
        found.append(("inside the 80 % interval, %", inside, "75 – 85", 75 <= inside <= 85))
    return found


def _errors(timed: pd.DataFrame, sources: str = "") -> pd.Series[float]:
    """Return the errors of some sources in percent, without their signs."""
    return 100 * timed[timed.source.str.match(sources)].error.abs()


def false_alarms(table: pd.DataFrame) -> float:
    """Return the percentage of the vendor's runs that fitted although we said "overflows"."""
    ran = table[table.source.str.startswith("vendor") & (table.overflowed == False)]  # noqa: E712
    return 100 * float((ran.verdict == "overflows").mean()) if len(ran) else math.nan


MEGATRON_ON_A100 = r"megatron-sc21|korthikanti|vtrain|jubench|megatron-2021"
OTHER_ON_H100 = r"nanotron|llm-foundry-h100|torchtitan"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--rows", type=int, default=5, help="worst rows of each source to print")
    parser.add_argument("--write-residuals", action="store_true")
    parser.add_argument(
        "--held-out", action="store_true", help="also judge runs by intervals made without them"
    )
    arguments = parser.parse_args()
    unread: list[str] = []
    runs = [run for folder in arguments.folders for run in read_folder(folder, unread)]
    if not runs:
        print("\n".join([*unread, "no measured runs"]))
        return 1
    table = compared(runs)
    if arguments.write_residuals:
        write_residuals(table)
    with pd.option_context("display.width", 220, "display.max_columns", 40):
        print(by_source(table).round(1).to_string())
        print_worst(table, arguments.rows)
        if arguments.held_out:
            print(f"\n{held_out(table).round(1).to_string()}\n")
    results = goals(table)
    for what, reached, goal, met in results:
        print(f"{'met   ' if met else 'MISSED'}  {what}: {reached:.1f} (goal {goal})")
    for line in unread:
        print(f"not read: {line}")
    return 0 if all(met for *_, met in results) and not unread else 1


def print_worst(table: pd.DataFrame, count: int) -> None:
    shown = ["model", "devices", "t", "p", "d", "v", "mb", "m", "zero", "recompute"]
    for error, pair in (("error", "_s"), ("memory_error", "_gib")) if count else ():
        rows = table.dropna(subset=[error])
        for source, group in rows.groupby("source"):
            worst = group.loc[group[error].abs().sort_values(ascending=False).index[:count]]
            print(f"\n{source}: worst by {error}")
            columns = [*shown, f"measured{pair}", f"predicted{pair}", error]
            print(worst[columns].round(3).to_string(index=False))


if __name__ == "__main__":
    sys.exit(main())
