"""scontrol update: changes fields of jobs."""

from __future__ import annotations

import os
import sys

from course_lib.box import settings
from course_lib.box.commands.control import update_resources
from course_lib.box.commands.control.scontrol_call import ENDED, ScontrolCall, complain
from course_lib.box.commands.control.update_resources import NO_LONGER
from course_lib.box.commands.shared import advice, refusal
from course_lib.box.commands.shared import option_values as read
from course_lib.box.commands.shared.errors import Failure, Unsupported
from course_lib.box.processes import control
from course_lib.box.queue import rows
from course_lib.box.queue.records import FINAL_STATES, PENDING, RUNNING, Job
from course_lib.box.scheduling import dependency
from course_lib.box.settings import UNLIMITED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


def _time(job: Job, value: str, fields: dict[str, object]) -> str:
    sign = value[:1] if value[:1] in "+-" and value[:1] else ""
    try:
        found = settings.minutes(value.removeprefix(sign))
    except settings.SettingsError:
        print("scontrol: error: Invalid TimeLimit value", file=sys.stderr)
        raise Failure() from None
    minutes = UNLIMITED if found is None else found
    if sign and found is not None:
        minutes = max(job.time_limit_min + (found if sign == "+" else -found), 1)
    fields["time_limit_min"] = minutes
    return ""


def _text(field: str, waiting: bool = False) -> Callable[[Job, str, dict[str, object]], str]:
    def put(job: Job, value: str, fields: dict[str, object]) -> str:
        if waiting and job.state != PENDING:
            return NO_LONGER
        kind = Job.__annotations__[field]
        fields[field] = os.fsencode(value) if kind == "bytes" else value
        return ""

    return put


def _number(field: str) -> Callable[[Job, str, dict[str, object]], str]:
    def put(job: Job, value: str, fields: dict[str, object]) -> str:
        if field != "nice" and job.state != PENDING and field != "requeue":
            return NO_LONGER
        try:
            fields[field] = int(value)
        except ValueError:
            return f"Invalid {field} value {value}"
        return ""

    return put


def _priority(job: Job, value: str, fields: dict[str, object]) -> str:
    if not value.isdigit():
        print(f"scontrol: error: Invalid Priority value: {value}", file=sys.stderr)
        raise Failure()
    if job.hold:
        return "Job is in held state, pending scheduler release"
    fields["priority"] = int(value)
    if value == "0":
        fields["hold"] = "user" if os.getuid() else "admin"
    return ""


def _nodes(job: Job, value: str, fields: dict[str, object]) -> str:
    if job.state != PENDING:
        return "Requested operation not supported on this system"
    fields["nodes_min"], fields["nodes_max"] = read.node_counts(value)
    fields["nodes_shown"], fields["nodes_given"] = fields["nodes_min"], 0
    fields["tasks"] = job.tasks if job.tasks_given else fields["nodes_min"]
    return ""


def _begin(job: Job, value: str, fields: dict[str, object]) -> str:
    from course_lib.box.commands.shared import dates

    try:
        fields["begin_s"] = dates.parse(value)
    except dates.TimeError as error:
        place = error.args[1] if len(error.args) > 1 else 0
        print(
            f"Invalid time specification (pos={place}): {value}\nNo changes specified",
            file=sys.stderr,
        )
        raise Failure() from None
    return "" if job.state == PENDING else NO_LONGER


def _host_names(field: str) -> Callable[[Job, str, dict[str, object]], str]:
    def put(job: Job, value: str, fields: dict[str, object]) -> str:
        fields[field] = read.hosts(value) if value else ""
        return "" if job.state == PENDING else NO_LONGER

    return put


def _throttle(job: Job, value: str, fields: dict[str, object]) -> str:
    if not value.isdigit():
        print(f"scontrol: error: Invalid ArrayTaskThrottle value: {value}", file=sys.stderr)
        raise Failure()
    if not job.array_job_id:
        return "Requested operation not supported on this system"
    fields["array_most"] = int(value)
    return ""


def _partition(job: Job, value: str, fields: dict[str, object]) -> str:
    """A running job stays where it is, which may be said."""
    fields["partition"] = value
    return "" if job.state == PENDING or value == job.partition else NO_LONGER


