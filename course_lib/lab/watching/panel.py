"""The live panel of a run: state, progress bar, latest numbers and a button to cancel.

It also works without a front end; nothing then displays the widgets. At the end, plain text
replaces it, so that a saved notebook shows a sentence instead of a dead widget. If the notebook was
closed meanwhile, it still contains the widget, which shows the same text. A page without widgets
(an exported notebook) shows a sentence in its place.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

from course_lib.lab.errors import LabError
from course_lib.lab.queue.slurm import Status
from course_lib.lab.watching.progress import Clock, Progress, activity, details, duration
from course_lib.words import _

if TYPE_CHECKING:
    from course_lib.lab.runs.run import Run

ROW = "display:flex; flex-wrap:wrap; gap:0 1.5em"
# Bytes per node, enough for some minutes of measurements.
LOAD_BYTES = 64 << 10


class Panel:
    def __init__(self, run: Run):
        import ipywidgets as widgets
        from IPython.display import display

        self._run, self._clock = run, Clock(run)
        self._head = widgets.HTML()
        self._bar = widgets.FloatProgress(
            min=0.0, max=1.0, layout=widgets.Layout(width="auto", flex="1 1 auto")
        )
        self._numbers = widgets.HTML()
        self._load = widgets.HTML()
        self._button = widgets.Button(
            description=_("Cancel"), tooltip=f"scancel {run.job_id}", icon="stop"
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
        words = _(
            "{run} was not finished when this notebook was saved; run.watch() shows its state now",
            run=run.title,
        )
        shown = _with_words(self._box, words)
        self._handle = display(shown, raw=True, display_id=True)

    def show(self, status: Status, progress: Progress) -> None:
        where = escape(_(" on {nodes}", nodes=status.nodes)) if status.nodes else ""
        origin = f"<br>{escape(self._run.origin)}" if self._run.origin else ""
        title = escape(self._run.title)
        self._head.value = f"<b>{title}</b>: {escape(status.words)}{where}{origin}"
        self._bar.value = progress.share
        cells = "".join(
            f'<div style="white-space:nowrap">{escape(label)}<br><b>{escape(value)}</b></div>'
            for label, value in [*self._times(status, progress), *details(progress)]
        )
        at = activity(self._run, status, progress) if progress.iteration is None else ""
        self._numbers.value = f'<div style="{ROW}">{cells}</div><div>{escape(at)}</div>'
        self._load.value = self._looks()

    def _times(self, status: Status, progress: Progress) -> list[tuple[str, str]]:
        """Return the times, from the first second on. A wait then does not look like a fault."""
        label = _("in the queue") if status.waiting else _("elapsed")
        times = [(label, duration(self._clock.elapsed_s(status)))]
        left_s = progress.left_s
        return times if left_s is None else [*times, (_("left, about"), duration(left_s))]

    def _looks(self) -> str:
        """Return the load of nodes and ranks, if the job records it."""
        folder = self._run.paths.monitor
        if not any(folder.glob("*.jsonl")):
            return ""
        from course_lib import read, show

        return str(show.monitor_panel(read.monitor(folder, LOAD_BYTES)))

    def close(self, line: str) -> None:
        if self._handle is not None:
            self._handle.update({"text/plain": line}, raw=True)
        # The sentence stays in the kernel's widget, for a notebook that is opened again.
        self._head.value = escape(line)
        self._box.children = [self._head]
        for part in (self._bar, self._button, self._row, self._numbers, self._load):
            part.close()

    def _cancel(self, pressed: Any) -> None:
        """Cancel the run, in another thread if the cell is busy. The button shows errors. It stays
        enabled, because a disabled button loses the focus."""
        self._button.description = _("Cancelling")
        try:
            self._run.cancel()
        except LabError as error:
            self._button.tooltip = str(error)
            self._button.description = _("Not cancelled")


def _with_words(widget: Any, words: str) -> dict[str, Any]:
    """Return a widget's output with a text that a saved notebook shows instead."""
    view = "application/vnd.jupyter.widget-view+json"
    bundle = {view: widget._repr_mimebundle_()[view]}
    return {**bundle, "text/plain": words, "text/html": f"<p>{escape(words)}</p>"}


def _answer_while_busy(widget: Any) -> None:
    """Handle a click while the cell runs.

    JupyterLab sends the click to its own thread. ipykernel 7 would return the click to the thread
    that last used the widget, the thread of the busy cell. It does not do this if the comm has no
    record of that thread.
    """
    if widget.comm is not None:
        vars(widget.comm).pop("_reply_subshell_id", None)
