"""What the first process of a job has to know, worked out by the supervisor."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from course_lib.box.nodes.namespaces import Mounts
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
    command_folders: tuple[str, ...] = ()
    """Folders in which the nodes see the commands of the box."""
    names_library: str = ""
    """Library that stands in for host names in flat mode."""

    @property
    def callers(self) -> str:
        """Where its processes note whom they call, for host_names.c."""
        return f"{self.folder}/callers"

    @property
    def hosts_file(self) -> str:
        return f"{self.folder}/hosts"

    @property
    def mounts(self) -> Mounts:
        hosts = [(self.hosts_file, "/etc/hosts")] if os.path.exists("/etc/hosts") else []
        stand_ins = [(self.shims.script, path) for path in self.shims.covered]
        return Mounts(self.folder, hosts + stand_ins, list(self.command_folders))
