"""What srun says about tasks that did not end well, grouped as Slurm does."""

from __future__ import annotations

import os
import signal

from course_lib.box.steps.streams import write_all


def describe(status: int) -> str:
    """Of a wait status other than 0."""
    if os.WIFSIGNALED(status):
        text = signal.strsignal(os.WTERMSIG(status)) or f"Unknown signal {os.WTERMSIG(status)}"
        return f"{text} (core dumped)" if os.WCOREDUMP(status) else text
    return f"Exited with exit code {os.WEXITSTATUS(status)}"


def code_of(status: int) -> int:
    """The exit code that srun makes of a task's end."""
    return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def ranges(numbers: list[int]) -> str:
    """`0-1,3`"""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][-1] + 1:
            runs[-1] = [runs[-1][0], number]
        else:
            runs.append([number])
    return ",".join("-".join(map(str, run)) for run in runs)


class Report:
    """Collects ends that come at about the same time, so that they become one line per node."""

    def __init__(self, nodes: list[str], tasks: list[list[int]]) -> None:
        self.node_of = {
            task: node for node, of_node in zip(nodes, tasks, strict=True) for task in of_node
        }
        self.pending: dict[tuple[str, int], list[int]] = {}

    def add(self, task: int, status: int) -> None:
        if status:
            self.pending.setdefault((self.node_of[task], status), []).append(task)

    def flush(self) -> None:
        for (node, status), tasks in self.pending.items():
            word = "task" if len(tasks) == 1 else "tasks"
            say(f"error: {node}: {word} {ranges(tasks)}: {describe(status)}")
        self.pending.clear()


def say(text: str) -> None:
    write_all(2, f"srun: {text}\n".encode(errors="surrogateescape"))
