"""Lesson 13: parallel layers of learners on four real ranks, orders of ranks and of steps."""

from __future__ import annotations

import numpy as np
import pytest

from course_lib.plan import Layout
from course_lib.plan import groups as planned
from course_lib.plan.schedules.steps import Step, one_f_one_b
from course_lib.teach.checklist import Checklist
from course_lib.teach.checks import lesson13

from .finished_runs import hint_of
from .own_trials import swapped
from .versions import layers

CHECKS = {
    "column": lesson13.ex13_column, "row": lesson13.ex13_row, "attention": lesson13.ex13_attention,
}  # fmt: skip


@pytest.fixture
def tried(tried):
    """The right text of an exercise, with some words swapped, as a trial leaves it behind."""
    return lambda exercise, *pairs: tried(swapped(layers.PROGRAMS[exercise], *pairs), exercise)


@pytest.mark.parametrize("name", layers.RIGHT)
def test_right_ones_pass_in_every_form(tried, capsys, name):
    exercise, pairs = layers.RIGHT[name]
    CHECKS[exercise](tried(exercise, *pairs))
    assert "equal to the serial result on 1, 2, 3 and 4 ranks" in capsys.readouterr().out


@pytest.mark.many(3)
@pytest.mark.parametrize("name", layers.WRONG)
def test_a_wrong_layer_is_told_its_mistake(tried, name):
    exercise, pairs, words = layers.WRONG[name]
    assert words.lower() in hint_of(CHECKS[exercise], tried(exercise, *pairs)).lower()


def by_strides(order, sizes, axis):
    """Another way than the check's."""
    step = 1
    for name in order.split("-"):
        if name == axis:
            break
        step *= sizes[name]
    return apart(sizes, axis, step)


def test_orders_are_those_of_the_text_and_of_the_planner(workspace, capsys):
    sizes = {"tp": 4, "cp": 1, "dp": 2}
    assert lesson13.groups("tp-cp-dp", sizes, "tp") == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert lesson13.groups("tp-cp-dp", sizes, "dp") == [[0, 4], [1, 5], [2, 6], [3, 7]]
    layout = Layout(tensor=2, context=3, data=4, order="cp-tp-dp-pp")
    wanted = planned(layout, "tp")
    assert sorted(lesson13.groups("cp-tp-dp", {"tp": 2, "cp": 3, "dp": 4}, "tp")) == wanted
    lesson13.ex13_groups(by_strides)
    lesson13.ex13_groups(lambda *case: np.array(by_strides(*case))[::-1])
    lesson13.ex13_groups(lambda *case: [tuple(map(float, g)) for g in by_strides(*case)])
    assert "✓ right for" in capsys.readouterr().out


def reversed_order(order, sizes, axis):
    return by_strides("-".join(order.split("-")[::-1]), sizes, axis)


def apart(sizes, axis, step):
    world = int(np.prod(list(sizes.values())))
    starts = [rank for rank in range(world) if rank // step % sizes[axis] == 0]
    return [[start + step * n for n in range(sizes[axis])] for start in starts]


def axis_before(order, axis):
    """The order in which the axis has the stride of the axis before it."""
    names = order.split("-")
    place = names.index(axis)
    names.insert(max(0, place - 1), names.pop(place))
    return "-".join(names)


def neighbours(order, sizes, axis):
    world, size = int(np.prod(list(sizes.values()))), sizes[axis]
    return [list(range(start, start + size)) for start in range(0, world, size)]


def same_place(order, sizes, axis):
    return np.array(by_strides(order, sizes, axis)).T.tolist()


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (..., "Replace the ..."),
        (3, "the function itself"),
        (lambda order, sizes, axis: ..., "Fill in the gap"),
        (lambda order: [], "TypeError"),
        (lambda order, sizes, axis: [["a"]], "is not a whole number"),
        (lambda order, sizes, axis: [], "A group has 4 ranks"),
        (reversed_order, "wrong end"),
        (neighbours, "Multiply the sizes"),
        (lambda order, sizes, axis: by_strides(axis_before(order, axis), sizes, axis), "Multiply"),
        (lambda order, sizes, axis: by_strides("-".join(sorted(sizes)), sizes, axis), "Multiply"),
        (lambda order, sizes, axis: apart(sizes, axis, sizes[axis]), "4 ranks apart"),
        (lambda *case: by_strides(*case)[:2], "in exactly one group"),
        (same_place, "one for each place on the axis"),
        (lambda order, sizes, axis: by_strides("tp-cp-dp", sizes, axis)
         if "pp" not in sizes else [], "do not depend on `order`"),
        (lesson13.groups, "it calls groups of the course"),
        (lambda order, sizes, axis: planned(Layout(order=f"{order}-pp"), axis), "of the course"),
    ],
)  # fmt: skip
def test_a_wrong_order_of_ranks_is_told_its_mistake(workspace, function, words):
    hint = hint_of(lesson13.ex13_groups, function)
    assert any(some in hint for some in words.split("|")), hint


def schedule(warm_up):
    """1F1B with another warm-up."""

    def steps(stages, stage, micro_batches):
        ahead = min(warm_up(stages, stage), micro_batches)
        for m in range(ahead):
            yield "forward", m
        for m in range(micro_batches - ahead):
            yield "forward", m + ahead
            yield "backward", m
        for m in range(micro_batches - ahead, micro_batches):
            yield "backward", m

    return steps


def gpipe(stages, stage, micro_batches):
    yield from (("forward", m) for m in range(micro_batches))
    yield from (("backward", m) for m in range(micro_batches))


