"""What the first process of a job has to know, worked out by the supervisor."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from course_lib.box.warm.shims import Shims


@dataclass(frozen=True)
class JobPlan:
    job_id: int
    home: str
    folder: str
    separate: bool
    """Namespaces, or flat mode."""
    nodes: tuple[tuple[str, str], ...]
    """Name and address, in the order of the allocation."""
    link_gbit: float
    shims: Shims = field(default_factory=Shims)
    names_library: str = ""
    """Library that stands in for host names in flat mode."""

    @property
    def hosts_file(self) -> str:
        return f"{self.folder}/hosts"

    @property
    def binds(self) -> list[tuple[str, str]]:
        """Files that the nodes see in place of others."""
        hosts = [(self.hosts_file, "/etc/hosts")] if os.path.exists("/etc/hosts") else []
        return hosts + [(self.shims.script, path) for path in self.shims.covered]
