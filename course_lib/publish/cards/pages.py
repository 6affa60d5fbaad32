"""A card as Markdown, and as an HTML page that fits one sheet of A4."""

from __future__ import annotations

from html import escape

from markdown_it import MarkdownIt

from course_lib.publish.cards.content import Card

MARKDOWN = MarkdownIt("commonmark", {"html": False})
for end in ("link_open", "link_close"):
    MARKDOWN.add_render_rule(end, lambda *_: "")
STYLE = """\
@page { size: A4; margin: 14mm; }
body { font: 10.5pt/1.35 system-ui, sans-serif; max-width: 182mm; margin: 1rem auto; }
h1 { font-size: 1.35rem; margin: 0 0 0.2rem; } h2 { font-size: 1rem; margin: 0.9rem 0 0.2rem; }
p { margin: 0.2rem 0; } ul { margin: 0; padding-left: 1.1rem; } li { margin-bottom: 0.15rem; }
pre { background: #8881; padding: 0.4rem 0.6rem; margin: 0; white-space: pre-wrap; }
code, pre { font: 0.88em/1.4 ui-monospace, monospace; }
h2, li { break-inside: avoid; }
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
    head = f'<meta charset="utf-8"><title>{escape(card.title)}</title><style>{STYLE}</style>'
    body = MARKDOWN.render(markdown(card))
    return f'<!doctype html>\n<html lang="en">\n{head}\n{body}</html>\n'
