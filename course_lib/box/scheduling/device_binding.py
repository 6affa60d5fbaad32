"""--gpu-bind: which of the devices of its step a task gets, where a node has several tasks."""

from __future__ import annotations

import re
from dataclasses import dataclass

Devices = tuple[int, ...]

COUNTED, LISTED = ("single", "per_task"), ("map_gpu", "mask_gpu")
NOWHERE = (
    "Bind request gpu:{bind} does not specify any devices within the allocation for task {task}."
    " Binding to the first device in the allocation instead."
)
REASONS = {
    "per_task": "Not enough gpus to bind for gpus per task",
    "map_gpu": "Invalid --gpu-bind= value specified.",
    "mask_gpu": "Invalid --gpu-bind= value specified.",
}


class InvalidBinding(ValueError):
    """Slurm's words, a line each."""


@dataclass(frozen=True)
class Bound:
    devices: Devices
    said: tuple[str, ...] = ()
    """Lines for the errors of the task."""


def check(text: str) -> None:
    """What the commands refuse; an unknown word passes, and leaves the tasks without devices."""
    name, colon, rest = _word(text).partition(":")
    lines = [f"Invalid --gpu-bind argument: gpu:{text}"]
    wrong = not name or name in ("verbose", "v", "quiet", "q") or "," in name
    wrong = wrong or (name in (*COUNTED, *LISTED) and not (colon and rest))
    if name in LISTED and rest:
        for item in rest.split(","):
            if letter := _offending(name, item.partition("*")[0]):
                lines.insert(0, f"Failed to validate {item}, offending character is {letter}")
                wrong = True
                break
    if wrong:
        raise InvalidBinding(*lines)


def bind(text: str, devices: Devices, task: int, tasks: int) -> Bound:
    """`task`: its number among the `tasks` of the node."""
    if not text or not devices or tasks == 1:
        return Bound(devices)
    name, _, rest = _word(text).partition(":")
    said: list[str] = []
    own = _chosen(name, rest, devices, task, said)
    if own is None:
        said = [NOWHERE.format(bind=_word(text), task=task), REASONS[name]]
        own = devices[:1]
    if own and text.lower().startswith("verbose,"):
        said.append(_told(own, devices))
    return Bound(own, tuple(said))


def _chosen(name: str, rest: str, devices: Devices, task: int, said: list[str]) -> Devices | None:
    """None where the binding names nothing that the step has."""
    if name == "closest":
        return devices
    if name in COUNTED:
        number = int(rest) if rest.isdigit() else 0
        if not number:
            said.append(
                f"_parse_tres_bind: {name}:{rest} does not specify a valid number. Defaulting to 1."
            )
            number = 1
        if name == "single":
            return (devices[task // number % len(devices)],)
        own = devices[task * number : (task + 1) * number]
        return own if len(own) == number else None
    if name in LISTED:
        items = _listed(rest)
        item = items[task % len(items)]
        if name == "map_gpu":
            return tuple(device for device in devices if device == int(item)) or None
        mask = int(item, 16)
        return tuple(device for device in devices if mask >> device & 1) or None
    return ()


def _word(text: str) -> str:
    return re.sub(r"^verbose,", "", text, flags=re.IGNORECASE).lower()


def _listed(rest: str) -> list[str]:
    """`0*2,1` as 0, 0, 1."""
    found = []
    for item in rest.split(","):
        value, _, times = item.partition("*")
        found += [value] * (int(times) if times.isdigit() else 1)
    return found


def _offending(name: str, item: str) -> str:
    digits = item.removeprefix("0x") if name == "mask_gpu" else item
    allowed = "0123456789abcdef" if name == "mask_gpu" else "0123456789"
    return next((letter for letter in digits if letter not in allowed), "" if digits else ",")


def _told(own: Devices, devices: Devices) -> str:
    usable, held = sum(1 << device for device in own), sum(1 << device for device in devices)
    listed = ",".join(map(str, own))
    return (
        f"gpu-bind: usable_gres={usable:#x}; bit_alloc={held:#x}; local_inx=0;"
        f" global_list={listed}; local_list={listed}"
    )
