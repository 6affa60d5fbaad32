"""The cell that opens TensorBoard from a notebook."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from pathlib import Path
from urllib.parse import quote

from course_lib.lab.tensorboard import served
from course_lib.mistakes.errors import ArgumentError

LOSS_IN_FRONT = quote('[{"plugin":"scalars","tag":"lm loss"}]')
TABS = {
    "scalars": f"?pinnedCards={LOSS_IN_FRONT}#timeseries",
    "profiler": "#pytorch_profiler",
}
"""What follows the address. The loss is pinned, since the other curves stand before it."""


@dataclass(frozen=True)
class Link:
    """`url` is a path on the Jupyter server, or "" where no server started this kernel."""

    url: str
    title: str = "TensorBoard"

    def __str__(self) -> str:
        if self.url:
            return f"{self.title}: {self.url} on the address of your Jupyter server"
        return f"{self.title}: open this notebook in JupyterLab, whose launcher shows it too"

    def __repr__(self) -> str:
        return str(self)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        if not self.url:
            return {"text/plain": str(self)}
        anchor = (
            f'<a href="{escape(self.url)}" target="_blank" rel="noopener">'
            f"{escape(self.title)}</a> opens in a new tab; the first time it takes some seconds."
        )
        return {"text/plain": str(self), "text/html": anchor}


def tensorboard(runs: str | Path, tab: str = "") -> Link:
    """A link to TensorBoard over the folder `runs`; `tab` is "scalars" or "profiler"."""
    if tab and tab not in TABS:
        raise ArgumentError(f"TensorBoard has no tab {tab!r} here; use one of {', '.join(TABS)}")
    base = served.base_url()
    if not base:
        return Link("")
    served.want(Path(runs).absolute())
    return Link(f"{base}tensorboard/{TABS[tab] if tab else ''}")
