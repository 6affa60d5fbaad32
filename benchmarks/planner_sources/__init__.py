"""Converters of published measurements into one form, one per source, selected by its columns.

Each converter decides, in one place and with the reason, what its source does not state."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pandas as pd

from course_lib.plan import PlanError
from planner_sources.bigscience import bigscience
from planner_sources.common import Row
from planner_sources.fsdp import llm_foundry, single_file, torchtitan
from planner_sources.megatron import (
    jubench,
    korthikanti,
    megatron_2020,
    megatron_2021,
    megatron_sc21,
    vtrain,
)
from planner_sources.megatron_ci import megatron_ci
from planner_sources.nanotron import nanotron
from planner_sources.runs import COLUMNS, MeasuredRun, read_runs
from planner_sources.vendor import bridge, published

CONVERTERS: dict[frozenset[str], Callable[[Row], MeasuredRun | None]] = {
    frozenset({"interleave_v_derived", "dp_derived"}): megatron_sc21,
    frozenset({"interleave_m", "iter_time_s"}): korthikanti,
    frozenset({"system", "iter_time_ms", "scaling_pct"}): megatron_2020,
    frozenset({"tp*pp*dp==n_gpus", "params_B_as_published"}): vtrain,
    frozenset({"system", "TFLOPs_per_gpu", "options"}): jubench,
    frozenset({"n_kv_heads_inferred", "zero_stage", "succeeded"}): nanotron,
    frozenset({"mem_max_allocated_bytes", "test_case", "suite"}): megatron_ci,
    frozenset({"file", "section", "size_label", "hw_TFLOPs_per_gpu", "mem_note"}): bigscience,
    frozenset({"fsdp(dp_shard)", "local_batch", "torch_compile"}): torchtitan,
    frozenset({"tokens_per_iter", "recompute", "sharding"}): single_file,
    frozenset({"model_parallel_size", "achieved_TFLOPs_per_gpu"}): megatron_2021,
    frozenset({"fsdp_sharding", "mfu_pct", "n_params"}): llm_foundry,
    frozenset({"fully_specified", "hardware", "n_experts", "iter_time_s"}): published,
    frozenset({"release", "task", "model_TFLOPs_per_gpu", "fsdp"}): bridge,
}


def _rename(name: str) -> str:
    """Return a column name that is a valid Python identifier."""
    if name == "fsdp(dp_shard)":
        return "fsdp_ranks"
    return "memory_gib" if name.startswith("peak_gpu_mem_reported") else name


def read_file(path: Path) -> Iterator[MeasuredRun]:
    """Yield the runs of one CSV file of any source; a PlanError has the reason if there are
    none."""
    with path.open(encoding="utf-8-sig") as file:
        header = set(next(file, "").strip().split(","))
    found = [make for columns, make in CONVERTERS.items() if columns <= header]
    if not found and {"hardware", "software"} <= header and header & set(COLUMNS):
        yield from read_runs(path)
        return
    if not found:
        raise PlanError(
            "its columns are of no source that planner_sources/ knows; use those that "
            "benchmarks/README.md lists"
        )
    table = pd.read_csv(path).rename(columns=_rename)
    for row in table.itertuples(index=False):
        try:
            run = found[0](row)
        except PlanError as error:
            print(f"{path.name}: left out: {error}")
            continue
        if run is not None:
            yield run


def read_folder(folder: Path, unread: list[str]) -> list[MeasuredRun]:
    """Read the runs of a folder; add a line to `unread` for each file without a usable run."""
    runs: list[MeasuredRun] = []
    files = sorted(path for path in folder.glob("*") if path.suffix.lower() == ".csv")
    if not files:
        unread.append(f"{folder}: there is no CSV file in it")
    for path in files:
        found: list[MeasuredRun] = []
        try:
            if not path.is_file():
                raise PlanError("is not a plain file")
            found.extend(read_file(path))
        except (PlanError, ValueError, OSError) as error:
            unread.append(f"{path}: {error}")
        else:
            if not found:
                unread.append(f"{path}: none of its rows is a run that can be planned")
        runs += found
    return runs