def _devices(field: str) -> Callable[[Job, str, dict[str, object]], str]:
    def put(job: Job, value: str, fields: dict[str, object]) -> str:
        if job.state != PENDING:
            return NO_LONGER
        fields[field] = value.removeprefix("gres:").removeprefix("gpu:")
        return ""

    return put


CHANGES: dict[str, Callable[[Job, str, dict[str, object]], str]] = {
    **update_resources.CHANGES,
    "timelimit": _time,
    "jobname": _text("name"),
    "name": _text("name"),
    "priority": _priority,
    "nice": _number("nice"),
    "comment": _text("comment"),
    "partition": _partition,
    "account": _text("account", waiting=True),
    "qos": _text("qos"),
    "arraytaskthrottle": _throttle,
    "numnodes": _nodes,
    "reqnodes": _nodes,
    "numtasks": _number("tasks"),
    "tasks": _number("tasks"),
    "tresperjob": _devices("gpus"),
    "trespernode": _devices("gpus_per_node"),
    "dependency": _text("dependency", waiting=True),
    "starttime": _begin,
    "eligibletime": _begin,
    "reqnodelist": _host_names("want_nodes"),
    "excnodelist": _host_names("exclude_nodes"),
    "requeue": _number("requeue"),
    "gres": _text("gres", waiting=True),
    "features": _text("constraint_text", waiting=True),
    "workdir": _text("work_dir", waiting=True),
    "stdout": _text("stdout", waiting=True),
    "stderr": _text("stderr", waiting=True),
    "licenses": _text("licenses", waiting=True),
    "mailtype": _text("mail_type"),
    "mailuser": _text("mail_user"),
    "wckey": _text("wckey"),
    "reservationname": _text("reservation", waiting=True),
}


def update(call: ScontrolCall) -> int:
    words = call.words[1:]
    if not words:
        return complain("too few arguments for update keyword")
    if words[0].lower() in ("job", "jobid") and len(words) > 1:
        words = [f"JobId={words[1]}", *words[2:]]
    names = [word.partition("=")[0] for word in words]
    first = names[0].lower()
    if first in ("nodename", "partitionname", "reservationname", "stepid", "slurmctlddebug"):
        raise Unsupported(f"scontrol update {names[0]}", advice.NOTHING_TO_MANAGE)
    names_job = [place for place, name in enumerate(names) if name.lower() in ("jobid", "job")]
    if names_job and names_job[0]:  # `update timelimit=5 jobid=12` as well
        words.insert(0, words.pop(names_job[0]))
        first = "jobid"
    if "=" not in words[0] or not ("jobid".startswith(first) and first.startswith("job")):
        return complain(
            "No valid entity in update command\n"
            'Input line must include "NodeName", "PartitionName", "Reservation", "JobId", or'
            ' "SlurmctldDebug"'
        )
    if len(words) == 1:
        return complain("No changes specified")
    changes = [(_known(word), word.partition("=")[2]) for word in words[1:]]
    jobs = ScontrolCall(["update", words[0].partition("=")[2]], {})
    return jobs.each_job(lambda job: _apply(job, changes))


def _known(word: str) -> str:
    """Full name of the field that a word like `TimeLim=5` begins with."""
    name = word.partition("=")[0].lower()
    meant = [known for known in CHANGES if known.startswith(name)]
    if name not in CHANGES and len(meant) != 1:
        complain(f"Update of this parameter is not supported: {word}\nRequest aborted")
        raise Failure()
    return name if name in CHANGES else meant[0]


def _apply(job: Job, changes: list[tuple[str, str]]) -> str:
    if job.state in FINAL_STATES:
        return ENDED
    fields: dict[str, object] = {}
    for name, value in changes:
        trouble = CHANGES[name](job, value, fields)
        if trouble:
            return trouble
    if not fields:
        return ""
    if job.state == PENDING:
        known = {name: getattr(job, name) for name in Job.fields()}
        try:
            refusal.check_names(Job(**(known | fields)), settings.load())
            refusal.check_limits(Job(**(known | fields)), settings.load())
        except refusal.Refused as refused:
            return refused.why
    with rows.transaction() as db:
        if trouble := dependency.leads_back(db, job, str(fields.get("dependency", ""))):
            return trouble
        rows.change(db, job.id, **fields)
    if job.state == RUNNING:
        control.send(job.id, {"do": "reload"})
    return ""
