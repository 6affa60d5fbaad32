"""A notebook that was saved, closed and opened again shows its figures and the panel of a run."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import urllib.request
from pathlib import Path

import nbformat
import pytest

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "lab" / "tensorboard")]
from board import Server, jupyter, wait_until  # noqa: E402
from lab_page import LabPage, pictures  # noqa: E402

from course_lib.lab.clusters import box_bin  # noqa: E402

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(600)]
REPOSITORY = HERE.parents[1]
DEPLOYED = REPOSITORY / "deploy" / "jupyter"
DEAD = "Error displaying widget"
CELLS = {
    "words": ("markdown", "# Saved\n\n$$t = \\alpha + \\frac{n}{\\beta}$$"),
    "lab": ("code", "from course_lib import Lab, shell, show\nlab = Lab(quiet=True)"),
    "story": ("code", "show.moving.collective('all-gather', 3)"),
    "figure": ("code", "show.ranks([[0, 1], [2, 3]])"),
    "table": ("code", "import pandas as pd\npd.DataFrame({'loss': [2.5, 1.5]})"),
    "panel": ("code", "run = lab.submit(shell.recipe('slow', 'sleep 20'))\nrun.watch()"),
    "end": ("code", "print('the last cell', 'came')"),
}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """Start a server like `make lab`, with the course's settings and its template for exports."""
    folder = tmp_path_factory.mktemp("saved")
    write_notebook(folder / "saved.ipynb")
    running = contextlib.ExitStack()
    with pytest.MonkeyPatch.context() as patch:  # only until the server has taken it over
        patch.setenv("COURSE_BOX_HOME", str(tmp_path_factory.mktemp("box")))
        patch.setenv("COURSE_PLAIN", "0")
        patch.setenv("PATH", f"{box_bin()}{os.pathsep}{os.environ['PATH']}")
        patch.setenv("JUPYTER_CONFIG_PATH", str(DEPLOYED / "config"))
        patch.setenv("JUPYTER_PATH", str(DEPLOYED / "data"))
        settings = f"--LabApp.app_settings_dir={DEPLOYED / 'settings'}"
        started = running.enter_context(jupyter(folder, settings))
    with running:
        yield started


def write_notebook(file: Path) -> None:
    make = {"code": nbformat.v4.new_code_cell, "markdown": nbformat.v4.new_markdown_cell}
    cells = [make[kind](text, id=name) for name, (kind, text) in CELLS.items()]
    notebook = nbformat.v4.new_notebook(cells=cells)
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3"}
    nbformat.write(notebook, file)


@pytest.fixture(scope="module")
def saved(server, browser):
    """Save and close a notebook while its job runs, and wait for the end of the job. Return what
    its panel shows when the notebook is opened again, with its old kernel and without."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = LabPage(context.new_page(), server.folder / "saved.ipynb")
    url = f"{server.url}lab/tree/saved.ipynb?token=secret&reset"
    page.open(url)
    page.run_all()
    page.cell("panel").get_by_text("running on node").wait_for()
    page.page.keyboard.press("Control+s")
    wait_until(lambda: "was not finished" in page.file.read_text())
    page.page.close()
    wait_until(lambda: list(server.runs.glob("slow-*/exit_code")))

    page.page = context.new_page()
    page.open(url)
    page.cell("panel").get_by_text("slow: completed").wait_for()
    keep(page, "same-kernel")
    page.page.keyboard.press("Control+s")
    wait_until(lambda: "slow: completed" in page.file.read_text())
    page.page.close()
    end_kernels(server)

    page.page = context.new_page()
    page.open(url)
    yield page
    context.close()


def end_kernels(server: Server) -> None:
    for child in server.started("ipykernel"):
        child.kill()
    request = urllib.request.Request(f"{server.url}api/sessions?token=secret")
    with urllib.request.urlopen(request, timeout=60) as answer:
        for session in json.load(answer):
            end = urllib.request.Request(
                f"{server.url}api/sessions/{session['id']}?token=secret", method="DELETE"
            )
            urllib.request.urlopen(end, timeout=60).close()


def keep(page: LabPage, name: str) -> None:
    page.page.screenshot(path=pictures(page.file.parent) / f"saved-{name}.png", full_page=True)


def test_with_a_fresh_kernel_nothing_is_dead(saved):
    saved.cell("panel").get_by_text("slow: completed").wait_for()
    assert DEAD not in saved.page.inner_text("body")
    assert saved.cell("figure").locator("img").evaluate("image => image.naturalWidth") > 0
    keep(saved, "fresh-kernel")
