"""Fixtures for all rooms: requirements of tests, and data outside of the repository."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# A machine that others use too draws examples slowly: no test fails for its speed.
settings.register_profile("course", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("course")
os.environ.setdefault("COURSE_LANGUAGE", "en")  # whatever the terminal of who runs them speaks
# What a lab on the box sets for its process, and would leave behind in the first test that has one.
os.environ.setdefault("COURSE_BOX_PYTHON", str(Path(sys.executable).with_name("python3")))
REPOSITORY = Path(__file__).resolve().parent.parent
SHARED = REPOSITORY.parent / "shared"
ORDER = (
    "tests/conformance",
    "tests/read",
    "tests/plan",
    "tests/show",
    "tests/house",
    "tests/teach",
    "tests/lab",
    "tests/box",
    "tests/code/test_equality.py",
    "tests/browser",
    "tests/deploy",
    "tests/code",
    "notebooks",
    "solutions",
)
"""The many commands of the conformance would slow down jobs of several ranks, so these come later;
the shortest of them last, so that no worker is left alone at the end. A solution finds the runs of
its lesson, which was before it."""


EVERYTHING = bool(os.environ.get("COURSE_TEST_ALL"))


def pytest_report_header() -> str | None:
    return None if EVERYTHING else "of many cases of one kind a sample runs; make test ALL=1: all"


def sampled(items: list[pytest.Item]) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """Return the tests that run and the tests that do not. With `many(n)`, every n-th case runs.
    Every second notebook of learners runs, because the solutions contain the same cells."""
    seen: Counter[str] = Counter()
    files = dict.fromkeys(item.nodeid.partition("::")[0] for item in items)
    left_out = [file for file in files if file.startswith("notebooks/")][1::2]
    runs, left = [], []
    for item in items:
        many = item.get_closest_marker("many")
        family = item.nodeid.partition("[")[0]
        is_left = many is not None and seen[family] % many.args[0] != 0
        is_left = is_left or item.nodeid.partition("::")[0] in left_out
        (left if is_left else runs).append(item)
        seen[family] += 1
    return runs, left


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    is_chosen = any("[" in name or name.endswith(".ipynb") for name in config.args)
    if not (EVERYTHING or is_chosen or config.option.keyword):
        items[:], left = sampled(items)
        config.hook.pytest_deselected(items=left)

    def turn(item: pytest.Item) -> int:
        named = (n for n, start in enumerate(ORDER) if item.nodeid.startswith(start))
        return next(named, 0)

    items.sort(key=turn)


def of_the_course() -> dict[str, str]:
    return {name: text for name, text in os.environ.items() if name.startswith("COURSE_")}


@pytest.fixture(scope="session", autouse=True)
def environment_at_the_start() -> dict[str, str]:
    return of_the_course()


@pytest.fixture(autouse=True)
def nothing_left_in_the_environment(environment_at_the_start):
    """Fail if a test changes the environment, because every later test and notebook would see
    it."""
    yield
    assert of_the_course() == environment_at_the_start, "left in the environment by a fixture"


@pytest.fixture(scope="module", autouse=True)
def own_path():
    """Restore PATH, because a lab puts the box's commands in front of it."""
    before = os.environ["PATH"]
    yield
    os.environ["PATH"] = before


def missing(what: str) -> None:
    """Skip a test, or fail it if the run promises that everything is installed (CI)."""
    if os.environ.get("COURSE_TEST_REQUIRE_ALL"):
        pytest.fail(f"{what}, and COURSE_TEST_REQUIRE_ALL is set")
    pytest.skip(what)


@pytest.fixture(scope="session")
def need():
    """`need("chromium")` skips the test with a message if the command is not installed."""

    def check(*commands: str) -> None:
        absent = [command for command in commands if shutil.which(command) is None]
        if absent:
            missing(f"not installed: {', '.join(absent)}")

    return check


@pytest.fixture(scope="session")
def lacking():
    """`lacking("no root")` skips the test for any reason other than a missing command; in CI it
    fails."""
    return missing


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real logs and measurements that may lie beside the checkout."""
    if not SHARED.is_dir():
        pytest.skip(f"no real logs and measurements at ../{SHARED.name}")
    return SHARED


@pytest.fixture(scope="session")
def repository() -> Path:
    return REPOSITORY


@pytest.fixture(scope="session")
def once(tmp_path_factory) -> Callable[[str, Callable[[Path], object]], Path]:
    """`once("book", make)` is a folder that `make(folder)` fills once for all workers."""
    top = tmp_path_factory.getbasetemp()
    top = top.parent if "PYTEST_XDIST_WORKER" in os.environ else top

    def folder(name: str, make: Callable[[Path], object]) -> Path:
        with (top / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not (top / f"{name}.made").exists():
                shutil.rmtree(top / name, ignore_errors=True)  # of a try that failed
                (top / name).mkdir()
                make(top / name)
                (top / f"{name}.made").touch()
        return top / name

    return folder


CHROMIUM_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="session")
def browser(need):
    """One browser for all tests of a process, because playwright runs once in a thread."""
    need("chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=CHROMIUM_FLAGS
        )
        yield started
        started.close()


@pytest.fixture(scope="session")
def private_mounts() -> list[str]:
    """Words before a command, with which it mounts small disks that other processes do not see."""
    maps = [] if os.getuid() == 0 else ["--user", "--map-root-user"]
    words = ["unshare", *maps, "--mount"]
    try:
        tried = subprocess.run(
            [*words, "mount", "-t", "tmpfs", "tmpfs", "/mnt"], capture_output=True, check=False
        )
    except OSError as error:
        pytest.skip(f"no mounts of its own for a test: {error}")
    if tried.returncode:
        pytest.skip(f"no mounts of its own for a test: {tried.stderr.decode().strip()}")
    return words
