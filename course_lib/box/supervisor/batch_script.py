"""The batch step of a job, as its supervisor runs it."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import time
from collections.abc import Callable

from course_lib.box import bin_dir, settings, with_bin_dir
from course_lib.box.processes.spawner import StepDaemon, Usage
from course_lib.box.processes.task import Order
from course_lib.box.queue import state
from course_lib.box.queue.records import Job
from course_lib.box.state_folder import note
from course_lib.box.steps import filename_patterns
from course_lib.box.supervisor import limits
from course_lib.box.supervisor.context import LASTING_S, JobContext, retry
from course_lib.box.supervisor.variables import OF_ANOTHER_JOB, JobVariables, encoded, without

STEP = "batch"
# Key of the script's own process among the processes of its step.
KEY = "script"
# slurmd reports with this number that it could not open a script's output (ExitCode 0:53).
IO_FAILED_SIGNAL = 53


class BatchScript:
    """The script of a job. Calls `on_exit` with the wait status, and `on_gone`."""

    on_exit: Callable[[int], None]
    # Called when no process that the script left behind runs any more.
    on_gone: Callable[[], None]

    def __init__(self, context: JobContext) -> None:
        self.context = context
        self.log = -1
        self.status: int | None = None
        self.running = False
        self.finishing = False
        self.usage = Usage()

    def start(self) -> None:
        job, host, loop = self.context.job, self.context.host, self.context.loop
        record = self._record()
        retry(lambda: state.add_step(record), LASTING_S)
        try:
            script = self._copied()
            streams = open_streams(job, host)
        except OSError as error:
            note(f"the box cannot start the script: {error}")
            number = IO_FAILED_SIGNAL
            retry(lambda: state.finish_step(job.id, STEP, "CANCELLED", 0, number), LASTING_S)
            self.on_exit(number)
            return
        self.log = os.dup(streams[2])
        line = self.context.processes.line
        self.daemon = StepDaemon(loop, line, STEP, self._exited, self._gone)
        self.running = True
        order = order_of_script(job, self.context.variables, script)
        self.daemon.spawn(KEY, order, streams)
        for descriptor in streams:
            os.close(descriptor)

    def _copied(self) -> str:
        """Return the path of the script's copy. On a full disk the job waits and does not fail."""
        job, folder = self.context.job, self.context.folder
        path = retry(lambda: copy_script(job, folder), LASTING_S)
        if path is None:
            raise OSError(f"{folder} is gone")
        return path

    def _record(self) -> dict[str, object]:
        part = self.context.parts[0]
        return {
            "start_s": time.time(),
            "job_id": self.context.job.id,
            "step": STEP,
            "name": STEP,
            "nodes": part.node,
            "cpus": len(part.cpus),
            "devices": len(part.devices),
        }

    def say(self, text: str) -> None:
        """Write a line of slurmstepd to the log of the job."""
        if self.log >= 0:
            with contextlib.suppress(OSError):
                os.write(self.log, f"slurmstepd: error: {text}\n".encode())

    def announce(self, text: str) -> None:
        self.say(f"*** JOB {self.context.job.id} ON {self.context.host} {text} ***")

    def signal(self, number: int, alone: bool = False) -> None:
        """Send a signal to every process of the script, or only to the script's own process."""
        if self.running:
            self.daemon.signal(number, KEY if alone else None, alone)

    def kill(self) -> None:
        self.signal(signal.SIGKILL)

    def _exited(self, key: str, status: int, usage: Usage) -> None:
        self.status, self.usage = status, usage
        self.on_exit(status)

    def finish(self) -> None:
        """Kill the processes that the script left behind, once its steps have ended."""
        if self.running and self.status is not None and not self.finishing:
            self.finishing = True
            self.daemon.end()

    def _gone(self) -> None:
        """Record the end of the daemon. All processes that the script left behind ended with it."""
        self.running = False
        daemon_was_killed = self.status is None
        if daemon_was_killed and self.context.nodes_are_gone():
            return
        status = int(signal.SIGKILL) if self.status is None else self.status
        final = self.context.outcome.step_state(status)
        self.context.finish_step(STEP, final, status, self.usage)
        if daemon_was_killed:
            self.on_exit(status)
        self.on_gone()


SCRIPT = "slurm_script"


def copy_script(job: Job, folder: str) -> str:
    path = os.path.join(folder, SCRIPT)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o700)
    with open(descriptor, "wb") as file:
        file.write(job.script)
    return path


def _path(job: Job, pattern: bytes, host: str) -> bytes:
    array = (job.array_job_id, job.array_task)
    values = filename_patterns.of_task(job.id, "batch", host, name=job.name, array=array)
    return os.path.join(job.work_dir, filename_patterns.fill(pattern, values))


def open_streams(job: Job, host: str) -> list[int]:
    """Open standard input, output and error. Raise OSError if one of them cannot be opened."""
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


# A login shell resets PATH. It would then find no srun, or the srun of another Slurm.
BASH_ENV = """\
# Read by every bash of a job that runs a script, login shells after their profile.
case ":$PATH:" in
*:{bin}:*) ;;
*) PATH={bin}:"$PATH" ;;
esac
[ ! -r "$COURSE_BOX_BASH_ENV" ] || . "$COURSE_BOX_BASH_ENV"
"""
START_FILE = "bash_env"
START_FILE_OF_USER = b"COURSE_BOX_BASH_ENV"


def write_start_file(folder: str) -> None:
    with open(os.path.join(folder, START_FILE), "w") as file:
        file.write(BASH_ENV.format(bin=shlex.quote(bin_dir())))


def with_commands(environment: dict[bytes, bytes], job_folder: str) -> dict[bytes, bytes]:
    """Put the commands of the job's own box on the PATH, before a Slurm on the same machine."""
    environment = with_start_file(environment, os.path.join(job_folder, START_FILE))
    return {**environment, b"PATH": with_bin_dir(environment.get(b"PATH", b"/usr/bin:/bin"))}


def with_start_file(environment: dict[bytes, bytes], path: str) -> dict[bytes, bytes]:
    """Make bash read our start file, which then reads the user's file.

    A job that was submitted from another job inherits that job's file, which is not the user's.
    """
    given, ours = environment.get(b"BASH_ENV", b""), os.fsencode(path)
    added = {b"BASH_ENV": ours}
    if given and not given.startswith(os.fsencode(settings.state_home())):
        added[START_FILE_OF_USER] = given
    return {**environment, **added}


def order_of_script(job: Job, variables: JobVariables, script: str) -> Order:
    """Return the order to start the script, for its step daemon."""
    has_device = bool(variables.parts[0].devices)
    inherited = {
        **(variables.pace if has_device else {}),
        **without(OF_ANOTHER_JOB, job.variables()),
    }
    return Order(
        node=0,
        argv=[os.fsencode(script), *job.arguments()],
        environment=with_commands(
            {**inherited, **encoded(variables.batch())}, settings.job_folder(job.id)
        ),
        folder=job.work_dir,
        umask=job.umask,
        limits=limits.of_process(job, has_device, variables.gpus),
    )
