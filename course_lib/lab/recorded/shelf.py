"""The recordings that lie at hand, and which of their runs is of a given recipe."""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from course_lib.lab.errors import LabError
from course_lib.lab.job.recipe import Recipe
from course_lib.lab.job.run_paths import PROGRAM
from course_lib.lab.job.site import Site
from course_lib.lab.recorded import paths
from course_lib.lab.recorded.machine import day
from course_lib.lab.recorded.recording import ENDING, RecordedRun, Recording, RecordingError
from course_lib.lab.workspace import PACKAGE, Workspace
from course_lib.mistakes.names import near

FOLDER = "recordings"
NAMED_BY = "COURSE_RECORDINGS"
CHOSEN = ("link_gbit", "device_memory_gib")
"""What a lesson changes of its site from run to run."""
NOT_WHAT_IS_RUN: dict[str, Any] = {
    "note": "",
    "model": None,
    "layout": None,
    "made_by": "",
    "keywords": {},
}
SAID_BESIDE = ("COURSE_CHALLENGE",)
"""Variables in which a learner says something of a run, such as what is foreseen of it."""
LONGEST_WORDS, MOST_NAMED = 200, 20


class NoRecordingError(LabError, LookupError):
    """No run of this recipe was recorded."""


@dataclass(frozen=True)
class Found:
    recording: Recording
    run: RecordedRun

    @property
    def words(self) -> str:
        """Its banner: where and when it was really run."""
        head, site = self.recording.head, self.run.site
        where = head.machine  # of a cluster it is the node where somebody typed
        if not site.get("box"):
            device = f" ({site['device']})" if site.get("device") else ""
            where = f"{site.get('title') or site.get('name')}{device}"
        told = f"recorded on {day(head.date)} on {where}"
        return "".join(letter for letter in told if letter.isprintable())[:LONGEST_WORDS]


class Shelf:
    """`refused`: files that lie there and cannot be used, each with why."""

    def __init__(self, folders: Iterable[Path]):
        self.folders = [folder for folder in folders if folder.is_dir()]
        self.recordings: list[Recording] = []
        self.refused: list[str] = []
        for file in sorted(path for folder in self.folders for path in folder.glob(f"*{ENDING}")):
            try:
                self.recordings.append(Recording(file))
            except RecordingError as error:
                self.refused.append(str(error))

    @classmethod
    def of(cls, workspace: Workspace) -> Shelf:
        if named := os.environ.get(NAMED_BY):
            return cls([Path(named).expanduser()])
        return cls(dict.fromkeys([workspace.folder / FOLDER, PACKAGE.parent / FOLDER]))

    @cached_property
    def runs(self) -> list[Found]:
        return [Found(one, run) for one in self.recordings for run in one.head.runs]

    def site(self) -> Site:
        """That of most of its runs, with nothing chosen for one of them."""
        if not self.runs:
            lines = [f"there are no recorded runs in {self._places}", *self.refused]
            raise NoRecordingError(
                "\n".join([*lines, "`course record` makes them, or somebody hands them out"])
            )
        plain = [_unchosen(found.run.site) for found in self.runs]
        texts = Counter(json.dumps(site, sort_keys=True) for site in plain)
        return Site(**{"name": "recorded", **json.loads(texts.most_common(1)[0][0])})

    @property
    def device_pace(self) -> float:
        paces = [recording.head.device_pace for recording in self.recordings]
        return paces[0] if paces else 1.0

    def find(self, recipe: Recipe, site: Site, files: Mapping[str, bytes]) -> Found:
        """The newest run of this recipe, at a site with the same choices, of the same programs;
        of several machines' runs one of the site that the lab has."""
        told = paths.folders(Path(site.workspace)) | paths.private_words(recipe, {})
        wanted = _what(recipe.to_dict(), told), _chosen(site.to_dict())
        same = [
            found
            for found in self.runs
            if (_what(found.run.recipe, {}), _chosen(found.run.site)) == wanted
        ]
        if not same:
            raise NoRecordingError(self._none_of(recipe, told))
        files = {name: paths.in_bytes(content, told) for name, content in files.items()}
        fitting = [found for found in same if not _other_files(found.run, files)]
        if not fitting:
            other = ", ".join(sorted(_other_files(same[-1].run, files)))
            raise NoRecordingError(
                f"{recipe.name}: it was recorded with another text of {other}. Nothing runs here: "
                "what you write yourself needs the box or a cluster. The text that was recorded is "
                "that of the solution"
            )
        return max(
            fitting, key=lambda f: (f.run.site.get("name") == site.name, f.run.submitted_unix_s)
        )

    def elsewhere(self, recipe: Recipe, site: Site) -> list[Found]:
        """Runs of this recipe on other clusters, the newest of each, whatever was chosen there."""
        wanted = _what(recipe.to_dict(), paths.folders(Path(site.workspace)))
        newest: dict[str, Found] = {}
        for found in sorted(self.runs, key=lambda found: found.run.submitted_unix_s):
            name = str(found.run.site.get("name", ""))
            if name != site.name and _what(found.run.recipe, {}) == wanted:
                newest[name] = found
        return list(newest.values())

    def _none_of(self, recipe: Recipe, told: Mapping[str, str]) -> str:
        names = sorted({found.run.name for found in self.runs})
        lines = [f"{recipe.name}: no run of this recipe was recorded, and nothing runs here."]
        if recipe.name in names:
            lines.append(f"{recipe.name} was recorded with other values:")
            theirs = next(found.run for found in self.runs if found.run.name == recipe.name)
            lines += differences(Recipe.from_dict(theirs.recipe), recipe, told)
        elif close := near(recipe.name, names, most=3):
            lines.append(f"Near it: {', '.join(close)}.")
        more = f", and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
        lines.append(f"Recorded are: {', '.join(names[:MOST_NAMED])}{more}.")
        return "\n".join([*lines, *self.refused])

    @property
    def _places(self) -> str:
        named = [str(folder) for folder in self.folders]
        return " or ".join(named) or f"a folder {FOLDER}/ of the workspace"


