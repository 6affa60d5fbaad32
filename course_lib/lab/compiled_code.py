"""Where torch.compile keeps what it made; whoever owns that folder decides what code runs."""

from __future__ import annotations

from collections.abc import Mapping

COMPILED_CODE = "TORCHINDUCTOR_CACHE_DIR"
OF_TORCH = "/torchinductor_"
"""In torch's own choice, a folder in `/tmp` by a name that other accounts can guess. A process that
imported torch has it in its environment, and so has all that it starts."""


def is_chosen(environment: Mapping[str, str]) -> bool:
    return OF_TORCH not in environment.get(COMPILED_CODE, OF_TORCH)
