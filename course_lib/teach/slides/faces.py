"""What stands on a slide below its title, as HTML."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from course_lib.teach.slides import prose
from course_lib.teach.slides.prose import Block, told_as
from course_lib.teach.slides.results import Figure, Measured

MOST_CLAIMS, MOST_TERMS, MOST_BODY_ROWS = 6, 12, 14
MOST_CHARACTERS, MOST_LINES = 900, 10
CODE_STYLE = "friendly"


def fits(block: Block) -> bool:
    """A list or a table that may be read from the last row."""
    return len(block.text) <= MOST_CHARACTERS and len(block.text.splitlines()) <= MOST_LINES


def lesson_title(able_to: str, minutes: str, devices: str, before: str) -> str:
    aims = [aim.strip() for aim in able_to.split(";") if aim.strip()]
    items = "".join(f"<li>{prose.inline(aim)}</li>" for aim in aims)
    facts = {"minutes": minutes, "devices": devices, "before": before}
    told = "".join(
        f"<div><dt>{name}</dt><dd>{prose.inline(text)}</dd></div>"
        for name, text in facts.items()
        if text
    )
    return f'<p class="lead">You will be able to</p><ul>{items}</ul><dl class="facts">{told}</dl>'


def figure(shown: Figure) -> str:
    return f'<div class="picture">{shown.html()}</div>'


def picture(source: str, alt: str) -> str:
    return f'<div class="picture"><img src="{escape(source)}" alt="{escape(alt)}"></div>'


def moving(frames: Sequence[tuple[str, str, str]]) -> str:
    """One over the other; the next one comes by a key, as reveal.js calls it: a fragment."""
    made = []
    for number, (drawn, title, text) in enumerate(frames):
        kind = "frame fragment" if number else "frame"
        made.append(
            f'<figure class="{kind}"><div class="picture">{drawn}</div>'
            f"<figcaption><b>{number + 1} of {len(frames)}. {title}</b><br>{text}"
            "</figcaption></figure>"
        )
    return f'<div class="frames">{"".join(made)}</div>'


def missing() -> str:
    return (
        '<div class="not-run"><p>What this cell of the lesson shows belongs here. It was not run '
        "for this deck: <code>make course</code>, then <code>make slides</code>.</p></div>"
    )


def question(parts: Sequence[str]) -> str:
    told = "".join(f"<p>{prose.inline(part)}</p>" for part in parts)
    return f'<div class="asked">{told}</div>'


def write_down(choices: Sequence[str]) -> str:
    words = [choice.removesuffix(" in place of the dots") for choice in choices]
    told = "; ".join(told_as(word) for word in words)
    return f'<p class="write-down"><b>Write down your guess</b> <span>{told}</span></p>'


def statement(paragraphs: Sequence[str]) -> str:
    """No more than fits: the rest is in the notes."""
    texts = [text.removeprefix(prose.EXPLAIN).strip() for text in paragraphs]
    parts = [part for text in texts for part in prose.sentences(text)]
    chosen: list[str] = []
    for part in [part for part in parts if part[:1] != "|" and part[-1:] not in ":?"][:4]:
        if sum(map(len, [*chosen, part])) > 330:
            break
        chosen.append(part)
    told = "".join(f"<p>{prose.inline(part)}</p>" for part in chosen)
    return f'<div class="said">{told}</div>'


def code(text: str, most: int = 0, begins: str = "") -> str:
    """`begins`: words of the first line to be shown."""
    from pygments import highlight
    from pygments.formatters import HtmlFormatter
    from pygments.lexers import get_lexer_by_name

    lines = text.strip("\n").split("\n")
    is_shell = lines[0].startswith(("#!", "#SBATCH", "%%bash"))
    lines = lines[next((n for n, line in enumerate(lines) if begins and begins in line), 0) :]
    if most and len(lines) > most:
        lines = [*lines[: most - 1], f"# … {len(lines) - most + 1} more lines in the notebook"]
    lexer = get_lexer_by_name("bash" if is_shell else "ipython3")
    formatter = HtmlFormatter(noclasses=True, nowrap=True, style=CODE_STYLE)
    told = highlight("\n".join(lines), lexer, formatter)
    return f'<pre class="code"><code>{told}</code></pre>'


def terminal(command: str, printed: str, most: int = 18) -> str:
    lines = printed.expandtabs().split("\n")
    if len(lines) > most:
        lines = [*lines[: most - 1], "…"]
    prompt = f"<b>$ {told_as(command.removeprefix('!').strip())}</b>\n" if command else ""
    told = told_as("\n".join(lines))
    return f'<pre class="terminal">{prompt}{told}</pre>'


def table(rows: Sequence[Sequence[str]]) -> str:
    head, *body = rows
    if len(body) > MOST_BODY_ROWS:
        body = [*body[:MOST_BODY_ROWS], ["…"] * len(head)]
    top = "".join(f"<th>{told_as(cell)}</th>" for cell in head)
    lines = "".join(
        "<tr>" + "".join(f"<td>{told_as(cell)}</td>" for cell in row) + "</tr>" for row in body
    )
    return f'<table class="measured"><thead><tr>{top}</tr></thead><tbody>{lines}</tbody></table>'


def strip(claims: Sequence[Measured]) -> str:
    return f'<div class="strip">{"".join(map(_number, claims))}</div>'


def numbers(claims: Sequence[Measured]) -> str:
    return f'<div class="numbers">{"".join(map(_number, claims))}</div>'


def _number(claim: Measured) -> str:
    kind = "" if claim.holds else " not-here"
    value = _value(claim) or "not measured"
    is_plain = not claim.bounds or value != told_as(claim.value)
    bounds = "" if is_plain else f" <small>{told_as(claim.bounds)}</small>"
    return (
        f'<div class="number{kind}"><span class="value">{_with_unit(value)}</span>'
        f'<span class="what">{told_as(claim.text)}{bounds}</span></div>'
    )


def _value(claim: Measured) -> str:
    """Of what is true or not: yes or no."""
    if claim.bounds == "is 1" and claim.value in ("0", "1"):
        return "yes" if claim.holds else "no"
    number, space, unit = claim.value.partition(" ")
    if "e+0" in number:
        number = f"{float(number):g}"
    return told_as(f"{number}{space}{unit}")


def _with_unit(value: str) -> str:
    number, _, unit = value.partition(" ")
    return f"{number} <small>{unit}</small>" if unit and number[-1:].isdigit() else value


def claims_in_words(claims: Sequence[Measured]) -> str:
    lines = []
    for claim in claims:
        there = f": {claim.value}, claimed: it {claim.bounds}" if claim.value else ""
        lines.append(f"- {prose.told_as(claim.text)}{prose.told_as(there)}")
    return "What the lesson claims:\n\n" + "\n".join(lines)


def recap(
    claims: Sequence[Measured], terms: Sequence[str], exercises: Sequence[tuple[str, str]]
) -> str:
    rows = "".join(
        f'<tr><td class="value">{_value(claim) or "–"}</td><td>{told_as(claim.text)}</td></tr>'
        for claim in claims[:MOST_CLAIMS]
    )
    more = len(claims) - MOST_CLAIMS
    rest = f'<p class="more">and {more} more, in the notes</p>' if more > 0 else ""
    named = "".join(f"<li>{prose.inline(term)}</li>" for term in terms[:MOST_TERMS])
    to_do = "".join(
        f"<li><b>{number}</b> {prose.inline(_short(text))}</li>" for number, text in exercises
    )
    columns = (
        ("Measured", f"<table>{rows}</table>{rest}" if rows else ""),
        ("Terms", f'<ul class="terms">{named}</ul>' if named else ""),
        ("Exercises", f'<ul class="to-do">{to_do}</ul>' if to_do else ""),
    )
    made = "".join(f"<div><h3>{name}</h3>{told}</div>" for name, told in columns if told)
    return f'<div class="columns">{made}</div>'


def _short(text: str, most: int = 130) -> str:
    """Whole sentences, as many as fit, at least one; no code."""
    parts = prose.sentences(text.partition("```")[0])
    chosen = parts[:1]
    for part in parts[1:]:
        if len(" ".join([*chosen, part])) > most:
            break
        chosen.append(part)
    return " ".join(chosen)


def plain_table(rows: Sequence[Sequence[str]]) -> str:
    lines = "".join(
        "<tr>" + "".join(f"<td>{told_as(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    return f"<table>{lines}</table>"
