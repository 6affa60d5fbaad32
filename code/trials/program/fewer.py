"""A program that has run on all ranks runs once more on some of them."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import torch.distributed as dist


@contextlib.contextmanager
def fewer_ranks(size: int, store: dist.Store) -> Iterator[None]:
    """What asks the environment finds so many; they meet in a store of their own, and what they
    save goes into a folder that is removed."""
    make = dist.init_process_group
    rank = int(os.environ["RANK"])

    def meet(
        backend: str | None = None, init_method: str | None = None,
        timeout: timedelta | None = None, world_size: int = size, rank: int = rank, **more: Any,
    ) -> None:  # fmt: skip
        more |= {"store": store, "timeout": timeout}
        make(backend, world_size=world_size, rank=rank, **more)

    setattr(dist, make.__name__, meet)
    os.environ["WORLD_SIZE"] = str(size)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["COURSE_RUN_DIR"] = folder
        yield
