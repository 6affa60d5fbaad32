"""Names of functions in a machine's own torch, which may be older than the pinned one.

Installing 3 GB on every machine with a GPU is not possible; the other measurements need only torch
2.11."""

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
