"""Settings of the box: number of nodes, rate of the link, location of its state and so on.

Every `squeue` imports this module. Importing `tomllib` and `pathlib` would take longer than the
query. `tomllib` is therefore imported only if a `box.toml` exists.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Self

SETTINGS_FILE = "box.toml"
# Variable in the environment of every process of a job.
MARKER = "COURSE_BOX_JOB"
# Folder in which torch.compile keeps its code. The default in `/tmp` may belong to another user.
COMPILED_CODE = "TORCHINDUCTOR_CACHE_DIR"
# Value of a time limit in minutes that means no limit.
UNLIMITED = -1
MODES = ("auto", "namespaces", "flat")
GPU_WAYS = ("auto", "share", "none")


class Record:
    """A frozen record whose fields are the subclass's annotations. Only defaults may be omitted.

    Importing `dataclasses` would take as long as a whole `squeue`.
    """

    def __init__(self, **values: object) -> None:
        own = type(self)
        unknown = values.keys() - own.__annotations__.keys()
        absent = [n for n in own.__annotations__ if n not in values and not hasattr(own, n)]
        if unknown or absent:
            raise TypeError(f"{own.__name__}: unknown {sorted(unknown)}, absent {absent}")
        self.__dict__.update(values)

    @classmethod
    def of_row(cls, names: list[str], row: tuple[object, ...]) -> Self:
        """Make a record from a row of the state file, without checks, because speed matters."""
        record = object.__new__(cls)
        record.__dict__.update(zip(names, row, strict=True))
        return record

    @classmethod
    def fields(cls) -> list[str]:
        return list(cls.__annotations__)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is read-only: {name}")

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and all(
            getattr(self, name) == getattr(other, name) for name in self.fields()
        )

    def __hash__(self) -> int:
        return hash(tuple(getattr(self, name) for name in self.fields()))

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.fields())
        return f"{type(self).__name__}({shown})"


class SettingsError(ValueError):
    """Error: the box cannot use a value of `box.toml` or of a COURSE_BOX_* variable."""


class Settings(Record):
    cluster: str = "box"
    nodes: int = 2
    node_prefix: str = "node"
    devices_per_node: int = 2
    cpus_per_node: int = 32
    memory_per_node_mib: int = 16000
    memory_per_device_gib: float = 4.0
    link_gbit: float = 1.0
    mode: str = "auto"
    # Names separated by commas; the first is the default partition.
    partitions: str = "box"
    default_time: str = "01:00:00"
    max_time: str = "1-00:00:00"
    # Time between SIGTERM and SIGKILL at a time limit or a cancel (Slurm's KillWait).
    kill_wait_s: float = 5.0
    # A requeued job waits this long (reason BeginTime); 121 s on a real Slurm.
    requeue_delay_s: float = 2.0
    first_job_id: int = 1
    # squeue and scontrol know an ended job for this long (Slurm's MinJobAge).
    job_shown_s: float = 300.0
    # `auto` uses the machine's GPUs if each slot gets one. `share` uses them even if several slots
    # share one. `none` never uses them.
    gpus: str = "auto"
    # Factor by which computing on a slot without GPU takes longer than its processor time. Slots
    # that share cores then do not slow each other down. `auto` chooses it from slots and cores.
    device_pace: float | str = "auto"

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
        """Return the partitions' longest time limit in minutes, or None for no limit."""
        return minutes(self.max_time)


def is_number(text: str) -> bool:
    """Return True for ASCII digits. `isdigit` alone accepts characters that int() cannot read."""
    return text.isascii() and text.isdigit()


def minutes(text: str) -> int | None:
    """Convert `30`, `30:00`, `1:30:00`, `2-12` or `2-12:30:00` to minutes. None is unlimited."""
    if text.strip().upper() in ("UNLIMITED", "INFINITE", "-1"):
        return None
    days, dash, rest = text.strip().rpartition("-")
    parts = rest.split(":")
    if not all(map(is_number, parts + [days] * len(dash))) or len(parts) > 3:
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
    """Return the folder for everything that the box writes, except a job's own output."""
    if chosen := os.environ.get("COURSE_BOX_HOME"):
        return os.path.abspath(chosen)
    base = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return os.path.join(base, "course-box")


def compiled_code() -> str:
    """Return the folder of torch.compile's code for all jobs of one user; see COMPILED_CODE."""
    return os.path.join(state_home(), "compiled")


def job_folder(job_id: int) -> str:
    """Return the folder for a job's socket, lock and supervisor log. The first user creates it."""
    return os.path.join(state_home(), "jobs", str(job_id))


def marker(job_id: int, home: str) -> str:
    """Return the value of the variable MARKER."""
    return f"{job_id}@{home}"


def load() -> Settings:
    """Return the settings of this box. An error names the line to change and stops the command."""
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
    import tomllib  # takes 9 ms, a fifth of a whole `squeue`

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
            f"{path}: unknown {', '.join(unknown)}; use {', '.join(Settings.fields())}"
        )
    return values


def check(settings: Settings, path: str = SETTINGS_FILE) -> Settings:
    """Return the settings, or raise an error that names the value, the rule and the file."""
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
        raise SettingsError(f'{path}: device_pace = {pace!r}; use "auto" or a number from 1')
    for text in (settings.default_time, settings.max_time):
        minutes(text)
    if not settings.partition_names:
        raise SettingsError(f'{path}: partitions is empty; use for example "box"')
    return settings


LOWEST_LINK_GBIT = 1e-5  # the kernel stores the time of a burst in 32 bits
SLOWEST_PACE = 1000
SLOWEST_LINK = "0.00001 (10 kbit/s) or more"
MAY_BE_ZERO = ("devices_per_node", "kill_wait_s", "job_shown_s", "requeue_delay_s")


def of_submission(settings: Settings) -> tuple[float, float]:
    """Return link (Gbit/s) and device memory (GiB) of a job submitted now.

    Two variables let a lesson slow the link for one job. The job's record keeps the values.
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
