"""The whole book and the slides of all lessons without results, made once for all tests."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

import pytest

from course_lib.publish.book import site as book_site
from course_lib.publish.slides import site as slides_site


@pytest.fixture(scope="session")
def sphinx(lacking):
    if missing := [name for name in book_site.NEEDED if find_spec(name) is None]:
        lacking(f"not installed: {', '.join(missing)} (bash deploy/book/setup.sh)")


@pytest.fixture(scope="session")
def reveal(lacking):
    if not (slides_site.REVEAL / "dist" / "reveal.js").is_file():
        lacking("reveal.js is not installed (bash deploy/slides/setup.sh)")


@pytest.fixture(scope="session")
def whole_book(sphinx, once) -> Path:
    """The folder with the book, and a file with the messages of its builder."""

    def make(folder: Path) -> None:
        (folder / "made").mkdir()
        made = book_site.write(None, folder / "made" / "book")
        told = {"warnings": made.warnings, "unrun": made.unrun}
        (folder / "told.json").write_text(json.dumps(told))

    return once("whole-book", make)


@pytest.fixture(scope="session")
def whole_slides(reveal, once) -> Path:
    def make(folder: Path) -> None:
        assert len(slides_site.write(None, folder / "slides").slides) == 4

    return once("whole-slides", make) / "slides"
