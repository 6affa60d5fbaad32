"""Checks of this machine: what is installed, what may be written, what the kernel allows."""

from __future__ import annotations

import os
import platform
import random
import shutil
import socket
import tempfile
import time
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, entry_points, version
from pathlib import Path

from course_lib.lab.doctor.findings import Finding, bad, fair, good
from course_lib.lab.job.site import Site
from course_lib.lab.workspace import Workspace
from course_lib.words import language

GIB = 1 << 30
SPACE_NEEDED_GIB, SPACE_WISHED_GIB = 0.2, 2.0
CLOCK_TOLERANCE_S = 2.0


def python() -> Iterator[Finding]:
    """Older ones cannot install the package, so there is nothing to refuse here."""
    yield good(f"Python {platform.python_version()} on {platform.system()} {platform.machine()}")


def packages() -> Iterator[Finding]:
    """By their records, not by importing them: that alone takes seconds."""
    needed = ("torch", "jupyterlab", "ipywidgets", "matplotlib", "pandas", "tensorboard", "jinja2")
    missing = [name for name in needed if not _version(name)]
    if missing:
        yield bad(f"not installed: {', '.join(missing)}", "make setup, or pip install .")
    if torch := _version("torch"):
        yield good(f"torch {torch}")


def devices() -> Iterator[Finding]:
    """Of this machine; what the nodes of a cluster have is asked of the cluster."""
    for command, arguments in (("nvidia-smi", ["-L"]), ("rocm-smi", ["--showid"])):
        if path := shutil.which(command):
            import subprocess

            done = subprocess.run(
                [path, *arguments], capture_output=True, text=True, timeout=20, check=False
            )
            names = [line for line in done.stdout.splitlines() if line.strip()]
            if done.returncode == 0 and names:
                yield good(f"devices of this machine: {len(names)} ({names[0].strip()[:60]} …)")
                return
            yield fair(f"{command} is here and does not work", "look at what it prints itself")
    yield good(f"no GPU in this machine; {os.cpu_count()} processor cores stand in on the box")


def folder(place: Workspace) -> Iterator[Finding]:
    target = place.folder
    try:
        place.state.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=place.state) as file:
            file.write(b"x")
        with place.locked():
            pass
    except Exception as error:  # every way to fail is answered alike
        cure = "work in a folder of your own, or name one with COURSE_WORKSPACE"
        yield bad(f"workspace {target} cannot be written: {error}", cure)
        return
    free_gib = shutil.disk_usage(target).free / GIB
    text = f"workspace {target}, {free_gib:.1f} GiB free"
    if free_gib < SPACE_NEEDED_GIB:
        yield bad(text, "`course clean` shows what old runs would free")
    elif free_gib < SPACE_WISHED_GIB:
        yield fair(text, "checkpoints may not fit; `course clean` shows what can go")
    else:
        yield good(text)


def clock(place: Workspace) -> Iterator[Finding]:
    """The clock of the file server against ours: a skewed one spoils times and rebuilds."""
    if time.time() < 1_700_000_000:
        yield bad(f"the clock says {time.ctime()}", "set the clock: ntpd or timedatectl")
        return
    try:
        with tempfile.NamedTemporaryFile(dir=place.state) as file:
            skew_s = Path(file.name).stat().st_mtime - time.time()
    except OSError:
        return
    if abs(skew_s) > CLOCK_TOLERANCE_S:
        yield fair(
            f"the file system's clock differs from ours by {skew_s:.0f} s",
            "times of runs will look odd; tell the administrators",
        )
    else:
        yield good("clock agrees with that of the file system")


def fonts() -> Iterator[Finding]:
    """For figures in Korean; DejaVu, which comes with matplotlib, has no letters for them."""
    if language() != "ko":
        return
    from course_lib.show.style import fonts_with_korean

    if found := fonts_with_korean():
        yield good(f"figures write Korean in {found[0]}")
    else:
        yield fair(
            "no font for Korean here: figures show boxes in the place of letters",
            "install one, such as the package fonts-noto-cjk or fonts-nanum",
        )


def ports() -> Iterator[Finding]:
    """Of the range from which jobs take theirs; a few at random, on this machine."""
    tried = random.sample(range(10000, 30000), 5)
    taken = [port for port in tried if not _is_free(port)]
    if len(taken) == len(tried):
        yield bad(
            f"none of the ports {', '.join(map(str, tried))} can be opened",
            "processes of one run could not meet; a firewall or sandbox may forbid it",
        )
    else:
        yield good("ports for the meeting point of a run are free")


def tensorboard() -> Iterator[Finding]:
    missing = [
        name
        for name in ("tensorboard", "jupyter-server-proxy", "torch-tb-profiler")
        if not _version(name)
    ]
    if missing:
        yield fair(f"TensorBoard needs {', '.join(missing)}", "make setup, or pip install them")
        return
    offered = [entry.name for entry in entry_points(group="jupyter_serverproxy_servers")]
    if "tensorboard" in offered:
        yield good("TensorBoard is offered by the proxy of Jupyter")
    else:
        yield fair("TensorBoard is not among the servers of Jupyter's proxy", "pip install .")


def scratch(site: Site) -> Iterator[Finding]:
    if not site.scratch:
        return
    if not os.access(site.scratch, os.W_OK):
        cure = "correct `scratch` in site.toml, or make the folder"
        yield bad(f"scratch {site.scratch} cannot be written", cure)
    else:
        free_gib = shutil.disk_usage(site.scratch).free / GIB
        yield good(f"scratch {site.scratch}, {free_gib:.0f} GiB free")


def _is_free(port: int) -> bool:
    with socket.socket() as candidate:
        try:
            candidate.bind(("", port))
        except OSError:
            return False
    return True


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""
