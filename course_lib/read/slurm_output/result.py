"""Tables of Slurm's commands, and values derived from their cells; see `reader.py`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from course_lib.read.messages import _
from course_lib.read.slurm_output.field_values import (
    MOST_LETTERS,
    expand_hosts,
    job_state,
    node_state,
    seconds,
)

if TYPE_CHECKING:
    import pandas as pd

Record = dict[str, str]
_STATES = ("st", "state", "jobstate", "job_state", "statecompact")


@dataclass(frozen=True)
class SlurmTable:
    """Table with its `rows` as printed; `table` adds derived columns."""

    kind: str
    rows: list[Record] = field(default_factory=list)

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for row in self.rows for name in row))

    @property
    def table(self) -> pd.DataFrame:
        """Return the printed columns, and `state_name`, `state_marks`, `hosts`, `time_s` if there
        is a column of states, host lists or times."""
        import pandas as pd

        rows, letters_left = [], MOST_LETTERS
        for row in self.rows:
            derived = _derived(self.kind, row, letters_left)
            letters_left -= sum(map(len, derived.get("hosts", ())))
            rows.append(row | derived)
        return pd.DataFrame(rows)


@dataclass(frozen=True)
class SlurmText:
    """All tables of a text in order; the attributes are the first table's."""

    tables: tuple[SlurmTable, ...] = ()
    submitted: tuple[int, ...] = ()
    other: tuple[str, ...] = ()

    def __str__(self) -> str:
        if not self.tables and not self.submitted:
            return _(
                "nothing in these {other} lines was understood, because they hold no table or "
                "record of squeue, sinfo, sacct or scontrol",
                other=len(self.other),
            )
        tables = [f"{table.kind}: {len(table.rows)} rows" for table in self.tables]
        return "; ".join(
            [*tables, *(_("submitted job {number}", number=number) for number in self.submitted)]
        )

    @property
    def kind(self) -> str:
        return self.tables[0].kind if self.tables else "submitted" if self.submitted else "text"

    @property
    def rows(self) -> list[Record]:
        return self.tables[0].rows if self.tables else []

    @property
    def table(self) -> pd.DataFrame:
        import pandas as pd

        return self.tables[0].table if self.tables else pd.DataFrame()


def _derived(kind: str, row: Record, most_letters: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    lower = {name.lower(): value for name, value in row.items()}
    state = next((lower[key] for key in _STATES if key in lower), None)
    if state is not None and ("node" in kind or kind.startswith("sinfo")):
        found["state_name"], found["state_marks"] = node_state(state)
    elif state is not None:
        found["state_name"] = job_state(state)
    for key in ("nodelist(reason)", "nodelist", "nodename"):
        if key in lower and not lower[key].startswith("(") and lower[key]:
            found["hosts"] = tuple(expand_hosts(lower[key], most_letters))
            break
    for key in ("time", "elapsed", "runtime"):
        if key in lower:
            found["time_s"] = seconds(lower[key])
            break
    return found
