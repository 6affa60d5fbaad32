"""What to run: a program with its arguments, and how much of a cluster it needs."""

from __future__ import annotations

import re
import reprlib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from importlib import import_module
from types import MappingProxyType
from typing import Any

from course_lib.lab.errors import RecipeError, listed
from course_lib.lab.job import recipe_rules, value_types
from course_lib.lab.job.recipe_text import as_call, as_html, as_text
from course_lib.lab.job.unfinished import Unfinished
from course_lib.mistakes.arguments import explained_methods
from course_lib.mistakes.names import answers_misspelt
from course_lib.plan import Layout, Model
from course_lib.plan.numbers import real, whole

RUN_FOLDER = "{run}"
DATA_FOLDER = "{data}"
"""Stand in arguments for the folder of the run, known in the job only, and of the sample text."""
DEVICE_MEMORY = "COURSE_DEVICE_MEMORY_BYTES"
"""Tells a program how much memory its device has, where that is less than all of it."""
EMPTY: Mapping[str, str] = MappingProxyType({})
TABLES = ("environment", "directives")
MAKERS = ("fault", "gpt", "links", "program", "shell", "trial")
"""Modules whose `recipe` makes recipes, which `but` asks once more."""


@answers_misspelt
@explained_methods("recipe", "__init__", only_failures=True)
@dataclass(frozen=True, kw_only=True, repr=False)
class Recipe:
    """`program` is a file of `code/` or a path; `commands` are shell lines to run instead of one;
    `script` is a whole batch script to submit as it stands. `before` are shell lines that the job
    runs once before the program's processes start.

    `files` are programs of the workspace that the run takes along, copied into its folder.

    `launcher`: "torchrun" starts one launcher per node, which starts one process per device;
    "srun" starts the processes itself. `directives` are further #SBATCH lines, by long name.
    `model` and `layout` are what the arguments of a training run were made from; `made_by` and
    `keywords` say which function made the recipe of what, so that `but` can change any of it.
    """

    name: str
    program: str = ""
    arguments: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
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
    made_by: str = field(default="", compare=False)
    keywords: Mapping[str, Any] = field(default_factory=lambda: EMPTY, compare=False)

    def __post_init__(self) -> None:
        if wrong := [*value_types.problems(self), *value_types.no_texts(self)]:
            raise RecipeError(listed(wrong))
        for name in recipe_rules.LEAST:
            object.__setattr__(self, name, own_number(getattr(self, name)))
        for name in ("arguments", "files"):
            object.__setattr__(self, name, tuple(str(value) for value in getattr(self, name)))
        freeze_tables(self)
        kept = {name: _kept(value) for name, value in self.keywords.items()}
        object.__setattr__(self, "keywords", MappingProxyType(kept))
        if problems := recipe_rules.problems(self):
            raise RecipeError(listed(problems))
        if self.layout and self.layout.devices != self.devices:
            object.__setattr__(self, "layout", self._fitted(self.layout))

    def _fitted(self, layout: Layout) -> Layout:
        """The data ranks are what the other axes leave of the devices, in a recipe varied too."""
        try:
            return layout.but(data=self.devices // (layout.devices // layout.data))
        except ValueError as error:
            raise RecipeError(str(error)) from error

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

    def but(self, **changes: Any) -> Recipe | Unfinished:
        """The same recipe with some values changed: any that its function takes, as in
        `recipe.but(name="longer", iterations=100)`."""
        if self.made_by not in MAKERS:
            return replace(self, **changes)
        make = import_module(f"course_lib.lab.job.recipes.{self.made_by}").recipe
        made: Recipe | Unfinished = make(**{**self.keywords, **changes})
        return made

    def __repr__(self) -> str:
        return as_call(self)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        is_alone = len(getattr(printer, "stack", ())) <= 1  # not one of a list
        printer.text(as_text(self) if is_alone else as_call(self))

    def _repr_html_(self) -> str:
        return as_html(self)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, those left at their default omitted."""
        return table_of(self)

    @classmethod
    def from_dict(cls, table: Mapping[str, Any]) -> Recipe:
        """Reads what `to_dict` wrote; values that a later version added are passed over."""
        values = {"name": "", **_known(cls, table)}
        for name, kind in (("model", Model), ("layout", Layout)):
            if name in values:
                values[name] = _made(kind, name, values[name])
        given = values.get("keywords")
        if isinstance(given, Mapping) and isinstance(given.get("model"), Mapping):
            made = _made(Model, "keywords: model", given["model"])
            values["keywords"] = {**given, "model": made}
        return cls(**values)

    @classmethod
    def from_toml(cls, text: str, source: str = "recipe.toml") -> Recipe:
        table = value_types.parse(text, source, RecipeError)
        inner = table.get("recipe", table)
        if not isinstance(inner, Mapping):
            raise RecipeError(f"{source}: recipe = {reprlib.repr(inner)} is no table: [recipe]")
        try:
            return cls.from_dict(inner)
        except RecipeError as error:
            raise RecipeError(f"{source}: {error}") from error


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
        if value != (EMPTY if isinstance(value, Mapping) else entry.default)
    }


def _kept(value: Any) -> Any:
    """A keyword in a form that its file can hold and give back."""
    value = own_number(value)
    if isinstance(value, Mapping):
        return {str(name): _kept(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple | range):
        return tuple(_kept(inner) for inner in value)
    return value if value is None or isinstance(value, str | int | float | Model) else str(value)


def _plain(value: Any) -> Any:
    """As a file can hold it."""
    if is_dataclass(value):
        return {entry.name: inner for entry in fields(value)
                if (inner := getattr(value, entry.name)) is not None}  # fmt: skip
    if isinstance(value, Mapping):
        return {name: _plain(inner) for name, inner in value.items() if inner is not None}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value


def _known(kind: type, table: Mapping[str, Any]) -> dict[str, Any]:
    names = {entry.name for entry in fields(kind)}
    return {key: value for key, value in table.items() if key in names}


def _made(kind: type, name: str, table: Any) -> Any:
    """A model or a layout out of what a file holds."""
    if not isinstance(table, Mapping):
        raise RecipeError(f"{name} = {reprlib.repr(table)} is no table: [recipe.{name}]")
    try:
        return kind(**_known(kind, table))
    except (TypeError, ValueError) as error:
        raise RecipeError(f"{name}: {error}") from error
