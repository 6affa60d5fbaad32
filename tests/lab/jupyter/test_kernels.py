"""Kernels listen in a private folder only, wherever that is and however the last process ended."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import psutil
import pytest

from course_lib.lab.errors import LabError
from course_lib.lab.jupyter import kernels

PATIENCE_S = 120
IN_A_FORK = "import multiprocessing as m; m.get_context('fork').Process(target=print, args=('fork',)).start()"  # noqa: E501


@pytest.fixture
def kernel(monkeypatch):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "/tmp/torchinductor_somebody")
    manager = kernels.BlockingKernels(kernel_name="python3")
    manager.start_kernel()
    client = manager.client()
    client.start_channels()
    client.wait_for_ready(PATIENCE_S)
    yield manager, client
    client.stop_channels()
    manager.shutdown_kernel(now=True)


def printed_by(client, code: str) -> str:
    """Return the kernel's output for this code, and wait until there is some."""
    client.execute(code)
    while True:
        message = client.get_iopub_msg(timeout=PATIENCE_S)
        if message["msg_type"] == "error":
            pytest.fail("\n".join(message["content"]["traceback"]))
        if message["msg_type"] == "stream":
            return message["content"]["text"]


def process_of(manager) -> psutil.Process:
    return psutil.Process(manager.provisioner.pid)


def test_a_kernel_has_no_port_and_its_sockets_lie_in_a_folder_of_mode_700(kernel):
    manager, client = kernel
    assert printed_by(client, "print(6 * 7)") == "42\n"
    assert process_of(manager).net_connections("inet") == []
    bound = {Path(one.laddr) for one in process_of(manager).net_connections("unix") if one.laddr}
    assert len(bound) >= len(manager.ports)
    assert {path.parent for path in bound} == {kernels.sockets_folder()}
    facts = kernels.sockets_folder().stat()
    assert (facts.st_uid, facts.st_mode & 0o777) == (os.getuid(), 0o700)


def test_what_a_forked_process_prints_arrives(kernel):
    _, client = kernel
    assert "fork" in printed_by(client, IN_A_FORK)


def test_an_error_of_the_course_is_the_learners_line_and_one_sentence(kernel):
    """The kernel imports the course before IPython exists."""
    _, client = kernel
    asked = client.execute("from course_lib import shell\nshell.recipe('b')")
    answers = iter(lambda: client.get_shell_msg(timeout=PATIENCE_S), None)
    answer = next(one for one in answers if one["parent_header"]["msg_id"] == asked)
    shown = answer["content"]["traceback"]
    assert "shell.recipe also needs commands" in shown[-1]
    assert "course_lib/" not in "".join(shown)


def test_a_restarted_kernel_answers_at_the_same_place(kernel):
    manager, client = kernel
    before = process_of(manager).pid
    manager.restart_kernel(now=True)
    client.wait_for_ready(PATIENCE_S)
    assert process_of(manager).pid != before
    assert printed_by(client, "print('again')") == "again\n"


def test_no_debugger_is_offered_because_all_users_could_connect(kernel):
    _, client = kernel
    client.kernel_info()
    about = client.get_shell_msg(timeout=PATIENCE_S)["content"]
    assert not about.get("debugger")
    assert "debugger" not in about.get("supported_features", [])


def test_a_kernel_of_another_environment_keeps_its_own_command():
    manager = kernels.BlockingKernels(kernel_name="python3")
    manager._launch_args = {}
    manager.kernel_spec.argv = ["/elsewhere/python", "-m", "ipykernel_launcher", "-f", "x"]
    assert manager.format_kernel_cmd() == manager.kernel_spec.argv


@pytest.fixture
def fresh(monkeypatch):
    """Call `sockets_folder` as a new process does."""
    kernels.sockets_folder.cache_clear()
    yield monkeypatch
    kernels.sockets_folder.cache_clear()


@pytest.mark.parametrize("length", [100, 200])
def test_where_the_path_would_be_too_long_for_a_socket_a_shorter_one_is_taken(
    fresh, tmp_path, length
):
    long = tmp_path / ("x" * length)
    long.mkdir()
    fresh.setattr(kernels.tempfile, "tempdir", str(long))
    folder = kernels.sockets_folder()
    assert folder.parent in (Path("/tmp"), Path("/var/tmp"))
    assert list(long.iterdir()) == []
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(folder / kernels.LONGEST_NAME))


def test_where_no_folder_can_be_private_no_kernel_starts_and_the_reason_is_said(fresh):
    fresh.setattr(kernels.os, "getuid", lambda: 4711)  # as if all belonged to somebody else
    with pytest.raises(LabError, match="Set TMPDIR to a folder"):
        kernels.sockets_folder()


def test_what_torch_makes_at_its_import_has_no_name_that_others_guess(kernel):
    """This also holds if the parent process has imported torch, which then uses a folder in
    /tmp."""
    _, client = kernel
    folder = printed_by(client, "import os; print(os.environ['TORCHINDUCTOR_CACHE_DIR'])").strip()
    assert "/course/torchinductor_" in folder
