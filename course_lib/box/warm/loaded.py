"""What the warm process has loaded, and which environment variables it read for that."""

from __future__ import annotations

import os
import sys
from typing import Any


class Loaded:
    """`absent`: variables that were looked up, and not set; `base_path`: sys.path without ours."""

    def __init__(self, environment: dict[str, str], absent: set[str], base_path: list[str]) -> None:
        self.environment = environment
        self.absent = absent
        self.base_path = base_path
        self.modules = {
            name for name in sys.modules if "." not in name and name not in sys.builtin_module_names
        } - {"course_lib"}


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
