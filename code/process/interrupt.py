"""Ends a program of this folder without a traceback on Control-C during the import of torch, which
takes seconds. Each program imports this before torch; exit.py takes over afterwards."""

import signal
import sys
from pathlib import Path

PROGRAM = Path(getattr(sys.modules["__main__"], "__file__", None) or "/")
if PROGRAM.resolve().is_relative_to(Path(__file__).resolve().parents[1]):
    signal.signal(signal.SIGINT, signal.SIG_DFL)
