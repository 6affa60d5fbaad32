"""What a launcher exports is checked as flags are: a wrong variable is told in one line."""

from __future__ import annotations

import pytest

from process.device import threads
from process.environment import (
    check_meeting_point,
    environment_of_rank,
    environment_or_alone,
    whole_number,
)
from process.errors import SurroundingsError

LAUNCHERS = (
    "RANK", "WORLD_SIZE", "LOCAL_RANK", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID",
    "MASTER_ADDR", "MASTER_PORT",
)  # fmt: skip


@pytest.fixture(autouse=True)
def _nothing_exported(monkeypatch):
    for name in LAUNCHERS:
        monkeypatch.delenv(name, raising=False)


def export(monkeypatch, text):
    for pair in text.split():
        monkeypatch.setenv(*pair.split("=", 1))


@pytest.mark.parametrize(
    ("exported", "expected"),
    [
        ("", (0, 1, 0)),
        ("RANK=3 WORLD_SIZE=4 LOCAL_RANK=1", (3, 4, 1)),
        ("SLURM_PROCID=2 SLURM_STEP_NUM_TASKS=8 SLURM_LOCALID=0", (2, 8, 0)),
        ("SLURM_PROCID=0", (0, 1, 0)),  # in a batch script, outside of any step
    ],
)
def test_who_a_rank_is(monkeypatch, exported, expected):
    export(monkeypatch, exported)
    assert environment_of_rank() == expected


@pytest.mark.parametrize(
    ("exported", "told"),
    [
        ("RANK=abc WORLD_SIZE=2 LOCAL_RANK=0", "RANK=abc: export a whole number of at least 0"),
        ("RANK=-1 WORLD_SIZE=2 LOCAL_RANK=0", "RANK=-1"),
        ("RANK=2 WORLD_SIZE=2 LOCAL_RANK=0", "RANK=2 of WORLD_SIZE=2: ranks count from 0"),
        ("RANK=0 WORLD_SIZE=0 LOCAL_RANK=0", "WORLD_SIZE=0: export"),
        ("RANK= WORLD_SIZE=2 LOCAL_RANK=0", "RANK is empty"),
        ("RANK=0 WORLD_SIZE=2", "LOCAL_RANK is not set, and RANK and WORLD_SIZE are"),
        ("RANK=1", "WORLD_SIZE and LOCAL_RANK are not set, and RANK is"),
    ],
)
def test_a_rank_that_cannot_know_who_it_is_does_not_train_alone(monkeypatch, exported, told):
    export(monkeypatch, exported)
    with pytest.raises(SurroundingsError) as error:
        environment_of_rank()
    assert told in str(error.value)
    assert environment_or_alone() == (0, 1, 0)


@pytest.mark.parametrize(
    ("exported", "told"),
    [
        ("", "MASTER_ADDR and MASTER_PORT are not set"),
        ("MASTER_ADDR=node1", "MASTER_PORT is not set"),
        ("MASTER_ADDR=node1 MASTER_PORT=abc", "MASTER_PORT=abc"),
        ("MASTER_ADDR=node1 MASTER_PORT=70000", "at most 65535"),
    ],
)
def test_where_to_meet_has_to_be_told(monkeypatch, exported, told):
    export(monkeypatch, exported)
    with pytest.raises(SurroundingsError, match=told):
        check_meeting_point()


def test_numbers_have_their_range(monkeypatch):
    monkeypatch.setenv("COURSE_DEVICE_MEMORY_BYTES", "1GiB")
    with pytest.raises(SurroundingsError, match="COURSE_DEVICE_MEMORY_BYTES=1GiB"):
        whole_number("COURSE_DEVICE_MEMORY_BYTES", 1)
    for text, expected in (("4,2", 4), (" 2 ", 2), ("", 1)):
        monkeypatch.setenv("OMP_NUM_THREADS", text)
        assert threads() == expected
    for text in ("0", "many", "9" * 12):
        monkeypatch.setenv("OMP_NUM_THREADS", text)
        with pytest.raises(SurroundingsError, match="OMP_NUM_THREADS="):
            threads()
