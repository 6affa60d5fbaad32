"""A lesson as slides: which of its cells become one, and what is said to each.

Pictures, moving diagrams, questions (`**Predict.**`), claims and exercises become slides by
themselves, and everything that `lessons/slides.toml` gives a sentence to. The prose around them is
for the notes of whoever presents.
"""

from __future__ import annotations

from dataclasses import replace
from textwrap import indent
from typing import Any

from course_lib.teach.book.page import Shown, as_source
from course_lib.teach.building.gaps import answered, with_gaps
from course_lib.teach.building.source import Cell, Lesson
from course_lib.teach.slides import cells, faces, prose, results
from course_lib.teach.slides.marks import guesses_in, marks
from course_lib.teach.slides.prose import Block
from course_lib.teach.slides.slide import Recap, Sentences, Slide, Titles, head_of
from course_lib.words import told

MOST_STRIP, MOST_GAP_LINES = 3, 14
OUT_OF_SLIDES = {"check", "solution"}
SHOWN = ("list", "table", "code")


def slides_of(lesson: Lesson, shown: Shown, sentences: Sentences) -> list[Slide]:
    teller = Teller(lesson, shown, sentences)
    for cell in lesson.cells:
        teller.take(cell)
    return teller.done()


class Teller:
    """Goes through a lesson from top to bottom."""

    def __init__(self, lesson: Lesson, shown: Shown, sentences: Sentences):
        self.lesson, self.shown, self.titles = lesson, shown, Titles(sentences)
        self.slides: list[Slide] = []
        self.recap, self.section = Recap(), ""
        self.is_over = False
        self._ahead: list[str] = []
        """Prose that leads to the next slide."""
        self._material: list[Block] = []
        """Lists and tables of this section, for one that has nothing else to show."""
        self._has_slide = False
        self._begun_by = self._left_over = ""
        """The cell of the heading, and the sentence of a cell that gave no slide."""

    def take(self, cell: Cell) -> None:
        if cell is self.lesson.cells[0]:
            self._title(cell)
        elif cell.kind == "code":
            self._code(cell)
        elif "solution" in cell.tags:
            self._say(f"**{told('Answer')}.** {cell.text}")
        else:
            self._markdown(cell)

    def done(self) -> list[Slide]:
        self._close_section()
        self.section = ""
        shown = [cell for cell in self.lesson.cells[1:] if cell.kind == "markdown"]
        words = prose.terms(cell.text for cell in shown if not cell.tags)
        self.recap.terms = list(self.titles.sentences.get("terms", words))
        title = told(f"Lesson {self._number}: measured, named, to do")
        body = faces.recap(self.recap.measured, self.recap.terms, self.recap.exercises)
        notes = [faces.claims_in_words(self.recap.measured)] if self.recap.measured else []
        self._add(Slide("recap", "recap", self.titles.of("recap") or title, body, notes))
        if self._ahead:
            self.slides[-1].notes += self._ahead
        for slide in self.slides:
            slide.notes = slide.notes or [slide.in_words]
        return self.slides

    def _title(self, cell: Cell) -> None:
        words = [block.text for block in prose.blocks(cell.text) if block.kind == "words"]
        body = faces.lesson_title(head_of(self.lesson))
        self._add(Slide("title", "lesson", self.lesson.title, body, words))

    def _markdown(self, cell: Cell) -> None:
        found = prose.blocks(cell.text)
        if self.titles.of(f"{cell.id}+"):
            self._statement(f"{cell.id}+", [each for each in found if each.kind in SHOWN])
        question: Slide | None = None
        for number, block in enumerate(found):
            question = self._block(cell, block, found[number + 1 :], question)
        if self.titles.of(cell.id) and not any(slide.id == cell.id for slide in self.slides):
            self._statement(cell.id, found)

    def _block(
        self, cell: Cell, block: Block, after: list[Block], question: Slide | None
    ) -> Slide | None:
        if block.kind == "heading":
            self._heading(cell, block)
        elif block.kind == "image":
            self._picture(cell, block, after)
        elif block.kind == "predict":
            return self._question(cell, block)
        elif block.kind == "quote" and marks().exercise.search(block.text):
            self._exercise(cell, block)
        elif self.section == marks().home and block.kind == "list":
            default = told(f"What to take home from {self._number}")
            title = self.titles.of(cell.id) or default
            self._add(Slide(cell.id, "home", title, prose.html(block.text)))
        elif question and block.kind in SHOWN:
            question.body += f'<div class="of-question">{prose.html(block.text)}</div>'
            return question
        elif block.text.endswith(":") or not self._has_slide:
            self._ahead.append(block.text)
            self._keep(block)
        else:
            self._say(block.text)
            self._keep(block)
        return question

    def _heading(self, cell: Cell, block: Block) -> None:
        self._close_section()
        self._begun_by, self._left_over = cell.id, ""
        if block.text.startswith(("# ", "## ")):
            self.section = block.text.lstrip("# ")
        self.is_over = self.section == marks().end
        self._has_slide = False

    def _close_section(self) -> None:
        """A section without any picture: its list or table, else its thought in large letters."""
        is_bare = self.section and not self._has_slide and not self.is_over
        if is_bare and self._ahead and not self.titles.are_refused(self._begun_by):
            self._statement(self._begun_by, [each for each in self._material if faces.fits(each)])
        self._material = []

    def _statement(self, identifier: str, found: list[Block]) -> None:
        shown = [block.text for block in found if block.kind in SHOWN]
        words = [block.text for block in found if block.kind == "words"] or self._ahead
        body = "".join(map(prose.html, shown)) or faces.statement(words)
        title = self.titles.of(identifier) or self._left_over or self._fallback(words)
        self._add(Slide(identifier, "statement", title, body))

    def _picture(self, cell: Cell, block: Block, after: list[Block]) -> None:
        caption = after[0].text if after and prose.is_caption(after[0]) else ""
        title = self.titles.of(cell.id) or prose.as_title(caption) or self._fallback(self._ahead)
        found = prose.IMAGE.match(" ".join(block.text.split()))
        assert found
        kind, body = "figure", faces.picture(f"images/{found['name']}", found["alt"])
        if call := (self.titles.wishes(cell.id) or {}).get("moving"):
            kind, story = "moving", results.stories(f"show.moving.{call}")[0]
            body = faces.moving(results.frames(story))
        self._add(Slide(cell.id, kind, title, body, in_words=prose.told_as(found["alt"])))

    def _question(self, cell: Cell, block: Block) -> Slide:
        asked, others = prose.question(block)
        title = self.titles.of(f"{cell.id}?") or asked
        slide = Slide(cell.id, "question", title, faces.question(others))
        self._add(slide)
        slide.notes.append(block.text)
        return slide

    def _exercise(self, cell: Cell, block: Block) -> None:
        number, rest = prose.exercise(block)
        if number:
            self.recap.exercises.append((number, rest))
        title = told(f"Exercise {number}" if number else "Going further")
        self._add(Slide(cell.id, "exercise", title, prose.html(rest)))

    def _code(self, cell: Cell) -> None:
        where = f"{self.lesson.path}:{cell.line}"
        source, gaps = (as_source(way(cell.text, where)) for way in (answered, with_gaps))
        outputs = self.shown.outputs(cell.id, source) if self.shown.is_there else []
        if source != gaps and self.slides:
            self._gap(gaps, source, "exercise" if "exercise" in cell.tags else "question")
        if "claim" in cell.tags:
            self._claims(cell, source, outputs)
        elif not self.titles.are_refused(cell.id) and not OUT_OF_SLIDES & set(cell.tags):
            self._result(cell, source, outputs)

    def _gap(self, gaps: str, source: str, kind: str) -> None:
        """Under a question what may be answered, under an exercise the gap itself, whose answer is
        in its notes."""
        last = self.slides[-1]
        if last.kind != kind:
            return
        if kind == "question":
            choices = [self.titles.guesses.get(words, words) for words in guesses_in(gaps)]
            last.body += faces.write_down(choices) if choices else ""
        else:
            last.body += faces.code_with_gap(gaps, MOST_GAP_LINES)
            last.notes += [f"**{told('Answer')}.**", indent(source, "    ")]

    def _result(self, cell: Cell, source: str, outputs: list[Any]) -> None:
        wishes = self.titles.wishes(cell.id)
        if "exercise" in cell.tags and wishes is None:
            return
        found = cells.drawn(source, outputs)
        found = found or cells.told(source, outputs, wishes, self._has_slide)
        if not found:
            self._left_over = self._left_over or self.titles.of(cell.id)
        for number, face in enumerate(found):
            where = cell.id if number == 0 else f"{cell.id}-{number + 1}"
            title = self.titles.of(where) or self._fallback(self._ahead[-1:])
            slide = Slide(where, face.kind, title, face.body, is_measured=face.is_measured)
            slide.in_words = prose.told_as(face.in_words)
            self._add(slide)

    def _claims(self, cell: Cell, source: str, outputs: list[Any]) -> None:
        claimed = cells.claimed_in(source)
        counts = {claim.text for claim in claimed if claim.is_count}
        measured = results.measured(outputs)
        found = [replace(each, is_count=each.text in counts) for each in measured] or claimed
        self.recap.measured += found
        if self.titles.are_refused(cell.id) or not found:
            return
        last = self.slides[-1]
        if last.kind in ("figure", "table", "missing") and last.section == self.section:
            last.body = faces.with_strip(last.body, found[:MOST_STRIP])
            self._say(faces.claims_in_words(found))
            return
        title = self.titles.of(cell.id) or prose.as_sentence(found[0].text)
        if broken := next((claim for claim in found if not claim.holds), None):
            title = f"{told('Not so in this run')}: {broken.text}"
        body = faces.numbers(found[:MOST_STRIP])
        self._add(Slide(cell.id, "numbers", title, body, is_measured=any(c.value for c in found)))
        self._say(faces.claims_in_words(found))

    def _add(self, slide: Slide) -> None:
        if self.is_over and slide.kind != "recap":
            return
        if not slide.title:
            slide.title = self.section
        if any(each.id == slide.id for each in self.slides):
            slide.id += f"-{slide.kind}"
        slide.section = self.section
        slide.notes = [*self._ahead, *slide.notes]
        self._ahead = []
        self._has_slide = True
        self.slides.append(slide)

    def _say(self, text: str) -> None:
        self.slides[-1].notes.append(text)

    def _keep(self, block: Block) -> None:
        if block.kind in SHOWN:
            self._material.append(block)

    def _fallback(self, words: list[str]) -> str:
        return prose.first_title(reversed(words)) or self.section

    @property
    def _number(self) -> str:
        return self.lesson.title.split(" ")[0]
