# ruff: noqa: E501  the commands are compared as they are typed
"""A program forked from the warm process cannot be told from one that started cold."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from course_lib.box.warm import client, server, visible_environment

pytestmark = pytest.mark.usefixtures("namespaces")
torch = pytest.importorskip("torch")

LOOK = """\
import atexit, json, os, resource, signal, sys, tempfile, threading
def status(name):
    return next(l.split()[1:] for l in open("/proc/self/status") if l.startswith(name + ":"))
group = "own" if os.getpgrp() == os.getpid() else "other"
session = "own" if os.getsid(0) == os.getpid() else "other"
print(json.dumps({
    "argv": sys.argv, "orig": sys.orig_argv[1:], "path": sys.path, "executable": sys.executable,
    "prefix": sys.prefix, "flags": repr(sys.flags), "warn": sys.warnoptions, "x": sys._xoptions,
    "env": {k: v for k, v in os.environ.items() if k not in ("SLURM_TASK_PID", "_", "COURSE_BOX_WARM") and "STEP" not in k and "PORT" not in k},
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
    "tmp": tempfile.gettempdir(), "bytecode": sys.dont_write_bytecode,
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
    "python annotated.py",
    "python -c 'def f(x: int): pass\nprint(f.__annotations__)'",
    "python look.py a 'b c'",
    "python -u look.py",
    "python -B -u look.py",
    "python3 ./look.py",
    "python sub/link.py",
    "python -m look x",
    "python -m sub.look",
    'python -c "$(cat look.py)" c',
    "PYTHONUNBUFFERED=1 python look.py",
    "PYTHONPATH=sub:: python look.py",
    "OMP_NUM_THREADS=1 python -c 'import torch; print(torch.get_num_threads())'",
    "python -c 'import torch; print(torch.get_num_threads())'",
    "(ulimit -n 200; umask 077; nice -n 3 python look.py)",
    "(cd sub; python look.py)",
    "nohup python look.py < /dev/null 2>&1",
    "setsid -w python look.py",
    "env -i PATH=$PATH HOME=$HOME SLURM_STEP_ID=$SLURM_STEP_ID python look.py",
    "python look.py 8< look.py 9>&1",
    "timeout 30 python look.py | cat",
    "echo typed | python -c 'print(input())'",
    "echo 'print(__name__)' | python",
    "echo 'print(__name__)' | python -",
    "python -O -c 'print(__debug__)'",
    "python -X utf8 -c 'import sys; print(sys.flags.utf8_mode)'",
    "PYTHONHASHSEED=0 python -c 'print(hash(\"x\"))'",
    "RANK=3 LONG=$(seq -s: 9999) python -c \"print([v for v in open('/proc/self/environ').read().split('\\0') if v[:5] == 'RANK='])\"",
    "python ends.py",
    "python -c 'import sys; sys.exit(7)'; echo $?",
    "python -c 'import sys; sys.exit(\"words\")'; echo $?",
    "python -c 'raise SystemExit'; echo $?",
    "python fails.py; echo $?",
    "python -c '1/0'; echo $?",
    "python -m fails; echo $?",
    "python syntax.py; echo $?",
    "python nowhere.py; echo $?",
    "python -m nowhere; echo $?",
    "python -c 'import os; os._exit(9)'; echo $?",
    "python -c 'import os; os.kill(os.getpid(), 15)'; echo $?",
    "python -c 'import os, signal; os.kill(os.getpid(), signal.SIGINT)'; echo $?",
    "python -c 'import os; os.abort()' 2>/dev/null; echo $?",
    "python -c 'print(1, end=\"\")' > /dev/full; echo $?",
    "python -c 'print(1)' >&-; echo $?",
    "python -c 'import time; time.sleep(60)' & sleep 1; kill -USR1 $!; wait $!; echo $?",
    "python -c 'import multiprocessing as m; print(m.get_context(\"spawn\").Pool(2).map(abs, [-1, 2]))'",
    "python spawns.py",
    'python -c \'import subprocess, sys; print(subprocess.run([sys.executable, "-c", "print(5)"]).returncode)\'',
    "python -c 'import numpy, random; print(len({numpy.random.rand(), random.random()}))'",
    "python shadow/uses.py",
    "python warns.py 2>&1 | cut -c1-2 | sort -u",
    "TORCH_CPP_LOG_LEVEL=ERROR python warns.py 2>&1 | cut -c1-2 | sort -u",
    "TORCH_CPP_LOG_LEVEL=INFO python warns.py 2>&1 | cut -c1-2 | sort -u",
    "(trap '' INT USR2; python look.py)",
]

SPAWNS = """\
import multiprocessing, os
def work(n): return n * n
if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        print(pool.map(work, range(3)))
"""

WARNS = """\
import datetime, torch.distributed as dist
try:
    dist.TCPStore("127.0.0.1", 9, timeout=datetime.timedelta(seconds=1))
except dist.DistNetworkError:
    print("end")
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
    (work / "annotated.py").write_text("def f(x: int): pass\nprint(f.__annotations__)\n")
    (work / "spawns.py").write_text(SPAWNS)
    (work / "warns.py").write_text(WARNS)
    (work / "fails.py").write_text("def f():\n    raise ValueError('no')\nf()\n")
    (work / "syntax.py").write_text("print(\n")
    (work / "shadow" / "uses.py").write_text("import sympy; print(sympy.mine)\n")
    (work / "shadow" / "sympy.py").write_text("mine = 'mine'\n")
    box.result("true")
    box.until_warm()
    return box


def _script() -> str:
    lines = ["exec 2>&1"]
    for number, command in enumerate(COMMANDS):
        lines.append(f"echo '== {number}'\n{command}")
    return "\n".join(lines) + "\n"


def _parts(text: str, work: Path) -> list[str]:
    text = re.sub(r"line \d+:\s+\d+ (Killed|Terminated|Aborted|User)", r"line: \1", text)
    text = re.sub(r" at 0x\w+", "", text)
    text = re.sub(r"\b(net|uts|pid|mnt|user|ipc):\[\d+\]", r"\1", text)
    return re.split(r"== \d+\n", text)[1:]


def _difference(warm: str, cold: str) -> object:
    if warm == cold or not (warm.startswith("{") and cold.startswith("{")):
        return (warm, cold) if warm != cold else None
    one, two = json.loads(warm.splitlines()[0]), json.loads(cold.splitlines()[0])
    return {key: (one[key], two[key]) for key in one if one[key] != two[key]}


def test_forked_programs_cannot_be_told_from_cold_ones(warm_box):
    (warm_box.work / "all.sh").write_text(_script())
    text = warm_box.result(
        "bash all.sh > warm.txt\nexport COURSE_BOX_WARM=0\nbash all.sh > cold.txt\n"
        "unset COURSE_BOX_WARM\nsrun -n1 python look.py t > warm-task.txt\n"
        "COURSE_BOX_WARM=0 srun -n1 python look.py t > cold-task.txt\n"
    )
    assert text == ""
    warm, cold = (
        _parts((warm_box.work / f"{name}.txt").read_text(), warm_box.work)
        for name in ("warm", "cold")
    )
    assert len(warm) == len(cold) == len(COMMANDS)
    different = {
        command: found
        for command, one, two in zip(COMMANDS, warm, cold, strict=True)
        if (found := _difference(one, two))
    }
    assert not different, "\n".join(f"{c}: {d}" for c, d in different.items())
    tasks = [(warm_box.work / f"{name}-task.txt").read_text() for name in ("warm", "cold")]
    assert not _difference(*tasks)


def test_forks_draw_different_random_numbers(warm_box):
    code = "import numpy, random, torch, uuid; print(numpy.random.rand(), random.random(), torch.rand(1).item(), uuid.uuid4())"
    lines = [warm_box.result(f"python -c '{code}'\npython -c '{code}'")]
    one, two = lines[0].splitlines()
    assert all(a != b for a, b in zip(one.split(), two.split(), strict=True))


def test_programs_of_a_job_are_in_fact_forked(warm_box):
    ask = "python -c 'import sys; print(\"torch\" in sys.modules)'"
    assert warm_box.result(f"{ask}\nsrun -n1 {ask}").split() == ["True", "True"]
    as_our_scripts_do = "export PYTHONUNBUFFERED=1 OMP_NUM_THREADS=1 TORCH_CPP_LOG_LEVEL=ERROR\n"
    assert warm_box.result(f"{as_our_scripts_do}{ask}") == "True\n"
    by_make_and_notebooks = "export PYTHON=python3 TORCHINDUCTOR_CACHE_DIR=/tmp/inductor\n"
    assert warm_box.result(f"{by_make_and_notebooks}{ask}") == "True\n"


def test_what_the_scripts_of_the_lab_set_is_no_reason_for_a_cold_start(warm_box):
    look = (
        "import ctypes, sys, torch; log = ctypes.CDLL(torch.__path__[0] + '/lib/libc10.so'); "
        "level = ctypes.c_int.in_dll(log, 'FLAGS_caffe2_log_level').value; "
        "print('torch._dynamo' in sys.modules, level)"
    )
    (warm_box.work / "level.py").write_text(look)
    told = warm_box.result(
        "export OMP_NUM_THREADS=1 PYTHONUNBUFFERED=1 TORCH_CPP_LOG_LEVEL=ERROR\n"
        "srun -n1 python level.py\nunset TORCH_CPP_LOG_LEVEL\nsrun -n1 python level.py"
    )
    assert told.splitlines() == ["True 2", "True 1"]


def test_torchrun_and_its_workers_train_with_ddp(warm_box):
    (warm_box.work / "train.py").write_text(
        "import os, sys, torch, torch.distributed as dist\n"
        "begun_warm = 'torch._dynamo' in sys.modules\n"
        "dist.init_process_group('gloo')\n"
        "model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 1, bias=False))\n"
        "model(torch.full((1, 2), float(dist.get_rank()))).sum().backward()\n"
        "grad = model.module.weight.grad.tolist()\n"
        "line = f'rank {dist.get_rank()} {os.uname().nodename} {grad} {begun_warm}\\n'\n"
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
    assert found == [f"rank {r} {n} [[1.5, 1.5]] True" for r, n in enumerate(nodes)], text
    assert "rendezvous" not in text
    assert "exit barrier" not in text


def test_memory_of_a_warm_program_is_counted_as_that_of_a_cold_one(warm_box):
    """The pages that it shares with the warm process are not its own."""
    keep = "python -c 'import time; kept = bytearray({} << 20); time.sleep({})'"
    for switch in ("1", "0"):
        begin = f"export COURSE_BOX_WARM={switch}\nsrun "
        small = warm_box.submit(begin + keep.format(50, 2.5), "--mem=200M")
        big = warm_box.submit(begin + keep.format(400, 60), "--mem=200M")
        assert (warm_box.wait(small), warm_box.wait(big)) == ("COMPLETED", "OUT_OF_MEMORY")
        ask = ("sacct", "-nP", "-j", f"{big}.0", "-o", "State,ExitCode")
        assert warm_box.run(*ask).stdout.strip() == "OUT_OF_MEMORY|0:125"


def _warm_pid(box) -> int:
    found = [pid for pid, name in box.processes().items() if name == "box-warm"]
    return found[0] if found else 0


def test_killing_the_warm_process_costs_no_job_anything(warm_box):
    running = warm_box.submit(
        "python -c 'import time; print(1, flush=True); time.sleep(3); print(2)'"
    )
    warm_box.until_said(running, "1")
    killed = warm_box.until("a warm process", lambda: _warm_pid(warm_box))
    os.kill(killed, signal.SIGKILL)
    assert warm_box.result("python -c 'print(3)'").split() == ["3"]
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
    inner = tmp_path / "box" / "inner"
    inner.mkdir(parents=True)
    for file in (tmp_path / "box" / "settings.py", inner / "part.py"):
        file.write_text("")
    monkeypatch.setattr(client.settings, "__file__", str(tmp_path / "box" / "settings.py"))
    first = client.paths()
    (inner / "__pycache__").mkdir()
    os.utime(inner, (1, 1))
    for name in ("python", "python3"):
        monkeypatch.setattr(sys, "executable", str(Path(sys.executable).with_name(name)))
        assert client.paths() == first  # bytecode is no change, nor is the interpreter's name
    os.utime(inner / "part.py", (2e9, 2e9))
    changed = client.paths()
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bin" / "python"))
    assert len({first, changed, client.paths()}) == 3


HOLDS_A_LOCK = (
    "import fcntl, sys; file = open(sys.argv[1], 'w'); fcntl.lockf(file, fcntl.LOCK_EX); "
    "print('held', flush=True); sys.stdin.read()"
)


def test_what_a_killed_one_left_goes_when_another_starts(tmp_path):
    names = [
        f"warm-{name}.{kind}" for name in ("dead", "alive", "ours") for kind in ("lock", "sock")
    ]
    for name in (*names, "dispatcher.lock"):
        (tmp_path / name).touch()
    command = [sys.executable, "-c", HOLDS_A_LOCK, str(tmp_path / "warm-alive.lock")]
    with subprocess.Popen(command, stdin=-1, stdout=-1, text=True) as alive:
        assert alive.stdout.readline() == "held\n"
        server.forget_dead(str(tmp_path / "warm-ours.lock"))
        alive.stdin.close()
    assert {path.name for path in tmp_path.iterdir()} == {*names[2:], "dispatcher.lock"}


class Store:
    """A rendezvous backend that counts the questions it is asked."""

    asked = 0

    def get_state(self):
        self.asked += 1


def test_launchers_of_a_job_look_at_once_who_has_come(monkeypatch):
    from torch.distributed.elastic.rendezvous import dynamic_rendezvous

    from course_lib.box.warm import server

    holder_class = dynamic_rendezvous._BackendRendezvousStateHolder
    monkeypatch.setattr(dynamic_rendezvous, "_delay", dynamic_rendezvous._delay)
    monkeypatch.setattr(holder_class, "__init__", holder_class.__init__)
    slept = []
    monkeypatch.setattr(server.time, "sleep", slept.append)
    server.hurry_rendezvous()
    store = Store()
    day = timedelta(days=1)
    times = {"keep_alive_interval": day, "keep_alive_max_attempt": 3}
    settings = dynamic_rendezvous.RendezvousSettings(
        "1", 1, 1, dynamic_rendezvous.RendezvousTimeout(), **times
    )
    holder = holder_class(store, settings)
    for _ in range(3):
        holder.sync()
        dynamic_rendezvous._delay(seconds=1)
    assert store.asked == 3
    assert max(slept) < 0.1


SERVER = """\
from course_lib.box.warm import torchrun_store
stores = torchrun_store.keep_stores()
from torch.distributed.elastic.rendezvous import c10d_rendezvous_backend as backend
store = backend.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
print(store.port, flush=True)
store.get("arrived")
print("waiting", flush=True)
torchrun_store.wait_for_others(stores)
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


def test_a_place_that_is_too_small_for_an_environment_gets_what_is_new_and_short():
    program = {b"HOME": b"/home/ann", b"LONG": b"x" * 40, b"RANK": b"3", b"NODE": b"node1"}
    found = visible_environment.block(program, {b"HOME=/home/ann"}, 30)
    assert found == b"RANK=3\0NODE=node1\0".ljust(30, b"\0")
    assert visible_environment.block({b"A": b"12"}, set(), 4) == bytes(4)  # no half of a variable


def test_where_the_kernel_does_not_say_the_place_nothing_is_written(tmp_path):
    for said in ("", "1 (python) S", f"1 (python) S {'0 ' * 60}", "1 (python) S " + "x " * 60):
        (tmp_path / "stat").write_text(said)
        visible_environment.show_environment({b"RANK": b"3"}, tmp_path / "stat")
    visible_environment.show_environment({b"RANK": b"3"}, tmp_path / "none")
