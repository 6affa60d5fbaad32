"""Class overview in an instructor's browser: `python -m course_lib.classroom.page`.

The instructor's own Jupyter server starts the page under the instructor's account. File
permissions therefore decide who sees the class. A learner's page says that only instructors can
see it. All text in the page is escaped, and the page may load and run nothing.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from html import escape
from pathlib import Path
from string import Template
from typing import Any
from urllib.parse import parse_qsl, urlencode

from course_lib.classroom import folder, tables
from course_lib.classroom.snapshot import Roster, read
from course_lib.lab.errors import LabError
from course_lib.lab.jupyter import private_server
from course_lib.words import _, language

REFRESH = '<meta http-equiv="refresh" content="10">'
WEB = Path(__file__).with_name("web")
HEADERS = {
    "Content-Type": "text/html; charset=utf-8",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; "
    "frame-ancestors 'self'; base-uri 'none'; form-action 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


def html(place: Path, query: str = "") -> str:
    """Return the page of the class, of a lesson's guesses, or of a learner's tries."""
    asked = dict(parse_qsl(query))
    heading, links, body = _("The class"), "", []
    try:
        roster, now = read(place), time.time()
    except LabError as error:
        body = [_text("p", error)]
    else:
        lessons = tables.lessons_with_guesses(roster)
        links = _links(lessons, asked)
        sharing = [one for one in roster.members if one.shared.details]
        named = [one for one in sharing if str(one.uid) == asked.get("learner")]
        if named:
            heading = named[0].account
            _learners, exercises = tables.overview(Roster(tuple(named)), now)
            tries = (_("Tries"), tables.TRY_COLUMNS, tables.try_rows(named[0]))
            body = [_table(*exercises), _table(*tries)]
        elif asked.get("guesses") in lessons:
            heading = _("Guesses in lesson {lesson}", lesson=asked["guesses"])
            made = tables.histograms(roster, asked["guesses"])
            body = [_table(name, tables.GUESS_COLUMNS, made[name]) for name in made]
        else:
            body = [
                _text("p", tables.summary(roster, now)),
                *(_table(*one) for one in tables.overview(roster, now)),
                *(_text("p", line) for line in tables.words_below(roster, place)),
            ]
    page = Template((WEB / "class.html").read_text(encoding="utf-8"))
    return page.substitute(
        lang=language(), refresh="" if "still" in asked else REFRESH, heading=escape(heading),
        time=time.strftime("%H:%M:%S"), links=links, body="\n".join(body),
    )  # fmt: skip


def _links(lessons: Sequence[str], asked: Mapping[str, str]) -> str:
    """Return the links to the other pages. The first one stops the page from reloading itself."""
    here = {name: value for name, value in asked.items() if name != "still"}
    still = {"still": "1"} if "still" in asked else {}
    go_on, stop = (_("update every 10 seconds"), here), (_("stop updating"), {**here, "still": "1"})
    pages = [go_on if still else stop, (_("the class"), still)]
    pages += [(_("guesses in {lesson}", lesson=one), {"guesses": one, **still}) for one in lessons]
    return "\n".join(_link(*page) for page in pages)


def _link(text: str, query: Mapping[str, Any]) -> str:
    return f'<a href="?{escape(urlencode(query))}">{escape(text)}</a>'


def _text(tag: str, text: object) -> str:
    return f"<{tag}>{escape(str(text))}</{tag}>"


def _table(caption: str, columns: Sequence[str], rows: Sequence[dict[str, Any]]) -> str:
    heads = "".join(f'<th scope="col">{escape(_(name))}</th>' for name in columns)
    lines = [f"{_text('caption', caption)}<tr>{heads}</tr>"]
    most = max((row["learners"] for row in rows if "learners" in row), default=0)
    for row in rows:
        first, *others = [escape(str(row[name])) for name in columns]
        if row.get("uid") is not None:
            first = _link(row["learner"], {"learner": row["uid"]})
        if "learners" in row:
            width = 12 * row["learners"] / most
            others[0] = f'<i class="bar" style="width: {width:.1f}rem"></i>{others[0]}'
        cells = "".join(f"<td>{cell}</td>" for cell in others)
        kind = ' class="marked"' if row.get("is_marked") else ""
        lines.append(f'<tr{kind}><th scope="row">{first}</th>{cells}</tr>')
    return f"<table>{''.join(lines)}</table>" if rows else ""


def app(place: Path) -> Callable[..., Any]:
    """Return the page as an app. Its only address is `/`."""
    from werkzeug.wrappers import Request, Response

    @Request.application
    def answer(request: Request) -> Response:
        if request.path != "/":
            return Response("no such page\n", 404, headers=HEADERS)
        return Response(html(place, request.query_string.decode("latin-1")), headers=HEADERS)

    return answer


def app_of_class() -> Callable[..., Any]:
    return app(folder.place() or Path(f"(no folder: {folder.SETTING} is not set)"))


def proxy_entry() -> dict[str, Any]:
    """Return the entry for jupyter-server-proxy, with a launcher tile for instructors."""
    return private_server.proxy_entry(
        __name__, enabled=may_look(), title="The class", icon_path=str(WEB / "icon.svg")
    )


def may_look() -> bool:
    try:
        place = folder.place()
    except LabError:
        return False
    return place is not None and os.access(place, os.R_OK)


if __name__ == "__main__":
    private_server.serve("course_lib.classroom.page", app_of_class)
