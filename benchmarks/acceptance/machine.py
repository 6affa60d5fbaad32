"""GPUs of the machine, and how the programs would use them."""

from __future__ import annotations

import os

import code_on_path  # noqa: F401
import torch

from acceptance.notes import Notes
from course_lib.box import devices


def look(notes: Notes) -> None:
    from process.device import choose_device
    from process.device_sharing import seat_of

    count = torch.cuda.device_count()
    found_by_box = devices.find(environment=devices.outer_limits(os.environ))
    notes.fact("torch", torch.__version__)
    notes.fact("found by the box", ", ".join(found_by_box.names) or "processors")
    for number in range(count):
        found = torch.cuda.get_device_properties(number)
        notes.fact(f"GPU {number}", f"{found.name}, {found.total_memory / 2**30:.1f} GiB")
    if count:
        notes.fact("NCCL", ".".join(map(str, torch.cuda.nccl.version())))
    seat = seat_of(choose_device(0))
    notes.fact("rank 0 sits on", f"{seat.device} {seat.card}".strip())
    notes.check("torch reaches a GPU", count or notes.rehearse, f"{count} found")
    same = len(found_by_box.names) == count or notes.rehearse  # a torch without CUDA reaches none
    notes.check("the box finds what torch reaches", same, found_by_box.names)
    small = torch.ones(64, 64, device=choose_device(0))
    notes.check("a product comes out right", (small @ small == 64).all().item())
