"""TensorBoard beside the notebooks with the profiler tab, for its user alone, without internet."""

from __future__ import annotations

import os
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import quote

from course_lib.lab.jupyter import private_server
from course_lib.mistakes.errors import ArgumentError
from course_lib.words import _

LOSS_IN_FRONT = quote('[{"plugin":"scalars","tag":"lm loss"}]')
# Endings of the address. The loss is pinned, because other curves would come before it.
TABS = {
    "scalars": f"?pinnedCards={LOSS_IN_FRONT}#timeseries",
    "profiler": "#pytorch_profiler",
}


def proxy_entry() -> dict[str, Any]:
    icon = str(Path(__file__).with_name("web") / "icon.svg")
    return private_server.proxy_entry(__name__, title="TensorBoard", icon_path=icon)


@dataclass(frozen=True)
class Link:
    """A link to TensorBoard. `url` is a path on the Jupyter server, or "" without such a server."""

    url: str

    def __repr__(self) -> str:
        if self.url:
            return _("TensorBoard: open {url} at the address of your Jupyter server", url=self.url)
        return _("TensorBoard: open this notebook in JupyterLab, or click the icon in its launcher")

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        if not self.url:
            return {"text/plain": str(self)}
        anchor = (
            f'<a href="{escape(self.url)}" target="_blank" rel="noopener">TensorBoard</a> opens in '
            "a new tab; the first time it takes some seconds."
        )
        return {"text/plain": str(self), "text/html": anchor}


def tensorboard(tab: str = "") -> Link:
    """Return a link to TensorBoard for the server's workspace. `tab` is a key of TABS, or ""."""
    if tab and tab not in TABS:
        raise ArgumentError(
            _(
                "TensorBoard has no tab {tab!r} here; use one of {tabs}",
                tab=tab,
                tabs=", ".join(TABS),
            )
        )
    base = _base_url()
    return Link(f"{base}tensorboard/{TABS[tab] if tab else ''}" if base else "")


def _base_url() -> str:
    """Return the address of the Jupyter server that started this kernel, or "" (in a terminal)."""
    path = os.environ.get("JUPYTERHUB_SERVICE_PREFIX", "")
    if not path:
        from jupyter_server.serverapp import list_running_servers

        parent = os.environ.get("JPY_PARENT_PID", "")
        ours = (one for one in list_running_servers() if str(one.get("pid")) == parent)
        if (server := next(ours, None)) is None:
            return ""
        path = str(server.get("base_url", "/"))
    inner = quote(path.strip("/"), safe="/%@~")
    return f"/{inner}/" if inner else "/"
