"""Ranks without a launcher, so that no process ends the others if one rank fails."""

from __future__ import annotations

import os
import socket
import subprocess
import sys


def plain_ranks(*words, size):
    """Their exit codes, and what all of them printed, rank by rank."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    place = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    ranks = [
        subprocess.Popen(
            [sys.executable, *map(str, words)],
            env={**place, "RANK": str(rank), "WORLD_SIZE": str(size), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )
        for rank in range(size)
    ]  # fmt: skip
    text = ""
    try:
        for rank in ranks:
            text += rank.communicate(timeout=120)[0]
    finally:
        for rank in ranks:
            rank.kill()
    return [rank.returncode for rank in ranks], text
