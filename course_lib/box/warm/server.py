"""The warm process: one per state folder and course, with torch loaded and not yet used."""

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
from course_lib.box.processes import detached, libc, messages, roles
from course_lib.box.warm import client
from course_lib.box.warm.loaded import Loaded, WatchedEnvironment

IDLE_S = 15 * 60.0
LOOK_S = 5.0
MODULES = (
    "torch", "torch._dynamo", "torch.distributed", "torch.distributed.run", "torch.nn.parallel",
    "torch.optim", "torch.profiler._cupti_monitor", "torch.utils.data", "torch.utils.tensorboard",
)  # fmt: skip
"""What a program that trains with DDP has imported after its first step, and torchrun."""
QUESTION_S = 0.02
ALLOCATOR, NO_SHELF = b"GLIBC_TUNABLES", b"glibc.malloc.tcache_count=0"
"""Off-cuts of large tensors would come onto that shelf and be handed out to small things that stay.
Then the next tensor finds no place there: by chance, and the same job needs more memory."""


class Server:
    """`supervise(job number, what is loaded)` is what its forks do."""

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
            return  # another one was faster
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
        """What counts at the start of a process only: we start once more, with it. A library for
        the names of nodes in flat mode, and an allocator that has no shelf for small blocks."""
        box, environment = settings.load(), {ALLOCATOR: NO_SHELF, **os.environb}
        if probe.describe(box)[0] == probe.FLAT:
            library = host_names.library(box, probe.stamp())
            environment = host_names.added_to(environment, library)
        if environment != dict(os.environb):
            os.execve(sys.executable, sys.orig_argv, environment)
        if os.environb[ALLOCATOR] == NO_SHELF:
            del os.environb[ALLOCATOR]  # no program can tell, and none has to start cold for it

    def _serve(self) -> None:
        ended = roles.watch_children()
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
        """False when the state folder was removed, or another process took our place."""
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
    """Those of other courses, and of this one before it was changed, may have been killed: nobody
    else would ask for their names again."""
    for lock in glob.glob(os.path.join(glob.escape(os.path.dirname(ours)), "warm-*.lock")):
        if lock != ours and not detached.is_locked(lock):
            for path in (lock.removesuffix(".lock") + ".sock", lock):
                with contextlib.suppress(OSError):
                    os.unlink(path)


def preload(root: str) -> Loaded:
    """Imports what jobs will need, and notes which variables that read."""
    import importlib

    before = dict(os.environ)  # torch itself sets a few, and makes the folder that this one names
    os.environ[settings.COMPILED_CODE] = settings.compiled_code()
    with WatchedEnvironment() as watched:
        for module in MODULES:
            with contextlib.suppress(ImportError):
                importlib.import_module(module)
    hurry_rendezvous()
    base = list(sys.path)
    base.remove(root)
    loaded = Loaded(before, watched.absent, base)
    gc.collect()
    gc.freeze()
    return loaded


def hurry_rendezvous() -> None:
    """Launchers of torchrun ask only once a second who has come, which spares the store of a large
    cluster; in the box that second would be most of a job's start."""
    rendezvous = sys.modules.get("torch.distributed.elastic.rendezvous.dynamic_rendezvous")
    if rendezvous is not None:
        vars(rendezvous)["_delay"] = lambda seconds: time.sleep(QUESTION_S)
        holder = rendezvous._BackendRendezvousStateHolder
        holder.__init__ = functools.partialmethod(holder.__init__, cache_duration=0)
