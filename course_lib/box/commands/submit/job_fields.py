"""From options to the fields of a job."""

from __future__ import annotations

import sys

from course_lib.box.commands.shared import option_values as read
from course_lib.box.commands.shared.errors import Failure

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

Fields = dict[str, object]


def _text(field: str) -> Callable[[str, Fields], None]:
    def put(value: str, fields: Fields) -> None:
        fields[field] = value

    return put


def _bytes(field: str) -> Callable[[str, Fields], None]:
    def put(value: str, fields: Fields) -> None:
        fields[field] = value.encode("utf-8", "surrogateescape")

    return put


def _count(field: str, option: str, least: int = 1) -> Callable[[str, Fields], None]:
    def put(value: str, fields: Fields) -> None:
        fields[field] = read.number(value, option, least)

    return put


def _memory(field: str, option: str) -> Callable[[str, Fields], None]:
    def put(value: str, fields: Fields) -> None:
        fields[field] = read.memory(value, option)

    return put


def _flag(field: str, meaning: object = 1) -> Callable[[str, Fields], None]:
    def put(_: str, fields: Fields) -> None:
        fields[field] = meaning

    return put


def _nodes(value: str, fields: Fields) -> None:
    fields["nodes_min"], fields["nodes_max"] = read.node_counts(value)
    fields["nodes_given"] = 1


def _ntasks(value: str, fields: Fields) -> None:
    fields["tasks"] = read.number(value, "ntasks")
    fields["tasks_given"] = 1


def _hosts(field: str) -> Callable[[str, Fields], None]:
    def put(value: str, fields: Fields) -> None:
        fields[field] = read.hosts(value)

    return put


def _array(value: str, fields: Fields) -> None:
    from course_lib.box.queue import arrays

    try:
        tasks, most = arrays.parse(value)
    except arrays.ArrayError:
        raise Failure("Batch job submission failed: Invalid job array specification") from None
    fields |= {"array_asked": value.strip("[] "), "array_waiting": tasks, "array_most": most}


def _exclusive(value: str, fields: Fields) -> None:
    if value not in ("", "user", "mcs"):
        raise read.invalid("exclusive")
    fields["exclusive"], fields["exclusive_to"] = 1, value


def _begin(value: str, fields: Fields) -> None:
    from course_lib.box.commands.shared import dates

    try:
        fields["begin_s"] = dates.parse(value)
    except dates.TimeError as error:
        place = error.args[1] if len(error.args) > 1 else 0
        print(f"Invalid time specification (pos={place}): {value}", file=sys.stderr)
        raise read.invalid("begin") from None


def _nice(value: str, fields: Fields) -> None:
    """100 where no number is given; a text that is none counts as 0, as in Slurm."""
    try:
        fields["nice"] = int(value) if value else 100
    except ValueError:
        fields["nice"] = 0


def _signal(value: str, fields: Fields) -> None:
    fields["signal_number"], fields["signal_before_s"], fields["signal_to"] = read.signal_wanted(
        value
    )


def _open_mode(value: str, fields: Fields) -> None:
    known = {"a": "append", "append": "append", "t": "truncate", "truncate": "truncate"}
    if value not in known:
        raise read.invalid("open-mode")
    fields["open_mode"] = known[value]


def _time(field: str, option: str) -> Callable[[str, Fields], None]:
    def put(value: str, fields: Fields) -> None:
        fields[field] = read.time_limit(value, option)

    return put


def _layout(value: str, fields: Fields) -> None:
    fields["distribution"] = read.layout(value)


def _mail(value: str, fields: Fields) -> None:
    fields["mail_type"] = read.mail_events(value)


def _no_more_than_a_number(option: str) -> Callable[[str, Fields], None]:
    def put(value: str, _: Fields) -> None:
        if not value.partition("@")[0].isdigit():
            raise Failure(f'Invalid numeric value "{value}" for --{option}.', code=1)

    return put


def _wait_all_nodes(value: str, fields: Fields) -> None:
    _no_more_than_a_number("wait-all-nodes")(value, fields)
    if int(value.partition("@")[0]) > 1:
        raise read.invalid("wait-all-nodes")


def _profile(value: str, _: Fields) -> None:
    known = ("all", "none", "energy", "task", "lustre", "network")
    if not any(name in value.lower() for name in known):  # one of several is enough for Slurm
        raise Failure(f"invalid --profile={value} option", code=read.BAD_OPTION_CODE)


