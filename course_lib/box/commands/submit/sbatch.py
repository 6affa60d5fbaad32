"""sbatch: read a script, record it as a job, say its number."""

from __future__ import annotations

import os
import sys

from course_lib.box.commands.shared import advice
from course_lib.box.commands.shared.errors import Failure, Unsupported
from course_lib.box.commands.submit import admission, batch_script, environment
from course_lib.box.commands.submit.option_sources import Gathered
from course_lib.box.dispatch import passes
from course_lib.box.queue import state

USAGE = "sbatch [options] script [arguments of the script]"


def run(arguments: list[str]) -> int:
    gathered = Gathered("sbatch", "b", "SBATCH_")
    pairs, words = gathered.syntax.parse(arguments)
    names = [name for name, _ in pairs]
    if "help" in names:
        from course_lib.box.commands import helptext

        print(helptext.of("sbatch", USAGE))
        return 0
    if ":" in words[:1]:
        raise Unsupported("several components of one job (:)", advice.SEVERAL_PARTS)
    if "wrap" in names and words:
        raise Failure("Script arguments not permitted with --wrap option")
    text, path = _read_script(dict(pairs).get("wrap"), words)
    batch_script.check(text)
    for line in batch_script.directives(text, path or "sbatch"):
        found, rest = gathered.syntax.parse(line)
        if rest and rest[0] in ("hetjob", "packjob"):
            raise Unsupported(rest[0], advice.SEVERAL_PARTS)
        if rest:
            raise Failure(f"Invalid directive found in batch script: {rest[0]}", code=255)
        gathered.apply(found, "script")
    gathered.apply_environment()
    gathered.apply(pairs, "command line")
    gathered.say_notes()
    return _submit(gathered, text, path, words)


def _read_script(wrapped: str | None, words: list[str]) -> tuple[bytes, str]:
    """Text of the script and its path; the path is empty for --wrap and standard input."""
    if wrapped is not None:
        text = batch_script.WRAPPED.format(command=wrapped)
        return text.encode("utf-8", "surrogateescape"), ""
    if not words:
        return sys.stdin.buffer.read(), ""
    path = _find(words[0])
    try:
        with open(path, "rb") as file:
            return file.read(), path
    except IsADirectoryError:
        return b"", path
    except OSError:
        raise Failure(f"Unable to open file {words[0]}") from None


def _find(name: str) -> str:
    """In the working folder first, then along PATH."""
    if name.startswith(("/", ".")) or os.path.exists(name):
        return name
    if "/" not in name:
        for folder in os.environ.get("PATH", "").split(":"):
            path = os.path.join(folder, name)
            if folder and os.path.isfile(path) and os.access(path, os.R_OK):
                return path
    return name


def _submit(gathered: Gathered, text: bytes, path: str, words: list[str]) -> int:
    given = gathered.given
    fields = {"name": _default_name(given, path), **gathered.fields}
    fields["script"] = text
    fields["argv"] = b"".join(os.fsencode(word) + b"\0" for word in words[1:])
    fields["command"] = os.fsencode(os.path.abspath(path)) if path else b""
    fields["environment"] = environment.environment(given)
    job = admission.complete(fields, gathered)
    if "test-only" in given:
        return admission.test_only(job, "sbatch")
    job_id = state.submit(job)
    os.closerange(3, 1024)  # a lock or pipe of the caller must not live on in what starts now
    passes.begin_new_job()
    if "quiet" not in given:  # which Slurm heeds with --parsable too
        print(job_id if "parsable" in given else f"Submitted batch job {job_id}")
    if "wait" in given:
        from course_lib.box.commands.submit import wait

        sys.stdout.flush()
        return wait.for_end(job_id)
    return 0


def _default_name(given: dict[str, str], path: str) -> str:
    if "wrap" in given:
        return "wrap"
    return os.path.basename(path) if path else "sbatch"
