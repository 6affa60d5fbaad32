"""The paragraphs of `scontrol show node` and `show partition`."""

from __future__ import annotations

import platform

from course_lib.box import hostlist, settings
from course_lib.box.formats import times
from course_lib.box.formats.node_view import NodeView, boot_s, free_mib, load
from course_lib.box.formats.scontrol_job import SEPARATOR
from course_lib.box.nodes import device_pace


def node_paragraph(view: NodeView, details: bool) -> str:
    box = view.box
    machine = platform.uname()
    used, held = view.cpus_used, len(view.devices_used)
    lines = [
        f"NodeName={view.name} Arch={machine.machine} CoresPerSocket={box.cpus_per_node} ",
        f"CPUAlloc={used} CPUEfctv={box.cpus_per_node} CPUTot={box.cpus_per_node} CPULoad={load()}",
        f"AvailableFeatures={view.features}",
        f"ActiveFeatures={view.features}",
        f"Gres={view.gres}",
    ]
    if details:
        lines += ["GresDrain=N/A", f"GresUsed=gpu:{held}"]
    booted = times.stamp(boot_s(), "None")
    lines += [
        f"NodeAddr={view.name} NodeHostName={view.name} Version=22.05.8",
        f"OS={machine.system} {machine.release} {machine.version} ",
        f"RealMemory={box.memory_per_node_mib} AllocMem=0 FreeMem={free_mib()} Sockets=1 Boards=1",
        f"State={view.full_state.upper()} ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A"
        " MCS_label=N/A",
        f"Partitions={','.join(box.partition_names)} ",
        f"BootTime={booted} SlurmdStartTime={booted}",
        f"LastBusyTime={times.stamp(view.busy_s, 'Unknown')}",
        *_resources(view),
        "CapWatts=n/a",
        "CurrentWatts=0 AveWatts=0",
        "ExtSensorsJoules=n/s ExtSensorsWatts=0 ExtSensorsTemp=n/s",
        *_comment(box),
    ]
    return SEPARATOR.join(lines)


def _comment(box: settings.Settings) -> list[str]:
    """Slurm has such a line where an administrator wrote one."""
    pace = device_pace.of_slot(box)
    if pace.factor == 1 and not pace.unused:
        return []
    unused = f"; {pace.unused}" if pace.unused else ""
    return [f"Comment=device_pace={pace.factor:g} ({pace.why}{unused})"]


def _resources(view: NodeView) -> list[str]:
    box, used, held = view.box, view.cpus_used, len(view.devices_used)
    has = f"cpu={box.cpus_per_node},mem={box.memory_per_node_mib}M,billing={box.cpus_per_node}"
    devices = f",gres/gpu={box.devices_per_node}" if box.devices_per_node else ""
    taken = f"cpu={used}" + (f",gres/gpu={held}" if held else "") if used else ""
    return [f"CfgTRES={has}{devices}", f"AllocTRES={taken}"]


def partition_paragraph(name: str, box: settings.Settings) -> str:
    cpus = box.nodes * box.cpus_per_node
    devices = box.slots
    tres = f"cpu={cpus},mem={box.nodes * box.memory_per_node_mib}M,node={box.nodes},billing={cpus}"
    default = "YES" if name == box.partition_names[0] else "NO"
    limit = times.limit_full(settings.UNLIMITED if box.max_time_min is None else box.max_time_min)
    usual = settings.minutes(box.default_time)
    return SEPARATOR.join(
        [
            f"PartitionName={name}",
            "AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL",
            f"AllocNodes=ALL Default={default} QoS=N/A",
            f"DefaultTime={times.limit_full(usual) if usual else 'NONE'} DisableRootJobs=NO"
            " ExclusiveUser=NO GraceTime=0 Hidden=NO",
            f"MaxNodes=UNLIMITED MaxTime={limit} MinNodes=0 LLN=NO MaxCPUsPerNode=UNLIMITED",
            f"Nodes={hostlist.compress(box.node_names)}",
            "PriorityJobFactor=1 PriorityTier=1 RootOnly=NO ReqResv=NO OverSubscribe=NO",
            "OverTimeLimit=NONE PreemptMode=OFF",
            f"State=UP TotalCPUs={cpus} TotalNodes={box.nodes} SelectTypeParameters=NONE",
            "JobDefaults=(null)",
            "DefMemPerNode=UNLIMITED MaxMemPerNode=UNLIMITED",
            f"TRES={tres}" + (f",gres/gpu={devices}" if devices else ""),
        ]
    )
