"""The page in the browser: the same rows, and nothing that a learner wrote becomes HTML."""

from __future__ import annotations

import http.client
import socket
import threading
import time
from pathlib import Path

import pytest

from course_lib.classroom import page
from course_lib.classroom.page import ClassServer
from course_lib.classroom.roster import Member, Roster
from course_lib.classroom.snapshot import Exercise, Snapshot

EVIL = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>"


class OverSocket(http.client.HTTPConnection):
    def __init__(self, path: Path):
        super().__init__("localhost")
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(str(self.path))


@pytest.fixture
def served(open_place):
    """A page over the folder; `ask(path)` gives the code, the headers and the text."""
    path = open_place / "socket"
    place = open_place / "class"
    place.mkdir()
    server = ClassServer(str(path), place)
    threading.Thread(target=server.serve_forever, daemon=True).start()

    def ask(where):
        connection = OverSocket(path)
        connection.request("GET", where)
        answer = connection.getresponse()
        return answer.status, dict(answer.headers), answer.read().decode()

    ask.server = server
    yield ask
    server.shutdown()
    server.server_close()


def hostile():
    one = Exercise(tries=3, hint=EVIL, times_met=3)
    shared = Snapshot(
        lesson="00", active_unix_s=time.time(), stuck_on="00.1",
        stuck_unix_s=time.time() - 3600, exercises={"00.1": one},
    )  # fmt: skip
    return Roster((Member(61001, EVIL, shared),), 3)


def test_the_page_may_load_and_run_nothing(served):
    code, headers, text = served("/?x=1")
    assert (code, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert headers["Content-Security-Policy"].startswith("default-src 'none'; style-src")
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert "<script" not in text
    assert "No such file" not in text
    assert served("/other")[0] == served("/../page.py")[0] == 404


def test_who_may_not_look_reads_why(served):
    served.server.place = Path("/nowhere")
    assert "No such file" in served("/")[2]


def test_the_launcher_offers_it_to_those_who_may_look(tmp_path, monkeypatch):
    monkeypatch.setenv("COURSE_CLASS", str(tmp_path))
    assert page.proxy_entry()["launcher_entry"]["enabled"] is True
    monkeypatch.setattr(page.os, "access", lambda *_: False)
    assert page.proxy_entry()["launcher_entry"]["enabled"] is False
    monkeypatch.setenv("COURSE_CLASS", "relative")
    assert page.may_look() is False
    monkeypatch.delenv("COURSE_CLASS")
    assert page.may_look() is False


@pytest.mark.browser
def test_a_name_in_html_is_a_name(served, browser, monkeypatch):
    monkeypatch.setattr(page, "read", lambda place: hostile())
    context = browser.new_context(viewport={"width": 1000, "height": 500})
    window = context.new_page()

    def answer(route):
        path = "/" + route.request.url.split("/", 3)[3]
        code, headers, text = served(path)
        route.fulfill(status=code, headers=headers, body=text)

    window.route("**/*", answer)
    window.goto("http://class.test/")
    window.get_by_text("60 min on 00.1").wait_for()
    assert window.locator("tr.stuck").count() == 2
    assert window.locator("img").count() == 0
    assert EVIL in window.locator("table").first.inner_text()
    assert window.title() == "The class"
    context.close()
