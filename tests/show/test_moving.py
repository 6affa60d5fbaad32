"""The moving diagrams: what their simulators claim is true, and every frame can be seen."""

from __future__ import annotations

import math
from fractions import Fraction
from html.parser import HTMLParser
from urllib.parse import unquote
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from course_lib.show import moving
from course_lib.show.moving import (
    collectives,
    ddp,
    fsdp,
    loss_scaler,
    tensor_mlp,
)
from course_lib.show.moving.frame_svg import svg
from course_lib.show.moving.scene import Arrow, Cell, Scene
from course_lib.show.moving.story import STRIP_FRAMES
from course_lib.show.picture import OUTPUT_LIMIT_BYTES

RANKS = some.integers(2, 9)
SVG = "{http://www.w3.org/2000/svg}"


def everybody(ranks: int) -> frozenset[int]:
    return frozenset(range(ranks))


@given(ranks=RANKS)
def test_after_the_ring_every_rank_holds_the_sum_and_sent_twice_the_message_less_a_part(ranks):
    steps = collectives.ring_all_reduce(ranks)
    assert len(steps) - 1 == 2 * (ranks - 1)
    assert {piece for row in steps[-1].held for piece in row} == {everybody(ranks)}
    assert set(steps[-1].sent) == {Fraction(2 * (ranks - 1), ranks)}


@given(ranks=RANKS)
def test_nothing_is_ever_added_twice(ranks):
    for algorithm in (collectives.ring_all_reduce, collectives.tree_all_reduce):
        before = algorithm(ranks)[0].held
        for step in algorithm(ranks)[1:]:
            for send in step.sends:
                if send.adds:
                    there = before[send.destination][send.to_part]
                    assert not there & before[send.source][send.part]
            before = step.held


@given(ranks=RANKS)
def test_a_tree_needs_logarithmically_many_steps_and_the_root_sends_most(ranks):
    steps = collectives.tree_all_reduce(ranks)
    assert len(steps) - 1 == 2 * math.ceil(math.log2(ranks))
    assert {row[0] for row in steps[-1].held} == {everybody(ranks)}
    assert max(steps[-1].sent) == steps[-1].sent[0] == math.ceil(math.log2(ranks))


@given(ranks=RANKS)
def test_a_ring_step_sends_to_the_neighbour_alone(ranks):
    for algorithm in (
        collectives.ring_all_reduce,
        collectives.all_gather,
        collectives.reduce_scatter,
    ):
        for step in algorithm(ranks)[1:]:
            assert sorted(send.source for send in step.sends) == list(range(ranks))
            assert {(s.destination - s.source) % ranks for s in step.sends} == {1}


@given(ranks=RANKS)
def test_all_gather_collects_and_reduce_scatter_leaves_rank_r_part_r(ranks):
    gathered = collectives.all_gather(ranks)[-1]
    assert all(row == tuple(frozenset({r}) for r in range(ranks)) for row in gathered.held)
    scattered = collectives.reduce_scatter(ranks)[-1]
    assert all(scattered.held[rank][rank] == everybody(ranks) for rank in range(ranks))
    assert set(gathered.sent) == set(scattered.sent) == {Fraction(ranks - 1, ranks)}


@given(ranks=RANKS)
def test_all_to_all_transposes(ranks):
    first, *_, last = collectives.all_to_all(ranks)
    assert first.held[1][0] == frozenset({ranks})  # from 1, for 0
    for rank in range(ranks):
        assert last.held[rank] == tuple(frozenset({s * ranks + rank}) for s in range(ranks))
    assert set(last.sent) == {Fraction(ranks - 1, ranks)}


@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_a_step_of_data_parallelism_equals_one_device_with_the_whole_batch(ranks):
    states = ddp.simulate(ranks)
    whole = ddp.gradient(ddp.WEIGHTS, ddp.data(ranks))
    expected = [w - ddp.RATE * g for w, g in zip(ddp.WEIGHTS, whole, strict=True)]
    for weights in states[-1].weights:
        assert weights == pytest.approx(expected)
    assert states[2].gradients[0] != states[2].gradients[1]


def test_all_reduce_hides_behind_the_next_layer_except_for_the_last():
    states = ddp.simulate(2)
    reducing = [(state.computing, state.reducing) for state in states if state.reducing is not None]
    assert reducing == [(1, 2), (0, 1), (None, 0)]


@pytest.mark.parametrize(("ranks", "layers"), [(2, 2), (3, 3), (4, 4)])
def test_a_step_of_fsdp_equals_one_device_with_the_whole_batch(ranks, layers):
    states = fsdp.simulate(ranks, layers)
    weights = fsdp.initial(layers, ranks)
    grads = np.mean([fsdp.gradient(weights, rank) for rank in range(ranks)], axis=0)
    assert np.allclose(states[-1].owned, np.array(weights) - fsdp.RATE * grads)


