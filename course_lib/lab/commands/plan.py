"""`course plan`: the best layouts for a training run, and its batch script."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping
from pathlib import Path

from course_lib import plan
from course_lib.lab.commands.common import add_site, count, parser
from course_lib.lab.errors import LabError
from course_lib.lab.job.recipes import gpt
from course_lib.lab.lab import Lab
from course_lib.plan.notebook_page import machine, usual_batch
from course_lib.plan.shapes.layout import PRECISIONS
from course_lib.words import N_, _

EXAMPLE = N_(
    "Example: course plan --model llama-70b --gpus 512 --machine H100 --tokens 2e12 --price 2\n"
    "The model is a name that `course plan --list` prints, or a config.json of Hugging Face."
)
MEGATRON = "Megatron-LM/pretrain_gpt.py"


def main(argv: list[str]) -> int:
    options = _options()
    given = options.parse_args(argv)
    if given.list:
        print(_names())
        return 0
    if not given.model or not given.gpus:
        options.error(_("--model and --gpus are needed, or --list"))
    return _answer(given)


def number(word: str) -> float:
    """Read a number with or without a unit: 1e12, 15T."""
    power = " KMBT".find(word[-1:].upper())
    return float(word[:-1]) * 1000**power if power > 0 else float(word)


def _options() -> argparse.ArgumentParser:
    options = parser("plan", _("Searches the fastest layouts of a model on a machine."), EXAMPLE)
    options.add_argument("--model", help=_("a preset, or the path of a config.json"))
    options.add_argument("--gpus", type=count, help=_("number of devices"))
    options.add_argument("--machine", default="H100", help=_("device or cluster (default: H100)"))
    options.add_argument("--tokens", type=number, default=1e12, help=_("default: 1e12"))
    options.add_argument("--batch", type=count, help=_("sequences (default: 4 million tokens)"))
    options.add_argument("--sequence", type=count, help=_("tokens of a sequence"))
    options.add_argument("--precision", choices=PRECISIONS, default="bf16")
    options.add_argument("--code", default="megatron-core", help=_("the training program"))
    options.add_argument("--price", type=float, help=_("of a device-hour"))
    options.add_argument("--pue", type=float, default=1.0, help=_("energy overhead of the centre"))
    options.add_argument("--price-per-kwh", type=float, help=_("of energy"))
    options.add_argument("--co2", type=float, help=_("grams for each kWh"))
    options.add_argument("--top", type=count, default=10, help=_("number of layouts"))
    shown = options.add_mutually_exclusive_group()
    shown.add_argument("--json", action="store_true", help=_("print the table as JSON"))
    shown.add_argument("--csv", action="store_true", help=_("print the table as CSV"))
    shown.add_argument("--explain", type=count, metavar="N", help=_("explain layout N"))
    shown.add_argument("--flags", type=count, metavar="N", help=_("Megatron-LM flags of layout N"))
    shown.add_argument("--script", type=count, metavar="N", help=_("batch script of layout N"))
    shown.add_argument("--list", action="store_true", help=_("print models, machines and programs"))
    add_site(options)
    return options


def _names() -> str:
    names: dict[str, Mapping[str, object]] = {
        _("models"): plan.PRESETS,
        _("machines"): plan.CLUSTERS,
        _("devices"): plan.DEVICES,
        _("programs"): plan.STACKS,
    }
    return "\n".join(f"{title}: {', '.join(found)}" for title, found in names.items())


def _answer(given: argparse.Namespace) -> int:
    is_file = given.model.endswith(".json") or Path(given.model).is_dir()
    model = plan.from_hf(given.model) if is_file else plan.preset(given.model)
    if given.sequence:
        model = model.but(sequence=given.sequence)
    where = machine(given.machine, given.gpus)
    batch = given.batch or usual_batch(model, given.gpus)
    choice = plan.Choice(precision=given.precision)
    found = plan.search(model, where, batch, choice, given.code)
    best = found.best  # raises an error that names the cure if nothing fits
    costs = {
        "price_per_device_hour": given.price,
        "pue": given.pue,
        "price_per_kwh": given.price_per_kwh,
        "co2_g_per_kwh": given.co2,
    }
    chosen = given.explain or given.flags or given.script
    if chosen:
        print(_layout_text(given, found, chosen))
        return 0
    table = plan.campaigns(found, given.tokens, given.top, **costs)
    if given.json or given.csv:
        text = table.to_json(orient="records") if given.json else table.to_csv(index=False)
        print(text.rstrip("\n"))
        return 0
    print(best)
    print(
        _(
            "nodes × devices: {nodes} × {each}; batch of {batch} sequences; {tokens:.3g} tokens",
            nodes=where.nodes,
            each=where.devices_per_node,
            batch=batch,
            tokens=given.tokens,
        )
    )
    print(table.round(3).to_string())
    return 0


def _layout_text(given: argparse.Namespace, found: plan.layout_search.Found, number: int) -> str:
    if number > len(found.fitting):
        raise LabError(
            _("layout {number} does not exist; {most} fit", number=number, most=len(found.fitting))
        )
    estimate = found.fitting[number - 1]
    if given.explain:
        return f"{plan.explain(estimate)}\n{estimate.table().round(3).to_string(index=False)}"
    recipe = gpt.of_estimate(re.sub(r"[^\w-]+", "-", estimate.model.name), estimate, MEGATRON)
    if given.flags:
        return " ".join(recipe.arguments)
    return str(Lab(site=given.site, quiet=True).script(recipe)).rstrip("\n")
