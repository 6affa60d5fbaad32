"""The page of sliders answers every choice that it offers with a plan or with a sentence."""

from __future__ import annotations

import itertools

import pytest

from course_lib import plan
from course_lib.plan.notebook_page import machine, page, planned, usual_batch


def choices():
    first, second, _ = page().children
    return {widget.description: widget for widget in (*first.children, *second.children)}


def test_it_offers_every_model_of_text_and_every_cluster():
    offered = choices()
    assert set(offered["machine"].options) == set(plan.CLUSTERS)
    assert set(offered["model"].options) == set(plan.PRESETS) - {"vit-weather"}


def test_every_choice_is_planned_or_refused_in_words():
    offered = choices()
    models, machines = offered["model"].options, offered["machine"].options
    for model, where in itertools.product(models[::4], machines[::3]):
        for precision in offered["precision"].options[::2]:
            try:
                table, text = planned(model, where, 64, 1e12, precision, 2)
            except plan.PlanError:
                continue  # the page prints its sentence
            assert (table.price > 0).all()
            assert "order of gain" in text


def test_a_slider_that_moves_plans_anew(capsys):
    offered = choices()
    offered["devices"].value = 64
    offered["model"].value = "llama-8b"
    assert "llama-8b on 64 × H100" in capsys.readouterr().out


@pytest.mark.parametrize(("devices", "each"), [(512, 64), (72, 72), (7, 7), (146, 2), (1, 1)])
def test_a_machine_has_exactly_the_devices_asked_for(devices, each):
    found = machine("gb200-nvl72", devices)
    assert (found.devices, found.devices_per_node) == (devices, each)


def test_a_usual_batch_has_some_million_tokens_and_work_for_every_device():
    assert usual_batch(plan.preset("llama-8b"), 8) * 8192 == 2**22
    assert usual_batch(plan.preset("llama-8b"), 16384) == 2048
