"""The hub in rank 0 tells a rank that left from one that died, and from a stranger."""

from __future__ import annotations

import queue
import socket
import threading

import pytest

from process.peers import FAREWELL, Hub


@pytest.fixture
def lost(monkeypatch):
    """Return the ranks that a hub reported as lost, and the hub's address and token."""
    monkeypatch.setenv("MASTER_ADDR", "localhost")
    found = queue.Queue()
    hub = Hub(found.put)
    threading.Thread(target=hub.serve, daemon=True).start()
    return found, hub


def say(hub, *lines):
    with socket.create_connection(hub.door.getsockname()) as made:
        made.sendall("".join(f"{line}\n" for line in lines).encode())


def test_a_connection_that_breaks_without_a_farewell_was_of_a_dead_rank(lost):
    found, hub = lost
    say(hub, "no token", "rank 3 (on node4)")
    say(hub, hub.token, "rank 2 (on node3)", FAREWELL)
    say(hub, "x" * 5000)
    say(hub)
    say(hub, hub.token, "rank 1 (on node2)")
    assert found.get(timeout=20) == "rank 1 (on node2)"
    assert found.empty()


def test_ranks_of_one_node_are_heard_on_loopback_alone(monkeypatch):
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    monkeypatch.setenv("WORLD_SIZE", "4")
    monkeypatch.setenv("MASTER_ADDR", socket.gethostname())
    assert Hub(print).door.getsockname()[0] == "127.0.0.1"


def test_ranks_that_srun_started_are_heard_at_the_first_node(monkeypatch):
    """srun sets neither variable, and its ranks may be on several nodes."""
    for name in ("LOCAL_WORLD_SIZE", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.2")
    assert Hub(print).door.getsockname()[0] == "127.0.0.2"
