"""A card as Markdown, and as a page of HTML that fits one sheet of A4."""

from __future__ import annotations

import re
from html import escape

from course_lib.teach.cards.content import Card

CODE, BOLD, SLANTED = (
    re.compile(r"(`+)(?P<said>.+?)\1"),
    re.compile(r"\*\*(?P<said>.+?)\*\*"),
    re.compile(r"(?<![\w*])\*(?P<said>[^*]+)\*(?![\w*])"),
)
LINK = re.compile(r"\[(?P<said>[^\]]+)\]\([^)]*\)")
STYLE = """\
@page { size: A4; margin: 14mm; }
body { font: 10.5pt/1.35 system-ui, sans-serif; max-width: 182mm; margin: 1rem auto; }
h1 { font-size: 1.35rem; margin: 0 0 0.2rem; } h2 { font-size: 1rem; margin: 0.9rem 0 0.2rem; }
p { margin: 0.2rem 0; } ul { margin: 0; padding-left: 1.1rem; } li { margin-bottom: 0.15rem; }
pre { background: #8881; padding: 0.4rem 0.6rem; margin: 0; white-space: pre-wrap; }
code, pre { font: 0.88em/1.4 ui-monospace, monospace; }
table { border-collapse: collapse; } td { vertical-align: top; padding: 0.08rem 0.8rem 0.08rem 0; }
.facts, .known { opacity: 0.75; } h2, tr, li { break-inside: avoid; }
"""


def markdown(card: Card) -> str:
    parts = [f"# {card.title}", f"You will be able to {card.goal}." if card.goal else ""]
    parts.append(f"*{card.facts}*" if card.facts else "")
    if card.commands:
        parts += ["## In a terminal", "\n".join(["```bash", *card.commands, "```"])]
    if card.new or card.known:
        lines = [
            f"- `{one.name}` — {one.says}" if one.says else f"- `{one.name}`" for one in card.new
        ]
        parts += ["## In a notebook", "\n".join(lines), _known_words(card)]
    if card.take_home:
        parts += ["## To take home", "\n".join(f"- {point}" for point in card.take_home)]
    return "\n\n".join(filter(None, parts)) + "\n"


def _known_words(card: Card) -> str:
    if not card.known:
        return ""
    return "Known already: " + ", ".join(f"`{name}`" for name in card.known)


def html(card: Card) -> str:
    body = [f"<h1>{escape(card.title)}</h1>"]
    if card.goal:
        body.append(f"<p>You will be able to {inline(card.goal)}.</p>")
    if card.facts:
        body.append(f'<p class="facts">{inline(card.facts)}</p>')
    if card.commands:
        lines = escape("\n".join(card.commands))
        body.append(f"<h2>In a terminal</h2>\n<pre>{lines}</pre>")
    if card.new or card.known:
        body.append("<h2>In a notebook</h2>")
        rows = [
            f"<tr><td><code>{escape(one.name)}</code></td><td>{inline(one.says)}</td></tr>"
            for one in card.new
        ]
        body.append(f"<table>{''.join(rows)}</table>" if rows else "")
        body.append(f'<p class="known">{inline(_known_words(card))}</p>' if card.known else "")
    if card.take_home:
        points = "".join(f"<li>{inline(point)}</li>" for point in card.take_home)
        body.append(f"<h2>To take home</h2>\n<ul>{points}</ul>")
    head = f'<meta charset="utf-8"><title>{escape(card.title)}</title><style>{STYLE}</style>'
    return (
        f'<!doctype html>\n<html lang="en">\n{head}\n{chr(10).join(filter(None, body))}\n</html>\n'
    )


def inline(text: str) -> str:
    """Code, bold and slanted words as the lessons write them; of a link its words."""
    kept: list[str] = []

    def keep(found: re.Match[str]) -> str:
        kept.append(f"<code>{escape(found['said'])}</code>")
        return f"\0{len(kept) - 1}\0"

    shown = escape(CODE.sub(keep, LINK.sub(r"\g<said>", text)), quote=False)
    shown = SLANTED.sub(r"<i>\g<said></i>", BOLD.sub(r"<b>\g<said></b>", shown))
    return re.sub("\0(\\d+)\0", lambda found: kept[int(found[1])], shown)
