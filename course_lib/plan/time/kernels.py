"""Time of a matmul, of fused attention and of a pass through memory on one device."""

from __future__ import annotations

from functools import lru_cache
from math import ceil

from course_lib.plan.hardware import efficiency as c
from course_lib.plan.hardware.cluster import Device
from course_lib.plan.shapes.layout import LINEAR_PRECISIONS

# Bytes of stored and sent values; with 8- or 4-bit linear layers, everything else is bf16.
ELEMENT_BYTES = {"fp32": 4, "fp16": 2, "bf16": 2, **dict.fromkeys(LINEAR_PRECISIONS, 2)}
# Bytes of a linear layer's operand.
OPERAND_BYTES = ELEMENT_BYTES | {"fp8": 1, "mxfp8": 1, "nvfp4": 0.5}


def without_linear(precision: str) -> str:
    """Return the precision of everything but the linear layers."""
    return "bf16" if precision in LINEAR_PRECISIONS else precision


# Rows and columns of an output tile, and the share of the best rate that these tiles reach.
TILES = ((256, 128, 1.0), (128, 128, 0.95), (128, 64, 0.80), (64, 64, 0.60))


@lru_cache(maxsize=256)
def sustained_flops_per_s(device: Device, precision: str, libraries: int) -> float:
    """Return the sustained training rate of a large matmul, with libraries of that year."""
    if device.lasting_share is not None:
        return device.peak_tflops(precision) * 1e12 * device.lasting_share
    best = c.UNMEASURED_ACHIEVABLE_SHARE
    if device.achievable_tflops is not None and device.bf16_tflops:
        best = device.achievable_tflops / device.bf16_tflops
    lasting = _lasting_share(device.family, libraries)
    best *= c.LINEAR_SHARE.get(precision, 1.0)
    return device.peak_tflops(precision) * 1e12 * best * lasting


def _lasting_share(family: str, libraries: int) -> float:
    """Return the share of the latest measured year up to the libraries' year, or of the first."""
    years = c.SUSTAINED_SHARE.get(family)
    if years is None:
        return c.UNMEASURED_SUSTAINED_SHARE
    return years[max((year for year in years if year <= libraries), default=min(years))]


@lru_cache(maxsize=65536)
def matmul_s(
    device: Device,
    precision: str,
    libraries: int,
    shape: tuple[int, int, int],
    batch: int = 1,
) -> float:
    """Return the time of an m × k by k × n matmul (`batch` of them in one kernel): the longer of
    arithmetic, whose last wave of tiles is partly empty, and memory traffic."""
    m, n, k = shape
    flops = 2.0 * m * n * k * batch
    # The pipeline of a tile needs the same number of bytes in every format.
    ramp = device.matmul_ramp_length * ELEMENT_BYTES[precision] / OPERAND_BYTES[precision]
    rate = sustained_flops_per_s(device, precision, libraries) * k / (k + ramp)
    arithmetic = flops / rate / _best_fill(device.units, m, n, batch)
    moved = OPERAND_BYTES[precision] * batch * (float(m) * k + float(k) * n + float(m) * n)
    return max(arithmetic, memory_s(device, moved))


def _best_fill(units: int | None, m: int, n: int, batch: int) -> float:
    if units is None:
        return 1.0
    best = 0.0
    for rows, columns, rate in TILES:
        tiles = ceil(m / rows) * ceil(n / columns) * batch
        slots = ceil(tiles / units) * units * rows * columns
        best = max(best, rate * m * n * batch / slots)
    return best


def flash_s(device: Device, precision: str, kernel: str, flops: float, sequence: int) -> float:
    """Return the forward time of fused attention over whole sequences of this length."""
    ramp = sequence / (sequence + c.FLASH_RAMP_SEQUENCE)
    if device.flash_shares:
        share = dict(device.flash_shares)[precision]
        return flops / (
            device.peak_tflops("fp32") * 1e12 * (device.lasting_share or 1) * share * ramp
        )
    share = c.FLASH_SHARE.get((kernel, device.family), c.UNMEASURED_FLASH_SHARE)
    return flops / (device.peak_tflops(precision) * 1e12 * share * ramp)


def memory_s(device: Device, moved_bytes: float) -> float:
    """Return the time to read and write `moved_bytes` of device memory in all."""
    return moved_bytes / (device.need("memory_gb_per_s") * 1e9 * c.MEMORY_SHARE)
