"""A recipe as people read it: the call that made it, and a small table."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from course_lib.lab.job.recipe import Recipe

SHOWN_OF_A_VALUE = 60
NOT_TOLD = ("name", "made_by", "keywords", "model", "layout", "arguments")
LAYOUT_SIZES = ("data", "tensor", "pipeline", "context", "micro_batch", "global_batch")


def as_call(recipe: Recipe) -> str:
    """What one would type to have it again."""
    given = _given(recipe)
    words = ", ".join(f"{name}={_short(value)}" for name, value in given.items())
    function = f"{recipe.made_by}.recipe" if recipe.made_by else "Recipe"
    return f"{function}({', '.join(filter(None, [repr(recipe.name), words]))})"


def as_text(recipe: Recipe) -> str:
    rows = list(_rows(recipe))
    width = max(len(name) for name, _ in rows)
    lines = [f"  {name.ljust(width)}  {value}" for name, value in rows]
    return "\n".join([f"{recipe.name}: a recipe of {_function(recipe)}", *lines])


def as_html(recipe: Recipe) -> str:
    rows = "".join(
        f'<tr><th style="text-align: left">{escape(name)}</th>'
        f'<td style="text-align: left">{escape(value)}</td></tr>'
        for name, value in _rows(recipe)
    )
    caption = f"<b>{escape(recipe.name)}</b>: a recipe of {escape(_function(recipe))}"
    return f"<table><caption>{caption}</caption>{rows}</table>"


def _function(recipe: Recipe) -> str:
    return f"{recipe.made_by}.recipe" if recipe.made_by else "a script"


def _given(recipe: Recipe) -> dict[str, Any]:
    if recipe.made_by:
        return {name: value for name, value in recipe.keywords.items() if name != "name"}
    return {name: value for name, value in recipe.to_dict().items() if name not in NOT_TOLD}


def _rows(recipe: Recipe) -> Iterator[tuple[str, str]]:
    """What was asked for, then what follows from it."""
    yield from ((name, _short(value)) for name, value in _given(recipe).items())
    if recipe.devices:
        yield "→ devices", f"{recipe.nodes} nodes × {recipe.gpus_per_node} = {recipe.devices}"
    if (shape := recipe.model) is not None:
        size = f"{shape.layers} layers, hidden {shape.hidden}, {shape.heads} heads"
        yield "→ model", f"{shape.name}: {size}, sequence {shape.sequence}"
    if recipe.layout is not None:
        sizes = (f"{name} {getattr(recipe.layout, name)}" for name in LAYOUT_SIZES)
        yield "→ layout", f"{', '.join(sizes)}, {recipe.layout.precision}"
    yield "→ at most", f"{recipe.time_limit_minutes} min"


def _short(value: Any) -> str:
    text = f"<model {value.name}>" if hasattr(value, "layers") else repr(value)
    return text if len(text) <= SHOWN_OF_A_VALUE else f"{text[: SHOWN_OF_A_VALUE - 1]}…"
