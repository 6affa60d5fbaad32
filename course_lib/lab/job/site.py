"""Where to run: what one cluster wants to be told, read from a TOML file."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from course_lib.lab.errors import SiteError, listed
from course_lib.lab.job import value_types
from course_lib.lab.job.recipe import (
    EMPTY,
    freeze_tables,
    own_number,
    table_of,
)
from course_lib.lab.job.recipe_rules import DIRECTIVE, VARIABLE
from course_lib.lab.plain_files import account, home
from course_lib.mistakes.arguments import explained_methods
from course_lib.mistakes.names import answers_misspelt
from course_lib.plan.numbers import real

PRESETS = Path(__file__).parent / "sites"
ASKS = ("gpus-per-node", "gres", "gpus-per-task", "none")
VALUE_OF = re.compile(r"\$(?P<brace>\{)?(?P<name>[A-Za-z_]\w*)(?(brace)\})")
KINDS = ("cpu", "cuda", "rocm")
PLACE = ("workspace", "programs", "data", "path", "recorded")
"""Fields that say where the course lies on this machine, not what the cluster is like; `recorded`:
that nothing runs here, and runs that were recorded on this site stand in for jobs."""


@answers_misspelt
@explained_methods("site", "__init__", only_failures=True)
@dataclass(frozen=True, kw_only=True)
class Site:
    """The sections of the TOML file are for its reader; here they are one flat table.

    `ask` is how devices are asked for; `skip` names directives that this cluster must not be
    given; `commands` prepare the software, each a list of words. `link_gbit` and
    `device_memory_gib` can be chosen on the box alone.
    """

    name: str
    title: str = ""
    documentation: str = ""
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
    devices_per_node: int = 0
    max_nodes: int = 0
    max_minutes: int = 0
    cpus_per_device: int = 0
    threads_per_process: int = 0
    login_shell: bool = False
    commands: tuple[tuple[str, ...], ...] = ()
    container: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=lambda: EMPTY)
    venv: str = ""
    host_suffix: str = ""
    interface: str = ""
    scratch: str = ""
    internet: bool = True
    price_per_device_hour: float = 0.0
    currency: str = ""
    link_gbit: float = 0.0
    device_memory_gib: float = 0.0
    workspace: str = ""
    programs: str = ""
    data: str = ""
    path: str = ""
    recorded: bool = False

    def __post_init__(self) -> None:
        if wrong := value_types.problems(self):
            raise SiteError(f"site {self.name!r}: {listed(wrong)}")
        for name in ("skip", "fill_in", "container"):
            object.__setattr__(self, name, tuple(map(str, getattr(self, name))))
        object.__setattr__(self, "commands", tuple(_command(line) for line in self.commands))
        for entry in fields(self):
            if entry.type in ("int", "float"):
                object.__setattr__(self, entry.name, own_number(getattr(self, entry.name)))
        freeze_tables(self)
        if problems := [*self._value_problems(), *self._name_problems()]:
            raise SiteError(f"site {self.name!r}: {listed(problems)}")

    def _value_problems(self) -> list[str]:
        problems = []
        for name, allowed in (("ask", ASKS), ("kind", KINDS)):
            if getattr(self, name) not in allowed:
                problems.append(f"{name} {getattr(self, name)!r} is unknown; use {_or(allowed)}")
        for entry in fields(self):
            value = getattr(self, entry.name)
            if entry.type in ("int", "float") and (real(value) is None or value < 0):
                problems.append(f"{entry.name} {value!r} is not a number of at least 0")
            elif entry.type == "str" and (not isinstance(value, str) or "\0" in value):
                problems.append(f'{entry.name} {value!r} is no text; write {entry.name} = "…"')
        if not self.box:
            for name in ("link_gbit", "device_memory_gib"):
                if getattr(self, name):
                    problems.append(f"{name} can be chosen on the box only; a real cluster has its")
        return problems

    def _name_problems(self) -> list[str]:
        problems = [
            f"directives, skip: {key!r} is no long option of sbatch; write it without dashes, such "
            "as constraint"
            for key in (*self.directives, *self.skip)
            if not DIRECTIVE.fullmatch(key)
        ]
        problems += [
            f"environment: {key!r} is no variable name"
            for key in self.environment
            if not VARIABLE.fullmatch(key)
        ]
        known = {entry.name for entry in fields(self)}
        problems += [f"fill_in: {key!r} is no field" for key in self.fill_in if key not in known]
        return problems

    @property
    def missing(self) -> list[str]:
        """What the learner still has to write into the site file before anything can run."""
        return [name for name in self.fill_in if not getattr(self, name)]

    def but(self, **changes: Any) -> Site:
        return replace(self, **changes)

    def to_dict(self, *, place: bool = True) -> dict[str, Any]:
        """Plain values, those left at their default omitted; `place`: paths of this machine too."""
        return {name: value for name, value in table_of(self).items() if place or name not in PLACE}


SECTIONS = {
    "slurm": ("account", "partition", "reservation", "qos", "directives", "skip", "max_minutes"),
    "devices": ("ask", "kind", "device", "gres_type", "devices_per_node", "cpus_per_device",
                "device_memory_gib"),
    "nodes": ("max_nodes", "threads_per_process"),
    "setup": ("login_shell", "commands", "container", "environment", "venv", "scratch"),
    "network": ("host_suffix", "interface", "internet", "link_gbit"),
    "price": ("price_per_device_hour", "currency"),
}  # fmt: skip
"""Order of the sections in a file that we write; in a file that we read any order will do."""


def from_toml(text: str, source: str = "site.toml") -> Site:
    """A site; what is unknown, of the wrong type or undefined is named, all of it at once."""
    table = value_types.parse(text, source, SiteError)
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
        raise SiteError(f"{source} has {', '.join(unknown)}; known are: {', '.join(sorted(known))}")
    values.setdefault("name", "slurm")
    return Site(**{name: _expand(value, source) for name, value in values.items()})


def load(path: Path) -> Site:
    return from_toml(value_types.read_text(path, SiteError), str(path))


def presets() -> list[str]:
    return sorted(path.stem for path in PRESETS.glob("*.toml"))


def preset_path(name: str) -> Path:
    if name not in presets():
        raise SiteError(f"no site preset {name!r}; there are: {', '.join(presets())}")
    return PRESETS / f"{name}.toml"


def preset(name: str) -> Site:
    return load(preset_path(name))


def _expand(value: Any, source: str) -> Any:
    """`~` and `$NAME` are replaced here, because in the script every value is quoted."""
    if isinstance(value, str):
        known = {"USER": account(), "HOME": home(), **os.environ}
        whole = home() + value[1:] if value == "~" or value.startswith("~/") else value
        text = VALUE_OF.sub(lambda found: known.get(found["name"], found[0]), whole)
        if left := VALUE_OF.search(text):
            raise SiteError(f"{source}: {value!r} uses {left[0]}, which is not set here; set it")
        return text
    if isinstance(value, list):
        return [_expand(item, source) for item in value]
    if isinstance(value, dict):
        return {key: _expand(item, source) for key, item in value.items()}
    return value


def _command(line: Any) -> tuple[str, ...]:
    if isinstance(line, str):
        works = ", ".join(f'"{part}"' for part in line.split())
        raise SiteError(f"commands: {line!r} is one text; write each command as words: [{works}]")
    return tuple(str(part) for part in line)


def _or(values: tuple[str, ...]) -> str:
    return " or ".join(values)
