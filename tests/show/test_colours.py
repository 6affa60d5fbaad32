"""Colour-blind readers can tell the colours apart, and words are readable on light and dark
pages."""

from __future__ import annotations

from itertools import combinations, pairwise

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.colors import to_rgb
from pygments.styles import get_style_by_name

from course_lib.lab.job.script import CODE_STYLE
from course_lib.show import moving, style
from course_lib.show.moving.scene import Cell, hatching
from course_lib.show.networks import node_parts, topology
from course_lib.show.pipeline_chart import _LIGHT as LIGHT
from course_lib.show.style import (
    CATEGORY,
    DASHES,
    FAINT,
    HATCHES,
    INK,
    PAPER,
    PHASE_TINT,
    SERIES,
    contrast,
    readable_on,
)

LEAST_DELTA_E, LEAST_CONTRAST = 20, 4.5
# A dichromat's linear RGB, as a matrix (Machado, Oliveira and Fernandes 2009, severity 1).
SIGHT = {
    "usual": "1 0 0 0 1 0 0 0 1",
    "protanopia": "0.152286 1.052583 -0.204868 0.114503 0.786281 0.099216 "
    "-0.003882 -0.048116 1.051998",
    "deuteranopia": "0.367322 0.860646 -0.227968 0.280085 0.672501 0.047413 "
    "-0.011820 0.042940 0.968881",
    "tritanopia": "1.255528 -0.076749 -0.178779 -0.078411 0.950809 0.147602 "
    "0.004733 0.691367 0.303900",
}
XYZ = np.array(
    [
        [0.412456, 0.357576, 0.180438],
        [0.212673, 0.715152, 0.072175],
        [0.019334, 0.119192, 0.950304],
    ]
)
WHITE = XYZ.sum(axis=1)
# CSS's hue-rotate(180deg).
TURNED = np.array([[-0.574, 1.430, 0.144], [0.426, 0.430, 0.144], [0.426, 1.430, -0.856]])


def on_a_dark_page(paint):
    """Return the colour after DARK_FILTER."""
    return TURNED.dot(np.array(to_rgb(paint)) * (1 - 2 * 0.95) + 0.95).clip(0, 1)


PAGES = {"light": to_rgb, "dark": on_a_dark_page}


def lab(paint, sight):
    rgb = np.array(to_rgb(paint))
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    seen = np.array(SIGHT[sight].split(), dtype=float).reshape(3, 3).dot(linear).clip(0, 1)
    x, y, z = (
        np.cbrt(t) if t > (6 / 29) ** 3 else t / (3 * (6 / 29) ** 2) + 4 / 29
        for t in XYZ.dot(seen) / WHITE
    )
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def ciede2000(one, other):
    """Return the difference of two colours in CIELAB by CIE 142-2001."""
    (l1, a1, b1), (l2, a2, b2) = one, other
    chroma = (np.hypot(a1, b1) + np.hypot(a2, b2)) / 2
    stretch = 1.5 - 0.5 * np.sqrt(chroma**7 / (chroma**7 + 25**7))
    a1, a2 = a1 * stretch, a2 * stretch
    c1, c2 = np.hypot(a1, b1), np.hypot(a2, b2)
    h1, h2 = (np.degrees(np.arctan2(b, a)) % 360 for a, b in ((a1, b1), (a2, b2)))
    turn = (h2 - h1 + 180) % 360 - 180 if c1 * c2 else 0
    light, chroma = (l1 + l2) / 2, (c1 + c2) / 2
    hue = (h1 + turn / 2) % 360 if c1 * c2 else h1 + h2
    cos = lambda times, by: np.cos(np.radians(times * hue + by))  # noqa: E731
    t = 1 - 0.17 * cos(1, -30) + 0.24 * cos(2, 0) + 0.32 * cos(3, 6) - 0.2 * cos(4, -63)
    d_light = (l2 - l1) / (1 + 0.015 * (light - 50) ** 2 / np.sqrt(20 + (light - 50) ** 2))
    d_chroma = (c2 - c1) / (1 + 0.045 * chroma)
    d_hue = 2 * np.sqrt(c1 * c2) * np.sin(np.radians(turn / 2)) / (1 + 0.015 * chroma * t)
    rotation = -2 * np.sqrt(chroma**7 / (chroma**7 + 25**7))
    rotation *= np.sin(np.radians(60 * np.exp(-(((hue - 275) / 25) ** 2))))
    return float(np.sqrt(d_light**2 + d_chroma**2 + d_hue**2 + rotation * d_chroma * d_hue))


def delta_e(one, other):
    """Return the smallest difference of two colours on both pages, for all kinds of sight."""
    return min(
        ciede2000(lab(seen(one), sight), lab(seen(other), sight))
        for seen in PAGES.values()
        for sight in SIGHT
    )


