"""The sinfo command: show partitions and their nodes by state."""

from __future__ import annotations

import os
import sys
import time
from _sqlite3 import Connection
from collections.abc import Callable

from course_lib.box import hostlist, settings
from course_lib.box.commands import command_line, listing
from course_lib.box.commands.command_line import Failure, Syntax, comma_list, listed
from course_lib.box.commands.submit.options import hosts
from course_lib.box.dispatch import upkeep
from course_lib.box.queue import store
from course_lib.box.queue.records import Allocation
from course_lib.box.settings import Settings

SHORT = {"allocated": "alloc", "mixed": "mix", "completing": "comp", "idle": "idle"}
ORDER = ("completing", "mixed", "allocated", "idle")


class NodeView:
    def __init__(self, name: str, box: settings.Settings) -> None:
        self.name = name
        self.box = box
        self.parts: list[Allocation] = []
        self.completing = False
        self.busy_s = 0.0

    @property
    def cpus_used(self) -> int:
        return sum(len(part.cpus) for part in self.parts)

    @property
    def devices_used(self) -> tuple[int, ...]:
        return tuple(sorted(device for part in self.parts for device in part.devices))

    @property
    def load_state(self) -> str:
        if not self.parts:
            return "idle"
        return "allocated" if self.cpus_used >= self.box.cpus_per_node else "mixed"

    @property
    def state(self) -> str:
        """Return the state in one word. An ending job hides other jobs on the node."""
        return "completing" if self.completing else self.load_state

    @property
    def full_state(self) -> str:
        return self.load_state + ("+completing" if self.completing else "")

    @property
    def gres(self) -> str:
        if not self.box.devices_per_node:
            return "(null)"
        return f"gpu:{self.box.devices_per_node}"


def load() -> str:
    try:
        return f"{os.getloadavg()[0]:.2f}"
    except OSError:
        return "N/A"


def free_mib() -> str:
    """Return free memory of the machine as Slurm counts it, or N/A if it is unknown."""
    try:
        return str(os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2**20)
    except (OSError, ValueError):
        return "N/A"


def boot_s() -> float:
    """Return the time when the machine started, or 0 if it is unknown."""
    try:
        with open("/proc/uptime", encoding="ascii") as file:
            return time.time() - float(file.read().split()[0])
    except (OSError, ValueError):
        return 0.0


def views(db: Connection, box: settings.Settings) -> list[NodeView]:
    found = {name: NodeView(name, box) for name in box.node_names}
    active = {job.id: job for job in store.jobs(db, store.HOLDING_NODES)}
    where = f"job_id IN (SELECT id FROM job WHERE {store.HOLDING_NODES})"  # noqa: S608
    for job_id, part in store.all_allocations(db, where):
        if part.node not in found or job_id not in active:
            continue
        view = found[part.node]
        if active[job_id].completing:
            view.completing = True  # from here on, Slurm shows the job's resources as free
        else:
            view.parts.append(part)
        view.busy_s = max(view.busy_s, active[job_id].start_s)
    return list(found.values())


class Group:
    """The nodes of one partition that share one line of sinfo."""

    def __init__(self, partition: str, nodes: list[NodeView], box: Settings) -> None:
        self.partition = partition
        self.nodes = nodes
        self.box = box

    @property
    def limit(self) -> str:
        most = self.box.max_time_min
        return "infinite" if most is None else listing.limit_short(most)


def starred(group: Group) -> str:
    """Return the partition's name; the default partition is marked with `*`."""
    is_default = group.partition == group.box.partition_names[0]
    return group.partition + ("*" if is_default else "")


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
    return lambda group: value(group.nodes[0]) if group.nodes else "n/a"


def always(text: str) -> Callable[[Group], str]:
    return lambda _: text


FIELDS = listing.Fields(
    "sinfo",
    [
        ("available", "a", "AVAIL", always("up")),
        ("cpus", "c", "CPUS", lambda g: str(g.box.cpus_per_node)),
        ("disk", "d", "TMP_DISK", always("0")),
        ("freemem", "e", "FREE_MEM", lambda g: free_mib()),
        ("features", "f", "AVAIL_FEATURES", always("(null)")),
        ("groups", "g", "GROUPS", always("all")),
        ("oversubscribe", "h", "OVERSUBSCRIBE", always("NO")),
        ("time", "l", "TIMELIMIT", lambda g: g.limit),
        ("memory", "m", "MEMORY", lambda g: str(g.box.memory_per_node_mib)),
        ("nodehost", "n", "HOSTNAMES", names),
        ("root", "r", "ROOT", always("no")),
        ("size", "s", "JOB_SIZE", always("1-infinite")),
        ("statecompact", "t", "STATE", of_first(lambda n: SHORT[n.state])),
        ("user", "u", "USER", always("Unknown")),
        ("weight", "w", "WEIGHT", always("1")),
        ("socketcorethread", "z", "S:C:T", lambda g: f"1:{g.box.cpus_per_node}:1"),
        ("nodeai", "A", "NODES(A/I)", lambda g: slashed(node_counts(g)[:2])),
        ("cpusstate", "C", "CPUS(A/I/O/T)", lambda g: slashed(cpu_counts(g))),
        ("nodes", "D", "NODES", lambda g: str(len(g.nodes))),
        ("reason", "E", "REASON", always("none")),
        ("nodeaiot", "F", "NODES(A/I/O/T)", lambda g: slashed(node_counts(g))),
        ("gres", "G", "GRES", of_first(lambda n: n.gres)),
        ("timestamp", "H", "TIMESTAMP", always("Unknown")),
        ("nodelist", "N", "NODELIST", names),
        ("cpusload", "O", "CPU_LOAD", lambda g: load()),
        ("partition", "P", "PARTITION", starred),
        ("partitionname", "R", "PARTITION", lambda g: g.partition),
        ("statelong", "T", "STATE", of_first(lambda n: n.state)),
    ],
)
PER_STATE = {"statecompact", "statelong"}


