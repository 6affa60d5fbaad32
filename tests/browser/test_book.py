"""The book from files, without a network: on a desktop, on a phone and on paper."""

from __future__ import annotations

import json
import shutil

import nbformat
import pytest
from nbconvert.exporters import HTMLExporter
from nbformat.v4 import new_output
from traitlets.config import Config

from course_lib.publish.book import check
from course_lib.publish.book.site import write
from course_lib.publish.building.build import build_text
from course_lib.publish.building.source import read_lesson
from course_lib.publish.executed import executed_in
from course_lib.show.moving import collective

pytestmark = pytest.mark.browser
PHONE = {"width": 390, "height": 844}
DESK = {"width": 1400, "height": 900}
LESSONS = {
    "00_first": """# %% [markdown] id="title"
# # 00 First things
#
# Words about eigenvectors. And $a^2 + b^2$.

# %% id="moves"
show.moving.collective("all-gather", ranks=4)

# %% id="long"
print(hostile)

# %% id="gap"
### BEGIN SOLUTION
answer = 42
### END SOLUTION
""",
    "01_second": """# %% [markdown] id="title"
# # 01 Second thoughts
#
# More.
""",
}
README = """# The course

Every claim is run. ![overview](images/overview.svg)

## The lessons

| | lesson | |
|---|---|---|
| I | **One** | |
| 00 | [first](notebooks/00_first.ipynb) | x |
| II | **Two** | |
| 01 | [second](notebooks/01_second.ipynb) | x |

## Begin

    make lab
"""
HOSTILE = "<script>document.title='taken'</script> " + "long" * 200 + "\n"


@pytest.fixture(scope="module")
def book(sphinx, repository, tmp_path_factory):
    clone = tmp_path_factory.mktemp("clone")
    (clone / "lessons").mkdir()
    for name, text in LESSONS.items():
        (clone / "lessons" / f"{name}.py").write_text(text)
    (clone / "README.md").write_text(README)
    shutil.copytree(repository / "images", clone / "images")
    notebook = nbformat.reads(
        build_text(read_lesson(clone / "lessons" / "00_first.py"), with_answers=True), as_version=4
    )
    shown = {
        "moves": new_output(
            "execute_result", {"text/html": collective("all-gather", ranks=4).stepper()}
        ),
        "long": new_output("stream", name="stdout", text=HOSTILE),
    }
    for cell in notebook.cells:
        if cell.id in shown:
            cell.outputs = [shown[cell.id]]
    executed_in(clone).mkdir(parents=True)
    nbformat.write(notebook, executed_in(clone) / "00_first.ipynb")
    made = write(clone, clone / "out", "", clone)
    assert (made.ran, made.unrun, made.warnings) == (["00_first"], ["01_second"], [])
    return made.folder


@pytest.fixture
def open_page(browser, book):
    """Open a page of the book in a window of this size. A request to the web is an error."""
    contexts, asked = [], []

    def opened(name, size=DESK, scheme="light"):
        context = browser.new_context(viewport=size, color_scheme=scheme, offline=True)
        contexts.append(context)
        page = context.new_page()
        page.on("request", lambda request: asked.append(request.url))
        page.on("pageerror", lambda error: asked.append(f"error: {error}"))
        page.goto((book / name).as_uri())
        return page

    yield opened
    for context in contexts:
        context.close()
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []


def is_wider_than_the_window(page) -> bool:
    return page.evaluate(
        "document.documentElement.scrollWidth > document.documentElement.clientWidth"
    )


def test_no_page_is_wider_than_its_window(open_page, book):
    page = open_page("index.html", PHONE)
    for file in sorted(book.glob("*.html")):
        page.goto(file.as_uri())
        for width in (360, 390, 768, 820, 1020, 1100, 1250, 1320, 1400, 1580, 1920):
            page.set_viewport_size({"width": width, "height": 900})
            assert not is_wider_than_the_window(page), f"{file.name} at {width} px"


