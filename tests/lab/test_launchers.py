"""Launchers of a recipe's processes, really run: on the box, and on the real Slurm with
COURSE_TEST_CLUSTER=slurm."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from course_lib.box.nodes import host_names
from course_lib.lab.job.recipe import Recipe
from course_lib.lab.lab import Lab

PATIENCE_S = 120
PROGRAM = """
import os, sys
names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "SLURMD_NODENAME")
print(*(os.environ[name] for name in names), sys.argv[1:])
"""
FAKE_TORCHRUN = '#!/bin/bash\nprintf "%s" "$SLURM_NODEID"; printf "|%s" "$@"; echo\n'
HARD = ("--text", """we ird'"é$(touch pwned)`x`;&""", "--empty", "", "--run", "{run}")


@pytest.fixture
def program(lab):
    path = lab.workspace.folder / "program.py"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(PROGRAM)
    return path


def lines(run) -> list[str]:
    assert run.wait(PATIENCE_S) == "COMPLETED", run.text
    return sorted(run.text.splitlines())


@pytest.mark.parametrize("tee", [False, True], ids=["plain", "labelled"])
def test_srun_starts_one_process_per_device_which_knows_its_rank(lab, program, tee):
    recipe = Recipe(
        name="ranks", program=str(program), arguments=HARD, launcher="srun", tee=tee,
        nodes=2, gpus_per_node=2,
    )  # fmt: skip
    run = lab.submit(recipe)
    given = [*HARD[:-1], str(run.folder)]
    expected = [f"{rank} {rank % 2} 4 node{rank // 2 + 1} {given}" for rank in range(4)]
    assert lines(run) == [f"{n}: {line}" if tee else line for n, line in enumerate(expected)]
    assert not (run.folder / "pwned").exists()
    assert not (lab.workspace.folder / "pwned").exists()


def test_on_a_second_network_every_launcher_is_told_its_own_address(lab, cluster, program):
    tools = lab.workspace.folder / "tools"
    tools.mkdir()
    (tools / "torchrun").write_text(FAKE_TORCHRUN)
    (tools / "torchrun").chmod(0o755)
    site = lab.site.but(host_suffix="-ib0", path=f"{tools}:{lab.site.path}")
    fast = Lab(lab.workspace.folder, site=site, quiet=True)
    run = fast.submit(
        Recipe(name="fast", program=str(program), arguments=HARD, nodes=2, gpus_per_node=2)
    )
    port = 10000 + run.job_id % 20000
    start = ["--nnodes=2", "--nproc-per-node=2", "--rdzv-backend=c10d", f"--rdzv-id={run.job_id}"]
    for node, line in enumerate(lines(run)):
        number, *words = line.split("|")
        assert number == str(node)
        meeting = words[len(start)]
        assert words[: len(start)] == start
        # where not even the names are known, on a machine in flat mode, they meet on loopback
        assert re.fullmatch(rf"--rdzv-endpoint=(node1-ib0|127\.0\.0\.1):{port}", meeting)
        assert words[len(start) + 1 :] == [
            f"--rdzv-conf=is_host={int(node == 0)}", f"--local-addr=node{node + 1}-ib0",
            "--max-restarts=0", "--", str(program), *HARD[:-1], str(run.folder),
        ]  # fmt: skip


@pytest.mark.parametrize("inside", [(), ("env", "COLOUR=a 'b' \"c\"\n$d")], ids=["bare", "inside"])
def test_a_container_command_with_hard_words_survives_the_way(lab, inside):
    program = lab.workspace.folder / "show.py"
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text("import os; print(repr(os.environ.get('COLOUR')))\n")
    site = lab.site.but(container=inside)
    recipe = Recipe(name="inside", program=str(program), launcher="srun", gpus_per_node=1)
    run = Lab(lab.workspace.folder, site=site, quiet=True).submit(recipe)
    expected = inside[1].partition("=")[2] if inside else None
    assert lines(run) == [repr(expected)]


ALONE = """
import os, time, psutil, torch, torch.distributed as dist
dist.init_process_group("gloo")
dist.all_reduce(torch.ones(8))
own, launcher = psutil.Process(), psutil.Process().parent()
for who, one in (("rank", own), ("launcher", launcher)):
    for end in one.net_connections("tcp"):
        if end.status == psutil.CONN_LISTEN: print(who, *end.laddr, flush=True)
print("meeting", os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"], flush=True)
dist.barrier()
"""


def test_where_nodes_have_no_names_nothing_is_unpickled_from_a_port(fake, tmp_path, monkeypatch):
    """Flat mode without a C compiler: launchers meet in a file, and gloo keeps to loopback."""
    pytest.importorskip("torch")
    if shutil.which("getent") and not subprocess.call(["getent", "hosts", "node1"]):
        pytest.skip("this machine knows a node1")
    for name in host_names.COMPILERS:
        fake(name, "exit 1")
    home = tmp_path / "box"
    home.mkdir(mode=0o700)
    (home / "box.toml").write_text('mode = "flat"\n')
    monkeypatch.setenv("COURSE_BOX_HOME", str(home))
    monkeypatch.setenv("COURSE_BOX_WARM", "0")
    program = tmp_path / "alone.py"
    program.write_text(ALONE)
    lab = Lab(tmp_path / "workspace", site="box", quiet=True)
    run = lab.submit(Recipe(name="alone", program=str(program), nodes=2, gpus_per_node=1))
    words = [line.split() for line in lines(run)]
    ((_, host, store),) = {tuple(line) for line in words if line[0] == "meeting"}
    assert host == "127.0.0.1"
    assert {line[1] for line in words if line[0] == "rank"} == {"127.0.0.1"}, "gloo's"
    # the store of the ranks, which holds texts; not the port at which launchers would meet
    assert {line[2] for line in words if line[0] == "launcher"} == {store}
    assert store != str(10000 + run.job_id % 20000)
