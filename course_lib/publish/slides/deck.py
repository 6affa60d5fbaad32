"""Choose a lesson's slides and the presenter's notes for each.

Pictures, moving diagrams, questions (`**Predict.**`), claims, exercises, and everything with a
sentence in `lessons/slides.toml` become slides. A slide without a sentence gets the title of its
section. The prose around a slide becomes its notes.
"""

from __future__ import annotations

from dataclasses import replace
from textwrap import indent
from typing import Any

from course_lib.publish.book.page import Shown, as_source
from course_lib.publish.building.gaps import answered, with_gaps
from course_lib.publish.building.source import Cell, Lesson
from course_lib.publish.slides import cells, prose, results, slide_html
from course_lib.publish.slides.marks import guesses_in, marks
from course_lib.publish.slides.prose import Block
from course_lib.publish.slides.results import Measured
from course_lib.publish.slides.slide import Sentences, Slide, Titles, head_of
from course_lib.words import _

MOST_STRIP, MOST_GAP_LINES = 3, 14
OUT_OF_SLIDES = {"check", "solution"}
SHOWN = ("list", "table", "code")


def slides_of(lesson: Lesson, shown: Shown, sentences: Sentences) -> list[Slide]:
    teller = Teller(lesson, shown, sentences)
    for cell in lesson.cells:
        teller.take(cell)
    return teller.done()


