"""The slides open from files without a network, in both shapes, by keys, and in print."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_output

from course_lib.publish.book import check, origin
from course_lib.publish.building.build import build_text
from course_lib.publish.building.source import read_lesson
from course_lib.publish.executed import executed_in
from course_lib.publish.slides import pdf, site

pytestmark = pytest.mark.browser
SHAPES = {"16:9": {"width": 1280, "height": 720}, "4:3": {"width": 1024, "height": 768}}
MEASURE = Path(__file__).with_name("slides_in_view.js").read_text(encoding="utf-8")
MEASURE_PRINTED = """() => {
  const problems = [];
  for (const page of document.querySelectorAll(".pdf-page")) {
    const [slide, box] = [page.querySelector("section"), page.getBoundingClientRect()];
    const told = (what) => problems.push(`${slide.id || slide.className}: ${what}`);
    if (Math.abs(slide.getBoundingClientRect().height - 720) > 1) told("not as high as the page");
    const body = slide.querySelector(".body");
    for (const element of [slide.querySelector("h2"), body, ...body.querySelectorAll("*")]) {
      if (element.closest("svg") && element.tagName !== "svg") continue;
      if (element.parentElement.closest("pre.cut")) continue; // its last lines are hidden
      const at = element.getBoundingClientRect();
      const isOut = at.right > box.right - 45 || at.bottom > box.bottom - 40;
      if (at.width && at.height && (at.left < box.left + 45 || isOut)) told(element.tagName);
    }
    for (const image of body.querySelectorAll(".picture img")) {
      if (image.getBoundingClientRect().height < 150) told("a small picture");
    }
  }
  return [...new Set(problems)];
}"""
LESSON = """# %% [markdown] id="title"
# # 00 First things
#
# Words about eigenvectors.
#
# | | |
# |---|---|
# | You will be able to | see; tell |
# | Minutes | 30 |
# | Devices | 1 |
# | Before | nothing |

# %% [markdown] id="wide-idea"
# ## Wide and long

# %% id="wide"
# !cat wide.log

# %% id="long"
lab.code("long.py", "all")

# %% id="table"
wide_table

# %% [markdown] id="moves-idea"
# ## It moves
#
# Everybody ends with the parts of all.

# %% id="moves"
show.moving.collective("all-gather", ranks=4)

# %% [markdown] id="moves-explain"
# Three steps are enough for four ranks.
"""
README = """# The course

## The lessons

