"""The sbatch command: read a script, record it as a job and print its number."""

from __future__ import annotations

import os
import sys

from course_lib.box.commands.command_line import Failure, Unsupported
from course_lib.box.commands.submit import admission
from course_lib.box.commands.submit.options import Gathered, job_environment
from course_lib.box.dispatch import upkeep
from course_lib.box.queue import state

SEVERAL_PARTS = "Submit the parts as jobs of their own."
USAGE = "sbatch [options] script [arguments of the script]"


def run(arguments: list[str]) -> int:
    gathered = Gathered("sbatch", "b", "SBATCH_")
    pairs, words = gathered.syntax.parse(arguments)
    Gathered("sbatch", "b", "SBATCH_").apply(pairs, "command line")  # before a script is awaited
    names = [name for name, _ in pairs]
    if ":" in words[:1]:
        raise Unsupported("several components of one job (:)", SEVERAL_PARTS)
    if "wrap" in names and words:
        raise Failure("Script arguments not permitted with --wrap option")
    text, path = _read_script(dict(pairs).get("wrap"), words)
    check(text)
    for line in directives(text, path or "sbatch"):
        found, rest = gathered.syntax.parse(line)
        if rest and rest[0] in ("hetjob", "packjob"):
            raise Unsupported(rest[0], SEVERAL_PARTS)
        gathered.apply(found, "script")
        if rest:
            raise Failure(f"Invalid directive found in batch script: {rest[0]}", code=255)
    gathered.apply_environment()
    gathered.apply(pairs, "command line")
    gathered.say_notes()
    return _submit(gathered, text, path, words)


def _read_script(wrapped: str | None, words: list[str]) -> tuple[bytes, str]:
    """Return the script's text and path. The path is empty for --wrap and standard input."""
    if wrapped is not None:
        text = WRAPPED.format(command=wrapped)
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
    """Find a script in the working folder, then along PATH."""
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
    name = "wrap" if "wrap" in given else os.path.basename(path) if path else "sbatch"
    fields = {"name": name, **gathered.fields}
    fields["script"] = text
    fields["argv"] = b"".join(os.fsencode(word) + b"\0" for word in words[1:])
    fields["command"] = os.fsencode(os.path.abspath(path)) if path else b""
    fields["environment"] = job_environment(given)
    job = admission.complete(fields, gathered)
    if "test-only" in given:
        return admission.test_only(job, "sbatch")
    job_id = state.submit(job)
    os.closerange(3, 1024)  # the job must not keep a lock or pipe of the caller open
    upkeep.begin_new_job()
    if "quiet" not in given:  # Slurm applies --quiet with --parsable too
        print(job_id if "parsable" in given else f"Submitted batch job {job_id}")
    if "wait" in given:
        sys.stdout.flush()
        return admission.wait_for_end(job_id)
    return 0


MAGIC = b"#SBATCH"
WRAPPED = "#!/bin/sh\n# This script was created by sbatch --wrap.\n\n{command}\n"


def check(script: bytes) -> None:
    """Fail with Slurm's message if the text cannot be a batch script."""
    if not script.strip():
        raise Failure("Batch script is empty!")
    if not script.startswith(b"#!"):
        raise Failure(
            "This does not look like a batch script.  The first",
            "line must start with #! followed by the path to an interpreter.",
            "For instance: #!/bin/sh",
        )
    if b"\r\n" in script:
        raise Failure(
            "Batch script contains DOS line breaks (\\r\\n)",
            "instead of expected UNIX line breaks (\\n).",
        )


def directives(script: bytes, file: str) -> list[list[str]]:
    """Return the words of each #SBATCH line before the first command."""
    found = []
    for number, line in enumerate(script.split(b"\n"), start=1):
        if line.startswith(MAGIC):
            text = line[len(MAGIC) :].decode("utf-8", "surrogateescape")
            found.append(words(text, file, number))
        elif line.strip() and not line.lstrip().startswith(b"#"):
            break
    return [line for line in found if line]


def words(text: str, file: str, line_number: int) -> list[str]:
    """Split a line like a shell, with quotes and backslashes. An unquoted # begins a comment."""
    import shlex

    try:
        return shlex.split(text.rstrip("\\"), comments=True)
    except ValueError as error:
        raise Failure(f"{file}: line {line_number}: {error}", fatal=True) from None
