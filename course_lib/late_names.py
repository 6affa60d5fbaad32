"""Names that a package offers before their modules are loaded, to avoid slow imports."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from types import ModuleType
from typing import Any

from course_lib.mistakes.arguments import offered
from course_lib.mistakes.names import no_such_name


def offering(names: list[str]) -> Callable[[], list[str]]:
    """Return a package's `__dir__`: completion offers these names and no imported names."""
    return lambda: names


def late_names(
    room: ModuleType, modules: Mapping[str, str], others: Iterable[str] = (), **how: bool
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return a package's `__getattr__` and `__dir__`. `modules` maps each module to its offered
    names, separated by blanks. A module without names is offered itself. `others` are names that
    already exist. `how` is passed to `offered`, which explains wrong calls."""
    module_of = {name: module for module, names in modules.items() for name in names.split()}
    module_of |= {module: "" for module, names in modules.items() if not names}
    names, title = sorted({*module_of, *others}), room.__name__.removeprefix("course_lib.")

    def get(name: str) -> Any:
        if name not in module_of:
            no_such_name(title, name, names)
        module = import_module(f"{room.__name__}.{module_of[name] or name}")
        value = offered(getattr(module, name), title, **how) if module_of[name] else module
        setattr(room, name, value)
        return value

    return get, lambda: names
