"""Rows of the tables that the lab shows."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from course_lib.lab.queue.records import Record
from course_lib.lab.queue.slurm import Status

RUN_COLUMNS = [
    "name", "job_id", "state", "reason", "site", "devices", "submitted", "elapsed_s",
    "device_hours", "folder",
]  # fmt: skip


def run_row(record: Record, status: Status) -> dict[str, Any]:
    return {
        "name": record.name,
        "job_id": record.job_id,
        "state": status.state,
        "reason": status.words,
        "site": record.site,
        "devices": record.devices,
        "submitted": datetime.fromtimestamp(record.submitted_unix_s).replace(microsecond=0),
        "elapsed_s": status.elapsed_s,
        "device_hours": round(record.device_hours, 4) if status.ended else None,
        "folder": "" if record.cleaned else f"runs/{record.folder}",
    }


def plain(columns: Sequence[str], rows: list[dict[str, Any]]) -> str:
    """Format a table for a terminal. Loading pandas would take longer than printing."""
    cells = [columns, *([_cell(row[name]) for name in columns] for row in rows)]
    widths = [max(len(line[i]) for line in cells) for i in range(len(columns))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in cells
    )


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:g}" if isinstance(value, float) else str(value)
