"""Text of a lesson in blocks, which become slides or notes."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from html import escape

from markdown_it import MarkdownIt

from course_lib.lab.jupyter.export import with_drawn_formulas
from course_lib.publish.book.page import PICTURES
from course_lib.publish.slides.marks import marks

MARKDOWN = MarkdownIt().enable("table")
KINDS = {
    "heading_open": "heading", "table_open": "table", "bullet_list_open": "list",
    "ordered_list_open": "list", "blockquote_open": "quote", "fence": "code", "code_block": "code",
}  # fmt: skip
IMAGE = re.compile(r"^!\[(?P<alt>[^\]]*)\]\((?:\.\./)*images/(?P<name>[\w-]+\.\w+)\)$")
# Letters of scripts without capitals, in which any letter may begin a sentence.
WITHOUT_CAPITALS = r"\u3041-\u9fff\uac00-\ud7a3"
SENTENCE_END = re.compile(
    rf"(?<=[.!?])[\"”*)]*\s+(?=[A-Z`*\"“({WITHOUT_CAPITALS}])"
    rf"|(?<=[{WITHOUT_CAPITALS}][.!?])[\"”*)]*\s+"
)


@dataclass(frozen=True)
class Block:
    # `heading`, `image`, `table`, `list`, `quote`, `code`, `predict` or `words`
    kind: str
    text: str


def blocks(markdown: str) -> list[Block]:
    """Return the blocks of a cell in order. A question in a paragraph is a separate block."""
    lines = markdown.split("\n")
    found: list[Block] = []
    for token in MARKDOWN.parse(markdown):
        if token.level == 0 and token.map:
            begin, end = token.map
            text = "\n".join(lines[begin:end]).rstrip()
            found += (
                _paragraphs(text)
                if token.type == "paragraph_open"
                else [Block(KINDS.get(token.type, "words"), text)]
            )
    return found


def _paragraphs(text: str) -> list[Block]:
    if IMAGE.match(text.replace("\n", " ")):
        return [Block("image", text)]
    before, asks, question = text.partition(marks().predict)
    words = [Block("words", before.strip())] if before.strip() else []
    return [*words, Block("predict", asks + question)] if asks else words


def html(markdown: str) -> str:
    from nbconvert.filters.markdown_mistune import markdown2html_mistune

    text = with_drawn_formulas(PICTURES.sub("](images/", markdown))
    return str(markdown2html_mistune(text)).replace('<a class="anchor-link"', "<a hidden")


def inline(markdown: str) -> str:
    """Convert Markdown to one line of HTML without a paragraph."""
    made = html(" ".join(markdown.split())).strip()
    return made.removeprefix("<p>").removesuffix("</p>")


def plain(markdown: str) -> str:
    """Remove Markdown from a line: keep the text of links and of code."""
    tokens = MARKDOWN.parseInline(" ".join(markdown.split()))[0].children or []
    return " ".join("".join(token.content for token in tokens).split())


def sentences(markdown: str) -> list[str]:
    """Cut text into sentences. Closing marks and bold pieces stay whole."""
    text = SENTENCE_END.sub(lambda end: f"{end[0].rstrip()}\n", " ".join(markdown.split()))
    found: list[str] = []
    for part in text.split("\n"):
        if found and found[-1].count("**") % 2:
            found[-1] += f" {part}"
        else:
            found.append(part)
    return found


def question(block: Block) -> tuple[str, list[str]]:
    """Split a question from the sentences around it; further questions come last."""
    parts = sentences(block.text.removeprefix(marks().predict).strip())
    asked = [part for part in parts if part.rstrip("*_)").endswith("?")] or parts[-1:]
    around = [part for part in parts if part not in asked]
    return plain(asked[0]), [*around, *asked[1:]]


def exercise(block: Block) -> tuple[str, str]:
    """Return an exercise's number and task. Under "Going further", the number is ""."""
    text = "\n".join(line.removeprefix(">").strip() for line in block.text.split("\n"))
    found = marks().exercise.search(text)
    return (found and found["number"]) or "", marks().exercise.sub("", text, count=1)


def breadth(text: str) -> int:
    """Return the width in Latin letters. Letters of other scripts may be twice as wide."""
    return sum(2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in text)


def as_sentence(text: str) -> str:
    """Add a capital and a full stop; leave scripts without capitals unchanged."""
    if re.search(rf"[{WITHOUT_CAPITALS}]", text):
        return text
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."


def as_html(text: str) -> str:
    """Escape printed output for HTML."""
    return escape(text, quote=False)
