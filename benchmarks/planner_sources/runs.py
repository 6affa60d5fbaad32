"""Measured runs in a common form, for comparison with predictions."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from warnings import warn

from course_lib.plan.checks import PlanError, positive
from course_lib.plan.code_bases import Stack, stack_of_software
from course_lib.plan.hardware.cluster import Cluster
from course_lib.plan.hardware.machines import cluster
from course_lib.plan.shapes.layout import Layout
from course_lib.plan.shapes.model import Model

COLUMNS = (
    *("source", "model", "hardware", "software", "devices_per_node"),
    *("layers", "hidden", "heads", "kv_groups", "ffn", "head_size", "sequence", "vocabulary"),
    *("pad_vocabulary_to", "tied", "positions", "activation", "norm", "bias", "dropout"),
    *("data", "tensor", "pipeline", "context", "virtual", "micro_batch", "global_batch", "zero"),
    *("sequence_parallel", "recompute", "recompute_method", "recompute_layers", "schedule"),
    *(
        "precision",
        "flash",
        "order",
        "stages",
        "iteration_s",
        "tokens_per_s",
        "peak_gib",
        "memory_of",
    ),
    *("memory_kind", "overflowed"),
)

REQUIRED = ("hardware", "software", "layers", "hidden", "heads", "sequence")


@dataclass(frozen=True)
class MeasuredRun:
    """Measured run. `memory_of` is the stage of the peak: "first", "last" or "max" over the stages.
    `memory_kind` is what was counted: "allocated" or "reserved" by the allocator, or the whole
    "device", as nvidia-smi shows it. `overflowed` is None if the source does not say whether a
    failed run ran out of memory."""

    source: str
    model: Model
    layout: Layout
    cluster: Cluster
    stack: Stack
    iteration_s: float | None = None
    peak_gib: float | None = None
    memory_of: str = "max"
    memory_kind: str = "reserved"
    overflowed: bool | None = False

    @property
    def group(self) -> tuple[object, ...]:
        """Return a key that is equal for runs with different layouts of the same job."""
        return (self.source, self.model, self.layout.devices, self.layout.global_batch)


def read_runs(path: Path) -> list[MeasuredRun]:
    """Read runs from a CSV file with the columns of `COLUMNS`; only `REQUIRED` ones must exist.
    Runs that cannot be planned are left out, with a warning that gives their lines and the reasons.
    Software that the planner does not know is planned as "unknown"."""
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    if not rows:
        return []
    missing = ", ".join(name for name in REQUIRED if name not in rows[0])
    if missing:
        raise PlanError(
            f"{path} has no column {missing}; a measured run needs at least "
            f"{', '.join(REQUIRED)} and iteration_s, tokens_per_s or peak_gib"
        )
    found: list[MeasuredRun] = []
    skipped: list[str] = []
    for number, row in enumerate(rows, start=2):
        try:
            found.append(from_row({name: text for name, text in row.items() if name and text}))
        except (PlanError, ValueError) as error:
            skipped.append(f"line {number}: {error}")
    if skipped and not found:
        raise PlanError(f"{path} has no run that can be planned; {skipped[0]}")
    if skipped:
        left = "\n  ".join(skipped)
        warn(f"{path}: {len(skipped)} of {len(rows)} runs are left out\n  {left}", stacklevel=2)
    return found


def from_row(row: dict[str, str]) -> MeasuredRun:
    if missing := ", ".join(name for name in REQUIRED if name not in row):
        raise PlanError(f"{missing} is empty; use a value in every required column")
    model, layout = _model(row), _layout(row)
    machine = cluster(row["hardware"], layout.devices)
    machine.device.peak_tflops(layout.precision)  # refuses a precision that the device lacks
    if "devices_per_node" in row:
        machine = machine.but(devices_per_node=_number(row, "devices_per_node"))
    seconds = _positive(row, "iteration_s")
    if seconds is None and (rate := _positive(row, "tokens_per_s")):
        seconds = layout.global_batch * model.sequence / rate
    return MeasuredRun(
        source=row.get("source", "unnamed"),
        model=model,
        layout=layout,
        cluster=machine,
        stack=stack_of_software(row["software"], layout.flash),
        iteration_s=seconds,
        peak_gib=_positive(row, "peak_gib"),
        memory_of=row.get("memory_of", "max"),
        memory_kind=row.get("memory_kind", "reserved"),
        overflowed=_truth(row["overflowed"]) if "overflowed" in row else False,
    )


def _truth(text: str) -> bool:
    return text.strip().lower() in ("1", "true", "yes")


def _positive(row: dict[str, str], name: str) -> float | None:
    return positive(name, _number(row, name)) if name in row else None


def _number(row: dict[str, str], name: str) -> float:
    """Read a number; tables may hold 8.0 for 8. The caller checks its type and range."""
    try:
        value = float(row[name])
    except ValueError:
        text = f"{name} = {row[name]!r} is not a number; use one such as 8"
        raise PlanError(text) from None
    return int(value) if value.is_integer() else value


def _whole(row: dict[str, str], names: str) -> dict[str, float]:
    return {name: _number(row, name) for name in names.split() if name in row}


def _flags(row: dict[str, str], names: str) -> dict[str, bool]:
    return {name: _truth(row[name]) for name in names.split() if name in row}


def _words(row: dict[str, str], names: str) -> dict[str, str]:
    return {name: row[name] for name in names.split() if name in row}


def _model(row: dict[str, str]) -> Model:
    whole = "layers hidden heads kv_groups ffn head_size sequence vocabulary pad_vocabulary_to"
    numbers, flags = _whole(row, whole), _flags(row, "tied bias dropout")
    words = _words(row, "positions activation norm")
    return Model(row.get("model", "unnamed"), **numbers, **flags, **words)  # type: ignore[arg-type]


def _layout(row: dict[str, str]) -> Layout:
    whole = "data tensor pipeline context virtual micro_batch global_batch zero recompute_layers"
    numbers, flags = _whole(row, whole), _flags(row, "sequence_parallel flash")
    words = _words(row, "recompute recompute_method schedule precision order stages")
    return Layout(**numbers, **flags, **words)  # type: ignore[arg-type]
