"""Moving diagrams. Each has a small simulator with one state per frame, and a drawing."""

from __future__ import annotations

from course_lib.late_names import offering
from course_lib.mistakes.arguments import offered
from course_lib.show.moving.collectives import collective
from course_lib.show.moving.ddp import ddp_step
from course_lib.show.moving.fsdp import fsdp_step
from course_lib.show.moving.loss_scaler import loss_scaling
from course_lib.show.moving.pipeline_frames import pipeline
from course_lib.show.moving.story import Frame, Story
from course_lib.show.moving.tensor_mlp import tensor_parallel_mlp

__all__ = [
    "Frame",
    "Story",
    "collective",
    "ddp_step",
    "fsdp_step",
    "loss_scaling",
    "pipeline",
    "tensor_parallel_mlp",
]

collective, ddp_step, fsdp_step, loss_scaling, pipeline, tensor_parallel_mlp = (
    offered(simulated, "show.moving", whatever=True)
    for simulated in (
        collective, ddp_step, fsdp_step, loss_scaling, pipeline, tensor_parallel_mlp,
    )
)  # fmt: skip
__dir__ = offering(__all__)
