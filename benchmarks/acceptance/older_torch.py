"""A machine's own torch may be older than the one that the course pins: what has other names there.

Nobody can install 3 GB on every machine with a GPU, and all else that is measured works from 2.11
on.
"""

from __future__ import annotations

from typing import Any

NEW_NAMES = {
    "all_gather_single": "all_gather_into_tensor",
    "reduce_scatter_single": "reduce_scatter_tensor",
}


def name_collectives(dist: Any) -> None:
    for name, older in NEW_NAMES.items():
        if not hasattr(dist, name):
            setattr(dist, name, getattr(dist, older))
