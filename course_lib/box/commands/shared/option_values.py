"""Values of options, read as Slurm reads them; a wrong one ends the command in its words."""

from __future__ import annotations

import os

from course_lib.box import settings
from course_lib.box.commands.shared.errors import Failure
from course_lib.box.settings import UNLIMITED

BAD_OPTION_CODE = 255
SUFFIXES = {"": 1, "K": 1 / 1024, "M": 1, "G": 1024, "T": 1024 * 1024}


LAYOUTS = ("block", "cyclic", "arbitrary", "plane", "fcyclic", "*", "pack", "nopack")
MAIL = {
    "NONE": "NONE",
    "ALL": "INVALID_DEPEND,BEGIN,END,FAIL,REQUEUE,STAGE_OUT",
    "BEGIN": "BEGIN",
    "END": "END",
    "FAIL": "FAIL",
    "REQUEUE": "REQUEUE",
    "STAGE_OUT": "STAGE_OUT",
    "INVALID_DEPEND": "INVALID_DEPEND",
    "TIME_LIMIT": "TIME_LIMIT",
    "TIME_LIMIT_50": "TIME_LIMIT_50",
    "TIME_LIMIT_80": "TIME_LIMIT_80",
    "TIME_LIMIT_90": "TIME_LIMIT_90",
    "ARRAY_TASKS": "ARRAY_TASKS",
}


def layout(text: str) -> str:
    """block, cyclic, plane=2, block:cyclic:fcyclic,Pack …"""
    for piece in text.replace(",", ":").split(":"):
        name, equals, size = piece.partition("=")
        if name.lower() not in LAYOUTS or (equals and not size.isdigit()):
            raise invalid("distribution")
    return text


def mail_events(text: str) -> str:
    names = [name.strip().upper() for name in text.split(",")]
    if any(name not in MAIL for name in names):
        raise invalid("mail-type")
    return ",".join(MAIL[name] for name in names)


def number(text: str, option: str, least: int = 1) -> int:
    """A whole number; 0 is refused where Slurm refuses it."""
    value = int(text) if text.strip().lstrip("+-").isdecimal() else least - 1
    if value < least or value >= 2**31:
        raise Failure(f'Invalid numeric value "{text}" for --{option}.')
    return value


def node_counts(text: str) -> tuple[int, int]:
    """`2`, `1-2`, with k and m; the least is 0 for `0` as in Slurm."""
    least, dash, most = text.partition("-")
    try:
        low = _scaled(least)
        high = _scaled(most) if dash else low
    except ValueError:
        raise Failure(f'"{text}" is not a valid node count', code=BAD_OPTION_CODE) from None
    if high < low:
        raise Failure(
            f"Maximum node count {high} is less than minimum node count {low}",
            code=BAD_OPTION_CODE,
        )
    return low, high


def _scaled(text: str) -> int:
    factor = {"k": 1024, "m": 1024 * 1024}.get(text[-1:].lower(), 1)
    digits = text if factor == 1 else text[:-1]
    if not digits.isdigit():
        raise ValueError(text)
    return int(digits) * factor


def time_limit(text: str, option: str = "time") -> int:
    """Minutes, rounded up; 0 and UNLIMITED are no limit."""
    if text.startswith("-") and text[1:].isdigit():
        return UNLIMITED
    try:
        found = settings.minutes(text)
    except settings.SettingsError:
        raise invalid(option) from None
    return found or UNLIMITED


def invalid(option: str) -> Failure:
    return Failure(f"Invalid --{option} specification", code=BAD_OPTION_CODE)


def memory(text: str, option: str) -> str:
    """Mebibytes as digits; a unit other than K, M, G, T is refused."""
    digits = text.rstrip("bBkKmMgGtT")
    unit = text[len(digits) :].upper().removesuffix("B")
    if not digits.isdigit() or unit not in SUFFIXES:
        raise invalid(option)
    return str(int(-(-int(digits) * SUFFIXES[unit] // 1)))


def signal_wanted(text: str) -> tuple[int, int, str]:
    """`[B:][R:]NAME[@seconds]` as (number, seconds before the limit, `batch` or ``)."""
    flags, colon, rest = text.rpartition(":")
    name, at, seconds = rest.partition("@")
    number_ = signal_number(name)
    flags_ok = not colon or set(flags.upper()) <= set("BR")
    seconds_ok = not at or (seconds.isdigit() and int(seconds) < 65536)
    if not number_ or not flags_ok or not seconds_ok:
        raise invalid("signal")
    return number_, int(seconds) if at else 60, "batch" if "B" in flags.upper() else ""


def signal_number(text: str) -> int:
    """0 where it is none."""
    import signal

    if text.isdigit():
        return int(text) if int(text) < 65 else 0
    name = text.upper().removeprefix("SIG")
    found = getattr(signal, f"SIG{name}", None)
    return int(found) if isinstance(found, signal.Signals) else 0


def hosts(text: str) -> str:
    """Names separated by commas, expanded; a text with a slash is a file of names."""
    from course_lib.box import hostlist

    if "/" in text:
        try:
            with open(text, encoding="utf-8", errors="surrogateescape") as file:
                text = ",".join(file.read().split())
        except OSError as error:
            raise Failure(f"Unable to open file {text}: {os.strerror(error.errno or 0)}") from None
    try:
        return ",".join(dict.fromkeys(hostlist.expand(text)))
    except hostlist.HostListError:
        return text  # the admission refuses it as an unknown node, as Slurm does


def yes_or_no(text: str, option: str) -> int:
    if text.lower() not in ("yes", "no"):
        raise invalid(option)
    return int(text.lower() == "yes")
