"""Ranks without a launcher, so that no process ends the others if one rank fails."""

from __future__ import annotations

import os
import socket

from forked_programs import Forked


def plain_ranks(*words, size):
    """Return the exit codes and the outputs of all ranks."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    place = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    ranks = [
        Forked(
            *words,
            environment={
                **place, "RANK": str(rank), "WORLD_SIZE": str(size), "LOCAL_RANK": str(rank)
            },
        )
        for rank in range(size)
    ]  # fmt: skip
    ends = [rank.end() for rank in ranks]
    return [code for code, _ in ends], "".join(text for _, text in ends)
