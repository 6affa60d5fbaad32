"""What a rank knows of the next one, without any process: two of them in one, at a store."""

from __future__ import annotations

import socket
import struct
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
    assert first.farewell() == farewell
    waits.close()


def test_a_process_that_is_gone_has_said_no_farewell():
    first, second = pair()
    second.door.close()  # as the kernel does
    assert first.farewell() == DEAD
    assert first.who.startswith("rank 1 (on ")


def test_ranks_of_one_machine_listen_on_loopback():
    assert [rank.door.getsockname()[0] for rank in pair()] == ["127.0.0.1"] * 2


def test_ranks_of_several_machines_listen_on_the_card_towards_the_meeting_point(monkeypatch):
    assert neighbour._side_towards("127.0.0.1") == (socket.AF_INET, "", "127.0.0.1")
    monkeypatch.setattr(neighbour, "_loopback", iter([["one"], ["other"]]).__next__)
    monkeypatch.setenv("MASTER_ADDR", "localhost")
    first, second = pair()
    second.leave(WELL)
    assert first.farewell() == WELL


def test_a_rank_that_is_out_of_reach_is_not_taken_for_dead():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        nobody = list(free.getsockname())
    assert neighbour._held(nobody, is_near=True) is None
    with pytest.raises(ConnectionRefusedError):
        neighbour._held(nobody, is_near=False)
