"""Preparation of notebooks for self-contained pages: formulas are drawn, figures are embedded, and
widgets are replaced. The template in `deploy/jupyter/data` loads no scripts."""

from __future__ import annotations

import base64
import io
import mimetypes
import re
from html import escape
from typing import Any

from nbconvert.preprocessors import Preprocessor

from course_lib.shipped import SHIPPED

WIDGET = "application/vnd.jupyter.widget-view+json"
CODE_OR_FORMULA = re.compile(
    r"(?P<code>^(?P<fence>```+|~~~+).*?^(?P=fence)|(?P<ticks>`+)(?!`).+?(?<!`)(?P=ticks)(?!`))"
    r"|\$\$(?P<display>.+?)\$\$"
    r"|(?<![\\$\w])\$(?!\s)(?P<inline>[^$\n]+?)(?<![\s\\])\$(?![\w$])",
    re.DOTALL | re.MULTILINE,
)
FIGURES = SHIPPED / "images"
FIGURE = re.compile(r"(?P<begin>!\[[^\]]*\]\()(?:\.\./)+images/(?P<name>[\w-]+\.\w+)\)")
# A style element would apply to the whole page.
NOT_OF_THE_PICTURE = re.compile(
    r"<metadata>.*?</metadata>|<style\b.*?</style>|<!--.*?-->", re.DOTALL
)
DISPLAY_PT, INLINE_PT = 15, 12
# Placeholder for the colour of the text around the formula.
INK = "#010203"


class SelfContained(Preprocessor):  # type: ignore[misc]
    """A preprocessor of nbconvert that changes a copy of the notebook."""

    def preprocess(self, nb: Any, resources: Any) -> tuple[Any, Any]:
        nb.metadata.pop("widgets", None)
        for cell in nb.cells:
            if cell.cell_type == "markdown":
                attach_figures(cell)
                cell.source = with_drawn_formulas(cell.source)
            without_widgets(cell)
        return nb, resources


def without_widgets(cell: Any) -> None:
    """Keep the words of an output instead of its widget."""
    for output in cell.get("outputs", []):
        data = output.get("data", {})
        if len(data) > 1:
            data.pop(WIDGET, None)


def attach_figures(cell: Any) -> None:
    """Attach the course's figures. nbconvert embeds only files below the notebook's folder."""

    def attached(found: re.Match[str]) -> str:
        file = FIGURES / found["name"]
        kind = mimetypes.guess_type(file.name)[0]
        if kind is None or not file.is_file():
            return found[0]
        data = base64.b64encode(file.read_bytes()).decode("ascii")
        cell.attachments = {**cell.get("attachments", {}), file.name: {kind: data}}
        return f"{found['begin']}attachment:{file.name})"

    cell.source = FIGURE.sub(attached, cell.source)


def with_drawn_formulas(markdown: str) -> str:
    """Replace each formula by a picture. Code is unchanged."""
    return CODE_OR_FORMULA.sub(_drawn, markdown)


def _drawn(found: re.Match[str]) -> str:
    if found["code"]:
        return found[0]
    if found["inline"]:
        return _formula(found["inline"], INLINE_PT, "vertical-align:middle")
    formula = _formula(found["display"], DISPLAY_PT, "max-width:100%;height:auto")
    # Blank lines around the HTML let Markdown continue after it.
    return f'\n\n<div style="text-align:center">{formula}</div>\n\n'


def _formula(tex: str, size_pt: int, style: str) -> str:
    """Draw a formula as SVG, or keep the TeX text if matplotlib does not know its commands."""
    tex = " ".join(tex.split())
    try:
        picture = _svg(tex, size_pt)
    except (ValueError, RuntimeError):
        return f"<code>{escape(tex)}</code>"
    label = f'<svg role="img" aria-label="{escape(tex)}" style="{style}"'
    return picture.replace("<svg", label, 1).replace(INK, "currentColor")


def _svg(tex: str, size_pt: int) -> str:
    import matplotlib as mpl
    from matplotlib.font_manager import FontProperties
    from matplotlib.mathtext import math_to_image

    file = io.StringIO()
    settings: Any = {"savefig.transparent": True, "svg.hashsalt": tex, "mathtext.fontset": "cm"}
    with mpl.rc_context(settings):
        font = FontProperties(size=size_pt)
        math_to_image(f"${tex}$", file, prop=font, format="svg", color=INK)
    text = file.getvalue()
    return " ".join(NOT_OF_THE_PICTURE.sub("", text[text.index("<svg") :]).split())
