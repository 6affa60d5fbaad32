"""sinfo: partitions, and the nodes in them by state."""

from __future__ import annotations

import os
import sys
import time

from course_lib.box import hostlist, settings
from course_lib.box.commands.shared import advice, job_filter
from course_lib.box.commands.shared.errors import Failure, Unsupported
from course_lib.box.commands.shared.getopt import Syntax, from_environment
from course_lib.box.dispatch import upkeep
from course_lib.box.formats import columns, node_view, times
from course_lib.box.formats.node_view import ORDER, SHORT, NodeView
from course_lib.box.formats.sinfo_fields import FIELDS, LETTERS, PER_NODE, PER_STATE, Group
from course_lib.box.queue import rows

USAGE = "sinfo [options]"
SYNTAX = Syntax(
    "sinfo",
    "all,a clusters,M= dead,d exact,e federation Format,O= format,o= help hide iterate,i= json"
    " list-reasons,R local long,l Node,N nodes,n= noconvert noheader,h partition,p= reservation,T"
    " responding,r sort,S= states,t= summarize,s usage verbose,v version,V yaml future,F",
)
VALID_STATES = (
    "unknown,down,idle,allocated,?,mixed,future,drain,drained,draining,no_respond,reserved,"
    "perfctrs,cloud,completing,powering_down,powered_down,power_down,powering_up,fail,maint,"
    "reboot,reboot^,unknown"
)
DEFAULT = "%9P %.5a %.10l %.6D %.6t %N"
FORMATS = {
    (): DEFAULT,
    ("long",): "%9P %.5a %.10l %.10s %.4r %.8h %.10g %.6D %.11T %N",
    ("Node",): "%#N %.6D %.#P %6t",
    ("Node", "long"): "%#N %.6D %.#P %.11T %4c %.8z %.6m %.8d %.6w %.8f %20E",
    ("summarize",): "%9P %.5a %.10l  %.15F %N",
    ("list-reasons",): "%20E %9u %19H %N",
    ("list-reasons", "long"): "%20E %12U %19H %6t %N",
}


def run(arguments: list[str]) -> int:
    pairs, _ = SYNTAX.parse(arguments)
    options = from_environment("SINFO_", ("partition", "sort"))
    options |= {name: value or "" for name, value in pairs}
    for name in ("json", "yaml", "clusters", "federation"):
        if name in options:
            raise Unsupported(f"--{name}", advice.of_option(name))
    text = options.get("iterate", "0")
    if "iterate" in options and (not text.isdigit() or int(text) == 0):
        raise Failure(f"Error: invalid entry for --iterate={text}")
    upkeep.try_to_bring_up_to_date()
    _say_if_flat()
    while True:
        _show(options)
        if not int(text):
            return 0
        sys.stdout.flush()
        time.sleep(int(text))
        print()


def _say_if_flat() -> None:
    """On standard error, so that what is read from sinfo stays what a real one prints."""
    from course_lib.box.nodes import probe

    mode, why = probe.describe()
    if mode == probe.FLAT:
        print(f"sinfo: note: flat mode: all nodes share the network of this machine: {why}",
              file=sys.stderr)  # fmt: skip


def _show(options: dict[str, str]) -> None:
    if "reservation" in options:
        print("No reservations in the system")
        return
    if {"long", "iterate"} & options.keys() and "noheader" not in options:
        print(times.now_line())
    box = settings.load()
    wanted = set(hostlist.expand(options.get("nodes", "")))
    states = _states(options.get("states", ""))
    with rows.snapshot() as db:
        nodes = node_view.views(db, box)
    nodes = [node for node in nodes if not wanted or node.name in wanted]
    nodes = [node for node in nodes if not states or {node.state, node.load_state} & states]
    none_left = bool(states) and not nodes
    if "dead" in options or "list-reasons" in options:
        nodes = []  # no node of the box is ever down
    partitions = job_filter.words(options.get("partition", ""))
    chosen = [name for name in box.partition_names if not partitions or name in partitions]
    layout = _layout(options, box, nodes)
    by_node = "Node" in options or bool(PER_NODE & layout.keys())
    by_state = bool(PER_STATE & layout.keys())
    groups = _groups(chosen, nodes, box, by_node, by_state)
    if "list-reasons" in options or "Node" in options or (none_left and options.get("format")):
        groups = [group for group in groups if group.nodes]
    if "Node" in options:
        groups = sorted(groups, key=lambda group: hostlist.natural(group.nodes[0].name))
    groups = _sorted(groups, options.get("sort", ""))
    lines = layout.lines(FIELDS, groups, "noheader" not in options)
    sys.stdout.write("".join(line + "\n" for line in lines))


