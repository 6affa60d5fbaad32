"""The text of a lesson in blocks: what becomes a slide stands apart from what is said to it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from html import escape

from course_lib.lab.jupyter.export import with_drawn_formulas

FENCE = re.compile(r"^(```+|~~~+)")
IMAGE = re.compile(r"^!\[(?P<alt>[^\]]*)\]\(\.\./images/(?P<name>[\w-]+\.\w+)\)$")
PREDICT, EXPLAIN = "**Predict.**", "**Explain.**"
SENTENCE_END = re.compile(r"(?<=[.!?])[\"”*)]*\s+(?=[A-Z`*\"“(])")
TERM = re.compile(r"\*\*(?P<term>[^*\n]{2,40}?)\*\*")
NO_TERM = re.compile(
    r"\.$|^(exercise|going further|predict|explain|answer|shift)|^[\d\W]|\d$"
    r"|^(one|two|three|four|first|second|last|same|whole|own|every|all|not|no|sum|largest)$",
    re.IGNORECASE,
)
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
    before, asks, question = text.partition(PREDICT)
    if asks and before.strip() and _kind(lines) == "words":
        return [Block("words", before.strip()), Block("predict", asks + question)]
    return [Block(_kind(lines), text)]


def _kind(lines: list[str]) -> str:
    first = lines[0]
    if IMAGE.match(" ".join(lines)):
        return "image"
    if re.match(r"[-*+] |\d+\. ", first):
        return "list"
    kinds = {"#": "heading", "|": "table", ">": "quote", "`" * 3: "code", PREDICT: "predict"}
    return next((kind for begin, kind in kinds.items() if first.startswith(begin)), "words")


def is_caption(block: Block) -> bool:
    return block.kind == "words" and bool(re.match(r"\*[^*]", block.text))


def html(markdown: str) -> str:
    from nbconvert.filters.markdown_mistune import markdown2html_mistune

    text = with_drawn_formulas(markdown).replace("](../images/", "](images/")
    return str(markdown2html_mistune(text)).replace('<a class="anchor-link"', "<a hidden")


def inline(markdown: str) -> str:
    """One line of HTML, without a paragraph around it."""
    made = html(" ".join(markdown.split())).strip()
    return made.removeprefix("<p>").removesuffix("</p>")


def plain(markdown: str) -> str:
    return " ".join(MARKS.sub("", LINK.sub(r"\1", markdown)).split())


def sentences(markdown: str) -> list[str]:
    return SENTENCE_END.split(" ".join(markdown.split()))


def as_title(markdown: str, most: int = 95) -> str:
    """The first sentence, where it is one that can be read from afar."""
    text = markdown.removeprefix(EXPLAIN).strip(" *\n")
    first = sentences(text)[0] if text else ""
    told = plain(first)
    fits = 15 <= len(told) <= most and told.endswith((".", "?"))
    says_who = re.match(r"(If you|You |Above|Below|Left|Here )", told)
    return "" if not fits or says_who else told


def terms(texts: Iterable[str]) -> list[str]:
    """What is printed bold for its first use: the words of the lesson."""
    found: dict[str, str] = {}
    for text in texts:
        for match in TERM.finditer(re.sub(r"```.*?```|`[^`]*`", "", text, flags=re.S)):
            term = " ".join(match["term"].split())
            if not NO_TERM.search(term) and len(term.split()) <= 4:
                found.setdefault(term.lower().rstrip("s"), term)
    return list(found.values())


def told_as(text: str) -> str:
    """Of what was printed: as text, whatever is in it."""
    return escape(text, quote=False)
