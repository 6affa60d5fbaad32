"""The one process that answers for a running job, from its nodes to its last line in the queue."""

from __future__ import annotations

import contextlib
import os
import signal
import socket

from course_lib.box import settings
from course_lib.box.dispatch import launch, passes, temporary_files
from course_lib.box.process_tree.guard import NotStarted
from course_lib.box.processes import disk, finding, libc, messages
from course_lib.box.processes.control import SOCKET
from course_lib.box.processes.event_loop import Loop
from course_lib.box.queue import state
from course_lib.box.queue.store import HomeGone, StateError, stay_with_folder
from course_lib.box.supervisor import beginning
from course_lib.box.supervisor.batch_script import STEP, BatchScript
from course_lib.box.supervisor.context import JobContext
from course_lib.box.supervisor.ending import REQUEUED, Ending
from course_lib.box.supervisor.job_steps import JobSteps
from course_lib.box.supervisor.memory_watch import MemoryWatch
from course_lib.box.supervisor.running_step import cancelled_text
from course_lib.box.supervisor.state_writes import BRIEF_S, LASTING_S, insist
from course_lib.box.supervisor.variables import JobVariables
from course_lib.box.warm.loaded import Loaded

LOOK_S = 1.0
ATTACH_S = 30.0
"""An srun outside of a job that does not come for its nodes within this time is dead."""


class Supervisor:
    """`loaded`: what the warm process had loaded, where this is a fork of it."""

    def __init__(self, job_id: int, loaded: Loaded | None = None) -> None:
        self.job_id = job_id
        self.loaded = loaded
        self.folder = settings.job_folder(job_id)
        self.loop = Loop()
        self.attached = False

    def run(self) -> None:
        os.chdir("/")
        if libc.AVAILABLE:
            libc.prctl(libc.PR_SET_NAME, b"box-supervisor")  # a fork bears the warm process's name
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        if not beginning.take_lock(self.folder):
            return
        stay_with_folder()
        pid = os.getpid()
        job = insist(lambda: state.claim(self.job_id, pid, finding.ticks(pid)), LASTING_S)
        parts = insist(lambda: state.read_allocation(self.job_id), LASTING_S)
        if job is None or parts is None:
            return
        try:
            plan = insist(
                lambda: beginning.make_plan(job, parts, self.folder, self.loaded), LASTING_S
            )
            if plan is None:
                return
            processes = beginning.fork_processes(plan)
        except (NotStarted, OSError) as error:
            beginning.report_failure(job, parts[0].node, str(error))
            return
        variables, box = JobVariables(job, parts), settings.load()
        self.context = JobContext(job, parts, box, self.folder, variables, processes, self.loop)
        self._begin()
        self.loop.run()
        self._leave(plan.separate)

    def _begin(self) -> None:
        context, loop = self.context, self.loop
        self.steps = JobSteps(context)
        self.script = BatchScript(context) if context.job.kind == "batch" else None
        self.ending = Ending(context, self.steps, self.script)
        path = os.path.join(self.folder, SOCKET)
        listener = insist(lambda: messages.listen(path), LASTING_S)
        if listener is None:
            return self.loop.stop()
        self.listener = listener
        loop.on_input(self.listener, self._accept)
        loop.on_input(context.processes.line, self._hear_first)
        loop.every(LOOK_S, self._look)
        loop.every(LOOK_S, MemoryWatch(context, self.ending.exceeded_memory).look)
        self.ending.set_alarms()
        if self.script:
            self.script.start()
        elif context.job.kind != "no-shell":
            loop.after(ATTACH_S, self._nobody_came)

    def _hear_first(self) -> None:
        """The job's first process died under us, and with it everything in the job."""
        try:  # the end of a step daemon it tells us, which does so itself
            messages.receive(self.context.processes.line)
        except messages.Gone:
            self.context.node_failed()

    def _attach(self, connection: socket.socket) -> None:
        """The srun or salloc that this job was made for; the job ends when it goes."""
        self.attached = True

        def left() -> None:
            status = self.steps.worst_status
            try:
                message, _ = messages.receive(connection)
                status = int(message.get("status", status))
                self.loop.forget(connection)  # closed when we end: then the nodes are free
            except messages.Gone:
                self.loop.forget(connection)
                connection.close()
            self.ending.ended_by_itself(status)

        def revoked() -> None:
            if connection.fileno() >= 0:
                self.loop.forget(connection)
                with contextlib.suppress(messages.Gone):
                    messages.send(connection, {"revoked": True})

        if self.context.job.kind == "salloc":
            self.ending.on_stop = revoked
        self.loop.on_input(connection, left)

    def _nobody_came(self) -> None:
        if not self.attached:
            self.ending.cancel()

    def _look(self) -> None:
        """The queue may have decided something while its message to us was lost."""
        try:
            job = state.read_certainly(self.job_id)
        except HomeGone:
            job = None
        except StateError:
            return
        if job is None or job.submit_s != self.context.job.submit_s:
            self.ending.forget()
        elif job.completing or job.requeue_asked or job.state != "RUNNING":
            self.context.job = job
            self.ending.cancel(REQUEUED if job.requeue_asked else "")

    def _accept(self) -> None:
        caller = messages.accept(self.listener)
        if caller is None:
            return
        connection, request, files = caller
        if request.get("do") == "attach":
            self._attach(connection)
        elif request.get("do") == "step":
            self.steps.new_client(connection, request)
        else:
            with contextlib.suppress(messages.Gone):
                messages.send(connection, self._answer(request))
            connection.close()
        messages.close_all(files)

    def _answer(self, request: messages.Message) -> messages.Message:
        do = request.get("do")
        if do in ("cancel", "requeue"):
            self.ending.cancel(REQUEUED if do == "requeue" else "")
        elif do == "signal":
            self._signal(request)
        elif do == "pass":
            insist(passes.run_pass, BRIEF_S)
        elif do == "reload":
            job = insist(lambda: state.read_certainly(self.job_id), BRIEF_S)
            if job is not None:
                self.context.job = job
                self.ending.set_alarms()
        else:
            return {"error": f"unknown request {do!r}"}
        return {"ok": True}

    def _signal(self, request: messages.Message) -> None:
        """scancel --signal, and scancel of a single step."""
        number, to, name = int(request["signal"]), request.get("to"), request.get("step")
        if self.script and (to in (STEP, "full") or name == STEP):
            if number in (signal.SIGTERM, signal.SIGKILL):
                self.script.announce(cancelled_text())
            self.script.signal(number, alone=to == STEP)
        if STEP not in (to, name):
            self.steps.signal(number, None if name is None else str(name))

    def _leave(self, separate: bool) -> None:
        """No process of the job is left; says so to the queue, and starts who waits."""
        self.context.processes.line.close()
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.context.processes.guard, 0)
        with contextlib.suppress(OSError):
            os.unlink(os.path.join(self.folder, SOCKET))
        if not separate:  # where no namespace ends them all
            launch.kill_processes(self.folder)
        with contextlib.suppress(OSError):
            temporary_files.remove(self.folder)
        self.ending.report()


def supervise_warm(job_id: int, loaded: Loaded) -> None:
    """In a fork of the warm process, whose log is not the job's."""
    log = os.path.join(settings.job_folder(job_id), launch.LOG)
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    descriptor = os.open(disk.log_file(log, flags), flags, 0o600)
    for stream in (1, 2):
        os.dup2(descriptor, stream)
    os.close(descriptor)
    Supervisor(job_id, loaded).run()
