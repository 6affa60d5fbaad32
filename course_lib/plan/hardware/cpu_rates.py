"""Matmul rates of this machine's processor by number format."""

from __future__ import annotations

from pathlib import Path

FLAGS = Path("/proc/cpuinfo")
# Matmul rates relative to float32 in a small GPT's training, measured with torch 2.13 on one core
# of an AMD EPYC of 2024. A processor without an instruction was simulated by switching it off in
# the library. AMX, and AVX-512 for float16, were not measured.
BF16_BY_FLAG = (("avx512_bf16", 2.3), ("amx_bf16", 2.3), ("avx512f", 0.38))
FP16_BY_FLAG = (("avx512_fp16", 2.0),)
# Rate without these instructions: 0.055 on that core; 0.041 on another EPYC with faster float32.
EMULATED = 0.047
# Inner length at which a matmul reaches half its rate; at 64 it is within 5 % of the best.
MATMUL_RAMP_LENGTH = 3.0
# Rate of fused attention relative to large float32 matmuls, by precision, from the same
# measurement: it has no fast path for 16-bit formats.
FLASH_SHARES = (("fp32", 1.0), ("bf16", 0.38), ("fp16", 0.13))


def products_relative_to_fp32() -> dict[str, float]:
    """Return the rate by precision; if the kernel shows no flags, the rate of emulation."""
    flags = _flags()
    table = {"bf16": BF16_BY_FLAG, "fp16": FP16_BY_FLAG}
    return {
        precision: next((rate for flag, rate in rates if flag in flags), EMULATED)
        for precision, rates in table.items()
    }


def _flags() -> frozenset[str]:
    try:
        with FLAGS.open(errors="replace") as lines:  # one line per core; the first will do
            found = next((line for line in lines if line.startswith("flags")), "")
    except OSError:
        return frozenset()
    return frozenset(found.partition(":")[2].split())
