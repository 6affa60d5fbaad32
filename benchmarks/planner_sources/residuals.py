"""Intervals from residuals: their computation, and their coverage of runs left out of it."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

import pandas as pd

from course_lib.plan.published.intervals import RESIDUALS

FEWEST_FOR_RESIDUALS = 12
FOLDS = 5
# Runs of one model on more and more devices add little information. So bounds of a kind with few
# runs of few models are wider: with each model left out of the fit of NeMo's runs on H100 in turn,
# its error was up to 10 %, and in the fit up to 5 %.
MANY_RUNS, MANY_MODELS, FEW_WIDEN = 40, 10, 1.05

# A run that took more than this many times as long as predicted had a cause of its own. From the
# second number on, the share of slow runs in a kind moves the upper bound of its interval.
SLOW, OFTEN = 2, 0.1

# For an unmeasured code base, the interval must also cover the differences between code bases. With
# each family of sources left out in turn, these quantiles of the others contain 80 % of its runs.
UNKNOWN_QUANTILE = 0.08

RESIDUALS_OF = {
    "time_keys": "error",
    "unknown_keys": "unknown_error",
    "memory_keys": "memory_error",
}

Bounds = dict[str, dict[str, Any]]


def family(source: str) -> str:
    """Return the code base of a source: "vtrain" for "vtrain-single", or Megatron-LM's papers."""
    first = source.split("-", maxsplit=1)[0]
    return "megatron" if first in ("korthikanti", "jubench") else first


def residuals(table: pd.DataFrame) -> Bounds:
    """Return bounds of measured / predicted for every kind of run with enough runs."""
    found: Bounds = {}
    for keys, error in RESIDUALS_OF.items():
        rows = table.dropna(subset=[error])
        families = rows.source.map(family)
        ratios = pd.DataFrame(
            {
                "key": rows[keys],
                "ratio": 1 / (1 + rows[error]),
                "error": rows[error].abs(),
                "devices": rows.devices,
                "sequence": rows.sequence,
                "bits": rows.bits,
                "model": rows.model,
                "messages": rows.messages,
                "measured_s": rows.measured_s,
                "predicted_s": rows.measured_s * (1 + rows[error]),
                # Every family has the same weight, however many runs it has.
                "share": 1 / families.groupby(families).transform("size"),
            }
        )
        for key, group in ratios.explode("key").groupby("key"):
            if len(group) < FEWEST_FOR_RESIDUALS:
                continue
            if keys == "unknown_keys":
                low, high = _of_families(group.ratio, group.share)
            else:
                low, high = _four_of_five(sorted(group.ratio))
            slow, lost_s = group[group.ratio > SLOW], 0.0
            if keys == "time_keys" and len(slow) >= OFTEN * len(group):
                lost_s = float(((slow.measured_s - slow.predicted_s) / slow.messages).median())
                slow_s = group.predicted_s + lost_s * group.messages
                high = _four_of_five(sorted(group.measured_s / slow_s))[1]
            if len(group) < MANY_RUNS and group.model.nunique() < MANY_MODELS:
                low, high = low / FEW_WIDEN, high * FEW_WIDEN
            found[str(key)] = {
                # If most runs of a kind were slow, a healthy one still lies inside.
                "low": round(min(low, 1.0), 3),
                "high": round(max(high, 1.0), 3),
                "runs": len(group),
                "median": round(float(group.error.median()), 3),
                "devices": int(group.devices.max()),
                "sequence": int(group.sequence.max()),
                "slow": round(len(slow) / len(group), 3),
                "lost_s": round(lost_s, 3),
                "precisions": sorted(group.bits.unique()),
            }
    return found


def write_residuals(table: pd.DataFrame) -> None:
    text = json.dumps(residuals(table), indent=1, sort_keys=True)
    RESIDUALS.write_text(text + "\n", encoding="utf-8")


def _four_of_five(ordered: list[float]) -> tuple[float, float]:
    """Return bounds that contain a further run of the kind in four of five cases: a tenth of the
    ranks on each side, as if the new run took one, and between two runs if need be (conformal)."""
    outside = max(0.0, (len(ordered) + 1) / 10 - 1)
    place, part = math.floor(outside), outside % 1
    low, high = ordered[place : place + 2], ordered[::-1][place : place + 2]
    return low[0] ** (1 - part) * low[1] ** part, high[0] ** (1 - part) * high[1] ** part


def _of_families(ratio: pd.Series[float], share: pd.Series[float]) -> tuple[float, float]:
    ordered = ratio.sort_values()
    reached = share[ordered.index].cumsum() / share.sum()
    low = float(ordered[reached >= UNKNOWN_QUANTILE].iloc[0])
    return low, float(ordered[reached >= 1 - UNKNOWN_QUANTILE].iloc[0])


def held_out(table: pd.DataFrame) -> pd.DataFrame:
    """Return the percentage of runs inside intervals computed without them: as a known code base,
    without the models of its fold; as unknown, without its family."""
    timed = table.dropna(subset=["error"]).reset_index(drop=True)
    names = sorted(timed.model.unique(), key=hash_of)
    folds = timed.model.map({name: number % FOLDS for number, name in enumerate(names)})
    families = timed.source.map(family)
    known = _inside(timed, folds, "time_keys", "error")
    unknown = _inside(timed, families, "unknown_keys", "unknown_error")
    rows = []
    for name, part in timed.groupby(families):
        rows.append(
            {
                "family": name,
                "runs": len(part),
                "inside, known %": 100 * known[part.index].mean(),
                "inside, unknown %": 100 * unknown[part.index].mean(),
                "unknown, median error %": 100 * part.unknown_error.abs().median(),
            }
        )
    found = pd.DataFrame(rows).set_index("family")
    found.loc["mean of families"] = found.mean()
    found.loc["all runs", "inside, known %"] = 100 * known.mean()
    return found


def hash_of(text: str) -> int:
    """Return a hash that is the same on every machine, unlike Python's own."""
    return sum(ord(letter) * 31**place % 9973 for place, letter in enumerate(text))


def _inside(
    timed: pd.DataFrame, parts: pd.Series[object], keys: str, error: str
) -> pd.Series[bool]:
    inside = pd.Series(False, index=timed.index)
    for part in parts.unique():
        held = timed[parts == part]
        bounds = residuals(timed[parts != part].assign(memory_error=math.nan, memory_keys=None))
        for index, row in held.iterrows():
            low, high, lost_s = _bounds(bounds, row[keys])
            predicted_s = row.measured_s * (1 + row[error])
            slow_s = predicted_s + lost_s * row.messages
            inside[index] = low * predicted_s <= row.measured_s <= high * slow_s
    return inside


def _bounds(bounds: Bounds, keys: Sequence[str]) -> tuple[float, float, float]:
    for key in keys:
        if key in bounds:
            return bounds[key]["low"], bounds[key]["high"], bounds[key]["lost_s"]
    return 0.5, 2.0, 0.0
