"""Costs of long runs with failures, and the number of devices beyond which scaling does not
help."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from course_lib.plan.checks import (
    PlanError,
    expect,
    expect_each,
    flag,
    number,
    positive,
    whole_number,
)
from course_lib.plan.estimate import DAY_S, Estimate
from course_lib.plan.kept_work import TYPICAL, Failures, daly_interval_s, useful_share
from course_lib.plan.layout_search import Found, layout_text
from course_lib.plan.shapes.parameter_counts import parameters
from course_lib.words import _

if TYPE_CHECKING:
    import pandas as pd

# Bytes of a checkpoint: 16-bit weights, and master weights and two moments in 32 bits.
CHECKPOINT_BYTES_PER_PARAMETER = 14


def _an_estimate(value: Estimate) -> Estimate:
    return expect(Estimate, "estimate", value, "plan.predict(model, layout, cluster)")


def checkpoint_s(estimate: Estimate, storage_gb_per_s: float) -> float:
    """Return the seconds that all ranks together need to write a checkpoint to this storage."""
    storage_gb_per_s = positive("storage_gb_per_s", storage_gb_per_s)
    size = parameters(_an_estimate(estimate).model).total * CHECKPOINT_BYTES_PER_PARAMETER
    return size / (storage_gb_per_s * 1e9)


@dataclass(frozen=True)
class Campaign:
    """Complete training run: wall-clock time with failures, and its cost."""

    days: float
    days_without_failures: float
    expected_failures: float
    checkpoint_interval_s: float
    useful_share: float
    device_hours: float
    energy_mwh: float | None
    price: float | None
    co2_tonnes: float | None = None


def campaign(
    estimate: Estimate,
    tokens: float,
    failures: Failures = TYPICAL,
    price_per_device_hour: float | None = None,
    pue: float = 1.0,
    price_per_kwh: float | None = None,
    co2_g_per_kwh: float | None = None,
) -> Campaign:
    """Plan training on `tokens` tokens. Energy is the devices' power on their data sheet, times
    `pue`: the energy of the whole centre over that of its computers. The price is of device-hours
    and of energy, as far as their prices are given. What cannot be computed is None."""
    prices = {
        "price_per_device_hour": price_per_device_hour,
        "price_per_kwh": price_per_kwh,
        "co2_g_per_kwh": co2_g_per_kwh,
    }
    known = {name: number(name, value, 0) for name, value in prices.items() if value is not None}
    pue = number("pue", pue, 1)
    expect(Failures, "failures", failures, "plan.Failures()")
    estimate = _an_estimate(estimate)
    nodes = -(-estimate.layout.devices // estimate.cluster.devices_per_node)
    interval = daly_interval_s(failures.checkpoint_s, failures.mtbf_s(nodes))
    share = useful_share(interval, failures, nodes)
    if share <= 0:
        raise PlanError(
            _(
                "{nodes} nodes fail every {nodes2:.3g} s and a checkpoint takes "
                "{checkpoint_s:.3g} s: no work is ever kept; use fewer nodes or a "
                "shorter checkpoint_s",
                nodes=nodes,
                nodes2=failures.mtbf_s(nodes),
                checkpoint_s=failures.checkpoint_s,
            )
        )
    without = estimate.days(tokens)
    hours = estimate.device_hours(tokens) / share
    power = estimate.cluster.device.power_watt
    kwh = None if power is None else hours * power / 1e3 * pue
    bills = [hours * known["price_per_device_hour"]] if "price_per_device_hour" in known else []
    if kwh is not None and "price_per_kwh" in known:
        bills.append(kwh * known["price_per_kwh"])
    per_kwh = known.get("co2_g_per_kwh")
    return Campaign(
        days=without / share,
        days_without_failures=without,
        expected_failures=without / share * DAY_S / failures.mtbf_s(nodes),
        checkpoint_interval_s=interval,
        useful_share=share,
        device_hours=hours,
        energy_mwh=None if kwh is None else kwh / 1e3,
        price=sum(bills) if bills else None,
        co2_tonnes=None if kwh is None or per_kwh is None else kwh * per_kwh / 1e6,
    )


def campaigns(found: Found, tokens: float, count: int = 10, **costs: Any) -> pd.DataFrame:
    """Return the fastest layouts of a search as a table of whole trainings on `tokens` tokens.
    `costs` are arguments of `campaign`; a column that nothing fills is left out."""
    import pandas as pd

    rows = []
    fitting = expect(Found, "found", found, "plan.search(…)").fitting
    for estimate in fitting[: whole_number("count", count)]:
        planned = campaign(estimate, tokens, **costs)
        rows.append(
            {
                "layout": layout_text(estimate.layout),
                "iteration_s": estimate.seconds,
                "mfu": estimate.mfu,
                "device_gib": estimate.device_gib,
                "memory": estimate.verdict,
                "days": planned.days,
                "days_at_most": planned.days * estimate.interval.high / estimate.seconds,
                "device_hours": planned.device_hours,
                "energy_mwh": planned.energy_mwh,
                "co2_tonnes": planned.co2_tonnes,
                "price": planned.price,
            }
        )
    return pd.DataFrame(rows).dropna(axis="columns", how="all")


@dataclass(frozen=True)
class Scaling:
    """Estimates of the same job on increasing numbers of devices."""

    estimates: tuple[Estimate, ...]
    weak: bool

    def speed_up(self, estimate: Estimate) -> float:
        return estimate.tokens_per_s / self.estimates[0].tokens_per_s

    def efficiency(self, estimate: Estimate) -> float:
        more = estimate.layout.devices / self.estimates[0].layout.devices
        return self.speed_up(estimate) / more

    def end(self, least_efficiency: float = 0.5) -> tuple[int, str] | None:
        """Return the devices at which efficiency falls below this, and the part of the time whose
        share grew most; None if it never does."""
        first = self.estimates[0]
        for estimate in self.estimates[1:]:
            if self.efficiency(estimate) < least_efficiency:
                names = set(first.parts) | set(estimate.parts)
                growth = {
                    name: estimate.parts.get(name, 0.0) / estimate.seconds
                    - first.parts.get(name, 0.0) / first.seconds
                    for name in names
                }
                return estimate.layout.devices, max(growth, key=lambda name: growth[name])
        return None

    def table(self) -> pd.DataFrame:
        import pandas as pd

        rows = [
            {
                "devices": estimate.layout.devices,
                "iteration_s": estimate.seconds,
                "tokens_per_s": estimate.tokens_per_s,
                "speed_up": self.speed_up(estimate),
                "efficiency": self.efficiency(estimate),
                "largest_part": max(estimate.parts, key=lambda name: estimate.parts[name]),
            }
            for estimate in self.estimates
        ]
        return pd.DataFrame(rows)


def scale_out(estimate: Estimate, times: Iterable[int], weak: bool = False) -> Scaling:
    """Scale a layout to several numbers of data ranks, with the same batch (strong scaling) or with
    a batch that grows equally (weak scaling)."""
    layout, cluster = _an_estimate(estimate).layout, estimate.cluster
    weak = flag("weak", weak)
    found = []
    for asked in expect_each(object, "times", times, "1"):
        factor = whole_number("times", asked)
        batch = layout.global_batch * (factor if weak else 1)
        wider = layout.but(data=layout.data * factor, global_batch=batch)
        nodes = -(-wider.devices // cluster.devices_per_node)
        found.append(Estimate(estimate.model, wider, cluster.but(nodes=nodes), estimate.stack))
    return Scaling(tuple(found), weak)
