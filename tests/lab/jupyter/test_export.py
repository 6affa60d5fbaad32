"""A page exported with the course's template needs no other file."""

from __future__ import annotations

from html.parser import HTMLParser

import nbformat
import pytest
from nbconvert.exporters import HTMLExporter
from traitlets.config import Config

from course_lib.lab.jupyter.export import WIDGET, with_drawn_formulas


class Loads(HTMLParser):
    """Collects everything that a browser would fetch to show the page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        wanted = given.get("src") or (given.get("href") if tag == "link" else None)
        if wanted and not wanted.startswith("data:"):
            self.found.append(wanted)


@pytest.mark.parametrize(
    "tex", [r"\alpha + \frac{n}{\beta}", r"12\,l\,h^2 \left(1 + \frac{V}{l}\right)"]
)
def test_a_formula_becomes_a_picture_in_the_colour_of_the_text(tex):
    for mark, text in (("$", f"so ${tex}$ it is"), ("$$", f"so $${tex}$$ it is")):
        drawn = with_drawn_formulas(text)
        assert mark not in drawn
        assert drawn.count('<svg role="img"') == 1
        assert "currentColor" in drawn
        assert "<style" not in drawn, "it would hold for the whole page"


@pytest.mark.parametrize(
    "text",
    [
        "it costs $5 and $6",
        "`$x$` and ``a ` $x$``",
        "```bash\necho $HOME $x$\n```",
        "~~~\n$$x$$\n~~~",
        r"a \$ and \$ again",
        "$ x $",
    ],
)
def test_code_and_money_are_no_formulas(text):
    assert with_drawn_formulas(text) == text


def test_a_formula_that_cannot_be_drawn_is_shown_as_it_was_written():
    drawn = with_drawn_formulas(r"$$\begin{cases}x < 1\end{cases}$$")
    assert r"<code>\begin{cases}x &lt; 1\end{cases}</code>" in drawn


def test_every_formula_of_the_lessons_can_be_drawn(repository):
    drawn = 0
    for file in sorted((repository / "notebooks").glob("*.ipynb")):
        for cell in nbformat.read(file, as_version=4).cells:
            if cell.cell_type == "markdown":
                page = with_drawn_formulas(cell.source)
                assert "<code>" not in page
                drawn += page.count("<svg role")
    assert drawn >= 5


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_page_loads_nothing_and_replaces_widgets_by_text(repository, theme):
    view = {WIDGET: {"model_id": "x"}, "text/plain": "said", "text/html": "<p>said so</p>"}
    shown = nbformat.v4.new_output("display_data", data=view)
    cells = [
        nbformat.v4.new_markdown_cell("$$a$$ ![seven pictures](../images/ddp_step.png)"),
        nbformat.v4.new_code_cell("run.watch()", outputs=[shown]),
    ]
    notebook = nbformat.v4.new_notebook(cells=cells)
    state = {"state": {}, "version_major": 2, "version_minor": 0}
    notebook.metadata["widgets"] = {"application/vnd.jupyter.widget-state+json": state}
    config = Config()
    config.HTMLExporter.template_name = "course"
    templates = repository / "deploy" / "jupyter" / "data" / "nbconvert" / "templates"
    config.TemplateExporter.extra_template_basedirs = [str(templates)]
    page, _ = HTMLExporter(config=config, theme=theme).from_notebook_node(notebook)
    assert Loads(page).found == []
    assert 'alt="seven pictures"' in page
    assert "said so" in page
    assert "cdnjs" not in page
    assert "unpkg" not in page
