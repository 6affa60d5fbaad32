"""A field or buttons for a guess, in a notebook. Writing the guess into its cell does the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from typing import Any

from course_lib.mistakes.errors import ArgumentError
from course_lib.words import _, label

Take = Callable[[object], str]


def ask(unit: str, choices: Sequence[str] | None, several: bool, take: Take) -> None:
    """Ask for a number, a choice, or several. `take` keeps the guess and returns its words."""
    import ipywidgets as widgets
    from IPython.display import display

    said = widgets.HTML(escape(_("Give your guess here or in the cell above.")))
    field: Any = widgets.Text(placeholder=_("a number"), layout=widgets.Layout(width="9em"))
    if choices and several:
        field = widgets.SelectMultiple(options=choices, rows=len(choices))
    elif choices:
        field = widgets.ToggleButtons(options=choices, value=None, style={"button_width": "auto"})

    def give(_pressed: object) -> None:
        given = field.value or ""  # a choice is None before the first click
        try:
            words = take(list(given) if several else given if choices else _read(given))
        except ArgumentError as error:
            said.value = escape(str(error))
            return
        said.value = escape(_("Your guess is {guess}. Now run this cell again.", guess=words))
        box.children = [said]

    done = widgets.Button(description=_("Guess"), layout={"width": "auto", "flex": "none"})
    done.on_click(give)
    field.on_msg(lambda _field, sent, _data: sent.get("event") == "submit" and done.click())
    box = widgets.VBox([said, widgets.HBox([field, widgets.Label(label(unit)), done])])
    display(box)  # type: ignore[no-untyped-call]


def _read(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text
