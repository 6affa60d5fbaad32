"""How versions of NCCL word their log."""

from __future__ import annotations

from dataclasses import dataclass

from course_lib.mistakes.kinds import shown
from course_lib.plan.checks import one_of

_OLD_MEMORY, _NEW_MEMORY = "direct shared memory", "SHM/direct/direct"
_SEARCHED = (
    "NET/Plugin : Plugin load (libnccl-net.so) returned 2 : libnccl-net.so: cannot open shared "
    "object file: No such file or directory"
)


@dataclass(frozen=True)
class Wording:
    """`plugin`: what is said where there is no network plugin. `mirrored`, `balanced`: see
    `NcclCluster.tree`; `both_ways`: trees are printed up and down. `by_bus`: devices are named by
    their bus id, not their number. `identity`: the communicator has an id. `reads`: devices on
    NVLink read from each other. `long_rings`: all ranks of a ring are printed as far as the line
    goes. `lazy`: channels are connected when the communicator is ready, on first use."""

    version: str
    peer: str
    memory: str
    plugin: tuple[str, ...]
    has_trees: bool = True
    mirrored: bool = True
    balanced: bool = True
    both_ways: bool = False
    by_bus: bool = False
    identity: bool = True
    reads: bool = True
    long_rings: bool = False
    lazy: bool = False

    @property
    def is_oldest(self) -> bool:
        return not self.has_trees


WORDINGS: dict[str, Wording] = {
    "2.4": Wording(
        "2.4.8+cuda10.0", "P2P/IPC", _OLD_MEMORY,
        ("NET/Plugin : No plugin found (libnccl-net.so).",),
        has_trees=False, identity=False, reads=False,
    ),
    "2.7": Wording(
        "2.7.8+cuda10.2", "P2P/IPC", _OLD_MEMORY,
        ("NET/Plugin : No plugin found (libnccl-net.so), using internal implementation",),
        mirrored=False, balanced=False, both_ways=True, by_bus=True, identity=False, reads=False,
    ),
    "2.10": Wording(
        "2.10.3+cuda11.3", "P2P/IPC", _OLD_MEMORY,
        ("NET/Plugin : No plugin found (libnccl-net.so), using internal implementation",),
        by_bus=True, identity=False,
    ),
    "2.18": Wording(
        "2.18.6+cuda12.1", "P2P/IPC", _NEW_MEMORY,
        (_SEARCHED, "NET/Plugin : No plugin found, using internal implementation"),
    ),
    "2.27": Wording(
        "2.27.7+cuda13.0", "P2P/CUMEM", _NEW_MEMORY,
        ("NET/Plugin: Could not find: libnccl-net.so. ",), long_rings=True, lazy=True,
    ),
}  # fmt: skip


def wording(version: str) -> Wording:
    """The nearest version of the table that a name such as "2.18" or "2.18.6" stands for."""
    said = version if isinstance(version, str) else shown(version)
    short = ".".join(said.split(".")[:2])
    one_of("version", short, WORDINGS)
    return WORDINGS[short]
