"""Memory traces and profiles of a run on this device, checked with the readers."""

from __future__ import annotations

from typing import Any

from acceptance import jobs
from acceptance.notes import Notes
from course_lib import gpt, read

RECORDED = (3, 5)
TOLERANCE = 0.05


def look(notes: Notes) -> None:
    lab = jobs.lab(notes.folder)
    model = "tiny" if notes.rehearse else "gpt2"
    given = {"model": model, "micro_batch": 4, "iterations": 6, "log_memory_interval": 1}
    traced = lab.submit(gpt.recipe("traced", memory=RECORDED, **given)).require()
    profiled = lab.submit(gpt.recipe("profiled", profile=RECORDED, **given)).require()
    memory(notes, traced)
    profile(notes, profiled)
    left_out = [name for run in (traced, profiled) for name in jobs.keep(run, notes.folder)]
    notes.fact("too large to keep", ", ".join(left_out) or "nothing")


def memory(notes: Notes, run: Any) -> None:
    timeline = run.memory[0]
    parts = timeline.peak_composition
    for name, size in parts.items():
        notes.fact(f"{name} at the peak", f"{size / 2**20:.1f} MiB")
    notes.check("traced on", timeline.device == "cuda" or notes.rehearse, timeline.device)
    expected = 4 * run.log.parameter_count
    near = abs(parts["parameters"] / expected - 1) < TOLERANCE
    notes.check("parameters are 4 bytes each", near, f"{parts['parameters']} of {expected}")
    notes.check("the state of Adam is twice that", parts["optimizer"] > 1.9 * expected)
    counted = float(run.log.memory["max_allocated_mib"].max())
    traced = timeline.peak_bytes / 2**20
    near = abs(traced / counted - 1) < TOLERANCE or notes.rehearse  # processors count pages
    notes.check("the allocator's peak is the traced one", near, f"{counted:.0f} and {traced:.0f}")
    for snapshot in sorted((run.folder / "snapshots").glob("*.pickle")):
        found = read.memory(snapshot)
        peaks = [f"{timeline.peak_bytes / 2**20:.0f} MiB" for timeline in found]
        notes.check(f"{snapshot.name} is read", len(found) > 0, ", ".join(peaks))


def profile(notes: Notes, run: Any) -> None:
    found = run.profile
    notes.fact("profiled device", found.device_kind)
    steps = found.step_time
    notes.check(
        "both steps are in the profile", len(steps) >= RECORDED[1] - RECORDED[0], len(steps)
    )
    notes.check("operators have times", len(found.operators) > 0, len(found.operators))
    kernels = len(found.kernels)
    notes.check("kernels have times", kernels > 0 or notes.rehearse, kernels)
    notes.fact("GPU utilisation", found.gpu_utilisation)
    notes.fact("advice", "; ".join(str(advice) for advice in found.recommendations) or "none")
