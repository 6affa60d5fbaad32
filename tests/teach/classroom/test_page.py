"""The page in the browser: the same rows, and nothing that a learner wrote becomes HTML."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from pathlib import Path

import pytest

from course_lib.lab.job.site import preset
from course_lib.teach.classroom import page
from course_lib.teach.classroom.class_queue import ClassQueue
from course_lib.teach.classroom.page import ClassServer, View
from course_lib.teach.classroom.roster import Member, Reader, Roster
from course_lib.teach.classroom.snapshot import Exercise, Snapshot

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
    server = ClassServer(str(path), View(Reader(place), ClassQueue(preset("box"))))
    threading.Thread(target=server.serve_forever, daemon=True).start()

    def ask(where):
        connection = OverSocket(path)
        connection.request("GET", where)
        answer = connection.getresponse()
        return answer.status, dict(answer.headers), answer.read().decode()

    ask.view = server.view
    yield ask
    server.shutdown()
    server.server_close()


def hostile():
    one = Exercise(tries=3, hint=EVIL, times_met=3)
    shared = Snapshot(
        lesson="00", active_unix_s=time.time(), stuck_on="00.1",
        stuck_unix_s=time.time() - 3600, exercises={"00.1": one},
    )  # fmt: skip
    return Roster((Member(61001, EVIL, shared),), {EVIL: 3})


def test_the_page_may_load_nothing_but_its_own(served):
    kinds = {"/": "text/html", "/class.js": "text/javascript", "/class.css": "text/css"}
    for where, kind in kinds.items():
        code, headers, text = served(where)
        assert (code, headers["Content-Type"]) == (200, f"{kind}; charset=utf-8")
        assert headers["Content-Security-Policy"].startswith(
            "default-src 'none'; script-src 'self'"
        )
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert "http://" not in text.replace("http://www.w3.org", "")
        assert "innerHTML" not in text


@pytest.mark.parametrize("where", ["/other", "/../page.py", "/class.js/../../page.py", "/%00"])
def test_there_are_no_other_pages(served, where):
    assert served(where)[0] == 404


def test_the_table_is_json_with_everything_in_it(served, monkeypatch):
    monkeypatch.setattr(Reader, "read", lambda self: hostile())
    code, headers, text = served("/table?x=1")
    assert (code, headers["Content-Type"]) == (200, "application/json; charset=utf-8")
    found = json.loads(text)
    assert found["learners"][0]["learner"] == EVIL
    assert found["learners"][0]["is_stuck"] is True
    assert found["exercises"][0]["stuck now"] == 1
    assert len(found["below"]) == 2


def test_two_windows_get_one_answer(served, monkeypatch):
    looked = []
    monkeypatch.setattr(Reader, "read", lambda self: looked.append(1) or Roster())
    for _ in range(5):
        served("/table")
    assert len(looked) == 1


def test_who_may_not_look_reads_why(served, monkeypatch):
    served.view.reader.place = Path("/nowhere")
    assert "No such file" in json.loads(served("/table")[2])["problem"]


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
    monkeypatch.setattr(Reader, "read", lambda self: hostile())
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
    assert EVIL in window.locator("#learners").inner_text()
    assert window.title() == "The class"
    context.close()
