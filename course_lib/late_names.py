"""Names that a room offers before their modules are loaded: nobody pays for pandas who asks for no
table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from types import ModuleType
from typing import Any

from course_lib.mistakes.arguments import offered
from course_lib.mistakes.names import no_such_name


def offering(names: list[str]) -> Callable[[], list[str]]:
    """`__dir__` of a room: completion offers these names, and nothing that it has imported."""
    return lambda: names


def late_names(
    room: ModuleType, modules: Mapping[str, str], others: Iterable[str] = (), **how: bool
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a room. `modules`: of each module, the names in it that are
    offered, with blanks between; a module that offers none is itself what is offered. `others` are
    there already. `how` functions are explained to who calls them wrongly: see `offered`."""
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
