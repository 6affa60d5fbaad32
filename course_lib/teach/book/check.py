"""Whether every link inside the book leads somewhere, and nothing in it comes from the web."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADS = {"script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href"}
"""What a browser fetches by itself."""
NOT_FETCHED = {"canonical", "next", "prev", "search", "index", "author", "help", "copyright"}


@dataclass
class Page(HTMLParser):
    anchors: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    loads: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    @classmethod
    def of(cls, file: Path) -> Page:
        page = cls()
        page.feed(file.read_text(encoding="utf-8"))
        return page

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if given.get(name)}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if given.get(LOADS.get(tag, "")) and given.get("rel") not in NOT_FETCHED:
            self.loads.append(given[LOADS[tag]])


def broken_links(folder: Path) -> list[str]:
    """A line for each link that leads nowhere and for each thing that would come from the web."""
    pages = {file.resolve(): Page.of(file) for file in sorted(folder.rglob("*.html"))}
    return [
        f"{file.relative_to(folder.resolve())}: {problem}"
        for file, page in pages.items()
        for problem in _problems(file, page, pages)
    ]


def _problems(file: Path, page: Page, pages: dict[Path, Page]) -> Iterator[str]:
    for address in page.loads:
        parts = urlsplit(address)
        if parts.scheme != "data" and (parts.scheme or parts.netloc):
            yield f"{address[:80]} would be loaded from the web"
    for address in dict.fromkeys([*page.links, *page.loads]):
        parts = urlsplit(address)
        if parts.scheme or parts.netloc:
            continue
        target = (file.parent / unquote(parts.path)).resolve() if parts.path else file
        if not target.is_file():
            yield f"{address} leads to no file"
        elif parts.fragment and target in pages and parts.fragment not in pages[target].anchors:
            yield f"{address} leads to no such place on that page"
