"""Mixtures of experts: parameters are counted exactly, the rest lies between honest bounds."""

from __future__ import annotations

import pytest

from course_lib import plan

# Total and active, as the model cards say.
PUBLISHED_BILLIONS = {
    "mixtral-8x7b": (46.7, 12.9),
    "mixtral-8x22b": (140.6, 39.1),
    "qwen3-30b-a3b": (30.5, 3.3),
    "qwen3-235b-a22b": (235.0, 22.0),
    "deepseek-v3": (671.0, 37.5),
}
SPREAD = plan.Layout(
    tensor=2, pipeline=8, data=8, virtual=7, global_batch=256, zero=1, sequence_parallel=True
)


@pytest.fixture
def mixtral():
    return plan.mixture("mixtral-8x22b")


@pytest.fixture
def machine():
    return plan.cluster("dgx-h100", devices=128)


@pytest.mark.parametrize("name", PUBLISHED_BILLIONS)
def test_parameters_are_those_of_the_model_cards(name):
    total, active = PUBLISHED_BILLIONS[name]
    found = plan.mixture(name)
    assert found.total / 1e9 == pytest.approx(total, rel=0.005)
    assert found.active / 1e9 == pytest.approx(active, rel=0.02)


def test_a_mixture_of_one_expert_is_the_model_itself_but_for_the_router():
    dense = plan.preset("llama-8b")
    alone = plan.Mixture(dense, experts=1, per_token=1)
    assert alone.total - plan.parameters(dense).total == dense.layers * dense.hidden
    assert alone.total == alone.active
    assert alone.twin.ffn == dense.ffn


def test_shared_experts_are_held_and_passed_by_all():
    dense = plan.preset("llama-8b")
    without = plan.Mixture(dense, 8, 2)
    shared = plan.Mixture(dense, 8, 2, shared=1)
    each = dense.layers * without.of_one_expert
    assert shared.total - without.total == shared.active - without.active == each


def test_others_of_published_shapes_have_as_many_parameters_as_their_cards_say():
    """Billions: DBRX 132 and 36; Phi-3.5-MoE 41.9 and 6.6; Llama 4 Scout 109 and 17, of which 0.9
    see pictures."""

    def shape(layers, hidden, heads, ffn, vocabulary):
        return plan.preset("llama-8b").but(
            layers=layers, hidden=hidden, heads=heads, kv_groups=8, head_size=128, ffn=ffn,
            vocabulary=vocabulary,
        )  # fmt: skip

    dbrx = plan.Mixture(shape(40, 6144, 48, 10752, 100352), 16, 4)
    phi = plan.Mixture(shape(32, 4096, 32, 6400, 32064), 16, 2)
    scout = plan.Mixture(shape(48, 5120, 40, 8192, 202048), 16, 1, shared=1)
    for mixture, total, active in ((dbrx, 132, 36), (phi, 41.9, 6.6), (scout, 107.9, 17.2)):
        assert mixture.total / 1e9 == pytest.approx(total, rel=0.01)
        assert mixture.active / 1e9 == pytest.approx(active, rel=0.02)


def test_layers_without_experts_are_as_wide_as_what_a_token_passes():
    dense = plan.preset("llama-8b")
    all_layers, later = (plan.Mixture(dense, 8, 2, dense_layers=n) for n in (0, 4))
    router = 4 * dense.hidden * 8
    assert all_layers.active - later.active == router
    assert all_layers.total - later.total == router + 4 * 6 * later.of_one_expert
    layout = plan.Layout(data=8, global_batch=64, zero=1)
    low, high = (m.predict(layout, plan.cluster("dgx-h100", 8)) for m in (later, all_layers))
    assert low.expert_parameters * 32 == high.expert_parameters * 28


@pytest.mark.parametrize("machine", ["dgx-h100", "selene", "dgx-h200", "lumi", "mi300x"])
def test_bounds_of_any_machine_are_plausible(mixtral, machine):
    """No machine is faster than its peak, nor are two such bounds closer than measured runs are."""
    found = mixtral.predict(SPREAD, plan.cluster(machine, devices=128), expert_ranks=8)
    slow, fast = found.mfu
    assert 0.05 < slow < fast < 0.9
    assert 1.3 < found.high_s / found.low_s < 5
    at_peak = 6 * mixtral.active * 2e12 / (128 * found.twin.cluster.device.bf16_tflops * 1e12)
    assert found.days(2e12)[0] > at_peak / 86400


