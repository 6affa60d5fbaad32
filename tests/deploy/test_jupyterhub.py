"""Two users of the hub: each has lesson 00 and a TensorBoard, and cannot reach the other's."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from pathlib import Path

import psutil
import pytest

TESTS = Path(__file__).parents[1]
sys.path[:0] = [
    str(Path(__file__).parent),
    str(TESTS / "browser"),
    str(TESTS / "lab" / "tensorboard"),
]
from board import wait_until  # noqa: E402
from lab_page import LabPage, write_settings  # noqa: E402
from listening import ports, reached_by, sockets  # noqa: E402
from shared_machine import accounts, needed_folders, opened  # noqa: E402

from course_lib.classroom import tables  # noqa: E402
from course_lib.teach import progress  # noqa: E402

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(900)]
USERS = (f"course-a{os.getpid() % 10000}", f"course-b{os.getpid() % 10000}")
PASSWORD = "open sesame"
HOMES = Path("/home")
PORT = 8765
HUB = f"http://127.0.0.1:{PORT}"
PLACES = (
    "api/contents", "api/kernels", "api/sessions", "api/terminals", "api/kernelspecs", "api/me",
    "files/notebooks/00_the_lab.ipynb", "tensorboard/", "proxy/6006/", "proxy/absolute/22/",
    "terminals/websocket/1", "api/kernels/1/channels", "lab/tree/notebooks", "metrics",
)  # fmt: skip
"""Of a user's server, with all that is behind it."""
OVERRIDES = f"""
load_subconfig(CONFIG)
c.JupyterHub.bind_url = {HUB!r}
c.JupyterHub.hub_bind_url = "http://127.0.0.1:{PORT + 1}"
c.ConfigurableHTTPProxy.api_url = "http://127.0.0.1:{PORT + 2}"
c.Authenticator.allowed_users = {set(USERS)!r}
c.Authenticator.allow_all = False
"""


@pytest.fixture(scope="module")
def machine(need, lacking):
    """A machine on which the hub can be started, with two accounts."""
    proxy = Path(sys.prefix) / "share/course/hub/node_modules/.bin/configurable-http-proxy"
    if importlib.util.find_spec("jupyterhub") is None or not proxy.exists():
        lacking("no JupyterHub here: bash deploy/jupyterhub/setup.sh")
    if os.getuid() != 0:
        lacking("only root can make two accounts and start servers for them")
    need("useradd", "chpasswd", "unshare", "node")
    with accounts(*USERS, password=PASSWORD):
        for user in USERS:
            _prepare(HOMES / user, user)
        yield


@contextlib.contextmanager
def running_hub(folder: Path, repository: Path, more: str = ""):
    config = folder / "config.py"
    ours = str(repository / "deploy/jupyterhub/jupyterhub_config.py")
    config.write_text(f"CONFIG = {ours!r}\n{OVERRIDES}{more}")
    command = [sys.executable, "-m", "jupyterhub", "--config", str(config)]
    with (folder / "hub.log").open("w") as log:
        process = subprocess.Popen(
            opened(command, needed_folders(repository)),
            cwd=folder, stdout=log, stderr=subprocess.STDOUT,
        )  # fmt: skip
        try:
            wait_until(lambda: "JupyterHub is now running" in (folder / "hub.log").read_text())
            yield process
        finally:
            everyone = psutil.Process(process.pid).children(recursive=True)
            process.send_signal(signal.SIGTERM)
            _, left = psutil.wait_procs([*everyone, process], timeout=20)
            for one in left:
                one.kill()


@pytest.fixture(scope="module")
def hub(machine, tmp_path_factory, repository):
    """The folder in which the hub keeps its data. An older hub left files there that all accounts
    could read."""
    folder = tmp_path_factory.mktemp("hub")
    (folder / "jupyterhub.sqlite").touch(mode=0o644)
    with running_hub(folder, repository):
        yield folder


def _prepare(home: Path, user: str) -> None:
    write_settings(home / ".jupyter/lab/user-settings")
    shutil.chown(home, user, user)
    for path in home.rglob("*"):
        shutil.chown(path, user, user)


@pytest.fixture
def log_in(hub, browser):
    contexts = []

    def enter(user: str):
        context = browser.new_context(viewport={"width": 1280, "height": 900})
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(120_000)
        page.goto(f"{HUB}/hub/login")
        page.fill("input[name=username]", user)
        page.fill("input[name=password]", PASSWORD)
        page.click("input[type=submit], button[type=submit]")
        page.wait_for_url(f"**/user/{user}/**")
        return page

    yield enter
    for context in contexts:
        context.close()


