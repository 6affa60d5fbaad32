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
from course_lib.teach.book import contents
from course_lib.teach.book.contents import Part
from course_lib.teach.book.page import Shown
from course_lib.teach.book.site import CLONE, TITLE, executed, refuse_others
from course_lib.teach.slides import deck, faces, pages, pdf, timetable
from course_lib.teach.slides.slide import Sentences, Slide
from course_lib.teach.source import Lesson, LessonError, lessons_in, number_of, read_lesson

MARK = ".course-slides"
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
) -> Decks:
    """One deck a part in `out`; slides that are there are replaced."""
    refuse_others(out, MARK, "slides")
    if not (reveal / "dist" / "reveal.js").is_file():
        raise LabError("reveal.js is not installed; `make slides` does it (once, with npm)")
    lessons = {path.stem: read_lesson(path) for path in lessons_in(clone / "lessons", "py")}
    readme = (clone / "README.md").read_text(encoding="utf-8")
    parts = contents.read(readme, list(lessons)).parts
    sentences = read_sentences(clone / "lessons" / SENTENCES, lessons)
    done, workshop = Decks(out), out.with_name(f".{out.name}.unfinished")
    shutil.rmtree(workshop, ignore_errors=True)
    workshop.mkdir(parents=True)
    try:
        for number, part in enumerate(parts, start=1):
            told = [lessons[name] for name in part.lessons]
            _deck(f"part{number}", part, told, sentences, workspace, workshop, done)
        _beside(workshop, clone, reveal)
        done.printed = list(pdf.print_all(workshop)) if with_pdf else []
        plans = timetable.read(clone / "lessons", lessons.values())
        made = pages.index(parts, lessons, done.slides, plans, workshop)
        (workshop / "index.html").write_text(made, encoding="utf-8")
        (workshop / MARK).touch()
        shutil.rmtree(out, ignore_errors=True)
        workshop.rename(out)
    finally:
        shutil.rmtree(workshop, ignore_errors=True)
    return done


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


def _deck(
    name: str,
    part: Part,
    lessons: list[Lesson],
    sentences: Mapping[str, Sentences],
    workspace: Path | None,
    folder: Path,
    done: Decks,
) -> None:
    rows = [[lesson.title, f"{timetable.minutes_of(lesson)} min"] for lesson in lessons]
    body = faces.plain_table(rows)
    told = [pages.section(Slide("part", "part", part.title, body), TITLE, "")]
    for lesson in lessons:
        ran = executed(lesson, workspace)
        shown = Shown(ran, paths.folders(workspace) if workspace else {})
        slides = deck.slides_of(lesson, shown, sentences.get(lesson.name, {}))
        if ran is None:
            done.unrun.append(lesson.name)
        done.changed += len(shown.changed)
        told += [pages.of_lesson(slide, lesson, shown) for slide in slides]
    text = pages.page(f"{part.title} · {TITLE}", told)
    (folder / f"{name}.html").write_text(text, encoding="utf-8")
    done.slides[f"{name}.html"] = len(told)


def _beside(folder: Path, clone: Path, reveal: Path) -> None:
    for source, name in OF_REVEAL.items():
        (folder / "reveal").mkdir(exist_ok=True)
        shutil.copyfile(reveal / source, folder / "reveal" / name)
    for file in STATIC.iterdir():
        shutil.copyfile(file, folder / file.name)
    texts = [file.read_text(encoding="utf-8") for file in folder.glob("*.html")]
    (folder / "images").mkdir()
    for name in {name for text in texts for name in IMAGE.findall(text)}:
        shutil.copyfile(clone / "images" / name, folder / "images" / name)
