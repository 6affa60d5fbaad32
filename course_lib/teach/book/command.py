"""`course book`: the lessons as pages to read, from a workspace in which the course was run."""

from __future__ import annotations

import argparse
from pathlib import Path
from urllib.parse import urlsplit

from course_lib.lab.errors import LabError
from course_lib.lab.workspace import PACKAGE
from course_lib.teach.book import check
from course_lib.teach.book.page import Links
from course_lib.teach.book.site import write
from course_lib.teach.executed import executed_in
from course_lib.words import ENGLISH, LANGUAGES

OUT = Path("build") / "book"


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="course book",
        description="writes the lessons as pages to read, with the results of `course run`",
    )
    parser.add_argument(
        "--workspace",
        type=Path,
        help="in which `course run` ran lessons; default: the newest course-run-… of this folder",
    )
    parser.add_argument("--out", type=Path, default=OUT, help=f"default: {OUT}")
    parser.add_argument(
        "--open-at",
        default="",
        metavar="URL",
        help="where readers find the notebooks, {notebook} standing for a file's name, such as "
        "https://HUB/hub/user-redirect/lab/tree/notebooks/{notebook}",
    )
    parser.add_argument(
        "--language",
        default=ENGLISH,
        choices=[ENGLISH, *LANGUAGES],
        help="of a translation, with the results of `course run --language` of the same",
    )
    options = parser.parse_args(argv)
    language = options.language
    if not (PACKAGE.parent / "lessons").is_dir():
        raise LabError("there is no lessons/ here; `course book` works in a clone only")
    links = Links(address(options.open_at))
    workspace = options.workspace or newest_run(language=language)
    if workspace:
        refuse_unrun(workspace, language)
    book = write(workspace, options.out.resolve(), links, language=language)
    print(book)
    broken = check.broken_links(book.folder)
    for line in broken:
        print(f"broken: {line}")
    return int(bool(broken or book.warnings))


def newest_run(folder: Path | None = None, language: str = ENGLISH) -> Path | None:
    """None where nothing was run: the book then has the lessons without results."""
    there = (folder or Path.cwd()).glob("course-run-*")
    made = [path for path in there if any(executed_in(path, language).glob("*.ipynb"))]
    return max(made, key=lambda path: executed_in(path, language).stat().st_mtime, default=None)


def refuse_unrun(workspace: Path, language: str) -> None:
    if not executed_in(workspace, language).is_dir():
        also = "" if language == ENGLISH else f" --language {language}"
        raise LabError(f"no lesson was run in {workspace}; `course run --workspace{also}` does it")


def address(text: str) -> str:
    """It goes into links of every page, so no `javascript:` and nothing else that is no address."""
    if not text:
        return ""
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.netloc or "{notebook}" not in parts.path:
        raise LabError(
            f"--open-at {text!r} is no address of notebooks; one begins with https:// or http:// "
            "and has {notebook} where the name of the file comes"
        )
    return text
