"""The planner answers nonsense with a sentence that has the value and what would work. Every
argument of every public function and dataclass is replaced by each kind of nonsense in turn. The
other arguments stay as in a call that works.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import tempfile
from typing import Any

import numpy as np
import pytest

from course_lib import plan, read

MODEL, LAYOUT, WHERE = plan.preset("tiny"), plan.Layout(), plan.cluster("selene", 8)
ESTIMATE = plan.predict(MODEL, LAYOUT, WHERE)
LINK = plan.Link(5, 25)
FOUND = plan.search(MODEL, WHERE, 8)
CONFIG = {
    "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 512,
    "intermediate_size": 128,
}  # fmt: skip
ARGUMENTS = {
    "num_layers": "2", "hidden_size": "64", "num_attention_heads": "4", "seq_length": "64",
    "padded_vocab_size": "512", "micro_batch_size": "1", "world_size": "1",
}  # fmt: skip
with tempfile.NamedTemporaryFile(suffix=".log") as empty:
    LOG = dataclasses.replace(read.training_log(empty.name), arguments=ARGUMENTS)
RUN = plan.Observation(MODEL, LAYOUT, 0.1)
CALLS: list[tuple[Any, dict[str, Any]]] = [
    (plan.Model, {"name": "m", "layers": 2, "hidden": 64, "heads": 4, "sequence": 64}),
    (plan.Patches, dict.fromkeys(("height", "width", "size", "in_channels", "out_channels"), 8)),
    (plan.Layout, {}),
    (plan.Device, {"name": "d", "memory_gib": 40, "memory_gb_per_s": 1555, "bf16_tflops": 312}),
    (plan.Link, {"latency_us": 5, "gb_per_s": 25}),
    (plan.Tier, {"nodes": 32, "share": 0.5}),
    (
        plan.Cluster,
        {"name": "c", "device": plan.device("H100"), "devices_per_node": 8}
        | {"within": LINK, "across": LINK},
    ),
    (plan.Stack, {"name": "mine"}),
    (plan.Failures, {}),
    (plan.Choice, {}),
    (plan.Observation, {"model": MODEL, "layout": LAYOUT, "seconds": 1.0}),
    (plan.Estimate, {"model": MODEL, "layout": LAYOUT, "cluster": WHERE, "stack": ESTIMATE.stack}),
    (plan.preset, {"name": "tiny"}),
    (plan.device, {"name": "H100"}),
    (plan.cluster, {"name": "selene"}),
    (plan.box, {}),
    (plan.predict, {"model": MODEL, "layout": LAYOUT, "cluster": WHERE}),
    (plan.search, {"model": MODEL, "cluster": WHERE, "global_batch": 8}),
    (plan.of_sequence, {"model": MODEL}),
    (plan.of_iteration, {"model": MODEL, "layout": LAYOUT}),
    (plan.parameters, {"model": MODEL}),
    (plan.on_rank, {"model": MODEL, "layout": LAYOUT, "stage": 0}),
    (plan.groups, {"layout": LAYOUT}),
    (
        plan.training_days,
        {"parameters": 1e9, "tokens": 1e9, "devices": 8, "tflops_per_device": 100},
    ),
    (plan.campaign, {"estimate": ESTIMATE, "tokens": 1e9}),
    (plan.calibrate, {"cluster": plan.box(), "stack": plan.STACKS["course"], "runs": [RUN]}),
    (plan.NcclCluster, {}),
    (plan.nccl_log, {}),
    (plan.Experts, {"count": 8, "per_token": 2}),
    (plan.Latent, {"kv_rank": 512, "rotary_size": 64, "value_size": 128}),
    (plan.active_parameters, {"model": MODEL}),
    (plan.explain, {"estimate": ESTIMATE}),
    (plan.campaigns, {"found": FOUND, "tokens": 1e9}),
    (plan.from_hf, {"config": CONFIG}),
    (plan.from_log, {"log": LOG, "hardware": "H100"}),
    (plan.checkpoint_interval, {"checkpoint_s": 60.0, "mtbf_s": 3600.0}),
    (plan.goodput, {"nodes": 2}),
    (plan.goodputs, {"devices": [16]}),
    (plan.failures_of, {"run": "llama-405b"}),
    (ESTIMATE.peak_gib, {"kind": "device", "of": "max"}),
    (FOUND.table, {"count": 3}),
    (plan.explain(ESTIMATE).faster, {"count": 3}),
]
NONSENSE = [
    *(-1, -8, 0, -0.5, 0.5, 1e400, float("nan"), 10**400, "x", "", "8", b"8", True, None),
    *([], [1], {}, {1: 2}, (1, 2, 3), object(), np.array([1, 2]), np.float32("nan"), 1j, ...),
    *(np.array(8), MODEL, LAYOUT, WHERE, ESTIMATE, FOUND),
]
NEGATIVE = (-1, -8, -0.5, -(10**400), np.int64(-3), np.float32(-2))
NOT_NUMBERS = ("x", "8", b"8", None, [], [1], {}, object(), np.array([1, 2]), float("nan"), 1j)
LATER = {"bubbles", "with_links"}  # takes tables of measurements, which have tests of their own


def arguments() -> list[Any]:
    return [
        pytest.param(call, works, name, id=f"{call.__name__}-{name}")
        for call, works in CALLS
        for name, what in inspect.signature(call).parameters.items()
        if what.kind not in (what.VAR_POSITIONAL, what.VAR_KEYWORD)
    ]


def test_every_public_name_is_asked():
    callables = {name for name in plan.__all__ if callable(getattr(plan, name))}
    assert callables - {call.__name__ for call, _ in CALLS} == {"PlanError", "page"} | LATER


@pytest.mark.parametrize(("call", "works", "name"), arguments())
def test_nonsense_is_answered_or_refused_in_words(call, works, name):
    call(**works)
    for value in NONSENSE:
        refusal = refusal_of(call, works | {name: value})
        assert refusal is None or (WORKS.search(refusal) and len(refusal) < A_SCREEN)


A_SCREEN = 1000
WORKS = re.compile("use |there are|give |of its own")


def refusal_of(call, asked) -> str | None:
    try:
        made = call(**asked)
        if isinstance(made, plan.Estimate):
            str(made)
    except plan.PlanError as refused:
        return str(refused)
    return None


def numbers_of(call, works) -> list[str]:
    """Return the arguments whose given or default value is a number."""
    usual = {name: what.default for name, what in inspect.signature(call).parameters.items()}
    if dataclasses.is_dataclass(call):
        usual |= {field.name: field.default for field in dataclasses.fields(call)}
    return [
        name
        for name, value in (usual | works).items()
        if type(value) in (int, float) or name in MAY_BE_UNKNOWN
    ]


MAY_BE_UNKNOWN = {
    *("memory_gib", "memory_gb_per_s", "device_memory_gib", "bf16_tflops", "units", "power_watt"),
    *("lasting_share", "price_per_device_hour", "interval_s"),
}
NUMBERS = [
    pytest.param(call, works, name, id=f"{call.__name__}-{name}")
    for call, works in CALLS
    for name in numbers_of(call, works)
]
BEYOND = (5e-324, 1e-300, 1e-16, 1e16, 1e300, 10**16, 10**5000)
EDGES = (1e-15, 1e15, 10**9, 10**6, 999_983)


@pytest.mark.parametrize(("call", "works", "name"), NUMBERS)
def test_what_is_beyond_arithmetic_is_refused_and_all_else_has_finite_answers(call, works, name):
    for value in BEYOND:
        with pytest.raises(plan.PlanError, match="; use "):
            call(**works | {name: value})
    for value in EDGES:
        refusal, said = None, ""
        try:
            said = answers(call(**works | {name: value}))
        except plan.PlanError as refused:
            refusal = str(refused)
        assert refusal is None or WORKS.search(refusal)
        assert not re.search(r"\b(nan|inf)\b", said)


def answers(made: Any) -> str:
    """Return the planner's answer to a run with this value."""
    if isinstance(made, plan.Device):
        made = WHERE.but(device=made)
    elif isinstance(made, plan.Link):
        made = WHERE.but(within=made, across=made, nodes=4)
    elif isinstance(made, plan.Tier):
        made = WHERE.but(tiers=(made,), nodes=made.nodes + 1)
    elif isinstance(made, plan.Failures):
        return f"{plan.goodput(2, made)} {plan.campaign(ESTIMATE, 1e9, made)}"
    if isinstance(made, plan.Cluster):
        plan.search(MODEL, made.but(nodes=2, devices_per_node=2), 8).table()
        made = plan.predict(MODEL, plan.Layout(data=made.devices), made)
    elif isinstance(made, plan.Stack):
        made = plan.predict(MODEL, LAYOUT, WHERE, made)
    elif isinstance(made, plan.Model):
        made = plan.predict(made, LAYOUT, WHERE)
    elif isinstance(made, plan.Layout):
        made = plan.predict(MODEL, made, WHERE.but(nodes=-(-made.devices // 8)))
    return f"{made} {made.table()}" if isinstance(made, plan.Estimate) else str(made)


@pytest.mark.parametrize(
    "choice",
    [
        {"tensor": ()}, {"recompute": []}, {"virtual": (7,)}, {"tensor": (3,)},
        {"micro_batch": (7,)}, {"precision": "int8"}, {"zero": (3,), "virtual": (7,)},
    ],
)  # fmt: skip
def test_a_choice_of_nothing_says_of_what(choice):
    with pytest.raises(plan.PlanError, match=r"^(?!.*: ;).*; use "):
        _ = plan.search(MODEL, WHERE, 8, plan.Choice(**choice)).best


def test_a_device_may_be_given_lists():
    shares = [("bf16", 0.4), ("fp16", 0.4), ("fp32", 0.4)]
    given = dataclasses.replace(plan.device("H100"), flash_shares=shares)
    assert plan.predict(MODEL, LAYOUT, WHERE.but(device=given)).seconds > 0


def test_selective_recomputation_alone_is_a_choice_though_fused_attention_has_nothing_to_keep():
    assert plan.search(MODEL, WHERE, 8, plan.Choice(recompute=("selective",))).fitting


@pytest.mark.parametrize(("call", "works", "name"), NUMBERS)
def test_no_number_may_be_negative_or_none_at_all(call, works, name):
    for value in (*NEGATIVE, *NOT_NUMBERS):
        if value is None and name in MAY_BE_UNKNOWN:
            continue
        with pytest.raises(plan.PlanError) as refused:
            call(**works | {name: value})
        assert "use " in str(refused.value)
        shown = str(refused.value)
        assert repr(value) in shown or str(value) in shown or type(value).__name__ in shown


@pytest.mark.parametrize(
    "zero",
    [
        lambda: plan.Link(5, 0),
        lambda: plan.Tier(32, 0),
        lambda: plan.Failures(node_mtbf_hours=0),
        lambda: plan.Failures(checkpoint_s=0),
        lambda: plan.Observation(MODEL, LAYOUT, 0),
        lambda: dataclasses.replace(plan.device("H100"), memory_gib=0),
        lambda: dataclasses.replace(plan.device("H100"), bf16_tflops=0.0),
        lambda: WHERE.but(devices_per_node=0),
        lambda: WHERE.but(reduce_gain=0),
        lambda: plan.box(link_gbit_per_s=0),
        lambda: plan.box(device_memory_gib=0),
        lambda: plan.training_days(1e9, 1e9, 0, 100),
        lambda: plan.training_days(1e9, 1e9, 8, 0),
        lambda: plan.search(MODEL, WHERE, 0),
        lambda: plan.Experts(0, 1),
        lambda: plan.checkpoint_interval(0, 3600),
        lambda: plan.checkpoint_interval(60, 0),
        lambda: plan.goodput(0),
        lambda: plan.goodput(2, interval_s=0),
        lambda: plan.goodputs([0]),
        lambda: plan.goodputs([16], devices_per_node=0),
        lambda: plan.failures_of("llama-405b", checkpoint_s=0),
    ],
)
def test_what_is_divided_by_is_not_zero(zero):
    with pytest.raises(plan.PlanError, match=r"0.* is too small; use"):
        zero()


@pytest.mark.parametrize("share", ["tensor_overlap", "data_overlap", "offloaded_share"])
def test_no_program_hides_more_than_all_of_a_transfer(share):
    with pytest.raises(plan.PlanError, match=f"{share} 1.5 is too large; use 1 or less"):
        plan.Stack("mine", **{share: 1.5})


@pytest.mark.parametrize("written", ["h100", "H100", " h100 ", "a100-40gb", "A100-40GB", "mi300x"])
def test_hardware_is_found_in_any_case(written):
    device = plan.device(written)
    assert device.name == written.strip().upper()
    assert plan.cluster(written, 16).device == device


def test_other_names_are_found_in_any_case_too():
    assert plan.cluster("Selene") == plan.cluster("selene")
    assert plan.preset("GPT2") == plan.preset("gpt2") == plan.preset("GPT 2")
    assert plan.predict(MODEL, LAYOUT, WHERE, "Megatron-Core") == ESTIMATE
    with pytest.raises(plan.PlanError, match="no device 'h1000' in the table; use one of H100"):
        plan.device("h1000")
    with pytest.raises(plan.PlanError, match="use one of A100-40GB, A100-80GB, "):
        plan.device("A100")


@pytest.mark.parametrize("share", [0.951, 0.97, 0.99, 0.999, 1.0])
@pytest.mark.parametrize("stack", list(plan.STACKS))
@pytest.mark.parametrize("model", ["tiny", "gpt2", "13b"])
def test_nearly_full_is_tight(model, stack, share):
    """This holds whatever the interval of the code base is."""
    layout = plan.Layout()
    needed = plan.predict(plan.preset(model), layout, WHERE, stack).device_gib
    usable = ESTIMATE.capacity_gib / WHERE.device.need("memory_gib")
    device = dataclasses.replace(WHERE.device, memory_gib=needed / usable / share * (1 + 1e-9))
    full = plan.predict(plan.preset(model), layout, WHERE.but(device=device), stack)
    assert full.verdict == "tight"
    roomy = dataclasses.replace(device, memory_gib=needed * 3)
    assert (
        plan.predict(plan.preset(model), layout, WHERE.but(device=roomy), stack).verdict == "fits"
    )


FAMILIES = {device.family for device in plan.DEVICES.values()}
LAYOUTS = [plan.Layout(data=8), plan.Layout(pipeline=2, data=16), plan.Layout(data=512)]


@pytest.mark.parametrize("stack", list(plan.STACKS))
@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: f"{layout.devices} devices")
def test_unmeasured_hardware_is_never_surer_than_measured(stack, layout):
    from course_lib.plan.published.intervals import _residuals

    measured = {key.split("/")[2] for key in _residuals() if key.startswith("time/device/")}
    assert 0 < len(measured) < len(FAMILIES)

    def width(family: str) -> float:
        device = dataclasses.replace(WHERE.device, family=family)
        where = WHERE.but(device=device, nodes=64)
        found = plan.predict(plan.preset("llama-8b"), layout, where, stack)
        low, high = (edge / found.seconds for edge in found.interval)
        assert low <= 1.05
        return high - low

    surest = min(map(width, measured))
    for family in FAMILIES - measured | {"box", "something new"}:
        assert width(family) >= surest - 1e-9
