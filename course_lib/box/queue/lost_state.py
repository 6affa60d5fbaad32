"""What a new state file remembers of the one before it, which was lost or set aside."""

from __future__ import annotations

import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sqlite3 import Connection

LOSS_TOLD_S = 3600.0


def lost_jobs(connection: Connection) -> list[str]:
    """Numbers of jobs that may still run and that only an earlier state file knew."""
    row = connection.execute("SELECT value FROM fact WHERE name = 'lost_jobs'").fetchone()
    return row[0].split(",") if row and row[0] else []


def loss_told(connection: Connection) -> str:
    """A sentence for some time after a state file was lost or set aside; else empty."""
    row = connection.execute("SELECT value FROM fact WHERE name = 'lost_at'").fetchone()
    if not row or not 0 <= time.time() - float(row[0]) < LOSS_TOLD_S:
        return ""
    begun = time.strftime("%H:%M:%S", time.localtime(float(row[0])))
    return (
        f"the state file was lost or set aside, and a new one begun at {begun}: jobs of before are"
        " not known any more, and those that ran were ended"
    )


def forget_lost_jobs(connection: Connection) -> None:
    connection.execute("DELETE FROM fact WHERE name = 'lost_jobs'")
