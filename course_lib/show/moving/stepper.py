"""Buttons and a slider over the frames of a moving diagram, as a piece of HTML that needs neither
a kernel nor the internet: it still moves in a notebook opened again and in an exported page."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from html import escape
from pathlib import Path

from course_lib.words import spoken, told

BUTTON = (
    "font:inherit;color:inherit;background:transparent;border:1px solid;border-radius:4px;"
    "padding:2px 10px;cursor:pointer"
)
PLAY, PLAY_SIGN, PAUSE_SIGN = spoken("play", "▶ play", "❚❚ pause")
BUTTONS = {"one frame back": "◂", PLAY: PLAY_SIGN, "one frame on": "▸"}


def stepper(title: str, frames: Sequence[tuple[str, str]]) -> str:
    """`frames`: picture and caption of each, as HTML. The controls are hidden until the script has
    run. JupyterLab leaves the keys that are pressed in there alone: arrows move the slider."""
    buttons = "".join(
        f'<button type="button" aria-label="{told(name)}" title="{told(name)}" '
        f'style="{BUTTON}">{told(sign)}</button>'
        for name, sign in BUTTONS.items()
    )
    slider = (
        f'<input type="range" min="0" max="{len(frames) - 1}" value="0" aria-label="frame" '
        'style="flex:1 1 auto;min-width:6em">'
    )
    figures = "".join(
        f'<figure style="margin:0.5em 0">{picture}<figcaption style="line-height:1.5">{caption}'
        "</figcaption></figure>"
        for picture, caption in frames
    )
    return (
        '<div data-lm-suppress-shortcuts="true" style="max-width:820px">'
        f"<p><b>{escape(title)}</b></p>"
        f'<div role="group" aria-label="{escape(title)}" data-pause="{told(PAUSE_SIGN)}" hidden>'
        '<div style="display:flex;'
        f'gap:6px;align-items:center;flex-wrap:wrap">{buttons}{slider}</div></div>'
        f'<div aria-live="polite">{figures}</div><script>{_script()}</script></div>'
    )


@cache
def _script() -> str:
    return Path(__file__).with_name("stepper.js").read_text(encoding="utf-8")
