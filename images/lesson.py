"""Draws lesson.png for `make picture`: a prediction, the panel of its job, and a figure.

The cells and their results are those of lesson 03 in the book, made from recorded runs. The panel
shows the recorded run as `run.watch()` shows a job in its seventh step. A test compares the digest
in the picture with its sources.

python images/lesson.py WORKSPACE BOOK
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import shutil
import sys
import tempfile
from pathlib import Path

from PIL import Image
from PIL.PngImagePlugin import PngInfo

REPOSITORY = Path(__file__).resolve().parents[1]
LESSON = "03_data_parallelism"
CELLS = ("same-guess", "same-run", "same-see", "same-numbers")
PICTURE = Path(__file__).with_suffix(".png")
DIGEST = "sources"
STEP, RUNNING_S = 7, 4.0
WIDTH_PX = 830
# Arranges copies of the cells below three headings, and the panel below the cell that opens it.
ARRANGE = """panel => {
    const cell = text => [...document.querySelectorAll('.cell')].filter(
        cell => cell.querySelector('.cell_input')?.textContent.includes(text)).pop().cloneNode(true)
    const heading = text => Object.assign(document.createElement('h3'), {textContent: text})
    const run = cell('run1.watch()'), see = cell('show.loss(run1')
    const compared = cell('losses.compare(')
    run.querySelector('.cell_output').innerHTML = panel
    compared.querySelector('.cell_input').remove()
    const made = document.createElement('main')
    made.id = 'picture'
    made.append(heading('1. Predict, and submit a job'), cell('guess_same = "'), run,
                heading('2. See what the job wrote'), see,
                heading('3. Compare, and explain the difference'), compared)
    made.querySelectorAll('details').forEach(each => each.replaceWith(...each.children))
    document.body.replaceChildren(made)
}"""
STYLE = """#picture { padding: 4px 14px; } #picture h3 { margin: 10px 0 6px; font-size: 19px; }
#picture .cell { margin: 4px 0; } #picture img { max-height: 320px; width: auto; }
#picture pre { white-space: pre-wrap; }
.panel { font: 14px sans-serif; padding: 8px; border: 1px solid #cccccc; }
.panel progress { width: 80%; margin: 8px 8px 8px 0; accent-color: #2196f3; }"""


def digest() -> str:
    """Return the digest of what the picture shows: the lesson's cells and the recorded runs."""
    from course_lib.publish.building.source import read_lesson

    lesson = read_lesson(REPOSITORY / "lessons" / f"{LESSON}.py")
    shown = "\n".join(cell.text for cell in lesson.cells if cell.id in CELLS)
    recorded = (REPOSITORY / "recordings" / f"{LESSON}.runs").read_bytes()
    return hashlib.sha256(shown.encode() + recorded).hexdigest()


def panel(workspace: Path) -> str:
    """Return the panel of `dp1` as HTML, as it was in the middle of the run."""
    from course_lib import Lab
    from course_lib.lab.queue.slurm import Status
    from course_lib.lab.watching.panel import Panel
    from course_lib.lab.watching.progress import Follower

    run = Lab(workspace, site="recorded", quiet=True).run("dp1")
    log = run.log_file.read_text(encoding="utf-8").splitlines(keepends=True)
    with tempfile.NamedTemporaryFile("w", suffix=".log") as so_far:
        so_far.writelines(log[: 1 + next(n for n, line in enumerate(log) if f" {STEP}/" in line)])
        so_far.flush()
        progress = Follower(Path(so_far.name)).look()
    with contextlib.redirect_stdout(io.StringIO()):  # no notebook displays it
        shown = Panel(run)
    shown.show(Status("RUNNING", elapsed_s=RUNNING_S, nodes=run.status.nodes), progress)
    parts = vars(shown)
    bar = f'<progress value="{parts["_bar"].value}"></progress><button>Cancel</button>'
    return f'<div class="panel">{parts["_head"].value}<br>{bar}{parts["_numbers"].value}</div>'


def main(workspace: Path, book: Path) -> None:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = shutil.which("chromium")
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": WIDTH_PX, "height": 1000})
        page.goto((book / f"{LESSON}.html").resolve().as_uri())
        page.evaluate(ARRANGE, panel(workspace))
        page.add_style_tag(content=STYLE)
        page.locator("#picture").screenshot(path=PICTURE)
        browser.close()
    told = PngInfo()
    told.add_text(DIGEST, digest())
    Image.open(PICTURE).quantize(64).save(PICTURE, optimize=True, pnginfo=told)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
