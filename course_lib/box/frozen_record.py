"""Frozen records without importing `dataclasses`, which takes as long as a whole `squeue`."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Self


class Record:
    """A record whose fields are the subclass's annotations. Only defaults may be omitted."""

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
