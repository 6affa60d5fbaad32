"""Does this machine let an ordinary user make nodes out of namespaces?"""

from __future__ import annotations

import os
import sys

from course_lib.box import settings

NAMESPACES, FLAT = "namespaces", "flat"
CACHE = "mode.txt"


def describe(box: settings.Settings | None = None) -> tuple[str, str]:
    """`namespaces` or `flat`, and for the latter the reason. Tried once per boot and box."""
    box = box or settings.load()
    if box.mode != "auto":
        reason = "box.toml says mode = 'flat'" if box.mode == FLAT else ""
        return box.mode, reason
    path = os.path.join(settings.state_home(), CACHE)
    stamp = _stamp()
    try:
        with open(path) as file:
            known, mode, reason = file.read().split("\n", 2)
        if known == stamp:
            return mode, reason
    except (OSError, ValueError):
        pass
    reason = refusal()
    mode = FLAT if reason else NAMESPACES
    try:
        os.makedirs(settings.state_home(), mode=0o700, exist_ok=True)
        with open(f"{path}.{os.getpid()}", "w") as file:
            file.write(f"{stamp}\n{mode}\n{reason}")
        os.replace(f"{path}.{os.getpid()}", path)
    except OSError:
        pass
    return mode, reason


def _stamp() -> str:
    """Changes with the kernel that answers: another boot, another container, another user."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            boot = file.read().strip()
        return f"1 {boot} {os.getuid()} {os.readlink('/proc/self/ns/user')}"
    except OSError:
        return f"1 {sys.platform} {os.getuid()}"


def refusal() -> str:
    """Why nodes cannot be made here; empty if they can. Makes a job's nodes and lets them go."""
    if sys.platform != "linux":
        return f"{sys.platform} has no namespaces"
    import subprocess

    from course_lib.box.node import launch

    code = (
        f"import sys; sys.path.insert(0, {launch.package_root()!r});"
        "from course_lib.box.node.probe import attempt; attempt()"
    )
    try:
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"trying namespaces failed: {error}"
    if done.returncode == 0:
        return ""
    lines = done.stderr.strip().splitlines()
    return lines[-1] if lines else f"trying namespaces ended with code {done.returncode}"


def attempt() -> None:
    """In a process of its own: the whole way of a job with one node."""
    import signal
    import tempfile

    from course_lib.box.node import guard, plan, roles

    signal.alarm(20)
    with tempfile.TemporaryDirectory() as folder:
        trial = plan.Plan(0, folder, folder, True, (("node1", "10.211.0.1"),), 1.0)
        with open(trial.hosts_file, "w") as file:
            file.write("127.0.0.1\tlocalhost\n")
        try:
            _, line = guard.Guard(trial).start()
            line.close()
        except guard.NotStarted as error:
            sys.exit(f"namespaces are refused: {error}")
        except roles.Become as change:
            roles.play(change.role)
