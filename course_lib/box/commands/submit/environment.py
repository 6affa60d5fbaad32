"""Which variables of the submitting shell a job gets (--export, --export-file)."""

from __future__ import annotations

import os

from course_lib.box import bin_dir
from course_lib.box.commands.shared.errors import Failure
from course_lib.box.queue.records import joined_environment

Variables = dict[bytes, bytes]


def environment(given: dict[str, str]) -> bytes:
    """NAME=value, each ended by NUL: what --export lets through, and what sbatch itself adds."""
    own = dict(os.environb)
    kept = {**_exported(given, own), **_added(given)}
    folder = os.fsencode(bin_dir())
    path = kept.get(b"PATH", b"")
    if folder not in path.split(b":"):  # or a job would meet another Slurm's srun, or none
        kept[b"PATH"] = folder + b":" + path if path else folder
    return joined_environment(kept)


def _exported(given: dict[str, str], own: Variables) -> Variables:
    if "export-file" in given:
        return {**_slurm_variables(own), **_from_file(given["export-file"])}
    choice = given.get("export", "ALL")
    if choice.upper() == "ALL":
        return own
    if choice.upper() == "NONE":
        return {**_login(own), **_slurm_variables(own)}
    return _chosen(choice, own)


def _added(given: dict[str, str]) -> Variables:
    """The variables that come from the submission itself."""
    choice = given.get("export", "ALL")
    pairs = {
        "SLURM_SUBMIT_DIR": os.getcwd(),
        "SLURM_SUBMIT_HOST": os.uname().nodename.partition(".")[0],
        "SLURM_EXPORT_ENV": "" if "export" not in given else choice,
        "SLURM_GET_USER_ENV": "" if "ALL" in choice.upper().split(",") else "1",
        "SLURM_CPUS_PER_GPU": given.get("cpus-per-gpu", ""),
        "SLURM_GPU_BIND": given.get("gpu-bind", ""),
        "SLURM_HINT": given.get("hint", ""),
        "SLURM_THREADS_PER_CORE": given.get("threads-per-core", ""),
    }
    return {os.fsencode(name): os.fsencode(value) for name, value in pairs.items() if value}


def _chosen(choice: str, own: Variables) -> Variables:
    names = [part for part in _split(os.fsencode(choice)) if part]
    everything = any(name.upper() == b"ALL" for name in names)
    kept = dict(own) if everything else {**_login(own), **_slurm_variables(own)}
    for part in names:
        name, equals, value = part.partition(b"=")
        if name.upper() == b"ALL" and not equals:
            continue
        if equals:
            kept[name] = value
        elif name in own:
            kept[name] = own[name]
    return kept


def _split(choice: bytes) -> list[bytes]:
    """At commas, but not at those between quotes, which stay."""
    parts, quote = [b""], b""
    for number in choice:
        letter = bytes([number])
        if letter == b"," and not quote:
            parts.append(b"")
            continue
        if letter in (b"'", b'"') and quote in (b"", letter):
            quote = b"" if quote else letter
        parts[-1] += letter
    return parts


def _slurm_variables(own: Variables) -> Variables:
    return {name: value for name, value in own.items() if name.startswith(b"SLURM_")}


def _login(own: Variables) -> Variables:
    """What a login shell of the user would start with; real Slurm asks `su -` for it."""
    import pwd

    try:
        user = pwd.getpwuid(os.getuid())
    except KeyError:
        return {name: own[name] for name in (b"HOME", b"PATH", b"USER") if name in own}
    folders = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    if user.pw_uid:
        folders = "/usr/local/bin:/usr/bin:/bin:/usr/local/games:/usr/games"
    pairs = {
        "HOME": user.pw_dir,
        "LOGNAME": user.pw_name,
        "PATH": folders,
        "SHELL": user.pw_shell or "/bin/sh",
        "USER": user.pw_name,
    }
    return {os.fsencode(name): os.fsencode(value) for name, value in pairs.items()}


def _from_file(name: str) -> Variables:
    try:
        source = int(name) if name.isdigit() else name
        with open(source, "rb") as file:
            items = file.read().split(b"\0")
    except OSError as error:
        raise Failure(f"Unable to open --export-file {name}: {error.strerror}") from None
    pairs = (item.partition(b"=") for item in items if item)
    return {key: value for key, _, value in pairs}
