"""The numbers of lesson 17 that are worked out by hand."""

from __future__ import annotations

from course_lib import plan
from course_lib.teach.slips import ROUNDED, Quantity, Slip

TOKENS, MOST_DAYS, MOST_DEVICES = 2e12, 90, 1024
"""The plan on paper."""
H100_TFLOPS = 989
WIDE_KEYS = "48 heads share 8 keys and 8 values, so these matrices are 6144 × (8 × 128)."


def least_days() -> Quantity:
    parameters = plan.parameters(plan.preset("llama-70b")).total
    right = 6 * parameters * TOKENS / (MOST_DEVICES * H100_TFLOPS * 1e12) / 86400
    own: tuple[Slip, ...] = (
        (right * 8 / 6, "The factor 8 counts a recomputation, which is no part of a bound."),
        (right * 2 / 6, "The factor 2 counts the forward pass alone."),
        (right * MOST_DEVICES, "That is for one device."),
        (right / 2, "1,979 TFLOP/s are for matrices half of which is zero. Dense are 989."),
        (right * H100_TFLOPS / 312, "312 TFLOP/s are an A100's. These are H100."),
        (right * 2, "That is at half of the peak, or with 512 devices. 1024 may be had, at 989."),
        (right * H100_TFLOPS / 67, "67 TFLOP/s are the float32 of an H100. bf16 has 989."),
        (right * H100_TFLOPS / 60, "60 TFLOP/s are the float32 of an H100. bf16 has 989."),
        (right * 4 / 6, "The factor 4 counts the backward pass alone."),
        (right / 6, "Each parameter and token takes 6 FLOPs: 2 forward, 4 backward."),
        (right * 6, "You counted the 6 twice."),
        (right / 2 * 8 / 6, "1,979 TFLOP/s are for sparse matrices, and 8 counts a recomputation."),
        (MOST_DAYS, "That is the limit of the plan. A bound is asked for."),
        (right / 0.4, "That is at 40 % of the peak. Not a bound: some plan might do better."),
    )
    return Quantity(
        right=right,
        unit="days",
        share=0.03,
        own=own,
        shared_by={"devices": MOST_DEVICES, "nodes": MOST_DEVICES / 8},
    )


def _wide_keys() -> float:
    """Billions by which keys and values as wide as the model are too many."""
    of = plan.mixture("mixtral-8x22b").one
    return 2 * of.layers * of.hidden * (of.heads - (of.kv_groups or of.heads)) * 128 / 1e9


def total() -> Quantity:
    mixture = plan.mixture("mixtral-8x22b")
    one, layers = mixture.of_one_expert / 1e9, mixture.one.layers
    right = mixture.total / 1e9
    own: tuple[Slip, ...] = (
        (8 * 22, "8 × 22 would be eight whole models. They share attention, tables and norms."),
        (right - layers * 8 * one / 3, "An expert with SwiGLU has three matrices, not two."),
        (layers * 8 * one, "These are the experts alone; attention and tables are missing."),
        (mixture.active / 1e9, "These are the parameters that a token passes. Memory holds all."),
        (right - (8 - 1) * layers * one, "That has one expert in each layer. There are eight."),
        (right + _wide_keys(), WIDE_KEYS),
    )  # fmt: skip
    return _billions(right, own, 8 * one * layers)


def _billions(right: float, own: tuple[Slip, ...], experts: float) -> Quantity:
    mixture = plan.mixture("mixtral-8x22b")
    of = mixture.one
    tables = 2 * of.hidden * of.vocabulary / 1e9
    return Quantity(
        right=right, unit="billions", share=ROUNDED, fine=0.001, own=own,
        parts={
            "the tables of words": tables, "one of the two tables": tables / 2,
            "one expert in each layer": mixture.of_one_expert * of.layers / 1e9,
            "attention": right - experts - tables, "one layer": right / of.layers,
            "one of the three matrices of each expert": experts / 3,
        },
    )  # fmt: skip


def active() -> Quantity:
    mixture = plan.mixture("mixtral-8x22b")
    one, layers = mixture.of_one_expert / 1e9, mixture.one.layers
    right = mixture.active / 1e9
    own: tuple[Slip, ...] = (
        (mixture.total / 1e9, "These are all of them. A token passes two experts of eight."),
        (mixture.total / 4e9, "A quarter of all would be attention cut in four as well; every "
         "token passes all of that."),
        (right - layers * one, "That is with one expert for a token. The router takes two."),
        (right - 2 * layers * one / 3, "An expert with SwiGLU has three matrices, not two."),
        (2 * layers * one, "These are the experts alone; attention and tables are missing."),
        (right + _wide_keys(), WIDE_KEYS),
        (2 * 22, "2 × 22 counts attention and tables twice."),
    )  # fmt: skip
    return _billions(right, own, 2 * one * layers)
