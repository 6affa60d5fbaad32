"""The batch script: what is refused before it is submitted, and its #SBATCH lines."""

from __future__ import annotations

from course_lib.box.commands.shared.errors import Failure

MAGIC = b"#SBATCH"
WRAPPED = "#!/bin/sh\n# This script was created by sbatch --wrap.\n\n{command}\n"


def check(script: bytes) -> None:
    """Ends with Slurm's words on a text that cannot be a batch script."""
    if not script:
        raise Failure("Batch script is empty!")
    if not script.strip():
        raise Failure("Batch script contains only whitespace!")
    if not script.startswith(b"#!"):
        raise Failure(
            "This does not look like a batch script.  The first",
            "line must start with #! followed by the path to an interpreter.",
            "For instance: #!/bin/sh",
        )
    if b"\0" in script:
        raise Failure(
            "The Slurm controller does not allow scripts that",
            "contain a NULL character '\\0'.",
        )
    if b"\r\n" in script:
        raise Failure(
            "Batch script contains DOS line breaks (\\r\\n)",
            "instead of expected UNIX line breaks (\\n).",
        )


def directives(script: bytes, file: str) -> list[list[str]]:
    """Words of each #SBATCH line up to the first line that is neither comment nor empty."""
    found = []
    for number, line in enumerate(script.split(b"\n"), start=1):
        if line.startswith(MAGIC):
            text = line[len(MAGIC) :].decode("utf-8", "surrogateescape")
            found.append(words(text, file, number))
        elif line.strip() and not line.lstrip().startswith(b"#"):
            break
    return [line for line in found if line]


def words(text: str, file: str, line_number: int) -> list[str]:
    """Splits like a shell with quotes and backslashes; an unquoted # begins a comment."""
    found: list[str] = []
    word: list[str] | None = None
    quote, escaped, word_ends = "", False, 0
    for place, letter in enumerate(text):
        if escaped and (quote or not letter.isspace()):
            word, escaped = [*(word or []), letter], False
        elif letter == "\\":
            escaped = True
        elif quote and letter == quote:
            quote = ""
        elif not quote and letter in "\"'":
            quote, word = letter, word or []
        elif not quote and letter.isspace():
            escaped = False
            if word == []:  # with an empty word in quotes Slurm stops reading the line
                return found
            if word is not None:
                found.append("".join(word))
                word, word_ends = None, place
        elif not quote and letter == "#":
            break
        else:
            word = [*(word or []), letter]
    if quote:
        left = text[word_ends:].lstrip()
        raise Failure(f"{file}: line {line_number}: Unmatched `{quote}` in [{left}]", fatal=True)
    if word:
        found.append("".join(word))
    return found
