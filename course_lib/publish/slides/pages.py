"""HTML around the slides: the decks, and the page that links them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path

from course_lib.publish.book.contents import Contents
from course_lib.publish.book.page import Shown
from course_lib.publish.building.source import Lesson
from course_lib.publish.slides import prose
from course_lib.publish.slides.marks import marks
from course_lib.publish.slides.slide import Slide
from course_lib.publish.slides.timetable import Timetable
from course_lib.words import N_, _, language

# The policy forbids loading anything from the web.
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
DECK = """<link rel="stylesheet" href="reveal/reveal.css">
<link rel="stylesheet" href="slides.css">
</head>
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
KEYS = N_(
    "Arrow keys or space: on, also within a diagram that moves · <b>S</b>: the "
    "notes, in a window of their own · <b>F</b>: full screen · <b>O</b>: all slides "
    "· <b>B</b>: dark. Add <code>?print-pdf</code> to an address to print it."
)


def page(title: str, sections: Iterable[str]) -> str:
    return _head(title) + DECK.format(sections="\n".join(sections))


def _head(title: str) -> str:
    return HEAD.format(title=escape(title), language=language())


def of_lesson(slide: Slide, lesson: Lesson, shown: Shown) -> str:
    kicker = lesson.title if slide.kind != "lesson" else ""
    if slide.section and slide.section not in (slide.title, marks().home):
        kicker += f" · {prose.plain(slide.section)}"
    return section(slide, kicker, _foot(slide, shown), f"{lesson.name}-{slide.id}")


def _foot(slide: Slide, shown: Shown) -> str:
    if slide.is_measured or slide.kind in ("recap", "lesson"):
        if shown.origin:
            return f"{_('Measured')}: {shown.origin.words()}"
        if not shown.is_there:
            return _("This lesson was not run for this deck: results are missing.")
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
        size = _("{count} slides", count=count)
        rows.append(
            f'<li><a href="{file}">{escape(part.title)}</a> ({size}{printed})'
            f"<br><small>{titles}</small></li>"
        )
    style = (
        "<style>body{font:17px/1.5 sans-serif;max-width:56em;margin:2em auto;padding:0 1em;"
        "color:#16202c}a{color:#0b5d94}small{color:#5b6773}"
        "pre{white-space:pre-wrap}</style></head><body>"
    )
    tables = escape("\n\n".join(map(str, plans)))
    below = (
        f"<h1>{escape(course.title)}: {_('slides')}</h1><ul>{''.join(rows)}</ul>"
        f"<p>{KEYS}</p><h2>{_('Timetables')}</h2><pre>{tables}</pre></body></html>\n"
    )
    return _head(f"{_('Slides')} · {course.title}") + style + below
