"""`python -m course_lib.lab.jupyter.kernel`: IPython's kernel without any TCP port.

IPython's own opens one for what forked processes print, and one more for its debugger, through
which every account of the machine could run code as the learner. The first is a Unix socket here,
beside the kernel's others; the debugger is off, and JupyterLab does not offer it.
"""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path

import zmq
from ipykernel import kernelapp
from ipykernel.iostream import IOPubThread
from zmq.eventloop.zmqstream import ZMQStream

from course_lib.lab.compiled_code import COMPILED_CODE, is_chosen
from course_lib.mistakes.display import install
from course_lib.words.notebook import install as speak


class PrivateOutput(IOPubThread):  # type: ignore[misc]
    """Takes what forked processes print by a socket in the folder of the kernel's sockets."""

    def _setup_pipe_in(self) -> None:
        self._pipe_uuid = os.urandom(16)
        own_address = self.socket.getsockopt(zmq.LAST_ENDPOINT).decode().rstrip("\0")
        self._forks_address = f"{own_address}f"
        incoming = self.socket.context.socket(zmq.PULL)
        incoming.linger = 0
        incoming.bind(self._forks_address)
        self._pipe_in = ZMQStream(incoming, self.io_loop)
        self._pipe_in.on_recv(self._handle_pipe_msg)

    def _setup_pipe_out(self) -> tuple[zmq.Context[zmq.Socket[bytes]], zmq.Socket[bytes]]:
        context = zmq.Context()  # of its own after a fork
        outgoing = context.socket(zmq.PUSH)
        outgoing.linger = 3000
        outgoing.connect(self._forks_address)
        return context, outgoing


def somebody_listens(record: logging.LogRecord) -> bool:
    """False of a cell that was stopped by ending its kernel, and has nobody left to answer."""
    error = record.exc_info[1] if record.exc_info else None
    return not (isinstance(error, zmq.ZMQError) and error.errno == zmq.ENOTSOCK)


class CourseKernel(kernelapp.IPKernelApp):  # type: ignore[misc]
    def init_shell(self) -> None:
        getattr(self.log, "logger", self.log).addFilter(somebody_listens)
        super().init_shell()  # type: ignore[no-untyped-call]
        install()  # the import of this module was too early for them
        speak()


def main() -> None:
    if Path(sys.path[0]) == Path.cwd():  # the learner's files must not hide Python's own
        del sys.path[0]
    if not is_chosen(os.environ):
        os.environ[COMPILED_CODE] = str(compiled_code())
    vars(kernelapp)["IOPubThread"] = PrivateOutput
    _without_debugger()
    CourseKernel.launch_instance()


def compiled_code() -> Path:
    """Where torch makes a folder as soon as a cell imports it: else in `/tmp`, by a name that
    another account can guess. Jobs have their own: submissions know torch's default by its name."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache")
    return cache.expanduser() / "course" / "torchinductor_notebooks"


def _without_debugger() -> None:
    """IPython looks once whether debugpy can be imported; the learner's own code still may."""
    sys.modules["debugpy"] = None  # type: ignore[assignment]
    import ipykernel.debugger  # noqa: F401

    del sys.modules["debugpy"]


if __name__ == "__main__":
    main()
