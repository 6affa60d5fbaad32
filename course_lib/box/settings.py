"""What the box is: how many nodes, how fast the link between them, where its state lies.

The commands import this for every `squeue`; `tomllib`, `dataclasses` and `pathlib` would cost
more than the query itself, so the first is imported only where a `box.toml` exists.
"""

from __future__ import annotations

import os
import sys

from course_lib.box.frozen_record import Record

CLUSTER = "box"
SETTINGS_FILE = "box.toml"
COMPILED_CODE = "TORCHINDUCTOR_CACHE_DIR"
"""Where torch.compile keeps what it made; in `/tmp`, where others may be first, if not told."""
UNLIMITED = -1
"""Minutes of a time limit that is none."""
MODES = ("auto", "namespaces", "flat")
GPU_WAYS = ("auto", "share", "none")


class SettingsError(ValueError):
    """A value of `box.toml` or of a COURSE_BOX_* variable that the box cannot work with."""


class Settings(Record):
    cluster: str = CLUSTER
    nodes: int = 2
    node_prefix: str = "node"
    devices_per_node: int = 2
    device_type: str = ""
    cpus_per_node: int = 32
    memory_per_node_mib: int = 16000
    memory_per_device_gib: float = 4.0
    link_gbit: float = 1.0
    mode: str = "auto"
    partitions: str = "box"
    """Names separated by commas; the first is the default partition."""
    features: str = "any"
    """What --constraint may name, separated by commas; `any` lets every name pass."""
    reservations: str = "any"
    default_time: str = "01:00:00"
    max_time: str = "1-00:00:00"
    kill_wait_s: float = 5.0
    """Time between SIGTERM and SIGKILL at a time limit or a cancel (Slurm's KillWait)."""
    requeue_delay_s: float = 5.0
    """A requeued job waits so long (reason BeginTime); 121 s on a real Slurm."""
    first_job_id: int = 1
    job_shown_s: float = 300.0
    """squeue and scontrol know an ended job for this long (Slurm's MinJobAge)."""
    gpus: str = "auto"
    """`auto` uses the GPUs of the machine where each slot gets one; `share` also where several
    slots share one; `none` never does."""
    device_pace: float | str = "auto"
    """Computing of a slot that is no GPU lasts so many times its processor time, so that slots
    that share cores do not slow each other; `auto` chooses by slots and cores."""

    @property
    def slots(self) -> int:
        return self.nodes * self.devices_per_node

    @property
    def node_names(self) -> list[str]:
        return [f"{self.node_prefix}{number}" for number in range(1, self.nodes + 1)]

    @property
    def partition_names(self) -> list[str]:
        return [name.strip() for name in self.partitions.split(",") if name.strip()]

    @property
    def max_time_min(self) -> int | None:
        """Longest time limit of the partitions in minutes; None if there is no limit."""
        return minutes(self.max_time)


def minutes(text: str) -> int | None:
    """`30`, `30:00`, `1:30:00`, `2-12`, `2-12:30:00` as minutes, rounded up; None is unlimited."""
    if text.strip().upper() in ("UNLIMITED", "INFINITE", "-1"):
        return None
    days, dash, rest = text.strip().rpartition("-")
    parts = rest.split(":")
    if not all(part.isdigit() for part in parts) or (dash and not days.isdigit()) or len(parts) > 3:
        raise SettingsError(f"{text!r} is not a time; use for example 30, 1:30:00 or 2-12:00:00")
    numbers = [int(part) for part in parts]
    if dash:
        hours, mins, seconds = [*numbers, 0, 0][:3]
    elif len(numbers) == 3:
        hours, mins, seconds = numbers
    else:
        hours, (mins, seconds) = 0, [*numbers, 0][:2]
    total_s = ((int(days or 0) * 24 + hours) * 60 + mins) * 60 + seconds
    return -(-total_s // 60)


def state_home() -> str:
    """Folder of everything the box writes outside of a job's own output."""
    if chosen := os.environ.get("COURSE_BOX_HOME"):
        return os.path.abspath(chosen)
    base = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return os.path.join(base, "course-box")


def compiled_code() -> str:
    """What torch.compile has made, shared by the jobs of one user; see COMPILED_CODE."""
    return os.path.join(state_home(), "compiled")


def job_folder(job_id: int) -> str:
    """Socket, lock and log of the supervisor of a job; made by whoever needs it first."""
    return os.path.join(state_home(), "jobs", str(job_id))


def load() -> Settings:
    """The settings of this box; a faulty file names the line to change and stops the command."""
    path = os.path.join(state_home(), SETTINGS_FILE)
    values: dict[str, object] = {}
    if os.path.exists(path):
        values = _read(path)
    return check(Settings(**values), path)


def _read(path: str) -> dict[str, object]:
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} cannot be read: {error}") from error
    values = _read_plain(text)
    if values is None:
        import tomllib

        try:
            values = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise SettingsError(f"{path} cannot be read: {error}") from error
    partitions = values.get("partitions")
    if isinstance(partitions, list):
        values["partitions"] = ",".join(str(name) for name in partitions)
    unknown = sorted(set(values) - set(Settings.fields()))
    if unknown:
        raise SettingsError(
            f"{path} has {', '.join(unknown)}; known are: {', '.join(Settings.fields())}"
        )
    return values


