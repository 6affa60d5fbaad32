"""Cases: pieces of the files in cases/, each a name and a few lines of bash."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
CASES = HERE / "cases"
RECORDED = HERE / "recorded"
MARK = "#: "
SLOW_MARK = "(a minute)"
MANY_JOBS = "200 jobs"


@dataclass(frozen=True)
class Case:
    group: str
    name: str
    script: str

    @property
    def slow(self) -> bool:
        """Tell whether a case waits for a time limit, which is at least a minute."""
        return self.name.endswith(SLOW_MARK)

    @property
    def long(self) -> bool:
        """Tell whether a case takes long, so that it should begin before the others."""
        return self.slow or MANY_JOBS in self.name

    @property
    def id(self) -> str:
        return f"{self.group}: {self.name}"


def read_cases() -> list[Case]:
    cases = [case for file in sorted(CASES.glob("*.sh")) for case in parse(file)]
    names = [case.name for case in cases]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise ValueError(f"two cases of the same name: {sorted(twice)}")
    return sorted(cases, key=lambda case: not case.long)


def parse(file: Path) -> list[Case]:
    """Split a file into cases. A case begins at a line `#: its name` and ends before the next
    one."""
    _, *pieces = ("\n" + file.read_text(encoding="utf-8")).split("\n" + MARK)
    return [
        Case(file.stem, name.strip(), body)
        for name, _, body in (piece.partition("\n") for piece in pieces)
    ]


def read_recorded(group: str) -> dict[str, str]:
    """Return the transcripts of the real Slurm, by name of the case."""
    file = RECORDED / f"{group}.txt"
    if not file.exists():
        return {}
    return {case.name: case.script for case in parse(file)}


def write_recorded(group: str, transcripts: dict[str, str]) -> None:
    """Write recordings in the order of the cases, without recordings that have no case."""
    kept = read_recorded(group) | transcripts
    order = [case.name for case in parse(CASES / f"{group}.sh")]
    text = "".join(f"{MARK}{name}\n{kept[name].rstrip()}\n\n" for name in order if name in kept)
    RECORDED.mkdir(exist_ok=True)
    (RECORDED / f"{group}.txt").write_text(text, encoding="utf-8")
