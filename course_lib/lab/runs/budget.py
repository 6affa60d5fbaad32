"""Device-hours: the possible cost of a run, the hours used, and a limit on submissions."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from course_lib.lab.errors import LabError
from course_lib.lab.job.recipe import Recipe
from course_lib.lab.queue.records import RECORDED, Record
from course_lib.lab.workspace import Workspace, plain, write_atomically
from course_lib.plan.numbers import real
from course_lib.words import _


@dataclass(frozen=True)
class Budget:
    """Device-hours of this workspace. `reserved` is the most that open jobs may still use."""

    limit: float | None
    used: float
    reserved: float

    @property
    def left(self) -> float:
        left = float("inf") if self.limit is None else self.limit - self.used - self.reserved
        return max(left, 0)

    def __repr__(self) -> str:
        return f"<Budget: {self.words}>"

    @property
    def words(self) -> str:
        spent = _(
            "{used:.2f} device-hours used, {reserved:.2f} reserved by open jobs",
            used=self.used,
            reserved=self.reserved,
        )
        if self.limit is None:
            return _("{spent}; no limit set", spent=spent)
        return _(
            "{spent}; {left:.2f} left of {limit:.2f}", spent=spent, left=self.left, limit=self.limit
        )

    def admit(self, recipe: Recipe) -> None:
        """Raise an error if the run could cost more than is left."""
        if recipe.device_hours <= self.left + 1e-9:
            return
        raise LabError(
            _(
                "{name} could cost {cost}, but the budget allows at most {minutes} minutes on "
                "these devices: {words}. Nothing was submitted. Ask for less, cancel a job that "
                "you do not need, or raise the limit with lab.set_budget(…)",
                name=recipe.name,
                cost=cost(recipe),
                minutes=int(self.left * 60 / recipe.devices),
                words=self.words,
            )
        )


def budget(workspace: Workspace, records: Iterable[Record]) -> Budget:
    used = reserved = 0.0
    for record in records:
        if record.cluster == RECORDED:
            continue  # these device-hours belong to somebody else
        if record.status is None:
            reserved += record.device_hours
        else:
            used += record.device_hours
    return Budget(_limit(workspace), used, reserved)


def set_limit(workspace: Workspace, device_hours: float | None) -> None:
    path = _file(workspace)
    if device_hours is None:
        path.unlink(missing_ok=True)
        return
    hours = real(device_hours)
    if hours is None or hours < 0:
        raise LabError(_(
            "{device_hours!r} is not a number of device-hours; use a number from "
            "0, or None to remove the limit",
            device_hours=device_hours,
        ))  # fmt: skip
    write_atomically(path, f"device_hours = {hours}\n")


def cost(recipe: Recipe) -> str:
    """Return `at most 4 devices × 10 min = 0.67 device-hours`."""
    if not recipe.devices:
        return _("no devices, at most {minutes} min", minutes=recipe.time_limit_minutes)
    return _(
        "at most {devices} device{s} × {minutes} min = {device_hours:.2f} device-hours",
        devices=recipe.devices,
        s="" if recipe.devices == 1 else "s",
        minutes=recipe.time_limit_minutes,
        device_hours=recipe.device_hours,
    )


def _limit(workspace: Workspace) -> float | None:
    path = _file(workspace)
    try:
        hours = real(tomllib.loads(plain(path).read_text(encoding="utf-8")).get("device_hours"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError):
        hours = None
    if hours is None or hours < 0:
        raise LabError(
            _(
                "{path} does not contain a limit of device-hours; it should hold one line such as "
                "`device_hours = 20.0`",
                path=path,
            )
        )
    return hours


def _file(workspace: Workspace) -> Path:
    return workspace.state / "budget.toml"
