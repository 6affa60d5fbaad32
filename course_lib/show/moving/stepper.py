"""Buttons, a slider and a play button over the frames of a moving diagram."""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from typing import Any

FRAME_MS = 1400


def stepper(
    title: str, frames: int, html_of: Callable[[int], str], caption_of: Callable[[int], str]
) -> Any:
    """A frame is drawn when it is first asked for."""
    import ipywidgets as widgets

    last = frames - 1
    slider = widgets.IntSlider(
        value=0, min=0, max=last, readout=False, description="frame",
        layout=widgets.Layout(flex="1 1 auto", width="auto"),
    )  # fmt: skip
    play = widgets.Play(value=0, min=0, max=last, interval=FRAME_MS, show_repeat=False)
    back = widgets.Button(icon="step-backward", tooltip="one frame back")
    on = widgets.Button(icon="step-forward", tooltip="one frame on")
    for button in (back, on):
        button.layout = widgets.Layout(width="3em")
    picture, caption = widgets.HTML(), widgets.HTML()

    def show(_: Any = None) -> None:
        picture.value = html_of(slider.value)
        caption.value = (
            f'<div aria-live="polite" style="line-height:1.5">{caption_of(slider.value)}</div>'
        )
        back.disabled, on.disabled = slider.value == 0, slider.value == last

    def move(step: int) -> None:
        slider.value = min(max(slider.value + step, 0), last)

    slider.observe(show, "value")
    back.on_click(lambda _: move(-1))
    on.on_click(lambda _: move(1))
    widgets.link((play, "value"), (slider, "value"))
    show()
    row = widgets.HBox([back, on, play, slider], layout=widgets.Layout(align_items="center"))
    heading = widgets.HTML(f"<b>{escape(title)}</b>")
    return widgets.VBox([heading, row, picture, caption], layout=widgets.Layout(max_width="820px"))
