"""Rooms: the allowed imports, and the size of a folder."""

from __future__ import annotations

import ast
import graphlib
import importlib
import itertools
import re
from collections import Counter
from inspect import ismodule
from pathlib import Path

import pytest

MAY_IMPORT = {
    "box": set(),
    "read": set(),
    "words": {"read"},  # the marker of sentences lies in `read`, which stands alone
    "mistakes": {"read", "words"},
    "plan": {"words", "mistakes"},
    "show": {"words", "mistakes", "plan", "read"},
    "lab": {"words", "mistakes", "plan", "read", "show"},
    "teach": {"words", "mistakes", "plan", "read", "show", "lab"},
    "publish": {"words", "mistakes", "plan", "read", "show", "lab", "teach"},
    "classroom": {"words", "mistakes", "plan", "read", "show", "lab", "teach", "publish"},
}
# Most lines of each room, of all its files of code. If a room needs more, take something out
# first, or raise its number in a commit that says what the lines buy. The design planned 47,000
# lines for the library and 14,000 for `code`, the programs that jobs run. Today's numbers are
# larger in these parts, and buy:
#   teach      1,500  code exercises on real ranks, with hints that name the mistake
#   lab        1,500  recorded runs, the doctor, the benchmark command, the profiler's tab
#   read         600  causes of failures of real runs: each rule has its example lines
#   classroom    300  a class page that shares only what a learner has agreed to
#   show         200  animated diagrams for screen and print
#   code       3,100  a readable test for each code exercise (`code/trials`, 3,600 lines)
MOST_LINES = {
    "words": 199,
    "mistakes": 616,
    "box": 10_999,
    "plan": 6_387,
    "read": 7_865,
    "show": 4_896,
    "lab": 8_525,
    "teach": 7_548,
    "publish": 3_828,
    "classroom": 1_779,
    "code": 17_144,
}
CODE_SUFFIXES = {".py", ".toml", ".j2", ".js", ".c"}
BOX_BY_ITS_COMMANDS_ONLY = "bin_dir"
MOST_FILES_IN_A_FOLDER = 16
HEAVY_IN_PLAN = {"torch"}


def modules(repository, folder):
    return sorted((repository / folder).rglob("*.py"))


def imported(path):
    """Yield each imported module with the names taken from it."""
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


def test_each_room_keeps_its_budget(repository):
    lines = {
        room: sum(
            len(path.read_text(encoding="utf-8").splitlines())
            for path in (repository / ("" if room == "code" else "course_lib") / room).rglob("*")
            if path.suffix in CODE_SUFFIXES
        )
        for room in MOST_LINES
    }
    for room, most in MOST_LINES.items():
        print(f"{room:10} {lines[room]:6} of {most:6}")
    assert {room for room, most in MOST_LINES.items() if lines[room] > most} == set()


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


def is_a_file_of_its_own(path: Path) -> bool:
    """Tell whether a file counts. The commands of the box are links to one file, a lesson's file is
    found by its number, and a README explains the folder, so these do not count."""
    told = re.match(r"lesson\d\d|README", path.name)
    return path.is_file() and not path.is_symlink() and not told


def test_no_folder_is_too_full_to_tell_its_story(repository):
    full = {
        str(folder.relative_to(repository)): len(files)
        for top in ("course_lib", "code", "benchmarks")
        for folder in [repository / top, *(repository / top).rglob("*/")]
        if folder.name != "__pycache__"
        and len(files := [f for f in folder.iterdir() if is_a_file_of_its_own(f)])
        > MOST_FILES_IN_A_FOLDER
    }
    assert full == {}


@pytest.mark.parametrize("room", ["plan", "read", "show"])
def test_no_folder_of_a_room_bears_the_name_of_what_the_room_exports(repository, room):
    """Otherwise `read.memory` would be the function or the folder, by which of them is loaded
    first."""
    house = importlib.import_module(f"course_lib.{room}")
    inside = {path.stem for path in (repository / "course_lib" / room).iterdir()}
    taken = [name for name in inside & set(house.__all__) if not ismodule(getattr(house, name))]
    assert taken == []


def names_only_for_types(node):
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def loaded_by(path, known):
    """Return the modules of this tree that a module imports, even late, except for types alone."""
    todo, found = [ast.parse(path.read_text(encoding="utf-8"))], set()
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        todo += [n for n in ast.iter_child_nodes(node) if not names_only_for_types(n)]
    return found & set(known)


@pytest.mark.parametrize("top", ["course_lib", "code"])
def test_no_modules_import_each_other_in_a_circle(repository, top):
    start = repository / top if top == "code" else repository
    known = {
        ".".join(path.relative_to(start).with_suffix("").parts).removesuffix(".__init__"): path
        for path in modules(repository, top)
    }
    loaded = {name: loaded_by(path, known) - {name} for name, path in known.items()}
    with_content = {
        name: {other for other in others if known[other].name != "__init__.py"}
        for name, others in loaded.items()
        if known[name].name != "__init__.py"
    }
    try:
        graphlib.TopologicalSorter(with_content).prepare()
    except graphlib.CycleError as circle:
        pytest.fail(f"a circle of imports: {' -> '.join(reversed(circle.args[1]))}")


@pytest.mark.parametrize("room", [*(f"course_lib/{room}" for room in MAY_IMPORT), "code"])
def test_no_two_classes_of_a_room_bear_one_name(repository, room):
    names = Counter(
        node.name
        for path in modules(repository, room)
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef)
    )
    assert [name for name, count in names.items() if count > 1] == []


def test_no_half_of_a_sentence_stands_alone(repository):
    """After a `return` without brackets, Python ignores the second line of a text."""
    halves = [
        f"{path.relative_to(repository)}:{second.lineno}"
        for top in ("course_lib", "code")
        for path in modules(repository, top)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        for block in (getattr(node, "body", None), getattr(node, "orelse", None))
        if isinstance(block, list)
        for first, second in itertools.pairwise(block)
        if isinstance(first, ast.Return) and isinstance(second, ast.Expr)
    ]
    assert halves == []
