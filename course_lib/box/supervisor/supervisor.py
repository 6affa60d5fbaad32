"""The supervisor: one process per running job, which creates its nodes and reports its end."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import socket
import time

from course_lib.box import settings, state_folder
from course_lib.box.dispatch import upkeep
from course_lib.box.nodes import host_names, namespaces, probe
from course_lib.box.processes import finding, libc, messages
from course_lib.box.processes.control import SOCKET
from course_lib.box.processes.guard import Guard, NotStarted
from course_lib.box.processes.messages import Loop
from course_lib.box.processes.task import JobPlan
from course_lib.box.queue import state, store
from course_lib.box.queue.records import NODE_FAIL, Allocation, Job
from course_lib.box.queue.store import HomeGone, StateError, stay_with_folder
from course_lib.box.state_folder import note
from course_lib.box.supervisor import batch_script
from course_lib.box.supervisor.batch_script import STEP, BatchScript
from course_lib.box.supervisor.context import BRIEF_S, LASTING_S, JobContext, JobProcesses, retry
from course_lib.box.supervisor.ending import REQUEUED, Ending
from course_lib.box.supervisor.job_steps import JobSteps, cancelled_text
from course_lib.box.supervisor.limits import exceeds_memory
from course_lib.box.supervisor.variables import JobVariables
from course_lib.box.warm.program import Loaded

LOCK_TRIES = 20


def take_lock(folder: str) -> bool:
    """Take the lock of a job for the life of this process. A check by another process may hold the
    lock for a moment. If the disk is too full for the file, the job is started again later."""
    os.makedirs(folder, mode=0o700, exist_ok=True)
    try:
        lock = os.open(os.path.join(folder, upkeep.ALIVE), os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        if not state_folder.is_failing(error):
            raise
        return False
    for _ in range(LOCK_TRIES):
        with contextlib.suppress(OSError):
            fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        time.sleep(0.05)
    return False


def make_plan(job: Job, parts: list[Allocation], folder: str, loaded: Loaded | None) -> JobPlan:
    box = settings.load()
    mode, _ = probe.describe(box)
    separate = mode == probe.NAMESPACES
    known = {name: namespaces.address(number) for number, name in enumerate(box.node_names, 1)}
    plan = JobPlan(
        job_id=job.id,
        home=settings.state_home(),
        folder=folder,
        separate=separate,
        nodes=tuple((part.node, known[part.node]) for part in parts),
        link_gbit=job.link_gbit,
        loaded=loaded,
        names_library="" if separate else host_names.library(box, probe.stamp()),
    )
    state_folder.make_temporary(folder)
    batch_script.write_start_file(folder)
    with open(plan.hosts_file, "w") as file:
        file.write(namespaces.hosts_text(box.node_names))
    return plan


def fork_processes(plan: JobPlan) -> JobProcesses:
    guard, line = Guard(plan).start()
    living = [guard, *finding.descendants(guard)]
    finding.note(os.path.join(plan.folder, upkeep.PROCESSES), living)
    return JobProcesses(guard, living[-1], line)


def report_failure(job: Job, host: str, why: str) -> None:
    """Report in the job's log and in the queue that its nodes could not be created."""
    with contextlib.suppress(OSError):
        streams = batch_script.open_streams(job, host)
        os.write(streams[2], f"box: the nodes of the job were not created: {why}\n".encode())
    note(why)
    probe.forget()
    retry(lambda: state.mark_completing(job.id, NODE_FAIL, 1), LASTING_S)
    retry(lambda: state.finish(job.id, NODE_FAIL, 1), LASTING_S)
    retry(upkeep.run_pass)


LOOK_S = 1.0
# An srun outside of a job that does not use its nodes within this time is dead.
ATTACH_S = 30.0


