"""Logs in on the hub as a test user, starts the server, and runs the first cell of lesson 00.

    python deploy/jupyterhub/log_in.py http://127.0.0.1:8000 NAME      # asks for the password

It takes the way of a learner's browser, so it finds what a learner would find. At the end it stops
what it has started. `course rehearse --hub` calls it."""

from __future__ import annotations

import argparse
import getpass
import json
import sys
import time
import uuid
from collections.abc import Iterator
from typing import Any

import httpx
import websocket

from course_lib.lab.doctor.findings import Finding, bad, good, report

LESSON = "notebooks/00_the_lab.ipynb"
# As long as the hub waits for a server (start_timeout), and a little more.
PATIENCE_S = 150.0
WELL = "A learner can log in and work."
PLACE = "deploy/jupyterhub"
CALLER = "import sys\nprint(sys.executable)\nimport course_lib"


class Fault(Exception):
    """A fault that stops a learner. The arguments are the fault and its cure."""


class Visit:
    """One visit to the hub, which ends what it has started."""

    def __init__(self, url: str, user: str) -> None:
        self.url, self.user = url.rstrip("/"), user
        self.hub = httpx.Client(follow_redirects=True, timeout=PATIENCE_S)
        self.api = f"{self.url}/hub/api/users/{user}"
        self.server = f"{self.url}/user/{user}/api"
        self.token: dict[str, Any] = {}
        self.has_started = False
        self.kernel = ""

    def steps(self, password: str) -> Iterator[Finding]:
        yield good(f"{self.url} answers: JupyterHub {self.version()}")
        self.log_in(password)
        yield good(f"{self.user} can log in")
        began = time.monotonic()
        self.start()
        yield good(f"the server of {self.user} was there after {time.monotonic() - began:.0f} s")
        cell, kernel_name = self.first_cell()
        began = time.monotonic()
        python = self.start_kernel(kernel_name)
        yield good(f"a kernel runs with {python}")
        cure = "`course doctor` in a terminal of this user finds what is missing"
        self.run(cell, "the first cell of lesson 00", cure)
        yield good(f"the first cell of lesson 00 ran after {time.monotonic() - began:.0f} s")

    def version(self) -> str:
        try:
            return str(self.hub.get(f"{self.url}/hub/api/").raise_for_status().json()["version"])
        except (httpx.HTTPError, ValueError, KeyError, TypeError) as error:
            raise Fault(
                f"no hub answers at {self.url}: {error}",
                f"start it ({PLACE}/README.md), or name its address",
            ) from error

    def log_in(self, password: str) -> None:
        self.hub.get(f"{self.url}/hub/login")
        form = {"username": self.user, "password": password, "_xsrf": self.xsrf()}
        self.hub.post(f"{self.url}/hub/login", data=form, follow_redirects=False)
        answer = self.hub.post(
            f"{self.api}/tokens", json={"note": "rehearsal", "expires_in": 3600},
            headers={"X-XSRFToken": self.xsrf(), "Referer": f"{self.url}/hub/home"},
        )  # fmt: skip
        if answer.status_code != 201:
            raise Fault(
                f"the hub refuses {self.user}: {_message(answer)}",
                "take the password of this account; USERS in jupyterhub_config.py, if not empty, "
                "must hold its name, and the hub's log says more",
            )
        self.token = answer.json()
        self.hub.headers["Authorization"] = f"token {self.token['token']}"

    def xsrf(self) -> str:
        """Return the newest of the hub's cookies against forged requests."""
        found = [cookie.value for cookie in self.hub.cookies.jar if cookie.name == "_xsrf"]
        return str(found[-1]) if found else ""

    def start(self) -> None:
        answer = self.hub.post(f"{self.api}/server")
        self.has_started = answer.status_code in (201, 202)
        try:
            with self.hub.stream("GET", f"{self.api}/server/progress") as lines:
                for line in lines.iter_lines():
                    event = json.loads(line[5:]) if line.startswith("data:") else {}
                    if event.get("ready"):
                        return
                    if event.get("failed"):
                        raise Fault(
                            f"the server of {self.user} does not start: {event.get('message')}",
                            f"the hub's log has its output; {PLACE}/access.py {self.user} tries "
                            "what a server needs",
                        )
        except (httpx.HTTPError, ValueError) as error:
            raise Fault(
                f"the server of {self.user} is not there: {error}", "see the hub's log"
            ) from error
        raise Fault(f"the hub started no server: {_message(answer)}", "see the hub's log")

    def first_cell(self) -> tuple[str, str]:
        answer = self.hub.get(f"{self.server}/contents/{LESSON}")
        if answer.status_code != 200:
            raise Fault(
                f"{self.user} has no {LESSON}: {_message(answer)}",
                "set COURSE_COPY_LESSONS = True in jupyterhub_config.py; if it is set, "
                "`course lessons update` as this user says what is wrong",
            )
        notebook = answer.json()["content"]
        cell = next(cell for cell in notebook["cells"] if cell["cell_type"] == "code")
        return cell["source"], notebook["metadata"]["kernelspec"]["name"]

    def start_kernel(self, name: str) -> str:
        """Return the kernel's Python."""
        specs = self.hub.get(f"{self.server}/kernelspecs").json()["kernelspecs"]
        python = specs.get(name, {}).get("spec", {}).get("argv", ["?"])[0]
        cure = (
            f"the kernel {name!r} of this user hides the kernel of the course: as this user, "
            "`jupyter kernelspec list` says where it lies; remove it"
        )
        answer = self.hub.post(f"{self.server}/kernels", json={"name": name, "path": LESSON})
        if answer.status_code != 201:
            raise Fault(f"no kernel starts with {python}: {_message(answer)}", cure)
        self.kernel = answer.json()["id"]
        try:
            return self.run(CALLER, f"the course in {python}", cure).partition("\n")[0]
        except (OSError, websocket.WebSocketException) as error:
            raise Fault(f"the kernel with {python} does not answer: {error}", cure) from error

    def run(self, code: str, what: str, cure: str) -> str:
        """Run code in the kernel and return its output."""
        where = f"{self.server}/kernels/{self.kernel}/channels".replace("http", "ws", 1)
        line = websocket.create_connection(
            where,
            timeout=PATIENCE_S,
            header=[f"Authorization: {self.hub.headers['Authorization']}"],
        )
        asked = {"msg_id": uuid.uuid4().hex, "msg_type": "execute_request", "username": "",
                 "session": uuid.uuid4().hex, "version": "5.3"}  # fmt: skip
        request = {"code": code, "silent": False, "allow_stdin": False}
        line.send(json.dumps({"header": asked, "parent_header": {}, "metadata": {},
                              "content": request, "channel": "shell"}))  # fmt: skip
        said = ""
        # Output may arrive after the reply, but not after the kernel says that it is idle.
        is_done = is_idle = False
        until = time.monotonic() + PATIENCE_S
        try:
            while time.monotonic() < until and not (is_done and is_idle):
                got = json.loads(line.recv())
                kind, content = got["header"]["msg_type"], got["content"]
                if kind == "status" and content["execution_state"] == "dead":
                    raise Fault(f"{what}: the kernel has died", cure)
                if got["parent_header"].get("msg_id") != asked["msg_id"]:
                    continue
                if kind == "stream":
                    said += content["text"]
                if kind == "status" and content["execution_state"] == "idle":
                    is_idle = True
                if kind == "execute_reply":
                    is_done = True
                    if content["status"] != "ok":
                        error = f"{content.get('ename')}: {content.get('evalue')}"
                        raise Fault(f"{what} fails: {error}", cure)
        finally:
            line.close()
        if is_done:
            return said
        raise Fault(f"{what} did not end in {PATIENCE_S:.0f} s", cure)

    def end(self) -> None:
        """End the kernel and the server that this visit has started, and delete its token."""
        if self.kernel:
            self.hub.delete(f"{self.server}/kernels/{self.kernel}")
        if self.has_started:
            self.hub.delete(f"{self.api}/server")
        if self.token:
            self.hub.delete(f"{self.api}/tokens/{self.token['id']}")
        self.hub.close()


def _message(answer: httpx.Response) -> str:
    try:
        said = answer.json().get("message")
    except (ValueError, AttributeError):
        said = ""
    return str(said or f"{answer.status_code} {answer.reason_phrase}")


def visited(url: str, user: str, password: str) -> list[Finding]:
    visit, found = Visit(url, user), []
    try:
        for finding in visit.steps(password):
            found.append(finding)
    except Fault as fault:
        found.append(bad(*fault.args))
    except (httpx.HTTPError, OSError, ValueError, KeyError, websocket.WebSocketException) as error:
        found.append(
            bad(f"the hub answers otherwise than expected: {error!r}", "see the hub's log")
        )
    try:
        visit.end()
    except httpx.HTTPError as error:
        found.append(bad(f"what was started may still run: {error}", "see the page hub/admin"))
    return found


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("hub")
    options.add_argument("user")
    given = options.parse_args()
    ask = (
        getpass.getpass if sys.stdin.isatty() else lambda _prompt: sys.stdin.readline().rstrip("\n")
    )
    text, is_well = report(
        visited(given.hub, given.user, ask(f"password of {given.user}: ")), well=WELL
    )
    print(text)
    return 0 if is_well else 1


if __name__ == "__main__":
    sys.exit(main())
