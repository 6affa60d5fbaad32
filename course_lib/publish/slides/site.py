"""`course slides`: a folder with a page per part, reveal.js, and a PDF of each page."""

from __future__ import annotations

import re
import shutil
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from course_lib.lab.errors import LabError
from course_lib.publish.book.command import pages_parser, tell_broken_links, workspace_of
from course_lib.publish.book.contents import Part
from course_lib.publish.book.page import Shown
from course_lib.publish.book.site import CLONE, Text, executed, replacement, text_in
from course_lib.publish.building.source import Lesson, LessonError, number_of
from course_lib.publish.slides import deck, pages, pdf, slide_html, timetable
from course_lib.publish.slides.slide import Sentences, Slide, minutes_of
from course_lib.publish.translation.catalogs import folder_of
from course_lib.publish.translation.localized import localized_sentences, of_plans
from course_lib.words import ENGLISH, speaking

OUT = Path("build") / "slides"
MARK = ".course-slides"
# A language may have its own file, which is appended.
STYLE = "slides.css"
STATIC = CLONE / "deploy" / "slides" / "static"
REVEAL = CLONE / ".venv" / "share" / "course" / "slides" / "node_modules" / "reveal.js"
OF_REVEAL = {
    "dist/reveal.js": "reveal.js",
    "dist/reveal.css": "reveal.css",
    "dist/plugin/notes.js": "notes.js",
    "LICENSE": "LICENSE",
}
SENTENCES = "slides.toml"
IMAGE = re.compile(r'src="images/([\w-]+\.\w+)"')


@dataclass
class Decks:
    """Result of building the slides."""

    folder: Path
    # Number of slides, by the deck's file name.
    slides: dict[str, int] = field(default_factory=dict)
    unrun: list[str] = field(default_factory=list)
    changed: int = 0
    # One line for each PDF.
    printed: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        lines = [f"{name}: {count} slides" for name, count in self.slides.items()]
        if self.unrun:
            lines.append(f"without results, as they were not run: {', '.join(self.unrun)}")
        if self.changed:
            lines.append(f"{self.changed} cells have changed since the run and show no results")
        return "\n".join([*lines, *self.printed, f"open {self.folder / 'index.html'}"])


def write(
    workspace: Path | None,
    out: Path,
    *,
    with_pdf: bool = False,
    clone: Path = CLONE,
    reveal: Path = REVEAL,
    language: str = ENGLISH,
) -> Decks:
    """Write one deck per part to `out`. Replace existing slides."""
    decks = Decks(out)
    with replacement(out, MARK, "slides") as folder, speaking(language):
        if not (reveal / "dist" / "reveal.js").is_file():
            raise LabError("reveal.js is not installed; `make slides` does it (once, with npm)")
        text = text_in(language, clone)
        lessons = {lesson.name: lesson for lesson in text.lessons}
        english = read_sentences(clone / "lessons" / SENTENCES, lessons)
        sentences = localized_sentences(english, clone, language)
        for number, part in enumerate(text.told.parts, start=1):
            made = list(_sections(part, text, workspace, sentences, decks))
            page = pages.page(f"{part.title} · {text.told.title}", made)
            (folder / f"part{number}.html").write_text(page, encoding="utf-8")
            decks.slides[f"part{number}.html"] = len(made)
        _put_beside(folder, text, clone, reveal)
        decks.printed = list(pdf.print_all(folder)) if with_pdf else []
        plans = timetable.read(clone / "lessons", text.lessons, of_plans(clone, language))
        index = pages.index(text.told, lessons, decks.slides, plans, folder)
        (folder / "index.html").write_text(index, encoding="utf-8")
    return decks


def _sections(
    part: Part, text: Text, workspace: Path | None, sentences: Mapping[str, Sentences], decks: Decks
) -> Iterator[str]:
    """Yield the slides of a deck as HTML. The first one lists its lessons."""
    lessons = [lesson for lesson in text.lessons if lesson.name in part.lessons]
    body = slide_html.plain_table([[each.title, f"{minutes_of(each)} min"] for each in lessons])
    yield pages.section(Slide("part", "part", part.title, body), text.told.title, "")
    for lesson in lessons:
        ran = executed(lesson, workspace, text.language)
        shown = Shown(ran)
        slides = deck.slides_of(lesson, shown, sentences.get(lesson.name, {}))
        if ran is None:
            decks.unrun.append(lesson.name)
        decks.changed += len(shown.changed)
        yield from (pages.of_lesson(slide, lesson, shown) for slide in slides)


def _put_beside(folder: Path, text: Text, clone: Path, reveal: Path) -> None:
    """Copy reveal.js, the style sheets, and the pictures that the slides show."""
    (folder / "reveal").mkdir()
    for source, name in OF_REVEAL.items():
        shutil.copyfile(reveal / source, folder / "reveal" / name)
    for file in STATIC.iterdir():
        shutil.copyfile(file, folder / file.name)
    own = folder_of(clone, text.language) / STYLE
    if own.is_file():
        with (folder / STYLE).open("a", encoding="utf-8") as style:
            style.write(own.read_text(encoding="utf-8"))
    (folder / "images").mkdir()
    decks = [file.read_text(encoding="utf-8") for file in folder.glob("*.html")]
    for name in {name for page in decks for name in IMAGE.findall(page)}:
        if own_picture := text.pictures.get(name):
            (folder / "images" / name).write_text(own_picture, encoding="utf-8")
        else:
            shutil.copyfile(clone / "images" / name, folder / "images" / name)


def read_sentences(file: Path, lessons: Mapping[str, Lesson]) -> dict[str, Sentences]:
    """Read the sentences by lesson name. Refuse a sentence for a cell that does not exist."""
    told = tomllib.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    names = {number_of(lesson.path): name for name, lesson in lessons.items()}
    if unknown := sorted(set(told) - set(names)):
        raise LessonError(f"{file.name}: no lesson has the number {', '.join(unknown)}")
    for number, sentences in told.items():
        known = {cell.id for cell in lessons[names[number]].cells} | {"recap", "terms"}
        wrong = [name for name in sentences if re.sub(r"(-\d+|[?+])$", "", name) not in known]
        if wrong := [name for name in wrong if name not in known]:
            raise LessonError(f"{file.name}: lesson {number} has no cell {', '.join(wrong)}")
    return {names[number]: sentences for number, sentences in told.items()}


def main(argv: list[str] | None = None) -> int:
    parser = pages_parser("slides", "Writes a deck of slides for each part", OUT)
    parser.add_argument("--no-pdf", action="store_true", help="write only the web pages, no PDF")
    options = parser.parse_args(argv)
    workspace, out = workspace_of(options), options.out.resolve()
    decks = write(workspace, out, with_pdf=not options.no_pdf, language=options.language)
    print(decks)
    return int(tell_broken_links(decks.folder))