def test_each_user_runs_the_first_lesson_and_sees_only_their_own(hub, log_in, repository):
    pages = {}
    for user in USERS:
        page = log_in(user)
        lesson = HOMES / user / "course" / "notebooks" / "00_the_lab.ipynb"
        notebook = LabPage(page, lesson)
        notebook.wait_until_open()  # the hub brings its users to the first lesson
        notebook.guess(repository)
        notebook.run_all()
        pages[user] = notebook
    for user, notebook in pages.items():
        notebook.wait_until_idle()
        assert list(notebook.failures()) == ["ex1-check"], notebook.failures()
        assert "✗" in notebook.output("ex1-check")
        runs = list((HOMES / user / "course" / "runs").iterdir())
        assert any(run.name.startswith("hello-") for run in runs)
        assert {run.owner() for run in runs} == {user}
    for user, other in (USERS, USERS[::-1]):
        kernels = _processes(user, "course_lib.lab.jupyter.kernel -f")
        bound = {path for kernel in kernels for path in sockets(kernel)}
        assert kernels
        assert [ports(kernel) for kernel in kernels] == [[] for _ in kernels]
        assert reached_by(user, bound), "the owner reaches them: the attempt itself works"
        assert reached_by(other, bound) == [], f"{other} can listen to the kernel of {user}"
    for user, other in (USERS, USERS[::-1]):
        page = pages[user].page
        page.goto(f"{HUB}/user/{user}/tensorboard/")
        page.get_by_text("TensorBoard", exact=False).first.wait_for()
        assert _boards(user), "TensorBoard runs, as this user"
        page = page.context.new_page()  # the first one reloads itself until TensorBoard is there
        answer = page.goto(f"{HUB}/user/{other}/tensorboard/")
        assert answer.status in (403, 404), "the other's TensorBoard must not answer"
        api = page.goto(f"{HUB}/user/{other}/api/contents/notebooks")
        assert api.status in (403, 404)
    for user, other in (USERS, USERS[::-1]):
        for private in (HOMES / other / "course", *_sockets(other)):
            looked = subprocess.run(
                ["su", user, "-c", f"ls {private}/ || cat {private}"],
                capture_output=True, text=True, check=False,
            )  # fmt: skip
            assert looked.returncode != 0, f"{user} could look into {private}: {looked.stdout}"


def test_no_learner_reaches_the_server_of_another(hub, log_in):
    pages = {user: log_in(user) for user in USERS}
    for user, other in (USERS, USERS[::-1]):
        server = _server(user)
        (port,) = ports(server)
        page = pages[other].context.new_page()  # with the other's own cookies
        for place in (f"{HUB}/user/{user}", f"http://127.0.0.1:{port}/user/{user}"):
            reached = {path: page.goto(f"{place}/{path}").status for path in PLACES}
            assert set(reached.values()) <= {401, 403, 404}, (place, reached)
        assert _says(user, server.pid), "its owner reads it: the attempt itself works"
        assert not _says(other, server.pid), "whose token is in there"
        for process in [server, *server.children(recursive=True)]:
            words = " ".join(process.cmdline())
            assert not [word for word in _secrets(server) if word in words], words


def _server(user: str) -> psutil.Process:
    """Return the newest server, because a server of another hub may still run."""
    found = [one for one in _processes(user, "jupyterhub-singleuser") if ports(one)]
    return max(found, key=psutil.Process.create_time)


def _secrets(server: psutil.Process) -> list[str]:
    names = ("JUPYTERHUB_API_TOKEN", "JPY_API_TOKEN", "CONFIGPROXY_AUTH_TOKEN")
    environment = server.environ()
    return [environment[name] for name in names if environment.get(name)]


def _says(account: str, pid: int) -> str:
    """Return the environment of a process, as far as the account can read it."""
    done = subprocess.run(
        ["su", account, "-c", f"cat /proc/{pid}/environ"],
        capture_output=True, text=True, errors="replace", check=False,
    )  # fmt: skip
    return done.stdout


def test_the_limits_hold_in_the_user_s_server(hub, log_in):
    user = USERS[0]
    log_in(user)
    servers = _processes(user, "singleuser")
    limits = Path(f"/proc/{servers[0].pid}/limits").read_text()
    assert "Max processes             2000                 2000" in limits
    assert f"Max data size             {8 * 2**30}           {8 * 2**30}" in limits
    assert servers[0].nice() == 5


def test_other_users_cannot_read_the_files_of_the_hub(hub):
    for name in ("jupyterhub.sqlite", "jupyterhub_cookie_secret"):
        assert (hub / name).stat().st_mode & 0o777 == 0o600, name


