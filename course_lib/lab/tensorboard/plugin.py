"""Changes to torch-tb-profiler 0.4.3 at launch: it needs no internet, starts no processes, and
follows folders while they are written."""

from __future__ import annotations

import os
import queue
import sys
import threading
import time
import warnings
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch_tb_profiler
import torch_tb_profiler.multiprocessing as profiler_processes
import werkzeug
from werkzeug.exceptions import NotFound


class OneAtATime(threading.Thread):
    """Reads one trace at a time. The tab would start a process for each trace, 64 for 64 ranks."""

    turn = threading.Lock()

    def run(self) -> None:
        with self.turn:
            super().run()


# Replace these names first, because the modules imported below copy them.
profiler_processes.Process = OneAtATime
profiler_processes.Queue, profiler_processes.Lock = queue.Queue, threading.Lock
profiler_processes.Manager = lambda: SimpleNamespace(dict=dict, shutdown=lambda: None)

from torch_tb_profiler import utils  # noqa: E402
from torch_tb_profiler.plugin import TorchProfilerPlugin  # noqa: E402
from torch_tb_profiler.profiler import RunLoader, communication  # noqa: E402
from torch_tb_profiler.profiler import data as profiler_data  # noqa: E402

from course_lib.words import _  # noqa: E402


def _analysed(messages: list[Any]) -> Any:
    """Analyse messages even if a trace has a message's shape without its type, as some recordings
    do. The bytes of that message are unknown, and the rest is shown."""
    for message in messages:
        if message.input_type is None:
            message.input_shape = None
    return communication.analyze_communication_nodes(messages)


profiler_data.analyze_communication_nodes = _analysed
warnings.filterwarnings("ignore", message="The copy keyword is deprecated")

STATIC = Path(torch_tb_profiler.__file__).with_name("static")
OURS = Path(__file__).with_name("web")
GOOGLE_CHARTS = "https://www.gstatic.com/charts/loader.js"
WEBCOMPONENTS = "https://cdnjs.cloudflare.com/ajax/libs/webcomponentsjs/0.7.24/webcomponents.min.js"
# Shown if set-up could not install webcomponents.
NO_TRACE_VIEW = b"""<body style="font:16px/1.6 sans-serif;max-width:46rem;margin:3rem auto">
<h2>The Trace view is not installed</h2>
<p>It needs one package that the set-up of the course takes from npm, and npm was not there when
it ran. Install Node.js (which brings npm), run <code>make setup</code> again, and reload.</p>
<p>Meanwhile the notebook draws the same trace: <code>show.timeline(run.profile)</code></p>
"""
RESCAN_S = 2.0
SETTLED_S = 4.0
# Name, bytes and time of writing of every trace in a folder.
Traces = tuple[tuple[str, int, float], ...]


def webcomponents_file() -> Path | None:
    """Return the file that set-up installs if npm is available (deploy/webcomponents), or None."""
    root = os.environ.get("COURSE_WEBCOMPONENTS") or f"{sys.prefix}/share/course/webcomponents"
    file = Path(root) / "node_modules/webcomponents.js/webcomponents.min.js"
    return file if file.is_file() else None


class OfflineProfilerPlugin(TorchProfilerPlugin):  # type: ignore[misc]
    def get_plugin_apps(self) -> dict[str, Any]:
        ours = ("/course_charts.js", "/course_webcomponents.js")
        return {**super().get_plugin_apps(), **dict.fromkeys(ours, self.static_file_route)}

    def static_file_route(self, environ: Any, start_response: Any) -> Iterable[bytes]:
        name = str(environ.get("PATH_INFO", "")).rsplit("/", 1)[-1]
        try:
            content = _static(name)
        except FileNotFoundError:
            return NotFound(_("no such file: {name}", name=name))(environ, start_response)
        kind = "text/javascript" if name.endswith(".js") else "text/html"
        response = werkzeug.Response(content, content_type=kind, headers=self.headers)
        return response(environ, start_response)

    def _monitor_runs(self) -> None:
        """Load a folder when its traces have not changed for a while, and again after new traces.
        The ranks of a job do not finish writing at the same time."""
        loaded: dict[str, Traces] = {}
        while True:
            for folder in set(self._get_run_dirs()):
                try:
                    state = _traces(folder)
                except OSError:  # removed meanwhile
                    continue
                age_s = time.time() - max((written_s for *_unused, written_s in state), default=0.0)
                if state and state != loaded.get(folder) and not 0 <= age_s < SETTLED_S:
                    loaded[folder] = state
                    self._start_loading(folder)
            time.sleep(RESCAN_S)

    def _start_loading(self, folder: str) -> None:
        thread = threading.Thread(target=self._load_run, args=(folder,), daemon=True)
        with self._load_lock:
            self._load_threads.append(thread)
        thread.start()

    def _load_run(self, folder: str) -> None:
        name = self._get_run_name(folder)
        try:
            run = RunLoader(name, folder, self._cache).load()
            if run.profiles:
                self._queue.put(run)
            else:
                print(f"tensorboard: no trace in {folder} could be read", file=sys.stderr)
        finally:
            with self._load_lock:
                self._load_threads.remove(threading.current_thread())


def _static(name: str) -> bytes:
    if name == "course_charts.js":
        parts = (OURS / part for part in ("chart.umd.min.js", "charts.js"))
        return b"\n".join(part.read_bytes() for part in parts)
    webcomponents = webcomponents_file()
    if name == "course_webcomponents.js" and webcomponents:
        return webcomponents.read_bytes()
    if name == "trace_embedding.html" and not webcomponents:
        return NO_TRACE_VIEW
    content = (STATIC / name).read_bytes()
    content = content.replace(GOOGLE_CHARTS.encode(), b"course_charts.js")
    return content.replace(WEBCOMPONENTS.encode(), b"course_webcomponents.js")


def _traces(folder: str) -> Traces:
    with os.scandir(folder) as entries:
        found = [(e.name, e.stat()) for e in entries if utils.is_chrome_trace_file(e.name)]
    return tuple(sorted((name, facts.st_size, facts.st_mtime) for name, facts in found))
