"""The available recordings: find the run of a recipe, and return it as if it had run here."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
import uuid
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from course_lib.lab.errors import LabError
from course_lib.lab.job.recipe import Recipe
from course_lib.lab.job.script import NOT_WHAT_IS_RUN
from course_lib.lab.job.site import Site
from course_lib.lab.queue.records import RECORDED, Record, Registry, recorded
from course_lib.lab.queue.slurm import JobRow, Slurm
from course_lib.lab.queue.submission import Submission
from course_lib.lab.recorded import anonymous
from course_lib.lab.recorded.recording import ENDING, RecordedRun, Recording, RecordingError
from course_lib.lab.workspace import PROGRAM, Workspace, writing
from course_lib.shipped import SHIPPED
from course_lib.words import _

FOLDER = "recordings"
NAMED_BY = "COURSE_RECORDINGS"
# Site values that a lesson changes from run to run.
CHOSEN = ("link_gbit", "device_memory_gib")
# Variables that hold a learner's statements about a run, such as a prediction.
SAID_BESIDE = ("COURSE_CHALLENGE",)
LONGEST_WORDS, MOST_NAMED = 200, 20


class NoRecordingError(LabError, LookupError):
    """Error for a recipe of which no run was recorded."""


@dataclass(frozen=True)
class Found:
    recording: Recording
    run: RecordedRun

    @property
    def words(self) -> str:
        """Return where and when the run really took place."""
        manifest, site = self.recording.manifest, self.run.site
        where = manifest.machine  # for a cluster, this is the node on which the command was typed
        if not site.get("box"):
            device = f" ({site['device']})" if site.get("device") else ""
            where = f"{site.get('title') or site.get('name')}{device}"
        words = f"recorded on {manifest.date} on {where}"
        return "".join(letter for letter in words if letter.isprintable())[:LONGEST_WORDS]

    def unpack(self, target: Path) -> None:
        """Unpack the folder of the run, either completely or not at all."""
        with writing(target.parent):
            target.parent.mkdir(parents=True, exist_ok=True)
            unfinished = Path(tempfile.mkdtemp(prefix=".unfinished.", dir=target.parent))
            try:
                self.recording.unpack(self.run, unfinished)
                unfinished.chmod(0o755)
                unfinished.rename(target)
            except BaseException:
                shutil.rmtree(unfinished, ignore_errors=True)
                raise


class RecordingIndex:
    """All recordings of some folders. `refused` lists unusable files with reasons."""

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
    def of(cls, workspace: Workspace) -> RecordingIndex:
        if named := os.environ.get(NAMED_BY):
            return cls([Path(named).expanduser()])
        return cls(dict.fromkeys([workspace.folder / FOLDER, SHIPPED / FOLDER]))

    @cached_property
    def runs(self) -> list[Found]:
        return [Found(one, run) for one in self.recordings for run in one.manifest.runs]

    @property
    def printed(self) -> dict[str, str]:
        """Return the output of each command line, without letters that would move the cursor."""
        return {
            line: "".join(letter for letter in text if letter.isprintable() or letter in "\n\t")
            for recording in self.recordings
            for line, text in recording.manifest.printed.items()
        }

    def site(self) -> Site:
        """Return the site that most runs share, without values that were set for single runs."""
        if not self.runs:
            places = " or ".join(map(str, self.folders)) or _(
                "a folder {folder}/ of the workspace", folder=FOLDER
            )
            lines = [_("there are no recorded runs in {places}", places=places), *self.refused]
            raise NoRecordingError(
                "\n".join(
                    [
                        *lines,
                        _("`course record` makes recordings, or your instructor provides them"),
                    ]
                )
            )
        texts = Counter(
            json.dumps({n: v for n, v in found.run.site.items() if n not in CHOSEN}, sort_keys=True)
            for found in self.runs
        )
        return Site(**{"name": "recorded", **json.loads(texts.most_common(1)[0][0])})

    @property
    def device_pace(self) -> float:
        return self.recordings[0].manifest.device_pace if self.recordings else 1.0

    def find(self, recipe: Recipe, site: Site, files: Mapping[str, bytes]) -> Found:
        """Return the newest run of this recipe with the same programs and the same site choices. If
        several machines have such a run, prefer the run of the lab's own site."""
        names = anonymous.folders(Path(site.workspace)) | anonymous.private_words(recipe, {})
        wanted = _what(recipe.to_dict(), names), _chosen(site.to_dict())
        same = [
            found
            for found in self.runs
            if (_what(found.run.recipe, {}), _chosen(found.run.site)) == wanted
        ]
        if not same:
            raise NoRecordingError(self._none_of(recipe))
        files = {name: anonymous.in_bytes(content, names) for name, content in files.items()}
        fitting = [found for found in same if not _other_files(found.run, files)]
        if not fitting:
            other = ", ".join(sorted(_other_files(same[-1].run, files)))
            raise NoRecordingError(
                _(
                    "{name} was recorded with the solution's text of {other}, which differs from "
                    "yours. Nothing runs here. To run your own program, use the box or a cluster",
                    name=recipe.name,
                    other=other,
                )
            )
        return max(
            fitting, key=lambda f: (f.run.site.get("name") == site.name, f.run.submitted_unix_s)
        )

    def _none_of(self, recipe: Recipe) -> str:
        known = sorted({found.run.name for found in self.runs})
        line = _(
            "{name}: no run of this recipe was recorded, and nothing runs here.", name=recipe.name
        )
        if recipe.name in known:
            line += _(" {name} was recorded with different values.", name=recipe.name)
        more = f", and {len(known) - MOST_NAMED} more" if len(known) > MOST_NAMED else ""
        named = f"Recorded are: {', '.join(known[:MOST_NAMED])}{more}."
        return "\n".join([line, named, *self.refused])


