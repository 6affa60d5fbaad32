"""Origin of an executed notebook's numbers: machine, date and jobs.

`course run` writes it into the notebook, and the book shows it below the page's title. It contains
no host, account or path.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import msgspec

from course_lib.lab.queue.records import Record
from course_lib.lab.recorded.machine import described, machine, recorded_words
from course_lib.words import N_, _

WERE_RECORDED = "recorded on "
ON_THE_BOX = N_("on the box")
# Names of places as they are stored, in English.
KNOWN_PLACES = {"box": ON_THE_BOX, "slurm": N_("on a Slurm cluster")}
CLUSTER = "on the cluster "
# Key in the metadata of a notebook.
KEY = "course"


@dataclass(frozen=True)
class Origin:
    machine: str
    # ISO date, `2026-11-23`.
    date: str
    # Places where the jobs ran: `on the box`, or `recorded on 2026-03-01 on …`.
    sites: tuple[str, ...] = ()
    # Folders of the runs that this lesson submitted, in order.
    runs: tuple[str, ...] = ()

    def words(self) -> str:
        count = len(self.runs)
        jobs = (
            _("{count} job{s}", count=count, s="" if count == 1 else "s") if count else _("no jobs")
        )
        parts = [jobs, *map(_place, self.sites)]
        if self.sites and all(site.startswith(WERE_RECORDED) for site in self.sites):
            return ", ".join(parts)  # this machine only read the results
        return f"{', '.join([self.date, *parts])}; {self._where()}"

    def _where(self) -> str:
        here = {ON_THE_BOX, *(site for site in self.sites if site.startswith(WERE_RECORDED))}
        is_here = here.issuperset(self.sites)  # otherwise this may be a login node
        machine = described(self.machine)
        return machine if is_here else _("the notebook on {machine}", machine=machine)


def of(records: Iterable[Record]) -> Origin:
    """Return the origin of a lesson that ran on this machine today."""
    made = list(records)
    sites = tuple(dict.fromkeys(record.origin or _at(record.site) for record in made))
    runs = tuple(record.folder for record in made)
    return Origin(machine(), time.strftime("%Y-%m-%d"), sites, runs)


def _at(site: str) -> str:
    return KNOWN_PLACES.get(site, f"{CLUSTER}{site}")


def _place(site: str) -> str:
    """Translate the stored English name of a place."""
    if site.startswith(WERE_RECORDED):
        return recorded_words(site)
    if site.startswith(CLUSTER):
        return _("on the cluster {site}", site=site.removeprefix(CLUSTER))
    return next((str(place) for place in KNOWN_PLACES.values() if place == site), site)


def write(notebook: Any, origin: Origin) -> None:
    notebook.metadata[KEY] = asdict(origin)


def read(notebook: Any) -> Origin | None:
    """Read a notebook's origin; None if it is missing or invalid."""
    try:
        return msgspec.convert(notebook.metadata.get(KEY), Origin)
    except msgspec.ValidationError:
        return None
