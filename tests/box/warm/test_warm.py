# ruff: noqa: E501  the commands are compared as they are typed
"""A program forked from the warm process behaves like a program that started cold."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from course_lib.box.warm import client, program

pytestmark = pytest.mark.usefixtures("namespaces")
torch = pytest.importorskip("torch")

LOOK = """\
import json, os, resource, signal, sys, threading
def status(name):
    return next(l.split()[1:] for l in open("/proc/self/status") if l.startswith(name + ":"))
group = "own" if os.getpgrp() == os.getpid() else "other"
session = "own" if os.getsid(0) == os.getpid() else "other"
print(json.dumps({
    "argv": sys.argv, "orig": sys.orig_argv[1:], "path": sys.path, "executable": sys.executable,
    "prefix": sys.prefix, "flags": repr(sys.flags), "warn": sys.warnoptions, "x": sys._xoptions,
    "env": {k: v for k, v in os.environ.items() if k not in ("SLURM_TASK_PID", "_", "COURSE_BOX_WARM", "TMPDIR") and not any(w in k for w in ("STEP", "PORT", "JOB"))},
    "cwd": os.getcwd(), "umask": os.umask(0), "nice": os.nice(0), "uname": os.uname().nodename,
    "limits": [resource.getrlimit(getattr(resource, n)) for n in sorted(dir(resource)) if n[:7] == "RLIMIT_"],
    "group": group, "session": session, "threads": threading.active_count(), "tty": sys.stdout.isatty(),
    "tasks": len(os.listdir("/proc/self/task")), "name": sorted(k for k in globals() if k[:2] == "__"),
    "file": globals().get("__file__"), "main": __name__, "spec": str(globals().get("__spec__")),
    "signals": [(int(n), str(signal.getsignal(n))) for n in sorted(signal.valid_signals())
                if not callable(signal.getsignal(n)) or n == signal.SIGINT],
    "blocked": status("SigBlk"), "caps": status("CapEff"), "uids": status("Uid"),
    "streams": [repr(s) for s in (sys.stdin, sys.stdout, sys.stderr)],
    "buffers": [type(s.buffer).__name__ for s in (sys.stdout, sys.stderr)],
    "line": [(s.line_buffering, s.write_through) for s in (sys.stdout, sys.stderr)],
    "fds": sorted(int(n) for n in os.listdir("/proc/self/fd") if os.path.exists("/proc/self/fd/" + n)),
    "spaces": [os.readlink("/proc/self/ns/" + n) for n in ("net", "uts", "pid", "mnt", "user", "ipc")],
    "bytecode": sys.dont_write_bytecode,
}))
"""

ENDS = """\
import atexit, sys, threading, time
class Loud:
    def __del__(self): print("deleted", flush=True)
