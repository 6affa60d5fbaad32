"""Device-hours: the possible cost of a run, the hours used, and a limit on submissions."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass

from course_lib.lab.errors import BudgetError
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
        return float("inf") if self.limit is None else self.limit - self.used - self.reserved

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
        return _("{spent}; {left:.2f} left of {limit:.2f}",
                 spent=spent, left=max(self.left, 0), limit=self.limit)  # fmt: skip

    def admit(self, recipe: Recipe) -> None:
        """Raise an error if the run could cost more than is left."""
        if recipe.device_hours <= max(self.left, 0) + 1e-9:
            return
        minutes = int(max(self.left, 0) * 60 / recipe.devices)
        way = (
            _("ask for at most {minutes} minutes, or fewer devices", minutes=minutes)
            if minutes
            else _("cancel a job that you do not need")
        )
        raise BudgetError(
            _(
                "{name} could cost {recipe}. Only {left:.2f} of {limit:.2f} device-hours are "
                "left, because {used:.2f} are used and unfinished jobs reserve {reserved:.2f}. "
                "Nothing was submitted; {way}, or raise the limit with lab.set_budget(…)",
                name=recipe.name,
                recipe=cost(recipe),
                left=max(self.left, 0),
                limit=self.limit,
                used=self.used,
                reserved=self.reserved,
                way=way,
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
    path = workspace.state / "budget.toml"
    if device_hours is None:
        path.unlink(missing_ok=True)
        return
    hours = real(device_hours)
    if hours is None or hours < 0:
        raise BudgetError(_(
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
    path = workspace.state / "budget.toml"
    try:
        hours = real(tomllib.loads(plain(path).read_text(encoding="utf-8"))["device_hours"])
        if hours is None or hours < 0:
            raise ValueError(_("not a number of hours"))
        return hours
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise BudgetError(_(
            "{path} does not contain a limit of device-hours; it should hold one "
            "line such as `device_hours = 20.0`", path=path,
        )) from error  # fmt: skip
