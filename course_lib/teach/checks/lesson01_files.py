"""How the files of a run of lesson 01 are packed."""

from __future__ import annotations

from math import ceil, prod
from pathlib import Path
from typing import Any, NamedTuple

from course_lib.teach.checklist import Checklist


class Packing(NamedTuple):
    shape: tuple[int, ...]
    chunks: tuple[int, ...] | None
    compression: str | None

    @property
    def chunks_of_a_state(self) -> int:
        return prod(map(ceil, self._in_chunks()[1:]))

    @property
    def unpacked(self) -> float:
        """Numbers that are unpacked for each that is asked for, where one state is read."""
        chunks = self.chunks or self.shape
        return self.chunks_of_a_state * prod(chunks) / prod(self.shape[1:])

    def _in_chunks(self) -> list[float]:
        chunks = self.chunks or self.shape
        return [size / each for size, each in zip(self.shape, chunks, strict=True)]


def packing_of(check: Checklist, run: Any) -> Packing:
    import h5py

    folder = Path(str(run.recipe.flags.get("--data", "")))
    years = sorted(folder.glob("train/*.h5"))
    check.unless(
        not years,
        "its files are there",
        hint=f"There is no year in {folder}/train. The cell above packs the files, and the last "
        "one of the lesson removes them. Run the lesson from its top; runs that are over are kept.",
    )
    try:
        with h5py.File(years[0], "r") as file:
            fields = file["fields"]
            return Packing(fields.shape, fields.chunks, fields.compression)
    except (OSError, KeyError, AttributeError) as error:
        check.refuse(
            "its files can be read",
            f"{years[0]}: {error}. Remove its folder, and run the cell above once more.",
        )