a, b = Loud(), [Loud()]
b.append(b)
atexit.register(print, "atexit")
threading.Thread(target=lambda: (time.sleep(0.2), print("thread"))).start()
print("main")
"""

COMMANDS = [
    "python look.py a 'b c'",
    "python -u look.py",
    "python sub/link.py",
    "python -m look x",
    "env PYTHONUNBUFFERED=1 python look.py",
    "env OMP_NUM_THREADS=1 python look.py",
    "python ends.py",
    "python says.py 7",
    "python says.py words",
    "python fails.py",
    "python syntax.py",
    "python nowhere.py",
    "python spawns.py",
    "python shadow/uses.py",
    "python -c 'print(1)'",
]

SPAWNS = """\
import multiprocessing, os
def work(n): return n * n
if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        print(pool.map(work, range(3)))
"""


@pytest.fixture(scope="module")
def warm_box(tmp_path_factory, request):
    box = request.getfixturevalue("make_module_box")(warm=True)
    work = box.work
    for folder in ("sub", "shadow"):
        (work / folder).mkdir()
    (work / "sub" / "__init__.py").write_text("")
    for name in ("look.py", "sub/look.py"):
        (work / name).write_text(LOOK)
    (work / "sub/link.py").symlink_to(work / "look.py")
    (work / "ends.py").write_text(ENDS)
    (work / "says.py").write_text(
        "import sys; word = sys.argv[1]; sys.exit(int(word) if word.isdigit() else word)"
    )
    (work / "spawns.py").write_text(SPAWNS)
    (work / "fails.py").write_text("def f():\n    raise ValueError('no')\nf()\n")
    (work / "syntax.py").write_text("print(\n")
    (work / "shadow" / "uses.py").write_text("import sympy; print(sympy.mine)\n")
    (work / "shadow" / "sympy.py").write_text("mine = 'mine'\n")
    box.result("true")
    box.until_warm()
    return box


def _script() -> str:
    return "".join(
        f"echo '== {number}'; srun -n1 {command}; echo $?\n"
        for number, command in enumerate(COMMANDS)
    )


def _parts(text: str, work: Path) -> list[str]:
    text = re.sub(r"line \d+:\s+\d+ (Killed|Terminated|Aborted|User)", r"line: \1", text)
    text = re.sub(r" at 0x\w+", "", text)
    text = re.sub(r"/jobs/\d+/", "/jobs/N/", text)
    text = re.sub(r"\b(net|uts|pid|mnt|user|ipc):\[\d+\]", r"\1", text)
    return re.split(r"== \d+\n", text)[1:]


def _difference(warm: str, cold: str) -> object:
    if warm == cold or not (warm.startswith("{") and cold.startswith("{")):
        return (warm, cold) if warm != cold else None
    one, two = json.loads(warm.splitlines()[0]), json.loads(cold.splitlines()[0])
    return {key: (one[key], two[key]) for key in one if one[key] != two[key]}


def test_a_forked_program_sees_what_a_cold_one_sees(warm_box):
    texts = []
    for switch in ("", "export COURSE_BOX_WARM=0\n"):
        text = warm_box.result(f"exec 2>&1\n{switch}{_script()}")
        texts.append(_parts(text, warm_box.work))
    warm, cold = texts
    assert len(warm) == len(cold) == len(COMMANDS)
    different = {
        command: found
        for command, one, two in zip(COMMANDS, warm, cold, strict=True)
        if (found := _difference(one, two))
    }
    assert not different, "\n".join(f"{c}: {d}" for c, d in different.items())


def test_programs_of_a_job_are_in_fact_forked(warm_box):
    (warm_box.work / "ask.py").write_text("import sys; print('torch' in sys.modules)")
    ask = "srun -n1 python ask.py"
    assert warm_box.result(ask) == "True\n"
    as_our_scripts_do = "export PYTHONUNBUFFERED=1 OMP_NUM_THREADS=1 TORCH_CPP_LOG_LEVEL=ERROR\n"
    assert warm_box.result(f"{as_our_scripts_do}{ask}") == "True\n"
    by_make_and_notebooks = "export PYTHON=python3 TORCHINDUCTOR_CACHE_DIR=/tmp/inductor\n"
    assert warm_box.result(f"{by_make_and_notebooks}{ask}") == "True\n"
    assert warm_box.result(f"export TORCH_LOGS=+dynamo\n{ask}") == "False\n"


def test_torchrun_and_its_workers_train_with_ddp(warm_box):
    (warm_box.work / "train.py").write_text(
        "import os, sys, torch, torch.distributed as dist\n"
        "begun_warm = 'torch._dynamo' in sys.modules\n"
        "dist.init_process_group('gloo')\n"
        "model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 1, bias=False))\n"
        "model(torch.full((1, 2), float(dist.get_rank()))).sum().backward()\n"
        "grad = model.module.weight.grad.tolist()\n"
        "shown = open('/proc/self/environ').read().split(chr(0))\n"  # code/monitor.py looks there
        "names = ('RANK', 'SLURM_JOB_ID', 'SLURMD_NODENAME')\n"
        "are_shown = all(f'{name}={os.environ[name]}' in shown for name in names)\n"
        "facts = f'{os.uname().nodename} {grad} {begun_warm} {are_shown}'\n"
        "line = f'rank {dist.get_rank()} {facts}\\n'\n"
        "os.write(1, line.encode())  # at once: another rank writes into the same pipe\n"
        "dist.destroy_process_group()\n"
    )
    text = warm_box.result(
        "srun torchrun --nnodes=2 --nproc-per-node=2 --rdzv-backend=c10d --rdzv-id=1"
        " --rdzv-endpoint=node1:29400 train.py",
        "-N2",
        "--ntasks-per-node=1",
        "--gpus-per-node=2",
    )
    found = sorted(line for line in text.splitlines() if line.startswith("rank"))
    nodes = ["node1", "node1", "node2", "node2"]
    assert found == [f"rank {r} {n} [[1.5, 1.5]] True True" for r, n in enumerate(nodes)], text
    assert "rendezvous" not in text
    assert "exit barrier" not in text


def test_memory_of_a_warm_program_is_counted_as_that_of_a_cold_one(warm_box):
    """Pages that a fork shares with the warm process do not count as its own memory."""
    keep = (
        "import sys, time; kept = bytearray(int(sys.argv[1]) << 20); time.sleep(float(sys.argv[2]))"
    )
    (warm_box.work / "keep.py").write_text(keep)
    for switch in ("1", "0"):
        begin = f"export COURSE_BOX_WARM={switch}\nsrun python keep.py "
        small = warm_box.submit(f"{begin}50 2.5", "--mem=200M")
        big = warm_box.submit(f"{begin}400 60", "--mem=200M")
        assert (warm_box.wait(small), warm_box.wait(big)) == ("COMPLETED", "OUT_OF_MEMORY")
        ask = ("sacct", "-nP", "-j", f"{big}.0", "-o", "State,ExitCode")
        assert warm_box.run(*ask).stdout.strip() == "OUT_OF_MEMORY|0:125"


def _warm_pid(box) -> int:
    found = [pid for pid, name in box.processes().items() if name == "box-warm"]
    return found[0] if found else 0


def test_killing_the_warm_process_costs_no_job_anything(warm_box):
    (warm_box.work / "slow.py").write_text(
        "import time; print(1, flush=True); time.sleep(3); print(2)"
    )
    running = warm_box.submit("srun python slow.py")
    warm_box.until_said(running, "1")
    killed = warm_box.until("a warm process", lambda: _warm_pid(warm_box))
    os.kill(killed, signal.SIGKILL)
    assert warm_box.result("srun -n1 echo 3").split() == ["3"]
    assert warm_box.wait(running) == "COMPLETED"
    assert warm_box.output(running).split() == ["1", "2"]
    warm_box.until("another one", lambda: _warm_pid(warm_box) not in (0, killed))


def test_the_warm_process_ends_with_its_state_folder(make_box):
    box = make_box(warm=True)
    box.result("true")
    box.until_warm()
    box.run("rm", "-rf", str(box.home))
    box.until("its end", lambda: not _warm_pid(box))


def test_a_course_that_was_changed_has_a_warm_process_of_its_own(tmp_path, monkeypatch):
    """Bytecode, files of an editor, files in folders and the name of the interpreter are not
    changes."""
    inner = tmp_path / "box" / "inner"
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    libraries = tmp_path / "lib" / version / "site-packages"
    for folder in (inner, libraries / "torch-2.0.0.dist-info", libraries / "torch"):
        folder.mkdir(parents=True)
    for file in (tmp_path / "box" / "settings.py", inner / "part.py"):
        file.write_text("")
    monkeypatch.setattr(client.settings, "__file__", str(tmp_path / "box" / "settings.py"))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bin" / "python"))
    first = client.paths()
    for folder in (inner, libraries):
        (folder / "__pycache__").mkdir()
        (folder / "notes.txt").write_text("")
        os.utime(folder, (2e9, 2e9))
    (inner / ".#part.py").symlink_to("an-editor@host.1")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bin" / "python3"))
    assert client.paths() == first
    os.utime(inner / "part.py", (1e9, 1e9))
    older = client.paths()
    (inner / "part.py").unlink()
    fewer = client.paths()
    (libraries / "torch-2.0.0.dist-info").rename(libraries / "torch-2.1.0.dist-info")
    other_torch = client.paths()
    monkeypatch.setattr(sys, "executable", str(tmp_path / "elsewhere" / "bin" / "python"))
    assert len({first, older, fewer, other_torch, client.paths()}) == 5


SERVER = """\
from course_lib.box.warm import program
stores = program.keep_stores()
from torch.distributed.elastic.rendezvous import c10d_rendezvous_backend as backend
store = backend.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
print(store.port, flush=True)
store.get("arrived")
print("waiting", flush=True)
program.wait_for_others(stores)
print(store.check(["last words"]), flush=True)
"""


def test_torchrun_s_store_outlives_the_last_word_of_the_other_nodes():
    with subprocess.Popen([sys.executable, "-c", SERVER], stdout=subprocess.PIPE, text=True) as it:
        port = int(it.stdout.readline())
        other = torch.distributed.TCPStore("127.0.0.1", port, is_master=False)
        other.set("arrived", "yes")
        assert it.stdout.readline() == "waiting\n"
        other.set("last words", "thank you")
        del other
        assert it.stdout.readline() == "True\n"
        assert it.wait(30) == 0


def test_a_place_that_is_too_small_for_an_environment_gets_what_is_short():
    new = {b"HOME": b"/home/ann", b"LONG": b"x" * 40, b"RANK": b"3", b"NODE": b"node1"}
    assert program.block(new, 30) == b"RANK=3\0NODE=node1\0".ljust(30, b"\0")
    assert program.block({b"A": b"12"}, 4) == bytes(4)  # no half of a variable
