"""AdamW on this rank's ranges of parameters, with gradient clipping, loss scaling and float32
master weights."""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from parallel.data_parallel import Part, Replicated, WithExperts
from parallel.fully_sharded import FullySharded
from process.pace import communicating, computing
from training.adam import AdamW, Moments, ParameterGroup


@dataclass
class LossScale:
    """Loss scale for float16, which has no small numbers: the loss is multiplied so that gradients
    just fit.

    The scale starts far too high. It ignores `patience` - 1 overflows and halves at each further
    one; after `window` good steps in a row it doubles, and the count of overflows starts anew."""

    scale: float
    dynamic: bool
    least: float = 1.0
    window: int = 1000
    patience: int = 2
    hysteresis: int = 2
    good_steps: int = 0

    def resume_from(self, saved: dict[str, Any]) -> None:
        """Continue from a saved state. A fixed scale comes from the flag. Other precisions have no
        scale: with the scale 1 of a bfloat16 run, a float16 run would lose its small gradients."""
        if self.dynamic and saved["dynamic"]:
            self.scale = max(self.least, saved["scale"])
            self.hysteresis = min(saved["hysteresis"], self.patience)
            self.good_steps = saved["good_steps"]

    def update(self, overflow: bool) -> None:
        if not self.dynamic:
            return
        if overflow:
            self.good_steps = 0
            self.hysteresis = max(0, self.hysteresis - 1)
            if not self.hysteresis:
                self.scale = max(self.scale / 2, self.least)
            return
        self.good_steps += 1
        if self.good_steps >= self.window:  # can be more if a run continues with a shorter window
            self.good_steps, self.hysteresis = 0, self.patience
            self.scale *= 2


def make_loss_scale(args: argparse.Namespace) -> LossScale:
    if args.loss_scale is not None:
        return LossScale(args.loss_scale, dynamic=False)
    if not args.fp16:
        return LossScale(1.0, dynamic=False)
    return LossScale(
        args.initial_loss_scale,
        dynamic=True,
        least=args.min_loss_scale,
        window=int(args.loss_scale_window),
        patience=args.hysteresis,
        hysteresis=args.hysteresis,
    )


@dataclass(frozen=True)
class StepResult:
    norm: Tensor
    skipped: bool
    stuck: bool = False  # skipped, and the loss scale is at its minimum


Holder = Replicated | WithExperts | FullySharded


