"""`python -m course_lib.lab.jupyter.kernel`: IPython's kernel without any TCP port.

IPython's kernel opens one port for the output of forked processes and one for its debugger. Through
these, every account of the machine could run code as the learner. Here, the first port is a Unix
socket beside the kernel's other sockets. The debugger is off, and JupyterLab does not offer it.
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

from course_lib import set_up_shell
from course_lib.lab.workspace import COMPILED_CODE, is_chosen


class PrivateOutput(IOPubThread):  # type: ignore[misc]
    """Receives the output of forked processes through a socket beside the kernel's sockets."""

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
        context = zmq.Context()  # a fork needs its own context
        outgoing = context.socket(zmq.PUSH)
        outgoing.linger = 3000
        outgoing.connect(self._forks_address)
        return context, outgoing


def somebody_listens(record: logging.LogRecord) -> bool:
    """Return False for an error after a kernel was ended: no client is left to see it."""
    error = record.exc_info[1] if record.exc_info else None
    return not (isinstance(error, zmq.ZMQError) and error.errno == zmq.ENOTSOCK)


class CourseKernel(kernelapp.IPKernelApp):  # type: ignore[misc]
    def init_shell(self) -> None:
        getattr(self.log, "logger", self.log).addFilter(somebody_listens)
        super().init_shell()  # type: ignore[no-untyped-call]
        set_up_shell()  # too early when the package was imported


def main() -> None:
    if Path(sys.path[0]) == Path.cwd():  # the learner's files must not hide Python's own
        del sys.path[0]
    if not is_chosen(os.environ):
        os.environ[COMPILED_CODE] = str(compiled_code())
    vars(kernelapp)["IOPubThread"] = PrivateOutput
    _without_debugger()
    CourseKernel.launch_instance()


def compiled_code() -> Path:
    """Return a private folder for torch's compiled code. torch creates its folder as soon as a cell
    imports it. Its default in `/tmp` has a name that another account can guess. Jobs have their own
    folder: a submission recognizes torch's default by its name."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache")
    return cache.expanduser() / "course" / "torchinductor_notebooks"


def _without_debugger() -> None:
    """Hide debugpy from IPython's only check. The learner's code can still import it."""
    sys.modules["debugpy"] = None  # type: ignore[assignment]
    import ipykernel.debugger  # noqa: F401

    del sys.modules["debugpy"]


if __name__ == "__main__":
    main()
