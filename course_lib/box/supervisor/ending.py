"""How a job ends: by itself, by a cancel, at its time limit, or by the death of its nodes."""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING

from course_lib.box.queue import schedule, state
from course_lib.box.supervisor.state_writes import BRIEF_S, LASTING_S, insist

if TYPE_CHECKING:
    from course_lib.box.supervisor.supervisor import Supervisor

OUT_OF_MEMORY_CODE = 125


class Ending:
    def __init__(self, supervisor: Supervisor) -> None:
        self.of = supervisor
        self.decided = ""
        """Why the job is being ended, as its log says it; empty while it runs."""
        self.state = ""
        self.status = 0
        self.forget = False
        self.out_of_memory = False
        self.alarms = 0

    def set_alarms(self) -> None:
        """The time limit, and the signal before it; again whenever the limit changes."""
        self.alarms += 1
        mine, job = self.alarms, self.of.job
        if job.time_limit_min < 0:
            return
        left_s = job.start_s + job.time_limit_min * 60 - time.time()
        self.of.loop.after(left_s, lambda: self._time_is_up(mine))
        if job.signal_number:
            self.of.loop.after(left_s - job.signal_before_s, lambda: self._warn(mine))

    def _warn(self, alarm: int) -> None:
        job = self.of.job
        if alarm != self.alarms:
            return
        if job.signal_to == "batch" and self.of.script:
            self.of.script.signal(job.signal_number, alone=True)
        else:
            self.of.steps.signal_all(job.signal_number)

    def _time_is_up(self, alarm: int) -> None:
        if not self.decided and alarm == self.alarms:
            insist(lambda: state.mark_completing(self.of.job_id, "TIMEOUT"), BRIEF_S)
            self._stop(" DUE TO TIME LIMIT", "TIMEOUT")

    def cancel(self) -> None:
        if not self.decided:
            self._stop("", "CANCELLED")

    def exceeded_memory(self) -> None:
        """As the kernel would: no warning, no time to end."""
        if not self.out_of_memory:
            self.out_of_memory = True
            for step in list(self.of.steps.active):
                step.say(self._killed_in(step.name))
            self.of.steps.kill_all()
            if self.of.script:
                self.of.script.say(self._killed_in("batch"))
                self.of.script.kill()

    def _killed_in(self, step: str) -> str:
        return (
            f"Detected 1 oom-kill event(s) in StepId={self.of.job_id}.{step}. Some of your"
            " processes may have been killed by the cgroup out-of-memory handler."
        )

    def node_failed(self) -> None:
        """Reported when nothing is left, which is at once where a namespace held it all."""
        self.decided, self.state = "node failure", "NODE_FAIL"
        self.of.loop.stop()

    def forgotten(self) -> None:
        """The queue does not know this job any more: nothing is left to report to."""
        self.forget = True
        self._kill()

    def _stop(self, why: str, final: str) -> None:
        """SIGCONT and SIGTERM to everything, SIGKILL to what is left after KillWait."""
        self.decided, self.state = why or "cancelled", final
        when = time.strftime("%Y-%m-%dT%H:%M:%S")
        script = self.of.script
        self.of.steps.stop_all(f"CANCELLED AT {when}{why}")
        if script and script.running:
            host = self.of.parts[0].node
            script.say(f"*** JOB {self.of.job_id} ON {host} CANCELLED AT {when}{why} ***")
            script.signal(signal.SIGCONT)
            script.signal(signal.SIGTERM)
        self.of.loop.after(self.of.box.kill_wait_s, self._kill)
        self.check()

    def _kill(self) -> None:
        self.of.steps.kill_all()
        if self.of.script:
            self.of.script.kill()

    def script_ended(self, status: int) -> None:
        self.status = status
        if not self.decided:
            final = "COMPLETED" if status == 0 else "FAILED"
            self.state = "OUT_OF_MEMORY" if self.out_of_memory else final
            code, number = self.code_and_signal(status)
            insist(lambda: state.mark_completing(self.of.job_id, self.state, code, number), BRIEF_S)
            self.decided = "ended"
            when = time.strftime("%Y-%m-%dT%H:%M:%S")
            self.of.steps.stop_all(f"CANCELLED AT {when}")
            self.of.loop.after(self.of.box.kill_wait_s, self._kill)
        self.check()

    def last_client_left(self) -> None:
        """Of a job that is an srun: it ends with it, with the code of its worst task."""
        self.script_ended(self.of.steps.worst_status)

    def check_if_decided(self) -> None:
        if self.decided:
            self.check()

    def check(self) -> None:
        """Leaves when nothing runs any more."""
        if self.of.steps.running():
            return
        script = self.of.script
        if script and script.running:
            script.finish()
        else:
            self.of.loop.stop()

    def code_and_signal(self, status: int) -> tuple[int, int]:
        if self.out_of_memory:
            return 0, OUT_OF_MEMORY_CODE
        if os.WIFSIGNALED(status):
            return 0, os.WTERMSIG(status)
        return os.WEXITSTATUS(status), 0

    def step_state(self, status: int) -> str:
        if self.out_of_memory:
            return "OUT_OF_MEMORY"
        if status == 0:
            return "COMPLETED"
        stopped = self.decided and self.decided != "ended"
        return "CANCELLED" if os.WIFSIGNALED(status) and stopped else "FAILED"

    def report(self) -> None:
        if not self.forget:
            code, number = self.code_and_signal(self.status)
            insist(lambda: state.finish(self.of.job_id, self.state, code, number), LASTING_S)
        insist(schedule.run_pass)
