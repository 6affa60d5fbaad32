"""Where the numbers of an executed notebook come from: on what machine, when, by which jobs.

`course run` writes it into the notebook; the book says it below the title of the page. No host,
account or path is in it.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from course_lib.lab.queue.records import Record
from course_lib.lab.recorded.machine import day, machine
from course_lib.words import ENGLISH, told

WERE_RECORDED = "recorded on "
RECORDED = re.compile(rf"{WERE_RECORDED}(?P<day>\d+ \w+ \d+) on (?P<where>.+)")
ON_THE_BOX = "on the box"
KEY = "course"
"""In the metadata of a notebook."""


@dataclass(frozen=True)
class Origin:
    machine: str
    date: str
    """As ISO writes it, `2026-11-23`."""
    sites: tuple[str, ...] = ()
    """Where its jobs ran: `on the box`, or `recorded on 1 March 2026 on …`."""
    runs: tuple[str, ...] = ()
    """Folders of the runs that this lesson made, in the order of their submission."""

    def words(self, language: str = ENGLISH) -> str:
        count = len(self.runs)
        jobs = f"{count} job{'' if count == 1 else 's'}" if count else "no jobs"
        parts = [told(part, language) for part in (jobs, *_each_machine_once(self.sites))]
        if self.sites and all(site.startswith(WERE_RECORDED) for site in self.sites):
            return ", ".join(parts)  # what only read them here measured nothing
        when, where = (told(words, language) for words in (day(self.date), self._where()))
        return f"{', '.join([when, *parts])}; {where}"

    def _where(self) -> str:
        here = {ON_THE_BOX, *(site for site in self.sites if site.startswith(WERE_RECORDED))}
        is_here = here.issuperset(self.sites)  # otherwise it is a login node, maybe
        return self.machine if is_here else f"the notebook on {self.machine}"


def _each_machine_once(sites: tuple[str, ...]) -> list[str]:
    """What was recorded on several days of one machine is one part."""
    days: dict[str, list[str]] = {}
    for site in sites:
        recorded = RECORDED.fullmatch(site)
        where, date = (recorded["where"], recorded["day"]) if recorded else (site, "")
        days.setdefault(where, []).append(date)
    return [_at_days(where, of_it) for where, of_it in days.items()]


def _at_days(where: str, days: list[str]) -> str:
    *others, last = days
    if not last:
        return where
    if not others:
        return f"recorded on {last} on {where}"
    return f"recorded on {', '.join(others)} and on {last} on {where}"


def of(records: Iterable[Record]) -> Origin:
    """Of a lesson that ran here, today."""
    made = list(records)
    sites = tuple(dict.fromkeys(record.origin or _at(record.site) for record in made))
    runs = tuple(record.folder for record in made)
    return Origin(machine(), time.strftime("%Y-%m-%d"), sites, runs)


def _at(site: str) -> str:
    return {"box": ON_THE_BOX, "slurm": "on a Slurm cluster"}.get(site, f"on the cluster {site}")


def write(notebook: Any, origin: Origin) -> None:
    notebook.metadata[KEY] = asdict(origin)


def read(notebook: Any) -> Origin | None:
    """None where the notebook does not say, or says what cannot be meant."""
    told = notebook.metadata.get(KEY)
    if not isinstance(told, dict) or not isinstance(told.get("machine"), str):
        return None
    sites, runs = (told.get(name, ()) for name in ("sites", "runs"))
    if not all(isinstance(names, list | tuple) for names in (sites, runs)):
        return None
    texts = [tuple(map(str, names)) for names in (sites, runs)]
    return Origin(told["machine"], str(told.get("date", "")), *texts)
