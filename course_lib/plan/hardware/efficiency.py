"""Efficiency constants of the model that belong to no single machine or program.

Each line: value, unit, where it comes from. Those marked "fitted" were set by hand to one
significant figure on published runs (`benchmarks/planner.py` prints the errors that remain).
"""

from __future__ import annotations

# Share of the peak that the best measured matrix product reaches, where nobody measured (the
# measured ones, in machines.py, lie between 0.51 and 0.87).
UNMEASURED_ACHIEVABLE_SHARE = 0.78

# Share of that best rate which lasts through training, by family of devices and by the year of the
# libraries that multiply: power and clock limits, and how well the libraries know the device.
# Fitted: A100 on Megatron-LM's runs of 2021; H100 of 2023 on nanotron's and llm-foundry's, of 2024
# on NeMo's; B200 of 2024 on Megatron-LM 0.14's, of 2025 and GB300 on Megatron-Bridge's. An H100
# held to 500 W instead of 700 keeps about (500 / 700) ** 0.5.
SUSTAINED_SHARE = {
    "V100": {2020: 0.93},
    "A100": {2020: 0.92},
    "H100": {2023: 0.73, 2024: 0.82},
    "H100 at 500 W": {2023: 0.62},
    "B200": {2024: 0.58, 2025: 0.80},
    "GB300": {2025: 0.95},
}
UNMEASURED_SUSTAINED_SHARE = 0.80

# The same for products of 8 and 4 bits, relative to bf16: they draw more power, and scales of small
# blocks have to be applied. Fitted: fp8 on NeMo's runs on H100, the others on Megatron-Bridge's.
LINEAR_SHARE = {"fp8": 0.88, "mxfp8": 0.85, "nvfp4": 0.60}

# Bytes moved to bring one element of an operand into the format: read in bf16, written row by row
# and column by column. Scales of MXFP8 differ in both directions, so that it is read twice; NVFP4
# is also rotated, which takes a pass of its own.
CAST_BYTES = {"fp8": 4.0, "mxfp8": 6.0, "nvfp4": 8.0}

# Inner length at which a matrix product reaches half its rate: filling the pipeline of a tile.
MATMUL_RAMP_LENGTH = 200

# Share of the memory bandwidth on the data sheet that streaming kernels reach: 0.8 to 0.9 in
# published STREAM-like measurements.
MEMORY_SHARE = 0.80

# Share of the peak that fused attention reaches on long sequences, forward; by kernel and family
# (FlashAttention-2, arXiv 2307.08691, Fig. 4-7; FlashAttention-3, arXiv 2407.08608, Fig. 5, where
# cuDNN reaches 0.6 alone; 0.55 within training, fitted to NeMo's runs).
FLASH_SHARE = {
    ("flash1", "A100"): 0.35,
    ("flash1", "H100"): 0.20,
    ("flash2", "A100"): 0.55,
    ("flash2", "H100"): 0.34,
    ("cudnn", "A100"): 0.55,
    ("cudnn", "H100"): 0.55,
    ("cudnn", "B200"): 0.50,
    ("cudnn", "GB300"): 0.50,
    ("flash2", "H100 at 500 W"): 0.30,
}
UNMEASURED_FLASH_SHARE = 0.30

# Sequence at which fused attention reaches half of that (same figures).
FLASH_RAMP_SEQUENCE = 256

# The backward pass of fused attention recomputes the scores: five products against two.
FLASH_BACKWARD_FACTOR = 2.5

# How sharply launching and computing take the maximum of the two; 1 would add them.
LAUNCH_SHARPNESS = 6

# Launching the head costs this many layers' worth.
HEAD_LAUNCH_LAYERS = 0.5

# Turns on a shared processor for which a message between two ranks waits (measured on the box:
# pipelines of two stages, with 18 and 34 messages).
MESSAGE_TURNS = 1.0

# A rank that comes from computing, at a pace of its own, takes so many times the turn of one that
# does nothing but send (measured on the box: layouts with tensor 2 and 4, on two processors).
TURN_AFTER_COMPUTING = 3.7

# Ranks that keep a pace compute now longer, now shorter: those that meet at each collective of a
# layer wait for the latest, which adds this share (same measurement, micro-batches of 1 to 8).
LATE_SHARE = 0.2

# Every doubling of the number of nodes makes all wait this share longer for the slowest.
STRAGGLER_SHARE = 0.005

# Context of driver and kernels, and buffers of the communication library, in GiB: 0.5 to 2 and
# 1 to 2 in the ml-engineering book; the lower ends, as large runs report them.
CONTEXT_GIB = 1.5

# Share of the memory on the label that a program can have: 79.1 of 80 GiB on an A100.
USABLE_MEMORY_SHARE = 0.99
