# ruff: noqa: E501  lines of shell
"""Nodes that are really separate: each has its network and name, and a link connects them."""

from __future__ import annotations

import json
import re

import pytest

from course_lib.box.nodes import link

pytestmark = pytest.mark.usefixtures("namespaces")

TRANSFER = """
import socket, sys, threading, time
size, address = int(sys.argv[1]), sys.argv[2]
if sys.argv[3] == "receive":
    with socket.create_server(("0.0.0.0", 5001)) as server:
        connection, _ = server.accept()
        got, begun = 0, None
        while data := connection.recv(1 << 20):
            begun = begun or time.monotonic()
            got += len(data)
        seconds = time.monotonic() - begun
        print("gbit", got * 8 / seconds / 1e9)
else:
    for _ in range(200):
        try:
            connection = socket.create_connection((address, 5001))
            break
        except OSError:
            time.sleep(0.05)
    connection.sendall(bytes(size))
"""

WHO = """
import os, socket
address = socket.gethostbyname(socket.gethostname())
print(socket.gethostname(), address, socket.gethostbyname("node1"), os.getuid())
print("cards", *sorted(name for _, name in socket.if_nameindex()))
for target in ("8.8.8.8", "127.0.0.1"):
    try:
        socket.create_connection((target, PORT), timeout=3)
        print("reached", target)
    except OSError as error:
        print("refused", target, type(error).__name__)
"""


def _transfer(box, gbit: float, mebibytes: int) -> tuple[float, list[dict]]:
    """Return the measured Gbit/s, and the queues of the two nodes' network cards."""
    (box.work / "transfer.py").write_text(TRANSFER)
    box.environment["COURSE_BOX_LINK_GBIT"] = str(gbit)
    one = f"python3 transfer.py {mebibytes * 2**20} node2"
    job = (
        f"srun -l -N2 -n2 bash -c 'if [ $SLURM_PROCID = 1 ]; then exec {one} receive;"
        f" else exec {one} send; fi'"
    )
    queues = "srun -N2 -n2 tc -j -r qdisc show dev eth0"
    text = box.result(f"{job}\n{queues}", "-N2")
    del box.environment["COURSE_BOX_LINK_GBIT"]
    told = [json.loads(line)[0] for line in text.splitlines() if line.startswith("[")]
    return float(re.search(r"gbit ([\d.]+)", text)[1]), told


def test_each_node_has_its_name_its_address_and_no_way_out(box, tmp_path):
    import socket

    with socket.create_server(("127.0.0.1", 0)) as outside:
        port = outside.getsockname()[1]
        (box.work / "who.py").write_text(WHO.replace("PORT", str(port)))
        text = box.result("srun -N2 -n2 python3 who.py", "-N2")
    assert "node1 10.211.0.1 10.211.0.1" in text
    assert "node2 10.211.0.2 10.211.0.1" in text
    assert text.count("cards eth0 lo") == 2
    assert "reached" not in text
    assert text.count("refused 8.8.8.8") == 2


@pytest.mark.parametrize("gbit", [0.1, 0.3])
def test_the_link_between_nodes_has_the_set_speed(box, gbit, need):
    """The kernel gets this rate for both nodes, and no traffic exceeds it. benchmarks/link.py
    measures how close to it real traffic comes."""
    need("tc")
    rate, told = _transfer(box, gbit, 6)
    assert [queue["options"]["rate"] for queue in told] == [link.shape(gbit)["rate"]] * 2
    assert 0 < rate < 1.2 * gbit


def test_a_cluster_has_as_many_nodes_as_it_is_set_to(make_box):
    box = make_box(nodes=4)
    text = box.result(
        "srun -l python3 -c \"import socket; print(*[socket.gethostbyname(f'node{i}') for i in"
        ' (1, 2, 3, 4)], socket.gethostname())"\n'
        "for n in 1 2 3 4; do srun -N1 -n1 -w node$n hostname; done",
        "-N4",
    )
    everyone = " ".join(f"10.211.0.{number}" for number in (1, 2, 3, 4))
    for task in range(4):
        assert f"{task}: {everyone} node{task + 1}\n" in text
    assert text.split()[-4:] == ["node1", "node2", "node3", "node4"]


def test_two_jobs_at_once_do_not_see_each_other(box):
    hidden = (
        "python3 - <<'END' & sleep 1\n"
        "import socket, time\n"
        "server = socket.create_server(('0.0.0.0', 5002)); open('/dev/shm/secret', 'w')\n"
        "open('serving', 'w')\n"
        "while True: time.sleep(1)\nEND\nwait"
    )
    first = box.submit(f"echo secret-word; exec 9>serving.pid\n{hidden}")
    second = box.result(
        "for i in $(seq 600); do [ -e serving ] && break; sleep 0.1; done\n"
        "python3 -c \"import socket; socket.create_connection(('node1', 5002), 2)\" 2>&1 | tail -1\n"
        "ls /dev/shm; ps -e -o args | grep -c '[s]erving'; true"
    )
    box.wait(box.submit("kill -9 -1"))
    box_state = box.run("squeue", "-h", "-j", first, "-o", "%T").stdout.strip()
    box.run("scancel", first)
    assert "ConnectionRefusedError" in second
    assert "secret" not in second
    assert box_state == "RUNNING"


def test_running_out_of_device_memory_is_an_allocator_error_of_that_process(box):
    pytest.importorskip("torch")
    box.environment["COURSE_BOX_MEMORY_PER_DEVICE_GIB"] = "0.5"
    text = box.result(
        "python3 - <<'END'\n"
        "import os, torch\n"
        "print('limit', os.environ['COURSE_DEVICE_MEMORY_BYTES'])\n"
        "kept = torch.ones(100, 2**20)\n"
        "try:\n    torch.ones(300, 2**20)\nexcept RuntimeError as error:\n    print(error)\nEND\n"
        "echo shell lives on",
        "--gpus=1",
    )
    del box.environment["COURSE_BOX_MEMORY_PER_DEVICE_GIB"]
    assert f"limit {2**29}" in text
    assert "can't allocate memory" in text
    assert "shell lives on" in text


def test_a_job_that_takes_more_memory_than_it_asked_for_is_ended(box):
    job = box.submit(
        "python3 -c \"b = b'x' * (400 << 20); import time; time.sleep(60)\"", "--mem=200"
    )
    assert box.wait(job) == "OUT_OF_MEMORY"
    assert f"Detected 1 oom-kill event(s) in StepId={job}.batch." in box.output(job)
    assert box.run("sacct", "-nPX", "-j", job, "-o", "ExitCode").stdout.strip() == "0:125"
