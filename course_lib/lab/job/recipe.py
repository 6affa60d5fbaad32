"""What to run: a program with its arguments, and how much of a cluster it needs."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from types import MappingProxyType
from typing import Any

from course_lib.lab.errors import RecipeError, listed
from course_lib.plan import Layout, Model
from course_lib.plan.numbers import real, whole

RUN_FOLDER = "{run}"
DATA_FOLDER = "{data}"
"""Stand in arguments for the folder of the run, known in the job only, and of the sample text."""
DEVICE_MEMORY = "COURSE_DEVICE_MEMORY_BYTES"
"""Tells a program how much memory its device has, where that is less than all of it."""
LAUNCHERS = ("torchrun", "srun")
NAME = re.compile(r"\w[\w.+-]{0,63}")
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
DIRECTIVE = re.compile(r"[a-z][a-z0-9-]*")
EMPTY: Mapping[str, str] = MappingProxyType({})
TABLES = ("environment", "directives")
LEAST = {"nodes": 1, "gpus_per_node": 0, "cpus_per_task": 0, "time_limit_minutes": 1}


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """`program` is a file of `code/` or a path; `commands` are shell lines to run instead of one;
    `script` is a whole batch script to submit as it stands. `before` are shell lines that the job
    runs once before the program's processes start.

    `launcher`: "torchrun" starts one launcher per node, which starts one process per device;
    "srun" starts the processes itself. `directives` are further #SBATCH lines, by long name.
    `model` and `layout` are what the arguments of a training run were made from.
    """

    name: str
    program: str = ""
    arguments: tuple[str, ...] = ()
    commands: str = ""
    before: str = ""
    script: str = ""
    nodes: int = 1
    gpus_per_node: int = 1
    cpus_per_task: int = 0
    time_limit_minutes: int = 10
    launcher: str = "torchrun"
    tee: bool = False
    monitor: bool = False
    environment: Mapping[str, str] = field(default_factory=lambda: EMPTY)
    directives: Mapping[str, str] = field(default_factory=lambda: EMPTY)
    note: str = ""
    model: Model | None = None
    layout: Layout | None = None

    def __post_init__(self) -> None:
        for name in LEAST:
            object.__setattr__(self, name, own_number(getattr(self, name)))
        object.__setattr__(self, "arguments", tuple(str(value) for value in self.arguments))
        freeze_tables(self)
        if problems := [*self._name_problems(), *self._size_problems(), *self._what_problems()]:
            raise RecipeError(listed(problems))
        if self.layout and self.layout.devices != self.devices:
            object.__setattr__(self, "layout", self._fitted(self.layout))

    def _fitted(self, layout: Layout) -> Layout:
        """The data ranks are what the other axes leave of the devices, in a recipe varied too."""
        try:
            return layout.but(data=self.devices // (layout.devices // layout.data))
        except ValueError as error:
            raise RecipeError(str(error)) from error

    def _name_problems(self) -> list[str]:
        problems = []
        if not isinstance(self.name, str) or not NAME.fullmatch(self.name):
            works = re.sub(r"[^\w.+-]+", "-", str(self.name)).strip("-.+")[:64] or "run1"
            problems.append(
                f"name {self.name!r} would name a job and a folder: use letters, digits, `-`, `_`, "
                f'`.` and `+`, at most 64, such as "{works}"'
            )
        for key in self.environment:
            if not VARIABLE.fullmatch(key):
                works = re.sub(r"\W", "_", key) or "NAME"
                problems.append(f'environment: {key!r} is no variable name; use "{works}"')
        for key in self.directives:
            if not DIRECTIVE.fullmatch(key):
                problems.append(
                    f"directives: {key!r} is no long option of sbatch; write it without dashes in "
                    'front, such as "constraint"'
                )
        return problems

    def _size_problems(self) -> list[str]:
        problems = []
        for name, low in LEAST.items():
            value = getattr(self, name)
            if whole(value) is None or value < low:
                problems.append(f"{name} {value!r} is not a whole number of at least {low}")
        if self.launcher not in LAUNCHERS:
            problems.append(f"launcher {self.launcher!r} is unknown; use {' or '.join(LAUNCHERS)}")
        if self.program and self.gpus_per_node == 0:
            problems.append("gpus_per_node 0 leaves the program no process; use 1 or more")
        return problems

    def _what_problems(self) -> list[str]:
        given = [what for what in ("program", "commands", "script") if getattr(self, what)]
        if len(given) != 1:
            found = " and ".join(given) or "none of them"
            return [f"a recipe has a program, or commands, or a script; this one has {found}"]
        shell = (self.commands, self.before)
        texts = (self.program, *self.arguments, *self.environment.values(), *shell)
        if any("\0" in text for text in (*texts, self.script)):
            return ["a value holds a NUL byte, which no program can be given; remove it"]
        return []

    @property
    def devices(self) -> int:
        return self.nodes * self.gpus_per_node

    @property
    def device_hours(self) -> float:
        """What the run may cost at most: its time limit on all its devices."""
        return self.devices * self.time_limit_minutes / 60

    @property
    def tasks_per_node(self) -> int:
        one_each = self.program and self.launcher == "srun"
        return max(self.gpus_per_node, 1) if one_each else 1

    @property
    def flags(self) -> dict[str, str | bool]:
        """The arguments as a table: `--bf16` → True, `--seed 1` → "1", `--a b c` → "b c"."""
        table: dict[str, str | bool] = {}
        name = ""
        for argument in self.arguments:
            if re.match(r"--?[A-Za-z]", argument):
                name, equals, value = argument.partition("=")
                table[name] = value if equals else True
            elif name:
                before = table[name]
                table[name] = argument if before is True else f"{before} {argument}"
        return table

    def but(self, **changes: Any) -> Recipe:
        """The same recipe with some values changed."""
        return replace(self, **changes)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, those left at their default omitted."""
        return table_of(self)

    @classmethod
    def from_dict(cls, table: Mapping[str, Any]) -> Recipe:
        """Reads what `to_dict` wrote; values that a later version added are passed over."""
        values = _known(cls, table)
        for name, kind in (("model", Model), ("layout", Layout)):
            if name in values:
                values[name] = kind(**_known(kind, values[name]))
        return cls(**values)

    @classmethod
    def from_toml(cls, text: str) -> Recipe:
        table = tomllib.loads(text)
        return cls.from_dict(table.get("recipe", table))


