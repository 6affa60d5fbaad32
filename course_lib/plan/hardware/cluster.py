"""Devices, links and clusters. Unpublished values are None; a plan that needs one raises an
error."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from course_lib.mistakes.arguments import explained_methods
from course_lib.mistakes.kinds import shown
from course_lib.mistakes.names import suggests_similar_names
from course_lib.plan.checks import (
    MOST_PARTS,
    PlanError,
    expect,
    expect_each,
    keep_flags,
    keep_numbers,
    keep_texts,
    keep_whole,
    positive,
    whole_number,
)
from course_lib.plan.hardware import efficiency as c
from course_lib.plan.shapes.layout import WHOLE_PRECISIONS
from course_lib.words import _

_MAY_BE_UNKNOWN = (
    *("memory_gib", "memory_gb_per_s", "fp32_tflops", "tf32_tflops", "fp16_tflops", "bf16_tflops"),
    *("fp8_tflops", "fp4_tflops"),
    *("achievable_tflops", "units", "power_watt", "lasting_share"),
)


@suggests_similar_names
@explained_methods("device", "__init__", only_failures=True)
@dataclass(frozen=True)
class Device:
    """One rank's device. Peaks are dense (no sparsity) and from data sheets.

    `achievable_tflops` is the best measured bf16 matmul, None if unmeasured. `units` is the
    number of streaming multiprocessors or compute units among which tiles are distributed.
    `lasting_share` is the calibrated share of the peak that a large matmul keeps. `flash_shares`
    (per precision, processors only) is the rate of fused attention relative to large fp32 matmuls.
    At the inner length `matmul_ramp_length` a matmul reaches half its rate."""

    name: str
    memory_gib: float | None
    memory_gb_per_s: float | None
    fp32_tflops: float | None = None
    tf32_tflops: float | None = None
    fp16_tflops: float | None = None
    bf16_tflops: float | None = None
    achievable_tflops: float | None = None
    units: int | None = None
    power_watt: float | None = None
    family: str = ""
    source: str = ""
    lasting_share: float | None = None
    flash_shares: tuple[tuple[str, float], ...] = ()
    matmul_ramp_length: float = c.MATMUL_RAMP_LENGTH
    fp8_tflops: float | None = None
    fp4_tflops: float | None = None

    def __post_init__(self) -> None:
        keep_texts(self, "name", "family", "source")
        keep_numbers(self, *_MAY_BE_UNKNOWN, above=True, unknown=True)
        keep_numbers(self, "matmul_ramp_length")
        shares = expect_each(tuple, "flash_shares", self.flash_shares, '("bf16", 0.4)', 0)
        object.__setattr__(self, "flash_shares", shares)
        for share in shares:
            if len(share) != 2:
                raise PlanError(
                    _("flash_shares {share} must be a pair, (precision, share)", share=shown(share))
                )
            positive(_("flash share of {share}", share=share[0]), share[1])
        if shares and {name for name, _unused in shares} != set(WHOLE_PRECISIONS):
            raise PlanError(
                _(
                    "flash_shares {flash_shares} does not cover every precision; use a pair for "
                    "each of {precisions}",
                    flash_shares=shown(self.flash_shares),
                    precisions=", ".join(WHOLE_PRECISIONS),
                )
            )

    def peaks(self) -> dict[str, float]:
        """Return the known peaks by precision; fp32 uses the TF32 units if the device has them."""
        known = {
            "fp32": self.tf32_tflops or self.fp32_tflops,
            "fp16": self.fp16_tflops,
            "bf16": self.bf16_tflops,
            "fp8": self.fp8_tflops,
            # Block scales of 32 elements came with the units that multiply 4 bits.
            "mxfp8": self.fp8_tflops if self.fp4_tflops else None,
            "nvfp4": self.fp4_tflops,
        }
        return {name: value for name, value in known.items() if value is not None}

    def peak_tflops(self, precision: str) -> float:
        known = self.peaks()
        if precision not in known:
            works = (
                _("use {known}", known=" or ".join(known))
                if known
                else _(
                    "use dataclasses.replace(device, {precision}_tflops=100)", precision=precision
                )
            )
            raise PlanError(
                _(
                    "no {precision} peak of {name} is known; {works}",
                    precision=precision,
                    name=self.name,
                    works=works,
                )
            )
        return known[precision]

    def need(self, name: str) -> float:
        value = getattr(self, name)
        if value is None:
            raise PlanError(
                _(
                    "{name} of {name2} is unknown, but needed here; measure it, then use "
                    "dataclasses.replace(device, {name}=100)",
                    name=name,
                    name2=self.name,
                )
            )
        return float(value)


@dataclass(frozen=True)
class Link:
    """α–β model of one device's link: each step of a collective costs `latency_us`; bytes move at
    `gb_per_s` in each direction (achieved, not the data-sheet value)."""

    latency_us: float
    gb_per_s: float
    source: str = ""

    def __post_init__(self) -> None:
        keep_texts(self, "source")
        keep_numbers(self, "latency_us")
        keep_numbers(self, "gb_per_s", above=True)


@dataclass(frozen=True)
class Tier:
    """Level of the network: groups over more than `nodes` nodes get this share of the bandwidth."""

    nodes: int
    share: float

    def __post_init__(self) -> None:
        keep_whole(self, "nodes")
        keep_numbers(self, "share", above=True)


@suggests_similar_names
@explained_methods("cluster", "__init__", only_failures=True)
@dataclass(frozen=True)
class Cluster:
    """Equal nodes of equal devices. `across.gb_per_s` is one device's share of its node's network;
    members of a group on one node combine their shares. If `shared_link`, it is the whole node's
    bandwidth, which groups that cross at the same time divide.

    Without `switched`, a device's bandwidth is divided among its peers. `reduce_gain` is the factor
    by which in-switch addition (NVLink SHARP) speeds up an all-reduce in a node. `processors` is
    the number that all ranks share; 0 means that devices are processors of their own. `turn_us` is
    how long a rank waits for a shared processor at each step of a collective if no processor is
    spare. If `paced`, each device computes at its own rate, but messages still share processors."""

    name: str
    device: Device
    devices_per_node: int
    within: Link
    across: Link
    nodes: int = 1
    switched: bool = True
    reduce_gain: float = 1.0
    tiers: tuple[Tier, ...] = ()
    shared_link: bool = False
    processors: int = 0
    turn_us: float = 0.0
    paced: bool = False
    source: str = ""

    def __post_init__(self) -> None:
        keep_texts(self, "name", "source")
        keep_whole(self, "devices_per_node", "nodes")
        whole_number("nodes × devices_per_node =", self.devices, most=MOST_PARTS)
        keep_whole(self, "processors", least=0)
        keep_numbers(self, "reduce_gain", above=True)
        keep_numbers(self, "turn_us")
        keep_flags(self, "switched", "shared_link", "paced")
        expect(Device, "device", self.device, 'plan.device("A100-40GB")')
        for name in ("within", "across"):
            expect(Link, name, getattr(self, name), "plan.Link(latency_us=5, gb_per_s=240)")
        object.__setattr__(
            self, "tiers", expect_each(Tier, "tiers", self.tiers, "plan.Tier(32, 0.5)", 0)
        )

    def share_over(self, nodes: int) -> float:
        """Return the share of the inter-node bandwidth that a group over `nodes` nodes gets."""
        return min((tier.share for tier in self.tiers if nodes > tier.nodes), default=1.0)

    def crowded(self, ranks: int) -> Cluster:
        """Return the cluster as `ranks` ranks see it: no waits if a processor is spare."""
        full = 0 < self.processors <= ranks
        waits = self.turn_us and not full and not self.paced
        return self.but(turn_us=0.0) if waits else self

    @property
    def devices(self) -> int:
        return self.nodes * self.devices_per_node

    def but(self, **changes: Any) -> Cluster:
        return replace(self, **changes)
