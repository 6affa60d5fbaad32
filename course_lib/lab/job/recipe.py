"""A recipe: a program with its arguments, and how much of a cluster it needs."""

from __future__ import annotations

import re
import reprlib
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from course_lib.lab.errors import LabError, RecipeError, listed
from course_lib.lab.job.unfinished import Unfinished
from course_lib.lab.workspace import plain
from course_lib.mistakes.arguments import explained_methods
from course_lib.mistakes.kinds import is_truth_value, shown
from course_lib.mistakes.names import suggests_similar_names
from course_lib.plan import Layout, Model
from course_lib.plan.numbers import real, unboxed, whole
from course_lib.words import N_, _

RUN_FOLDER = "{run}"
# Placeholders in arguments for the run folder, known only in the job, and for the sample text.
DATA_FOLDER = "{data}"
# Tells a program how much device memory it may use, if that is less than all of it.
DEVICE_MEMORY = "COURSE_DEVICE_MEMORY_BYTES"
EMPTY: Mapping[str, str] = MappingProxyType({})
# Modules whose `recipe` function makes recipes. `Recipe.but` calls it again.
MAKERS = ("fault", "gpt", "links", "program", "shell", "trial")

LAUNCHERS = ("torchrun", "srun")
# A letter has up to four bytes and a file name up to 255. Folders and records add up to 40 bytes.
NAME = re.compile(r"\w[\w.+-]{0,47}")
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
DIRECTIVE = re.compile(r"[a-z][a-z0-9-]*")
SHOWN_OF_A_VALUE = 60


