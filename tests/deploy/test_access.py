"""Before a hub is set up or started, another account tries what its learners will use."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

SYSTEM_PATH = "/usr/bin:/bin"
A_GROUP = "daemon"
"""An account of every Linux, alone in a group of its name."""


@pytest.fixture
def shelf(lacking):
    """Folder that all accounts may enter, unlike the folders of pytest."""
    if os.getuid() != 0:
        lacking("only root can be another account")
    folder = Path(tempfile.mkdtemp(prefix="course-access-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def system_python(lacking):
    return shutil.which("python3", path=SYSTEM_PATH) or lacking("no Python of the system")


@pytest.fixture
def checkout(shelf, repository, system_python):
    """A checkout with a real environment, whose interpreter all accounts can run."""
    folder = shelf / "opt/course"
    folder.mkdir(parents=True)
    subprocess.run(["cp", "-R", repository / "deploy", folder], check=True)
    for name in ("code/links/plain.py", "data/text.bin"):
        (folder / name).parent.mkdir(parents=True)
        (folder / name).touch()
    make_environment(system_python, folder)
    return folder


def make_environment(python: str | Path, checkout: Path) -> None:
    shutil.rmtree(checkout / ".venv", ignore_errors=True)
    command = [python, "-m", "venv", "--without-pip", "--symlinks", checkout / ".venv"]
    subprocess.run(command, check=True)


def tried(checkout: Path, *words: str) -> tuple[int, str]:
    command = [checkout / ".venv/bin/python", "deploy/jupyterhub/access.py", *words]
    done = subprocess.run(command, cwd=checkout, text=True, capture_output=True, check=False)
    assert done.stdout == ""
    return done.returncode, done.stderr


def test_where_all_can_be_used_nothing_is_said(checkout, shelf):
    shared = shelf / "class"
    shared.mkdir()
    shared.chmod(0o3773)
    assert tried(checkout, f"--class={shared}") == (0, "")
    assert list(shared.iterdir()) == []


def test_an_interpreter_in_a_private_home_is_named_with_another_one(checkout, shelf, system_python):
    """The interpreter is a link, as with pyenv and conda. The link itself can be read."""
    home = shelf / "admin"
    (home / "bin").mkdir(parents=True)
    (home / "bin/python3").symlink_to(system_python)
    home.chmod(0o700)
    make_environment(home / "bin/python3", checkout)
    code, said = tried(checkout)
    assert code == 1
    assert f"nobody cannot start a server: {home}, on the way to Python" in said
    assert "PYTHON=/usr/bin/python3 bash deploy/jupyterhub/setup.sh" in said
    assert len(said.splitlines()) == 2


def test_an_environment_in_a_private_folder_behind_a_link_is_named(checkout, shelf):
    private = shelf / "private"
    private.mkdir(mode=0o700)
    shutil.move(checkout / ".venv", private / "venv")
    (checkout / ".venv").symlink_to(private / "venv")
    code, said = tried(checkout)
    assert code == 1
    assert f"{private}, on the way to Python" in said


@pytest.mark.parametrize(
    ("closed", "mode", "named", "cure"),
    [
        ("..", 0o700, "{closed}, on the way to the course", "chmod o+x {closed}"),
        (".", 0o700, "{closed}, on the way to the course", "chmod o+x {closed}"),
        (".venv", 0o700, "{closed} cannot be read", "chmod -R o+rX {closed}"),
        ("code", 0o700, "{closed} cannot be read", "chmod -R o+rX {closed}"),
        ("code/links", 0o711, "{closed} cannot be read", "chmod -R o+rX {checkout}/code"),
        ("data", 0o744, "{closed}/text.bin cannot be read", "chmod o+x {closed}"),
        ("data/text.bin", 0o600, "{closed} cannot be read", "chmod -R o+rX {checkout}/data"),
        ("deploy/jupyterhub/start_user.sh", 0o644, "{closed} cannot be run", "chmod o+rx {closed}"),
    ],
)
def test_what_is_closed_in_or_above_the_checkout_is_named_with_its_cure(
    checkout, closed, mode, named, cure
):
    place = Path(os.path.normpath(checkout / closed))
    place.chmod(mode)
    code, said = tried(checkout)
    assert code == 1
    assert named.format(closed=place) in said
    assert cure.format(closed=place, checkout=checkout) in said
    assert len(said.splitlines()) == 2, "one thing is wrong, and one is said"


def test_a_course_on_a_file_system_that_runs_no_programs_is_named_with_its_cure(checkout, lacking):
    """File modes are right there, and chmod cures nothing."""
    if subprocess.run(["mount", "--bind", checkout, checkout], check=False).returncode:
        lacking("no mounts here")
    try:
        subprocess.run(["mount", "-o", "remount,bind,noexec", checkout], check=True)
        code, said = tried(checkout)
    finally:
        subprocess.run(["umount", checkout], check=True)
    assert code == 1
    assert "start_user.sh cannot be run\n     → mount its file system without noexec\n" in said
    assert len(said.splitlines()) == 2


def test_a_learner_s_command_that_fails_is_named_with_what_it_says(checkout):
    server = checkout / ".venv/bin/jupyterhub-singleuser"
    server.touch()
    code, said = tried(checkout)
    assert code == 1
    assert "import course_lib.cli' fails: ModuleNotFoundError" in said


@pytest.mark.parametrize(("outer", "inner"), [(0o700, 0o3773), (0o755, 0o755)])
def test_a_class_folder_that_learners_cannot_reach_or_write_is_named(checkout, shelf, outer, inner):
    shared = shelf / "srv/class"
    shared.mkdir(parents=True)
    shared.chmod(inner)
    shared.parent.chmod(outer)
    code, said = tried(checkout, f"--class={shared}")
    assert code == 1
    assert f"nothing can be shared in the class folder {shared}" in said
    assert (f"chmod o+x {shared.parent}" in said) == (outer == 0o700)


def test_a_checkout_of_one_group_is_tried_by_its_member(checkout):
    shutil.chown(checkout, group=A_GROUP)
    checkout.chmod(0o750)
    assert tried(checkout, A_GROUP, "no-such-account") == (0, "")
    assert tried(checkout)[0] == 1
    assert tried(checkout, A_GROUP, "nobody")[0] == 1


def test_set_up_stops_before_it_makes_an_environment_that_learners_cannot_use(
    checkout, shelf, system_python, need
):
    need("npm")
    home = shelf / "admin"
    home.mkdir()
    (home / "python3").symlink_to(system_python)
    home.chmod(0o700)
    shutil.rmtree(checkout / ".venv")
    done = subprocess.run(
        ["bash", "deploy/jupyterhub/setup.sh"], cwd=checkout, text=True, capture_output=True,
        env={**os.environ, "PYTHON": str(home / "python3")}, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert f"{home}, on the way to Python" in done.stderr
    assert not (checkout / ".venv").exists()
