"""A PDF of each deck, printed by a browser that is there: chromium or a relative of it."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from pathlib import Path

from course_lib.teach.slides import browser
from course_lib.teach.slides.browser import BrowserError, Tab

PAGE = re.compile(rb"/Type\s*/Page\b")
READY = (
    "document.readyState === 'complete' && document.querySelector('.slides section') && "
    "document.querySelectorAll('.pdf-page').length >= "
    "document.querySelectorAll('.slides section').length && "
    "[...document.images].every((image) => image.complete)"
)


def print_all(folder: Path) -> Iterator[str]:
    """A line for each deck: what became of its PDF."""
    program = browser.command()
    if not program:
        yield "no PDF: chromium is not installed (on Debian and Ubuntu: apt-get install chromium)"
        return
    for page in sorted(folder.glob("part*.html")):
        file = page.with_suffix(".pdf")
        try:
            with browser.tab(program) as tab:
                print_one(tab, page, file)
        except (OSError, BrowserError) as error:
            yield f"{file.name} could not be printed: {error}"
        else:
            yield f"{file.name}: {page_count(file)} pages"


def print_one(tab: Tab, page: Path, file: Path) -> None:
    tab.ask("Page.enable")
    tab.ask("Page.navigate", url=f"{page.as_uri()}?print-pdf")
    tab.wait_for(READY)
    printed = tab.ask("Page.printToPDF", printBackground=True, preferCSSPageSize=True)
    file.write_bytes(base64.b64decode(printed["data"]))


def page_count(file: Path) -> int:
    return len(PAGE.findall(file.read_bytes()))