def _sorted(groups: list[Group], sort: str) -> list[Group]:
    """By the letters of -o that nodes differ in, the last one first, as squeue does."""
    keys = {
        "N": lambda group: [hostlist.natural(node.name) for node in group.nodes],
        "n": lambda group: [hostlist.natural(node.name) for node in group.nodes],
        "P": lambda group: group.partition,
        "R": lambda group: group.partition,
        "t": lambda group: [ORDER.index(node.state) for node in group.nodes[:1]],
        "T": lambda group: [ORDER.index(node.state) for node in group.nodes[:1]],
        "D": lambda group: len(group.nodes),
    }
    for field in reversed(sort.split(",")):
        if (letter := field.lstrip("+-#")) in keys:
            groups = sorted(groups, key=keys[letter], reverse=field.startswith("-"))
    return groups


def _groups(
    partitions: list[str], nodes: list[NodeView], box: settings.Settings, node: bool, state: bool
) -> list[Group]:
    found = []
    for partition in partitions:
        if node:
            found += [Group(partition, [view], box) for view in nodes]
        elif state and nodes:
            for name in ORDER:
                alike = [view for view in nodes if view.state == name]
                if alike:
                    found.append(Group(partition, alike, box))
        else:
            found.append(Group(partition, nodes, box))
    return found


def _states(text: str) -> set[str]:
    found = set()
    long = {short: name for name, short in SHORT.items()}
    known = {*SHORT, *long, *VALID_STATES.split(",")}
    for word in job_filter.words(text):
        lower = word.lower()
        near = [name for name in sorted(known) if name.startswith(lower)]
        if not near and lower != "all":
            raise Failure(f'Bad state string: "{word}"', f"valid states: {VALID_STATES}")
        if near:
            name = lower if lower in known else near[0]
            found.add(long.get(name, name))
    if "allocated" in found:
        found.add("mixed")  # which has something allocated too
    return set() if "all" in text.lower().split(",") else found


def _layout(
    options: dict[str, str], box: settings.Settings, nodes: list[NodeView]
) -> columns.Columns:
    if "Format" in options:
        layout = columns.parse_long(options["Format"], FIELDS)
        for name in layout.unknown:
            print(f"sinfo: error: Invalid job format specification: {name}", file=sys.stderr)
        return layout
    text = options.get("format")
    if text is None:
        known = ("list-reasons", "Node", "summarize", "long")
        switches = tuple(name for name in known if name in options)
        text = FORMATS.get(switches) or FORMATS.get(switches[:1]) or DEFAULT
        if not switches:
            text = os.environ.get("SINFO_FORMAT", text)
    layout = columns.parse_short(_sized(text, box, nodes), LETTERS)
    for name in layout.unknown:
        print(f"Invalid node format specification: {name}", file=sys.stderr)
    return layout


def _sized(text: str, box: settings.Settings, nodes: list[NodeView]) -> str:
    """`%#N` is as wide as the longest name, and as the word above it."""
    node_width = max([len(node.name) for node in nodes] + [9])
    partition_width = max([len(name) + 1 for name in box.partition_names] + [len("PARTITION")])
    return text.replace("%#N", f"%{node_width}N").replace("%.#P", f"%.{partition_width}P")
