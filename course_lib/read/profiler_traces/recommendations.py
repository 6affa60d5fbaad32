"""Recommendations for the next step, each with the number that supports it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from course_lib.read.messages import _

if TYPE_CHECKING:
    from course_lib.read.profiler_traces.result import Profile

MUCH_DATA_LOADING = 0.05
MUCH_COMMUNICATION = 0.10
LOW_UTILISATION = 0.50
MUCH_SKEW = 0.10
MUCH_WAITING = 0.05
NEARLY_FULL = 0.90
_FIRST = {"high": 0, "middle": 1, "low": 2}


@dataclass(frozen=True)
class Recommendation:
    """Recommendation with a `severity` of `high`, `middle` or `low`."""

    title: str
    evidence: str
    advice: str
    severity: str

    def __str__(self) -> str:
        return f"{self.title}: {self.evidence}. {self.advice}"


def recommend(profile: Profile) -> tuple[Recommendation, ...]:
    if profile.step_time.empty:
        return ()
    found = [
        *_data(profile),
        *_waiting(profile),
        *_communication(profile),
        *_utilisation(profile),
        *_tensor_cores(profile),
        *_memory(profile),
        *_skew(profile),
    ]
    return tuple(sorted(found, key=lambda item: _FIRST[item.severity]))


def _sums(profile: Profile) -> dict[str, float]:
    sums = profile.overlap.drop(columns=["rank", "step"]).sum()
    return {str(name): float(value) for name, value in sums.items()}


def _data(profile: Profile) -> Iterator[Recommendation]:
    steps, sums = profile.step_time, _sums(profile)
    named = float(steps["dataloader_us"].sum()) / max(float(steps["total_us"].sum()), 1e-9)
    share = max(named, sums["data_us"] / max(sums["total_us"], 1e-9))
    if share > MUCH_DATA_LOADING:
        yield Recommendation(
            _("Waiting for data"),
            _("{share:.1%} of the step time goes into the data loader", share=share),
            _(
                "Give the loader more workers (num_workers), pin its memory, or prepare the data "
                "before the run."
            ),
            "high" if share > 2 * MUCH_DATA_LOADING else "middle",
        )


def _waiting(profile: Profile) -> Iterator[Recommendation]:
    """Compare times in collectives: time beyond the time of the last rank is waiting."""
    waits = profile.communication.groupby("rank")["synchronising_us"].sum(min_count=1).dropna()
    total = _sums(profile)["total_us"]
    if len(waits) < 2 or not total:
        return
    share = float(waits.sum()) / total
    if share > MUCH_WAITING:
        last = waits.index[int(waits.to_numpy().argmin())]
        yield Recommendation(
            _("Ranks wait for a late rank"),
            _(
                "{share:.1%} of the step time is waiting in collectives; rank {last} waits "
                "least, so it arrives last",
                share=share,
                last=last,
            ),
            _(
                "Look at what rank {last} does before the collective: its data, its share "
                "of the work, its device.",
                last=last,
            ),
            "high" if share > 2 * MUCH_WAITING else "middle",
        )


def _communication(profile: Profile) -> Iterator[Recommendation]:
    sums = _sums(profile)
    total = max(sums["total_us"], 1e-9)
    exposed, whole = sums["exposed_communication_us"] / total, sums["communication_us"] / total
    if exposed > MUCH_COMMUNICATION:
        hidden = 1 - exposed / whole
        yield Recommendation(
            _("Exposed communication"),
            _(
                "{exposed:.1%} of the step time is exposed communication; computation "
                "hides {hidden:.0%} of all communication",
                exposed=exposed,
                hidden=hidden,
            ),
            _(
                "Accumulate gradients, send a smaller type, or send while computing "
                "(buckets, prefetching). Keep ranks that communicate often inside a "
                "node."
            ),
            "high" if exposed > 2 * MUCH_COMMUNICATION else "middle",
        )


def _utilisation(profile: Profile) -> Iterator[Recommendation]:
    share = profile.gpu_utilisation
    if share is not None and share < LOW_UTILISATION:
        yield Recommendation(
            _("The device waits for the host"),
            _("kernels run for only {share:.1%} of the recorded time", share=share),
            _(
                "Use larger batches or fewer, larger kernels (fused operators, "
                "torch.compile, CUDA graphs). Look for synchronising calls such as "
                ".item()."
            ),
            "high" if share < LOW_UTILISATION / 2 else "middle",
        )


def _tensor_cores(profile: Profile) -> Iterator[Recommendation]:
    able = any(_major(item) >= 7 for part in profile.parts for item in part.trace.devices)
    operators = profile.operators
    device = float(operators["device_self_us"].sum()) if len(operators) else 0.0
    eligible = operators.loc[operators["tensor_core_eligible"].astype(bool), "device_self_us"].sum()
    if able and profile.tensor_core_share == 0.0 and device and eligible / device > 0.05:
        yield Recommendation(
            _("Tensor Cores are idle"),
            _(
                "operators that could use them take {share:.1%} of the device's time",
                share=eligible / device,
            ),
            _(
                "Train in mixed precision (bfloat16 or float16), with sizes that are "
                "multiples of 8."
            ),
            "middle",
        )


def _major(device: dict[str, Any]) -> int:
    """Return the major compute capability; Tensor Cores came with 7.0."""
    found = device.get("computeMajor")
    return found if type(found) is int else 0


def _memory(profile: Profile) -> Iterator[Recommendation]:
    for item in profile.memory:
        if item.limit_bytes and item.peak_bytes > NEARLY_FULL * item.limit_bytes:
            yield Recommendation(
                _("Memory is nearly full"),
                _(
                    "rank {rank} uses {share:.1%} of {limit:.1f} GiB on {device}",
                    rank=item.rank,
                    share=item.peak_bytes / item.limit_bytes,
                    limit=item.limit_bytes / 2**30,
                    device=item.device,
                ),
                _("Use activation checkpointing or a smaller micro-batch, or shard the optimizer."),
                "high",
            )


def _skew(profile: Profile) -> Iterator[Recommendation]:
    """Compare the ranks' compute times, step by step."""
    busy = profile.overlap.pivot_table("compute_us", "step", "rank", aggfunc="sum").dropna()
    spread = float((busy.max(axis=1) - busy.min(axis=1)).mean())
    mean = float(busy.mean(axis=1).mean())
    if mean and spread / mean > MUCH_SKEW:
        yield Recommendation(
            _("Ranks are out of step"),
            _(
                "the slowest rank (mostly {slowest}) computes {share:.1%} longer than the fastest",
                slowest=busy.idxmax(axis=1).mode().iloc[0],
                share=spread / mean,
            ),
            _("Look for uneven work: pipeline stages, data of different length, a slower device."),
            "middle",
        )