def test_the_gradient_of_fsdps_model_is_right():
    weights = fsdp.initial(2, 2)

    def loss(values):
        c = fsdp.factors(2)
        gain = math.prod(sum(a * w for a, w in zip(c, row, strict=True)) for row in values)
        x, target = fsdp.sample(1)
        return (gain * x - target) ** 2 / 2

    nudged = [list(row) for row in weights]
    nudged[1][0] += 1e-6
    slope = (loss(nudged) - loss(weights)) / 1e-6
    assert fsdp.gradient(weights, 1)[1][0] == pytest.approx(slope, rel=1e-4)


def test_fsdp_takes_twenty_frames_and_never_holds_two_whole_layers():
    states = fsdp.simulate(3, 3)
    assert len(states) == 20
    for state in states:
        assert len(state.gathered) <= 1
        if "forward" in state.moment or state.moment.startswith("backward"):
            assert state.gathered == {state.layer}  # used only while it is there
    assert states[0].memory_layers(0) == pytest.approx(1.0)
    assert max(state.memory_layers(0) for state in states) < 4


def on_one_device():
    """What the ranks of tensor_mlp compute together."""
    v = tensor_mlp.inputs()
    v["Z"] = v["X"] @ v["A"]
    v["Y"] = tensor_mlp.activation(v["Z"])
    v["out"] = v["Y"] @ v["B"]
    v["dB"], v["dY"] = v["Y"].T @ v["dout"], v["dout"] @ v["B"].T
    v["dZ"] = v["dY"] * tensor_mlp.activation_slope(v["Z"])
    v["dA"], v["dX"] = v["X"].T @ v["dZ"], v["dZ"] @ v["A"].T
    return v


@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_the_cut_perceptron_computes_what_the_whole_one_does(ranks):
    whole = on_one_device()
    last = tensor_mlp.simulate(ranks)[-1].values
    for values in last:
        assert np.allclose(values["out"], whole["out"])
        assert np.allclose(values["dX"], whole["dX"])
    joined = np.concatenate([values["dA"] for values in last], axis=1)
    assert np.allclose(joined, whole["dA"])
    assert np.allclose(np.concatenate([values["dB"] for values in last]), whole["dB"])


def test_the_slope_of_the_activation_is_right():
    z = np.linspace(-3, 3, 7)
    slope = (tensor_mlp.activation(z + 1e-6) - tensor_mlp.activation(z - 1e-6)) / 2e-6
    assert np.allclose(tensor_mlp.activation_slope(z), slope, atol=1e-6)


def test_the_loss_scale_halves_ten_times_before_the_first_step():
    states = loss_scaler.simulate(14)
    assert states[0].scale == 8388608
    assert [state.overflow for state in states] == [True] * 10 + [False] * 4
    assert states[-1].scale == 8192
    assert states[-1].skipped == 10


def test_the_loss_scale_behaves_as_torchs_does():
    torch = pytest.importorskip("torch")
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**23, growth_interval=3)
    weight = torch.nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([weight], lr=0.0)
    scales = []
    for _ in range(25):
        scales.append(scaler.get_scale())
        largest = torch.tensor([2.0 ** max(loss_scaler.GRADIENTS)], dtype=torch.float64)
        weight.grad = (largest * scaler.get_scale()).to(torch.float16).to(torch.float32)
        scaler.scale(torch.zeros(1))  # makes the scaler's state
        scaler.step(optimizer)
        scaler.update()
    ours = [state.scale for state in loss_scaler.simulate(25, window=3)]
    assert ours == scales


def test_a_burst_is_skipped_and_costs_one_halving():
    states = loss_scaler.simulate(16, bursts=[13])
    assert [state.iteration for state in states if state.overflow] == [*range(1, 11), 13]
    assert states[-1].scale == 4096


def test_patience_forgives_the_first_overflow_until_the_scale_has_doubled():
    states = loss_scaler.simulate(9, start_power=14, window=3, patience=2)
    assert [math.log2(state.scale) for state in states] == [14, 14, 13, 13, 13, 14, 14, 13, 13]
    assert [state.patience_left for state in states] == [1, 0, 0, 0, 0, 1, 0, 0, 0]
    assert [state.good_in_a_row for state in states] == [0, 0, 1, 2, 3, 0, 0, 1, 2]
    assert [state.factor for state in states] == [1, 0.5, 1, 1, 2, 1, 0.5, 1, 1]


def test_the_frames_of_loss_scaling_say_and_count_what_patience_and_window_do():
    frames = moving.loss_scaling(6, start_power=14, window=3, patience=2).frames
    assert "the scale stays, since patience is left (1 of 2)" in frames[0].text
    assert "the scale is halved" in frames[1].text
    assert "good step 3 in a row: the scale doubles" in frames[4].text
    drawn = [[thing.text for thing in frame.scene.things] for frame in frames]
    assert "0 of 2 → ÷2" in drawn[1]
    assert "3 of 3 → ×2" in drawn[4]


