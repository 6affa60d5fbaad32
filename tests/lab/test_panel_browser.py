"""The panel as a learner meets it: in JupyterLab, in a browser, while the cell runs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import nbformat
import pytest

from course_lib.lab.lab import Lab

from .conftest import PATIENCE_S

MONITOR = Path(__file__).parents[2] / "code" / "monitor.py"
CELLS = [
    "from course_lib import Lab, shell\nlab = Lab(quiet=True)",
    f"run = lab.submit(shell.recipe('slow', 'python {MONITOR} & sleep 300'))\nrun.watch()",
    "print('the next cell came', run.state)",
]
ADDRESS = re.compile(r"^\s+http://127\.0\.0\.1:(\d+)/lab\?token=(\w+)")
FOCUSED = "part => part === document.activeElement"
PATIENCE_MS = 1000 * 2 * PATIENCE_S


@pytest.fixture
def page(browser, cluster, tmp_path, monkeypatch):
    """Notebook in JupyterLab, in its own workspace."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in CELLS])
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3"}
    nbformat.write(notebook, tmp_path / "panel.ipynb")
    (tmp_path / "site.toml").write_text(
        f'name = "{cluster}"\nbox = {str(cluster == "box").lower()}\n'
    )
    monkeypatch.setenv("COURSE_PLAIN", "0")
    monkeypatch.setenv("COURSE_WORKSPACE", str(tmp_path))
    data = Path(__file__).parents[2] / "deploy" / "jupyter" / "data"
    monkeypatch.setenv("JUPYTER_PATH", str(data))
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--port=0"]
    command += [f"--ServerApp.root_dir={tmp_path}"]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        port, token = next(found for line in server.stderr for found in ADDRESS.findall(line))
        threading.Thread(target=server.stderr.read, daemon=True).start()
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.set_default_timeout(PATIENCE_MS)
        page.goto(f"http://127.0.0.1:{port}/lab/tree/panel.ipynb?token={token}")
        yield page
        page.close()
    finally:
        server.terminate()
        server.wait(timeout=30)


@pytest.mark.browser
@pytest.mark.slow
def test_the_panel_shows_a_running_job_and_its_button_ends_it(page, tmp_path, cluster):
    page.locator(".jp-Notebook .jp-CodeCell").first.click()
    page.get_by_role("menuitem", name="Run", exact=True).click()
    page.get_by_text("Run All Cells", exact=True).click()
    page.get_by_text("running on node").wait_for()
    page.get_by_text("memory of node").first.wait_for()
    if folder := os.environ.get("COURSE_SCREENS"):
        page.screenshot(path=f"{folder}/panel.png")
    page.get_by_role("button", name="Cancel").focus()
    page.keyboard.press("Enter")
    assert page.get_by_role("button", name="Cancel").evaluate(FOCUSED)
    page.get_by_text("the next cell came CANCELLED").wait_for()
    assert page.get_by_text("slow: cancelled", exact=True).count() == 1
    assert page.get_by_role("button", name="Cancel").count() == 0
    assert page.locator(".jp-Notebook .jp-CodeCell").nth(1).evaluate(FOCUSED)
    assert Lab(tmp_path, site=cluster, quiet=True).run("slow").state == "CANCELLED"
