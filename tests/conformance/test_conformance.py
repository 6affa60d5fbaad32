"""The box answers as Slurm does.

Each case of cases/ runs on a real Slurm, whose transcript must be the recorded one, and on the box,
whose transcript must be the recorded one but for the changes that differences.toml lists.
Without a real Slurm the box is still compared with what was recorded.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator

import pytest
from harness import cases, clusters, differences, lanes

ALL = cases.read_cases()
RECORDED = {group: cases.read_recorded(group) for group in {case.group for case in ALL}}
RELEASE = "22.05"
LANES = 4


@pytest.fixture(scope="module")
def start_lanes(request: pytest.FixtureRequest) -> Iterator[Callable[..., lanes.Lanes]]:
    """Lanes for the cases that were selected for the test that asks."""
    started = []

    def start(test: str, make: Callable[[], clusters.Cluster]) -> lanes.Lanes:
        wanted = [
            item.callspec.params["case"]
            for item in request.session.items
            if getattr(item, "originalname", "") == test
        ]
        started.append(lanes.Lanes(make, wanted, LANES))
        return started[-1]

    yield start
    for each in started:
        each.close()


@pytest.fixture(scope="module")
def on_the_box(start_lanes) -> lanes.Lanes:
    return start_lanes("test_the_box_prints_what_slurm_prints", clusters.Box)


@pytest.fixture(scope="module")
def on_slurm(start_lanes, need, lacking) -> lanes.Lanes:
    need("slurmctld", "slurmd", "munged", "slurmdbd", "mariadbd", "ip", "tc")
    if os.geteuid() != 0:
        lacking("a real Slurm needs root")
    version = subprocess.run(["sinfo", "-V"], capture_output=True, text=True, check=True).stdout
    if RELEASE not in version:
        lacking(f"the transcripts are of Slurm {RELEASE}, and this is {version.strip()}")
    return start_lanes("test_slurm_prints_what_is_recorded", clusters.RealSlurm)


@pytest.mark.realslurm
@pytest.mark.timeout(900)
@pytest.mark.parametrize("case", ALL, ids=lambda case: case.id)
def test_slurm_prints_what_is_recorded(case: cases.Case, on_slurm: lanes.Lanes) -> None:
    found = differences.changes(RECORDED[case.group][case.name], on_slurm.transcript(case))
    assert not found, advice(
        "Slurm does not print what is recorded", found, "python tests/conformance/run_cases.py record"
    )


@pytest.mark.timeout(900)
@pytest.mark.parametrize("case", ALL, ids=lambda case: case.id)
def test_the_box_prints_what_slurm_prints(case: cases.Case, on_the_box: lanes.Lanes) -> None:
    recorded = RECORDED[case.group][case.name]
    unknown, stale = differences.judge(case.name, recorded, on_the_box.transcript(case))
    assert not unknown, advice(
        "the box differs", unknown, f"python tests/conformance/run_cases.py box {case.name!r}"
    )
    assert not stale, f"listed in {differences.TABLE.name}, but not so (any more): {stale}"


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


def test_the_cases_pass_shellcheck(need) -> None:
    need("bash")
    checker = shutil.which("shellcheck")
    if checker is None:
        pytest.skip("shellcheck is not installed")
    files = [str(cases.HERE / "session.sh")]
    done = subprocess.run([checker, *files], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