USAGE = "sinfo [options]"
SYNTAX = Syntax(
    "sinfo",
    "all,a clusters|cluster,M=! dead,d! exact,e federation! Format,O=! format,o= help hide!"
    " iterate,i=! json! list-reasons,R local! long,l Node,N nodes,n= noconvert! noheader,h"
    " partition,p= reservation,T! responding,r! sort,S=! states,t= summarize,s usage verbose,v"
    " version,V yaml!",
)
VARIABLES = {"SINFO_FORMAT": "default", "SINFO_PARTITION": "partition"}
DEFAULT = "%9P %.5a %.10l %.6D %.6t %N"
FORMATS = {
    ("list-reasons",): "%20E %9u %19H %N",
    ("Node", "long"): "%9N %.6D %.9P %.11T %4c %.8z %.6m %.8d %.6w %.8f %20E",
    ("Node",): "%9N %.6D %.9P %6t",
    ("summarize",): "%9P %.5a %.10l  %.15F %N",
    ("long",): "%9P %.5a %.10l %.10s %.4r %.8h %.10g %.6D %.11T %N",
}


def run(arguments: list[str]) -> int:
    pairs, _ = SYNTAX.parse(arguments)
    options = command_line.from_environment(VARIABLES)
    options |= {name: value or "" for name, value in pairs}
    upkeep.try_to_bring_up_to_date()
    _say_if_flat()
    _show(options)
    return 0


def _say_if_flat() -> None:
    """Print a note in flat mode, to standard error, so that sinfo's output stays like Slurm's."""
    from course_lib.box.nodes import probe

    mode, why = probe.describe()
    if mode == probe.FLAT:
        print(f"sinfo: note: flat mode: all nodes share the network of this machine, because {why}",
              file=sys.stderr)  # fmt: skip


def _show(options: dict[str, str]) -> None:
    if "long" in options and "noheader" not in options:
        print(listing.now_line())
    box = settings.load()
    states = _states(options["states"]) if "states" in options else None
    with store.snapshot() as db:
        nodes = views(db, box)
    if "nodes" in options:
        wanted = set(hosts(options["nodes"], "nodes").split(","))
        nodes = [node for node in nodes if node.name in wanted]
    nodes = [node for node in nodes if states is None or {node.state, node.load_state} & states]
    if "list-reasons" in options:
        nodes = []  # no node of the box is ever down
    partitions = listed(options, "partition")
    chosen = [name for name in box.partition_names if partitions is None or name in partitions]
    layout = _layout(options)
    shown = {column.name for column in layout[0]}
    groups = _groups(
        chosen, nodes, box, "Node" in options or "nodehost" in shown, bool(PER_STATE & shown)
    )
    if {"list-reasons", "Node"} & options.keys() or not {"partition", "partitionname"} & shown:
        groups = [group for group in groups if group.nodes]
    if "Node" in options:
        groups = sorted(groups, key=lambda group: hostlist.natural(group.nodes[0].name))
    FIELDS.print(layout, groups, "noheader" not in options)


def _groups(
    partitions: list[str], nodes: list[NodeView], box: Settings, by_node: bool, by_state: bool
) -> list[Group]:
    """Group the nodes into lines: one node each, nodes of one state, or all together."""
    if by_node:
        alike = [[view] for view in nodes]
    elif by_state:
        alike = [[view for view in nodes if view.state == name] for name in ORDER]
    else:
        alike = [nodes]
    shown = list(filter(None, alike)) or [[]]
    return [Group(partition, views, box) for partition in partitions for views in shown]


def _states(text: str) -> set[str]:
    """Read state names, full or short, in any case. The box has no other states."""
    long = {short: name for name, short in SHORT.items()}
    found = {long.get(word.lower(), word.lower()) for word in comma_list(text)}
    if "all" in found:
        return {*SHORT}
    if unknown := found - {*SHORT, "down", "drain", "drained", "draining", "fail", "maint"}:
        raise Failure(f'Bad state string: "{min(unknown)}"', f"valid states: {','.join(SHORT)}")
    return found | ({"mixed"} if "allocated" in found else set())


def _layout(options: dict[str, str]) -> tuple[list[listing.Column], str]:
    chosen = [layout for names, layout in FORMATS.items() if options.keys() >= set(names)]
    default = chosen[0] if chosen else options.get("default", DEFAULT)
    return FIELDS.columns(options.get("format", default))