def test_a_hub_whose_learners_could_not_read_the_course_does_not_start(
    machine, tmp_path, repository
):
    images = repository / "images"
    config = repository / "deploy/jupyterhub/jupyterhub_config.py"
    hub = f"{sys.executable} -m jupyterhub --config {config}"
    closed = f"mount -t tmpfs -o mode=700 tmpfs '{images}' && exec {hub}"
    done = subprocess.run(
        ["unshare", "--mount", *opened(["bash", "-c", closed], needed_folders(repository))],
        cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert f"nobody cannot start a server: {images} cannot be read" in done.stderr
    assert "not started" in done.stderr


def test_who_is_not_allowed_does_not_come_in(hub, browser):
    page = browser.new_page()
    page.goto(f"{HUB}/hub/login")
    page.fill("input[name=username]", "root")
    page.fill("input[name=password]", PASSWORD)
    page.click("input[type=submit], button[type=submit]")
    page.get_by_text("Invalid username or password").wait_for(timeout=60_000)
    page.close()


def _runs(process: psutil.Process, word: str) -> bool:
    """Tell whether a process still runs."""
    with contextlib.suppress(psutil.Error):
        return word in " ".join(process.cmdline())
    return False


def _boards(user: str) -> list[psutil.Process]:
    return _processes(user, "course_lib.lab.tensorboard")


def _processes(user: str, word: str) -> list[psutil.Process]:
    everything = psutil.process_iter(["username", "cmdline"])
    mine = [one for one in everything if one.info["username"] == user]
    return [one for one in mine if word in " ".join(one.info["cmdline"] or ())]


def _sockets(user: str) -> list[Path]:
    found = [connection.laddr for board in _boards(user)
             for connection in board.net_connections("unix")]  # fmt: skip
    return [Path(address) for address in found if address.startswith("/")]


IMPATIENT = f"http://127.0.0.1:{PORT + 100}"
CULL_SOON = (
    f"""
c.JupyterHub.bind_url = {IMPATIENT!r}
c.JupyterHub.hub_bind_url = "http://127.0.0.1:{PORT + 101}"
c.ConfigurableHTTPProxy.api_url = "http://127.0.0.1:{PORT + 102}"
"""
    + """
[culler] = c.JupyterHub.services
*command, timeout = culler["command"]
assert timeout == "--timeout=7200"
culler["command"] = [*command, "--timeout=3", "--cull-every=1"]
c.JupyterHub.services.append({"name": "test", "api_token": "of-the-test"})
c.JupyterHub.load_roles.append({"name": "test", "services": ["test"], "scopes": ["admin:servers"]})
c.JupyterHub.load_roles.append({"name": "test2", "services": ["test"], "scopes": ["admin:users"]})
"""
)


def test_an_idle_server_is_ended(machine, tmp_path, repository):
    user = USERS[0]
    with running_hub(tmp_path, repository, CULL_SOON) as hub:

        def servers() -> list[psutil.Process]:
            below = psutil.Process(hub.pid).children(recursive=True)
            return [one for one in below if _runs(one, "singleuser")]

        for path in (f"users/{user}", f"users/{user}/server"):
            asked = urllib.request.Request(
                f"{IMPATIENT}/hub/api/{path}", method="POST",
                headers={"Authorization": "token of-the-test"},
            )  # fmt: skip
            with contextlib.suppress(urllib.error.HTTPError):  # the account may be known already
                urllib.request.urlopen(asked, timeout=120).close()
        wait_until(servers)
        wait_until(lambda: not servers())


OF_A_CLASS = f"http://127.0.0.1:{PORT + 200}"
PORTS_OF_A_CLASS = "".join(
    f"c.{name} = 'http://127.0.0.1:{PORT + 200 + number}'\n"
    for number, name in enumerate(
        ("JupyterHub.bind_url", "JupyterHub.hub_bind_url", "ConfigurableHTTPProxy.api_url")
    )
)
WITH_A_CLASS = """
from pathlib import Path
text = Path(CONFIG).read_text().replace('CLASS_FOLDER = ""', f"CLASS_FOLDER = {PLACE!r}")
text = text.replace("INSTRUCTORS: set[str] = set()", f"INSTRUCTORS = {{{TEACHER!r}}}")
text = text.replace("INSTRUCTORS_ARE_ADMINS = False", "INSTRUCTORS_ARE_ADMINS = True")
exec(compile(text, CONFIG, "exec"), {**globals(), "__file__": CONFIG})
"""


@pytest.fixture
def class_place(machine):
    place = Path(tempfile.mkdtemp(prefix="course-hub-class-")) / "class"
    place.parent.chmod(0o755)
    yield place
    shutil.rmtree(place.parent)
    subprocess.run(["groupdel", "course-instructors"], check=False)


@contextlib.contextmanager
def logged_in(browser, where, user):
    context = browser.new_context()
    page = context.new_page()
    page.set_default_timeout(120_000)
    page.goto(f"{where}/hub/login")
    page.fill("input[name=username]", user)
    page.fill("input[name=password]", PASSWORD)
    page.click("input[type=submit], button[type=submit]")
    page.wait_for_url(f"**/user/{user}/**")
    yield page
    context.close()


def test_instructors_see_the_class_and_learners_do_not(class_place, browser, tmp_path, repository):
    teacher, pupil = USERS
    (HOMES / pupil / "course" / progress.FILE).unlink(missing_ok=True)  # tries of the tests above
    of_the_class = f"PLACE, TEACHER = {str(class_place)!r}, {teacher!r}\n"
    with running_hub(tmp_path, repository, of_the_class + WITH_A_CLASS + PORTS_OF_A_CLASS):
        with logged_in(browser, OF_A_CLASS, pupil) as page:
            lesson = LabPage(page, HOMES / pupil / "course" / "notebooks" / "00_the_lab.ipynb")
            lesson.wait_until_open()
            lesson.run("begin")
            lesson.type_into("share", "share_progress(True)")
            lesson.run("share")
            lesson.type_into("ex2-check", "check.ex00_device_seconds(1, None)")
            for _ in range(3):
                lesson.run("ex2-check")
                lesson.wait_until_idle()
            lesson.type_into("share", "from course_lib import help_me\nhelp_me()")
            lesson.run("share")
            lesson.wait_until_idle()
            page.goto(f"{OF_A_CLASS}/user/{pupil}/class/")
            page.get_by_text("only instructors can look").wait_for()
        with logged_in(browser, OF_A_CLASS, teacher) as page:
            page.goto(f"{OF_A_CLASS}/user/{teacher}/class/")
            row = page.get_by_role("row").filter(has_text=pupil)
            row.wait_for()
            shown = dict(
                zip(tables.LEARNER_COLUMNS, row.locator("th, td").all_inner_texts(), strict=True)
            )
            assert (shown["lesson"], shown["tries"]) == ("00", "3")
            assert re.fullmatch(r"for \d+ min 00\.2", shown["asks for help"]), shown
            assert shown["last hint"]
            page.goto(f"{OF_A_CLASS}/hub/admin")
            page.get_by_text(pupil).first.wait_for()
            for path in ("class/", "api/contents/notebooks", "lab"):
                answer = page.goto(f"{OF_A_CLASS}/user/{pupil}/{path}")
                assert answer.status in (403, 404), "an admin of the class opens no other's server"


def rehearsed(user, password=PASSWORD, where=OF_A_CLASS):
    command = [sys.executable, "-m", "course_lib.cli", "rehearse", "--hub", where, "--user", user]
    done = subprocess.run(
        command, input=f"{password}\n", capture_output=True, text=True, timeout=300, check=False
    )
    assert done.stderr == ""
    return done.returncode, done.stdout


def test_a_rehearsal_names_what_stops_a_learner_and_ends_what_it_started(
    machine, tmp_path, repository
):
    user = USERS[0]
    status, said = rehearsed(user)
    assert (status, "no hub answers at" in said) == (1, True)
    soon = "c.Spawner.args.append('--MappingKernelManager.kernel_info_timeout=20')\n"
    with running_hub(tmp_path, repository, PORTS_OF_A_CLASS + soon) as hub:

        def servers() -> list[psutil.Process]:
            below = psutil.Process(hub.pid).children(recursive=True)
            return [one for one in below if _runs(one, "singleuser")]

        status, said = rehearsed(user, "another word")
        assert (status, f"✗ the hub refuses {user}" in said) == (1, True), said
        status, said = rehearsed(user)
        assert (status, "✓ the first cell of lesson 00 ran" in said) == (0, True), said
        assert str(Path(sys.executable).parent) in said, "the Python of the course"
        wait_until(lambda: not servers())
        kernels = HOMES / user / ".local/share/jupyter/kernels"
        spec = {"argv": ["/usr/bin/python3", "-m", "nothing", "{connection_file}"]}
        (kernels / "python3").mkdir(parents=True)
        (kernels / "python3/kernel.json").write_text(
            json.dumps({**spec, "display_name": "another", "language": "python"})
        )
        subprocess.run(["chown", "-R", user, HOMES / user / ".local"], check=True)
        status, said = rehearsed(user)
        assert status == 1, said
        assert "/usr/bin/python3" in said
        assert "jupyter kernelspec list" in said
        shutil.rmtree(kernels)
        course = HOMES / user / "course"
        course.rename(course.with_name("away"))
        course.touch()
        status, said = rehearsed(user)
        course.unlink()
        course.with_name("away").rename(course)
        assert (status, f"✗ the server of {user} does not start" in said) == (1, True), said
        assert "The server ended before it answered" in said, "no wait for the time-out"
        assert "access.py" in said
        wait_until(lambda: not servers())
