"""axe-core finds nothing critical or serious in the book, the slides, the class page and outputs.

COURSE_TEST_ALL=1 tests all pages of the book instead of ten, and all slides instead of one of each
kind.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
import time
from pathlib import Path

import nbformat
import pytest
from PIL import Image, ImageStat

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "lab" / "tensorboard")]
from board import jupyter  # noqa: E402
from lab_page import LabPage, write_settings  # noqa: E402
from test_book import README  # noqa: E402

from course_lib.classroom import page as class_page  # noqa: E402
from course_lib.classroom.snapshot import Exercise, Member, Roster, Snapshot  # noqa: E402
from course_lib.publish.book import site as book_site  # noqa: E402
from course_lib.publish.executed import executed_in  # noqa: E402
from course_lib.show.style import DARK_FILTER  # noqa: E402

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(300)]
AXE = Path(sys.prefix) / "share" / "course" / "axe" / "node_modules" / "axe-core" / "axe.min.js"
DEPLOYED = HERE.parents[1] / "deploy" / "jupyter"
SCHEMES = ("light", "dark")
EVERY = bool(os.environ.get("COURSE_TEST_ALL"))
LOOK = """async ([within, rules]) => {
  const found = await axe.run(within, {resultTypes: ["violations"]});
  return found.violations
    .filter((one) => ["critical", "serious"].includes(one.impact) || rules.includes(one.id))
    .map(({id, nodes}) => `${id}, ${nodes.length} times: ${nodes[0].html.slice(0, 200)}`);
}"""
CELLS = {
    "words": ("markdown", "# One\n\n## Two\n\n![a cluster](images/cluster.svg)"),
    "import": ("code", "import pandas as pd\nfrom course_lib import gpt, show, Lab\nlab = Lab()"),
    "figure": ("code", "show.ranks([[0, 1], [2, 3]])"),
    "story": ("code", "show.moving.collective('all-gather', 3)"),
    "table": ("code", "pd.DataFrame({'loss': [2.5, 1.5]}, index=pd.Index([1, 2], name='step'))"),
    "script": ("code", "lab.script(gpt.recipe('dp4', nodes=2, gpus_per_node=2))"),
    "code": ("code", "lab.code('pretrain_gpt.py')"),
    "line": ("code", "print('memory ' * 99)"),
}


@pytest.fixture(scope="session")
def axe(lacking):
    if not AXE.is_file():
        lacking("axe-core is not installed (bash tests/browser/axe/setup.sh)")
    return AXE.read_text(encoding="utf-8")


@pytest.fixture
def findings(axe):
    def look(page, within="body", rules=("heading-order",)):
        page.evaluate(axe)
        return page.evaluate(LOOK, [within, list(rules)])

    return look


@pytest.fixture
def window(browser):
    """`window(scheme)` opens a page with this colour scheme and without network."""
    contexts = []

    def opened(scheme, **more):
        size = {"width": 1280, "height": 900}
        contexts.append(browser.new_context(viewport=size, color_scheme=scheme, **more))
        return contexts[-1].new_page()

    yield opened
    for context in contexts:
        context.close()


@pytest.fixture(scope="module")
def outputs(repository, tmp_path_factory, browser):
    """A notebook with all kinds of outputs, run in JupyterLab as `make lab` starts it."""
    folder = tmp_path_factory.mktemp("outputs")
    shutil.copytree(repository / "images", folder / "images")
    write_settings(folder / "settings")
    make = {"code": nbformat.v4.new_code_cell, "markdown": nbformat.v4.new_markdown_cell}
    cells = [make[kind](text, id=name) for name, (kind, text) in CELLS.items()]
    notebook = nbformat.v4.new_notebook(cells=cells)
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3"}
    nbformat.write(notebook, folder / "outputs.ipynb")
    with contextlib.ExitStack() as running:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("COURSE_SITE", "recorded")
            patch.setenv("COURSE_PLAIN", "0")
            patch.setenv("JUPYTER_CONFIG_PATH", str(DEPLOYED / "config"))
            patch.setenv("JUPYTER_PATH", str(DEPLOYED / "data"))
            server = running.enter_context(jupyter(folder))
        tab = browser.new_page(viewport={"width": 1280, "height": 900})
        page = LabPage(tab, folder / "outputs.ipynb")
        page.open(f"{server.url}lab/tree/outputs.ipynb?token=secret")
        page.run_all()
        page.wait_until_idle()
        assert page.failures() == {}
        page.page.keyboard.press("Control+s")
        yield page
        tab.close()


def choose_theme(page: LabPage, scheme: str) -> None:
    file = page.file.parent / "settings/@jupyterlab/apputils-extension/themes.jupyterlab-settings"
    file.write_text(json.dumps({"theme": f"JupyterLab {scheme.title()}"}))
    page.page.reload()
    page.wait_until_open()
    page.page.locator(f"body[data-jp-theme-light='{json.dumps(scheme == 'light')}']").wait_for(
        state="attached"
    )


def ground(element, file: Path) -> int:
    """Return the lightness of an element's largest part, from 0 to 255."""
    element.screenshot(path=file)
    return ImageStat.Stat(Image.open(file).convert("L")).median[0]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_outputs_in_jupyterlab(outputs, findings, tmp_path, scheme):
    choose_theme(outputs, scheme)
    outputs.cell("figure").locator("img").first.wait_for()
    for within in (".jp-OutputArea-output", ".jp-MarkdownOutput"):
        assert findings(outputs.page, within) == []
    for name, kind in (("figure", "img"), ("script", "pre[style]"), ("words", "img")):
        light = ground(outputs.cell(name).locator(kind).first, tmp_path / f"{name}.png")
        assert light < 40 if scheme == "dark" else light > 215, (name, light)


