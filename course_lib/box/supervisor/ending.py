"""The end of a job, with its state and exit code: by itself, by a cancel or at its time limit."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable

from course_lib.box.dispatch import upkeep
from course_lib.box.queue import state
from course_lib.box.supervisor.batch_script import STEP, BatchScript
from course_lib.box.supervisor.context import ENDED, LASTING_S, JobContext, retry
from course_lib.box.supervisor.job_steps import JobSteps, cancelled_text

REQUEUED = " DUE TO JOB REQUEUE"
# Text for a step that still runs when the script of its job has failed.
FAILED_TEXT = "FAILED (non-zero exit code or other failure mode)"


class Ending:
    def __init__(self, context: JobContext, steps: JobSteps, script: BatchScript | None) -> None:
        self.context = context
        self.outcome = context.outcome
        self.steps = steps
        self.script = script
        self.forgotten = False
        self.begun = time.monotonic()
        self.on_stop: Callable[[], None] = lambda: None
        steps.on_end = self._step_ended
        if script:
            script.on_exit, script.on_gone = self.ended_by_itself, self._leave_if_idle

    def set_alarms(self) -> None:
        """Set timers for the time limit and the signal before it."""
        job, loop = self.context.job, self.context.loop
        if job.time_limit_min < 0:
            return
        limit_s = job.time_limit_min * 60
        # wall time, which continues during sleep; the monotonic clock covers a clock set back
        ran_s = max(time.time() - job.start_s, time.monotonic() - self.begun)
        left_s = limit_s - ran_s
        loop.after(left_s, self._time_is_up)
        if job.signal_number:
            loop.after(left_s - job.signal_before_s, self._warn)

    def _warn(self) -> None:
        job = self.context.job
        if job.signal_to == STEP and self.script:
            self.script.signal(job.signal_number, alone=True)
        else:
            self.steps.signal(job.signal_number)

    def _time_is_up(self) -> None:
        if not self.outcome.decided:
            job_id = self.context.job.id
            retry(lambda: state.mark_completing(job_id, "TIMEOUT"), LASTING_S)
            self._stop(" DUE TO TIME LIMIT", "TIMEOUT")

    def cancel(self, why: str = "") -> None:
        if not self.outcome.decided:
            self._stop(why, "CANCELLED")

    def exceeded_memory(self) -> None:
        """Kill the job without warning, as the kernel does when memory runs out."""
        if self.outcome.out_of_memory:
            return
        self.outcome.out_of_memory = True
        for step in list(self.steps.active):
            step.say(self._killed_in(step.name))
        if self.script:
            self.script.say(self._killed_in(STEP))
        self._kill()

    def _killed_in(self, step: str) -> str:
        return (
            f"Detected 1 oom-kill event(s) in StepId={self.context.job.id}.{step}. Some of your"
            " processes may have been killed by the cgroup out-of-memory handler."
        )

    def forget(self) -> None:
        """End a job that the queue no longer knows, without a report."""
        self.forgotten = True
        self._kill()

    def _stop(self, why: str, final: str) -> None:
        """Send SIGCONT and SIGTERM to all processes, and SIGKILL to the rest after KillWait."""
        self.outcome.decide(why or "cancelled", final)
        self.on_stop()
        text = cancelled_text(why)
        self.steps.stop_all(text)
        if self.script and self.script.running:
            self.script.announce(text)
            self.script.signal(signal.SIGCONT)
            self.script.signal(signal.SIGTERM)
        self._kill_later()
        self._leave_if_idle()

    def _kill_later(self) -> None:
        self.context.loop.after(self.context.box.kill_wait_s, self._kill)

    def _kill(self) -> None:
        self.steps.kill_all()
        if self.script:
            self.script.kill()

    def ended_by_itself(self, status: int) -> None:
        """Handle the end of the script or of the job's srun, with its tasks' worst status."""
        outcome = self.outcome
        outcome.status = status
        if not outcome.decided:
            final = outcome.job_state(status)
            code, number = outcome.code_and_signal(status)
            job_id = self.context.job.id
            retry(lambda: state.mark_completing(job_id, final, code, number), LASTING_S)
            outcome.decide(ENDED, final)
            self.steps.stop_all(FAILED_TEXT if final == "FAILED" else cancelled_text())
            self._kill_later()
        self._leave_if_idle()

    def _step_ended(self) -> None:
        if self.outcome.decided:
            self._leave_if_idle()

    def _leave_if_idle(self) -> None:
        """End the job if no step runs. Processes that the script left behind are killed first."""
        if self.steps.active:
            return
        if self.script and self.script.running:
            self.script.finish()
        else:
            self.context.loop.stop()

    def report(self) -> None:
        if not self.forgotten:
            job_id, final = self.context.job.id, self.outcome.state
            code, number = self.outcome.code_and_signal(self.outcome.status)
            retry(lambda: state.finish(job_id, final, code, number), LASTING_S)
        retry(upkeep.run_pass)
