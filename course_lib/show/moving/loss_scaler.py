"""Dynamic loss scaling by iteration: the range of 16 bits, and the sizes of the gradients."""

from __future__ import annotations

import math
from dataclasses import dataclass

from course_lib.plan.checks import whole_number
from course_lib.show.moving.scene import Cell, Scene, Words
from course_lib.show.moving.story import Frame, Story
from course_lib.show.style import BLUE, FAINT, GREEN, INK, ORANGE, QUIET, VERMILION, raised
from course_lib.words import _

LARGEST = 65504.0
# The smallest (subnormal) number of fp16 is 2⁻²⁴, and the largest is 65504.
SMALLEST_POWER = -24
# Percentage of gradients near 2^power, with the usual long tail of small values.
GRADIENTS = {-38: 3, -34: 7, -30: 12, -26: 16, -22: 19, -18: 17, -14: 13, -10: 8, -6: 4, 2.6: 1}

MOST_MARKS = 5
MOST_FRAMES, MOST_POWER = 200, 100


@dataclass(frozen=True)
class ScalerState:
    iteration: int
    scale: float
    overflow: bool
    # Skipped iterations so far, including this one.
    skipped: int
    # Percentage of gradients that are zero because they are too small even after scaling.
    lost_percent: float
    good_in_a_row: int
    # Overflows left before the scale halves, after this iteration.
    hysteresis_left: int
    # Factor applied to the scale after this iteration: 1, ½ or 2.
    factor: float


def simulate(
    iterations: int,
    start_power: int = 23,
    window: int = 1000,
    hysteresis: int = 1,
) -> list[ScalerState]:
    """Simulate a loss scaler. An iteration that overflows is skipped.

    After `hysteresis` overflows, the scale halves with each overflow. After `window` good
    iterations in a row, the scale doubles and the hysteresis is reset.
    """
    scale, skipped, good, left = 2.0**start_power, 0, 0, hysteresis
    states = []
    for iteration in range(1, iterations + 1):
        overflow = 2.0 ** max(GRADIENTS) * scale > LARGEST
        skipped += overflow
        lost = sum(
            share for power, share in GRADIENTS.items() if 2.0**power * scale < 2.0**SMALLEST_POWER
        )
        good = 0 if overflow else good + 1
        left = max(left - overflow, 0)
        factor = 0.5 if overflow and not left else 2.0 if good == window else 1.0
        states.append(
            ScalerState(iteration, scale, overflow, skipped, float(lost), good, left, factor)
        )
        scale = max(scale * factor, 1.0)
        if good == window:
            good, left = 0, hysteresis
    return states


def loss_scaling(
    iterations: int = 14, start_power: int = 23, window: int = 1000, hysteresis: int = 2
) -> Story:
    """Return dynamic loss scaling as a story.

    `hysteresis` is --hysteresis, and `window` is --loss-scale-window.
    """
    whole_number("iterations", iterations, 1, MOST_FRAMES)
    whole_number("start_power", start_power, 0, MOST_POWER)
    whole_number("window", window)
    whole_number("hysteresis", hysteresis)
    states = simulate(iterations, start_power, window, hysteresis=hysteresis)
    frames = tuple(_frame(state, window, hysteresis) for state in states)
    return Story(_("Dynamic loss scaling in 16 bits"), frames)


def _frame(state: ScalerState, window: int, hysteresis: int) -> Frame:
    power = round(math.log2(state.scale))
    title, happened = _words(state, power, window, hysteresis)
    unscaled = sum(share for p, share in GRADIENTS.items() if p < SMALLEST_POWER)
    lost = _(
        "{lost_percent:.0f} % of the gradients are too small and become zero, "
        "and without scaling {unscaled} %. Skipped so far: {skipped}.",
        lost_percent=state.lost_percent,
        unscaled=unscaled,
        skipped=state.skipped,
    )
    up = " → ×2" if state.factor > 1 else ""
    down = " → ÷2" if state.factor < 1 else ""
    # The counters that the scaler keeps between iterations, as two rows of marks.
    counters = (
        *_marks(0.5, _("good in a row"), state.good_in_a_row, window, GREEN, up),
        *_marks(6.4, _("hysteresis left"), state.hysteresis_left, hysteresis, ORANGE, down),
    )
    scene = _scene(state, power)
    whole = Scene((*scene.things, *counters), scene.width, scene.height + 0.75)
    return Frame(title, " ".join((*happened, lost)), whole)


