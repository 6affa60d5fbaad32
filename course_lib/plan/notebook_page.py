"""Page of a notebook with choices and sliders over the search."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from course_lib.plan.checks import PlanError, divisors
from course_lib.plan.explanation import explain
from course_lib.plan.hardware.cluster import Cluster
from course_lib.plan.hardware.machines import CLUSTERS, cluster
from course_lib.plan.layout_search import Choice, search
from course_lib.plan.scale import campaigns
from course_lib.plan.shapes.layout import PRECISIONS
from course_lib.plan.shapes.model import Model
from course_lib.plan.shapes.presets import PRESETS, preset
from course_lib.words import _

if TYPE_CHECKING:
    from ipywidgets import Widget

# Tokens of a batch with which large models are usually trained.
USUAL_BATCH_TOKENS = 4_000_000


def machine(name: str, devices: int) -> Cluster:
    """Return a cluster of exactly `devices` devices, with the same number from each node."""
    whole = cluster(name)
    each = max(count for count in divisors(devices) if count <= whole.devices_per_node)
    return whole.but(devices_per_node=each, nodes=devices // each)


def usual_batch(model: Model, devices: int) -> int:
    """Return the power of two nearest to the usual tokens of a batch, or more for many devices."""
    sequences = 1
    while sequences * model.sequence < USUAL_BATCH_TOKENS or sequences < devices / 8:
        sequences *= 2
    return sequences


def page() -> Widget:
    """Return a page that plans a training while you move its sliders."""
    import ipywidgets as widgets
    from IPython.display import display

    names = [name for name, model in PRESETS.items() if model.causal]
    tokens = [(f"{10**exponent:.0e}", 10.0**exponent) for exponent in range(9, 15)]
    powers = [2**exponent for exponent in range(15)]
    chosen = {
        "model": widgets.Dropdown(options=names, value="llama-70b", description=_("model")),
        "where": widgets.Dropdown(
            options=list(CLUSTERS), value="dgx-h100", description=_("machine")
        ),
        "devices": widgets.SelectionSlider(options=powers, value=512, description=_("devices")),
        "tokens": widgets.SelectionSlider(options=tokens, value=1e12, description=_("tokens")),
        "precision": widgets.Dropdown(options=PRECISIONS, value="bf16", description=_("precision")),
        "price": widgets.FloatSlider(value=2, min=0, max=10, step=0.25, description=_("price/h")),
    }

    def show(**values: Any) -> None:
        try:
            table, text = planned(**values)
        except PlanError as error:
            print(error)
            return
        display(table.style.format(precision=2, thousands=","))  # type: ignore[no-untyped-call]
        print(text)

    result = widgets.interactive_output(show, chosen)
    return widgets.VBox([widgets.HBox(list(chosen.values())[:3]),
                         widgets.HBox(list(chosen.values())[3:]), result])  # fmt: skip


def planned(
    model: str, where: str, devices: int, tokens: float, precision: str, price: float
) -> tuple[Any, str]:
    """Return the table of the ten fastest layouts, and the explanation of the fastest."""
    shape = preset(model)
    choice = Choice(precision=precision)
    found = search(shape, machine(where, devices), usual_batch(shape, devices), choice)
    best = found.best  # raises an error that names the cure if nothing fits
    return campaigns(found, tokens, price_per_device_hour=price), str(explain(best))
