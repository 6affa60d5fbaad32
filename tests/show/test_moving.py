"""The simulators of the moving diagrams are right, and every frame can be seen."""

from __future__ import annotations

import math
from fractions import Fraction
from html import escape
from html.parser import HTMLParser
from urllib.parse import unquote
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as some

from course_lib.mistakes.errors import CourseError
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


def test_fsdp_takes_twenty_frames_and_never_holds_two_whole_layers():
    states = fsdp.simulate(3, 3)
    assert len(states) == 20
    for state in states:
        if "forward" in state.moment or state.moment.startswith("backward"):
            assert state.gathered == state.layer  # used only while it is there
    assert states[0].memory_layers == pytest.approx(1.0)
    assert max(state.memory_layers for state in states) < 4
    assert set(states[-1].gradients) == {fsdp.SHARD_ONLY}


def test_a_cut_perceptron_sends_once_forward_and_once_backward():
    states = tensor_mlp.simulate()
    assert [state.reduces for state in states if state.reduces] == ["out", "dX"]
    assert states[-1].here == {*tensor_mlp.COLUMNS, *tensor_mlp.BACKWARD}


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


def test_hysteresis_forgives_the_first_overflow_until_the_scale_has_doubled():
    states = loss_scaler.simulate(9, start_power=14, window=3, hysteresis=2)
    assert [math.log2(state.scale) for state in states] == [14, 14, 13, 13, 13, 14, 14, 13, 13]
    assert [state.hysteresis_left for state in states] == [1, 0, 0, 0, 0, 1, 0, 0, 0]
    assert [state.good_in_a_row for state in states] == [0, 0, 1, 2, 3, 0, 0, 1, 2]
    assert [state.factor for state in states] == [1, 0.5, 1, 1, 2, 1, 0.5, 1, 1]


def test_the_frames_of_loss_scaling_say_and_count_what_hysteresis_and_window_do():
    frames = moving.loss_scaling(6, start_power=14, window=3, hysteresis=2).frames
    assert "keeps the scale. The remaining hysteresis is 1 of 2" in frames[0].text
    assert "halves the scale" in frames[1].text
    assert "good step 3 in a row, so the scale doubles" in frames[4].text
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
    assert len(story.frames) > STRIP_FRAMES
    assert f"{len(story.frames) - STRIP_FRAMES} frames left out" in alt
    assert "backward layer 1: " in alt


def test_in_front_of_a_reader_a_story_carries_all_frames_and_the_strip(monkeypatch):
    from course_lib.show.moving import story as module

    monkeypatch.setattr(module, "interactive", lambda: True)
    data, _ = moving.collective("all-gather", 3)._repr_mimebundle_()
    assert set(data) == {"text/html", "image/png", "text/plain"}
    assert data["text/html"].count("<figure") == 3
    assert "widget" not in " ".join(data)


class Page(HTMLParser):
    """Collects names of buttons, and pictures with alternative texts, as a browser finds them."""

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
    figures = html.split("<figure")[1:]
    for number, (frame, figure) in enumerate(zip(story.frames, figures, strict=True), start=1):
        heading, picture_and_text = figure.split("</figcaption>")
        assert heading.endswith(f"<b>{number} of {len(figures)}. {escape(frame.title)}</b>")
        assert picture_and_text.index("<img") < picture_and_text.index(escape(frame.text))
    for frame, (source, alt) in zip(story.frames, page.pictures, strict=True):
        assert frame.text in alt
        drawn = ElementTree.fromstring(unquote(source.partition(",")[2]))
        texts = [element.text for element in drawn.iter(f"{SVG}text")]
        wanted = [text for thing in frame.scene.things if (text := getattr(thing, "text", ""))]
        assert sorted(texts) == sorted(wanted)


def test_what_is_strong_lies_in_front_and_arrows_over_all():
    scene = Scene(
        (
            Arrow(0.5, 0.5, 2.5, 0.5),
            Cell(1, 0.5, "first", strong=True),
            Cell(1.5, 0.5, hatch="//"),
        ),
        3,
        1,
    )
    drawn = svg(scene)[1]
    first = drawn.index(">first<")
    assert drawn.index("url(#") < first < drawn.rindex("<path d='M")


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: moving.collective("gather"), "use one of all-reduce, all-gather"),
        (lambda: moving.collective("all-reduce", 4, "star"), "use one of ring, tree"),
        (lambda: moving.collective("all-reduce", 64), "use 2 to 8"),
        (lambda: moving.fsdp_step(9), "use 2 to 4 ranks"),
        (lambda: moving.pipeline(8, 64), "use fewer micro-batches"),
    ],
)
def test_what_does_not_fit_is_refused_with_what_does(make, words):
    with pytest.raises(ValueError, match=words):
        make()


@pytest.mark.parametrize("value", [True, 1.5, "4", float("nan"), -3, [6], 10**30])
@pytest.mark.parametrize("name", ["iterations", "start_power", "window", "hysteresis"])
def test_loss_scaling_takes_whole_numbers_that_fit_the_picture(name, value):
    with pytest.raises(CourseError, match=f"{name}.*(whole number|too small|too large)"):
        moving.loss_scaling(**{name: value})
