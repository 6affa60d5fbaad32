"""Check that every rank was started with the same command line.

Nodes that are started by hand, or that read different versions of a script, may differ in a flag. A
different learning rate or seed would cause no error: the copies of the model would diverge while
the losses still fell."""

from __future__ import annotations

import argparse
import json
from typing import Any

from flags.parser import name_of
from flags.ranges import Text
from flags.tables import GROUPS
from process.device import PEERS
from process.errors import ArgumentsError

KEY = "flags of rank 0"
# Names of files and folders, which may differ between nodes.
MAY_DIFFER = {
    name_of(flag) for rows in GROUPS.values() for flag, takes, *_ in rows if isinstance(takes, Text)
} - {"rank_order"}


def check_same(args: argparse.Namespace) -> None:
    """Compare flags through the ranks' store, before any collective depends on equal flags."""
    if not PEERS:
        return
    store, mine = PEERS[-1].shared, json.dumps(_compared(args))
    if PEERS[-1].rank == 0:
        store.set(KEY, mine)
        return
    here, first = json.loads(mine), json.loads(store.get(KEY))
    differ = [name for name in here if here[name] != first[name]]
    if differ:
        raise ArgumentsError(
            *[
                f"--{name.replace('_', '-')} is {here[name]} here, and {first[name]} on rank 0; "
                "start all ranks with the same command line"
                for name in differ
            ]
        )


def _compared(args: argparse.Namespace) -> dict[str, Any]:
    names = {name_of(flag) for rows in GROUPS.values() for flag, *_ in rows} - MAY_DIFFER
    found = {name: getattr(args, name) for name in sorted(names | {"padded_vocab_size"})}
    # All ranks save or load together, but the folders may differ.
    return {**found, "save": bool(args.save), "load": bool(args.load)}
