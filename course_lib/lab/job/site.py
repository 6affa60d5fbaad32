"""A site: the settings with which one cluster accepts jobs, read from a TOML file."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from course_lib.lab.errors import SiteError, listed
from course_lib.lab.job.recipe import (
    EMPTY,
    keep_plain_values,
    name_problems,
    parse_toml,
    read_text,
    table_of,
    unknown_word,
    wrong_kinds,
)
from course_lib.lab.workspace import account
from course_lib.mistakes.arguments import explained_methods
from course_lib.mistakes.names import suggests_similar_names
from course_lib.words import _

PRESETS = Path(__file__).parent / "sites"
ASKS = ("gpus-per-node", "gres", "gpus-per-task", "none")
VALUE_OF = re.compile(r"\$(?P<brace>\{)?(?P<name>[A-Za-z_]\w*)(?(brace)\})")
KINDS = ("cpu", "cuda", "rocm")
# Fields about this machine, not about the cluster: paths of the course, and `recorded`. If
# `recorded` is true, no job runs, and recorded runs of this site replace jobs.
PLACE = ("workspace", "programs", "data", "path", "recorded")


@suggests_similar_names
@explained_methods("site", "__init__", only_failures=True)
@dataclass(frozen=True, kw_only=True)
class Site:
    """The settings of a cluster as one flat table. The TOML file's sections only help its reader.

    `ask` is the way to request devices. `skip` names directives that this cluster does not accept.
    `commands` prepare the software; each is a list of words. `link_gbit` and `device_memory_gib`
    can be chosen only on the box.
    """

    name: str
    title: str = ""
    box: bool = False
    account: str = ""
    partition: str = ""
    reservation: str = ""
    qos: str = ""
    directives: Mapping[str, str] = field(default_factory=lambda: EMPTY)
    skip: tuple[str, ...] = ()
    fill_in: tuple[str, ...] = ()
    ask: str = "gpus-per-node"
    kind: str = "cuda"
    device: str = ""
    gres_type: str = ""
    cpus_per_device: int = 0
    threads_per_process: int = 0
    login_shell: bool = False
    commands: tuple[tuple[str, ...], ...] = ()
    container: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=lambda: EMPTY)
    venv: str = ""
    host_suffix: str = ""
    interface: str = ""
    link_gbit: float = 0.0
    device_memory_gib: float = 0.0
    workspace: str = ""
    programs: str = ""
    data: str = ""
    path: str = ""
    recorded: bool = False

    def __post_init__(self) -> None:
        problems = [*wrong_kinds(self)]
        if not problems:
            keep_plain_values(self)
            problems = [*self._problems()]
        if problems:
            raise SiteError(
                _("site {name!r}: {problems}", name=self.name, problems=listed(problems))
            )

    def _problems(self) -> Iterator[str]:
        yield from unknown_word("ask", self.ask, ASKS)
        yield from unknown_word("kind", self.kind, KINDS)
        for name in ("link_gbit", "device_memory_gib"):
            if getattr(self, name) and not self.box:
                yield _(
                    "{name} can be set on the box only; a real cluster has a fixed value",
                    name=name,
                )
        yield from name_problems(self.environment, (*self.directives, *self.skip))
        for key in {*self.fill_in} - {entry.name for entry in fields(self)}:
            yield _("fill_in: {key!r} is not a field of a site", key=key)

    @property
    def missing(self) -> list[str]:
        """Return the fields that the learner must fill in before a job can run."""
        return [name for name in self.fill_in if not getattr(self, name)]

    def but(self, **changes: Any) -> Site:
        return replace(self, **changes)

    def to_dict(self, *, place: bool = True) -> dict[str, Any]:
        """Return plain values and omit defaults. With `place`, include paths of this machine."""
        return {name: value for name, value in table_of(self).items() if place or name not in PLACE}


# Order of the sections in a file that we write. A file that we read may have any order.
SECTIONS = {
    "slurm": ("account", "partition", "reservation", "qos", "directives", "skip"),
    "devices": ("ask", "kind", "device", "gres_type", "cpus_per_device",
                "device_memory_gib"),
    "nodes": ("threads_per_process",),
    "setup": ("login_shell", "commands", "container", "environment", "venv"),
    "network": ("host_suffix", "interface", "link_gbit"),
}  # fmt: skip


def from_toml(text: str, source: str = "site.toml") -> Site:
    """Read a site. One error lists all unknown keys; another lists all wrong values."""
    table = parse_toml(text, source, SiteError)
    known = {entry.name for entry in fields(Site)} - set(PLACE)
    values: dict[str, Any] = {}
    unknown = []
    for key, value in table.items():
        if key in SECTIONS and isinstance(value, dict):
            values |= {name: inner for name, inner in value.items() if name in known}
            unknown += [f"[{key}] {name}" for name in value if name not in known]
        elif key in known:
            values[key] = value
        else:
            unknown.append(key)
    if unknown:
        raise SiteError(
            _(
                "{source} has unknown fields: {unknown}. The known are: {known}",
                source=source,
                unknown=", ".join(unknown),
                known=", ".join(sorted(known)),
            )
        )
    values.setdefault("name", "slurm")
    return Site(**{name: _expand(value, source) for name, value in values.items()})


def load(path: Path) -> Site:
    return from_toml(read_text(path, SiteError), str(path))


def presets() -> list[str]:
    return sorted(path.stem for path in PRESETS.glob("*.toml"))


def preset_path(name: str) -> Path:
    if name not in presets():
        raise SiteError(
            _("no site preset {name!r}; use one of {value}", name=name, value=", ".join(presets()))
        )
    return PRESETS / f"{name}.toml"


def preset(name: str) -> Site:
    return load(preset_path(name))


def _expand(value: Any, source: str) -> Any:
    """Replace `~` and `$NAME` here, because the script quotes every value."""
    if isinstance(value, str):
        known = {"USER": account(), **os.environ}
        whole = str(Path(value).expanduser()) if value.startswith("~") else value
        text = VALUE_OF.sub(lambda found: known.get(found["name"], found[0]), whole)
        if left := VALUE_OF.search(text):
            raise SiteError(
                _(
                    "{source}: {value!r} uses {left}, which is not set; set this variable first",
                    source=source,
                    value=value,
                    left=left[0],
                )
            )
        return text
    if isinstance(value, list):
        return [_expand(item, source) for item in value]
    if isinstance(value, dict):
        return {key: _expand(item, source) for key, item in value.items()}
    return value
