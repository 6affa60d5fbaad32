"""The cell that opens TensorBoard from a notebook."""

from __future__ import annotations

import os
from dataclasses import dataclass
from html import escape
from urllib.parse import quote

TABS = {"scalars": "timeseries", "profiler": "pytorch_profiler"}


@dataclass(frozen=True)
class Link:
    """`url` is a path on the Jupyter server, or "" where no server started this kernel."""

    url: str
    title: str = "TensorBoard"

    def __str__(self) -> str:
        if self.url:
            return f"{self.title}: {self.url} on the address of your Jupyter server"
        return f"{self.title}: open the notebook in JupyterLab to use it (this is not its kernel)"

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        if not self.url:
            return {"text/plain": str(self)}
        anchor = (
            f'<a href="{escape(self.url)}" target="_blank" rel="noopener">'
            f"{escape(self.title)}</a> opens in a new tab; the first time it takes some seconds."
        )
        return {"text/plain": str(self), "text/html": anchor}


def tensorboard(tab: str = "") -> Link:
    """A link to TensorBoard over all runs; `tab` is "scalars" or "profiler"."""
    if tab and tab not in TABS:
        raise ValueError(f"TensorBoard has no tab {tab!r} here; use one of {', '.join(TABS)}")
    base = server_base_url()
    fragment = f"#{TABS[tab]}" if tab else ""
    return Link(f"{base}tensorboard/{fragment}" if base else "")


def server_base_url() -> str:
    """Base URL of the Jupyter server that started this kernel, "" if none did.

    JupyterHub puts it into the environment. Otherwise the running servers say theirs, and ours
    is the one whose process is an ancestor of this one.
    """
    prefix = os.environ.get("JUPYTERHUB_SERVICE_PREFIX", "")
    if prefix:
        return _slashes(prefix)
    try:
        import psutil
        from jupyter_server.serverapp import list_running_servers

        ancestors = {parent.pid for parent in psutil.Process().parents()}
        servers = list(list_running_servers())
    except (ImportError, OSError, psutil.Error):
        return ""
    for server in servers:
        if server.get("pid") in ancestors:
            return _slashes(str(server.get("base_url", "/")))
    return ""


def _slashes(path: str) -> str:
    return "/" + quote(path.strip("/"), safe="/%@~") + "/" if path.strip("/") else "/"
