"""Which environment variables are read by name while something is imported."""

from __future__ import annotations

import os
from typing import Any


class WatchedEnvironment:
    """Within `with`, `absent` collects the names that were looked up and are not set.

    Names that are set are not collected: whoever copies the environment reads all of them.
    """

    def __init__(self) -> None:
        self.absent: set[str] = set()

    def __enter__(self) -> WatchedEnvironment:
        kind: Any = type(os.environ)
        plain: Any = kind.__getitem__
        absent = self.absent

        def watched(environment: Any, name: str) -> str:
            try:
                return str(plain(environment, name))
            except KeyError:
                absent.add(name)
                raise

        self._kind, self._plain = kind, plain
        kind.__getitem__ = watched
        return self

    def __exit__(self, *_: object) -> None:
        self._kind.__getitem__ = self._plain