def hand_out(registry: Registry, wanted: Submission) -> tuple[Record, Found]:
    """Make a recorded run look as if it was submitted here: create its folder and a record that
    says it ended. The caller holds the lock of the workspace."""
    found = RecordingIndex.of(registry.workspace).find(wanted.recipe, wanted.site, wanted.files)
    run, number = found.run, 0
    folder = registry.workspace.runs / run.folder
    while folder.exists():  # the folder of a run that was made here, or was handed out before
        number += 1
        folder = registry.workspace.runs / f"{run.folder}.{number}"
    found.unpack(folder)
    record = Record(
        token=uuid.uuid4().hex[:16], name=run.name, key=wanted.key, job_id=run.job_id,
        program_digest=wanted.program_digest, folder=folder.name, site=wanted.site.name,
        cluster=RECORDED, submitted_unix_s=run.submitted_unix_s, devices=wanted.recipe.devices,
        time_limit_minutes=wanted.recipe.time_limit_minutes, origin=found.words, released=True,
        final=asdict(run.status),
    )  # fmt: skip
    return registry.save(record), found


def runs_elsewhere(workspace: Workspace, recipe: Recipe, site: Site) -> list[Record]:
    """Return the newest run of this recipe on each other cluster, with any site choices. These runs
    are for reading and lie beside the runs of this workspace."""
    wanted = _what(recipe.to_dict(), anonymous.folders(Path(site.workspace)))
    index, newest, records = RecordingIndex.of(workspace), {}, []
    for found in sorted(index.runs, key=lambda found: found.run.submitted_unix_s):
        name = str(found.run.site.get("name", ""))
        if name != site.name and _what(found.run.recipe, {}) == wanted:
            newest[name] = found
    for found in newest.values():
        folder = workspace.elsewhere / found.recording.path.stem / found.run.folder
        if not folder.is_dir():
            found.unpack(folder)
        records.append(replace(recorded(folder), origin=found.words))
    return records


class NoSlurm(Slurm):
    """A client without Slurm: its queue is empty and other commands fail."""

    def call(self, *words: str, **more: Any) -> str:
        raise LabError(
            _("{words}: nothing runs here, because this lab uses recorded runs", words=words[0])
        )

    def cluster(self) -> str:
        return RECORDED

    def queue(self) -> list[JobRow]:
        return []

    def accounting(self, job_ids: Any) -> dict[int, JobRow]:
        return {}


def _what(recipe: Mapping[str, Any], names: Mapping[str, str]) -> str:
    """Return the part of a recipe that affects the run, independent of the machine."""
    table = {name: value for name, value in recipe.items() if name not in NOT_WHAT_IS_RUN}
    said = table.get("environment", {})
    table["environment"] = {name: said[name] for name in said if name not in SAID_BESIDE}
    return json.dumps(anonymous.as_on_any_machine(anonymous.in_table(table, names)), sort_keys=True)


def _chosen(site: Mapping[str, Any]) -> dict[str, Any]:
    return {name: site[name] for name in CHOSEN if site.get(name)}


def _other_files(run: RecordedRun, files: Mapping[str, bytes]) -> set[str]:
    """Return the learner's own programs whose text differs."""
    start = f"{PROGRAM}/"
    theirs = {file.path.removeprefix(start): file.sha256 for file in run.files
              if file.path.startswith(start)}  # fmt: skip
    ours = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    return {name for name in theirs.keys() | ours.keys() if theirs.get(name) != ours.get(name)}
