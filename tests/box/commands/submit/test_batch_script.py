"""Batch scripts and their directives, read as Slurm 22.05.8 reads them."""

from __future__ import annotations

import pytest

from course_lib.box.commands.command_line import Failure
from course_lib.box.commands.submit import sbatch


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (' --comment="a\\"b" -N1', ['--comment=a"b', "-N1"]),
        ("a#b -N2", ["a"]),
        ('"a#b"', ["a#b"]),
        ('a"b c"d', ["ab cd"]),
        ("-N1 # why", ["-N1"]),
    ],
)
def test_a_directive_is_split_into_words(line, words):
    assert sbatch.words(line, "job.sh", 2) == words


def test_an_open_quote_is_refused():
    with pytest.raises(Failure) as caught:
        sbatch.words(' -N1 --comment="a b', "job.sh", 2)
    assert caught.value.lines == ("job.sh: line 2: No closing quotation",)


def test_directives_end_at_the_first_command():
    text = b"#!/bin/sh\n#SBATCH -N1\n #SBATCH -N2\n##SBATCH -N3\n\n# x\n"
    text += b"#SBATCH -n4\ntrue\n#SBATCH -n5\n"
    assert sbatch.directives(text, "x") == [["-N1"], ["-n4"]]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (b"", "Batch script is empty!"),
        (b" \n\t\n", "Batch script is empty!"),
        (b"echo hi\n", "This does not look like a batch script.  The first"),
        (b"#!/bin/sh\r\ntrue\r\n", "Batch script contains DOS line breaks (\\r\\n)"),
    ],
)
def test_what_is_no_batch_script_is_refused(text, complaint):
    with pytest.raises(Failure) as caught:
        sbatch.check(text)
    assert caught.value.lines[0] == complaint
