"""What a rank knows of the next one, without any process: two of them in one, at a store."""

from __future__ import annotations

import socket
import struct
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch.distributed as dist

from process import neighbour
from process.neighbour import DEAD, FAILED, WELL, Neighbour


def pair():
    store = dist.HashStore()
    with ThreadPoolExecutor(2) as threads:
        return list(threads.map(lambda rank: Neighbour(store, rank, 2), range(2)))


def knock(door, reset):
    """A stranger; with `reset` gone again before anybody has answered."""
    made = socket.create_connection(door.getsockname())
    made.sendall(b"let me in")
    if reset:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        made.close()
    return made


@pytest.mark.parametrize("farewell", [WELL, FAILED])
def test_a_farewell_reaches_the_rank_before_past_strangers_at_the_door(farewell):
    first, second = pair()
    knock(second.door, reset=True)
    waits = knock(second.door, reset=False)
    second.leave(farewell)
    second.leave(WELL)  # said before: changes nothing
    second.door.close()
    assert first.farewell(print) == farewell
    waits.close()


def test_a_process_that_is_gone_has_said_no_farewell():
    first, second = pair()
    second.door.close()  # as the kernel does
    assert first.farewell(print) == DEAD
    assert first.who.startswith("rank 1 (on ")


def test_ranks_of_one_machine_listen_on_loopback():
    assert [rank.door.getsockname()[0] for rank in pair()] == ["127.0.0.1"] * 2


def test_ranks_of_several_machines_listen_on_the_card_towards_the_meeting_point(monkeypatch):
    assert neighbour._side_towards("127.0.0.1") == (socket.AF_INET, "", "127.0.0.1")
    monkeypatch.setattr(neighbour, "_loopback", iter([["one"], ["other"]]).__next__)
    monkeypatch.setenv("MASTER_ADDR", "localhost")
    first, second = pair()
    second.leave(WELL)
    assert first.farewell(print) == WELL


def test_a_rank_that_is_out_of_reach_is_not_taken_for_dead():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        nobody = list(free.getsockname())
    assert neighbour._held(nobody, is_near=True) is None
    with pytest.raises(ConnectionRefusedError):
        neighbour._held(nobody, is_near=False)


@pytest.fixture
def hurry(monkeypatch):
    monkeypatch.setattr(neighbour, "HERE_EVERY_S", 0.05)
    monkeypatch.setattr(neighbour, "SILENT_S", 0.6)


def test_a_rank_that_says_nothing_is_told_of_once_and_so_is_its_return(hurry):
    first, second = pair()
    told = []
    with ThreadPoolExecutor(1) as threads:
        ended = threads.submit(first.farewell, told.append)
        time.sleep(1)
        assert told == []
        with second.talking:  # as in a process that is stopped
            time.sleep(2)
        time.sleep(0.5)
        second.leave(WELL)
        assert ended.result() == WELL
    silent, back = told
    assert silent.startswith("nothing was heard of rank 1 (on ")
    assert "kill -CONT" in silent
    assert " is back after 2 s" in back


def test_a_rank_that_still_waits_for_others_says_that_it_is_here(hurry):
    """Of three the last one is late: the first two watch already."""
    store, told = dist.HashStore(), []
    with ThreadPoolExecutor(3) as threads:
        early = [threads.submit(Neighbour, store, rank, 3) for rank in range(2)]
        time.sleep(1.5)
        neighbour._write(store, "home/2", ["node1", neighbour._loopback()])
        first = early[0].result()  # the second waits for a door
        ended = threads.submit(first.farewell, told.append)
        time.sleep(1.5)
        last = Neighbour(store, 2, 3)
        second = early[1].result()
        second.leave(WELL)
        last.leave(WELL)
        assert ended.result() == WELL
    assert told == []


def test_guests_are_let_in_no_further_than_there_is_room(hurry, monkeypatch):
    monkeypatch.setattr(neighbour, "MOST_GUESTS", 3)
    _, second = pair()
    strangers = [knock(second.door, reset=False) for _ in range(8)]
    time.sleep(0.5)
    assert len(second.guests) == 3
    second.leave(WELL)
    for stranger in strangers:
        stranger.close()
