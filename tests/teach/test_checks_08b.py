"""Lesson 08b: a matmul in eight bits, compared with fake quantisation on real ranks."""

from __future__ import annotations

import pytest

from course_lib.teach.checks import lesson08b

from .finished_runs import hint_of, tried_with_swaps
from .own_trials import program_of

BLOCKS = program_of("08b_eight_bits", "blocks-own")
tried = tried_with_swaps(BLOCKS, "blocks")


FLOOR = "torch.exp2(torch.floor(torch.log2(LARGEST / largest)))"
BY_FREXP = "torch.ldexp(torch.ones_like(largest), 8 - torch.frexp(largest / 1.75)[1] + 1)"
SAVED = "ctx.save_for_backward(*quantise(x.T), weight)"
TAKEN = "values, scales, weight = ctx.saved_tensors"
DW = "dequantise(*quantise(grad.T)) @ dequantise(values, scales).T"
PLAIN_X = [(SAVED, "ctx.save_for_backward(x, weight)"), (TAKEN, "x, weight = ctx.saved_tensors")]


@pytest.mark.parametrize("pairs", [[], [*PLAIN_X, (DW, "product(grad.T, x.T)")]])
def test_right_ones_pass(tried, capsys, pairs):
    lesson08b.ex08b_blocks(tried(*pairs))
    assert "equal to the serial result on 1, 2, 3 and 4 ranks" in capsys.readouterr().out


ZEROS = "    largest = torch.where(largest == 0, 1, largest)\n"
LARGEST = "blocks.abs().amax(2, keepdim=True)"
CAST = "(blocks * scales).to"
BACK = "(values.to(scales.dtype) / scales)"
DX = "dx = product(grad, weight.T)"
WRONG = {
    "a block of zeros": ([(ZEROS, "")], "Some blocks are all zeros"),
    "per tensor": ([(LARGEST, "blocks.abs().amax().expand(rows, k // BLOCK, 1)")],
                   "So the scale of the block is"),
    "per row": ([(LARGEST, "blocks.abs().amax((1, 2), keepdim=True).expand(-1, k // BLOCK, 1)")],
                "So the scale of the block is"),
    "other axis": (
        [("dequantise(*quantise(a)) @ dequantise(*quantise(b)).T",
          "dequantise(*quantise(a.T)).T @ dequantise(*quantise(b.T))")], "along a wrong dimension"),
    "signed": ([("blocks.abs().amax", "blocks.amax")], "without its sign"),
    "inverted": ([(CAST, "(blocks / scales).to"), (BACK, BACK.replace("/", "*"))], "at the cast"),
    "rounded up": ([("floor", "ceil")], "the power of two at or below"),
    "no power of two": ([(FLOOR, "LARGEST / largest")], "the power of two at or below"),
    "E5M2": ([("LARGEST = 32, 448", "LARGEST = 32, 57344"), ("e4m3fn", "e5m2")], "in float8_e5m2"),
    "not divided": ([(BACK, "values.to(scales.dtype)")], "the scale is right"),
    "gradients swapped": ([("return dx, dweight", "return dweight, dx")], "in the same order"),
    "gradient in float64": ([(DX, "dx = grad @ dequantise(*quantise(weight.T)).T")],
                            "grad is not quantised"),
    "plain": ([(DX, "dx = grad @ weight")], "neither factor is quantised"),
    "weight as in forward": (
        [(DX, "dx = dequantise(*quantise(grad)) @ dequantise(*quantise(weight))")],
        "quantise the transposed matrix"),
    "inputs as in forward": (
        [*PLAIN_X, (DW, "dequantise(*quantise(grad.T)) @ dequantise(*quantise(x))")],
        "quantise the transposed matrix"),
    "one quantised gradient": ([("quantise(grad.T)) @", "quantise(grad)).T @")],
                               "dW over rows"),
    "no gradient": ([("return dx, dweight", "return dx, None")], "two gradients"),
}  # fmt: skip


@pytest.mark.many(3)
@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_matmul_is_told_its_mistake(tried, name):
    pairs, words = WRONG[name]
    assert words in hint_of(lesson08b.ex08b_blocks, tried(*pairs))
