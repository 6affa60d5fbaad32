"""Where a job's programs put temporary files: a folder of its own, which nobody else can prepare.

In `/tmp` others choose names first: whoever owns `torchinductor_<user>` there decides what code a
compiled model runs.
"""

from __future__ import annotations

import os

from course_lib.box import settings

FOLDER = "tmp"
"""In the folder of the job, or there a link to one with a shorter path."""
CALLERS = "callers"
"""In the folder of the job: who calls whom in flat mode, see host_names.c."""
LONGEST_PATH_BYTES = 70
"""A socket's path may have 107 bytes; Python's multiprocessing adds 32 to the folder."""


def make(job_folder: str) -> None:
    """An empty folder; what an earlier start of the job left, or a killed one, is gone."""
    remove(job_folder)
    os.mkdir(os.path.join(job_folder, CALLERS), 0o700)
    path = os.path.join(job_folder, FOLDER)
    if len(os.fsencode(path)) <= LONGEST_PATH_BYTES:
        os.mkdir(path, 0o700)
    else:
        import tempfile

        os.symlink(tempfile.mkdtemp(prefix="course-"), path)
    os.makedirs(settings.compiled_code(), mode=0o700, exist_ok=True)


def of_job(job_id: int) -> str:
    return os.path.realpath(os.path.join(settings.job_folder(job_id), FOLDER))


def remove(job_folder: str) -> None:
    paths = [os.path.join(job_folder, name) for name in (CALLERS, FOLDER)]
    for path in filter(os.path.lexists, paths):
        import shutil

        shutil.rmtree(os.path.realpath(path), ignore_errors=True)
        if os.path.islink(path):
            os.unlink(path)
