"""A copy of the readers' folder works without the rest of the library."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

from course_lib import read as read_room

LOG = (
    b" iteration        1/       2 | elapsed time per iteration (ms): 12.5 | lm loss: 2.0 |\n"
    b"Traceback (most recent call last):\n"
    b'  File "train.py", line 3, in <module>\n'
    b"ModuleNotFoundError: No module named 'apex'\n"
)
PROGRAM = """
import json, sys
from course_lib import read
for name in read.__all__: getattr(read, name)
log, found = read.training_log("out.log"), read.failure("out.log")
others = [name for name in sys.modules if name.startswith("course_lib.")
          and not name.startswith("course_lib.read")]
print(json.dumps([read.__file__, log.iterations["elapsed_ms"].tolist(), found.cause, others]))
"""


def test_a_copy_of_the_folder_alone_reads_a_log_and_names_the_cause(tmp_path):
    package = tmp_path / "course_lib"
    package.mkdir()
    (package / "__init__.py").touch()
    original = Path(read_room.__file__).parent
    shutil.copytree(original, package / "read", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "out.log").write_bytes(LOG)
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    place, times, cause, others = json.loads(done.stdout)
    assert Path(place).parent == package / "read"
    assert (times, cause, others) == ([12.5], "missing_module", [])
