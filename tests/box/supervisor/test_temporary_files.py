"""Temporary files of a job are in a folder that no other account can create first, and are
removed with the job."""

from __future__ import annotations

import os
import signal
import stat
from pathlib import Path

import pytest

TELL = """
python3 - <<'X'
import os, tempfile
from multiprocessing.connection import Listener
from multiprocessing.util import get_temp_dir
print(tempfile.gettempdir(), os.environ["TORCHINDUCTOR_CACHE_DIR"])
Listener(family="AF_UNIX")
open(tempfile.gettempdir() + "/left", "w")
X
srun bash -c 'echo $TMPDIR $TORCHINDUCTOR_CACHE_DIR'
"""


def test_every_job_has_a_private_folder_that_goes_with_it(any_box):
    job = any_box.submit(TELL + "touch begun; until [ -e go ]; do sleep 0.1; done", "-n1")
    any_box.until_exists("begun")
    (inside, cache), (of_step, cache_of_step) = map(str.split, any_box.output(job).splitlines()[:2])
    assert (inside, cache) == (of_step, cache_of_step)
    for folder in (inside, cache):
        found = Path(folder).stat()
        assert (stat.S_IMODE(found.st_mode), found.st_uid) == (0o700, os.getuid())
    assert Path(inside).name != "tmp" or str(any_box.home) in inside
    (any_box.work / "go").touch()
    assert any_box.wait(job) == "COMPLETED"
    any_box.until("its files are gone", lambda: not Path(inside).exists())
    assert Path(cache).exists(), "the next job need not compile again"
    (any_box.work / "go").unlink()


def test_the_next_command_removes_the_files_of_a_killed_job(any_box):
    job = any_box.submit("echo $TMPDIR; touch $TMPDIR/left begun; sleep 600", "-n1")
    any_box.until_exists("begun")
    folder = Path(any_box.output(job).strip())
    assert (folder / "left").exists()
    for pid, name in any_box.processes().items():
        if name == "box-supervisor":
            os.kill(pid, signal.SIGKILL)
    any_box.until("it is seen", lambda: any_box.state(job) == "NODE_FAIL")
    assert not folder.exists()
    assert not os.path.lexists(any_box.home / "jobs" / job / "tmp")


@pytest.mark.parametrize("length", [1, 60])
def test_sockets_fit_into_its_path_however_long_that_of_the_box_is(make_box, length):
    box = make_box()
    longer = box.home.parent / ("h" * length)
    box.home.rename(longer)
    box.home, box.environment["COURSE_BOX_HOME"] = longer, str(longer)
    assert box.result(TELL, "-n1")


def test_the_folder_that_torch_names_when_it_compiles_is_none_that_the_user_chose(make_box):
    box = make_box()
    box.environment["TORCHINDUCTOR_CACHE_DIR"] = "/tmp/torchinductor_somebody"
    assert box.result("echo $TORCHINDUCTOR_CACHE_DIR", "-n1") == f"{box.home}/compiled\n"
