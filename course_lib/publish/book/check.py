"""Check that all links inside the book work and that it loads nothing from the web."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

from bs4 import BeautifulSoup

# Elements that a browser loads automatically.
LOADS = {"script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href"}
NOT_FETCHED = {"canonical", "next", "prev", "search", "index", "author", "help", "copyright"}


def broken_links(folder: Path) -> list[str]:
    """Return a line for each broken link and for each element loaded from the web."""
    files = [file.resolve() for file in sorted(folder.rglob("*.html"))]
    pages = {file: BeautifulSoup(file.read_text(encoding="utf-8"), "html.parser") for file in files}
    anchors = {
        file: {str(tag["id"]) for tag in page.find_all(id=True)} for file, page in pages.items()
    }
    return [
        f"{file.relative_to(folder.resolve())}: {problem}"
        for file, page in pages.items()
        for problem in _problems(file, page, anchors)
    ]


def _problems(file: Path, page: BeautifulSoup, anchors: dict[Path, set[str]]) -> Iterator[str]:
    loads = [
        str(tag[LOADS[tag.name]])
        for tag in page.find_all(list(LOADS))
        if tag.get(LOADS[tag.name]) and not NOT_FETCHED.intersection(tag.get("rel") or ())
    ]
    for address in loads:
        parts = urlsplit(address)
        if parts.scheme != "data" and (parts.scheme or parts.netloc):
            yield f"{address[:80]} would be loaded from the web"
    links = [str(tag["href"]) for tag in page.find_all("a", href=True)]
    for address in dict.fromkeys([*links, *loads]):
        parts = urlsplit(address)
        if parts.scheme or parts.netloc:
            continue
        target = (file.parent / unquote(parts.path)).resolve() if parts.path else file
        if not target.is_file():
            yield f"{address} leads to no file"
        elif parts.fragment and parts.fragment not in anchors.get(target, {parts.fragment}):
            yield f"{address} leads to no such place on that page"