STORIES = {
    "ring": lambda: moving.collective("all-reduce", 4, "ring"),
    "tree": lambda: moving.collective("all-reduce", 8, "tree"),
    "all-gather": lambda: moving.collective("all-gather", 3),
    "reduce-scatter": lambda: moving.collective("reduce-scatter", 2),
    "all-to-all": lambda: moving.collective("all-to-all", 4),
    "ddp": moving.ddp_step,
    "fsdp": moving.fsdp_step,
    "mlp": moving.tensor_parallel_mlp,
    "naive": lambda: moving.pipeline(schedule="naive"),
    "micro-batches": lambda: moving.pipeline(3, 3),
    "loss scaling": moving.loss_scaling,
}


@pytest.mark.parametrize("name", STORIES)
def test_a_story_without_a_reader_is_a_strip_with_the_words_of_its_frames(name):
    story = STORIES[name]()
    data, metadata = story._repr_mimebundle_()
    assert set(data) == {"text/html", "image/png", "text/plain"}
    assert sum(map(len, data.values())) <= OUTPUT_LIMIT_BYTES
    assert data["text/plain"].startswith(story.title)
    assert story.frames[-1].text in data["text/plain"]
    assert metadata["image/png"]["width"] <= 800


@pytest.mark.parametrize("name", STORIES)
def test_a_frame_stays_inside_its_picture(name):
    for frame in STORIES[name]().frames:
        for thing in frame.scene.things:
            assert -0.1 <= thing.x <= frame.scene.width + 0.1
            assert -0.1 <= thing.y <= frame.scene.height + 0.1


def test_a_strip_without_room_for_all_frames_keeps_the_fullest_moment():
    story = moving.fsdp_step()
    alt = story.strip().alt
    assert len(story) > STRIP_FRAMES
    assert f"{len(story) - STRIP_FRAMES} frames left out" in alt
    assert "backward layer 1: " in alt


def test_frames_can_be_picked_like_items_of_a_list():
    story = moving.ddp_step()
    assert len(story) == 7
    assert story[-1].alt.startswith("7. optimizer step")
    assert story[0] is story[0]
    with pytest.raises(IndexError):
        story[7]


def test_in_front_of_a_reader_a_story_carries_all_frames_and_the_strip(monkeypatch):
    from course_lib.show.moving import story as module

    monkeypatch.setattr(module, "interactive", lambda: True)
    data, _ = moving.collective("all-gather", 3)._repr_mimebundle_()
    assert set(data) == {"text/html", "image/png", "text/plain"}
    assert data["text/html"].count("<figure") == 3
    assert "widget" not in " ".join(data)


class Page(HTMLParser):
    """What a browser would find: names of buttons, and pictures with their alternative texts."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.pictures: list[tuple[str, str]] = []
        self.unnamed: list[str] = []
        self.outside: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        if tag == "img":
            self.pictures.append((given["src"], given["alt"]))
        if tag in ("button", "input") and not given.get("aria-label"):
            self.unnamed.append(tag)
        where = given.get("src") or given.get("href") or ""
        if where and not where.startswith("data:"):
            self.outside.append(where)


@pytest.mark.parametrize("name", STORIES)
def test_a_stepper_is_whole_in_itself_and_small_and_its_controls_have_names(name):
    story = STORIES[name]()
    html = story.stepper()
    page = Page(html)
    assert len(html) <= OUTPUT_LIMIT_BYTES
    assert page.unnamed == page.outside == []
    for frame, (source, alt) in zip(story.frames, page.pictures, strict=True):
        assert frame.text in alt
        drawn = ElementTree.fromstring(unquote(source.partition(",")[2]))
        texts = [element.text for element in drawn.iter(f"{SVG}text")]
        wanted = [thing.text for thing in frame.scene.things if thing.text]
        assert sorted(texts) == sorted(wanted)


def test_what_is_strong_lies_in_front_and_arrows_over_all():
    scene = Scene(
        (
            Arrow(0.5, 0.5, 2.5, 0.5, "moves"),
            Cell(1, 0.5, "first", strong=True),
            Cell(1.5, 0.5, hatch="//"),
        ),
        3,
        1,
    )
    drawn = svg(scene)[1]
    places = [drawn.index(f">{word}<") for word in ("first", "moves")]
    assert drawn.index("url(#hatch)") < places[0] < drawn.index("<path d='M", places[0]) < places[1]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: moving.collective("gather"), "there are all-reduce, all-gather"),
        (lambda: moving.collective("all-reduce", 4, "star"), "it has ring and tree"),
        (lambda: moving.collective("all-reduce", 64), "use 2 to 8"),
        (lambda: moving.fsdp_step(9), "use 2–4"),
        (lambda: moving.pipeline(8, 64), "use fewer micro-batches"),
    ],
)
def test_what_does_not_fit_is_refused_with_what_does(make, words):
    with pytest.raises(ValueError, match=words):
        make()