def _read_plain(text: str) -> dict[str, object] | None:
    """`name = 12`, `name = 0.5` and `name = "text"` lines; None where there is more to read.

    `tomllib` alone takes 9 ms to import, a fifth of a whole `squeue`.
    """
    values: dict[str, object] = {}
    for line in text.split("\n"):
        name, equals, value = line.partition("=")
        name, value = name.strip(), value.strip()
        if not name or name.startswith("#"):
            continue
        word = value[1:-1] if value[:1] == value[-1:] == '"' and len(value) > 1 else ""
        if not equals or not name.replace("_", "").isalnum() or name in values:
            return None
        if word.replace("-", "").replace("_", "").replace(",", "").replace(":", "").isalnum():
            values[name] = word
        elif value.isdigit() and (value == "0" or value[0] != "0"):
            values[name] = int(value)
        elif value.replace(".", "", 1).isdigit() and value[0] != "." and value[-1] != ".":
            values[name] = float(value)
        else:
            return None
    return values


def check(settings: Settings, path: str = SETTINGS_FILE) -> Settings:
    """The same settings, or an error that names the value, the rule and the file."""
    kinds = {"int": (int,), "float": (int, float), "str": (str,)}
    kinds["float | str"] = (int, float, str)
    for name, kind in Settings.__annotations__.items():
        value = getattr(settings, name)
        if not isinstance(value, kinds[kind]) or isinstance(value, bool):
            raise SettingsError(f"{path}: {name} = {value!r} is not of type {kind}")
        lowest = 0 if name in MAY_BE_ZERO else 1e-9
        if not isinstance(value, str) and value < lowest:
            raise SettingsError(f"{path}: {name} = {value!r} must be greater than 0")
    if settings.link_gbit < LOWEST_LINK_GBIT:
        raise SettingsError(f"{path}: link_gbit = {settings.link_gbit!r}; use {SLOWEST_LINK}")
    if settings.mode not in MODES:
        raise SettingsError(f"{path}: mode = {settings.mode!r}; use one of {', '.join(MODES)}")
    if settings.gpus not in GPU_WAYS:
        raise SettingsError(f"{path}: gpus = {settings.gpus!r}; use one of {', '.join(GPU_WAYS)}")
    pace = settings.device_pace
    if pace != "auto" and (isinstance(pace, str) or not 1 <= pace < SLOWEST_PACE):
        raise SettingsError(f'{path}: device_pace = {pace!r}; use "auto", or a number from 1 on')
    for text in (settings.default_time, settings.max_time):
        minutes(text)
    if not settings.partition_names:
        raise SettingsError(f'{path}: partitions is empty; use for example "box"')
    return settings


LOWEST_LINK_GBIT = 1e-5  # the kernel counts the time of a burst in 32 bits
SLOWEST_PACE = 1000
SLOWEST_LINK = "0.00001 (10 kbit/s) or more"
MAY_BE_ZERO = ("devices_per_node", "kill_wait_s", "job_shown_s", "requeue_delay_s")


def of_submission(settings: Settings) -> tuple[float, float]:
    """Link (Gbit/s) and device memory (GiB) of a job submitted now.

    The two variables let one lesson slow the link for one job; they are recorded with the job.
    """
    link_gbit = _number("COURSE_BOX_LINK_GBIT", settings.link_gbit)
    if link_gbit < LOWEST_LINK_GBIT:
        raise SettingsError(f"COURSE_BOX_LINK_GBIT={link_gbit}; use {SLOWEST_LINK}")
    return (
        link_gbit,
        _number("COURSE_BOX_MEMORY_PER_DEVICE_GIB", settings.memory_per_device_gib),
    )


def _number(variable: str, default: float) -> float:
    text = os.environ.get(variable, "")
    if not text:
        return default
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value < sys.maxsize:
        raise SettingsError(f"{variable}={text!r} is not a number greater than 0 (such as 0.2)")
    return value
