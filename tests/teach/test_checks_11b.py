"""Lesson 11b: a small GPT that a learner's function divides over meshes of real ranks."""

from __future__ import annotations

import pytest

from course_lib.teach.checks import lesson11b

from .finished_runs import hint_of, tried_with_swaps
from .own_trials import program_of

OWN = program_of("11b_with_torchs_own_tools", "own")
BLOCK, MODEL = "        fully_shard(layer, mesh=data)\n", "    fully_shard(model, mesh=data)\n"
PLAN = "        parallelize_module(layer, tensor, inside)\n"
AROUND = "    parallelize_module(model, tensor, around)\n"
DOWN = '"mlp.down": RowwiseParallel(output_layouts=positions)'
AVERAGED = """    for one in (*model.blocks, model):
        one.set_gradient_divide_factor(data.size() ** 2)
"""
tried = tried_with_swaps(OWN, "parallelize")


@pytest.mark.parametrize("pairs", [[], [("    return model\n", "")]])
def test_right_ones_pass(tried, capsys, pairs):
    lesson11b.ex11b_parallelize(tried(*pairs))
    assert "equal to the serial result on 1, 2, 3 and 4 ranks" in capsys.readouterr().out


WRONG = {
    "rows": ([('"mlp.up": columns', '"mlp.up": RowwiseParallel()')],
             "'tensor': 1} of blocks.0.mlp.up"),
    "columns": ([(DOWN, '"mlp.down": ColwiseParallel()')],
                "and should divide {'data': 0, 'tensor': 1}"),
    "swapped": ([("data, tensor = mesh", "tensor, data = mesh")], 'gets mesh["data"]'),
    "shards first": ([(AROUND, MODEL + AROUND), (MODEL + "    return", "    return")],
                     "parallelize_module first"),
    "blocks first": ([(BLOCK, ""), (PLAN, BLOCK + PLAN)], "parallelize_module first"),
    "embedding whole": ([("Replicate(), output_layouts=positions)", "Replicate())")],
                        "output_layouts of the embedding"),
    "shared dimension": ([("data, tensor = mesh", 'data = mesh["tensor"]\n    _, tensor = mesh')],
                         'gets mesh["data"]'),
    "model before blocks": ([(AROUND, AROUND + MODEL), (MODEL + "    return", "    return")],
                            "the blocks first and the model last"),
    "no blocks": ([(BLOCK, "")], "Call fully_shard on each block"),
    "no model": ([(MODEL, "")], "last for the whole model"),
    "heads": ([("        layer.attention.heads //= tensor.size()\n", "")],
              "only its share of the heads"),
    "a name": ([('"mlp.up"', '"mlp.upper"')], "A name in the plan that matches no layer"),
    "norms": ([('        "norm1": SequenceParallel(),\n', "")], "this rank's positions alone"),
    "averaged twice": ([("    return", AVERAGED + "    return")], "twice. fully_shard already"),
    "gathered three times": ([('        "attention": gathered,\n', "")]
                             + [(f'{one}": columns',
                                 f'{one}": ColwiseParallel(input_layouts=positions)')
                                for one in ("query", "key", "value")],
                             "gathers the positions once"),
}  # fmt: skip


@pytest.mark.many(2)
@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_division_is_told_its_mistake(tried, name):
    pairs, words = WRONG[name]
    assert words in hint_of(lesson11b.ex11b_parallelize, tried(*pairs))


def test_no_run_at_all_is_no_traceback(workspace):
    for nothing in (None, ..., 7):
        assert hint_of(lesson11b.ex11b_parallelize, nothing)
