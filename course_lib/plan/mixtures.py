"""Mixtures of experts: exact counts where possible, and bounds on the rest.

Each layer has several parallel feed-forward blocks, the experts; its router sends each token to a
few of them. So a mixture needs the memory of a large model and the arithmetic of a small one. The
bounds differ because the shape does not show two things: how evenly the router distributes tokens,
and how much of the token exchange is hidden behind computation."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from course_lib.mistakes.arguments import explained_methods
from course_lib.mistakes.names import answers_misspelt
from course_lib.plan.checks import PlanError, divides, expect, keep_whole, whole_number
from course_lib.plan.code_bases import Stack, stack_named
from course_lib.plan.estimate import GIB, Estimate, predict
from course_lib.plan.hardware.cluster import Cluster
from course_lib.plan.shapes.layout import Layout
from course_lib.plan.shapes.model import Model
from course_lib.plan.shapes.parameter_counts import layer, parameters
from course_lib.plan.shapes.stages import layers_of_stages
from course_lib.plan.time.communication import Group, bytes_per_s
from course_lib.plan.time.kernels import ELEMENT_BYTES, memory_s
from course_lib.words import _

# Transfers of each token in each layer: to its experts and back, in forward and in backward.
CROSSINGS = 4
# Factor by which the busiest device may exceed its share if no token is dropped. Routers are
# trained to be even, and towards the end of training mostly are.
UNEVEN = 1.5


@answers_misspelt
@explained_methods("mixture", "__init__", "predict", only_failures=True)
@dataclass(frozen=True)
class Mixture:
    """Mixture of experts. `one` is the model with one expert per layer; its `ffn` is one expert's.
    Every token uses `per_token` experts and all `shared` ones. The first `dense_layers` have no
    experts; their MLP is as wide as a token's experts in the other layers."""

    one: Model
    experts: int
    per_token: int
    shared: int = 0
    dense_layers: int = 0

    def __post_init__(self) -> None:
        expect(Model, "one", self.one, 'plan.preset("llama-8b")')
        keep_whole(self, "experts", "per_token")
        keep_whole(self, "shared", "dense_layers", least=0)
        if self.per_token > self.experts:
            raise PlanError(
                _(
                    "per_token {per_token} is more than the {experts} experts; use at "
                    "most {experts}",
                    per_token=self.per_token,
                    experts=self.experts,
                )
            )
        if self.dense_layers >= self.one.layers:
            raise PlanError(
                _(
                    "dense_layers {dense_layers} of {layers} leaves no layer with "
                    "experts; use fewer",
                    dense_layers=self.dense_layers,
                    layers=self.one.layers,
                )
            )

    @property
    def name(self) -> str:
        return self.one.name

    @cached_property
    def of_one_expert(self) -> int:
        """Return the parameters of one expert in one layer."""
        return layer(self.one).mlp

    @property
    def expert_layers(self) -> int:
        return self.one.layers - self.dense_layers

    def _with(self, experts: int) -> int:
        routers = self.expert_layers * self.one.hidden * self.experts
        blocks = self.expert_layers * (experts + self.shared)
        blocks += self.dense_layers * (self.per_token + self.shared)
        more = (blocks - self.one.layers) * self.of_one_expert
        return parameters(self.one).total + routers + more

    @property
    def total(self) -> int:
        """Return all parameters, which memory has to hold."""
        return self._with(self.experts)

    @property
    def active(self) -> int:
        """Return the parameters that one token uses; they determine its arithmetic."""
        return self._with(self.per_token)

    @property
    def twin(self) -> Model:
        """Return the dense model with as much arithmetic per token."""
        passed = self.per_token + self.shared
        return self.one.but(name=f"{self.name}-twin", ffn=passed * self.one.ffn)

    def predict(
        self, layout: Layout, cluster: Cluster, expert_ranks: int = 1,
        stack: Stack | str = "megatron-core",
    ) -> MixtureBounds:  # fmt: skip
        """Return bounds of memory and time. `expert_ranks` data ranks share a layer's experts."""
        ranks = whole_number("expert_ranks", expert_ranks)
        divides("expert_ranks", ranks, "experts", self.experts)
        data = expect(Layout, "layout", layout, "plan.Layout(data=4)").data
        divides("expert_ranks", ranks, _("data ranks"), data)
        return MixtureBounds(self, predict(self.twin, layout, cluster, stack_named(stack)), ranks)


