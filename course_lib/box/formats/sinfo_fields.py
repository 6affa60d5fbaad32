"""The fields of sinfo: letters for -o, names for -O, headers, content, what splits a line."""

from __future__ import annotations

from course_lib.box import hostlist
from course_lib.box.formats import times
from course_lib.box.formats.node_view import SHORT, NodeView, free_mib, load
from course_lib.box.settings import UNLIMITED, Settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


class Group:
    """The nodes of one partition that one line of sinfo is about."""

    def __init__(self, partition: str, nodes: list[NodeView], box: Settings) -> None:
        self.partition = partition
        self.nodes = nodes
        self.box = box

    @property
    def first(self) -> NodeView | None:
        return self.nodes[0] if self.nodes else None

    @property
    def limit(self) -> str:
        most = self.box.max_time_min
        return (
            times.limit_short(UNLIMITED if most is None else most)
            .lower()
            .replace("unlimited", "infinite")
        )

    @property
    def starred(self) -> str:
        """The default partition is marked."""
        return self.partition + ("*" if self.partition == self.box.partition_names[0] else "")


def names(group: Group) -> str:
    return hostlist.compress([node.name for node in group.nodes])


def node_counts(group: Group) -> tuple[int, int, int, int]:
    used = sum(node.load_state != "idle" for node in group.nodes)
    return used, len(group.nodes) - used, 0, len(group.nodes)


def cpu_counts(group: Group) -> tuple[int, int, int, int]:
    total = len(group.nodes) * group.box.cpus_per_node
    used = sum(node.cpus_used for node in group.nodes)
    return used, total - used, 0, total


def slashed(numbers: tuple[int, ...]) -> str:
    return "/".join(map(str, numbers))


def of_first(value: Callable[[NodeView], str]) -> Callable[[Group], str]:
    return lambda group: value(group.first) if group.first else "n/a"


def gres_used(node: NodeView) -> str:
    return f"gpu:{len(node.devices_used)}" if node.box.devices_per_node else "(null)"


def default_time(group: Group) -> str:
    from course_lib.box.settings import minutes

    usual = minutes(group.box.default_time)
    return times.limit_short(usual) if usual else "n/a"


FIELDS: dict[str, tuple[str, Callable[[Group], str]]] = {
    "available": ("AVAIL", lambda g: "up"),
    "features_act": ("ACTIVE_FEATURES", of_first(lambda n: n.features)),
    "cpus": ("CPUS", lambda g: str(g.box.cpus_per_node)),
    "disk": ("TMP_DISK", lambda g: "0"),
    "freemem": ("FREE_MEM", lambda g: free_mib()),
    "features": ("AVAIL_FEATURES", of_first(lambda n: n.features)),
    "groups": ("GROUPS", lambda g: "all"),
    "oversubscribe": ("OVERSUBSCRIBE", lambda g: "NO"),
    "time": ("TIMELIMIT", lambda g: g.limit),
    "memory": ("MEMORY", lambda g: str(g.box.memory_per_node_mib)),
    "nodehost": ("HOSTNAMES", of_first(lambda n: n.name)),
    "nodeaddr": ("NODE_ADDR", of_first(lambda n: n.name)),
    "prioritytier": ("PRIO_TIER", lambda g: "1"),
    "root": ("ROOT", lambda g: "no"),
    "size": ("JOB_SIZE", lambda g: "1-infinite"),
    "statecompact": ("STATE", of_first(lambda n: SHORT[n.state])),
    "statelong": ("STATE", of_first(lambda n: n.state)),
    "statecomplete": ("STATECOMPLETE", of_first(lambda n: n.full_state)),
    "user": ("USER", lambda g: "Unknown"),
    "userlong": ("USER", lambda g: "Unknown"),
    "version": ("VERSION", lambda g: "22.05.8"),
    "weight": ("WEIGHT", lambda g: "1"),
    "socketcorethread": ("S:C:T", lambda g: f"1:{g.box.cpus_per_node}:1"),
    "nodeai": ("NODES(A/I)", lambda g: slashed(node_counts(g)[:2])),
    "maxcpuspernode": ("MAX_CPUS_PER_NODE", lambda g: "UNLIMITED"),
    "cpusstate": ("CPUS(A/I/O/T)", lambda g: slashed(cpu_counts(g))),
    "nodes": ("NODES", lambda g: str(len(g.nodes))),
    "reason": ("REASON", lambda g: "none"),
    "nodeaiot": ("NODES(A/I/O/T)", lambda g: slashed(node_counts(g))),
    "gres": ("GRES", of_first(lambda n: n.gres)),
    "gresused": ("GRES_USED", of_first(gres_used)),
    "timestamp": ("TIMESTAMP", lambda g: "Unknown"),
    "priorityjobfactor": ("PRIO_JOB_FACTOR", lambda g: "1"),
    "defaulttime": ("DEFAULTTIME", default_time),
    "preemptmode": ("PREEMPT_MODE", lambda g: "OFF"),
    "nodelist": ("NODELIST", names),
    "cpusload": ("CPU_LOAD", lambda g: load()),
    "partition": ("PARTITION", lambda g: g.starred),
    "partitionname": ("PARTITION", lambda g: g.partition),
    "allocnodes": ("ALLOCNODES", lambda g: "all"),
    "allocmem": ("ALLOCMEM", lambda g: "0"),
    "cluster": ("CLUSTER", lambda g: "N/A"),
    "comment": ("COMMENT", lambda g: "(null)"),
    "extra": ("EXTRA", lambda g: "(null)"),
    "port": ("PORT", lambda g: "0"),
    "sockets": ("SOCKETS", lambda g: "1"),
    "cores": ("CORES", lambda g: str(g.box.cpus_per_node)),
    "threads": ("THREADS", lambda g: "1"),
}
LETTERS = {
    "a": "available",
    "A": "nodeai",
    "b": "features_act",
    "B": "maxcpuspernode",
    "c": "cpus",
    "C": "cpusstate",
    "d": "disk",
    "D": "nodes",
    "e": "freemem",
    "E": "reason",
    "f": "features",
    "F": "nodeaiot",
    "g": "groups",
    "G": "gres",
    "h": "oversubscribe",
    "H": "timestamp",
    "I": "priorityjobfactor",
    "l": "time",
    "L": "defaulttime",
    "m": "memory",
    "M": "preemptmode",
    "n": "nodehost",
    "N": "nodelist",
    "o": "nodeaddr",
    "O": "cpusload",
    "p": "prioritytier",
    "P": "partition",
    "r": "root",
    "R": "partitionname",
    "s": "size",
    "S": "allocnodes",
    "t": "statecompact",
    "T": "statelong",
    "u": "user",
    "U": "userlong",
    "v": "version",
    "V": "cluster",
    "w": "weight",
    "X": "sockets",
    "Y": "cores",
    "z": "socketcorethread",
    "Z": "threads",
}
PER_STATE = {"statecompact", "statelong", "statecomplete"}
PER_NODE = {"nodehost", "nodeaddr"}
"""Fields by which sinfo splits the nodes of a partition into lines."""
