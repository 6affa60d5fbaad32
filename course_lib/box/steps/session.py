"""One srun while its step runs. With --pty, srun's terminal displays a terminal of task 0."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import socket
import termios
import time
import tty
from collections.abc import Callable
from contextlib import suppress

from course_lib.box.commands.submit.options import Gathered
from course_lib.box.processes import messages, roles
from course_lib.box.queue import arrays
from course_lib.box.steps import filename_patterns
from course_lib.box.steps.streams import (
    NoFile,
    Output,
    Report,
    Sinks,
    code_of,
    feed,
    input_of,
    say,
    write_all,
)

TERMINAL_BYTES = 16 * 1024


def make_terminal() -> Terminal | None:
    """Open a terminal for --pty, or return None if srun has no terminal itself."""
    if os.isatty(0):
        return Terminal()
    say("error: ioctl(TIOCGWINSZ): Inappropriate ioctl for device")
    say("error: Not using a pseudo-terminal, disregarding --pty option")
    return None


class Terminal:
    """A pseudo-terminal. `own` is srun's end and `task` is the end of task 0."""

    def __init__(self) -> None:
        self.own, self.task = os.openpty()
        self.copy_size()
        self.settings = termios.tcgetattr(0)
        termios.tcsetattr(self.task, termios.TCSANOW, self.settings)

    def copy_size(self) -> None:
        with suppress(OSError):
            size = fcntl.ioctl(0, termios.TIOCGWINSZ, bytes(8))
            fcntl.ioctl(self.own, termios.TIOCSWINSZ, size)

    def files(self, task: int) -> list[int]:
        """Return the streams of a task. Tasks other than 0 get /dev/null."""
        if task:
            return [os.open(os.devnull, os.O_RDWR) for _ in range(3)]
        return [os.dup(self.task) for _ in range(3)]

    def begin(self, loop: messages.Loop, closed: Callable[[], None]) -> None:
        """Send every key to the task from now on, including Ctrl-C. `closed` is called when no
        process there has the terminal open any more."""
        os.close(self.task)
        tty.setraw(0, termios.TCSADRAIN)  # TCSADRAIN keeps keys that were typed before
        signal.signal(signal.SIGWINCH, lambda *_: self.copy_size())

        def show() -> None:
            try:
                data = os.read(self.own, TERMINAL_BYTES)
            except OSError:
                data = b""
            write_all(1, data)
            if not data:
                loop.forget(self.own)
                closed()

        def type_in() -> None:
            """Pass input to the task. The end of the input is sent as Ctrl-D."""
            try:
                data = os.read(0, TERMINAL_BYTES)
            except OSError:
                data = b""
            write_all(self.own, data or b"\x04")
            if not data:
                loop.forget(0)

        loop.on_input(self.own, show)
        loop.on_input(0, type_in)

    def give_back(self) -> None:
        with suppress(termios.error):
            termios.tcsetattr(0, termios.TCSADRAIN, self.settings)


# Tasks that end within this time are reported in one line.
GROUP_S = 0.1
FORWARDED = (signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM, signal.SIGQUIT)
TWICE_S = 1.0


