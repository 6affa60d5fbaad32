"""Command lines, read as getopt_long reads them."""

from __future__ import annotations

import pytest

from course_lib.box.commands.command_line import Syntax, UsageError

SYNTAX = Syntax(
    "sbatch", "nodes,N= nodelist,w= nodefile,F= no-kill,k? hold,H parsable", stop_at_word=True
)


@pytest.mark.parametrize(
    ("words", "options", "rest"),
    [
        (["-N2", "-H", "x", "-N3"], [("nodes", "2"), ("hold", None)], ["x", "-N3"]),
        (["--nodes", "2", "a b"], [("nodes", "2")], ["a b"]),
        (["--hol", "--", "-N2"], [("hold", None)], ["-N2"]),
        (["-HN", "2"], [("hold", None), ("nodes", "2")], []),
        (["-k", "off"], [("no-kill", None)], ["off"]),
        (["-koff"], [("no-kill", "off")], []),
        (["--nodes", "--hold"], [("nodes", "--hold")], []),
    ],
)
def test_options_are_read_as_getopt_does(words, options, rest):
    assert SYNTAX.parse(words) == (options, rest)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--nosuch=3"], "sbatch: unrecognized option '--nosuch=3'"),
        (["-Z"], "sbatch: invalid option -- 'Z'"),
        (["-N"], "sbatch: option requires an argument -- 'N'"),
        (["--nodes"], "sbatch: option '--nodes' requires an argument"),
        (["--parsable=1"], "sbatch: option '--parsable' doesn't allow an argument"),
        (
            ["--nod=1"],
            "sbatch: option '--nod=1' is ambiguous;"
            " possibilities: '--nodes' '--nodelist' '--nodefile'",
        ),
    ],
)
def test_a_wrong_option_is_refused_in_getopts_words(words, complaint):
    with pytest.raises(UsageError, match=None) as caught:
        SYNTAX.parse(words)
    assert str(caught.value) == complaint
