"""Check that every rank was started with the same command line.

Nodes that are started by hand, or that read different versions of a script, may differ in a flag. A
different learning rate or seed would cause no error: the copies of the model would diverge while
the losses still fell."""

from __future__ import annotations

import argparse
import json
from typing import Any

from flags.parser import name_of
from flags.ranges import Several, Text
from flags.tables import GROUPS
from process.device import PEERS
from process.errors import ArgumentsError

KEY = "flags of rank 0"
# Names of files and folders, which may differ between nodes.
MAY_DIFFER = {
    name_of(flag)
    for rows in GROUPS.values()
    for flag, takes, *_ in rows
    if isinstance(takes.of if isinstance(takes, Several) else takes, Text)
} - {"rank_order"}


def check_same(args: argparse.Namespace) -> None:
    """Compare flags through the ranks' store, before any collective depends on equal flags."""
    if not PEERS or PEERS[-1].size == 1:
        return
    peers, mine = PEERS[-1], _compared(args)
    if peers.rank == 0:
        peers.shared.set(KEY, json.dumps(mine))
        return
    first = json.loads(peers.shared.get(KEY))
    # The result of a JSON round trip, so that equal values compare as equal.
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
    names = {name_of(flag) for rows in GROUPS.values() for flag, *_ in rows} - MAY_DIFFER
    found = {name: getattr(args, name) for name in sorted(names | {"padded_vocab_size"})}
    # All ranks save or load together, but the folders may differ.
    return {**found, "save": bool(args.save), "load": bool(args.load)}
