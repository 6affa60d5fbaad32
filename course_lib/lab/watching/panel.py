"""The live panel of a run: state in words, a bar, the last numbers, a button that cancels.

It works without a front end too (the widgets then talk to nobody). At its end it gives way to
plain text, so that a saved notebook shows a sentence instead of a dead widget. Who had closed the
notebook meanwhile has the widget in it still, which then says the same; where widgets are unknown
(an exported page) a sentence stands in for it.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

from course_lib.lab.errors import LabError
from course_lib.lab.queue.states import Status
from course_lib.lab.watching.progress import Clock, Progress, details, doing, duration
from course_lib.words import told

if TYPE_CHECKING:
    from course_lib.lab.runs.outputs import RunOutputs

CELL = "padding: 0 1.5em 0 0"
LOAD_BYTES = 64 << 10
"""Of each node: some minutes of looks."""


class Panel:
    def __init__(self, run: RunOutputs):
        import ipywidgets as widgets
        from IPython.display import display

        self._run, self._clock = run, Clock(run)
        self._stamp: list[int] = []
        self._head = widgets.HTML()
        self._bar = widgets.FloatProgress(
            min=0.0, max=1.0, layout=widgets.Layout(width="auto", flex="1 1 auto")
        )
        self._numbers = widgets.HTML()
        self._load = widgets.HTML()
        self._button = widgets.Button(
            description=told("Cancel"), tooltip=f"scancel {run.job_id}", icon="stop"
        )
        self._button.on_click(self._cancel)
        _answer_while_busy(self._button)
        self._row = widgets.HBox(
            [self._bar, self._button], layout=widgets.Layout(align_items="center")
        )
        self._box = widgets.VBox(
            [self._head, self._row, self._numbers, self._load],
            layout=widgets.Layout(max_width="46em"),
        )
        words = (
            f"{run.name} (job {run.job_id}) had not ended when this notebook was saved; "
            "run.watch() shows how it went on"
        )
        shown = _with_words(self._box, told(words))
        self._handle = display(shown, raw=True, display_id=True)

    def show(self, status: Status, progress: Progress) -> None:
        name = escape(told(f"{self._run.name} (job {self._run.job_id})"))
        where = escape(told(f" on {status.nodes}")) if status.nodes else ""
        origin = f"<br>{escape(told(self._run.origin))}" if self._run.origin else ""
        _set(self._head, f"<b>{name}</b>: {escape(told(status.words))}{where}{origin}")
        self._bar.value = progress.share
        cells = "".join(
            f'<td style="{CELL}">{escape(told(label))}<br><b>{escape(told(value))}</b></td>'
            for label, value in [*self._times(status, progress), *details(progress)]
        )
        at = doing(self._run, status, progress) if progress.iteration is None else ""
        _set(self._numbers, f"<table><tr>{cells}</tr></table><div>{escape(told(at))}</div>")
        _set(self._load, self._looks())

    def _times(self, status: Status, progress: Progress) -> list[tuple[str, str]]:
        """From the first second on, so that nobody takes a queue for a fault."""
        label = told("in the queue" if status.waiting else "elapsed")
        times = [(label, duration(self._clock.elapsed_s(status)))]
        left_s = self._clock.left_s(progress)
        return times if left_s is None else [*times, ("left, about", duration(left_s))]

    def _looks(self) -> str:
        """The load of nodes and ranks, where the job records it."""
        folder = self._run.paths.monitor
        stamp = [file.stat().st_mtime_ns for file in folder.glob("*.jsonl")]
        if not stamp or stamp == self._stamp:
            return str(self._load.value)
        self._stamp = stamp
        from course_lib import read, show

        return str(show.monitor_panel(read.monitor(folder, LOAD_BYTES)))

    def close(self, line: str, status: Status, progress: Progress) -> None:
        if self._handle is not None:
            self._handle.update({"text/plain": told(line)}, raw=True)
        # The sentence goes on living in the kernel, for a notebook that is opened again.
        _set(self._head, escape(told(line)))
        self._box.children = [self._head]
        for part in (self._bar, self._button, self._row, self._numbers, self._load):
            part.close()

    def _cancel(self, _: Any) -> None:
        """Runs in another thread while the cell is at work; what goes wrong is shown here."""
        self._button.disabled = True
        self._button.description = told("Cancelling")
        try:
            self._run.cancel()
        except LabError as error:
            self._button.tooltip = told(error)
            self._button.description = told("Not cancelled")


def _with_words(widget: Any, words: str) -> dict[str, Any]:
    """What is displayed of a widget, and what stands in a saved notebook where there is none."""
    view = "application/vnd.jupyter.widget-view+json"
    bundle = {view: widget._repr_mimebundle_()[view]}
    return {**bundle, "text/plain": words, "text/html": f"<p>{escape(words)}</p>"}


def _answer_while_busy(widget: Any) -> None:
    """Lets a click through while the cell runs.

    JupyterLab sends it to a thread of its own; ipykernel 7 would bring it back to where the widget
    was last used from, which is the busy cell, unless it has no note of that.
    """
    if widget.comm is not None:
        vars(widget.comm).pop("_reply_subshell_id", None)


def _set(widget: Any, value: str) -> None:
    """Only what changed goes to the browser."""
    if widget.value != value:
        widget.value = value
