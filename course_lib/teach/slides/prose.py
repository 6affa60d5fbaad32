"""The text of a lesson in blocks: what becomes a slide stands apart from what is said to it."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from html import escape

from course_lib.lab.jupyter.export import with_drawn_formulas
from course_lib.teach.book.page import PICTURES
from course_lib.teach.slides.marks import marks

FENCE = re.compile(r"^(```+|~~~+)")
IMAGE = re.compile(r"^!\[(?P<alt>[^\]]*)\]\((?:\.\./)*images/(?P<name>[\w-]+\.\w+)\)$")
WITHOUT_CAPITALS = r"\u3041-\u9fff\uac00-\ud7a3"
"""Letters of scripts in which nothing else tells a new sentence from an abbreviation."""
SENTENCE_END = re.compile(
    rf"(?<=[.!?])[\"”*)]*\s+(?=[A-Z`*\"“({WITHOUT_CAPITALS}])"
    rf"|(?<=[{WITHOUT_CAPITALS}][.!?])[\"”*)]*\s+"
)
TERM = re.compile(r"\*\*(?P<term>[^*\n]{2,40}?)\*\*")
NO_TERM = re.compile(
    r"\.$|^shift|^[\d\W]|\d$"
    r"|^(one|two|three|four|first|second|last|same|whole|own|every|all|not|no|sum|largest)$",
    re.IGNORECASE,
)
EMPHASIS = re.compile(r"(?<![\w*])\*(?=[^\s*])([^*\n]+)\*")
"""Its end may be followed by a letter where words have endings, as in Korean."""
MARKS = re.compile(r"\*\*|(?<!\w)[*_]|[*_](?!\w)|`")
LINK = re.compile(r"\[([^\]]+)\]\([^)]*\)")


@dataclass(frozen=True)
class Block:
    kind: str
    """`heading`, `image`, `table`, `list`, `quote`, `code`, `predict` or `words`"""
    text: str


def blocks(markdown: str) -> list[Block]:
    """Parted by blank lines, but for those inside of code."""
    found: list[Block] = []
    lines: list[str] = []
    fence = ""
    for line in [*markdown.split("\n"), ""]:
        mark = FENCE.match(line.strip())
        if mark and not fence:
            fence = mark[1]
        elif fence and line.strip() == fence:
            fence = ""
        if line.strip() or fence:
            lines.append(line)
        elif lines:
            found += _parted(lines)
            lines = []
    return found


def _parted(lines: list[str]) -> list[Block]:
    if lines[0].startswith("#") and len(lines) > 1:
        return [Block("heading", lines[0]), *_parted(lines[1:])]
    text = "\n".join(lines)
    before, asks, question = text.partition(marks().predict)
    if asks and before.strip() and _kind(lines) == "words":
        return [Block("words", before.strip()), Block("predict", asks + question)]
    return [Block(_kind(lines), text)]


def _kind(lines: list[str]) -> str:
    first = lines[0]
    if IMAGE.match(" ".join(lines)):
        return "image"
    if re.match(r"[-*+] |\d+\. ", first):
        return "list"
    kinds = {"#": "heading", "|": "table", ">": "quote", "`" * 3: "code"}
    kinds[marks().predict] = "predict"
    return next((kind for begin, kind in kinds.items() if first.startswith(begin)), "words")


def is_caption(block: Block) -> bool:
    return block.kind == "words" and bool(re.match(r"\*[^*]", block.text))


def html(markdown: str) -> str:
    from nbconvert.filters.markdown_mistune import markdown2html_mistune

    text = with_drawn_formulas(PICTURES.sub("](images/", markdown))
    return str(markdown2html_mistune(text)).replace('<a class="anchor-link"', "<a hidden")


def inline(markdown: str) -> str:
    """One line of HTML, without a paragraph around it."""
    made = html(" ".join(markdown.split())).strip()
    return made.removeprefix("<p>").removesuffix("</p>")


def plain(markdown: str) -> str:
    bare = EMPHASIS.sub(r"\1", LINK.sub(r"\1", markdown).replace("**", ""))
    return " ".join(MARKS.sub("", bare).split())


def sentences(markdown: str) -> list[str]:
    """What closes a sentence stays with it, and what is bold in one piece stays so."""
    text = SENTENCE_END.sub(lambda end: f"{end[0].rstrip()}\n", " ".join(markdown.split()))
    found: list[str] = []
    for part in text.split("\n"):
        if found and found[-1].count("**") % 2:
            found[-1] += f" {part}"
        else:
            found.append(part)
    return found


def question(block: Block) -> tuple[str, list[str]]:
    """What is asked, and the sentences around it, further questions last."""
    parts = sentences(block.text.removeprefix(marks().predict).strip())
    asked = [part for part in parts if part.rstrip("*_)").endswith("?")] or parts[-1:]
    around = [part for part in parts if part not in asked]
    return plain(asked[0]), [*around, *asked[1:]]


def exercise(block: Block) -> tuple[str, str]:
    """Its number, empty where it leads further, and what there is to do."""
    text = "\n".join(line.removeprefix(">").strip() for line in block.text.split("\n"))
    found = marks().exercise.search(text)
    return (found and found["number"]) or "", marks().exercise.sub("", text, count=1)


def as_title(markdown: str, most: int = 95) -> str:
    """The first sentence, where it is one that can be read from afar."""
    text = markdown.removeprefix(marks().explain).strip(" *\n")
    first = sentences(text)[0] if text else ""
    told = plain(first)
    fits = 15 <= breadth(told) <= most and told.endswith((".", "?"))
    return "" if not fits or marks().points(told) else told


def first_title(texts: Iterable[str]) -> str:
    return next(filter(None, map(as_title, texts)), "")


def breadth(text: str) -> int:
    """In letters of the Latin alphabet: those of other scripts may be twice as wide."""
    return sum(2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in text)


def as_sentence(text: str) -> str:
    """Without capitals nothing tells whether it is one: it stays as it is."""
    if re.search(rf"[{WITHOUT_CAPITALS}]", text):
        return text
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."


def terms(texts: Iterable[str]) -> list[str]:
    """What is printed bold for its first use: the words of the lesson."""
    found: dict[str, str] = {}
    for text in texts:
        for match in TERM.finditer(re.sub(r"```.*?```|`[^`]*`", "", text, flags=re.S)):
            term = " ".join(match["term"].split())
            if not marks().are(match[0]) and not NO_TERM.search(term) and len(term.split()) <= 4:
                found.setdefault(term.lower().rstrip("s"), term)
    return list(found.values())


def told_as(text: str) -> str:
    """Of what was printed: as text, whatever is in it."""
    return escape(text, quote=False)
