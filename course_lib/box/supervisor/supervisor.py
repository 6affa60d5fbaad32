"""The one process that answers for a running job, from its nodes to its last line in the queue."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import time

from course_lib.box import settings
from course_lib.box.nodes import host_names, namespaces, probe
from course_lib.box.process_tree.guard import Guard, NotStarted
from course_lib.box.process_tree.job_plan import Plan
from course_lib.box.processes import finding, messages
from course_lib.box.processes.control import SOCKET
from course_lib.box.processes.event_loop import Loop
from course_lib.box.processes.log import note
from course_lib.box.queue import schedule, state
from course_lib.box.queue.records import Allocation, Job
from course_lib.box.queue.store import HomeGone, StateError, belong
from course_lib.box.supervisor import launch, script_files
from course_lib.box.supervisor.batch_script import BatchScript
from course_lib.box.supervisor.ending import Ending
from course_lib.box.supervisor.job_steps import Steps
from course_lib.box.supervisor.memory_watch import MemoryWatch
from course_lib.box.supervisor.state_writes import insist
from course_lib.box.supervisor.variables import JobEnvironment
from course_lib.box.warm import shims
from course_lib.box.warm.decide import Loaded

LOCK_TRIES = 20
LOOK_S = 1.0
ATTACH_S = 30.0
"""An srun outside of a job that does not come for its nodes within this time is dead."""


class Supervisor:
    def __init__(self, job_id: int) -> None:
        self.job_id = job_id
        self.folder = settings.job_folder(job_id)
        self.loop = Loop()
        self.box = settings.load()

    def run(self) -> None:
        os.chdir("/")
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        if not self._lock():
            return
        belong()
        pid = os.getpid()
        job = insist(lambda: state.claim(self.job_id, pid, finding.ticks(pid)))
        if job is None:
            return
        self.job: Job = job
        self.parts: list[Allocation] = state.read_allocation(job.id)
        self.environment = JobEnvironment(job, self.parts)
        try:
            self.plan = self._plan()
            self.guard, self.first = Guard(self.plan).start()
        except (NotStarted, OSError) as error:
            self._not_started(str(error))
            return
        living = [self.guard, *finding.descendants(self.guard)]
        self.first_process = living[-1]
        finding.note(os.path.join(self.folder, launch.PROCESSES), living)
        self._begin()
        self.loop.run()
        self._leave()

    def _lock(self) -> bool:
        """The lock is ours until we die; a look of another process may hold it for a moment."""
        os.makedirs(self.folder, mode=0o700, exist_ok=True)
        lock = os.open(os.path.join(self.folder, launch.ALIVE), os.O_RDWR | os.O_CREAT, 0o600)
        for _ in range(LOCK_TRIES):
            with contextlib.suppress(OSError):
                fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                launch.own_job_id = self.job_id
                return True
            time.sleep(0.05)
        return False

    def _plan(self) -> Plan:
        mode, _ = probe.describe(self.box)
        separate = mode == probe.NAMESPACES
        nodes = self.box.node_names
        known = {name: namespaces.address(number) for number, name in enumerate(nodes, 1)}
        plan = Plan(
            job_id=self.job.id,
            home=settings.state_home(),
            folder=self.folder,
            separate=separate,
            nodes=tuple((part.node, known[part.node]) for part in self.parts),
            link_gbit=self.job.link_gbit,
            shims=shims.make(self.folder, separate) if Loaded.now else shims.Shims(),
            names="" if separate else host_names.library(self.box, probe.stamp()),
        )
        with open(plan.hosts_file, "w") as file:
            file.write(namespaces.hosts_text(nodes))
        return plan

    def _begin(self) -> None:
        self.ending = Ending(self)
        self.steps = Steps(self)
        self.script = BatchScript(self) if self.job.kind == "batch" else None
        self.listener = messages.listen(os.path.join(self.folder, SOCKET))
        self.listener.settimeout(messages.PATIENCE_S)
        self.loop.on_input(self.listener, self._accept)
        self.loop.on_input(self.first, self._hear_first)
        self.loop.every(LOOK_S, self._look)
        self.loop.every(LOOK_S, MemoryWatch(self).look)
        self.ending.set_alarms()
        if self.script:
            self.script.start()
        else:
            self.loop.after(ATTACH_S, self._nobody_came)

    def _hear_first(self) -> None:
        """The job's first process died under us, and with it everything in the job."""
        try:
            messages.receive(self.first)  # the end of a step daemon, which tells us so itself
        except messages.Gone:
            self.ending.node_failed()

    def nodes_are_gone(self) -> bool:
        """A daemon that died alone is one thing, one that died with its nodes another."""
        if not finding.is_ending(self.first_process):
            return False
        self.ending.node_failed()
        return True

    def _nobody_came(self) -> None:
        if not self.steps.attached:
            self.ending.cancel()

    def _look(self) -> None:
        """The queue may have decided something while its message to us was lost."""
        try:
            job = state.read_job(self.job_id)
        except HomeGone:
            job = None
        except StateError:
            return
        if job is None or job.submit_s != self.job.submit_s:
            self.ending.forgotten()
        elif job.completing or job.requeue_asked or job.state != "RUNNING":
            self.job = job
            self.ending.cancel()

    def _accept(self) -> None:
        try:
            connection, _ = self.listener.accept()
            connection.settimeout(messages.PATIENCE_S)
            request, files = messages.receive(connection)
        except (OSError, messages.Gone):
            return
        if request.get("do") == "attach":
            self.steps.attach(connection)
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
            self.ending.cancel()
        elif do == "signal":
            self.steps.signal(request)
        elif do == "pass":
            insist(schedule.run_pass)
        elif do == "reload":
            job = insist(lambda: state.read_job(self.job_id))
            if job is not None:
                self.job = job
                self.ending.set_alarms()
        else:
            return {"error": f"unknown request {do!r}"}
        return {"ok": True}

    def _leave(self) -> None:
        """No process of the job is left; says so to the queue, and starts who waits."""
        self.first.close()
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.guard, 0)
        with contextlib.suppress(OSError):
            os.unlink(os.path.join(self.folder, SOCKET))
        if not self.plan.separate:  # where no namespace ends them all
            launch.bury_folder(self.folder)
        self.ending.report()

    def _not_started(self, why: str) -> None:
        with contextlib.suppress(OSError):
            streams = script_files.open_streams(self.job, self.parts[0].node)
            os.write(streams[2], f"box: the nodes of the job could not be made: {why}\n".encode())
        note(why)
        probe.forget()
        insist(lambda: state.mark_completing(self.job_id, "NODE_FAIL", 1))
        insist(lambda: state.finish(self.job_id, "NODE_FAIL", 1))
        insist(schedule.run_pass)
