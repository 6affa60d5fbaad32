"""What `scontrol show config` says: the settings that a job or a script may ask for."""

from __future__ import annotations

import os
import time

from course_lib.box import settings

FIXED = {
    "AccountingStorageType": "accounting_storage/box",
    "AuthType": "auth/none",
    "EnforcePartLimits": "ALL",
    "DefMemPerNode": "UNLIMITED",
    "FirstJobId": "",
    "GresTypes": "gpu",
    "JobAcctGatherType": "jobacct_gather/linux",
    "JobRequeue": "1",
    "LaunchParameters": "(null)",
    "MaxArraySize": "1001",
    "MpiDefault": "none",
    "OverTimeLimit": "0 min",
    "PriorityType": "priority/basic",
    "ProctrackType": "proctrack/linuxproc",
    "ReturnToService": "2",
    "SchedulerType": "sched/builtin",
    "SelectType": "select/cons_tres",
    "SelectTypeParameters": "CR_CORE",
    "SlurmctldPort": "0",
    "SwitchType": "switch/none",
    "TaskPlugin": "task/none",
    "TopologyPlugin": "topology/none",
}


def text(box: settings.Settings) -> str:
    host = os.uname().nodename.partition(".")[0]
    now = time.strftime("%Y-%m-%dT%H:%M:%S")
    values = {
        **FIXED,
        "ClusterName": box.cluster,
        "FirstJobId": str(box.first_job_id),
        "KillWait": f"{box.kill_wait_s:g} sec",
        "MinJobAge": f"{box.job_shown_s:g} sec",
        "SLURM_CONF": f"{settings.state_home()}/{settings.SETTINGS_FILE}",
        "SLURM_VERSION": "22.05.8",
        "SlurmctldHost[0]": host,
        "StateSaveLocation": settings.state_home(),
    }
    lines = [f"Configuration data as of {now}"]
    lines += [f"{name:<23} = {values[name]}" for name in sorted(values, key=str.lower)]
    return "\n".join([*lines, "", f"Slurmctld(primary) at {host} is UP"])
