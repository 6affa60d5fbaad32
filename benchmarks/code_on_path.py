"""Search path for benchmarks, which import this first: code/ has the program, tests/code the plain
model and the process groups."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / name) for name in ("code", "tests/code")]