def differences(theirs: Recipe, ours: Recipe, folders: Mapping[str, str]) -> list[str]:
    """What was recorded beside what is asked, a line for each flag or field. Folders are told as
    in recordings."""
    tables = []
    for recipe in (theirs, ours):
        plain = replace(recipe, arguments=(), **NOT_WHAT_IS_RUN).to_dict()
        plain["environment"] = _environment(plain)
        tables.append(paths.in_table({**plain, **recipe.flags}, folders))
    recorded, asked = tables
    return [
        f"  {name}: {_value(recorded.get(name))} was recorded, {_value(asked.get(name))} is asked"
        for name in dict.fromkeys([*recorded, *asked])
        if recorded.get(name) != asked.get(name)
    ]


def _value(value: Any) -> str:
    return "none" if value is None else str(value)[:60]


def _what(recipe: Mapping[str, Any], told: Mapping[str, str]) -> str:
    """What of a recipe is run, as one text, as any machine would tell it."""
    plain = Recipe.from_dict(recipe).to_dict()
    what = {name: value for name, value in plain.items() if name not in NOT_WHAT_IS_RUN}
    what["environment"] = _environment(plain)
    return json.dumps(paths.as_on_any_machine(paths.in_table(what, told)), sort_keys=True)


def _environment(plain: Mapping[str, Any]) -> dict[str, str]:
    said = plain.get("environment", {})
    return {name: value for name, value in said.items() if name not in SAID_BESIDE}


def _chosen(site: Mapping[str, Any]) -> dict[str, Any]:
    return {name: site[name] for name in CHOSEN if site.get(name)}


def _other_files(run: RecordedRun, files: Mapping[str, bytes]) -> set[str]:
    """Programs of the learner's own whose text differs."""
    start = f"{PROGRAM}/"
    theirs = {file.path.removeprefix(start): file.sha256 for file in run.files
              if file.path.startswith(start)}  # fmt: skip
    ours = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    return {name for name in theirs.keys() | ours.keys() if theirs.get(name) != ours.get(name)}


def _unchosen(site: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in site.items() if name not in CHOSEN}
