"""Mixtures of experts: counts, memory and time follow from which rank holds which experts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from course_lib import plan
from course_lib.plan.shapes.stages import expert_layers_of_stages, layers_of_stages
from course_lib.plan.time.communication import Group, exchange_s

# Billions in all and for a token, as the model cards say.
PUBLISHED_BILLIONS = {
    "mixtral-8x7b": (46.7, 12.9),
    "mixtral-8x22b": (140.6, 39.1),
    "qwen3-30b-a3b": (30.5, 3.3),
    "qwen3-235b-a22b": (235.0, 22.0),
    "deepseek-v3": (671.0, 37.5),
}
SPREAD = plan.Layout(
    tensor=2, pipeline=8, data=8, virtual=7, global_batch=256, zero=1, sequence_parallel=True,
    expert=8, expert_tensor=1,
)  # fmt: skip


@pytest.fixture
def mixtral():
    return plan.preset("mixtral-8x22b")


@pytest.fixture
def machine():
    return plan.cluster("dgx-h100", devices=128)


def with_experts(shape, vocabulary, experts):
    layers, hidden, heads, ffn = shape
    return plan.preset("llama-8b").but(
        layers=layers, hidden=hidden, heads=heads, kv_groups=8, head_size=128, ffn=ffn,
        vocabulary=vocabulary, experts=experts,
    )  # fmt: skip


@pytest.mark.parametrize("name", PUBLISHED_BILLIONS)
def test_parameters_are_those_of_the_model_cards(name):
    total, active = PUBLISHED_BILLIONS[name]
    model = plan.preset(name)
    assert plan.parameters(model).total / 1e9 == pytest.approx(total, rel=0.005)
    assert plan.active_parameters(model) / 1e9 == pytest.approx(active, rel=0.02)


def test_mixtures_outside_the_table_have_as_many_parameters_as_their_cards_say():
    """Billions: DBRX 132 and 36; Phi-3.5-MoE 41.9 and 6.6; Llama 4 Scout 109 and 17, of which 0.9
    see pictures."""
    dbrx = with_experts((40, 6144, 48, 10752), 100352, plan.Experts(16, 4))
    phi = with_experts((32, 4096, 32, 6400), 32064, plan.Experts(16, 2))
    scout = with_experts((48, 5120, 40, 8192), 202048, plan.Experts(16, 1, shared=1))
    for model, total, active in ((dbrx, 132, 36), (phi, 41.9, 6.6), (scout, 107.9, 17.2)):
        assert plan.parameters(model).total / 1e9 == pytest.approx(total, rel=0.01)
        assert plan.active_parameters(model) / 1e9 == pytest.approx(active, rel=0.02)


def test_a_mixture_of_one_expert_is_the_dense_model_and_a_router():
    dense = plan.preset("llama-8b")
    alone = dense.but(experts=plan.Experts(1, 1))
    routers = dense.layers * dense.hidden
    assert plan.parameters(alone).total - plan.parameters(dense).total == routers
    assert plan.active_parameters(alone) == plan.parameters(alone).total


def test_layers_without_experts_are_as_wide_as_what_a_token_passes():
    dense = plan.preset("llama-8b")
    later = dense.but(experts=plan.Experts(8, 2, dense_layers=4))
    every = dense.but(experts=plan.Experts(8, 2))
    assert later.dense_ffn == 2 * dense.ffn
    router = 4 * dense.hidden * 8
    assert plan.active_parameters(every) - plan.active_parameters(later) == router
    second = dense.but(experts=plan.Experts(8, 2, every=2))
    assert (second.expert_layers, later.expert_layers) == (16, 28)


def test_experts_are_counted_on_the_stage_that_holds_their_layer():
    model = plan.preset("deepseek-v3")
    layout = plan.Layout(pipeline=4, virtual=2, data=2, global_batch=8, stages=(7, *[8] * 6, 6))
    assert expert_layers_of_stages(model, layout) == (4 + 8, 16, 16, 14)
    assert sum(expert_layers_of_stages(model, layout)) == model.expert_layers == 58


@pytest.mark.parametrize("expert", [1, 2, 4, 8])
def test_every_expert_is_held_once_by_the_ranks_that_share_a_layer(mixtral, expert):
    layout = SPREAD.but(expert=expert)
    held = sum(plan.on_rank(mixtral, layout, stage).experts for stage in range(8))
    assert held * expert == plan.parameters(mixtral).experts
    split = SPREAD.but(expert=4, expert_tensor=2)
    assert plan.on_rank(mixtral, split, 0).experts == plan.on_rank(mixtral, SPREAD, 0).experts


def test_flops_are_six_for_each_active_parameter_and_attention(mixtral):
    work = plan.of_sequence(mixtral)
    tables = mixtral.vocabulary * mixtral.hidden
    norms = plan.parameters(mixtral).norms
    matmuls = plan.active_parameters(mixtral) - tables - norms
    assert work.forward - work.attention == pytest.approx(2 * mixtral.sequence * matmuls)


def test_more_expert_ranks_take_less_memory_and_more_exchange(mixtral, machine):
    tried = [plan.predict(mixtral, SPREAD.but(expert=ranks), machine) for ranks in (1, 2, 4, 8)]
    memory = [found.device_gib for found in tried]
    exchange = [found.parts.get("exchange", 0.0) for found in tried]
    assert memory == sorted(memory, reverse=True)
    assert exchange == sorted(exchange)
    assert exchange[0] == 0


def test_copies_of_experts_share_their_optimizer_state(mixtral, machine):
    """Half as many experts on a device free their 6 bytes of weights and gradients, but the state
    of 12 bytes is shared by half as many copies, so none of it is freed."""
    one, two = (
        plan.predict(mixtral, SPREAD.but(expert=expert), machine).stages[0] for expert in (1, 2)
    )
    held = plan.on_rank(mixtral, SPREAD.but(expert=1), 0).experts
    assert one.parameters - two.parameters == held * 2 / 2
    assert one.gradients - two.gradients == held * 4 / 2
    assert one.optimizer == two.optimizer


def test_an_exchange_that_leaves_the_node_takes_longer(mixtral):
    layout = plan.Layout(data=8, global_batch=64, zero=1, expert=8)
    inside = plan.predict(mixtral, layout, plan.cluster("dgx-h100", 8))
    quads = plan.cluster("dgx-h100", 8).but(devices_per_node=4, nodes=2)
    across = plan.predict(mixtral, layout, quads)
    assert across.parts["exchange"] > 2 * inside.parts["exchange"]


def test_a_token_crosses_to_a_node_once_however_many_experts_it_has_there():
    where = plan.cluster("dgx-h100", 16).but(across=plan.Link(0, 1), within=plan.Link(0, 1e6))
    few, many = (exchange_s(where, Group(16, 8), 1e9, copies) for copies in (1, 64))
    assert few == pytest.approx(0.5, rel=0.01)
    assert many == pytest.approx(1, rel=0.01)


def test_a_limit_of_the_nodes_of_a_token_shortens_the_exchange():
    """If a token's 8 of 256 experts are on 8 nodes, it reaches 5.3 of them by chance, and 3.6 if
    only 4 are allowed."""
    where = plan.cluster("dgx-h100", 64).but(across=plan.Link(0, 1), within=plan.Link(0, 1e6))
    free, limited = (exchange_s(where, Group(64, 8), 1e9, 8, share) for share in (1, 0.5))
    assert free == pytest.approx(5.25 * 7 / 8, rel=0.01)
    assert limited == pytest.approx(3.6 * 7 / 8, rel=0.01)
    found = plan.preset("deepseek-v3")
    assert found.experts.group_share == 0.5
    anywhere = found.but(experts=replace(found.experts, token_groups=0))
    layout = plan.Layout(data=64, global_batch=64, zero=1, expert=64)
    machine = plan.cluster("dgx-h100", 64)
    times = [plan.predict(model, layout, machine).parts["exchange"] for model in (found, anywhere)]
    assert 0.6 < times[0] / times[1] < 0.9


def test_a_prediction_of_a_further_token_costs_a_layer_and_a_head_on_the_last_stage():
    model = plan.preset("deepseek-v3")
    longer = model.but(mtp_layers=1)
    layout = plan.Layout(
        pipeline=16, data=32, global_batch=1024, zero=1, expert=32, expert_tensor=1,
        stages=(*[4] * 13, *[3] * 3),
    )  # fmt: skip
    machine = plan.cluster("dgx-h100", 512)
    plain, found = (plan.predict(each, layout, machine) for each in (model, longer))
    held = [[plan.on_rank(each, layout, s).total for s in range(16)] for each in (model, longer)]
    assert held[0][:-1] == held[1][:-1]
    joined = 2 * model.hidden**2 + 3 * model.hidden
    one = plan.parameters(longer).total - plan.parameters(model).total - joined
    assert one == plan.parameters(model.but(layers=62)).total - plan.parameters(model).total
    work = [plan.of_sequence(each) for each in (model, longer)]
    assert work[1].head == 2 * work[0].head
    assert work[1].attention / work[0].attention == pytest.approx(62 / 61)
    assert found.stages[-1].logits == 2 * plain.stages[-1].logits
    assert found.stages[-1].allocated > plain.stages[-1].allocated
    assert found.stages[0] == plain.stages[0]
    assert found.seconds > plain.seconds


def test_stages_that_need_not_be_equal_count_further_predictions_as_layers():
    model = plan.preset("deepseek-v3").but(mtp_layers=1)
    layout = plan.Layout(pipeline=16, stages="nearly-even")
    assert layers_of_stages(model, layout) == (*[4] * 14, 3, 3)


def test_published_rates_lie_within_the_interval(mixtral):
    """Up to 49.3 % of the peak for 8x22B on 128 H100 (arXiv 2504.14960)."""
    found = plan.predict(mixtral, SPREAD, plan.cluster("dgx-h100", devices=128))
    low, high = found.interval
    at_once = found.mfu * found.seconds
    assert at_once / high <= 0.493 <= at_once / low
    assert "with experts" in str(found.evidence)
    assert "140.6 billion parameters, 39.2 for a token" in str(found)


def test_the_search_spreads_experts_until_they_fit(mixtral):
    where = plan.cluster("dgx-h100", devices=64)
    found = plan.search(mixtral, where, 256)
    assert found.best.layout.expert > 1
    alone = plan.search(mixtral, where, 256, plan.Choice(expert=(1,)))
    assert not alone.fitting or alone.best.seconds >= found.best.seconds
    assert set(plan.search(mixtral, where, 256, plan.Choice(expert=(4,))).table().expert) == {4}


def test_computation_hides_the_exchange_only_while_it_lasts():
    model, layout = plan.preset("qwen3-30b-a3b"), plan.Layout(data=8, global_batch=64, zero=1)
    near = plan.cluster("dgx-b200", 8)
    far = near.but(nodes=8, devices_per_node=1, across=replace(near.across, gb_per_s=1))
    layout = layout.but(micro_batch=8, expert=8)
    hidden = {}
    for machine in (near, far):
        plain, graphed = (
            plan.predict(model, layout, machine, name).parts for name in ("nemo", "nemo-graphed")
        )
        computed = sum(plain[kind] for kind in ("matmul", "attention", "memory"))
        hidden[machine] = plain["exchange"] - graphed["exchange"]
        assert "launch" not in graphed
        assert hidden[machine] < computed
    assert graphed["exchange"] > plain["exchange"] / 2
    plain = plan.predict(model, layout, near, "nemo").parts
    assert hidden[near] == pytest.approx(0.9 * plain["exchange"])


def test_latent_attention_keeps_one_short_vector_for_all_heads():
    model = plan.preset("deepseek-v3")
    wide = model.but(latent=None, head_size=128)
    assert plan.parameters(model).attention < plan.parameters(wide).attention / 2
    # 187 million in each layer: 7168 × 1536 and 1536 × 24576, 7168 × 576 and 512 × 32768, and out.
    each = 7168 * 1536 + 1536 * 24576 + 7168 * 576 + 512 * 32768 + 16384 * 7168
    assert plan.parameters(model).attention == 61 * each


def test_measured_memory_of_a_deepseek_like_model_is_met():
    """104.3 GiB on 8 B200 with 4 layers, of which the first is dense (SimuMax's measurements)."""
    model = plan.preset("deepseek-v3").but(layers=4)
    model = model.but(experts=plan.Experts(256, 8, shared=1, dense_layers=1, dense_ffn=18432))
    layout = plan.Layout(data=8, global_batch=32, zero=1, expert=8)
    found = plan.predict(model, layout, plan.cluster("dgx-b200", 8), "megatron-lm")
    assert found.allocated_gib == pytest.approx(104.3, rel=0.05)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"count": 0}, "experts.count 0 is too small"),
        ({"per_token": 9}, "per_token 9 is more than the 8 experts"),
        ({"shared": -1}, "experts.shared -1 is too small"),
        ({"dense_layers": 32}, "dense_layers 32 of 32 leaves no layer with experts"),
        ({"dense_layers": 1.5}, "dense_layers"),
        ({"every": 0}, "every"),
        ({"groups": 3}, "groups 3 does not divide experts.count 8; use 2 or 4"),
        ({"groups": 2, "token_groups": 3}, "token_groups 3 is too large; use 2 or less"),
        ({"groups": 8, "token_groups": 1}, "per_token 2 is more than the 1 experts"),
    ],
)
def test_impossible_experts_are_refused(wrong, words):
    with pytest.raises(plan.PlanError, match=words):
        plan.preset("llama-8b").but(experts=plan.Experts(**{"count": 8, "per_token": 2} | wrong))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"expert": 3}, "expert"),
        ({"expert": 0}, "expert"),
        ({"expert": 2.5}, "expert"),
        ({"expert": 8, "expert_tensor": 4}, "tensor × context × data"),
        ({"expert_tensor": 3}, "expert_tensor"),
        ({"sequence_parallel": False}, "sequence_parallel=True"),
    ],
)
def test_layouts_that_cannot_hold_the_experts_are_refused(mixtral, machine, change, words):
    with pytest.raises(plan.PlanError, match=words):
        plan.predict(mixtral, SPREAD.but(**change), machine)


def test_experts_of_a_dense_model_are_refused():
    with pytest.raises(plan.PlanError, match="13b has no experts"):
        plan.predict(plan.preset("13b"), plan.Layout(data=8, expert=8), plan.cluster("selene", 8))
