"""Lesson 13: parallel layers of learners on four real ranks, and orders of ranks."""

from __future__ import annotations

import numpy as np
import pytest

from course_lib.plan import Layout
from course_lib.plan import groups as planned
from course_lib.teach.checks import lesson13

from .finished_runs import hint_of
from .own_trials import swapped
from .versions import layers

CHECKS = {
    "column": lesson13.ex13_column, "row": lesson13.ex13_row, "attention": lesson13.ex13_attention,
}  # fmt: skip


@pytest.fixture
def tried(tried):
    """The trial of an exercise's right text with some words swapped."""
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
    """Compute the groups in a different way than the check does."""
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
    """Return the order in which the axis has the stride of the previous axis."""
    names = order.split("-")
    place = names.index(axis)
    names.insert(max(0, place - 1), names.pop(place))
    return "-".join(names)


def sum_before(order, sizes, axis):
    return sum(sizes[name] for name in order.partition(axis)[0].split("-") if name) or 1


def size_before(order, sizes, axis):
    names = ["", *order.split("-")]
    return {"": 1, **sizes}[names[names.index(axis) - 1]]


def neighbours(order, sizes, axis):
    world, size = int(np.prod(list(sizes.values()))), sizes[axis]
    return [list(range(start, start + size)) for start in range(0, world, size)]


def slowest(order, sizes, axis):
    return apart(sizes, axis, int(np.prod([*sizes.values()])) // sizes[axis])


def same_place(order, sizes, axis):
    return np.array(by_strides(order, sizes, axis)).T.tolist()


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (..., "Replace the ..."),
        (3, "the function itself"),
        (lambda order, sizes, axis: ..., "Is a gap still open"),
        (lambda order: [], "TypeError"),
        (lambda order, sizes, axis: [["a"]], "is not a whole number"),
        (lambda order, sizes, axis: [], "A group has 4 ranks"),
        (reversed_order, "wrong end"),
        (neighbours, "You read each axis as the first one."),
        (lambda order, sizes, axis: by_strides(axis_before(order, axis), sizes, axis),
         "ranks apart. Multiply"),
        (lambda *case: apart(case[1], case[2], sum_before(*case)), "ranks apart. Multiply"),
        (lambda *case: apart(case[1], case[2], size_before(*case)), "only the axis just before"),
        (slowest, "You read each axis as the last one."),
        (lambda order, sizes, axis: by_strides("-".join(sorted(sizes)), sizes, axis), "Multiply"),
        (lambda order, sizes, axis: apart(sizes, axis, sizes[axis]), "Multiply"),
        (lambda *case: by_strides(*case)[:2], "is in exactly one group"),
        (same_place, "one for each place on the axis"),
        (lambda order, sizes, axis: by_strides("tp-cp-dp", sizes, axis)
         if "pp" not in sizes else [], "The groups do not depend on `order`"),
        (lesson13.groups, "the function calls groups of the course"),
        (lambda order, sizes, axis: planned(Layout(order=f"{order}-pp"), axis), "of the course"),
    ],
)  # fmt: skip
def test_a_wrong_order_of_ranks_is_told_its_mistake(workspace, function, words):
    hint = hint_of(lesson13.ex13_groups, function)
    assert any(some in hint for some in words.split("|")), hint
