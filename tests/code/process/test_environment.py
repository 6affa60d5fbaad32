"""Variables of a launcher are checked like flags: a wrong variable is an error of one line."""

from __future__ import annotations

import socket
import time
from datetime import timedelta

import pytest

from process import rendezvous
from process.environment import environment_of_rank, environment_or_alone, threads, whole_number
from process.errors import RendezvousError, SurroundingsError
from process.rendezvous import check_address, check_name

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
        ("RANK=2 WORLD_SIZE=2 LOCAL_RANK=0", "RANK=2 of WORLD_SIZE=2: ranks count from 0"),
        ("RANK=0 WORLD_SIZE=2", "LOCAL_RANK is not set"),
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
        ("", "MASTER_ADDR is not set"),
        ("MASTER_ADDR=node1 MASTER_PORT=abc", "MASTER_PORT=abc"),
        ("MASTER_ADDR=node1 MASTER_PORT=70000", "at most 65535"),
    ],
)
def test_where_to_meet_has_to_be_told(monkeypatch, exported, told):
    export(monkeypatch, exported)
    with pytest.raises(SurroundingsError, match=told):
        check_address()


def test_numbers_have_their_range(monkeypatch):
    monkeypatch.setenv("COURSE_DEVICE_MEMORY_BYTES", "1GiB")
    with pytest.raises(SurroundingsError, match="COURSE_DEVICE_MEMORY_BYTES=1GiB"):
        whole_number("COURSE_DEVICE_MEMORY_BYTES", 1)
    for text, expected in ((" 2 ", 2), ("", None)):
        monkeypatch.setenv("OMP_NUM_THREADS", text)
        assert whole_number("OMP_NUM_THREADS", 1) == expected
    for text in ("0", "many"):
        monkeypatch.setenv("OMP_NUM_THREADS", text)
        with pytest.raises(SurroundingsError, match="OMP_NUM_THREADS="):
            whole_number("OMP_NUM_THREADS", 1)
    for text, expected in (("", 1), ("4,2", 4)):  # one number per nesting level
        monkeypatch.setenv("OMP_NUM_THREADS", text)
        assert threads() == expected
    monkeypatch.setenv("OMP_NUM_THREADS", "9" * 12)
    with pytest.raises(SurroundingsError, match="at most 4096"):
        threads()


@pytest.mark.parametrize("name", ["no-such-host.invalid", "127.0.0.1:29500", "x" * 300])
def test_a_name_that_stays_unknown_is_told_soon(monkeypatch, name):
    monkeypatch.setattr(rendezvous, "RESOLVED_WITHIN_S", 0.5)
    monkeypatch.setenv("MASTER_ADDR", name)
    began = time.monotonic()
    with pytest.raises(RendezvousError, match="no name or address that this node knows") as error:
        check_name(60)
    assert "getent hosts" in str(error.value)
    assert len(str(error.value)) < 500
    assert time.monotonic() - began < 15  # a name server may take its time


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def test_a_port_that_is_taken_and_a_rank_0_that_is_not_there_are_told_in_a_line(monkeypatch):
    with socket.create_server(("", 0)) as taken:
        export(monkeypatch, f"MASTER_ADDR=127.0.0.1 MASTER_PORT={taken.getsockname()[1]}")
        with pytest.raises(RendezvousError, match=r"is in use on this node.*EADDRINUSE"):
            rendezvous.open_store(0, 2, timedelta(seconds=2))
    export(monkeypatch, f"MASTER_PORT={free_port()}")
    with pytest.raises(RendezvousError, match="rank 0 does not answer at 127") as error:
        rendezvous.open_store(1, 2, timedelta(seconds=2))
    assert "client socket has timed out" in str(error.value)  # by which readers of logs know it
    assert "\n" not in str(error.value)
