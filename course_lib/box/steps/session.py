"""One srun while its step runs."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import time
from collections.abc import Callable

from course_lib.box.processes import messages
from course_lib.box.steps import filename_patterns, terminal
from course_lib.box.steps.feed import Feed
from course_lib.box.steps.sinks import NoFile, Sinks, input_of
from course_lib.box.steps.srun_signals import SrunSignals
from course_lib.box.steps.step_request import Options, user_name
from course_lib.box.steps.streams import Output, write_all
from course_lib.box.steps.task_ends import Report, code_of, ranges, say
from course_lib.box.steps.terminal import Terminal

GROUP_MS = 30
"""Ends of tasks that come within this time are told in one line."""


class Session:
    def __init__(
        self, options: Options, connection: socket.socket, job_id: int, granted: messages.Message
    ) -> None:
        self.options = options
        self.connection = connection
        self.step_id = f"{job_id}.{granted['step']}"
        self.job_id, self.step = job_id, granted["step"]
        self.nodes: list[str] = list(granted["nodes"])
        self.tasks: list[list[int]] = [list(tasks) for tasks in granted["tasks"]]
        self.total = sum(map(len, self.tasks))
        self.report = Report(self.nodes, self.tasks)
        self.exit_codes: dict[int, int] = {}
        self.poll = select.poll()
        self.readers: dict[int, Callable[[], None]] = {}
        self.outputs = 0
        self.done = False
        self.force_terminated = False
        self.aborted = False
        self.first_exit_s = 0.0
        self.terminating = False
        self.terminal = terminal.make() if options.pty else None
        self.signals = SrunSignals(self.step_id, self.tell, self.print_status)

    def run(self) -> int:
        try:
            self._launch()
        except NoFile:
            self.connection.close()
            return 1
        self._read_from(self.connection.fileno(), self._hear)
        self.signals.install()
        self._read_from(self.signals.descriptor, self.signals.handle)
        try:
            self._carry()
        finally:
            if self.terminal:
                self.terminal.give_back()
        self.report.flush()
        if self.force_terminated:
            say(f"Force Terminated StepId={self.step_id}")
        return max(self.exit_codes.values(), default=1)

    def _carry(self) -> None:
        while not self.done or self.outputs:
            ready = self.poll.poll(GROUP_MS if self.report.pending else self._wait_ms())
            for descriptor, _ in ready:
                if action := self.readers.get(descriptor):
                    action()
            if not ready:
                self.report.flush()
            self._check_wait()

    def _wait_ms(self) -> int | None:
        return 1000 if self.options.wait_s and self.first_exit_s else None

    def _read_from(self, descriptor: int, action: Callable[[], None]) -> None:
        self.readers[descriptor] = action
        self.poll.register(descriptor, select.POLLIN)

    def _stop_reading(self, descriptor: int) -> None:
        if self.readers.pop(descriptor, None):
            self.poll.unregister(descriptor)

    def _values(self) -> list[dict[str, str]]:
        user, array = user_name(), filename_patterns.array_around()
        name = os.environ.get("SLURM_JOB_NAME", self.options.job_name)
        found: dict[int, dict[str, str]] = {}
        for place, node in enumerate(self.nodes):
            for task in self.tasks[place]:
                found[task] = filename_patterns.of_task(
                    self.job_id, self.step, node, place, task, name=name, user=user, array=array
                )
        return [found[task] for task in range(self.total)]

    def _launch(self) -> None:
        """Gives every task its streams, and starts them all."""
        if self.terminal:
            self._launch_in(self.terminal)
            return
        values = self._values()
        sinks = Sinks(values, self.options.open_mode.startswith("a"))
        files: list[int] = []
        inputs: list[int] = []
        for task in range(self.total):
            given = input_of(self.options.input, task, values[task])
            if given is None:
                given, writing = os.pipe()
                inputs.append(writing)
            output, direct = sinks.target(self.options.output, 1, task, "stdout")
            out_file = os.dup(output) if direct else self._relay(output, task)
            choice = self.options.error or self.options.output
            error, error_direct = sinks.target(choice, 2, task, "stderr")
            err_file = os.dup(error) if error_direct else self._relay(error, task)
            files += [given, out_file, err_file]
        messages.send(self.connection, {"do": "launch"}, files)
        messages.close_all(files)
        Feed(inputs, self.readers, self.poll).begin()

    def _launch_in(self, window: Terminal) -> None:
        files = [file for task in range(self.total) for file in window.files(task)]
        messages.send(self.connection, {"do": "launch"}, files)
        messages.close_all(files)
        self.outputs = 1

        def closed() -> None:
            self.outputs = 0

        window.begin(self._read_from, self._stop_reading, closed)

    def _relay(self, target: int, task: int) -> int:
        reading, writing = os.pipe()
        width = len(str(self.total - 1))
        label = f"{task:>{width}}: ".encode() if self.options.label else b""
        output = Output(reading, target, label, self.options.unbuffered)

        def pump() -> None:
            if not output.pump():
                self._stop_reading(reading)
                self.outputs -= 1

        self.outputs += 1
        self._read_from(reading, pump)
        return writing

    def _hear(self) -> None:
        try:
            message, _ = messages.receive(self.connection)
        except messages.Gone:
            self._lost()
            return
        if "exited" in message:
            self._task_ended(message["exited"], message["status"])
        elif "say" in message:
            label = b"0: " if self.options.label else b""
            write_all(2, label + message["say"].encode() + b"\n")
        elif "aborted" in message:
            self._abort_note(message["aborted"])
        elif "done" in message:
            self._finish(message["lost"])

    def _abort_note(self, seconds: int) -> None:
        if not self.aborted:
            self.aborted = True
            say(f"Job step aborted: Waiting up to {seconds} seconds for job step to finish.")

    def _task_ended(self, task: int, status: int) -> None:
        self.exit_codes[task] = code_of(status)
        self.report.add(task, status)
        self.first_exit_s = self.first_exit_s or time.monotonic()
        if status and not self.aborted:
            if os.WIFSIGNALED(status) and os.WTERMSIG(status) in (signal.SIGKILL, signal.SIGTERM):
                self.force_terminated = True
            if self.options.kill_on_bad_exit and len(self.exit_codes) < self.total:
                self._terminate()

    def _terminate(self) -> None:
        if not self.terminating:
            self.terminating = True
            self.report.flush()
            say(f"launch/slurm: _step_signal: Terminating StepId={self.step_id}")
            self.tell({"do": "terminate"})

    def _check_wait(self) -> None:
        """--wait: the other tasks have so many seconds after the first has ended."""
        limit_s = self.options.wait_s
        if not limit_s or not self.first_exit_s or len(self.exit_codes) == self.total:
            return
        if time.monotonic() - self.first_exit_s >= limit_s and not self.terminating:
            self.terminating = True
            say(f"First task exited {limit_s}s ago")
            self.print_status()
            say(f"launch/slurm: _step_signal: Terminating StepId={self.step_id}")
            self.tell({"do": "kill"})

    def print_status(self) -> None:
        exited = sorted(self.exit_codes)
        running = [task for task in range(self.total) if task not in self.exit_codes]
        for tasks, what in ((running, "running"), (exited, "exited")):
            if tasks:
                word = "task" if len(tasks) == 1 else "tasks"
                say(f"StepId={self.step_id} {word} {ranges(tasks)}: {what}")

    def tell(self, message: messages.Message) -> None:
        with contextlib.suppress(messages.Gone):
            messages.send(self.connection, message)

    def _finish(self, lost: int) -> None:
        self._stop_reading(self.connection.fileno())
        self.done = True
        if lost:
            for task in range(self.total):
                if task not in self.exit_codes:
                    self._task_ended(task, int(signal.SIGKILL))

    def _lost(self) -> None:
        """The supervisor of the job is dead, and so is everything in the job."""
        say(f"error: Node failure on {','.join(self.nodes)}")
        self._finish(self.total - len(self.exit_codes))