def confused(paints):
    """Return pairs of colours that some people cannot tell apart."""
    return {
        (one, other): round(delta_e(one, other), 1)
        for one, other in combinations(dict.fromkeys(paints), 2)
        if delta_e(one, other) < LEAST_DELTA_E
    }


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ((50.0, 2.6772, -79.7751), (50.0, 0.0, -82.7485), 2.0425),
        ((50.0, -1.0, 2.0), (50.0, 0.0, 0.0), 2.3669),
        ((50.0, 2.5, 0.0), (73.0, 25.0, -18.0), 27.1492),
        ((2.0776, 0.0795, -1.1350), (0.9033, -0.0636, -0.5514), 0.9082),
    ],
)
def test_differences_agree_with_the_published_pairs(one, other, expected):
    """Pairs of colours with known differences (Sharma, Wu and Dalal 2005)."""
    assert ciede2000(one, other) == pytest.approx(expected, abs=1e-4)


def test_similar_fills_have_different_hatching():
    pairs = confused([*SERIES, *CATEGORY.values()])
    assert pairs, "without such pairs no figure would need a hatching"
    assert [pair for pair in pairs if HATCHES.get(pair[0]) == HATCHES.get(pair[1])] == []


def test_similar_lines_have_different_dashes():
    dashes = {paint: DASHES[n % len(DASHES)] for n, paint in enumerate(SERIES)}
    assert [(a, b) for a, b in confused(SERIES) if dashes[a] == dashes[b]] == []


def test_links_between_nodes_differ_by_colour_or_dashes():
    names = ("OFI", "other", *(name for name, _paint, _dash in topology.LOOKS))
    looks = dict(map(topology.look, names))
    assert [(a, b) for a, b in confused(looks) if looks[a] == looks[b]] == []
    assert confused(node_parts.COLOURS.values()) == {}


def test_steps_of_a_pipeline_differ_by_their_colours_alone():
    """Cells with numbers have no hatching, because it would cover the numbers."""
    assert confused([*(CATEGORY[phase] for phase in LIGHT), FAINT]) == {}
    chunks = [paints[phase] for paints in (CATEGORY, LIGHT) for phase in ("forward", "backward")]
    assert confused(chunks) == {}


@pytest.mark.parametrize(
    "story",
    [
        moving.collective("all-gather"),
        moving.ddp_step(),
        moving.fsdp_step(),
        moving.loss_scaling(),
        moving.tensor_parallel_mlp(),
        moving.pipeline(schedule="zero-bubble"),
    ],
    ids=lambda story: story.title,
)
def test_cells_without_words_differ_in_a_moving_diagram(story):
    things = [thing for frame in story.frames for thing in frame.scene.things]
    cells = [thing for thing in things if isinstance(thing, Cell) and not thing.text]
    assert cells
    looks = {(cell.paint, hatching(cell)) for cell in cells}
    alike = confused(sorted({paint for paint, _hatch in looks}))
    assert [
        (a, b)
        for (a, h), (b, g) in combinations(sorted(looks), 2)
        if h == g and {(a, b), (b, a)} & alike.keys()
    ] == []


def test_phases_behind_a_curve_differ_by_hatching():
    hatches = [hatch for _paint, hatch in PHASE_TINT.values()]
    assert len(set(hatches)) == len(hatches)


@pytest.mark.parametrize("name", ["cividis", "cividis_r"])
def test_lowest_middle_and_highest_shade_of_a_heat_map_differ(name):
    shades = [mpl.colormaps[name](share)[:3] for share in np.linspace(0, 1, 3)]
    assert confused(shades) == {}
    for seen in PAGES.values():
        for sight in SIGHT:
            rises = [lab(seen(b), sight)[0] > lab(seen(a), sight)[0] for a, b in pairwise(shades)]
            assert len(set(rises)) == 1


@pytest.mark.parametrize("seen", PAGES.values(), ids=PAGES)
def test_words_have_enough_contrast_with_what_is_behind_them(seen):
    code = get_style_by_name(CODE_STYLE)
    words = {f"#{look['color']}" for _token, look in code if look["color"]}
    words |= {INK, style.QUIET, style.BLUE, style.VERMILION, style.GREEN, style.PURPLE, style.BROWN}
    grounds = {*SERIES, *CATEGORY.values(), *LIGHT.values()}
    pairs = [(paint, PAPER) for paint in words] + [(readable_on(paint), paint) for paint in grounds]
    found = {pair: round(contrast(*map(seen, pair)), 2) for pair in pairs}
    assert {pair: ratio for pair, ratio in found.items() if ratio < LEAST_CONTRAST} == {}
