"""Whether nodes can be made on this machine: the whole way of a job with one node."""

from __future__ import annotations

import signal
import sys

from course_lib.box.nodes.namespaces import address
from course_lib.box.process_tree import guard, job_plan
from course_lib.box.processes import roles

LONGEST_S = 20


def make_nodes() -> None:
    """Ends the process, which is there for this alone; the reason of a failure is its last line."""
    signal.alarm(LONGEST_S)
    # Nothing is written, as the disk may be full: /etc/hosts is put over itself
    plan = job_plan.JobPlan(0, "/", "/etc", True, (("node1", address(1)),), 1.0)
    try:
        _, line, _ = guard.Guard(plan).start()
    except guard.NotStarted as error:
        sys.exit(str(error))
    except roles.Become as change:
        roles.play(change.role)
    line.close()
    sys.exit()