class Optimizer:
    """Optimizer step on float32 master copies of half-precision parameters.

    Bytes per parameter, with gradients summed in float32:

                   parameter   gradient   master   Adam's two moments
        float32        4           4         -             8
        bfloat16       2           4         4             8

    ZeRO-1 shards the last two columns over the data ranks. FSDP2 keeps float32 slices of everything
    and rounds what it gathers, so it has no masters."""

    def __init__(self, holder: Holder, args: argparse.Namespace) -> None:
        self.holder, self.args = holder, args
        self.loss_scale, self.steps_taken = make_loss_scale(args), 0
        self.parts = holder.parts()
        self.masters: list[Tensor] = [self._master(part) for part in self.parts]
        groups = [
            ParameterGroup(self._of(True), args.weight_decay),
            ParameterGroup(self._of(False), 0.0),
        ]
        self.adam = AdamW(groups, (args.adam_beta1, args.adam_beta2), args.adam_eps)

    def _of(self, decays: bool) -> list[Tensor]:
        return [m for m, p in zip(self.masters, self.parts, strict=True) if p.decays == decays]

    def _master(self, part: Part) -> nn.Parameter:
        # A step often changes a weight by less than a thousandth. bfloat16 has 8 bits and float16
        # 11, so the sum would round to the old value. So weights are kept in float32, and the model
        # gets rounded copies.
        low = part.parameter.dtype in (torch.float16, torch.bfloat16)
        values = part.parameter.detach()
        return nn.Parameter(values.float() if low else values)

    @torch.no_grad()
    def step(self, rate: float) -> StepResult:
        """Clip, step, and give the new parameters to all ranks; skip if gradients overflow."""
        with computing("optimizer"):
            self.holder.reduce()
            parts = self.holder.parts()
            scale = self.loss_scale.scale
            norm = self.norm(parts) / scale  # gradients still have the loss scale
            # An infinity or NaN makes the norm infinite or NaN on all ranks, so all skip, or none.
            # .item() waits for the device, so only float16 checks it, also with a fixed scale.
            if self.args.fp16:
                overflow = not math.isfinite(norm.item())
                self.loss_scale.update(overflow)
                if overflow:
                    stuck = self.loss_scale.dynamic and scale <= self.loss_scale.least
                    return StepResult(norm, skipped=True, stuck=stuck)
            self._scale(parts, norm, scale)
            self.adam.step(rate)
            self.adam.forget_gradients()  # float32 copies of float16 gradients
            self.steps_taken += 1
            self._write_back(parts)
            self.holder.gather()
        return StepResult(norm, skipped=False)

    def norm(self, parts: list[Part]) -> Tensor:
        """Return the norm of the whole model's gradient, with each parameter counted once."""
        wide = torch.promote_types(parts[0].gradient.dtype, torch.float32)
        square = torch.zeros((), dtype=wide, device=parts[0].gradient.device)
        for part in parts:
            if part.counted:
                square += torch.linalg.vector_norm(part.gradient, dtype=square.dtype).square()
        group = self.holder.norm_group  # sends one number, not the gradients
        if group.size > 1:
            with communicating("communication: norm"):
                dist.all_reduce(square, group=group.handle)
        return square.sqrt()

    def _scale(self, parts: list[Part], norm: Tensor, scale: float) -> None:
        """Remove the loss scale and clip in one pass; give the gradients to the masters."""
        clip = self.args.clip_grad
        # A tensor, not a number, so that nothing waits for the device.
        factor = torch.clamp(clip / (norm + 1e-6), max=1.0) if clip else torch.ones_like(norm)
        factor /= scale
        for part, master in zip(parts, self.masters, strict=True):
            gradient = part.gradient.to(master.dtype)
            master.grad = gradient.mul_(factor.to(gradient.dtype))

    def _write_back(self, parts: list[Part]) -> None:
        for part, master in zip(parts, self.masters, strict=True):
            if part.parameter.dtype != master.dtype:
                part.parameter.copy_(master)

    def by_name(self, with_moments: bool) -> dict[str, dict[str, Tensor]]:
        """Return copies of the weights and Adam's moments, by parameter; a collective call."""
        kinds = {"weight": self.masters}
        if with_moments:
            kinds["mean"] = [self._moments(m).mean for m in self.masters]
            kinds["square"] = [self._moments(m).square for m in self.masters]
        with torch.no_grad():
            return {kind: self.holder.by_name(values) for kind, values in kinds.items()}

    def _moments(self, master: Tensor) -> Moments:
        # Adam has no moments before its first step; a checkpoint then has zeros, the initial
        # values.
        return self.adam.moments.get(master) or Moments.none_yet(master)

    def tensors(self) -> dict[str, list[Tensor]]:
        """Return the persistent tensors by purpose, for the memory trace."""
        moments = [t for of in self.adam.moments.values() for t in (of.steps, of.mean, of.square)]
        masters = [m.data for m, p in zip(self.masters, self.parts, strict=True)
                   if m.dtype != p.parameter.dtype]  # fmt: skip
        return {**self.holder.tensors(), "optimizer": moments + masters}

    @torch.no_grad()
    def set_by_name(self, kinds: dict[str, dict[str, Tensor]]) -> None:
        """Set this rank's parts from values by parameter: the reverse of `by_name`."""
        weights = self.holder.from_names(kinds["weight"], self.masters)
        for master, part, values in zip(self.masters, self.parts, weights, strict=True):
            master.copy_(values)
            part.parameter.copy_(master)
        self.holder.gather()
        if "mean" not in kinds:
            return
        means = self.holder.from_names(kinds["mean"], self.masters)
        squares = self.holder.from_names(kinds["square"], self.masters)
        for master, mean, square in zip(self.masters, means, squares, strict=True):
            count = torch.tensor(float(self.steps_taken), device=master.device)
            self.adam.moments[master] = Moments(count, mean, square)
