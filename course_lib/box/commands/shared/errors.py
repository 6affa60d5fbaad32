"""How a command ends when something is wrong."""

from __future__ import annotations


class Failure(Exception):
    """Ends the command: each line goes to stderr behind `<command>: error: ` (or `fatal`)."""

    def __init__(self, *lines: str, code: int = 1, fatal: bool = False) -> None:
        super().__init__("\n".join(lines))
        self.lines = lines
        self.code = code
        self.kind = "fatal" if fatal else "error"


class Unsupported(Failure):
    """Real Slurm does it, the box does not; it says so by name instead of doing half of it."""

    def __init__(self, what: str, instead: str) -> None:
        super().__init__(f"the box does not do {what}; a real Slurm does. {instead}")
