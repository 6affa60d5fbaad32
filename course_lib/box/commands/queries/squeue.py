"""squeue: the jobs that wait, run or end."""

from __future__ import annotations

import os
import sys
import time

from course_lib.box.commands.shared import advice, job_filter
from course_lib.box.commands.shared.errors import Failure, Unsupported
from course_lib.box.commands.shared.getopt import Syntax, from_environment
from course_lib.box.dispatch import upkeep
from course_lib.box.formats import columns, job_view, squeue_fields, times
from course_lib.box.queue import lost_state, rows, store
from course_lib.box.queue.records import PENDING

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from course_lib.box.formats.job_view import JobView
    from course_lib.box.formats.squeue_step_fields import StepView

    Fields = dict[str, tuple[str, Callable[[Any], str]]]

USAGE = "squeue [options]"
SYNTAX = Syntax(
    "squeue",
    "account,A= all,a array,r array-unique clusters,M= federation Format,O= format,o= help hide"
    " iterate,i= jobs,j? json licenses,L= local long,l me name,n= noconvert node= nodes="
    " nodelist,w= noheader,h partition,p= priority,P qos,q= reservation,R= sibling sort,S= start"
    " states,t= steps,s? usage user,u= users= verbose,v version,V yaml",
)
DEFAULT = "%.18i %.9P %.8j %.8u %.2t %.10M %.6D %R"
LONG = "%.18i %.9P %.8j %.8u %.8T %.10M %.9l %.6D %R"
START = "%.18i %.9P %.8j %.8u %.2t %.19S %.6D %20Y %R"
STEPS = "%.15i %.8j %.9P %.8u %.9M %N"


def run(arguments: list[str]) -> int:
    pairs, words = SYNTAX.parse(arguments)
    options = from_environment(
        "SQUEUE_", ("account", "licenses", "names", "partition", "qos", "states", "users")
    )
    options |= {name: value or "" for name, value in pairs}
    for name in ("jobs", "steps"):  # `-j 1` as well as `-j1`, though the value is optional
        if words and options.get(name) == "":
            options[name] = words.pop(0)
    if words:
        print(f"Usage: {USAGE}")
        raise Failure(f"Unrecognized option: {words[0]}")
    for name in ("json", "yaml", "clusters", "federation", "sibling"):
        if name in options:
            raise Unsupported(f"--{name}", advice.of_option(name))
    if {"format", "long"} <= {name for name, _ in pairs}:
        raise Failure(
            "Options -o(--format) and -l(--long) are mutually exclusive."
            " Please remove one and retry.",
            fatal=True,
        )
    for name in ("node", "nodes"):
        options["nodelist"] = options.get(name, options.get("nodelist", ""))
    wait_s = _interval(options)
    while True:
        upkeep.try_to_bring_up_to_date()
        code = _show(options)
        if not wait_s:
            return code
        sys.stdout.flush()
        time.sleep(wait_s)
        print()


def _tell_of_loss() -> None:
    """An empty queue would say that all is well."""
    with rows.snapshot() as db:
        told = lost_state.loss_told(db)
    if told:
        store.tell(f"squeue: note: {told}.")


def _interval(options: dict[str, str]) -> int:
    text = options.get("iterate", "")
    if "iterate" in options and (not text.isdigit() or int(text) == 0):
        raise Failure(f"--iterate={text}\n")
    return int(text or 0)


def _show(options: dict[str, str]) -> int:
    _tell_of_loss()
    choice = job_filter.of_squeue(options)
    steps = "steps" in options
    layout, fields = _layout(options)
    jobs = choice.views()
    if "start" in options and not steps:
        jobs = [view for view in jobs if view.job.state == PENDING]
    if not steps and ("start" in options or {"starttime", "endtime"} & layout.keys()):
        with rows.snapshot() as db:
            job_view.estimate_starts(jobs, db)
    if "start" in options and not options.get("sort"):
        jobs.sort(key=lambda view: view.estimated_start_s or view.job.begin_s or float("inf"))
    views: list[JobView] | list[StepView] = _one_line_each(jobs, options)
    if choice.ids and len(choice.ids) == 1 and not choice.known:
        print("slurm_load_jobs error: Invalid job id specified", file=sys.stderr)
        return 1
    if steps:
        from course_lib.box.formats import squeue_step_fields

        views = squeue_step_fields.views(jobs, options["steps"])
    if {"long", "iterate"} & options.keys() and "noheader" not in options:
        print(times.now_line())
    for name in layout.unknown:
        what = "job step" if steps else "job"
        print(f"squeue: error: Invalid {what} format specification: {name}", file=sys.stderr)
    out = layout.lines(fields, [] if choice.bad_sort else views, "noheader" not in options)
    sys.stdout.write("".join(line + "\n" for line in out))
    if choice.bad_sort:
        raise Failure(f"Invalid sort specification: {choice.bad_sort}")
    return 0


def _one_line_each(views: list[JobView], options: dict[str, str]) -> list[JobView]:
    """Tasks of an array that wait are one line, or with -r a line each."""
    if not any(view.job.array_job_id for view in views):
        return views
    from course_lib.box.formats import array_views

    apart = "array" in options or _is_set("SQUEUE_ARRAY")
    return array_views.apart(views) if apart else array_views.together(views)


def _is_set(variable: str) -> bool:
    return variable in os.environ


def _layout(options: dict[str, str]) -> tuple[columns.Columns, Fields]:
    """The columns, and the table that they are looked up in."""
    fields: Fields
    if "steps" in options:
        from course_lib.box.formats import squeue_step_fields

        fields, letters = squeue_step_fields.FIELDS, squeue_step_fields.LETTERS
    else:
        fields, letters = squeue_fields.FIELDS, squeue_fields.LETTERS
    if "Format" not in options and "format" not in options and "SQUEUE_FORMAT2" in os.environ:
        options = {**options, "Format": os.environ["SQUEUE_FORMAT2"]}
    if "Format" in options:
        if "steps" not in options:
            from course_lib.box.formats import squeue_long_fields

            fields = {**fields, **squeue_long_fields.FIELDS}
            for item in options["Format"].lower().split(","):
                if (name := item.partition(":")[0]) in squeue_long_fields.REFUSED.split():
                    raise Unsupported(f"the field {name} of squeue", advice.GENERAL)
        return columns.parse_long(options["Format"], fields), fields
    text = options.get("format")
    if text is None:
        text = os.environ.get("SQUEUE_FORMAT") or _default(options)
    return columns.parse_short(text, letters), fields


def _default(options: dict[str, str]) -> str:
    for name, text in (("steps", STEPS), ("start", START), ("long", LONG)):
        if name in options:
            return text
    return DEFAULT
