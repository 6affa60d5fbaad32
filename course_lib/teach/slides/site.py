"""The folder of slides: a page for each part, reveal.js beside them, a PDF of each."""

from __future__ import annotations

import re
import shutil
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from course_lib.lab.errors import LabError
from course_lib.lab.recorded import paths
from course_lib.teach.book.contents import Part
from course_lib.teach.book.page import Shown
from course_lib.teach.book.site import CLONE, Text, executed, refuse_others, text_in
from course_lib.teach.building.source import Lesson, LessonError, number_of
from course_lib.teach.slides import deck, faces, pages, pdf, timetable
from course_lib.teach.slides.slide import Sentences, Slide
from course_lib.teach.translation.catalogs import folder_of
from course_lib.teach.translation.localized import localized_sentences, of_plans
from course_lib.words import ENGLISH, speaking, told

MARK = ".course-slides"
STYLE = "slides.css"
"""A language may have one of its own, which is added."""
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
    """What was made."""

    folder: Path
    slides: dict[str, int] = field(default_factory=dict)
    """Of each deck, by the name of its file."""
    unrun: list[str] = field(default_factory=list)
    changed: int = 0
    printed: list[str] = field(default_factory=list)
    """What became of each PDF."""

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
    """One deck a part in `out`; slides that are there are replaced."""
    refuse_others(out, MARK, "slides")
    if not (reveal / "dist" / "reveal.js").is_file():
        raise LabError("reveal.js is not installed; `make slides` does it (once, with npm)")
    workshop = out.with_name(f".{out.name}.unfinished")
    shutil.rmtree(workshop, ignore_errors=True)
    workshop.mkdir(parents=True)
    try:
        with speaking(language):
            maker = Maker(text_in(language, clone), workspace, clone, workshop, Decks(out))
            maker.decks(read_sentences(clone / "lessons" / SENTENCES, maker.lessons))
            maker.put_beside(reveal)
            maker.done.printed = list(pdf.print_all(workshop)) if with_pdf else []
            maker.index()
        (workshop / MARK).touch()
        shutil.rmtree(out, ignore_errors=True)
        workshop.rename(out)
    finally:
        shutil.rmtree(workshop, ignore_errors=True)
    return maker.done


def read_sentences(file: Path, lessons: Mapping[str, Lesson]) -> dict[str, Sentences]:
    """By the name of the lesson. One for a cell that is not there would vanish unseen."""
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


@dataclass
class Maker:
    """Writes all pages of one language into one folder."""

    text: Text
    workspace: Path | None
    clone: Path
    folder: Path
    done: Decks

    @property
    def lessons(self) -> dict[str, Lesson]:
        return {lesson.name: lesson for lesson in self.text.lessons}

    def decks(self, sentences: Mapping[str, Sentences]) -> None:
        said = localized_sentences(sentences, self.clone, self.text.language)
        for number, part in enumerate(self.text.told.parts, start=1):
            self._deck(f"part{number}.html", part, said)

    def _deck(self, name: str, part: Part, sentences: Mapping[str, Sentences]) -> None:
        title, lessons = self.text.told.title, [self.lessons[each] for each in part.lessons]
        rows = [[each.title, told(f"{timetable.minutes_of(each)} min")] for each in lessons]
        body = faces.plain_table(rows)
        made = [pages.section(Slide("part", "part", part.title, body), title, "")]
        for lesson in lessons:
            ran = executed(lesson, self.workspace, self.text.language)
            shown = Shown(ran, paths.folders(self.workspace) if self.workspace else {})
            slides = deck.slides_of(lesson, shown, sentences.get(lesson.name, {}))
            if ran is None:
                self.done.unrun.append(lesson.name)
            self.done.changed += len(shown.changed)
            made += [pages.of_lesson(slide, lesson, shown) for slide in slides]
        text = pages.page(f"{part.title} · {title}", made)
        (self.folder / name).write_text(text, encoding="utf-8")
        self.done.slides[name] = len(made)

    def put_beside(self, reveal: Path) -> None:
        for source, name in OF_REVEAL.items():
            (self.folder / "reveal").mkdir(exist_ok=True)
            shutil.copyfile(reveal / source, self.folder / "reveal" / name)
        for file in STATIC.iterdir():
            shutil.copyfile(file, self.folder / file.name)
        own = folder_of(self.clone, self.text.language) / STYLE
        if own.is_file():
            with (self.folder / STYLE).open("a", encoding="utf-8") as style:
                style.write(own.read_text(encoding="utf-8"))
        self._pictures()

    def _pictures(self) -> None:
        texts = [file.read_text(encoding="utf-8") for file in self.folder.glob("*.html")]
        (self.folder / "images").mkdir()
        for name in {name for text in texts for name in IMAGE.findall(text)}:
            file = self.folder / "images" / name
            if own := self.text.pictures.get(name):
                file.write_text(own, encoding="utf-8")
            else:
                shutil.copyfile(self.clone / "images" / name, file)

    def index(self) -> None:
        say = of_plans(self.clone, self.text.language)
        plans = timetable.read(self.clone / "lessons", self.lessons.values(), say)
        made = pages.index(self.text.told, self.lessons, self.done.slides, plans, self.folder)
        (self.folder / "index.html").write_text(made, encoding="utf-8")
