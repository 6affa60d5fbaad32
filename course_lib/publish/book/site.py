"""Build the book with Sphinx. Its pages load nothing from the web."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import nbformat

from course_lib.lab.errors import LabError
from course_lib.lab.job.script import CODE_STYLE
from course_lib.lab.workspace import PACKAGE
from course_lib.publish.book import contents
from course_lib.publish.book.page import make
from course_lib.publish.building.build import build_text
from course_lib.publish.building.source import Lesson, lessons_in, read_lesson
from course_lib.publish.executed import executed_in
from course_lib.publish.run import ANSI_COLOUR
from course_lib.publish.translation.localized import localized_lessons, localized_readme
from course_lib.publish.translation.pictures import localized_pictures
from course_lib.words import ENGLISH, speaking

CLONE = PACKAGE.parent
STATIC = CLONE / "deploy" / "book" / "static"
# Marker file of a folder that a later build may replace.
MARK = ".course-book"
NEEDED = ("sphinx", "myst_nb", "furo")
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
    "pygments_style": CODE_STYLE,
    "pygments_dark_style": "github-dark",
}


@dataclass
class Book:
    """Result of building a book: lessons with and without results."""

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
    # Pictures that differ in this language, by name.
    pictures: dict[str, str]


def text_in(language: str, clone: Path) -> Text:
    lessons = [read_lesson(path) for path in lessons_in(clone / "lessons", "py")]
    names, pictures = [lesson.name for lesson in lessons], {}
    if language == ENGLISH:
        readme = (clone / "README.md").read_text(encoding="utf-8")
    else:
        pictures = localized_pictures(clone, language)
        lessons = localized_lessons(lessons, clone, language, pictures)
        readme = localized_readme(clone, language)
    with speaking(language):
        told = contents.read(readme, names)
    return Text(language, lessons, told, pictures)


def write(
    workspace: Path | None,
    out: Path,
    open_at: str = "",
    clone: Path = CLONE,
    language: str = ENGLISH,
) -> Book:
    """Write the book to `out`, with results from `workspace`. Replace an existing book."""
    if missing := [name for name in NEEDED if find_spec(name) is None]:
        raise LabError(f"not installed: {', '.join(missing)}; `make book` installs them")
    book = Book(out)
    with replacement(out, MARK, "book") as made:
        text, work = text_in(language, clone), made / "work"
        source, pages_out = work / "pages", work / "html"  # myst-nb writes beside its output
        pages = {
            each.name: _page(each, workspace, open_at, book, language) for each in text.lessons
        }
        _write_source(source, pages, text, clone)
        book.warnings += _sphinx(source, pages_out)
        for path in pages_out.iterdir():
            path.rename(made / path.name)
        shutil.rmtree(work)
        _offer_notebooks(made / "notebooks", text.lessons)
    return book


@contextmanager
def replacement(out: Path, mark: str, what: str) -> Iterator[Path]:
    """Provide a new folder, which replaces `out` if no error occurs.

    `out` has to be missing, empty or marked as an earlier result.
    """
    is_free = not out.exists() or (out.is_dir() and not any(out.iterdir()))
    if not is_free and not (out / mark).is_file():
        raise LabError(
            f"{out} is there and no {what} of the course; name another folder with --out"
        )
    made = out.with_name(f".{out.name}.unfinished")
    shutil.rmtree(made, ignore_errors=True)
    made.mkdir(parents=True)
    try:
        yield made
        (made / mark).touch()
        shutil.rmtree(out, ignore_errors=True)
        made.rename(out)
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _page(lesson: Lesson, workspace: Path | None, open_at: str, book: Book, language: str) -> str:
    ran = executed(lesson, workspace, language)
    (book.unrun if ran is None else book.ran).append(lesson.name)
    return str(nbformat.writes(make(lesson, ran, open_at, language)))


def executed(lesson: Lesson, workspace: Path | None, language: str = ENGLISH) -> Any | None:
    """Return the notebook that `course run` wrote; None if the lesson was not run there."""
    file = executed_in(workspace or Path(), language) / f"{lesson.name}.ipynb"
    if not workspace or not file.is_file():
        return None
    try:
        return nbformat.read(file, as_version=4)
    except Exception as error:  # reading a broken file raises many kinds of errors
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
    """Run Sphinx and return its warnings, one per line."""
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
