"""Flat mode is reported with its reason and cure, and nodes still have names."""

from __future__ import annotations

import ctypes
import platform
import shutil
import struct
import sys
from pathlib import Path

import pytest

from course_lib.box.nodes import host_names, probe

UNSHARE_NUMBER = {"x86_64": 272, "aarch64": 97}
SECCOMP_FILTER, NO_NEW_PRIVILEGES = 22, 38
MEET = """\
import os, socket, time
here, number = socket.gethostname(), int(os.environ["SLURM_PROCID"])
if number == 0:
    with socket.create_server((here, 0)) as server:
        with open("port", "w") as file:
            file.write(str(server.getsockname()[1]))
        os.rename("port", "meeting")
        while not os.path.exists("gone"):
            time.sleep(0.01)
        print(here, "hears", server.accept()[0].recv(20).decode())
else:
    while not os.path.exists("meeting"):
        time.sleep(0.01)
    with socket.create_connection(("node1", int(open("meeting").read()))) as there:
        there.sendall(here.encode())
    open("gone", "w").close()
"""


@pytest.fixture(scope="module")
def flat(make_module_box):
    return make_module_box(mode="flat")


@pytest.fixture(scope="module")
def library():
    if sys.platform != "linux" or not any(map(shutil.which, host_names.COMPILERS)):
        pytest.skip("names need Linux and a C compiler")


def of_sinfo(box, *prefix, **more):
    """Return the standard output of sinfo, and its one line about flat mode."""
    done = box.run(*prefix, "sinfo", **more)
    (line,) = done.stderr.splitlines()
    return done.stdout, line


def forbid_namespaces():
    """Make unshare() fail for this process and its children, as in a container."""
    libc = ctypes.CDLL(None, use_errno=True)
    number = UNSHARE_NUMBER[platform.machine()]
    steps = [(0x20, 0, 0, 0), (0x15, 0, 1, number), (0x06, 0, 0, 0x50001), (0x06, 0, 0, 0x7FFF0000)]
    text = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    program = struct.pack("HxxxxxxQ", len(steps), ctypes.addressof(text))
    assert libc.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0) == 0
    assert libc.prctl(SECCOMP_FILTER, 2, program, 0, 0) == 0


def test_sinfo_says_on_standard_error_that_nodes_share_the_network(flat):
    out, note = of_sinfo(flat)
    assert note == (
        "sinfo: note: flat mode: all nodes share the network of this machine, because box.toml sets"
        " mode = 'flat'. Cure: set mode = 'auto' in box.toml."
    )
    assert [line.split()[0] for line in out.splitlines()] == ["PARTITION", "box*"]


@pytest.mark.skipif(platform.machine() not in UNSHARE_NUMBER, reason="other numbers of calls")
def test_a_container_that_forbids_namespaces_is_named_with_its_cure(make_box, tmp_path):
    box = make_box()
    done = box.run("sinfo", preexec_fn=forbid_namespaces)
    assert "the seccomp profile of this container forbids new namespaces" in done.stderr
    assert "--security-opt seccomp=unconfined" in done.stderr
    job = box.run(
        "sbatch", "--parsable", "--wait", "-N2", "--output=out", preexec_fn=forbid_namespaces,
        input="#!/bin/bash\nsrun -l echo hello\n",
    )  # fmt: skip
    assert job.returncode == 0
    assert sorted((box.work / "out").read_text().splitlines()) == ["0: hello", "1: hello"]


def test_a_switch_of_the_kernel_is_named_with_its_cure(make_box, namespaces):
    """Set the limit within a user namespace, so that it affects no other process."""
    turn_off = f'echo 0 >{probe.NUMBER}; exec "$@"'
    _, note = of_sinfo(make_box(), "unshare", "-Ur", "bash", "-c", turn_off, "bash")
    assert "user.max_user_namespaces is 0. Cure: as root: sysctl -w user.max_user_name" in note


DENIED = "unshare: Operation not permitted"


