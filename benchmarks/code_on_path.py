"""Imported first by the benchmarks that need them: the program of code/ and the plain model and the
groups of processes of tests/code are found."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / name) for name in ("code", "tests/code")]