def last_in_first_out(stages, stage, micro_batches):
    held = []
    for phase, m in schedule(lambda p, r: p - r - 1)(stages, stage, micro_batches):
        if phase == "forward":
            held.append(m)
        yield phase, m if phase == "forward" else held.pop()


def without_the_end(stages, stage, micro_batches):
    steps = list(schedule(lambda p, r: p - r - 1)(stages, stage, micro_batches))
    return steps[: 2 * micro_batches - (stages - stage - 1)]


def beyond_the_last(stages, stage, micro_batches):
    ahead = stages - stage - 1
    yield from (("forward", m) for m in range(ahead))
    for m in range(micro_batches):
        if m + ahead < micro_batches:
            yield "forward", m + ahead
        yield "backward", m


def without_end(stages, stage, micro_batches):
    while True:
        yield "forward", 0


def test_right_schedules_pass_in_every_form(tried, capsys):
    run, right = tried("schedule"), schedule(lambda p, r: p - r - 1)
    lesson13.ex13_schedule(run.folder / "own.py", run)
    lesson13.ex13_schedule(str(run.folder / "own.py"), run)
    lesson13.ex13_schedule(right, run)
    lesson13.ex13_schedule(lambda *case: [Step(phase, m) for phase, m in right(*case)], run)
    lesson13.ex13_schedule(lambda *case: [[phase, np.int64(m)] for phase, m in right(*case)], run)
    said = capsys.readouterr().out
    assert "8 × 16 pipelines" in said
    assert "equal to the serial result on 1, 2, 3 and 4 ranks" in said


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("if turn >= ahead:", "if turn > ahead:"),
        ('yield "forward", turn\n', 'yield "backward", turn\n'),
    ],
)
def test_the_order_that_ranks_carried_out_is_the_one_that_is_checked(tried, old, new):
    """The notebook may still hold an older version of the function than the file."""
    hint = hint_of(lesson13.ex13_schedule, schedule(lambda p, r: p - r - 1),
                   tried("schedule", (old, new)))  # fmt: skip
    assert "✗ equal to the serial result" in hint or "✗ no error" in hint


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (..., "Replace the ..."),
        (7, "the function itself"),
        (lambda p, r, m: None, "Fill in the gap"),
        (lambda p: [], "TypeError"),
        (lambda p, r, m: [("F", 0)] * 2 * m, 'a step is ("forward", 0)'),
        (lambda p, r, m: one_f_one_b(p, r, m, 1), "it calls one_f_one_b of the course"),
        (gpipe, "the warm-up is too long"),
        (schedule(lambda p, r: p - r), "the warm-up is too long"),
        (schedule(lambda p, r: max(0, p - r - 2)), "too short"),
        (schedule(lambda p, r: 0), "too short"),
        (schedule(lambda p, r: p - 1), "the warm-up is too long"),
        (last_in_first_out, "in the order in which its neighbour"),
        (without_the_end, "in the order in which its neighbour"),
        (beyond_the_last, "never full"),
        (without_end, "gives more than 24 steps"),
        (lambda p, r, m: [(phase, n + 1) for phase, n in schedule(lambda p, r: p - r - 1)(p, r, m)],
         "count from 0"),
        (lambda p, r, m: [("backward", n) for n in range(m)] + [("forward", n) for n in range(m)],
         "comes before its forward"),
    ],
)  # fmt: skip
def test_a_wrong_schedule_is_told_its_mistake(workspace, function, words):
    assert words in hint_of(steps_are_right, function)


def steps_are_right(function):
    with Checklist("13.5") as check:
        lesson13.is_1f1b(check, function)


FIRST_LINE = "    ahead = min(stages - stage - 1, micro_batches)\n"
NEVER_BACK = {
    "a loop that yields nothing": (
        (FIRST_LINE, FIRST_LINE + "    while micro_batches:\n        pass\n"),
        "stayed at line",
    ),
    "it ends the program": (
        (FIRST_LINE, FIRST_LINE + "    raise SystemExit\n"),
        "ends the program",
    ),
    "a group is asked": (
        (
            FIRST_LINE,
            "    import torch.distributed as dist\n    stage = dist.get_rank()\n" + FIRST_LINE,
        ),
        "tried in one process",
    ),
}


@pytest.mark.parametrize("name", NEVER_BACK)
def test_what_never_comes_back_is_not_called_in_the_notebook(tried, name):
    pair, words = NEVER_BACK[name]
    run = tried("schedule", pair)
    assert words in hint_of(lesson13.ex13_schedule, run.folder / "own.py", run)


def test_an_error_of_the_learners_own_file_is_no_mistake_of_the_course(tried):
    """The ranks can import a module that the notebook cannot."""
    run = tried("schedule", ("def one_f", "import os\n\nRANK = os.environ['RANK']\n\n\ndef one_f"))
    hint = hint_of(lesson13.ex13_schedule, run.folder / "own.py", run)
    assert "KeyError: \"'RANK'\". It is raised in your own code, line 3 of own.py." in hint
    assert "error of the course" not in hint


def test_a_file_that_has_changed_since_is_to_be_tried_again(tried):
    run = tried("schedule")
    run.paths.program.mkdir()
    (run.paths.program / "own.py").write_text("before")
    hint = hint_of(lesson13.ex13_schedule, run.folder / "own.py", run)
    assert "It has changed since" in hint
    assert "There is none" in hint_of(lesson13.ex13_schedule, run.folder / "mine.py", run)
