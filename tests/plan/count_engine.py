"""Program of test_engine.py, run in a separate process: it counts the training program's parameters
and FLOPs, and prints them as JSON. Its argument is a list of [flags, tensor, pipeline]."""

import json
import sys
from pathlib import Path

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

sys.path.insert(0, str(Path(__file__).parents[2] / "code"))

import pretrain_gpt as program
from parallel.layout import Grid, Group, Layout
from parallel.products import WeightWork
from training.model import Stage, piece_of


def layout_of(tensor, pipeline, stage):
    """Return a rank's view without process groups, which is enough to build its part of the
    model."""
    alone, both = Group([0], 0), Group(list(range(tensor)), 0)
    line = Group(list(range(pipeline)), stage)
    grid = Grid({"tp": tensor, "cp": 1, "ep": 1, "dp": 1, "pp": pipeline})
    return Layout(grid, 0, both, alone, alone, line, alone, alone, alone, alone)


def held(args, tensor, pipeline):
    counts = []
    for stage in range(pipeline):
        layout = layout_of(tensor, pipeline, stage)
        with torch.device("meta"):
            part = Stage(args, layout, piece_of(args, layout, 0, 1), WeightWork())
        counts.append(sum(parameter.numel() for parameter in part.parameters()))
    return counts


def flops(flags):
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
        program.main(flags)
    return counter.get_total_flops()


def count(flags, tensor, pipeline):
    one_step = [*flags.split(), "--mock-data", "--train-iters", "1"]
    args = program.parse_arguments(one_step)
    program.prepare(args, Grid({"tp": tensor, "cp": 1, "ep": 1, "dp": 1, "pp": pipeline}))
    return {
        "held": held(args, tensor, pipeline),
        "flops": flops(one_step) if tensor == pipeline == 1 else 0,
    }


if __name__ == "__main__":
    print(json.dumps([count(*case) for case in json.loads(sys.argv[1])]))
