"""Efficiency constants of the model that do not depend on one machine or program.

Each comment says what a value is and where it comes from. "Fitted" values were set by hand to one
significant figure on published runs (`benchmarks/planner.py` prints the remaining errors)."""

from __future__ import annotations

# Share of the peak that the best matmul reaches, for devices without a measurement (the measured
# shares, in machines.py, lie between 0.51 and 0.87).
UNMEASURED_ACHIEVABLE_SHARE = 0.78

# Share of that best rate which is sustained in training, by device family and by year of the matmul
# libraries. It covers power and clock limits, and how well the libraries suit the device. Fitted:
# A100 on Megatron-LM's runs of 2021; H100 of 2023 on nanotron's and llm-foundry's, of 2024 on
# NeMo's; B200 of 2024 on Megatron-LM 0.14's, of 2025 and GB300 on Megatron-Bridge's. An H100
# limited to 500 W instead of 700 keeps about (500 / 700) ** 0.5.
SUSTAINED_SHARE = {
    "V100": {2020: 0.93},
    "A100": {2020: 0.92},
    "H100": {2023: 0.73, 2024: 0.80},
    "H100 at 500 W": {2023: 0.62},
    "B200": {2024: 0.54, 2025: 0.80},
    "GB300": {2025: 0.95},
}
UNMEASURED_SUSTAINED_SHARE = 0.80

# Sustained share of 8- and 4-bit matmuls relative to bf16: they draw more power and apply block
# scales. Fitted: fp8 on NeMo's runs on H100, the others on Megatron-Bridge's.
LINEAR_SHARE = {"fp8": 0.85, "mxfp8": 0.85, "nvfp4": 0.60}

# Bytes moved to cast one element of an operand: read in bf16, written by rows and by columns. MXFP8
# reads twice because its scales differ in the two directions; NVFP4 is also rotated, in a separate
# pass.
CAST_BYTES = {"fp8": 4.0, "mxfp8": 6.0, "nvfp4": 8.0}

# Inner length at which a matmul reaches half its rate, because a tile's pipeline has to fill.
MATMUL_RAMP_LENGTH = 200

# Share of the data-sheet memory bandwidth that streaming kernels reach: 0.8 to 0.9 in published
# STREAM-like measurements.
MEMORY_SHARE = 0.80

# Share of the peak that fused attention reaches on long sequences in forward, by kernel and family
# (FlashAttention-2, arXiv 2307.08691, Fig. 4-7; FlashAttention-3, arXiv 2407.08608, Fig. 5, with
# 0.6 for cuDNN alone; 0.55 in training, fitted to NeMo's runs).
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

# Sequence length at which fused attention reaches half of that share (same figures).
FLASH_RAMP_SEQUENCE = 256

# Fused attention recomputes the scores in backward: five matmuls instead of two.
FLASH_BACKWARD_FACTOR = 2.5

# Factor by which the busiest rank of an expert group has more tokens than the mean, if a loss or a
# bias balances the experts. Fitted, like the next: NeMo's runs of Grok and Qwen3 on H100 and
# Blackwell.
UNEVEN = 1.05

# Passes through memory, in hidden states of routed tokens, to sort tokens by expert and back.
PERMUTED_WIDTHS = 8.0

# Exponent of the smooth maximum of launch time and compute time; 1 would add the two.
LAUNCH_SHARPNESS = 6

# Launching the head takes as long as launching this many layers.
HEAD_LAUNCH_LAYERS = 0.5

# Waits for a shared processor per message between two ranks (measured on the box: pipelines of two
# stages, with 18 and 34 messages).
MESSAGE_TURNS = 1.0

# Factor on the wait for a processor if a rank has just computed at its own pace; 1 is a rank that
# only sends (measured on the box: tensor 2 and 4, on two processors).
TURN_AFTER_COMPUTING = 3.7

# Ranks that keep a pace vary in compute time, and each collective of a layer waits for the latest
# rank. This share is added (same measurement, micro-batches of 1 to 8).
LATE_SHARE = 0.2

# Share of the time that each doubling of the nodes adds, as all wait for the slowest.
STRAGGLER_SHARE = 0.005

# Context of driver and kernels (0.5 to 2 GiB) and buffers of the communication library (1 to 2
# GiB): the lower ends of the ml-engineering book, as large runs report them.
CONTEXT_GIB = 1.5

# Share of the nominal memory that a program can use: 79.1 of 80 GiB on an A100.
USABLE_MEMORY_SHARE = 0.99
