"""The batch script: its copy, its output files, and what starts it."""

from __future__ import annotations

import os

from course_lib.box.nodes import own_commands
from course_lib.box.process_tree.task import Order
from course_lib.box.processes import detached
from course_lib.box.queue.records import Job
from course_lib.box.steps import filename_patterns
from course_lib.box.supervisor import limits
from course_lib.box.supervisor.variables import OF_ANOTHER_JOB, JobVariables, encoded, without

SCRIPT = "slurm_script"


def copy_script(job: Job, folder: str) -> str:
    path = os.path.join(folder, SCRIPT)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o700)
    with open(descriptor, "wb") as file:
        file.write(job.script)
    return path


def _path(job: Job, pattern: bytes, host: str) -> bytes:
    array = (job.array_job_id, job.array_task)
    values = filename_patterns.of_task(
        job.id, "batch", host, name=job.name, user=job.user, array=array
    )
    return os.path.join(job.work_dir, filename_patterns.fill(pattern, values))


def open_streams(job: Job, host: str) -> list[int]:
    """Standard input, output and error; OSError where one of them cannot be opened."""
    append = job.open_mode == "append"
    flags = os.O_WRONLY | os.O_CREAT | (os.O_APPEND if append else os.O_TRUNC)
    old = os.umask(job.umask)
    opened: list[int] = []
    try:
        opened.append(os.open(_path(job, job.stdin, host), os.O_RDONLY))
        output = _path(job, job.stdout or filename_patterns.default_output(job.array_job_id), host)
        opened.append(os.open(output, flags, 0o666))
        error = _path(job, job.stderr, host) if job.stderr else output
        opened.append(os.dup(opened[1]) if error == output else os.open(error, flags, 0o666))
    except OSError:
        for descriptor in opened:
            os.close(descriptor)
        raise
    finally:
        os.umask(old)
    return opened


def with_commands(environment: dict[bytes, bytes], start_file: str) -> dict[bytes, bytes]:
    """A job finds the commands of the box that it runs in, and not those of a Slurm beside it."""
    if start_file:
        environment = own_commands.with_start_file(environment, start_file)
    folder = os.fsencode(os.path.join(detached.package_root(), "course_lib", "box", "bin"))
    path = environment.get(b"PATH", b"/usr/bin:/bin")
    if folder in path.split(b":"):
        return environment
    return {**environment, b"PATH": folder + b":" + path}


def order(job: Job, variables: JobVariables, script: str, start_file: str) -> Order:
    """What the step daemon of the script is told to start."""
    has_device = bool(variables.parts[0].devices)
    inherited = {
        **(variables.pace if has_device else {}),
        **without(OF_ANOTHER_JOB, job.variables()),
    }
    return Order(
        node=0,
        argv=[os.fsencode(script), *job.arguments()],
        environment=with_commands({**inherited, **encoded(variables.batch())}, start_file),
        folder=job.work_dir,
        umask=job.umask,
        limits=limits.of_process(job, has_device, variables.gpus),
    )
