"""The page in the browser has the same rows, and no learner's text becomes HTML."""

from __future__ import annotations

import http.client
import os
import socket
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from course_lib.classroom import page
from course_lib.classroom.snapshot import Exercise, Guess, Member, Roster, Snapshot, Try
from course_lib.lab.jupyter.private_server import open_server

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
    before = os.umask(0)
    server = open_server(str(path), page.app(place))
    os.umask(before)
    threading.Thread(target=server.serve_forever, daemon=True).start()

    def ask(where):
        connection = OverSocket(path)
        connection.request("GET", where)
        answer = connection.getresponse()
        return answer.status, dict(answer.headers), answer.read().decode()

    yield ask
    server.shutdown()
    server.server_close()


def hostile():
    one = Exercise(tries=3, hint=EVIL)
    shared = Snapshot(
        lesson="00", active_unix_s=time.time(), stuck_on="00.1",
        stuck_unix_s=time.time() - 3600, exercises={"00.1": one},
    )  # fmt: skip
    guess = Guess(guess=EVIL, measured=EVIL, unit=EVIL)
    made = replace(
        shared, guesses={f"00: {EVIL}": guess}, details=True, help_unix_s=time.time() - 120,
        tries=[Try(exercise="00.1", unix_s=time.time(), hint=EVIL)],
    )  # fmt: skip
    return Roster((Member(61001, EVIL, made), Member(61002, "bob", shared)), 3)


def test_the_page_may_load_and_run_nothing(served):
    code, headers, text = served("/?x=1")
    assert (code, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert headers["Content-Security-Policy"].startswith("default-src 'none'; style-src")
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert "<script" not in text
    assert "No such file" not in text
    assert served("/other")[0] == served("/../page.py")[0] == 404


def test_who_may_not_look_reads_why():
    assert "No such file" in page.html(Path("/nowhere"))


def test_the_launcher_offers_the_page_only_to_instructors(tmp_path, monkeypatch):
    monkeypatch.setenv("COURSE_CLASS", str(tmp_path))
    assert page.proxy_entry()["launcher_entry"]["enabled"] is True
    monkeypatch.setattr(page.os, "access", lambda *_: False)
    assert page.proxy_entry()["launcher_entry"]["enabled"] is False
    monkeypatch.setenv("COURSE_CLASS", "relative")
    assert page.may_look() is False
    monkeypatch.delenv("COURSE_CLASS")
    assert page.may_look() is False


def test_tries_are_shown_of_learners_who_share_them(monkeypatch, tmp_path):
    monkeypatch.setattr(page, "read", lambda place: hostile())
    assert "<caption>Tries</caption>" in page.html(tmp_path, "learner=61001")
    for asked in ("learner=61002", "learner=99", "learner=", "guesses=99", "guesses=%00", "&&=;"):
        assert "<caption>Learners</caption>" in page.html(tmp_path, asked), asked


def test_the_tables_speak_the_language_of_the_instructor(monkeypatch, tmp_path):
    monkeypatch.setattr(page, "read", lambda place: hostile())
    monkeypatch.setenv("COURSE_LANGUAGE", "ko")
    text = page.html(tmp_path)
    assert '<th scope="col">도움 요청</th>' in text
    assert "00.1에서 60분" in text


@pytest.fixture
def window(served, browser, monkeypatch):
    """The page of a hostile class in a browser."""
    monkeypatch.setattr(page, "read", lambda place: hostile())
    context = browser.new_context(viewport={"width": 1000, "height": 500})
    window = context.new_page()

    def answer(route):
        path = "/" + route.request.url.split("/", 3)[3]
        code, headers, text = served(path)
        route.fulfill(status=code, headers=headers, body=text)

    window.route("**/*", answer)
    window.goto("http://class.test/")
    yield window
    context.close()


@pytest.mark.browser
@pytest.mark.parametrize("query", ["", "?guesses=00", "?learner=61001"])
def test_a_name_in_html_is_a_name(window, query):
    window.goto(f"http://class.test/{query}")
    window.locator("tr.marked").first.wait_for()
    assert window.locator("img, script").count() == 0
    assert EVIL in window.locator("main").inner_text()
    assert window.title() in ("The class", "Guesses in lesson 00", EVIL)


@pytest.mark.browser
def test_the_keyboard_stops_the_updates_and_reaches_guesses_and_tries(window):
    assert window.locator("meta[http-equiv=refresh]").count() == 1
    for press in ("Tab", "Enter"):
        window.keyboard.press(press)
    window.get_by_role("link", name="update every 10 seconds").wait_for()
    assert window.locator("meta[http-equiv=refresh]").count() == 0
    learners = window.get_by_role("table", name="Learners")
    assert learners.get_by_role("columnheader", name="asks for help").is_visible()
    assert learners.get_by_role("row", name="for 2 min 00.1").get_by_role("rowheader").is_visible()
    for press in ("Tab", "Tab", "Tab", "Enter"):
        window.keyboard.press(press)
    window.get_by_role("heading", name="Guesses in lesson 00").wait_for()
    window.get_by_role("link", name="the class").press("Enter")
    learners.get_by_role("link").press("Enter")
    window.get_by_role("table", name="Tries").wait_for()