def _words(state: ScalerState, power: int, window: int, hysteresis: int) -> tuple[str, list[str]]:
    """Return title and text. Each sentence is complete, because translators see them one by one."""
    scaled = raised(2, power)
    if not state.overflow:
        said = [
            _(
                "Scaled by {scaled}, all gradients are finite, so the optimizer takes the step.",
                scaled=scaled,
            )
        ]
        if state.factor > 1:
            said += [
                _(
                    "This is good step {window} in a row, so the scale doubles and the "
                    "hysteresis is reset.",
                    window=window,
                )
            ]
        return _("iteration {iteration}: step taken", iteration=state.iteration), said
    if state.factor < 1:
        said = [
            _(
                "Scaled by {scaled}, the largest gradients exceed {largest:.0f} and "
                "become infinite. The program skips the iteration and halves the scale.",
                scaled=scaled,
                largest=LARGEST,
            )
        ]
    else:
        said = [
            _(
                "Scaled by {scaled}, the largest gradients exceed {largest:.0f} and "
                "become infinite. The program skips the iteration, but keeps the "
                "scale. The remaining hysteresis is {hysteresis_left} of {hysteresis}.",
                scaled=scaled,
                largest=LARGEST,
                hysteresis_left=state.hysteresis_left,
                hysteresis=hysteresis,
            )
        ]
    return _("iteration {iteration}: overflow, skipped", iteration=state.iteration), said


def _marks(
    x: float, name: str, count: int, whole: int, paint: str, then: str
) -> list[Cell | Words]:
    """Draw one mark per count if they are few, otherwise one bar that fills up."""
    y, width = 4.35, 0.36
    things: list[Cell | Words] = [Words(x, y, name, 10, align="left", paint=QUIET)]
    start = x + 2.1
    if whole <= MOST_MARKS:
        for number in range(whole):
            filled = paint if number < count else FAINT
            things.append(Cell(start + number * width, y, "", filled, 0.8 * width, 0.34))
        end = start + whole * width
    else:
        end = start + MOST_MARKS * width
        things.append(Cell((start + end) / 2, y, "", FAINT, end - start, 0.34))
        if part := (end - start) * count / whole:
            things.append(Cell(start + part / 2, y, "", paint, part, 0.34))
    said = _("{count} of {whole}{then}", count=count, whole=whole, then=then)
    return [*things, Words(end + 0.15, y, said, 10, align="left", bold=bool(then))]


def _scene(state: ScalerState, power: int) -> Scene:
    """Draw powers of two from left to right. The fp16 range stays in place; the gradients move."""
    low, high = -40, 30
    step = 11.0 / (high - low)
    x0 = 0.5

    def x(value: float) -> float:
        return x0 + (min(max(value, low), high) - low) * step

    edges = (x(SMALLEST_POWER), x(16))
    middle = (edges[0] + edges[1]) / 2
    said = _("loss scale {power} = {scale:,.0f}", power=raised(2, power), scale=state.scale)
    things: list[Cell | Words] = [
        Cell(middle, 1.75, "", FAINT, edges[1] - edges[0], 2.5),
        Words(middle, 3.25, _("what fp16 can hold"), 10.5, paint=GREEN, bold=True),
        Words((x0 + edges[0]) / 2, 3.25, _("becomes zero"), 10.5, paint=QUIET),
        Words((edges[1] + 11.5) / 2, 3.25, _("becomes infinite"), 10.5, paint=VERMILION),
        Words(6.0, 3.75, said, 12, bold=True),
    ]
    for exponent, share in GRADIENTS.items():
        place = exponent + power
        infinite = 2.0**place > LARGEST
        lost = place < SMALLEST_POWER
        paint = VERMILION if infinite else ORANGE if lost else BLUE
        height = 0.1 + 2.1 * share / max(GRADIENTS.values())
        things.append(Cell(x(place), 0.55 + height / 2, "", paint, 0.36, height, strong=infinite))
    things.append(Cell(6.0, 0.52, "", INK, 11.2, 0.05))
    for tick in range(-40, 31, 10):
        things.append(Words(x(tick), 0.25, raised(2, tick), 9, paint=QUIET))
    return Scene(tuple(things), 12.0, 4.0)
