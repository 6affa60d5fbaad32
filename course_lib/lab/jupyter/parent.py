"""Ending of a process together with its parent, even if the parent is killed."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time

TIDYING_LIMIT_S = 10


def exit_with(parent_pid: int) -> None:
    """End this process within a second of its parent's end, and remove temporary files.

    The parent is polled, because macOS has no PR_SET_PDEATHSIG. That signal would also fire when
    only the parent's thread ends. A SIGTERM from the Jupyter server ends the process in the same
    way.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))

    def watch() -> None:
        while os.getppid() == parent_pid:
            time.sleep(1)
        os.kill(os.getpid(), signal.SIGTERM)  # the main thread cleans up
        time.sleep(TIDYING_LIMIT_S)
        os._exit(1)

    threading.Thread(target=watch, name="parent-watch", daemon=True).start()
