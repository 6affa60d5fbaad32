"""HTML of a slide's body."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape

from course_lib.lab.job.script import CODE_STYLE
from course_lib.publish.slides import prose
from course_lib.publish.slides.marks import column_name, marks
from course_lib.publish.slides.prose import as_html
from course_lib.publish.slides.results import Measured
from course_lib.words import _

MOST_CLAIMS, MOST_TERMS, MOST_BODY_ROWS = 6, 12, 14
STRIP = '<div class="strip">'
NUMBER = re.compile(r"[-+−]?\d[\d,.]*(e[-+]?\d+)?( ?%)?|NaN|inf|–|")

# In some languages, number and unit have no space between them.
AMOUNT = re.compile(r"^(?P<number>[-+−]?[\d.,]+(?:e[-+]?\d+)?)(?P<space> ?)(?P<unit>[^\d.,\s].*)$")


def lesson_title(head: Sequence[tuple[str, str]]) -> str:
    (lead, able_to), *facts = head
    aims = [aim.strip() for aim in able_to.split(";") if aim.strip()]
    items = "".join(f"<li>{prose.inline(aim)}</li>" for aim in aims)
    made = "".join(
        f"<div><dt>{name.lower()}</dt><dd>{prose.inline(text)}</dd></div>" for name, text in facts
    )
    return f'<p class="lead">{lead}</p><ul>{items}</ul><dl class="facts">{made}</dl>'


def picture(source: str, alt: str) -> str:
    return f'<div class="picture"><img src="{escape(source)}" alt="{escape(alt)}"></div>'


def moving(frames: Sequence[tuple[str, str, str]]) -> str:
    """Stack the frames. Each further frame is a reveal.js fragment, shown by a key press."""
    made = []
    for number, (drawn, title, text) in enumerate(frames):
        more = " fragment" if number else ""
        at = _("{number} of {frames}", number=number + 1, frames=len(frames))
        made.append(
            f'<figure class="frame{more}"><div class="picture">{drawn}</div>'
            f"<figcaption><b>{at}. {title}</b><br>{text}"
            "</figcaption></figure>"
        )
    return f'<div class="frames">{"".join(made)}</div>'


def missing() -> str:
    words = _(
        "The result of this cell belongs here, but the cell was not run for this deck. Run `make "
        "course`, then `make slides`."
    )
    return f'<div class="not-run"><p>{prose.inline(words)}</p></div>'


def question(parts: Sequence[str]) -> str:
    made = "".join(f"<p>{prose.inline(part)}</p>" for part in parts)
    return f'<div class="asked">{made}</div>'


def write_down(choices: Sequence[str]) -> str:
    asked, words = _("Write down your guess"), "; ".join(map(as_html, choices))
    return f'<p class="write-down"><b>{asked}</b> <span>{words}</span></p>'


def statement(paragraphs: Sequence[str]) -> str:
    """Return as many sentences as fit on a slide. The notes hold the rest."""
    texts = [text.removeprefix(marks().explain).strip() for text in paragraphs]
    parts = [part for text in texts for part in prose.sentences(text)]
    chosen: list[str] = []
    for part in [part for part in parts if part[:1] != "|" and part[-1:] not in ":?"][:4]:
        if sum(map(prose.breadth, [*chosen, part])) > 330:
            break
        chosen.append(part)
    made = "".join(f"<p>{prose.inline(part)}</p>" for part in chosen)
    return f'<div class="said">{made}</div>'


def code(text: str, most: int = 0, begins: str = "") -> str:
    """Highlight code; `begins` is part of the first line to show."""
    from pygments import highlight
    from pygments.formatters import HtmlFormatter
    from pygments.lexers import get_lexer_by_name

    lines = text.strip("\n").split("\n")
    is_shell = lines[0].startswith(("#!", "#SBATCH", "%%bash"))
    lines = lines[next((n for n, line in enumerate(lines) if begins and begins in line), 0) :]
    if most and len(lines) > most:
        rest = _("{lines} more lines in the notebook", lines=len(lines) - most + 1)
        lines = [*lines[: most - 1], f"# … {rest}"]
    lexer = get_lexer_by_name("bash" if is_shell else "ipython3")
    formatter = HtmlFormatter(noclasses=True, nowrap=True, style=CODE_STYLE)
    made = highlight("\n".join(lines), lexer, formatter)
    return f'<pre class="code"><code>{made}</code></pre>'


def terminal(command: str, printed: str, most: int = 18) -> str:
    lines = printed.expandtabs().split("\n")
    if len(lines) > most:
        lines = [*lines[: most - 1], "…"]
    prompt = f"<b>$ {as_html(command.removeprefix('!').strip())}</b>\n" if command else ""
    shown = as_html("\n".join(lines))
    return f'<pre class="terminal">{prompt}{shown}</pre>'


def code_with_gap(text: str, most: int) -> str:
    """Return the code of a gap; empty if the gap is a whole file."""
    lines = text.strip("\n").split("\n")
    if not any("..." in line for line in lines):
        return ""
    is_late = not any("..." in line for line in lines[: most - 1])
    begins = next((line for line in lines if line.startswith(("def ", "class "))), "")
    if is_late or not text.startswith("%%writefile"):
        begins = "..." if is_late else ""
    return code(text, most, begins)


def table(rows: Sequence[Sequence[str]]) -> str:
    head, *body = _without_count(rows)
    columns = [[row[number] for row in body] for number in range(len(head))]
    kinds = [' class="number"' if all(map(NUMBER.fullmatch, each)) else "" for each in columns]
    if len(body) > MOST_BODY_ROWS:
        body = [*body[:MOST_BODY_ROWS], ["…"] * len(head)]
    top = _row("th", list(map(column_name, head)), kinds)
    lines = "".join(_row("td", list(map(column_name, row)), kinds) for row in body)
    return f'<table class="measured"><thead>{top}</thead><tbody>{lines}</tbody></table>'


def _row(tag: str, row: Sequence[str], kinds: Sequence[str]) -> str:
    cells = zip(row, kinds, strict=True)
    return f"<tr>{''.join(f'<{tag}{kind}>{as_html(cell)}</{tag}>' for cell, kind in cells)}</tr>"


def _without_count(rows: Sequence[Sequence[str]]) -> Sequence[Sequence[str]]:
    """Drop the row numbers that pandas adds to rows without names."""
    is_counted = [row[:1] for row in rows] == [[""], *([str(n)] for n in range(len(rows) - 1))]
    return [row[1:] for row in rows] if is_counted else rows


def strip(claims: Sequence[Measured]) -> str:
    return f"{STRIP}{''.join(map(_number, claims))}</div>"


def with_strip(body: str, claims: Sequence[Measured]) -> str:
    """Add claims to the row of claims, which may come from several cells."""
    if STRIP not in body:
        return body + strip(claims)
    return f"{body.removesuffix('</div>')}{''.join(map(_number, claims))}</div>"


def numbers(claims: Sequence[Measured]) -> str:
    return f'<div class="numbers">{"".join(map(_number, claims))}</div>'


def _number(claim: Measured) -> str:
    kind = "" if claim.holds else " not-here"
    value = _value(claim)
    is_plain = not claim.bounds or value != as_html(claim.value)
    bounds = "" if is_plain else f" <small>{as_html(claim.bounds)}</small>"
    bounds += "" if claim.holds else f" {_('(not so in this run)')}"
    return (
        f'<div class="number{kind}"><span class="value">{_with_unit(value)}</span>'
        f'<span class="what">{as_html(claim.text)}{bounds}</span></div>'
    )


def _value(claim: Measured) -> str:
    """Write a boolean as yes or no."""
    if (
        claim.bounds == _("is {least}", least=1)
        and claim.value in ("0", "1")
        and not claim.is_count
    ):
        yes, no = _("yes, no").split(", ")
        return yes if claim.holds else no
    number, space, unit = claim.value.partition(" ")
    if "e+0" in number:
        number = f"{float(number):g}"
    return as_html(f"{number}{space}{unit}")


def _with_unit(value: str) -> str:
    return AMOUNT.sub(r"\g<number>\g<space><small>\g<unit></small>", value)


def claims_in_words(claims: Sequence[Measured]) -> str:
    lines = []
    for claim in claims:
        there = _("{value}, claimed: it {bounds}", value=claim.value, bounds=claim.bounds)
        lines.append(f"- {as_html(f'{claim.text}: {there}')}")
    return _("What the lesson claims:") + "\n\n" + "\n".join(lines)


def recap(
    claims: Sequence[Measured], terms: Sequence[str], exercises: Sequence[tuple[str, str]]
) -> str:
    rows = "".join(
        f'<tr><td class="value">{_value(claim)}</td><td>{as_html(claim.text)}</td></tr>'
        for claim in claims[:MOST_CLAIMS]
    )
    more = len(claims) - MOST_CLAIMS
    rest = (
        f'<p class="more">{_("and {more} more, in the notes", more=more)}</p>' if more > 0 else ""
    )
    named = "".join(f"<li>{prose.inline(term)}</li>" for term in terms[:MOST_TERMS])
    to_do = "".join(
        f"<li><b>{number}</b> {prose.inline(_short(text))}</li>" for number, text in exercises
    )
    columns = (
        (_("Measured"), f"<table>{rows}</table>{rest}" if rows else ""),
        (_("Terms"), f'<ul class="terms">{named}</ul>' if named else ""),
        (_("Exercises"), f'<ul class="to-do">{to_do}</ul>' if to_do else ""),
    )
    made = "".join(f"<div><h3>{name}</h3>{shown}</div>" for name, shown in columns if shown)
    return f'<div class="columns">{made}</div>'


def _short(text: str, most: int = 130) -> str:
    """Return as many whole sentences as fit, at least one, without code."""
    parts = prose.sentences(text.partition("```")[0])
    chosen = parts[:1]
    for part in parts[1:]:
        if prose.breadth(" ".join([*chosen, part])) > most:
            break
        chosen.append(part)
    return " ".join(chosen)


def plain_table(rows: Sequence[Sequence[str]]) -> str:
    lines = "".join(
        "<tr>" + "".join(f"<td>{as_html(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    return f"<table>{lines}</table>"
