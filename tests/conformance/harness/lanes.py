"""Runs many cases on several clusters of one kind at the same time."""

from __future__ import annotations

import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from pathlib import Path
from threading import Lock, Thread

from harness.cases import HERE, Case
from harness.clusters import Cluster
from harness.masks import mask

CASE_TIMEOUT_S = 300
CLEAN_UP = """
is_empty() { found=$(squeue -h -o %i) && [[ -z $found ]]; }
is_empty && exit
scancel -u "$USER" >/dev/null 2>&1
until is_empty; do sleep 0.2; done
"""


class Lanes:
    """As many clusters as there are lanes; each case runs alone on one of them.

    A transcript that is not accepted is made once more, because two processes may print in another
    order on a busy machine, on the real Slurm as on the box. A real difference appears again.
    """

    def __init__(
        self,
        make: Callable[[], Cluster],
        cases: Iterable[Case],
        count: int,
        accepts: Callable[[Case, str], bool],
    ) -> None:
        self._accepts = accepts
        self.futures: dict[str, Future[str]] = {case.id: Future() for case in cases}
        self._todo: queue.SimpleQueue[Case] = queue.SimpleQueue()
        for case in cases:
            self._todo.put(case)
        self._closing = False
        self._open, self._lock = min(count, len(self.futures)), Lock()
        self._threads = [
            Thread(target=self._work, args=(make(),), daemon=True) for _ in range(self._open)
        ]
        for thread in self._threads:
            thread.start()

    def transcript(self, case: Case) -> str:
        return self.futures[case.id].result(timeout=840)

    def close(self) -> None:
        self._closing = True
        for thread in self._threads:
            thread.join()

    def _work(self, cluster: Cluster) -> None:
        try:
            _start(cluster)
            while not self._closing:
                self._run(cluster, self._todo.get_nowait())
        except queue.Empty:
            pass
        except Exception as error:  # the cluster does not start: others take what is left
            self._give_up(error)
        finally:
            cluster.stop()

    def _run(self, cluster: Cluster, case: Case) -> None:
        try:
            text = run_case(cluster, case)
            if not self._accepts(case, text):
                text = run_case(cluster, case)
            self.futures[case.id].set_result(text)
        except Exception as error:
            self.futures[case.id].set_exception(error)
            _start(cluster)

    def _give_up(self, error: Exception) -> None:
        print(f"conformance: a lane ends: {error}", file=sys.stderr)
        with self._lock:
            self._open -= 1
            while not self._open and not self._todo.empty():
                self.futures[self._todo.get().id].set_exception(error)


def _start(cluster: Cluster) -> None:
    """Start a cluster. A busy machine may need more than one attempt."""
    try:
        cluster.start()
    except Exception:
        cluster.stop()
        cluster.start()


def run_case(cluster: Cluster, case: Case) -> str:
    """Return the masked transcript. Jobs that the case leaves in the queue are cancelled."""
    top = Path(tempfile.mkdtemp(prefix="conformance-"))
    here, aux, home = top / "here", top / "aux", top / "home"
    for folder in (here, aux, home):
        folder.mkdir()
    (aux / "case.sh").write_text(case.script, encoding="utf-8")
    environment = cluster.environment(home)
    try:
        text = run_session(
            ["bash", str(HERE / "session.sh"), str(aux), str(aux / "case.sh")], here, environment
        )
        words = {str(here): "<here>", str(home): "<home>", str(top): "<top>"}
        return mask(text, words | cluster.paths())
    finally:
        if run_session(["bash", "-c", CLEAN_UP], top, environment, timeout_s=30) != "":
            cluster.stop()
            cluster.start()
        shutil.rmtree(top, ignore_errors=True)


def run_session(
    argv: list[str], folder: Path, environment: dict[str, str], timeout_s: int = CASE_TIMEOUT_S
) -> str:
    """Return the output of a command. If it must be ended, all processes of its session end."""
    with tempfile.TemporaryFile() as transcript:
        process = subprocess.Popen(
            argv,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=transcript,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            process.wait(timeout=timeout_s)
            ending = ""
        except subprocess.TimeoutExpired:
            ending = f"[not done after {timeout_s} s]\n"
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        transcript.seek(0)
        return transcript.read().decode(errors="backslashreplace") + ending