class Supervisor:
    """The supervisor of one job. `loaded` describes the warm process if this is a fork of it."""

    def __init__(self, job_id: int, loaded: Loaded | None = None) -> None:
        self.job_id = job_id
        self.loaded = loaded
        self.folder = settings.job_folder(job_id)
        self.loop = Loop()
        self.attached = False

    def run(self) -> None:
        os.chdir("/")
        if libc.AVAILABLE:
            libc.prctl(libc.PR_SET_NAME, b"box-supervisor")  # a fork has the warm process's name
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        if not take_lock(self.folder):
            return
        stay_with_folder()
        pid = os.getpid()
        job = retry(lambda: state.claim(self.job_id, pid, finding.ticks(pid)), LASTING_S)
        parts = retry(lambda: state.read_allocation(self.job_id), LASTING_S)
        if job is None or parts is None:
            return
        try:
            plan = retry(lambda: make_plan(job, parts, self.folder, self.loaded), LASTING_S)
            if plan is None:
                return
            processes = fork_processes(plan)
        except (NotStarted, OSError) as error:
            report_failure(job, parts[0].node, str(error))
            return
        variables, box = JobVariables(job, parts), settings.load()
        self.context = JobContext(job, parts, box, self.folder, variables, processes, self.loop)
        self._begin()
        self.loop.run()
        self._leave(plan.separate)

    def _begin(self) -> None:
        context, loop = self.context, self.loop
        # SQLite's journal stays as long as a connection is open. Commands can then read the queue
        # on a full disk, where they could not create a journal.
        self.reader = retry(store.connect, LASTING_S)
        self.steps = JobSteps(context)
        self.script = BatchScript(context) if context.job.kind == "batch" else None
        self.ending = Ending(context, self.steps, self.script)
        path = os.path.join(self.folder, SOCKET)
        listener = retry(lambda: messages.listen(path), LASTING_S)
        if listener is None:
            return self.loop.stop()
        self.listener = listener
        loop.on_input(self.listener, self._accept)
        loop.on_input(context.processes.line, self._on_dead_node)
        loop.every(LOOK_S, self._look)
        self.ending.set_alarms()
        if self.script:
            self.script.start()
        else:
            loop.after(ATTACH_S, self._cancel_if_unattached)

    def _on_dead_node(self) -> None:
        """End the job if its first process, and therefore every process, has died."""
        try:  # a message here reports the end of a step daemon, which also reports its end itself
            messages.receive(self.context.processes.line)
        except messages.Gone:
            self.context.node_failed()

    def _attach(self, connection: socket.socket) -> None:
        """Connect the srun or salloc that owns this job. The job ends when it disconnects."""
        self.attached = True

        def left() -> None:
            status = self.steps.worst_status
            try:
                message, _ = messages.receive(connection)
                status = int(message.get("status", status))
                self.loop.forget(connection)  # our end closes it, and the nodes are free
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

    def _cancel_if_unattached(self) -> None:
        if not self.attached:
            self.ending.cancel()

    def _look(self) -> None:
        """Read the job again, because a message about a change in the queue may have been lost."""
        if exceeds_memory(self.context):
            self.ending.exceeded_memory()
        try:
            job = state.read_job(self.job_id)
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
            retry(upkeep.run_pass, BRIEF_S)
        else:
            return {"error": f"unknown request {do!r}"}
        return {"ok": True}

    def _signal(self, request: messages.Message) -> None:
        """Handle scancel --signal, and scancel of a single step."""
        number, to, name = int(request["signal"]), request.get("to"), request.get("step")
        if self.script and (to in (STEP, "full") or name == STEP):
            if number in (signal.SIGTERM, signal.SIGKILL):
                self.script.announce(cancelled_text())
            self.script.signal(number, alone=to == STEP)
        if STEP not in (to, name):
            self.steps.signal(number, None if name is None else str(name))

    def _leave(self, separate: bool) -> None:
        """Clean up after the job's last process, report to the queue and start waiting jobs."""
        self.context.processes.line.close()
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.context.processes.guard, 0)
        with contextlib.suppress(OSError):
            os.unlink(os.path.join(self.folder, SOCKET))
        if not separate:  # no namespace ends all the processes
            upkeep.kill_processes(self.folder)
        with contextlib.suppress(OSError):
            state_folder.remove_temporary(self.folder)
        self.ending.report()


def supervise_warm(job_id: int, loaded: Loaded) -> None:
    """Supervise a job in a fork of the warm process, with the job's own log."""
    log = os.path.join(settings.job_folder(job_id), upkeep.SUPERVISOR_LOG)
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    descriptor = os.open(state_folder.log_file(log, flags), flags, 0o600)
    for stream in (1, 2):
        os.dup2(descriptor, stream)
    os.close(descriptor)
    Supervisor(job_id, loaded).run()
