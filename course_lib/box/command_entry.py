"""First file of every command: `python -I -S command_entry.py sbatch …`.

It finds the package by its own path. It therefore works from a checkout, from a wheel and without
`site`, with any PYTHON* variables.
"""

from __future__ import annotations

import os
import sys

here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(os.path.dirname(here)))

from course_lib.box.commands.main import main  # noqa: E402

if __name__ == "__main__":
    code = main(sys.argv[1], sys.argv[2:])
    sys.stdout.flush()
    os._exit(code)  # nothing is left to close, and a clean exit takes 5 ms