@suggests_similar_names
@explained_methods("recipe", "__init__", only_failures=True)
@dataclass(frozen=True, kw_only=True, repr=False)
class Recipe:
    """A program or script, its arguments and the resources it needs.

    `program` is a file of `code/` or a path. `commands` are shell lines to run instead of a
    program. `script` is a whole batch script, submitted unchanged. `before` are shell lines that
    the job runs once before the program's processes start. `files` are programs of the workspace
    that are copied into the run's folder.

    `launcher`: "torchrun" starts one launcher per node, which starts one process per device; "srun"
    starts the processes itself. `directives` are further #SBATCH lines, by long name. `model` and
    `layout` are the source of a training run's arguments. `made_by` and `keywords` record the
    function that made the recipe and its keywords, so that `but` can change them.
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
        if wrong := [*wrong_kinds(self)]:
            raise RecipeError(listed(wrong))
        keep_plain_values(self)
        if problems := [*_problems(self)]:
            raise RecipeError(listed(problems))

    @property
    def devices(self) -> int:
        return self.nodes * self.gpus_per_node

    @property
    def device_hours(self) -> float:
        """Return the highest possible cost: the time limit on all devices."""
        return self.devices * self.time_limit_minutes / 60

    @property
    def tasks_per_node(self) -> int:
        one_each = self.program and self.launcher == "srun"
        return max(self.gpus_per_node, 1) if one_each else 1

    @property
    def flags(self) -> dict[str, str | bool]:
        """Return a table of arguments: `--bf16` → True, `--seed 1` → "1", `--a b c` → "b c"."""
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
        """Return the same recipe with changed values. Any keyword of its function is allowed, as in
        `recipe.but(name="longer", iterations=100)`."""
        if self.made_by not in MAKERS:
            return replace(self, **changes)
        make = import_module(f"course_lib.lab.job.recipes.{self.made_by}").recipe
        made: Recipe | Unfinished = make(**{**self.keywords, **changes})
        return made

    def __repr__(self) -> str:
        """Return the call that makes the recipe again."""
        given = self.keywords if self.made_by else self.to_dict()
        left_out = ("name", "model", "layout", "arguments") if not self.made_by else ("name",)
        words = [f"{name}={_short(value)}" for name, value in given.items() if name not in left_out]
        function = f"{self.made_by}.recipe" if self.made_by else "Recipe"
        return f"{function}({', '.join([repr(self.name), *words])})"

    def to_dict(self) -> dict[str, Any]:
        """Return plain values and omit defaults."""
        return table_of(self)

    @classmethod
    def from_dict(cls, table: Mapping[str, Any]) -> Recipe:
        """Read the table that `to_dict` wrote. Values from a later version are ignored."""
        if not isinstance(table, Mapping):
            raise RecipeError(_("recipe = {table} is not a table", table=reprlib.repr(table)))
        known = {entry.name for entry in fields(cls)}
        values = {"name": "", **{name: value for name, value in table.items() if name in known}}
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
        table = parse_toml(text, source, RecipeError)
        try:
            return cls.from_dict(table.get("recipe", table))
        except RecipeError as error:
            raise RecipeError(f"{source}: {error}") from error


def own_number(value: Any) -> Any:
    """Convert any kind of number or truth value (numpy's, a fraction, a Series of one) to Python's
    own. Return other values unchanged. Keys, files and scripts then do not depend on its type."""
    number: float | None = whole(value)
    if number is None:
        number = real(value)
    if number is None and isinstance(found := unboxed(value), bool):
        return found
    return value if number is None else number


def keep_plain_values(made: Any) -> None:
    """Store Python's own numbers, tuples of texts and read-only tables in a recipe or a site."""
    for entry in fields(made):
        if kind := KINDS.get(str(entry.type)):
            object.__setattr__(made, entry.name, kind.store(getattr(made, entry.name)))


def table_of(made: Any) -> dict[str, Any]:
    """Return plain values of a recipe or a site and omit defaults."""
    values = {entry: getattr(made, entry.name) for entry in fields(made)}
    return {
        entry.name: _plain(value)
        for entry, value in values.items()
        if value != (EMPTY if isinstance(value, Mapping) else entry.default)
    }


def storable(value: Any) -> Any:
    """Convert a keyword to a form that a file can store and restore."""
    value = own_number(value)
    if isinstance(value, Mapping):
        return {str(name): storable(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple | range):
        return tuple(storable(inner) for inner in value)
    return value if value is None or isinstance(value, str | int | float | Model) else str(value)


def _plain(value: Any) -> Any:
    """Convert a value to a form that a file can hold."""
    if is_dataclass(value):
        return _plain({entry.name: getattr(value, entry.name) for entry in fields(value)})
    if isinstance(value, Mapping):
        return {name: _plain(inner) for name, inner in value.items() if inner is not None}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value


def _made(kind: type, name: str, table: Any) -> Any:
    """Make a model or a layout from a file's table."""
    import msgspec

    try:
        return msgspec.convert(table, kind)
    except (TypeError, ValueError) as error:
        raise RecipeError(f"{name}: {error}") from error


def _problems(recipe: Recipe) -> Iterator[str]:
    if not NAME.fullmatch(recipe.name):
        works = re.sub(r"[^\w.+-]+", "-", str(recipe.name)).strip("-.+")[:48]
        yield _(
            "name {name!r} cannot name a job and its folder. Use at most 48 "
            'letters, digits, `-`, `_`, `.` and `+`, such as "{works}"',
            name=recipe.name,
            works=works or "run1",
        )
    yield from name_problems(recipe.environment, recipe.directives)
    for name in ("nodes", "time_limit_minutes"):
        if getattr(recipe, name) < 1:
            yield _("{name} {value}; use 1 or more", name=name, value=getattr(recipe, name))
    yield from unknown_word("launcher", recipe.launcher, LAUNCHERS)
    if recipe.program and recipe.gpus_per_node == 0:
        yield _("with gpus_per_node 0, the program has no process; use 1 or more")
    given = [what for what in ("program", "commands", "script") if getattr(recipe, what)]
    if len(given) != 1:
        found = " and ".join(given) or _("none of them")
        yield _(
            "a recipe needs either a program, or commands, or a script; this recipe has {found}",
            found=found,
        )
    if any("\0" in text for text in (*recipe.arguments, *recipe.environment.values())):
        yield _("a value contains a NUL byte; remove it, because no argument can contain one")


def unknown_word(name: str, value: str, allowed: Iterable[str]) -> Iterator[str]:
    if value not in allowed:
        yield _(
            "{name} {value} is unknown; use {allowed}",
            name=name,
            value=shown(value),
            allowed=" or ".join(allowed),
        )


def read_text(path: Path, kind: type[LabError]) -> str:
    try:
        return plain(path).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise kind(
            _(
                "{path} cannot be read: byte {start} is not UTF-8 text",
                path=path,
                start=error.start,
            )
        ) from error
    except OSError as error:
        raise kind(
            _("{path} cannot be read: {strerror}", path=path, strerror=error.strerror)
        ) from error


def parse_toml(text: str, source: str, kind: type[LabError]) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except (RecursionError, ValueError) as error:
        raise kind(_("{source} is not valid TOML: {error}", source=source, error=error)) from error


def wrong_kinds(made: Any) -> Iterator[str]:
    """Yield a sentence for each field of a recipe or a site whose value has a wrong type."""
    for entry in fields(made):
        kind, value = KINDS.get(str(entry.type)), getattr(made, entry.name)
        if kind and not kind.fits(value):
            yield _(
                "{name} = {value} is not {kind}",
                name=entry.name,
                value=reprlib.repr(value),
                kind=kind.words,
            )


def _is_scalar(value: Any) -> bool:
    return value is not None and not isinstance(value, Mapping | list | tuple | set)


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(map(_is_scalar, value))


def _from_0(number: float | None) -> bool:
    return number is not None and number >= 0


class Kind(NamedTuple):
    """The values that fields of one type take, these values in words, and how they are stored."""

    fits: Callable[[Any], bool]
    words: str
    store: Callable[[Any], Any]


KINDS = {
    "str": Kind(lambda text: isinstance(text, str) and "\0" not in text, N_("a text"), str),
    "bool": Kind(is_truth_value, N_("true or false"), own_number),
    "int": Kind(
        lambda value: _from_0(whole(value)), N_("a whole number of at least 0"), own_number
    ),
    "float": Kind(lambda value: _from_0(real(value)), N_("a number of at least 0"), own_number),
    "tuple[str, ...]": Kind(
        _is_list,
        N_('a list of words, such as ["one", "two"]'),
        lambda words: tuple(map(str, words)),
    ),
    "tuple[tuple[str, ...], ...]": Kind(
        lambda value: isinstance(value, list | tuple) and all(map(_is_list, value)),
        N_('a list of commands, each a list of words, such as [["module", "load", "cuda"]]'),
        lambda lines: tuple(tuple(map(str, line)) for line in lines),
    ),
    "Mapping[str, str]": Kind(
        lambda value: isinstance(value, Mapping) and all(map(_is_scalar, value.values())),
        N_('a table of names and values, such as { NAME = "value" }'),
        lambda table: MappingProxyType({str(name): str(table[name]) for name in table}),
    ),
    "Mapping[str, Any]": Kind(
        lambda value: isinstance(value, Mapping),
        N_("a table"),
        lambda table: MappingProxyType(storable(table)),
    ),
}


def name_problems(environment: Iterable[str], directives: Iterable[str]) -> Iterator[str]:
    """Yield problems with names that no variable or no long option of sbatch can have."""
    for key in environment:
        if not VARIABLE.fullmatch(key):
            yield _("environment: {key!r} is not a variable name", key=key)
    for key in directives:
        if not DIRECTIVE.fullmatch(key):
            yield _(
                "directives or skip: {key!r} is not a long option of sbatch. Write it "
                'without leading dashes, such as "constraint"',
                key=key,
            )


def _short(value: Any) -> str:
    text = f"<model {value.name}>" if hasattr(value, "layers") else repr(value)
    return text if len(text) <= SHOWN_OF_A_VALUE else f"{text[: SHOWN_OF_A_VALUE - 1]}…"
