"""Costs of long runs with failures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from course_lib.plan.checks import PlanError, expect, number, whole_number
from course_lib.plan.estimate import DAY_S, Estimate
from course_lib.plan.kept_work import TYPICAL, Failures, daly_interval_s, useful_share
from course_lib.plan.layout_search import Found, layout_text
from course_lib.words import _

if TYPE_CHECKING:
    import pandas as pd


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
    """Plan training on so many tokens. Energy is the devices' power on their data sheet, times
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
    expect(Estimate, "estimate", estimate, "plan.predict(model, layout, cluster)")
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
    """Return the fastest layouts of a search as a table of whole trainings on so many tokens.
    `costs` are arguments of `campaign`; an empty column is left out."""
    import pandas as pd

    rows = []
    fitting = expect(Found, "found", found, "plan.search(…)").fitting
    for estimate in fitting[: whole_number("count", count)]:
        planned = campaign(estimate, tokens, **costs)
        share, slow_s = estimate.slow or (None, None)
        rows.append(
            {
                "layout": layout_text(estimate.layout),
                "iteration_s": estimate.seconds,
                "mfu": estimate.mfu,
                "device_gib": estimate.device_gib,
                "memory": estimate.verdict,
                "overflow_chance": estimate.overflow_chance,
                "days": planned.days,
                "days_at_most": planned.days * estimate.interval.high / estimate.seconds,
                "slow_share": share,
                "days_if_slow": slow_s and planned.days * slow_s / estimate.seconds,
                "device_hours": planned.device_hours,
                "energy_mwh": planned.energy_mwh,
                "co2_tonnes": planned.co2_tonnes,
                "price": planned.price,
            }
        )
    return pd.DataFrame(rows, index=range(1, len(rows) + 1)).dropna(axis="columns", how="all")