def test_a_line_breaks_between_its_words(outputs):
    words_and_lines = (
        outputs.cell("line")
        .locator("pre")
        .evaluate(
            """pre => {
            const text = pre.firstChild, range = document.createRange(), tops = new Set();
            const words = [...text.data.matchAll(/\\S+/g)];
            const pieces = words.map(word => {
                range.setStart(text, word.index);
                range.setEnd(text, word.index + word[0].length);
                const pieces = [...range.getClientRects()];
                pieces.forEach(piece => tops.add(piece.top));
                return pieces.length;
            });
            return [words.length, Math.max(...pieces), tops.size];
        }"""
        )
    )
    words, most_pieces, lines = words_and_lines
    assert (words, most_pieces) == (99, 1)
    assert lines > 1
    listing = outputs.cell("code").locator("pre").last
    assert listing.evaluate("pre => getComputedStyle(pre).wordBreak") == "normal"


def test_style_sheets_turn_pictures_round_as_the_colours_expect(repository):
    for sheet in ("deploy/book/static/book.css", "deploy/jupyter/custom/custom.css"):
        assert f"filter: {DARK_FILTER};" in (repository / sheet).read_text(), sheet


@pytest.fixture(scope="module")
def pages(whole_book, outputs, repository, tmp_path_factory):
    """All lessons without results, and a lesson with the outputs from JupyterLab."""
    clone = tmp_path_factory.mktemp("clone")
    (clone / "lessons").mkdir()
    (clone / "images").symlink_to(repository / "images")
    (clone / "README.md").write_text(README)
    title = '# %% [markdown] id="title"\n# # 00 First things\n'
    code = {name: text for name, (kind, text) in CELLS.items() if kind == "code"}
    cells = [title, *(f'# %% id="{name}"\n{text}\n' for name, text in code.items())]
    (clone / "lessons" / "00_first.py").write_text("\n".join(cells))
    (clone / "lessons" / "01_second.py").write_text(title.replace("00 First", "01 Second"))
    executed_in(clone).mkdir(parents=True)
    shutil.copy(outputs.file, executed_in(clone) / "00_first.ipynb")
    ran = book_site.write(clone, clone / "out", "", clone)
    assert ran.ran == ["00_first"]
    without = sorted((whole_book / "made" / "book").glob("*.html"))
    return [ran.folder / "00_first.html", *without[:: 1 if EVERY else 3]]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_pages_of_the_book(pages, window, findings, scheme):
    assert len(pages) >= 10
    page, found = window(scheme, offline=True), {}
    for file in pages:
        page.goto(file.as_uri())
        found[str(file)] = findings(page)
    page.goto(pages[0].as_uri())
    assert page.locator(".cell_output :is(img, pre[style])").count() >= 4
    assert {name: what for name, what in found.items() if what} == {}


@pytest.mark.timeout(900)
def test_slides(whole_slides, window, findings):
    page, found, kinds = window("light", offline=True), {}, set()
    for file in sorted(whole_slides.glob("*.html")):
        page.goto(file.as_uri())
        if file.stem == "index":
            found[file.stem] = findings(page)
            continue
        page.wait_for_selector(".reveal.ready")
        for number, kind in enumerate(
            page.evaluate("Reveal.getSlides().map((slide) => slide.classList[0])")
        ):
            if EVERY or kind not in kinds:
                page.evaluate(f"Reveal.slide({number}, 0, -1)")
                where = f"{file.stem}, slide {number + 1}, {kind}"
                found[where] = findings(page, ".slides > .present", rules=())
                kinds.add(kind)
    assert len(kinds) >= 10
    assert {where: what for where, what in found.items() if what} == {}


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_class_page(window, findings, monkeypatch, tmp_path, scheme):
    met = {"00.1": Exercise(tries=3, hint="one hint")}
    now = time.time()
    shared = Snapshot(
        lesson="00", active_unix_s=now, stuck_on="00.1", stuck_unix_s=now - 3600, exercises=met
    )
    roster = Roster((Member(61001, "Ada", shared),), 3)
    monkeypatch.setattr(class_page, "read", lambda place: roster)
    (tmp_path / "page.html").write_text(class_page.html(tmp_path))
    page = window(scheme, offline=True)
    page.goto((tmp_path / "page.html").as_uri())
    assert page.locator("tr.marked").count()
    assert findings(page) == []
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") == 390
