"""List the lessons' sentences that are hard to read, by cell. The author judges them.

A sentence is listed if it has over 30 words or a parenthesis of over eight words. It is also listed
if it begins with "Who", "Whoever" or a "Where" that means "if".
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

from course_lib.publish.building.source import lessons_in, read_lesson

NO_BREAK = "\u00a0"
MOST_WORDS = 30
MOST_WORDS_IN_PARENTHESES = 8
FORBIDDEN_BEGINNING = re.compile(r"(Who|Whoever|Whose|Where)\b(?!.*\?$)")
SENTENCE_END = re.compile(r"(?<=[.!?…])[*_”\"')\]]* +(?=[*_“\"'(\[]*[A-Z0-9])")
PARENTHESIS = re.compile(r"\(([^()]*)\)")
FORMULA = re.compile(r"\$\$.*?\$\$|\$[^$]*\$", re.DOTALL)
ABBREVIATION = re.compile(r"\b(e\.g|i\.e|vs|Fig|Eq|cf)\. ")


def listed(repository: Path) -> Iterator[str]:
    """Yield one line per finding: the cell, the reason, and the sentence."""
    for path in lessons_in(repository / "lessons", "py"):
        for cell in read_lesson(path).cells:
            if cell.kind == "markdown":
                for sentence in sentences(cell.text):
                    for reason in findings(sentence):
                        yield f"{path.stem} [{cell.id}] {reason}: {sentence}"


def findings(sentence: str) -> Iterator[str]:
    if (count := _words(sentence)) > MOST_WORDS:
        yield f"{count} words"
    for inside in PARENTHESIS.findall(sentence):
        if (count := _words(inside)) > MOST_WORDS_IN_PARENTHESES:
            yield f"{count} words in parentheses"
    if begins := FORBIDDEN_BEGINNING.match(sentence.lstrip("*_“\"'(")):
        yield f"begins with {begins[1]!r}"


def sentences(markdown: str) -> Iterator[str]:
    """Yield the sentences of paragraphs, list items and headings.

    A formula or a piece of code counts as one word. Table cells are left out.
    """
    in_table = False
    for token in MarkdownIt("commonmark").enable("table").parse(FORMULA.sub(_as_code, markdown)):
        in_table = token.type != "table_close" and (in_table or token.type == "table_open")
        if token.type != "inline" or in_table:
            continue
        text = "".join(map(_text, token.children or ()))
        for sentence in SENTENCE_END.split(ABBREVIATION.sub(rf"\1.{NO_BREAK}", text)):
            yield sentence.strip()


def _as_code(formula: re.Match[str]) -> str:
    return f"`{' '.join(formula[0].strip('$').split())}`"


def _text(part: Token) -> str:
    if part.type == "code_inline":
        return f"`{part.content.replace(' ', NO_BREAK)}`"
    return " " if part.type in ("softbreak", "hardbreak") else part.content


def _words(text: str) -> int:
    return sum(any(letter.isalnum() for letter in word) for word in text.split(" "))
