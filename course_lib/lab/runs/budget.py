"""Device-hours: what a run may cost, what was spent, and a limit that refuses."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass

from course_lib.lab.errors import BudgetError
from course_lib.lab.job.recipe import Recipe
from course_lib.lab.job.site import Site
from course_lib.lab.plain_files import plain
from course_lib.lab.queue.records import RECORDED, Record
from course_lib.lab.workspace import Workspace, write_atomically
from course_lib.plan.numbers import real


@dataclass(frozen=True)
class Budget:
    """Device-hours of this workspace. `reserved` is what jobs that have not ended may still use;
    `limit` None sets no limit."""

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
        spent = f"{self.used:.2f} device-hours used, {self.reserved:.2f} reserved by open jobs"
        if self.limit is None:
            return f"{spent}; no limit set"
        return f"{spent}; {max(self.left, 0):.2f} left of {self.limit:.2f}"

    def admit(self, recipe: Recipe) -> None:
        """Raises where the run could cost more than is left."""
        if recipe.device_hours <= self.left + 1e-9:
            return
        minutes = int(max(self.left, 0) * 60 / recipe.devices)
        way = (
            f"ask for at most {minutes} minutes, or fewer devices"
            if minutes
            else "cancel a job that is not needed"
        )
        raise BudgetError(
            f"{recipe.name} could cost {cost(recipe)}, and {max(self.left, 0):.2f} of the "
            f"workspace's {self.limit:.2f} device-hours are left ({self.used:.2f} used, "
            f"{self.reserved:.2f} reserved by jobs that have not ended). Nothing was submitted: "
            f"{way}, or raise the limit with lab.set_budget(…)"
        )


def budget(workspace: Workspace, records: Iterable[Record]) -> Budget:
    used = reserved = 0.0
    for record in records:
        if record.cluster == RECORDED:
            continue  # somebody else's device-hours
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
        raise BudgetError(
            f"a budget of {device_hours!r} device-hours cannot be; use a number from 0, or None to "
            "lift the limit"
        )
    write_atomically(path, f"device_hours = {hours}\n")


def cost(recipe: Recipe, site: Site | None = None) -> str:
    """`at most 4 devices × 10 min = 0.67 device-hours`, with the price where it is known."""
    if not recipe.devices:
        return f"no devices, at most {recipe.time_limit_minutes} min"
    ending = "" if recipe.devices == 1 else "s"
    text = f"{recipe.devices} device{ending} × {recipe.time_limit_minutes} min"
    text = f"at most {text} = {recipe.device_hours:.2f} device-hours"
    if site and site.price_per_device_hour:
        text += (
            f" = {recipe.device_hours * site.price_per_device_hour:.2f} {site.currency}".rstrip()
        )
    return text


def _limit(workspace: Workspace) -> float | None:
    path = workspace.state / "budget.toml"
    try:
        hours = real(tomllib.loads(plain(path).read_text(encoding="utf-8"))["device_hours"])
        if hours is None or hours < 0:
            raise ValueError("no number of hours")
        return hours
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise BudgetError(
            f"{path} does not say how many device-hours may be spent; it should hold one line such "
            "as `device_hours = 20.0`"
        ) from error
