"""Python values to a command line, the same for every program."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def command_line(flags: Mapping[str, Any]) -> tuple[str, ...]:
    """`True` gives the flag alone, `None` and `False` give nothing, a list gives several words."""
    words: list[str] = []
    for name, value in flags.items():
        if value is None or value is False:
            continue
        words.append(f"--{name.replace('_', '-')}")
        if value is not True:
            several = value if isinstance(value, list | tuple) else [value]
            words += [_text(item) for item in several]
    return tuple(words)


def _text(value: Any) -> str:
    """5e6 bytes are 5000000, which a flag for whole numbers takes too."""
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else repr(float(value))
    return str(value)
