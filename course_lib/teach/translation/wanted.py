"""What is to be translated: of each catalog, its messages in the order in which they are met."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from typing import Any

from course_lib.teach.building.gaps import with_gaps
from course_lib.teach.building.source import Lesson, lessons_in, number_of, read_lesson
from course_lib.teach.slides.marks import guesses_in
from course_lib.teach.translation.sentences import sentences_in

PICTURES = "images"
"""Name of the catalog of what stands in the pictures; the context tells in which."""
SVG_TEXT = re.compile(r"(?P<begin><(?P<tag>text|title)\b(?P<attributes>[^>]*)>)(?P<words>[^<]*)")
WORDS = re.compile(r"[^\W\d_]{2}")
SECTION = re.compile(r"^(?=## )", re.MULTILINE)
LIBRARY = "course"
"""Name of the catalog of what belongs to no lesson."""
SLIDES = "slides"
"""Name of that of the slides: their sentences and plans by context, what all slides say without."""
README = "readme"
"""Name of that of the README, whose sections are the first pages of the book."""
OF_THE_LIBRARY = (
    "teach/*.py", "teach/quantities/*.py", "teach/trials/**/*.py", "teach/orders/*.py",
    "teach/challenge/*.py", "teach/book/origin.py", "teach/book/page.py",
    "teach/classroom/folder.py", "teach/classroom/sharing.py", "teach/classroom/pulse.py",
    "teach/checks/common.py", "teach/diagnoses/*.py",
    "mistakes/*.py", "lab/**/*.py", "show/**/*.py", "plan/**/*.py", "read/first_causes/**/*.py",
    "read/files.py", "read/lines.py", "read/measurements/*.py", "read/memory_traces/*.py",
    "read/nccl_logs/result.py", "read/profiler_traces/re*.py",
    "read/rank_files/*.py", "read/slurm_output/result.py", "read/training_logs/result.py",
    "cli.py",
)  # fmt: skip
BUILDERS_OWN = {"run.py", "nbval_checks.py", "lessons.py", "kept_lines.py"}
"""What writes and tests lessons speaks to who does that, in English."""
OF_PROGRAMS = {
    "teach/trials/job/false_cluster.py", "teach/trials/job/false_commands.py",
    "lab/runs/step_beside.py", "show/__init__.py", "plan/__init__.py",
    "plan/simulated_nccl/lines.py", "plan/simulated_nccl/wording.py",
    "read/first_causes/candidate_lines.py", "read/first_causes/doubts.py",
}  # fmt: skip
"""Names, and the words of other programs: the same in every language."""
OF_THE_SLIDES = "teach/slides/*.py"
TO_WHO_BUILDS = {"command.py", "site.py", "pdf.py", "browser.py", "timetable.py"}
TITLED = "lab/job/sites/*.toml"
"""Whose titles are told."""
MAGIC = re.compile(r"^\s*[!%].*$", re.MULTILINE)


@dataclass(frozen=True)
class Wanted:
    """One message. `cell`: the id of a cell of prose, empty for a sentence."""

    english: str
    cell: str
    place: str


def of_lesson(lesson: Lesson, repository: Path) -> list[Wanted]:
    place = str(lesson.path.relative_to(repository))
    found = [Wanted(cell.text, cell.id, place) for cell in lesson.cells if cell.kind == "markdown"]
    said: dict[str, str] = {}
    for cell in lesson.cells:
        if cell.kind == "code" and not cell.text.startswith("%%"):
            for text in sentences_in(_python(cell.text)):
                said.setdefault(text, place)
    for path in sorted((repository / "course_lib/teach/checks").glob(_checks_of(lesson))):
        for text in sentences_in(path.read_text(encoding="utf-8")):
            said.setdefault(text, str(path.relative_to(repository)))
    return [*found, *(Wanted(text, "", where) for text, where in said.items())]


def _checks_of(lesson: Lesson) -> str:
    """`lesson14.py` and `lesson14_repaired.py` for 14, not `lesson14b.py`."""
    return f"lesson{number_of(lesson.path)}[._]*"


def _python(text: str) -> str:
    return MAGIC.sub("", text)


def of_library(repository: Path) -> list[Wanted]:
    room = repository / "course_lib"
    said: dict[str, str] = {}
    for pattern in OF_THE_LIBRARY:
        for path in sorted(room.glob(pattern)):
            if path.name in BUILDERS_OWN or str(path.relative_to(room)) in OF_PROGRAMS:
                continue
            for text in sentences_in(path.read_text(encoding="utf-8")):
                said.setdefault(text, str(path.relative_to(repository)))
    for path in sorted(room.glob(TITLED)):
        title = tomllib.loads(path.read_text(encoding="utf-8")).get("title", "")
        said.setdefault(title, str(path.relative_to(repository)))
    return [Wanted(text, "", where) for text, where in said.items() if text]


def of_pictures(repository: Path) -> list[Wanted]:
    """Code, in a monospaced font, is the same in every language."""
    found: dict[str, Wanted] = {}
    for path in sorted((repository / "images").glob("*.svg")):
        for one in SVG_TEXT.finditer(path.read_text(encoding="utf-8")):
            words = unescape(one["words"])
            if "monospace" not in one["attributes"] and WORDS.search(words):
                at = f"{path.name}: {words}"
                found.setdefault(at, Wanted(words, at, f"images/{path.name}"))
    return list(found.values())


def sections(readme: str) -> list[str]:
    """What comes before the first heading of a section, and each section with its own."""
    return [section.rstrip() for section in SECTION.split(readme)]


def of_readme(repository: Path) -> list[Wanted]:
    """Each section by itself, named by its heading."""
    file = repository / "README.md"
    texts = sections(file.read_text(encoding="utf-8")) if file.is_file() else []
    return [Wanted(text, _slug(text.partition("\n")[0]), "README.md") for text in texts]


def _slug(heading: str) -> str:
    return "-".join(re.findall(r"\w+", heading.lower()))


def of_slides(repository: Path, lessons: list[Lesson]) -> list[Wanted]:
    """Sentences by lesson and cell; guesses and words of plans by themselves, each once."""
    found = [*_of_sentences(repository), *_of_plans(repository)]
    for lesson in lessons:
        asking = [cell for cell in lesson.cells if "exercise" not in cell.tags]
        place = str(lesson.path.relative_to(repository))
        gaps = (with_gaps(cell.text, place) for cell in asking if cell.kind == "code")
        found += [
            Wanted(words, guess_of(words), place) for gap in gaps for words in guesses_in(gap)
        ]
    for path in sorted((repository / "course_lib").glob(OF_THE_SLIDES)):
        if path.name not in TO_WHO_BUILDS:
            place = str(path.relative_to(repository))
            texts = sentences_in(path.read_text(encoding="utf-8"))
            found += [Wanted(text, "", place) for text in texts]
    return list({(one.cell, one.english): one for one in reversed(found)}.values())[::-1]


def _of_sentences(repository: Path) -> Iterator[Wanted]:
    for number, told in _table(repository, "slides.toml").items():
        for cell, said in told.items():
            text = said.get("title", "") if isinstance(said, dict) else said
            text = ", ".join(text) if isinstance(text, list) else text
            if text:
                yield Wanted(text, at_slide(number, cell), "lessons/slides.toml")


def _of_plans(repository: Path) -> Iterator[Wanted]:
    for plan in _table(repository, "timetables.toml").get("timetable", []):
        others = (item for day in plan["days"] for item in day["plan"] if " " in item)
        for words in (plan["name"], plan["words"], *(item.partition(" ")[2] for item in others)):
            yield Wanted(words, plan_of(words), "lessons/timetables.toml")


def _table(repository: Path, name: str) -> dict[str, Any]:
    file = repository / "lessons" / name
    return tomllib.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}


def at_slide(number: str, cell: str) -> str:
    return f"{number} {cell}"


def guess_of(words: str) -> str:
    return f"guess: {words}"


def plan_of(words: str) -> str:
    return f"timetable: {words}"


def everything(repository: Path) -> dict[str, list[Wanted]]:
    """Of each catalog, by its name: that of a lesson, README, LIBRARY, SLIDES or PICTURES."""
    lessons = [read_lesson(path) for path in lessons_in(repository / "lessons", "py")]
    library = of_library(repository)
    known = {wanted.english for wanted in library}
    slides = [one for one in of_slides(repository, lessons) if one.cell or one.english not in known]
    found = {
        lesson.name: [
            wanted
            for wanted in of_lesson(lesson, repository)
            if wanted.cell or wanted.english not in known
        ]
        for lesson in lessons
    }
    others = {README: of_readme(repository), SLIDES: slides, PICTURES: of_pictures(repository)}
    return {**found, LIBRARY: library, **{name: there for name, there in others.items() if there}}
