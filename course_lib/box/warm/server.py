"""The warm process: one per state folder and course, with torch loaded but not used."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import gc
import glob
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable

from course_lib.box import settings
from course_lib.box.nodes import host_names, probe
from course_lib.box.processes import control, libc, messages, roles
from course_lib.box.warm import client, program
from course_lib.box.warm.program import Loaded

IDLE_S = 15 * 60.0
LOOK_S = 5.0
# Modules that torchrun and a DDP program have imported by the time they end.
MODULES = (
    "torch", "torch._dynamo", "torch.distributed", "torch.distributed.run", "torch.nn.parallel",
    "torch.optim", "torch.profiler._cupti_monitor", "torch.utils.data", "torch.utils.tensorboard",
    "tabulate",
)  # fmt: skip
QUESTION_S = 0.02
# glibc's thread cache (tcache) would keep remainders of large tensors and give them to small,
# long-lived objects. The next tensor would then not fit there. The memory of the same job would
# vary by chance, so the cache is switched off.
ALLOCATOR, NO_SHELF = b"GLIBC_TUNABLES", b"glibc.malloc.tcache_count=0"
# Forks show their variables in the memory of ours (see program.show_environment). This one makes
# room for a job's variables.
ROOM, EMPTY = b"COURSE_BOX_ROOM", b" " * (16 << 10)


class Server:
    """The server. Its forks call `supervise(job number, loaded modules)`."""

    def __init__(self, root: str, supervise: Callable[[int, Loaded], None]) -> None:
        self.supervise = supervise
        self.path, self.lock = client.paths()
        self.root = root
        self.idle_s = float(os.environ.get("COURSE_BOX_WARM_IDLE_S", IDLE_S))

    def run(self) -> None:
        lock = os.open(self.lock, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return  # another process was faster
        self._start_as_needed()
        forget_dead(self.lock)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        if libc.AVAILABLE:
            libc.prctl(libc.PR_SET_NAME, b"box-warm")
        self.loaded = preload(self.root)
        self.listener = messages.listen(self.path)
        self.identity = os.stat(self.path).st_ino
        self._serve()

    def _start_as_needed(self) -> None:
        """Restart with settings that count only at the start of a process. These are a library for
        node names in flat mode, an allocator without a cache for small blocks, and room."""
        box = settings.load()
        environment = {ALLOCATOR: NO_SHELF, ROOM: EMPTY, **os.environb}
        if probe.describe(box)[0] == probe.FLAT:
            library = host_names.library(box, probe.stamp())
            environment = host_names.with_preload(environment, library)
        if environment != dict(os.environb):
            os.execve(sys.executable, sys.orig_argv, environment)
        del os.environb[ROOM]
        if os.environb[ALLOCATOR] == NO_SHELF:
            del os.environb[ALLOCATOR]  # programs cannot see it; none must start cold

    def _serve(self) -> None:
        ended = roles.watch()
        last = time.monotonic()
        while time.monotonic() - last < self.idle_s and self._is_ours():
            watched: list[socket.socket | int] = [self.listener, ended]
            ready = select.select(watched, [], [], LOOK_S)[0]
            roles.drain(ended)
            with contextlib.suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            if self.listener in ready:
                last = time.monotonic()
                self._answer()
        if self._is_ours():
            os.unlink(self.path)
            os.unlink(self.lock)

    def _is_ours(self) -> bool:
        """Return False if the state folder was removed or another process replaced this one."""
        try:
            return os.stat(self.path).st_ino == self.identity
        except OSError:
            return False

    def _answer(self) -> None:
        caller = messages.accept(self.listener)
        if caller is None:
            return
        connection, request, files = caller
        messages.close_all(files)
        with contextlib.suppress(messages.Gone):
            if request.get("do") == "supervise":
                job_id = int(request["job"])
                pid = roles.fork_into(lambda: self._play_supervisor(connection, job_id))
                messages.send(connection, {"started": pid})
        connection.close()

    def _play_supervisor(self, connection: socket.socket, job_id: int) -> None:
        roles.forget_signals()
        os.setsid()
        connection.close()
        self.listener.close()
        os.closerange(3, 256)
        self.supervise(job_id, self.loaded)


def forget_dead(ours: str) -> None:
    """Remove files of killed warm processes. No process would use their names again."""
    for lock in glob.glob(os.path.join(glob.escape(os.path.dirname(ours)), "warm-*.lock")):
        if lock != ours and not control.is_locked(lock):
            for path in (lock.removesuffix(".lock") + ".sock", lock):
                with contextlib.suppress(OSError):
                    os.unlink(path)


def preload(root: str) -> Loaded:
    """Import the modules that jobs will need."""
    import importlib

    before = dict(os.environ)  # torch sets some itself and creates the folder named here
    os.environ[settings.COMPILED_CODE] = settings.compiled_code()
    os.environ[program.LOG_LEVEL] = program.COURSE_LEVEL
    for module in MODULES:
        with contextlib.suppress(ImportError):
            importlib.import_module(module)
    hurry_rendezvous()
    base = list(sys.path)
    base.remove(root)
    loaded = Loaded(before, base)
    gc.collect()
    gc.freeze()
    return loaded


def hurry_rendezvous() -> None:
    """Shorten torchrun's polling interval. Its launchers poll once a second to spare the store of a
    large cluster. In the box, this second would be most of a job's start time."""
    rendezvous = sys.modules.get("torch.distributed.elastic.rendezvous.dynamic_rendezvous")
    if rendezvous is not None:
        vars(rendezvous)["_delay"] = lambda seconds: time.sleep(QUESTION_S)
        holder = rendezvous._BackendRendezvousStateHolder
        holder.__init__ = functools.partialmethod(holder.__init__, cache_duration=0)
