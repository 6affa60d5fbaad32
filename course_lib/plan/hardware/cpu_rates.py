"""Number formats that the processor of this machine multiplies fast."""

from __future__ import annotations

from pathlib import Path

FLAGS = Path("/proc/cpuinfo")
# Rates of matrix products relative to float32, of torch 2.13 on one core of an AMD EPYC of 2024:
# the products of a small GPT's training, together; for processors without an instruction, its
# library was told to do without. Those of AMX and of AVX-512 for float16 were not measured.
BF16_BY_FLAG = (("avx512_bf16", 2.3), ("amx_bf16", 2.3), ("avx512f", 0.38))
FP16_BY_FLAG = (("avx512_fp16", 2.0),)
# Without any: 0.055 on that core, 0.041 on one of another EPYC, which multiplies float32 faster.
EMULATED = 0.047
# Inner length at which a product reaches half its rate; at 64 it is within 5 % of the best.
MATMUL_RAMP_LENGTH = 3.0
# Rate of fused attention relative to that of large float32 products, by precision (same
# measurement: it has no fast way for halves).
FLASH_SHARES = (("fp32", 1.0), ("bf16", 0.38), ("fp16", 0.13))


def products_relative_to_fp32() -> dict[str, float]:
    """By precision; where the kernel does not tell, what emulation gives."""
    flags = _flags()
    table = {"bf16": BF16_BY_FLAG, "fp16": FP16_BY_FLAG}
    return {
        precision: next((rate for flag, rate in rates if flag in flags), EMULATED)
        for precision, rates in table.items()
    }


def _flags() -> frozenset[str]:
    try:
        with FLAGS.open(errors="replace") as lines:  # once for every core; the first will do
            found = next((line for line in lines if line.startswith("flags")), "")
    except OSError:
        return frozenset()
    return frozenset(found.partition(":")[2].split())
