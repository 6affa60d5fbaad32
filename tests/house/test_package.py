"""The package is light to import, complete when installed, and contains only its own files."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, metadata, requires

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

import course_lib

FORBIDDEN_WORDS = re.compile(
    r"(?<!~/course)/w[o]rk/|/f[a]rm/|/r[o]ot/[.]|/main/[.]venv"
    r"|p[y]pi[.]org|python[h]osted|registry[.]n[p]m|deb[.]d[e]bian"
)
AT_THE_FRONT_DOOR = {
    ".dockerignore",
    ".gitignore",
    "CHANGELOG.md",
    "CITATION.cff",
    "CONTRIBUTING.md",
    "LICENSE",
    "Makefile",
    "README.md",
    "environment.yml",
    "pyproject.toml",
    "requirements-dev.lock",
    "requirements.lock",
}


def test_importing_the_library_loads_neither_torch_nor_anything_slow():
    slow = ["torch", "pandas", "matplotlib", "numpy", "jinja2", "ipywidgets"]
    program = f"import course_lib, sys; print([m for m in {slow} if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_every_exported_name_exists():
    for name in course_lib.EXPORTS:
        assert getattr(course_lib, name) is not None


def test_an_unknown_name_is_answered_with_the_known_ones():
    with pytest.raises(AttributeError, match=r"no 'Labb'; did you mean Lab\?"):
        course_lib.Labb  # noqa: B018
    with pytest.raises(AttributeError, match=r"no 'Cluster'; it offers: Lab, bench"):
        course_lib.Cluster  # noqa: B018


def pinned(lock):
    lines = lock.read_text().splitlines()
    pins = [Requirement(line) for line in lines if line and not line.startswith("#")]
    return [pin.name for pin in pins if pin.marker is None or pin.marker.evaluate()]


def test_the_learners_lock_is_whole_and_holds_none_of_the_tools_of_the_tests(repository):
    project = tomllib.loads((repository / "pyproject.toml").read_text())["project"]
    tools = {
        canonicalize_name(Requirement(line).name)
        for line in project["optional-dependencies"]["test"]
    }
    learners = {canonicalize_name(name) for name in pinned(repository / "requirements.lock")}
    added = {canonicalize_name(name) for name in pinned(repository / "requirements-dev.lock")}
    assert tools <= added
    assert not added & learners
    needed = {
        canonicalize_name(wanted.name)
        for name in learners
        for wanted in map(Requirement, requires(name) or [])
        if wanted.marker is None or wanted.marker.evaluate({"extra": ""})
    }
    assert needed <= learners


@pytest.mark.parametrize(
    ("lock", "least"),
    [
        ("requirements.lock", 100),
        ("requirements-dev.lock", 15),
        ("deploy/book/requirements.lock", 15),
    ],
)
def test_every_pinned_package_installs_on_the_oldest_python_that_we_promise(
    repository, lock, least, lacking
):
    promised = tomllib.loads((repository / "pyproject.toml").read_text())["project"]
    oldest = promised["requires-python"].removeprefix(">=") + ".0"
    installed = pinned(repository / lock)
    try:
        wanted = {name: metadata(name).get("Requires-Python") or "" for name in installed}
    except PackageNotFoundError as absent:
        lacking(f"not installed: {absent}")
    assert len(wanted) > least
    too_new = {n: wants for n, wants in wanted.items() if not SpecifierSet(wants).contains(oldest)}
    assert not too_new


def test_code_is_no_package_lest_it_hide_pythons_own_module(repository):
    assert not (repository / "code" / "__init__.py").exists()


def tracked_text_files(repository):
    listed = subprocess.run(
        ["git", "-c", f"safe.directory={repository}", "ls-files", "-z"],
        cwd=repository,
        capture_output=True,
        check=True,
    ).stdout.decode()
    for name in filter(None, listed.split("\0")):
        path = repository / name
        if path.is_file() and path.suffix not in {".png", ".gz", ".woff2"}:
            yield name, path.read_text(encoding="utf-8", errors="replace")


def test_nothing_lies_at_the_front_door_that_was_only_left_there(repository):
    at_the_door = {name for name, _ in tracked_text_files(repository) if "/" not in name}
    assert at_the_door == AT_THE_FRONT_DOOR


def test_no_file_names_a_path_of_a_builders_machine_or_a_registry(repository):
    found = [
        f"{name}: {line.strip()[:120]}"
        for name, text in tracked_text_files(repository)
        for line in text.splitlines()
        if FORBIDDEN_WORDS.search(line)
    ]
    assert found == []
