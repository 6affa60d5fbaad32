"""What srun itself says of the nodes that a step asks for, before its job is asked."""

from __future__ import annotations

from typing import Any

from course_lib.box import settings
from course_lib.box.queue.records import Allocation
from course_lib.box.scheduling.step_devices import Impossible
from course_lib.box.steps.step_request import Options


def check(options: Options, request: dict[str, Any], parts: list[Allocation], job_id: int) -> None:
    """Raises Impossible with the lines of srun. `parts`: of the job."""
    held, passed_over = len(parts), options.relative or 0
    asked = min(options.nodes_min or 0, request["nodes"]) if options.jobid is not None else 0
    wanted, excluded = set(request["wanted"]), set(request["excluded"])
    if options.relative is not None and (wanted or excluded):
        raise Impossible("-r,--relative not allowed with -w,--nodelist or -x,--exclude.")
    if both := sorted(wanted & excluded):
        raise Impossible(
            f"Requested node {both[0]} is also in the excluded list.\nJob not submitted."
        )
    if asked > held > 0:
        raise Impossible(f"Only allocated {held} nodes asked for {asked}")
    if passed_over and held and passed_over + max(asked, 1) > held:
        option = "--nodes" if options.nodes_given_here else "SLURM_JOB_NUM_NODES"
        raise Impossible(
            f"--relative and {option} option incompatible with count of allocated nodes"
            f" ({passed_over}+{max(asked, 1)}>{held})"
        )
    if excluded and held:
        _check_excluded(excluded, request["nodes_least"], parts, job_id)


def _check_excluded(excluded: set[str], least: int, parts: list[Allocation], job_id: int) -> None:
    if excluded - {*settings.load().node_names}:
        raise Impossible(f"Unable to create step for job {job_id}: Invalid node name specified")
    left = len([part for part in parts if part.node not in excluded])
    if not left:
        raise Impossible("Hostlist is empty!  Can't run job.")
    if least > left:
        only = f"Only allocated {left} nodes asked for {least}"
        raise Impossible(f"Are required nodes explicitly excluded?\n{only}")
