"""Mistakes in what was asked: told in one sentence, without a traceback."""

from __future__ import annotations

from collections.abc import Sequence


class AskedError(ValueError):
    """The message says what was asked, what is allowed, and what to do next."""

    exit_code = 1

    @property
    def problems(self) -> list[str]:
        """One line each."""
        return [str(self)]


class ArgumentsError(AskedError):
    """Flags that cannot be as they are: all of them at once."""

    exit_code = 2

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("; ".join(problems))
        self.found = list(problems)

    @property
    def problems(self) -> list[str]:
        return self.found


class LayoutError(ArgumentsError):
    """A layout that does not fit the devices, the model or the batch."""


class SurroundingsError(AskedError):
    """What a launcher or a job script exported for this rank; others may have been told better."""

    exit_code = 2


class MeetingPointError(SurroundingsError):
    """There is no way to the other ranks: to try it again would take as long again."""


class DeviceError(AskedError):
    """Devices on which the ranks cannot work together."""


class DataError(AskedError):
    """Data that is missing, damaged, or too little."""


class FolderError(AskedError):
    """A folder that what is recorded cannot be written to."""


class DivergedError(AskedError):
    """Training that has left the range of its numbers: going on would only cost time."""


class MissingRankError(AskedError):
    """Ranks that did not come to where all were to meet."""

    def __init__(self, ranks: Sequence[int], where: str) -> None:
        who = f"rank{'s' * (len(ranks) > 1)} {', '.join(map(str, ranks))}"
        super().__init__(
            f"{who} did not come to the meeting point {where}: told another MASTER_ADDR or "
            "MASTER_PORT, unable to resolve or reach it, or ended before; their own lines say which"
        )


class LostRankError(AskedError):
    """Ranks that ended without a word, told by the one that watched them."""

    def __init__(self, lost: Sequence[str]) -> None:
        super().__init__(
            f"lost {', then '.join(lost)}: ended without a word, such as a process that was "
            "killed, for memory or by a signal, or a node that is gone; `sacct -j <job>` and the "
            "node's own log may say why, and --load continues from the last checkpoint"
        )