def test_a_moving_diagram_moves_by_buttons_and_arrow_keys(open_page):
    page = open_page("00_first.html")
    shown = page.locator("figure:visible figcaption")
    assert shown.count() == 1
    assert shown.inner_text().startswith("1 of 4")
    told = page.locator("[aria-live]")
    page.get_by_label("speed").select_option("0.25 ×")
    page.get_by_role("button", name="play").click()
    assert told.get_attribute("aria-live") == "off"
    page.get_by_role("button", name="pause").click()
    assert told.get_attribute("aria-live") == "polite"
    assert shown.inner_text().startswith("2 of 4")
    page.get_by_role("button", name="one frame forward").click()
    assert shown.inner_text().startswith("3 of 4")
    assert page.get_by_role("slider").get_attribute("aria-valuetext").startswith("3 of 4. ")
    page.get_by_role("button", name="one frame forward").click()
    assert shown.inner_text().startswith("4 of 4")
    focused = "button => button === document.activeElement"
    assert page.get_by_role("button", name="one frame forward").evaluate(focused)
    page.get_by_role("button", name="one frame back").click()
    page.keyboard.press("ArrowRight")
    assert shown.inner_text().startswith("4 of 4")
    assert page.locator("figure:visible img").evaluate("image => image.naturalWidth") > 300


def test_what_a_cell_printed_stays_text(open_page):
    page = open_page("00_first.html")
    assert page.title().startswith("00 First things")
    assert "<script>document.title" in page.locator(".cell_output pre").first.inner_text()


def test_an_answer_is_folded_until_it_is_asked_for(open_page):
    page = open_page("00_first.html")
    answer = page.get_by_text("answer = 42")
    assert not answer.is_visible()
    page.get_by_text("Answer", exact=True).click()
    assert answer.is_visible()


def test_the_search_finds_a_word_from_files_alone(open_page):
    page = open_page("index.html")
    page.locator(".sidebar-search").fill("eigenvectors")
    page.keyboard.press("Enter")
    found = page.locator("#search-results li a").first
    found.wait_for(timeout=20_000)
    assert found.get_attribute("href").startswith("00_first.html")


def test_parts_lead_through_the_lessons_and_each_page_to_the_next(open_page):
    page = open_page("index.html")
    assert page.locator(".sidebar-tree .caption").all_inner_texts() == ["I. ONE", "II. TWO"]
    assert page.locator("img[src$='overview.svg']").evaluate("image => image.naturalWidth")
    page.get_by_role("cell", name="first").get_by_role("link").click()
    page.locator("a.next-page").click()
    assert page.title().startswith("01 Second thoughts")


def test_on_paper_all_frames_stand_and_what_is_folded_stays_away(open_page):
    page = open_page("00_first.html", {"width": 760, "height": 1000})
    page.emulate_media(media="print")
    assert page.locator("figure:visible").count() == 4
    assert page.get_by_role("button", name="play").count() == 0
    assert not page.locator("details.answer").is_visible()
    assert not page.locator(".sidebar-drawer").is_visible()
    assert not is_wider_than_the_window(page)


def test_the_whole_book_has_no_link_that_leads_nowhere(whole_book):
    told = json.loads((whole_book / "told.json").read_text())
    [folder] = (whole_book / "made").iterdir()  # nothing is left beside it
    assert told["warnings"] == []
    assert check.broken_links(folder) == []
    assert len(list((folder / "notebooks").glob("*.ipynb"))) == len(told["unrun"])


def test_in_an_exported_page_a_moving_diagram_moves_too(repository, browser, tmp_path):
    moving = {"text/html": collective("all-gather", ranks=4).stepper(), "text/plain": "frames"}
    output = new_output("execute_result", moving)
    cell = nbformat.v4.new_code_cell("show.moving.collective(…)", outputs=[output])
    config = Config()
    config.HTMLExporter.template_name = "course"
    templates = repository / "deploy" / "jupyter" / "data" / "nbconvert" / "templates"
    config.TemplateExporter.extra_template_basedirs = [str(templates)]
    notebook = nbformat.v4.new_notebook(cells=[cell])
    text, _ = HTMLExporter(config=config).from_notebook_node(notebook)
    (tmp_path / "page.html").write_text(text)
    page = browser.new_page()
    page.goto((tmp_path / "page.html").as_uri())
    shown = page.locator("figure:visible figcaption")
    assert shown.count() == 1
    page.get_by_role("button", name="one frame forward").click()
    assert shown.inner_text().startswith("2 of 4")
    page.close()