def test_one_expert_on_one_rank_is_bounded_by_the_dense_estimate():
    dense, where = plan.preset("llama-8b"), plan.cluster("dgx-h100", devices=8)
    layout = plan.Layout(data=8, global_batch=64, zero=1)
    bounds = plan.Mixture(dense, 1, 1).predict(layout, where)
    known = plan.predict(dense, layout, where)
    assert bounds.low_gib == pytest.approx(known.device_gib)
    assert bounds.low_s == known.interval.low
    assert bounds.exchange_s == 0
    assert bounds.high_s > known.interval.high


def test_published_shares_of_the_peak_lie_between_the_bounds(mixtral, machine):
    """Up to 49.3 % for 8x22B on H100 (arXiv 2504.14960); 468 TFLOP/s for 8x7B in bf16 (the guide
    of Megatron Core)."""
    low, high = mixtral.predict(SPREAD, machine, expert_ranks=8).mfu
    assert low <= 0.493 <= high
    small = plan.mixture("mixtral-8x7b")
    layout = plan.Layout(pipeline=4, data=16, virtual=8, global_batch=256, zero=1)
    low, high = small.predict(layout, plan.cluster("dgx-h100", 64), expert_ranks=8).mfu
    assert low <= 468 / 989 <= high


def test_more_expert_ranks_take_less_memory_and_more_exchange(mixtral, machine):
    tried = [mixtral.predict(SPREAD, machine, ranks) for ranks in (1, 2, 4, 8)]
    memory = [bounds.low_gib for bounds in tried]
    exchange = [bounds.exchange_s for bounds in tried]
    assert memory == sorted(memory, reverse=True)
    assert exchange == sorted(exchange)
    assert tried[0].exchange_s == 0
    assert all(bounds.low_gib <= bounds.high_gib for bounds in tried)
    assert all(bounds.low_s <= bounds.high_s for bounds in tried)


def test_experts_fill_memory_by_counted_bytes(mixtral, machine):
    """Halving what a device holds of experts frees their 18 bytes, of which 12 were shared."""
    one, two = (mixtral.predict(SPREAD, machine, ranks) for ranks in (1, 2))
    held = one.expert_parameters
    assert held == 7 * 8 * mixtral.of_one_expert / 2
    saved = held * (2 + 4 + 12 / 8) - held / 2 * (2 + 4 + 12 / 4)
    assert (one.low_gib - two.low_gib) * 2**30 == pytest.approx(saved * 1.05, rel=0.01)


def test_an_exchange_that_leaves_the_node_takes_longer(mixtral):
    layout = plan.Layout(data=8, global_batch=64, zero=1)
    inside = mixtral.predict(layout, plan.cluster("dgx-h100", 8), expert_ranks=8)
    quads = plan.cluster("dgx-h100", 8).but(devices_per_node=4, nodes=2)
    across = mixtral.predict(layout, quads, expert_ranks=8)
    assert across.exchange_s > 2 * inside.exchange_s


def test_whether_it_fits_may_be_open(mixtral, machine):
    found = mixtral.predict(SPREAD, machine, expert_ranks=8)
    assert found.fits is True
    assert mixtral.predict(SPREAD, machine, expert_ranks=1).fits is False
    assert "fits" in str(found)
    assert "39.2 of them for a token" in str(found)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"experts": 0}, "experts 0 is too small"),
        ({"per_token": 9}, "per_token 9 is more than the 8 experts"),
        ({"shared": -1}, "shared -1 is too small"),
        ({"dense_layers": 32}, "dense_layers 32 of 32 leaves no layer with experts"),
        ({"dense_layers": 1.5}, "dense_layers"),
        ({"one": "llama"}, "is not a Model"),
    ],
)
def test_an_impossible_mixture_is_refused(wrong, words):
    given = {"one": plan.preset("llama-8b"), "experts": 8, "per_token": 2} | wrong
    with pytest.raises(plan.PlanError, match=words):
        plan.Mixture(**given)


@pytest.mark.parametrize("ranks", [0, 3, 16, 2.5, "8", None])
def test_expert_ranks_that_divide_nothing_are_refused(mixtral, machine, ranks):
    with pytest.raises(plan.PlanError, match="expert_ranks"):
        mixtral.predict(SPREAD, machine, expert_ranks=ranks)


def test_an_unknown_mixture_is_answered_with_the_known_ones():
    with pytest.raises(plan.PlanError, match="mixtral-8x7b, mixtral-8x22b"):
        plan.mixture("mixtral")
