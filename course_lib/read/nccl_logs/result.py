"""Content of NCCL's log as tables, which `reader.py` reads."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from course_lib.read.messages import _

if TYPE_CHECKING:
    import pandas as pd

COMMUNICATOR_COLUMNS = (
    "communicator",
    "label",
    "size",
    "ranks_seen",
    "nodes",
    "channels",
    "init",
)
RANK_COLUMNS = ("communicator", "rank", "host", "pid", "cuda_device", "nvml_device", "bus_id")
CHANNEL_COLUMNS = (
    "communicator",
    "channel",
    "source",
    "destination",
    "source_device",
    "destination_device",
    "direction",
    "transport",
    "raw",
    "nic",
    "gdrdma",
    "through",
    "host",
    "line",
)
RING_COLUMNS = ("communicator", "channel", "order", "truncated", "line")
WARNING_COLUMNS = ("host", "rank", "text", "where", "line", "file")


@dataclass(frozen=True)
class NcclLog:
    """Communicators with their ranks and links.

    Ranks are numbered within the communicator. `channels` has one row for each `a -> b via …` line:
    the sender prints it inside a node, and both ends between nodes (`direction`). `simulated`
    describes the cluster of a generated log; it is empty for NCCL's own logs."""

    library: str
    versions: tuple[str, ...]
    hosts: tuple[str, ...]
    network: str | None
    environment: dict[str, str]
    communicators: pd.DataFrame
    ranks: pd.DataFrame
    channels: pd.DataFrame
    rings: pd.DataFrame
    warnings: pd.DataFrame
    simulated: str = ""
    lines: int = 0
    files: tuple[str, ...] = field(default=())

    @property
    def is_understood(self) -> bool:
        tables = (self.communicators, self.ranks, self.channels, self.warnings)
        known = self.versions or self.network or self.environment
        return bool(known) or any(len(table) for table in tables)

    def __str__(self) -> str:
        if not self.is_understood:
            return _(
                "nothing in these {lines} lines was understood, because NCCL or RCCL printed "
                "none of them; set NCCL_DEBUG=INFO for the job",
                lines=self.lines,
            )
        return _(
            "{library} {versions}: {communicators} communicators, the largest of "
            "{world_size} ranks; {channels} channel lines, {warnings} warnings",
            library=self.library,
            versions=", ".join(self.versions) or _("of unknown version"),
            communicators=len(self.communicators),
            world_size=self.world_size,
            channels=len(self.channels),
            warnings=len(self.warnings),
        )

    @property
    def transports(self) -> dict[str, int]:
        """Return the number of lines of each transport as printed."""
        counts = self.channels["raw"].value_counts()
        return {str(name): int(count) for name, count in counts.items() if count}

    @property
    def world_size(self) -> int | None:
        """Return the size of the largest communicator."""
        sizes = self.communicators["size"].dropna()
        return None if sizes.empty else int(sizes.max())

    def largest(self) -> int | None:
        """Return the communicator with the most ranks: usually the whole job."""
        known = self.communicators.dropna(subset=["size"])
        if known.empty:
            return None
        lines = self.channels["communicator"].value_counts()
        known = known.assign(links=known["communicator"].map(lines).fillna(0))
        order = known.sort_values(["size", "links"], ascending=False, kind="stable")
        return int(order["communicator"].iloc[0])

    def matrix(self, communicator: int | None = None) -> pd.DataFrame:
        """Return the transport from each rank (row) to each rank (column); empty if there is
        none."""
        chosen = self.largest() if communicator is None else communicator
        links = self.channels
        links = links if chosen is None else links[links["communicator"] == chosen]
        links = links[links["source"] != links["destination"]]  # CollNet: to the switch
        table = (
            links.assign(transport=links["transport"].astype(str))
            .groupby(["source", "destination"])["transport"]
            .agg(lambda names: " + ".join(sorted(set(names))))
            .unstack(fill_value="")
        )
        ranks = set(table.index) | set(table.columns)
        known = self.ranks[self.ranks["communicator"] == chosen]["rank"].dropna()
        order = sorted({int(rank) for rank in ranks | set(known)})
        return table.reindex(index=order, columns=order, fill_value="").rename_axis(
            index="source", columns="destination"
        )