def _accounting_frequency(value: str, _: Fields) -> None:
    for piece in value.lower().split(","):
        kind, _equals, seconds = piece.rpartition("=")
        if kind not in ("", "task", "energy", "network", "filesystem") or not seconds.isdigit():
            words = f"Invalid --acctg-freq specification: {value}"
            raise Failure(words, code=read.BAD_OPTION_CODE)


def _propagate(value: str, _: Fields) -> None:
    known = {"ALL", "NONE", "AS", "CORE", "CPU", "DATA", "FSIZE", "MEMLOCK", "NOFILE", "NPROC"}
    for name in value.upper().split(",") if value else []:
        if name.removeprefix("RLIMIT_") not in known | {"RSS", "STACK"}:
            raise Failure(f"Bad rlimit name: {value}", f"--propagate={value} is not valid.")


def _hint(value: str, fields: Fields) -> None:
    if value == "nomultithread":
        fields["threads_per_core"] = 1
    if value not in ("compute_bound", "memory_bound", "multithread", "nomultithread"):
        raise Failure(f'unrecognized --hint argument "{value}", see --hint=help')


def _gpu_bind(value: str, fields: Fields) -> None:
    from course_lib.box.scheduling import device_binding

    try:
        device_binding.check(value)
    except device_binding.InvalidBinding as error:
        raise Failure(*error.args, code=read.BAD_OPTION_CODE) from None


def _kill_on_invalid(value: str, fields: Fields) -> None:
    fields["kill_on_invalid_dependency"] = read.yes_or_no(value, "kill-on-invalid-dep")


SETTERS: dict[str, Callable[[str, Fields], None]] = {
    "account": _text("account"),
    "acctg-freq": _accounting_frequency,
    "array": _array,
    "begin": _begin,
    "chdir": _bytes("work_dir"),
    "comment": _text("comment"),
    "constraint": _text("constraint_text"),
    "cpus-per-gpu": _count("cpus_per_gpu", "cpus-per-gpu"),
    "cpus-per-task": _count("cpus_per_task", "cpus-per-task"),
    "dependency": _text("dependency"),
    "distribution": _layout,
    "error": _bytes("stderr"),
    "exclude": _hosts("exclude_nodes"),
    "exclusive": _exclusive,
    "gpus": _text("gpus"),
    "gpus-per-node": _text("gpus_per_node"),
    "gpus-per-task": _text("gpus_per_task"),
    "gpu-bind": _gpu_bind,
    "gres": _text("gres"),
    "hint": _hint,
    "hold": _flag("hold", "user"),
    "input": _bytes("stdin"),
    "job-name": _text("name"),
    "kill-on-invalid-dep": _kill_on_invalid,
    "licenses": _text("licenses"),
    "mail-type": _mail,
    "mail-user": _text("mail_user"),
    "mem": _memory("memory", "mem"),
    "mem-per-cpu": _memory("memory_per_cpu", "mem-per-cpu"),
    "mem-per-gpu": _memory("memory_per_gpu", "mem-per-gpu"),
    "mincpus": _count("cpus_min", "mincpus"),
    "nice": _nice,
    "no-requeue": _flag("requeue", 0),
    "nodelist": _hosts("want_nodes"),
    "nodes": _nodes,
    "ntasks": _ntasks,
    "ntasks-per-gpu": _count("tasks_per_gpu", "ntasks-per-gpu"),
    "ntasks-per-node": _count("tasks_per_node", "ntasks-per-node"),
    "open-mode": _open_mode,
    "output": _bytes("stdout"),
    "overcommit": _flag("overcommit"),
    "oversubscribe": _flag("oversubscribe"),
    "partition": _text("partition"),
    "priority": _count("priority", "priority", 0),
    "profile": _profile,
    "propagate": _propagate,
    "qos": _text("qos"),
    "requeue": _flag("requeue", 1),
    "reservation": _text("reservation"),
    "signal": _signal,
    "threads-per-core": _count("threads_per_core", "threads-per-core"),
    "time": _time("time_limit_min", "time"),
    "time-min": _time("time_least_min", "time-min"),
    "switches": _no_more_than_a_number("switches"),
    "wait-all-nodes": _wait_all_nodes,
    "wckey": _text("wckey"),
}
"""What an option does to the fields; the rest is done by the command itself."""