| | lesson | |
|---|---|---|
| I | **One** | |
| 00 | [first](notebooks/00_first.ipynb) | x |
"""
HOSTILE = "<script>document.title='taken'</script> " + "word " * 90 + "long" * 100 + "\n"
WHERE = ("on a cluster whose name and processors nobody can tell in fewer words " * 2,)
CODE = "\n".join(f"def f{n}(x): return {'x + ' * 20}{n}" for n in range(28))
CELLS = "".join(f"<tr>{'<td>1234.5 MiB</td>' * 8}</tr>" for _ in range(8))


@pytest.fixture(scope="module")
def in_korean(reveal, tmp_path_factory):
    made = site.write(None, tmp_path_factory.mktemp("korean") / "slides", language="ko")
    assert len(made.slides) == 4
    return made


@pytest.fixture(scope="module")
def deck(reveal, repository, tmp_path_factory):
    """Deck of one executed lesson with awkward outputs."""
    clone = tmp_path_factory.mktemp("clone")
    (clone / "lessons").mkdir()
    (clone / "lessons" / "00_first.py").write_text(LESSON)
    (clone / "README.md").write_text(README)
    shutil.copytree(repository / "images", clone / "images")
    lesson = read_lesson(clone / "lessons" / "00_first.py")
    notebook = nbformat.reads(build_text(lesson, with_answers=True), as_version=4)
    code = {"text/html": '<div class="highlight">', "text/plain": CODE}
    table = {"text/html": f'<table class="dataframe"><thead></thead>{CELLS}</table>'}
    shown = {
        "wide": new_output("stream", name="stdout", text=HOSTILE * 2),
        "long": new_output("execute_result", code),
        "table": new_output("execute_result", table),
    }
    for cell in notebook.cells:
        if cell.id in shown:
            cell.outputs = [shown[cell.id]]
    origin.write(notebook, origin.Origin("a laptop", "2026-05-02", WHERE * 3, ("a-1",)))
    executed_in(clone).mkdir(parents=True)
    nbformat.write(notebook, executed_in(clone) / "00_first.ipynb")
    (clone / "lessons" / site.SENTENCES).write_text('[00]\ntable = "It is wide."\n')
    return site.write(clone, clone / "out", clone=clone)


@pytest.fixture
def open_deck(browser):
    """Open a deck in a window of this shape. A request to the web is an error."""
    contexts, asked = [], []

    def opened(file, shape="16:9", query=""):
        context = browser.new_context(viewport=SHAPES[shape], offline=True)
        contexts.append(context)
        context.on("request", lambda request: asked.append(request.url))
        page = context.new_page()
        page.on("pageerror", lambda error: asked.append(f"error: {error}"))
        page.goto(file.as_uri() + query)
        page.wait_for_selector(".reveal.ready")
        return page

    yield opened
    for context in contexts:
        context.close()
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:", "about:"))] == []


def number(page) -> int:
    return page.evaluate("Reveal.getIndices().h")


def go_to(page, name):
    page.evaluate(f"Reveal.slide(Reveal.getSlides().findIndex(s => s.id === '{name}'), 0, -1)")


@pytest.mark.many(2)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("part", range(1, 5))
def test_nothing_sticks_out_of_any_slide_of_the_course(open_deck, whole_slides, part, shape):
    page = open_deck(whole_slides / f"part{part}.html", shape)
    assert page.evaluate(MEASURE) == []


@pytest.mark.many(2)
@pytest.mark.parametrize("part", range(1, 5))
def test_nothing_sticks_out_of_narrow_korean_slides(open_deck, in_korean, part):
    page = open_deck(in_korean.folder / f"part{part}.html", "4:3")
    assert page.evaluate(MEASURE) == []


def test_links_of_korean_slides_hold_too(in_korean):
    assert check.broken_links(in_korean.folder) == []


@pytest.mark.parametrize("shape", SHAPES)
def test_what_is_wide_long_and_hostile_fits_and_stays_text(open_deck, deck, shape):
    page = open_deck(deck.folder / "part1.html", shape)
    assert page.evaluate(MEASURE) == []
    for name in ("wide", "long", "table"):
        assert page.locator(f"[id='00_first-{name}']").count() == 1
    assert page.title().startswith("I. One")


def test_the_shape_follows_the_window(open_deck, deck):
    page = open_deck(deck.folder / "part1.html", "4:3")
    assert page.evaluate("Reveal.getConfig().width") == 960
    page.set_viewport_size(SHAPES["16:9"])
    page.wait_for_function("() => Reveal.getConfig().width === 1280", polling=100)
    assert page.evaluate(MEASURE) == []


def test_arrow_keys_step_a_moving_diagram_and_then_go_on(open_deck, deck):
    page = open_deck(deck.folder / "part1.html")
    go_to(page, "00_first-moves")
    here, frames = number(page), []
    for _ in range(4):
        shown = page.locator("section.present .frame.visible figcaption b")
        frames.append(shown.last.inner_text() if shown.count() else "")
        page.keyboard.press("ArrowRight")
    assert [words[:6] for words in frames] == ["", "2 of 4", "3 of 4", "4 of 4"]
    assert number(page) == here + 1
    page.keyboard.press("ArrowLeft")
    assert number(page) == here


def test_the_notes_open_in_a_window_of_their_own_with_the_prose(open_deck, deck):
    page = open_deck(deck.folder / "part1.html")
    go_to(page, "00_first-moves")
    with page.expect_popup() as opened:
        page.keyboard.press("s")
    notes = opened.value.locator(".speaker-controls-notes .value")
    notes.get_by_text("Three steps are enough for four ranks.").wait_for()
    assert "Everybody ends with the parts of all." in notes.inner_text()


def test_the_pdf_has_a_page_for_every_step_of_every_slide(need, deck):
    need("chromium")
    assert list(pdf.print_all(deck.folder)) == ["part1.pdf"]
    printed = (deck.folder / "part1.pdf").read_bytes()
    pages = len(re.findall(rb"/Type\s*/Page\b", printed))
    assert pages == deck.slides["part1.html"] + 3, "three more for the steps of the diagram"


@pytest.mark.parametrize("part", range(1, 5))
def test_printed_slides_are_laid_out_as_on_the_screen(open_deck, whole_slides, part):
    page = open_deck(whole_slides / f"part{part}.html", "16:9", "?print-pdf")
    page.wait_for_selector(".pdf-page section")
    page.wait_for_timeout(500)
    assert page.evaluate(MEASURE_PRINTED) == []


def test_links_hold_and_nothing_is_loaded_from_the_web(whole_slides):
    assert check.broken_links(whole_slides) == []
    index = (whole_slides / "index.html").read_text()
    assert "FIVE DAYS" in index
    assert "part4.html" in index
