"""Second run on some of the ranks, after a program has run on all."""

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
    """Set the environment to `size` ranks, with a separate store and a temporary folder for what
    they save."""
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
