"""What a launcher exports is checked as flags are: a wrong variable is told in one line."""

from __future__ import annotations

import socket
import time
from datetime import timedelta

import pytest
import torch.distributed as dist

from process import environment, meeting_point, telling
from process.device import threads
from process.environment import (
    check_libraries,
    check_meeting_point,
    check_name,
    environment_of_rank,
    environment_or_alone,
    whole_number,
)
from process.errors import MeetingPointError, SurroundingsError

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


@pytest.mark.parametrize(
    "name", ["no-such-host.invalid", "127.0.0.1:29500", "tcp://127.0.0.1", "node[1-2]", "x" * 300]
)
def test_a_name_that_stays_unknown_is_told_soon(monkeypatch, name):
    monkeypatch.setattr(environment, "RESOLVED_WITHIN_S", 0.5)
    monkeypatch.setenv("MASTER_ADDR", name)
    began = time.monotonic()
    with pytest.raises(MeetingPointError, match="no name or address that this node knows") as error:
        check_name(60)
    assert "getent hosts" in str(error.value)
    assert len(str(error.value)) < 500
    assert time.monotonic() - began < 15  # a name server may take its time


def test_a_name_server_may_be_slow_when_a_job_starts(monkeypatch):
    monkeypatch.setenv("MASTER_ADDR", "node1")
    answers = iter([socket.gaierror(-3, "Temporary failure in name resolution")] * 2)

    def resolve(name, port):
        for error in answers:
            raise error

    monkeypatch.setattr(environment.socket, "getaddrinfo", resolve)
    check_name(60)


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def test_a_rank_alone_meets_nobody(monkeypatch):
    export(monkeypatch, "MASTER_ADDR=no-such-host.invalid")
    assert isinstance(meeting_point.open_store(0, 1, timedelta(seconds=1)), dist.HashStore)


def test_a_port_that_is_taken_and_a_rank_0_that_is_not_there_are_told_in_a_line(monkeypatch):
    with socket.create_server(("", 0)) as taken:
        export(monkeypatch, f"MASTER_ADDR=127.0.0.1 MASTER_PORT={taken.getsockname()[1]}")
        with pytest.raises(MeetingPointError, match=r"is in use on this node.*EADDRINUSE"):
            meeting_point.open_store(0, 2, timedelta(seconds=2))
    export(monkeypatch, f"MASTER_PORT={free_port()}")
    with pytest.raises(MeetingPointError, match="rank 0 does not answer at 127") as error:
        meeting_point.open_store(1, 2, timedelta(seconds=2))
    assert "client socket has timed out" in str(error.value)  # by which readers of logs know it
    assert "\n" not in str(error.value)


def test_ranks_count_on_the_same_number_of_ranks(monkeypatch):
    export(monkeypatch, f"MASTER_ADDR=127.0.0.1 MASTER_PORT={free_port()}")
    kept = meeting_point.open_store(0, 2, timedelta(seconds=5))
    with pytest.raises(SurroundingsError, match="WORLD_SIZE is 3 here, and 2 on rank 0"):
        meeting_point.open_store(1, 3, timedelta(seconds=5))
    del kept


def test_what_torch_would_read_is_checked_before(monkeypatch):
    check_libraries("gloo")
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "nosuch0")
    with pytest.raises(SurroundingsError, match=r"no interface found for .*=nosuch0.*\blo\b"):
        check_libraries("gloo")
    check_libraries("nccl")
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")
    check_libraries("gloo")
    for pace in ("", "1", "2.5"):
        monkeypatch.setenv("COURSE_DEVICE_PACE", pace)
        check_libraries("gloo")
    for pace in ("fast", "-1", "inf", "nan"):
        monkeypatch.setenv("COURSE_DEVICE_PACE", pace)
        with pytest.raises(SurroundingsError, match=f"COURSE_DEVICE_PACE={pace}: export a number"):
            check_libraries("gloo")
    monkeypatch.delenv("COURSE_DEVICE_PACE")
    monkeypatch.setenv("TORCH_FR_BUFFER_SIZE", "abc")
    with pytest.raises(SurroundingsError, match="TORCH_FR_BUFFER_SIZE=abc"):
        check_libraries("nccl")


def test_one_rank_of_a_node_tells_what_all_of_it_were_told(monkeypatch):
    monkeypatch.setattr(telling, "SAID", [])
    monkeypatch.setenv("MASTER_PORT", str(free_port()))
    text = "MASTER_ADDR=nowhere is no name"
    assert telling.first_on_node(text)
    assert not telling.first_on_node(text)
    assert telling.first_on_node("something else")
    for held in telling.SAID:
        held.close()
    assert telling.first_on_node(text)
