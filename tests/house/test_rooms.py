"""The plan of the house: who may import whom, and how large a module may grow."""

from __future__ import annotations

import ast

import pytest

MAY_IMPORT = {
    "box": set(),
    "plan": set(),
    "read": {"plan"},
    "show": {"plan", "read"},
    "lab": {"plan", "read", "show"},
    "teach": {"plan", "read", "show", "lab"},
}
BOX_BY_ITS_COMMANDS_ONLY = "bin_dir"
LONGEST_MODULE_LINES = 300
HEAVY_IN_PLAN = {"torch"}


def modules(repository, folder):
    return sorted((repository / folder).rglob("*.py"))


def imported(path):
    """Each imported module with the names taken from it."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((alias.name, ()) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            yield node.module, tuple(alias.name for alias in node.names)


def rooms_of(module, names):
    parts = module.split(".")
    if parts[0] != "course_lib":
        return set()
    return {parts[1]} if len(parts) > 1 else set(names)


@pytest.mark.parametrize("room", MAY_IMPORT)
def test_a_room_imports_only_from_the_rooms_above_it(repository, room):
    wrong = []
    for path in modules(repository, f"course_lib/{room}"):
        for module, names in imported(path):
            for other in rooms_of(module, names) & set(MAY_IMPORT) - {room} - MAY_IMPORT[room]:
                by_command = other == "box" and names == (BOX_BY_ITS_COMMANDS_ONLY,)
                if not by_command:
                    wrong.append(f"{path.relative_to(repository)} imports {module}")
    assert wrong == []


def test_programs_of_jobs_know_nothing_of_the_library(repository):
    wrong = [
        path.name
        for path in modules(repository, "code")
        if any(module.startswith("course_lib") for module, _ in imported(path))
    ]
    assert wrong == []


def test_no_two_classes_of_the_programs_have_the_same_name(repository):
    places: dict[str, list[str]] = {}
    for path in modules(repository, "code"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(path.name)
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_the_planner_needs_no_torch(repository):
    wrong = [
        path.name
        for path in modules(repository, "course_lib/plan")
        if any(module.split(".")[0] in HEAVY_IN_PLAN for module, _ in imported(path))
    ]
    assert wrong == []


def test_no_module_is_too_long_to_be_read_at_once(repository):
    long = {
        str(path.relative_to(repository)): lines
        for folder in ("course_lib", "code")
        for path in modules(repository, folder)
        if (lines := len(path.read_text(encoding="utf-8").splitlines())) > LONGEST_MODULE_LINES
    }
    assert long == {}
