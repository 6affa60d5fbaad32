"""squeue: the jobs that wait, run or end."""

from __future__ import annotations

import os
import sys
import time

from course_lib.box.commands import selection
from course_lib.box.commands.failure import Failure
from course_lib.box.commands.getopt import Syntax, UsageError
from course_lib.box.formats import clock, columns
from course_lib.box.formats.jobfields import FIELDS, LETTERS
from course_lib.box.queue import heal

USAGE = "squeue [options]"
SYNTAX = Syntax(
    "squeue",
    "account,A= all,a array,r array-unique clusters,M= federation Format,O= format,o= help hide"
    " iterate,i= jobs,j? json licenses,L= local long,l me name,n= noconvert nodelist,w="
    " noheader,h partition,p= qos,q= reservation,R= sibling sort,S= start states,t= steps,s?"
    " usage user,u= users= verbose,v version,V yaml",
)
DEFAULT = "%.18i %.9P %.8j %.8u %.2t %.10M %.6D %R"
LONG = "%.18i %.9P %.8j %.8u %.8T %.10M %.9l %.6D %R"
START = "%.18i %.9P %.8j %.8u %.2t %.19S %.6D %20Y %R"


def run(arguments: list[str]) -> int:
    pairs, words = SYNTAX.parse(arguments)
    options = {name: value or "" for name, value in pairs}
    for name in ("jobs", "steps"):  # `-j 1` as well as `-j1`, though the value is optional
        if words and options.get(name) == "":
            options[name] = words.pop(0)
    if words:
        print(f"Usage: {USAGE}")
        raise Failure(f"Unrecognized option: {words[0]}")
    for name in ("json", "yaml", "clusters", "federation", "sibling"):
        if name in options:
            raise Failure(f"the box does not do --{name}; a real Slurm does.")
    heal.heal()
    wait_s = _interval(options)
    while True:
        code = _show(options)
        if not wait_s:
            return code
        sys.stdout.flush()
        time.sleep(wait_s)
        print()


def _interval(options: dict[str, str]) -> int:
    text = options.get("iterate", "")
    if "iterate" in options and (not text.isdigit() or int(text) == 0):
        raise Failure(f"--iterate={text}")
    return int(text or 0)


def _show(options: dict[str, str]) -> int:
    if "steps" in options:
        raise UsageError("squeue: steps")
    choice = selection.of_squeue(options)
    views = choice.views()
    prefix, cols = _columns(options)
    if "long" in options or "iterate" in options:
        print(clock.now_line())
    out = columns.lines(prefix, cols, FIELDS, views, "noheader" not in options)
    sys.stdout.write("".join(line + "\n" for line in out))
    return 0


def _columns(options: dict[str, str]) -> tuple[str, list[columns.Column]]:
    try:
        if "Format" in options:
            names = {name: name for name in FIELDS}
            return "", columns.parse_long(options["Format"], names)
        default = START if "start" in options else LONG if "long" in options else DEFAULT
        text = options.get("format") or os.environ.get("SQUEUE_FORMAT") or default
        return columns.parse_short(text, LETTERS)
    except columns.FormatError as error:
        raise Failure(f"Invalid job format specification: {error}") from None
