"""Lesson 04's run on two nodes of the box: NCCL has to use the network, even on a single GPU."""

from __future__ import annotations

from typing import Any

import torch

from acceptance import jobs
from acceptance.notes import Notes
from course_lib import links, plan, read

SHARING = {"nodes": 2, "gpus_per_node": 2}


def talk(notes: Notes) -> None:
    lab, gpus = jobs.lab(notes.folder), torch.cuda.device_count()
    for name, shape in (("pair", {"nodes": 2, "gpus_per_node": 1}), ("four", SHARING)):
        recipe = links.recipe(
            name, **shape, max_bytes=1 << 20, repeat=3, environment={"NCCL_DEBUG": "INFO"}
        )
        run = lab.submit(recipe).require()
        notes.fact(f"{name}: backend", run.links.backend)
        expected = notes.rehearse or run.links.backend == "nccl"
        notes.check(f"{name}: ranks talk through NCCL", expected, run.links.backend)
        lines(notes, name, nccl_log(notes, run, shape), shape)
        ranks = shape["nodes"] * shape["gpus_per_node"]
        shared = f"note: {ranks} ranks on" in run.text
        notes.check(f"{name}: sharing is said where it is", shared == (0 < gpus < ranks), shared)
        jobs.keep(run, notes.folder)


def nccl_log(notes: Notes, run: Any, shape: dict[str, int]) -> Any:
    """Return the job's log; in a rehearsal, a log as NCCL would print it."""
    if run.links.backend == "nccl":
        return run.nccl
    simulated = notes.folder / "simulated-nccl.log"
    per_node = shape["gpus_per_node"]
    text = plan.nccl_log(nodes=shape["nodes"], devices_per_node=per_node, between="sockets")
    simulated.write_text(text, encoding="utf-8")
    return read.nccl(simulated)


def lines(notes: Notes, name: str, log: Any, shape: dict[str, int]) -> None:
    largest = log.largest()
    ranks = log.ranks[log.ranks["communicator"] == largest]
    wanted = shape["nodes"] * shape["gpus_per_node"]
    notes.check(f"{name}: all ranks are read", len(ranks) == wanted, len(ranks))
    notes.check(f"{name}: on two nodes", ranks["host"].nunique() == 2, set(ranks["host"]))
    channels = log.channels[log.channels["communicator"] == largest]
    host = dict(zip(ranks["rank"], ranks["host"], strict=True))
    crossing = channels[channels["source"].map(host) != channels["destination"].map(host)]
    kinds = set(crossing["transport"])
    notes.check(f"{name}: the nodes are joined by the network", "NET" in "".join(kinds), kinds)
    notes.fact(f"{name}: transports", log.transports)
