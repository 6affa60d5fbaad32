"""The pages of the book, and Sphinx over them. Nothing in it is loaded from the web."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import nbformat

from course_lib.lab.errors import LabError
from course_lib.lab.recorded import paths
from course_lib.lab.workspace import PACKAGE
from course_lib.teach.book import contents
from course_lib.teach.book.page import Links, make
from course_lib.teach.building.build import build_text
from course_lib.teach.building.source import Lesson, lessons_in, read_lesson
from course_lib.teach.executed import executed_in
from course_lib.teach.run import ANSI_COLOUR
from course_lib.teach.translation.localized import localized_lessons, localized_readme
from course_lib.teach.translation.pictures import localized_pictures
from course_lib.words import ENGLISH

CLONE = PACKAGE.parent
STATIC = CLONE / "deploy" / "book" / "static"
MARK = ".course-book"
"""In a folder that a later book may replace."""
NEEDED = ("sphinx", "myst_nb", "furo")
TITLE = "Training large models on many devices"
SETTINGS: dict[str, Any] = {
    "extensions": ["myst_nb"],
    "html_theme": "furo",
    "html_static_path": [str(STATIC)],
    "html_css_files": ["book.css"],
    "html_js_files": [("book.js", {"defer": "defer"})],
    "html_copy_source": False,
    "html_use_index": False,
    "html_show_sphinx": False,
    "html_show_copyright": False,
    "nb_execution_mode": "off",
    "nb_merge_streams": True,
    "nb_render_markdown_format": "commonmark",
    "myst_heading_anchors": 3,
    "pygments_style": "tango",
    "pygments_dark_style": "github-dark",
}


@dataclass
class Book:
    """What was made: which lessons have results, and which do not."""

    folder: Path
    ran: list[str] = field(default_factory=list)
    unrun: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        lines = [f"{len(self.ran) + len(self.unrun)} lessons, {len(self.ran)} with their results"]
        if self.unrun:
            lines.append(f"without results, as they were not run: {', '.join(self.unrun)}")
        return "\n".join([*lines, *self.warnings, f"open {self.folder / 'index.html'}"])


@dataclass(frozen=True)
class Text:
    """The course in one language."""

    language: str
    lessons: list[Lesson]
    told: contents.Contents
    pictures: dict[str, str]
    """By their names, those that are other ones in this language."""


def text_in(language: str, clone: Path) -> Text:
    lessons = [read_lesson(path) for path in lessons_in(clone / "lessons", "py")]
    names, pictures = [lesson.name for lesson in lessons], {}
    if language == ENGLISH:
        readme = (clone / "README.md").read_text(encoding="utf-8")
    else:
        pictures = localized_pictures(clone, language)
        lessons = localized_lessons(lessons, clone, language, pictures)
        readme = localized_readme(clone, language)
    return Text(language, lessons, contents.read(readme, names, language), pictures)


def write(
    workspace: Path | None,
    out: Path,
    links: Links,
    clone: Path = CLONE,
    language: str = ENGLISH,
) -> Book:
    """The book in `out`, with the results of what was run in `workspace`; one that is there is
    replaced."""
    refuse_others(out)
    if missing := [name for name in NEEDED if find_spec(name) is None]:
        raise LabError(f"not installed: {', '.join(missing)}; `make book` installs them")
    text, book = text_in(language, clone), Book(out)
    pages = {each.name: _page(each, workspace, links, book, language) for each in text.lessons}
    workshop = out.with_name(f".{out.name}.unfinished")  # beside it, to be renamed
    shutil.rmtree(workshop, ignore_errors=True)
    source, made = workshop / "pages", workshop / "made"
    try:
        _write_source(source, pages, text, clone)
        book.warnings += _sphinx(source, made)
        _offer_notebooks(made / "notebooks", text.lessons)
        (made / MARK).touch()
        shutil.rmtree(out, ignore_errors=True)
        made.rename(out)
    finally:
        shutil.rmtree(workshop, ignore_errors=True)
    return book


def refuse_others(out: Path, mark: str = MARK, what: str = "book") -> None:
    """Only a book is replaced by a book."""
    is_free = not out.exists() or (out.is_dir() and not any(out.iterdir()))
    if not is_free and not (out / mark).is_file():
        raise LabError(
            f"{out} is there and no {what} of the course; name another folder with --out"
        )


def _page(lesson: Lesson, workspace: Path | None, links: Links, book: Book, language: str) -> str:
    ran = executed(lesson, workspace, language)
    (book.unrun if ran is None else book.ran).append(lesson.name)
    folders = paths.folders(workspace) if workspace else {}
    return str(nbformat.writes(make(lesson, ran, links, folders, language)))


def executed(lesson: Lesson, workspace: Path | None, language: str = ENGLISH) -> Any | None:
    """The notebook as `course run` left it; None where it did not run there."""
    file = executed_in(workspace or Path(), language) / f"{lesson.name}.ipynb"
    if not workspace or not file.is_file():
        return None
    try:
        return nbformat.read(file, as_version=4)
    except Exception as error:  # every way in which a file is no notebook
        raise LabError(f"{file} is no notebook that can be read: {error}") from error


def _write_source(source: Path, pages: dict[str, str], text: Text, clone: Path) -> None:
    told = text.told
    source.mkdir(parents=True)
    for name, page in pages.items():
        (source / f"{name}.ipynb").write_text(page, encoding="utf-8")
    shutil.copytree(clone / "images", source / "images", ignore=shutil.ignore_patterns("*.py"))
    for name, picture in text.pictures.items():
        (source / "images" / name).write_text(picture, encoding="utf-8")
    trees = [_toctree(part.title, part.lessons) for part in told.parts]
    trees.insert(0, _toctree("", ("start",)))
    (source / "index.md").write_text("\n".join([told.front, *trees]), encoding="utf-8")
    (source / "start.md").write_text(told.start, encoding="utf-8")
    own = {"project": told.title, "html_title": told.title, "language": text.language}
    settings = [f"{name} = {value!r}\n" for name, value in {**SETTINGS, **own}.items()]
    (source / "conf.py").write_text("".join(settings), encoding="utf-8")


def _toctree(caption: str, names: tuple[str, ...]) -> str:
    title = [f":caption: {caption}"] if caption else []
    return "\n".join(["```{toctree}", ":hidden:", *title, "", *names, "```", ""])


def _sphinx(source: Path, out: Path) -> list[str]:
    """Its warnings, each a line."""
    import io

    from sphinx.application import Sphinx
    from sphinx.util.docutils import docutils_namespace

    warnings = io.StringIO()
    with docutils_namespace():
        app = Sphinx(
            str(source), str(source), str(out), str(source / ".doctrees"), "html",
            status=None, warning=warnings,
        )  # fmt: skip
        app.build()
    for name in (".buildinfo", "objects.inv"):
        (out / name).unlink(missing_ok=True)
    text = ANSI_COLOUR.sub("", warnings.getvalue()).replace(f"{source}/", "")
    return [line for line in text.splitlines() if line]


def _offer_notebooks(folder: Path, lessons: list[Lesson]) -> None:
    folder.mkdir()
    for lesson in lessons:
        text = build_text(lesson, with_answers=False)
        (folder / f"{lesson.name}.ipynb").write_text(text, encoding="utf-8")
