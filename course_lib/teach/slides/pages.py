"""The HTML around the slides: a deck, and the page that leads to all of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path

from course_lib.teach.book.contents import Contents
from course_lib.teach.book.page import Shown
from course_lib.teach.building.source import Lesson
from course_lib.teach.slides import prose
from course_lib.teach.slides.marks import marks
from course_lib.teach.slides.plans import Timetable, as_html
from course_lib.teach.slides.slide import Slide
from course_lib.words import ENGLISH, language, told

HEAD = """<!doctype html>
<html lang="{language}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; \
img-src 'self' file: data:; style-src 'self' file: 'unsafe-inline'; \
script-src 'self' file: 'unsafe-inline'; frame-src 'self' file: data: blob:; font-src 'none'">
<title>{title}</title>
"""
"""Nothing comes from the web, whatever stands in the page."""
DECK = """<link rel="stylesheet" href="reveal/reveal.css">
<link rel="stylesheet" href="slides.css">
{own}</head>
<body>
<div class="reveal"><div class="slides">
{sections}
</div></div>
<script src="reveal/reveal.js"></script>
<script src="reveal/notes.js"></script>
<script src="slides.js"></script>
</body>
</html>
"""
KEYS = (
    "Arrow keys or space: on, also within a diagram that moves · <b>S</b>: the notes, in a window "
    "of their own · <b>F</b>: full screen · <b>O</b>: all slides · <b>B</b>: dark. Add "
    "<code>?print-pdf</code> to an address to print it."
)


def page(title: str, sections: Iterable[str]) -> str:
    head = _head(title)
    return head + DECK.format(sections="\n".join(sections), own=_own_style())


def _head(title: str) -> str:
    return HEAD.format(title=escape(title), language=language())


def _own_style() -> str:
    """The words that the style sheet says, where they are not English."""
    if language() == ENGLISH:
        return ""
    words = told("(not so in this run)")
    return f'<style>.reveal .not-here .what::after {{ content: " {words}"; }}</style>\n'


def of_lesson(slide: Slide, lesson: Lesson, shown: Shown) -> str:
    kicker = lesson.title if slide.kind != "lesson" else ""
    if slide.section and slide.section not in (slide.title, marks().home):
        kicker += f" · {prose.plain(slide.section)}"
    return section(slide, kicker, _foot(slide, shown), f"{lesson.name}-{slide.id}")


def _foot(slide: Slide, shown: Shown) -> str:
    if slide.is_measured or slide.kind in ("recap", "lesson"):
        if shown.origin:
            return f"{told('Measured')}: {shown.origin.words(language())}"
        if not shown.is_there:
            return told("This lesson was not run for this deck: results are missing.")
    return ""


def section(slide: Slide, kicker: str, foot: str, identifier: str = "") -> str:
    notes = "".join(prose.html(text) for text in slide.notes)
    name = f' id="{escape(identifier)}"' if identifier else ""
    above = f'<p class="kicker">{escape(kicker)}</p>' if kicker else ""
    below = f'<p class="foot">{escape(foot)}</p>' if foot else ""
    return (
        f'<section class="{slide.kind}"{name}>{above}<h2>{prose.inline(slide.title)}</h2>'
        f'<div class="body">{slide.body}</div>{below}<aside class="notes">{notes}</aside></section>'
    )


def index(
    course: Contents,
    lessons: Mapping[str, Lesson],
    decks: Mapping[str, int],
    plans: Sequence[Timetable],
    folder: Path,
) -> str:
    rows = []
    for part, (file, count) in zip(course.parts, decks.items(), strict=True):
        titles = ", ".join(escape(lessons[name].title) for name in part.lessons)
        pdf = file.replace(".html", ".pdf")
        printed = f', <a href="{pdf}">PDF</a>' if (folder / pdf).is_file() else ""
        size = told(f"{count} slides")
        rows.append(
            f'<li><a href="{file}">{escape(part.title)}</a> ({size}{printed})'
            f"<br><small>{titles}</small></li>"
        )
    style = (
        "<style>body{font:17px/1.5 sans-serif;max-width:56em;margin:2em auto;padding:0 1em;"
        "color:#16202c}table{border-collapse:collapse;margin:0 0 1em}td,th{text-align:left;"
        "padding:.2em 1.2em .2em 0;border-bottom:1px solid #d5dbe1;vertical-align:top}"
        "a{color:#0b5d94}small,.cut{color:#5b6773}</style></head><body>"
    )
    tables = "".join(as_html(plan) for plan in plans)
    below = (
        f"<h1>{escape(course.title)}: {told('slides')}</h1><ul>{''.join(rows)}</ul>"
        f"<p>{told(KEYS)}</p><h2>{told('Timetables')}</h2>{tables}</body></html>\n"
    )
    return _head(f"{told('Slides')} · {course.title}") + style + below