class Session:
    def __init__(
        self,
        gathered: Gathered,
        connection: socket.socket,
        job_id: int,
        granted: messages.Message,
    ) -> None:
        given = gathered.given
        self.given = given
        self.label = "label" in given
        self.append = str(gathered.fields.get("open_mode", "")) == "append"
        self.name = os.environ.get("SLURM_JOB_NAME", str(gathered.fields.get("name", "")))
        self.kill_on_bad_exit = given.get("kill-on-bad-exit", "0") != "0"
        self.connection = connection
        self.step_id = f"{job_id}.{granted['step']}"
        self.job_id, self.step = job_id, granted["step"]
        self.nodes: list[str] = list(granted["nodes"])
        self.tasks: list[list[int]] = [list(tasks) for tasks in granted["tasks"]]
        self.total = sum(map(len, self.tasks))
        self.report = Report(self.nodes, self.tasks)
        self.exit_codes: dict[int, int] = {}
        self.loop = messages.Loop()
        self.outputs = 0
        self.done = False
        self.force_terminated = False
        self.aborted = False
        self.terminating = False
        self.terminal = make_terminal() if "pty" in given else None
        self.last_interrupt_s = -TWICE_S

    def run(self) -> int:
        try:
            self._launch()
        except NoFile:
            self.connection.close()
            return 1
        self.loop.on_input(self.connection, self._on_message)
        self._catch_signals()
        try:
            self.loop.run()
        finally:
            if self.terminal:
                self.terminal.give_back()
        self.report.flush()
        if self.force_terminated:
            say(f"Force Terminated StepId={self.step_id}")
        return max(self.exit_codes.values(), default=1)

    def _leave_if_over(self) -> None:
        if self.done and not self.outputs:
            self.loop.stop()

    def _values(self) -> list[dict[str, str]]:
        array = filename_patterns.array_around()
        found: dict[int, dict[str, str]] = {}
        for place, node in enumerate(self.nodes):
            for task in self.tasks[place]:
                found[task] = filename_patterns.of_task(
                    self.job_id, self.step, node, place, task, name=self.name, array=array
                )
        return [found[task] for task in range(self.total)]

    def _launch(self) -> None:
        """Give every task its streams and start all tasks."""
        if self.terminal:
            self._launch_in(self.terminal)
            return
        values = self._values()
        sinks = Sinks(values, self.append, self.label)
        paths = {name: self.given.get(name, "") for name in ("input", "output", "error")}
        files: list[int] = []
        inputs: list[int] = []
        for task in range(self.total):
            given = input_of(paths["input"], values[task])
            if given is None:
                given, writing = os.pipe()
                inputs.append(writing)
            output, direct = sinks.target(paths["output"], 1, task, "stdout")
            out_file = os.dup(output) if direct else self._relay(output, task)
            choice = paths["error"] or paths["output"]
            error, error_direct = sinks.target(choice, 2, task, "stderr")
            err_file = os.dup(error) if error_direct else self._relay(error, task)
            files += [given, out_file, err_file]
        messages.send(self.connection, {"do": "launch"}, files)
        messages.close_all(files)
        feed(inputs)

    def _launch_in(self, window: Terminal) -> None:
        files = [file for task in range(self.total) for file in window.files(task)]
        messages.send(self.connection, {"do": "launch"}, files)
        messages.close_all(files)
        self.outputs = 1

        def closed() -> None:
            self.outputs = 0
            self._leave_if_over()

        window.begin(self.loop, closed)

    def _relay(self, target: int, task: int) -> int:
        reading, writing = os.pipe()
        width = len(str(self.total - 1))
        label = f"{task:>{width}}: ".encode() if self.label else b""
        output = Output(reading, target, label, "unbuffered" in self.given)

        def pump() -> None:
            if not output.pump():
                self.loop.forget(reading)
                self.outputs -= 1
                self._leave_if_over()

        self.outputs += 1
        self.loop.on_input(reading, pump)
        return writing

    def _on_message(self) -> None:
        try:
            message, _ = messages.receive(self.connection)
        except messages.Gone:
            self._lost()
            return
        if "exited" in message:
            self._task_ended(message["exited"], message["status"])
        elif "say" in message:
            label = b"0: " if self.label else b""
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
        self.loop.after(GROUP_S, self.report.flush)
        if status and not self.aborted:
            if os.WIFSIGNALED(status) and os.WTERMSIG(status) in (signal.SIGKILL, signal.SIGTERM):
                self.force_terminated = True
            if self.kill_on_bad_exit and len(self.exit_codes) < self.total:
                self._terminate()

    def _terminate(self) -> None:
        if not self.terminating:
            self.terminating = True
            self.report.flush()
            say(f"launch/slurm: _step_signal: Terminating StepId={self.step_id}")
            self.tell({"do": "terminate"})

    def print_status(self) -> None:
        exited = sorted(self.exit_codes)
        running = [task for task in range(self.total) if task not in self.exit_codes]
        for tasks, what in ((running, "running"), (exited, "exited")):
            if tasks:
                word = "task" if len(tasks) == 1 else "tasks"
                say(f"StepId={self.step_id} {word} {arrays.written(tasks)}: {what}")

    def tell(self, message: messages.Message) -> None:
        with contextlib.suppress(messages.Gone):
            messages.send(self.connection, message)

    def _finish(self, lost: int) -> None:
        self.loop.forget(self.connection)
        self.done = True
        if lost:
            for task in range(self.total):
                if task not in self.exit_codes:
                    self._task_ended(task, int(signal.SIGKILL))
        self._leave_if_over()

    def _lost(self) -> None:
        """End the session. The job's supervisor is dead, and so is everything in the job."""
        say(f"error: Node failure on {','.join(self.nodes)}")
        self._finish(self.total - len(self.exit_codes))

    def _catch_signals(self) -> None:
        own = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCONT)
        self.signals = roles.watch((*own, *FORWARDED))
        self.loop.on_input(self.signals, self._handle_signals)

    def _handle_signals(self) -> None:
        try:
            numbers = os.read(self.signals, 64)
        except BlockingIOError:
            return
        for number in numbers:
            if number == signal.SIGINT:
                self._interrupt()
            elif number == signal.SIGCONT:
                say("got SIGCONT")
            elif number in (signal.SIGTERM, signal.SIGHUP):
                say("forcing job termination")
                self.tell({"do": "kill"})
            elif number in FORWARDED:
                self.tell({"do": "signal", "signal": number})

    def _interrupt(self) -> None:
        """Handle Ctrl-C. The first prints the status; a second within 1 s interrupts the step."""
        now_s = time.monotonic()
        if now_s - self.last_interrupt_s >= TWICE_S:
            self.last_interrupt_s = now_s
            say("interrupt (one more within 1 sec to abort)")
            self.print_status()
            return
        say(f"sending Ctrl-C to StepId={self.step_id}")
        self.tell({"do": "signal", "signal": int(signal.SIGINT)})