@pytest.mark.parametrize(
    ("error", "files", "reason"),
    [
        (DENIED, {probe.DEBIAN: "0"}, "kernel.unprivileged_userns_clone is 0"),
        (
            "[Errno 13] Permission denied: '/proc/self/uid_map'",
            {probe.UBUNTU: "1"},
            "kernel.apparmor_restrict_unprivileged_userns is 1",
        ),
        (DENIED, {probe.STATUS: "Name:\tx\nSeccomp:\t2"}, "seccomp profile"),
        ("mount /proc: Operation not permitted", {}, "hides parts of /proc"),
        ("[Errno 95] network: Operation not supported", {}, "kernel lacks a part"),
        ("[Errno 38] unshare: Function not implemented", {}, "Function not implemented"),
    ],
)
def test_every_refusal_has_a_reason_and_a_cure(error, files, reason):
    told, cure = probe.explain(error, lambda path: files.get(path, ""), root=False)
    assert reason in told
    assert cure


BOTH_AT_ONCE = """
import pathlib, socket, sys, time
own, other, place = sys.argv[1:]
server = socket.create_server(("", 21234))
pathlib.Path(own).touch()
while not pathlib.Path(other).exists():
    time.sleep(0.05)
for name in (place, "localhost"):
    with socket.create_connection((name, 21234)) as call:
        call.sendall(own.encode())
        there, _ = server.accept()
        print(there.recv(99).decode() == own)
"""


def test_two_boxes_of_one_machine_listen_at_the_same_port(make_box, library):
    """Each box numbers its jobs from 1, and the port of a job follows from its number."""
    boxes = [make_box(mode="flat") for _ in range(2)]
    begun = [str(box.work / "begun") for box in boxes]
    jobs = []
    for box, own, other in zip(boxes, begun, begun[::-1], strict=True):
        (box.work / "both.py").write_text(BOTH_AT_ONCE)
        jobs.append(box.submit(f"python both.py {own} {other} node2", "-n1"))
    for box, job in zip(boxes, jobs, strict=True):
        assert box.wait(job) == "COMPLETED"
        assert box.output(job).split() == ["True", "True"]


def test_the_nodes_of_a_job_have_names_that_resolve(flat, library):
    look = "hostname; uname -n; getent hosts node2 | cut -d' ' -f1"
    text = flat.result(f'srun -N2 -n2 -l bash -c "{look}"', "-N2")
    lines = [line.split(": ") for line in text.splitlines()]
    address = flat.flat_address(2)
    for task, node in (("0", "node1"), ("1", "node2")):
        assert [word for number, word in lines if number == task] == [node, node, address]


def test_two_nodes_meet_by_name_also_if_the_caller_leaves_before_it_is_accepted(flat, library):
    (flat.work / "meet.py").write_text(MEET)
    assert "node1 hears node2" in flat.result("srun -N2 -n2 python3 meet.py", "-N2")


def test_without_a_compiler_jobs_run_and_have_the_name_of_the_machine(make_box, tmp_path):
    for name in host_names.COMPILERS:
        (tmp_path / name).write_text("#!/bin/sh\nexit 1\n")
        (tmp_path / name).chmod(0o755)
    box = make_box(mode="flat")
    box.environment["PATH"] = f"{tmp_path}:{box.environment['PATH']}"
    assert box.result("hostname; echo $SLURMD_NODENAME").split() == [platform.node(), "node1"]
    assert not list(Path(box.home).glob("names-*"))


def test_a_program_starts_warm_on_a_node_with_a_name(make_box, library):
    pytest.importorskip("torch")
    box = make_box(mode="flat", warm=True)
    box.result("true")
    box.until_warm()
    look = "import socket, sys; print(socket.gethostname(), 'torch' in sys.modules)"
    (box.work / "look.py").write_text(look)
    text = box.result("srun -N2 -n2 -l python look.py", "-N2")
    assert sorted(text.splitlines()) == ["0: node1 True", "1: node2 True"]