def own_number(value: Any) -> Any:
    """Python's own number where this is a number in any form (numpy's, a fraction, a Series of
    one), so that keys, files and scripts do not depend on it; else the value itself."""
    number: float | None = whole(value)
    if number is None:
        number = real(value)
    return value if number is None else number


def freeze_tables(made: Any) -> None:
    """The tables of a recipe or a site as text, not to be changed any more."""
    for name in TABLES:
        values = {str(key): str(value) for key, value in getattr(made, name).items()}
        object.__setattr__(made, name, MappingProxyType(values))


def table_of(made: Any) -> dict[str, Any]:
    """Plain values of a recipe or a site, those left at their default omitted."""
    values = {entry: getattr(made, entry.name) for entry in fields(made)}
    return {
        entry.name: _plain(value)
        for entry, value in values.items()
        if value != (EMPTY if entry.name in TABLES else entry.default)
    }


def _plain(value: Any) -> Any:
    """As a file can hold it."""
    if is_dataclass(value):
        return {entry.name: inner for entry in fields(value)
                if (inner := getattr(value, entry.name)) is not None}  # fmt: skip
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value


def _known(kind: type, table: Mapping[str, Any]) -> dict[str, Any]:
    names = {entry.name for entry in fields(kind)}
    return {key: value for key, value in table.items() if key in names}
