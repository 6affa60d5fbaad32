"""Every rank must have been started with the same command line.

Two nodes that are started by hand, or read two versions of a script, may differ in a flag. Nothing
would notice another learning rate or seed: copies of one model would drift apart, and the losses
would still fall.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

from flags.ranges import Several, Text
from flags.tables import GROUPS
from process.device import PEERS
from process.errors import ArgumentsError

KEY = "flags of rank 0"
# Names of files and folders, which may lie elsewhere on each node.
MAY_DIFFER = {
    name.removeprefix("--").replace("-", "_")
    for rows in GROUPS.values()
    for name, takes, *_ in rows
    if isinstance(takes.of if isinstance(takes, Several) else takes, Text)
} - {"rank_order"}


def check_same(args: argparse.Namespace) -> None:
    """Through the store in which the ranks have met: no collective has to agree on anything yet."""
    if not PEERS or PEERS[-1].size == 1:
        return
    peers, mine = PEERS[-1], _compared(args)
    if peers.rank == 0:
        peers.shared.set(KEY, json.dumps(mine))
        return
    first = json.loads(peers.shared.get(KEY))
    # Numbers and words as they come out of JSON, so that equal ones are equal.
    here = json.loads(json.dumps(mine))
    differ = [name for name in mine if here[name] != first.get(name)]
    if differ:
        raise ArgumentsError(
            [
                f"--{name.replace('_', '-')} is {here[name]} here, and {first.get(name)} on rank "
                "0; start all ranks with the same command line"
                for name in differ
            ]
        )


def _compared(args: argparse.Namespace) -> dict[str, Any]:
    names = {name for rows in GROUPS.values() for name in map(_of_flag, rows)} - MAY_DIFFER
    found = {name: getattr(args, name) for name in sorted(names | {"padded_vocab_size"})}
    # Saving and loading are done by all together, wherever.
    return {**found, "save": bool(args.save), "load": bool(args.load)}


def _of_flag(row: tuple[Any, ...]) -> str:
    return str(row[0]).removeprefix("--").replace("-", "_")
