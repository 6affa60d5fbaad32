"""In flat mode, jobs listen only on the machine, and only their own user can connect."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys

import psutil
import pytest

from course_lib.box.nodes import host_names

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or not any(map(shutil.which, host_names.COMPILERS)),
    reason="needs Linux and a C compiler, as the library that does it",
)

SERVERS = """
import socket, threading, sys
from http.server import ThreadingHTTPServer, BaseHTTPRequestHandler
held = [
    socket.create_server(("", 0)),
    socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True),
    socket.create_server(("::", 0), family=socket.AF_INET6),
    ThreadingHTTPServer(("0.0.0.0", 0), BaseHTTPRequestHandler).socket,
]
unbound = socket.socket(); unbound.listen(); held.append(unbound)
print(*[one.getsockname()[1] for one in held], flush=True)
import os
open("begun." + os.environ["SLURM_PROCID"], "w").close()
def serve(one):
    while True:
        there, _ = one.accept(); there.sendall(b"heard"); there.close()
for one in held: threading.Thread(target=serve, args=[one], daemon=True).start()
import time; time.sleep(600)
"""
RANKS = """
import os, time, torch
import torch.distributed as dist
dist.init_process_group("gloo")
group = dist.new_group([0, 1])
told = [os.environ["RANK"]]
dist.broadcast_object_list(told)
dist.all_reduce(torch.ones(1 << 16))
open("begun." + os.environ["RANK"], "w").close()
while not os.path.exists("go"): time.sleep(0.05)
dist.barrier()
print("rank", dist.get_rank(), "of", dist.get_world_size(), "ends")
dist.destroy_process_group()
"""
TORCHRUN = (
    "srun --kill-on-bad-exit=1 torchrun --nnodes=2 --nproc-per-node=1 --rdzv-backend={} "
    "--rdzv-id=$SLURM_JOB_ID --rdzv-endpoint={}:29{}31 ranks.py"
)
STATIC = (
    "srun bash -c 'torchrun --nnodes=2 --nproc-per-node=1 --node-rank=$SLURM_NODEID "
    "--master-addr=node2 --master-port=29731 ranks.py'"
)
BARE = (
    "export MASTER_ADDR=node1 MASTER_PORT=29831\n"
    "srun bash -c 'WORLD_SIZE=2 RANK=$SLURM_PROCID LOCAL_RANK=0 exec python ranks.py'"
)
JOBS = {
    "c10d": TORCHRUN.format("c10d", "node1", 5),
    "c10d on node2": TORCHRUN.format("c10d", "node2", 6),
    "static": STATIC,
    "ranks alone": BARE,
}


def listeners(box) -> list[str]:
    """Return the addresses on which processes of the box's jobs listen for TCP."""
    found = []
    for pid in box.job_processes():
        try:
            ends = psutil.Process(pid).net_connections("tcp")
        except psutil.Error:
            continue
        found += [end.laddr.ip for end in ends if end.status == psutil.CONN_LISTEN]
    return found


def is_loopback(address: str) -> bool:
    return address == "::1" or address.removeprefix("::ffff:").startswith("127.")


@pytest.fixture
def flat(make_box):
    return make_box(mode="flat")


def test_what_would_listen_on_all_networks_listens_on_loopback(flat):
    (flat.work / "servers.py").write_text(SERVERS)
    job = flat.submit("srun python servers.py", "-N2", "--ntasks-per-node=1")
    flat.until_exists("begun.0")
    flat.until_exists("begun.1")
    found = listeners(flat)
    assert len(found) == 10
    assert all(map(is_loopback, found)), found
    ports = [int(word) for word in flat.output(job).split()]
    for port in (ports[0], ports[1], ports[3], ports[4]):
        with socket.create_connection((flat.flat_address(1), port)) as there:
            assert there.recv(9) == b"heard"
    _another_account_is_not_heard(flat.flat_address(1), ports)


def _another_account_is_not_heard(place: str, ports: list[int]) -> None:
    if os.getuid():
        return  # only root can be another
    ask = (
        "import encodings.idna, os, socket, sys\nos.setuid(65534)\n"
        "for port in map(int, sys.argv[2:]):\n"
        "    with socket.create_connection((sys.argv[1], port)) as there:\n"
        "        try: print(there.recv(9))\n        except ConnectionError: print(b'')\n"
        "    with socket.create_connection((sys.argv[1], port)) as there: there.sendall(b'x')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", ask, place, str(ports[0]), str(ports[1])],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert done.stdout.split() == ["b''", "b''"]


@pytest.mark.many(3)
@pytest.mark.parametrize("warm", [False, True], ids=["cold", "warm"])
@pytest.mark.parametrize("kind", JOBS)
def test_ranks_listen_on_loopback_alone(make_box, kind, warm):
    pytest.importorskip("torch")
    box = make_box(mode="flat", warm=warm)
    if warm:
        box.result("true")
        box.until_warm()
    (box.work / "ranks.py").write_text(RANKS)
    job = box.submit(JOBS[kind], "-N2", "--ntasks-per-node=1", "--gpus-per-node=1")
    for rank in (0, 1):
        box.until_exists(f"begun.{rank}")
    found = listeners(box)
    assert found, "ranks and their store listen somewhere"
    assert all(map(is_loopback, found)), found
    (box.work / "go").touch()
    assert box.wait(job) == "COMPLETED", box.output(job)
    assert box.output(job).count("of 2 ends") == 2
