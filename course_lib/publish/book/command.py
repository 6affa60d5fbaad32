"""`course book`: make the lessons into web pages, with the results of `course run`."""

from __future__ import annotations

import argparse
from pathlib import Path
from urllib.parse import urlsplit

from course_lib.lab.errors import LabError
from course_lib.lab.workspace import PACKAGE
from course_lib.publish.book import check
from course_lib.publish.book.site import write
from course_lib.publish.executed import executed_in
from course_lib.words import ENGLISH, LANGUAGES

OUT = Path("build") / "book"


def main(argv: list[str] | None = None) -> int:
    parser = pages_parser("book", "Writes the lessons as a website", OUT)
    parser.add_argument(
        "--open-at",
        default="",
        metavar="URL",
        help="address of the notebooks, with {notebook} for a file's name, such as "
        "https://HUB/hub/user-redirect/lab/tree/notebooks/{notebook}",
    )
    options = parser.parse_args(argv)
    open_at, workspace = address(options.open_at), workspace_of(options)
    book = write(workspace, options.out.resolve(), open_at, language=options.language)
    print(book)
    return int(tell_broken_links(book.folder) or bool(book.warnings))


def pages_parser(name: str, does: str, out: Path) -> argparse.ArgumentParser:
    """Return a parser with the options that book and slides share."""
    parser = argparse.ArgumentParser(
        prog=f"course {name}", description=f"{does}, with the results of `course run`."
    )
    parser.add_argument(
        "--workspace",
        type=Path,
        help="workspace of a `course run`; default: the newest course-run-… in this folder",
    )
    parser.add_argument("--out", type=Path, default=out, help=f"output folder; default: {out}")
    parser.add_argument(
        "--language",
        default=ENGLISH,
        choices=[ENGLISH, *LANGUAGES],
        help="language of the pages, with the results of `course run` in this language",
    )
    return parser


def workspace_of(options: argparse.Namespace) -> Path | None:
    """Return the workspace; None if nothing was run, so that the pages have no results."""
    language = options.language
    if not (PACKAGE.parent / "lessons").is_dir():
        raise LabError("there is no lessons/ here; this works in a clone only")
    workspace: Path | None = options.workspace or newest_run(language=language)
    if workspace and not executed_in(workspace, language).is_dir():
        also = "" if language == ENGLISH else f" --language {language}"
        raise LabError(f"no lesson was run in {workspace}; `course run --workspace{also}` does it")
    return workspace


def newest_run(folder: Path | None = None, language: str = ENGLISH) -> Path | None:
    there = (folder or Path.cwd()).glob("course-run-*")
    made = [path for path in there if any(executed_in(path, language).glob("*.ipynb"))]
    return max(made, key=lambda path: executed_in(path, language).stat().st_mtime, default=None)


def tell_broken_links(folder: Path) -> bool:
    broken = check.broken_links(folder)
    for line in broken:
        print(f"broken: {line}")
    return bool(broken)


def address(text: str) -> str:
    """Check an address from the command line, which becomes a link on every page."""
    if not text:
        return ""
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.netloc or "{notebook}" not in parts.path:
        raise LabError(
            f"--open-at {text!r} is no address of notebooks; one begins with https:// or http:// "
            "and has {notebook} where the name of the file comes"
        )
    return text
