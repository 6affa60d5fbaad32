"""sbcast: copies a file to the nodes of a job. Nodes of the box share one disk: one copy is all."""

from __future__ import annotations

import os
import shutil
import sys

from course_lib.box.commands.shared import job_words
from course_lib.box.commands.shared.errors import Failure
from course_lib.box.commands.shared.getopt import Syntax, UsageError
from course_lib.box.queue import state
from course_lib.box.queue.records import RUNNING

USAGE = "sbcast [options] source destination"
SYNTAX = Syntax(
    "sbcast",
    "compress,C? exclude= fanout,F= force,f help jobid,j= preserve,p send-libs? size,s= timeout,t="
    " treewidth= usage verbose,v version,V",
)
BAD_CODE = 255


def run(arguments: list[str]) -> int:
    pairs, words = SYNTAX.parse(arguments)
    options = {name: value or "" for name, value in pairs}
    if len(words) != 2:
        raise UsageError(f"Need two file names, have {len(words)} names")
    source, destination = words
    nodes = _nodes(options.get("jobid") or os.environ.get("SLURM_JOB_ID", ""))
    try:
        with open(source, "rb") as file:
            why = _copy(file.fileno(), source, destination, options)
    except OSError as error:
        raise Failure(f"Can't open `{source}`: {error.strerror}", code=BAD_CODE) from None
    if why is not None:
        for node in nodes:
            print(f"sbcast: error: REQUEST_FILE_BCAST({node}): {why.strerror}", file=sys.stderr)
        return why.errno or 1
    return 0


def _nodes(word: str) -> list[str]:
    if not word:
        raise Failure(
            "Need a job id to run this command.  Run from within a Slurm job or use the"
            " --jobid option."
        )
    meant = job_words.read(word.partition(".")[0])
    job = state.read_job(meant.job_id) if meant else None
    if job is None or job.state != RUNNING:
        raise Failure(f"Slurm job {word} lookup error: Invalid job id specified", code=BAD_CODE)
    return [part.node for part in state.read_allocation(job.id)]


def _copy(
    descriptor: int, source: str, destination: str, options: dict[str, str]
) -> OSError | None:
    """What is in the way. A relative name is one of the folder of the caller, as on a node."""
    flags = os.O_WRONLY | os.O_CREAT | (os.O_TRUNC if "force" in options else os.O_EXCL)
    mode = os.fstat(descriptor).st_mode & 0o777
    try:
        with (
            open(os.open(destination, flags, 0o600), "wb") as target,
            open(descriptor, "rb", closefd=False) as content,
        ):
            shutil.copyfileobj(content, target)
        os.chmod(destination, mode)
        if "preserve" in options:
            shutil.copystat(source, destination)
    except OSError as error:
        return error
    return None