class Teller:
    """Builder that goes through a lesson from top to bottom."""

    def __init__(self, lesson: Lesson, shown: Shown, sentences: Sentences):
        self.lesson, self.shown, self.titles = lesson, shown, Titles(sentences)
        self.slides: list[Slide] = []
        self.measured: list[Measured] = []
        self.exercises: list[tuple[str, str]] = []
        self.section, self.is_over = "", False
        # Prose before the next slide.
        self._ahead: list[str] = []
        self._has_slide = False

    def take(self, cell: Cell) -> None:
        if cell is self.lesson.cells[0]:
            words = [block.text for block in prose.blocks(cell.text) if block.kind == "words"]
            body = slide_html.lesson_title(head_of(self.lesson))
            self._add(Slide("title", "lesson", self.lesson.title, body, words))
        elif cell.kind == "code":
            self._code(cell)
        elif "solution" in cell.tags:
            self._say(f"**{_('Answer')}.** {cell.text}")
        else:
            self._markdown(cell)

    def done(self) -> list[Slide]:
        self.section = ""
        title = _("Lesson {number}: measured, named, to do", number=self._number)
        terms = self.titles.sentences.get("terms", ())
        body = slide_html.recap(self.measured, terms, self.exercises)
        notes = [slide_html.claims_in_words(self.measured)] if self.measured else []
        self._add(Slide("recap", "recap", self.titles.of("recap") or title, body, notes))
        for slide in self.slides:
            slide.notes = slide.notes or [slide.in_words]
        return self.slides

    def _markdown(self, cell: Cell) -> None:
        found = prose.blocks(cell.text)
        if self.titles.of(f"{cell.id}+"):
            self._statement(f"{cell.id}+", [each for each in found if each.kind in SHOWN])
        question: Slide | None = None
        for block in found:
            question = self._block(cell, block, question)
        if self.titles.of(cell.id) and not any(slide.id == cell.id for slide in self.slides):
            self._statement(cell.id, found)

    def _block(self, cell: Cell, block: Block, question: Slide | None) -> Slide | None:
        if block.kind == "heading":
            if block.text.startswith(("# ", "## ")):
                self.section = block.text.lstrip("# ")
            self.is_over = self.section == marks().end
            self._has_slide = False
        elif block.kind == "image":
            self._picture(cell, block)
        elif block.kind == "predict":
            return self._question(cell, block)
        elif block.kind == "quote" and marks().exercise.search(block.text):
            self._exercise(cell, block)
        elif self.section == marks().home and block.kind == "list":
            default = _("What to take home from {number}", number=self._number)
            title = self.titles.of(cell.id) or default
            self._add(Slide(cell.id, "home", title, prose.html(block.text)))
        elif question and block.kind in SHOWN:
            question.body += f'<div class="of-question">{prose.html(block.text)}</div>'
            return question
        elif block.text.endswith(":") or not self._has_slide:
            self._ahead.append(block.text)
        else:
            self._say(block.text)
        return question

    def _statement(self, identifier: str, found: list[Block]) -> None:
        """Add a slide with a list, table or code, or with the first sentences in large type."""
        shown = [block.text for block in found if block.kind in SHOWN]
        words = [block.text for block in found if block.kind == "words"]
        body = "".join(map(prose.html, shown)) or slide_html.statement(words)
        self._add(Slide(identifier, "statement", self.titles.of(identifier), body))

    def _picture(self, cell: Cell, block: Block) -> None:
        found = prose.IMAGE.match(" ".join(block.text.split()))
        assert found
        kind, body = "figure", slide_html.picture(f"images/{found['name']}", found["alt"])
        if call := (self.titles.wishes(cell.id) or {}).get("moving"):
            kind, story = "moving", results.stories(f"show.moving.{call}")[0]
            body = slide_html.moving(results.frames(story))
        alt = prose.as_html(found["alt"])
        self._add(Slide(cell.id, kind, self.titles.of(cell.id), body, in_words=alt))

    def _question(self, cell: Cell, block: Block) -> Slide:
        asked, others = prose.question(block)
        title = self.titles.of(f"{cell.id}?") or asked
        slide = Slide(cell.id, "question", title, slide_html.question(others))
        self._add(slide)
        slide.notes.append(block.text)
        return slide

    def _exercise(self, cell: Cell, block: Block) -> None:
        number, rest = prose.exercise(block)
        if number:
            self.exercises.append((number, rest))
        title = _("Exercise {number}", number=number) if number else _("Going further")
        self._add(Slide(cell.id, "exercise", title, prose.html(rest)))

    def _code(self, cell: Cell) -> None:
        where = f"{self.lesson.path}:{cell.line}"
        source, gaps = (as_source(way(cell.text, where)) for way in (answered, with_gaps))
        outputs = self.shown.outputs(cell.id, source)
        if source != gaps and self.slides:
            self._gap(gaps, source, "exercise" if "exercise" in cell.tags else "question")
        if "claim" in cell.tags:
            self._claims(cell, source, outputs)
        elif not self.titles.are_refused(cell.id) and not OUT_OF_SLIDES & set(cell.tags):
            self._result(cell, source, outputs)

    def _gap(self, gaps: str, source: str, kind: str) -> None:
        """Add a question's choices, or an exercise's gap with its answer in the notes."""
        last = self.slides[-1]
        if last.kind != kind:
            return
        if kind == "question":
            told = self.titles.sentences.get("guesses", {})
            choices = [told.get(words, words) for words in guesses_in(gaps)]
            last.body += slide_html.write_down(choices) if choices else ""
        else:
            last.body += slide_html.code_with_gap(gaps, MOST_GAP_LINES)
            last.notes += [f"**{_('Answer')}.**", indent(source, "    ")]

    def _result(self, cell: Cell, source: str, outputs: list[Any]) -> None:
        wishes = self.titles.wishes(cell.id)
        if "exercise" in cell.tags and wishes is None:
            return
        found = cells.drawn(source, outputs)
        found = found or cells.told(source, outputs, wishes, self._has_slide)
        for number, slide in enumerate(found, start=1):
            slide.id = cell.id if number == 1 else f"{cell.id}-{number}"
            slide.title = self.titles.of(slide.id)
            self._add(slide)

    def _claims(self, cell: Cell, source: str, outputs: list[Any]) -> None:
        counts = cells.counts_in(source)
        found = [replace(c, is_count=c.text in counts) for c in results.measured(outputs)]
        self.measured += found
        if self.titles.are_refused(cell.id) or not found:
            return
        last = self.slides[-1]
        if last.kind in ("figure", "table", "missing") and last.section == self.section:
            room = MOST_STRIP - last.body.count('<div class="number')
            last.body = slide_html.with_strip(last.body, found[:room])
            self._say(slide_html.claims_in_words(found))
            return
        title = self.titles.of(cell.id) or prose.as_sentence(found[0].text)
        if broken := next((claim for claim in found if not claim.holds), None):
            title = f"{_('Not so in this run')}: {broken.text}"
        body = slide_html.numbers(found[:MOST_STRIP])
        self._add(Slide(cell.id, "numbers", title, body, is_measured=True))
        self._say(slide_html.claims_in_words(found))

    def _add(self, slide: Slide) -> None:
        if self.is_over and slide.kind != "recap":
            return
        if any(each.id == slide.id for each in self.slides):
            slide.id += f"-{slide.kind}"
        slide.title = slide.title or self.section
        slide.section = self.section
        slide.notes = [*self._ahead, *slide.notes]
        self._ahead = []
        self._has_slide = True
        self.slides.append(slide)

    def _say(self, text: str) -> None:
        self.slides[-1].notes.append(text)

    @property
    def _number(self) -> str:
        return self.lesson.title.split(" ")[0]