@answers_misspelt
@dataclass(frozen=True)
class MixtureBounds:
    """Bounds for a mixture. `twin` is the estimate of the dense model with the same arithmetic."""

    mixture: Mixture
    twin: Estimate
    expert_ranks: int

    @cached_property
    def _layers(self) -> int:
        """Return the number of expert layers on the stage that has most."""
        most = max(layers_of_stages(self.mixture.one, self.twin.layout))
        return min(most, self.mixture.expert_layers)

    @property
    def expert_parameters(self) -> float:
        """Return the parameters of routed experts on the device that holds most of them."""
        tensor, count = self.twin.layout.tensor, self.mixture.experts // self.expert_ranks
        return float(self._layers * count * self.mixture.of_one_expert) / tensor

    @cached_property
    def low_gib(self) -> float:
        """Return the least memory: the twin's peak with all the device's experts instead of those
        of one token. Activations are those of evenly loaded experts."""
        layout, stack = self.twin.layout, self.twin.stack
        wide = layout.precision == "fp32"
        counted = self._layers * self.mixture.per_token * self.mixture.of_one_expert / layout.tensor
        weights = 4.0 if wide else stack.weight_bytes
        gradients = 4.0 if wide else stack.gradient_bytes
        state = 8.0 if wide else stack.optimizer_bytes

        def standing(held: float, copies: int) -> float:
            """Return the bytes for so many parameters if `copies` devices can shard them."""
            each = weights / (copies if layout.zero == 3 else 1)
            each += gradients / (copies if layout.zero >= 2 else 1)
            return held * (each + state / (copies if layout.zero else 1))

        data = layout.data * layout.context
        more = standing(self.expert_parameters, max(1, data // self.expert_ranks))
        more -= standing(counted, data)
        return self.twin.device_gib + more * (1 + stack.reserve_share) / GIB

    @property
    def high_gib(self) -> float:
        """Return the most memory: `low_gib`, the activations of experts with `UNEVEN` times their
        share, and buffers for tokens in transit between devices."""
        layout, one = self.twin.layout, self.mixture.one
        tokens = layout.micro_batch * one.sequence // layout.context
        element = ELEMENT_BYTES[layout.precision]
        widths = one.ffn * (3 if one.activation == "swiglu" else 2) / layout.tensor + one.hidden
        kept = tokens * self.mixture.per_token * widths * element * self._layers
        alive = min(layout.pipeline, layout.micro_batches)
        kept *= 0 if layout.recompute == "full" else alive
        buffers = 2.0 * tokens * self.mixture.per_token * one.hidden * element
        return self.low_gib + ((UNEVEN - 1) * kept + buffers) / GIB

    @cached_property
    def exchange_s(self) -> float:
        """Return the seconds to send tokens to experts and back in one iteration, without
        overlap."""
        layout, cluster, ranks = self.twin.layout, self.twin.cluster, self.expert_ranks
        if ranks == 1:
            return 0.0
        one = self.mixture.one
        tokens = layout.micro_batch * one.sequence / layout.context
        tokens /= layout.tensor if layout.sequence_parallel else 1
        leaving = tokens * self.mixture.per_token * one.hidden * ELEMENT_BYTES[layout.precision]
        per_node = max(1, cluster.devices_per_node // layout.tensor)
        group = Group(ranks, min(ranks, per_node), -(-ranks // per_node))
        inside = (min(ranks, per_node) - 1) / ranks
        outside = 1 - 1 / ranks - inside
        alone = Group(group.size, 1, group.reach)
        seconds = inside * leaving / bytes_per_s(cluster, Group(per_node, per_node))
        if outside > 0:
            seconds += outside * leaving / bytes_per_s(cluster, alone)
        link = cluster.across if outside > 0 else cluster.within
        seconds += link.latency_us * 1e-6
        return CROSSINGS * seconds * self._layers * layout.micro_batches

    @property
    def low_s(self) -> float:
        """Return the least time: experts are evenly loaded, and the exchange overlaps with all
        work."""
        return max(self.twin.interval.low, self.exchange_s)

    @property
    def high_s(self) -> float:
        """Return the most time: nothing overlaps, the busiest experts have `UNEVEN` times their
        share, and the optimizer updates all experts of the device."""
        stack, cluster = self.twin.stack, self.twin.cluster
        work = sum(self.twin.parts.get(part, 0.0) for part in ("matmul", "memory", "launch"))
        optimizer = memory_s(cluster.device, self.expert_parameters * stack.optimizer_moved_bytes)
        more = (UNEVEN - 1) * work + self.exchange_s + optimizer
        return self.twin.interval.high + more

    @property
    def fits(self) -> bool | None:
        """Tell whether the mixture fits; None if only the lower bound does."""
        if self.low_gib > self.twin.capacity_gib:
            return False
        return True if self.high_gib <= self.twin.capacity_gib else None

    @property
    def mfu(self) -> tuple[float, float]:
        """Return the MFU of the slowest and of the fastest case."""
        at = self.twin.mfu * self.twin.seconds
        return at / self.high_s, at / self.low_s

    def days(self, tokens: float) -> tuple[float, float]:
        """Return the days of the fastest and of the slowest case."""
        each = self.twin.days(tokens) / self.twin.seconds
        return each * self.low_s, each * self.high_s

    def __str__(self) -> str:
        mixture, (low_mfu, high_mfu) = self.mixture, self.mfu
        verdict = {True: "fits", False: "overflows", None: "may or may not fit"}[self.fits]
        return _(
            "{name}: {total:.1f} billion parameters, {active:.1f} of them for a "
            "token; {low_s:.3g} to {high_s:.3g} s per iteration (MFU {low_mfu:.0%} "
            "to {high_mfu:.0%}); {low_gib:.1f} to {high_gib:.1f} of "
            "{capacity_gib:.1f} GiB: {verdict}",
            name=mixture.name,
            total=mixture.total / 1000000000.0,
            active=mixture.active / 1000000000.0,
            low_s=self.low_s,
            high_s=self.high_s,
            low_mfu=low_mfu,
            high_mfu=high_mfu,
            low_gib=self.low_gib,
            high_gib=self.high_gib,
            capacity_gib=self.twin.capacity_gib,
            verdict=verdict,
        )
