"""In a terminal of JupyterLab the course's commands are found, whatever the user's files do."""

from __future__ import annotations

import os
import re
import select
import shutil
import sys
import time
from pathlib import Path

import pytest
from ptyprocess import PtyProcess

from course_lib.lab.clusters import box_bin
from course_lib.lab.jupyter.terminal import FOLDERS, command, prepared

PATIENCE_S = 120.0
CONTROL = re.compile(r"\x1b(\[[0-9;?<=>]*[A-Za-z]|[()][A-Z0-9]|[=>]|\][^\x07\x1b]*(\x07|\x1b\\))")
"""What a shell says to the terminal and not to people, even where TERM is dumb (fish does)."""
ENDED = re.compile(r"(^|\s)end$", re.MULTILINE)  # a shell may print a prompt before it
FOUND = re.compile(r"(?:^|\s)(/\S*/(?:course|squeue|srun|sbatch))$", re.MULTILINE)
RESET = "PATH=/usr/bin:/bin; export PATH\n"
OWN_BIN = str(Path(sys.executable).parent)


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A user's, with a workspace in it, on a machine whose environment was never set up."""
    home = tmp_path / "home"
    (home / "course" / ".course").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    for name in ("ZDOTDIR", "PROMPT_COMMAND", "COURSE_WORKSPACE", "ENV", "BASH_ENV"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setenv("HISTFILE", "/dev/null")
    return home


def typed(home: Path, shell: str, *lines: str) -> str:
    """What the terminal shows for these lines."""
    program = [sys.executable, "-P", "-m", "course_lib.lab.jupyter.terminal"]
    environment = {**os.environ, "SHELL": shell, "TERM": "dumb"}
    terminal = PtyProcess.spawn(program, cwd=str(home / "course"), env=environment)
    terminal.write("".join(f"{line}\n" for line in (*lines, 'echo e"n"d')).encode())
    raw, until_s = "", time.monotonic() + PATIENCE_S
    try:
        while not ENDED.search(shown := CONTROL.sub("", raw)):
            assert time.monotonic() < until_s, f"no end: {shown}"
            if select.select([terminal.fd], [], [], 0.2)[0]:
                raw += terminal.read(65536).decode(errors="replace").replace("\r", "")
    except EOFError:
        pytest.fail(f"the shell ended: {shown}")
    finally:
        terminal.terminate(force=True)
    return shown


FIND = "command -v course squeue srun sbatch"


def assert_all_found(shown: str) -> None:
    box = [f"{box_bin()}/{name}" for name in ("squeue", "srun", "sbatch")]
    assert FOUND.findall(shown) == [f"{OWN_BIN}/course", *box], shown


@pytest.mark.parametrize("file", [".bashrc", ".profile", ".bash_profile", ".bash_login"])
def test_bash_finds_them_though_the_users_own_files_reset_path(home, file):
    (home / file).write_text(f"{RESET}export READ=yes\ndeclare -A KEPT=([a]=b)\n")
    shown = typed(home, "/bin/bash", FIND, 'echo "read: $READ ${KEPT[a]}"')
    assert_all_found(shown)
    assert "read: yes b" in shown, "the user's own file was not read"
    assert (home / file).read_text().startswith(RESET)
    assert {path.name for path in home.iterdir()} == {file, "course"}, "a file more in the home"


def test_bash_finds_them_in_a_login_shell_that_is_typed_there(home):
    (home / ".bash_profile").write_text(RESET)
    assert_all_found(typed(home, "/bin/bash", "bash -l", FIND))


@pytest.mark.parametrize("file", [".zshenv", ".zprofile", ".zshrc", ".zlogin"])
def test_zsh_finds_them_too(home, need, file):
    need("zsh")
    (home / file).write_text(f"{RESET}READ=yes\ntypeset -A kept\nkept[a]=b\n")
    shown = typed(
        home, shutil.which("zsh"), "whence -p course squeue srun sbatch",
        'print "read: $READ $kept[a] ${ZDOTDIR:-home}"',
    )  # fmt: skip
    assert_all_found(shown)
    assert "read: yes b home" in shown


def test_zsh_of_a_user_whose_files_lie_elsewhere(home, need, monkeypatch):
    need("zsh")
    elsewhere = home / "dot files"
    elsewhere.mkdir()
    (home / ".zshenv").write_text(f"ZDOTDIR='{elsewhere}'\n")
    (elsewhere / ".zshrc").write_text(f"{RESET}READ=yes\n")
    shown = typed(
        home, shutil.which("zsh"), "whence -p course squeue srun sbatch", 'print "read: $READ"'
    )
    assert_all_found(shown)
    assert "read: yes" in shown


def test_fish_finds_them_too(home, need):
    need("fish")
    config = home / ".config" / "fish" / "config.fish"
    config.parent.mkdir(parents=True)
    config.write_text("set -gx PATH /usr/bin /bin\n")
    assert_all_found(typed(home, shutil.which("fish"), FIND))


def test_a_shell_that_is_not_known_here_has_them_as_well(home, need):
    need("dash")
    assert_all_found(typed(home, "/bin/dash", *(f"command -v {w}" for w in FIND.split()[2:])))


def test_where_a_real_slurm_answers_its_commands_are_found_and_not_the_boxs(home, monkeypatch):
    real = home / "slurm" / "bin"
    real.mkdir(parents=True)
    for name in ("sinfo", "squeue", "srun", "sbatch"):
        (real / name).write_text("#!/bin/sh\nexit 0\n")
        (real / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{box_bin()}:{real}:/usr/bin:/bin")
    (home / ".bashrc").write_text(f"PATH={real}:/usr/bin:/bin\n")
    (home / "course" / "site.toml").write_text('name = "ours"\ntitle = "Ours"\n')
    shown = typed(home, "/bin/bash", "command -v course squeue", 'echo "PATH is $PATH"')
    assert FOUND.findall(shown) == [f"{OWN_BIN}/course", f"{real}/squeue"]
    assert str(box_bin()) not in shown


def test_a_site_file_with_a_fault_costs_a_sentence_not_the_terminal(home):
    (home / "course" / "site.toml").write_text("this is no TOML")
    shown = typed(home, "/bin/bash", "command -v course")
    assert FOUND.findall(shown) == [f"{OWN_BIN}/course"]
    assert "site.toml" in shown
    assert "Traceback" not in shown


def test_a_shell_that_does_not_exist_is_named_and_another_takes_its_place(home):
    shown = typed(home, "/nowhere/bash", "command -v course")
    assert "/nowhere/bash cannot be started" in shown
    assert FOUND.findall(shown) == [f"{OWN_BIN}/course"]


def test_folders_stand_in_front_once_and_the_boxs_only_where_it_is_wanted():
    before = {"PATH": f"/usr/bin:{box_bin()}:/env/bin"}
    assert prepared(before, ["/env/bin"]) == {"PATH": "/env/bin:/usr/bin", FOLDERS: "/env/bin"}


def test_an_own_profile_is_read_by_the_shells_that_have_a_way_to(tmp_path):
    assert command("/opt/bin/bash", {})[0][1] == "--rcfile"
    assert command("/bin/tcsh", {}) == (["/bin/tcsh"], {})
