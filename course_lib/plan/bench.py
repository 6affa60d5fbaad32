"""`course bench`: the benchmark of lesson 15, planned for the machine on which it was published."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

from course_lib.plan.checks import PlanError
from course_lib.plan.estimate import Estimate, predict
from course_lib.plan.layout import Layout
from course_lib.plan.machines import CLUSTERS, cluster
from course_lib.plan.presets import preset

TOKENS_TO_REPORT = 20e6
ACCEPTED_S = {"175": 560.0}


@dataclass(frozen=True)
class Case:
    """A size of the benchmark with the result published for it (JUBE's table, JUWELS Booster)."""

    tag: str
    layout: Layout
    nodes: int
    published_tokens_per_s: float


def _layout(data: int, tensor: int, pipeline: int, steps: int) -> Layout:
    return Layout(
        data=data,
        tensor=tensor,
        pipeline=pipeline,
        global_batch=data * steps,
        sequence_parallel=True,
        zero=1,
        precision="fp16",
    )


CASES = {
    "13": Case("13", _layout(4, 2, 4, 256), nodes=8, published_tokens_per_s=60777.68),
    "175": Case("175", _layout(6, 8, 8, 16), nodes=96, published_tokens_per_s=36055.39),
}


def time_to_report_s(tokens_per_s: float) -> float:
    return TOKENS_TO_REPORT / tokens_per_s


def plan_case(tag: str, machine: str = "juwels-booster") -> Estimate:
    case = CASES[tag]
    where = cluster(machine, case.layout.devices)
    return predict(preset(f"{tag}b"), case.layout, where, "megatron-2023")


def result_rows(tag: str, estimate: Estimate) -> list[tuple[str, str, str]]:
    """(what, planned, published)."""
    case, layout = CASES[tag], estimate.layout
    published = case.published_tokens_per_s
    report = time_to_report_s(published)
    low, high = estimate.interval
    planned = estimate.tokens_per_s
    rows = [
        ("model size", f"{tag} B", f"{tag} B"),
        ("nodes", str(estimate.cluster.nodes), str(case.nodes)),
        ("global batch", str(layout.global_batch), str(layout.global_batch)),
        ("pipeline", str(layout.pipeline), str(layout.pipeline)),
        ("tensor", str(layout.tensor), str(layout.tensor)),
        ("tokens/s", f"{planned:.2f}", f"{published:.2f}"),
        ("time to report for 20 M tokens (s)", f"{time_to_report_s(planned):.2f}", f"{report:.2f}"),
        ("80 % interval (s)", _interval_text(estimate, low, high), ""),
        ("memory of the fullest device (GiB)", f"{estimate.device_gib:.1f}", ""),
        ("of", f"{estimate.capacity_gib:.1f}: {estimate.verdict}", ""),
    ]
    if tag in ACCEPTED_S:
        limit = ACCEPTED_S[tag]
        words = "yes" if time_to_report_s(planned) <= limit else "no"
        rows.append((f"accepted (≤ {limit:.0f} s)", words, "yes" if report <= limit else "no"))
    return rows


def _interval_text(estimate: Estimate, low: float, high: float) -> str:
    rate = estimate.tokens / TOKENS_TO_REPORT
    return f"{low / rate:.0f} – {high / rate:.0f}"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="course bench", description=__doc__)
    parser.add_argument("--tag", choices=sorted(CASES), required=True, help="billions of weights")
    parser.add_argument(
        "--machine", default="juwels-booster", help=f"one of: {', '.join(CLUSTERS)}"
    )
    arguments = parser.parse_args(argv)
    try:
        estimate = plan_case(arguments.tag, arguments.machine)
    except PlanError as error:
        print(f"course bench: {error}")
        return 2
    print(f"Planned, not run: {estimate.cluster.name}, {estimate.cluster.device.name}.\n")
    rows = [("", "planned", "published"), *result_rows(arguments.tag, estimate)]
    for what, planned, published in rows:
        print(f"{what:<36} {planned:>22} {published:>12}")
    return 0
