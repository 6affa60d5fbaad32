"""A notebook in JupyterLab, controlled by keys and menus, as by a learner."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

# Of a learner who likes whole pages: all cells are in the page, not only those in view.
SETTINGS = {
    "notebook-extension/tracker": {"windowingMode": "none", "recordTiming": False},
    "docmanager-extension/plugin": {"autosave": False},
    "apputils-extension/notification": {"fetchNews": "false"},
}
PATIENCE_MS = 500_000
LOOK_EVERY_MS = 200  # else playwright looks at every frame, sixty times a second
READY = ".jp-NotebookPanel-toolbar [data-status=idle]"
# In the status bar; the notebook's own sign says idle before there is a kernel too.
KERNEL_IS_THERE = "| Idle"


def write_settings(folder: Path) -> None:
    for plugin, settings in SETTINGS.items():
        file = folder / "@jupyterlab" / f"{plugin}.jupyterlab-settings"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(settings))


def pictures(otherwise: Path) -> Path:
    """Folder for screenshots."""
    return Path(os.environ.get("COURSE_TEST_PICTURES", otherwise))


class LabPage:
    """A notebook in JupyterLab. `file` is the notebook on disk, which has the ids of the cells."""

    def __init__(self, page: Any, file: Path) -> None:
        self.page, self.file = page, file
        page.set_default_timeout(PATIENCE_MS)
        cells = json.loads(file.read_text())["cells"]
        self.place = {cell["id"]: number for number, cell in enumerate(cells)}
        self.source = {cell["id"]: "".join(cell["source"]) for cell in cells}
        self.checks = [cell["id"] for cell in cells if "check" in cell["metadata"].get("tags", [])]

    def open(self, url: str) -> None:
        self.page.goto(url)
        self.wait_until_open()

    def wait_until_open(self) -> None:
        self.cell(next(iter(self.place))).wait_for()
        self.page.locator("#jp-main-statusbar").get_by_text(KERNEL_IS_THERE).first.wait_for()

    def cell(self, name: str) -> Any:
        return self.page.locator(".jp-Notebook .jp-Cell").nth(self.place[name])

    def type_into(self, name: str, text: str) -> None:
        editor = self.cell(name).locator(".cm-content").first
        editor.scroll_into_view_if_needed()
        editor.click()
        self.page.keyboard.press("Control+A")
        self.page.keyboard.insert_text(text)

    def answer(self, repository: Path, gap: str) -> str:
        """Return the cell with the solution's answer in place of the gap."""
        cells = json.loads((repository / "solutions" / self.file.name).read_text())["cells"]
        return "".join(next(cell["source"] for cell in cells if cell["id"] == gap))

    def gaps(self, repository: Path) -> list[str]:
        """Return the cells in which the solution differs, without guesses."""
        return [
            name
            for name, source in self.source.items()
            if not name.endswith("-guess") and self.answer(repository, name) != source
        ]

    def guess(self, repository: Path) -> None:
        """Enter the solution's guess, because a lesson stops at each missing guess."""
        for name in self.place:
            if name.endswith("-guess"):
                self.type_into(name, self.answer(repository, name))

    def run_all(self) -> None:
        self._begin("Run All Cells")

    def _begin(self, entry: str) -> None:
        """Return when a cell has begun. Before that, an idle notebook looks like a finished one."""
        self.menu("Run", entry)
        self.wait_for("/\\[[*0-9]+\\]/.test(prompts)")

    def run(self, name: str) -> None:
        editor = self.cell(name).locator(".cm-content").first
        editor.scroll_into_view_if_needed()
        editor.click()
        self.page.keyboard.press("Control+Enter")

    def run_down_to(self, name: str) -> None:
        self.begin_down_to(name)
        self.wait_until_idle()

    def begin_down_to(self, name: str) -> None:
        self.cell(name).locator(".cm-content").first.click()
        self._begin("Run All Above Selected Cell")
        self.run(name)

    def menu(self, name: str, entry: str) -> None:
        self.page.get_by_role("menuitem", name=name, exact=True).click()
        self.page.get_by_text(entry, exact=True).click()

    def wait_until_idle(self) -> None:
        """Wait until no cell runs or waits to run."""
        self.wait_for(f"document.querySelector('{READY}') && !prompts.includes('[*]')")

    def wait_for(self, condition: str) -> None:
        """Wait for a JavaScript condition. `prompts` is the text beside the cells, such as
        `[3]:`."""
        prompts = (
            "[...document.querySelectorAll('.jp-Notebook .jp-InputPrompt')]"
            ".map(prompt => prompt.textContent).join(' ')"
        )
        try:
            self.page.wait_for_function(
                f"() => {{ const prompts = {prompts}; return {condition}; }}",
                timeout=PATIENCE_MS,
                polling=LOOK_EVERY_MS,
            )
        except Exception:
            self.page.screenshot(path=pictures(self.file.parent) / f"{self.file.stem}-stuck.png")
            raise

    def output(self, name: str) -> str:
        return str(self.cell(name).locator(".jp-Cell-outputArea").inner_text())

    def failures(self) -> dict[str, str]:
        """Return the output of the cells that ended with an error."""
        error = "[data-mime-type='application/vnd.jupyter.error'], [data-mime-type*=stderr]"
        return {
            name: self.output(name)
            for name in self.place
            if self.cell(name).locator(".jp-Cell-outputArea").locator(error).count()
        }

    def count(self, name: str) -> int | None:
        """Return the number beside the cell, which counts the cells that have run."""
        prompt = self.cell(name).locator(".jp-InputPrompt").first.inner_text()
        found = re.search(r"\[(\d+)\]", prompt)
        return int(found[1]) if found else None

    def too_wide(self) -> dict[str, int]:
        """Return the beginnings and widths of elements that are wider than the notebook."""
        found: dict[str, int] = self.page.evaluate(
            """() => Object.fromEntries([...document.querySelectorAll(
                   '.jp-Notebook .jp-OutputArea-output, .jp-Notebook .jp-RenderedMarkdown')]
                   .filter(part => part.scrollWidth > part.clientWidth)
                   .map(part => [part.innerText.slice(0, 100),
                                 part.scrollWidth - part.clientWidth]))"""
        )
        return found

    def picture(self, file: Path) -> None:
        """Save a screenshot of the whole notebook, however long it is."""
        height = self.page.evaluate(
            "() => document.querySelector('.jp-Notebook .jp-WindowedPanel-outer').scrollHeight"
        )
        before = self.page.viewport_size
        self.page.set_viewport_size({"width": 1280, "height": min(int(height) + 200, 16_000)})
        self.page.wait_for_timeout(500)
        self.page.screenshot(path=file)
        self.page.set_viewport_size(before)
