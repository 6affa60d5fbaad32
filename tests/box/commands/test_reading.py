"""Command lines, directives, times and widths, read as Slurm 22.05.8 was seen to read them."""

from __future__ import annotations

import time

import pytest

from course_lib.box.commands.shared import dates
from course_lib.box.commands.shared.errors import Failure
from course_lib.box.commands.shared.getopt import Syntax, UsageError
from course_lib.box.commands.submit import batch_script
from course_lib.box.formats import columns
from course_lib.box.settings import (
    LOWEST_LINK_GBIT,
    Settings,
    SettingsError,
    check,
    minutes,
    of_submission,
)

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


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (' --comment="a\\"b" -N1', ['--comment=a"b', "-N1"]),
        ("-J 'a\\'b'", ["-J", "a'b"]),
        ('"a\\\\b"', ["a\\b"]),
        ("a#b -N2", ["a"]),
        ('"a#b"', ["a#b"]),
        ('a"b c"d', ["ab cd"]),
        ("\"a b\"'c d'", ["a bc d"]),
        ("a\\nb", ["anb"]),
        ("a\\ b", ["a", "b"]),
        ('""', [""]),
        ("\\#b", ["#b"]),
        ("-N1 # why", ["-N1"]),
        ("a\\", ["a"]),
    ],
)
def test_a_directive_is_split_into_words(line, words):
    assert batch_script.words(line, "job.sh", 2) == words


def test_an_open_quote_is_shown_with_what_is_left_of_its_line():
    with pytest.raises(Failure) as caught:
        batch_script.words(' -N1 --comment="a b', "job.sh", 2)
    assert caught.value.lines == ('job.sh: line 2: Unmatched `"` in [ --comment="a b]',)
    assert caught.value.kind == "fatal"


def test_directives_end_at_the_first_command():
    text = b"#!/bin/sh\n#SBATCH -N1\n #SBATCH -N2\n##SBATCH -N3\n\n# x\n"
    text += b"#SBATCH -n4\ntrue\n#SBATCH -n5\n"
    assert batch_script.directives(text, "x") == [["-N1"], ["-n4"]]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (b"", "Batch script is empty!"),
        (b" \n\t\n", "Batch script contains only whitespace!"),
        (b"echo hi\n", "This does not look like a batch script.  The first"),
        (b"#!/bin/sh\nx\0y\n", "The Slurm controller does not allow scripts that"),
        (b"#!/bin/sh\r\ntrue\r\n", "Batch script contains DOS line breaks (\\r\\n)"),
    ],
)
def test_what_is_no_batch_script_is_refused(text, complaint):
    with pytest.raises(Failure) as caught:
        batch_script.check(text)
    assert caught.value.lines[0] == complaint


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("30", 30),
        ("10:30", 11),
        ("1:30:00", 90),
        ("1-2", 26 * 60),
        ("1-2:30", 26 * 60 + 30),
        ("2-12:30:01", 60 * 60 + 31),
        ("0", 0),
        ("UNLIMITED", None),
        ("infinite", None),
    ],
)
def test_a_time_limit_is_rounded_up_to_minutes(text, expected):
    assert minutes(text) == expected


@pytest.mark.parametrize("text", ["abc", "1:2:3:4", "", "1-", "-5", "1:x"])
def test_what_is_no_time_limit_is_refused(text):
    with pytest.raises(SettingsError):
        minutes(text)


def test_begin_times_are_understood():
    now_s = time.time()
    assert dates.parse("now+1hour") == pytest.approx(now_s + 3600, abs=5)
    assert dates.parse("now+60") == pytest.approx(now_s + 60, abs=5)
    assert dates.parse("now+2days") == pytest.approx(now_s + 172800, abs=5)
    assert time.localtime(dates.parse("2030-01-20T12:34:00"))[:5] == (2030, 1, 20, 12, 34)
    assert time.localtime(dates.parse("2030-01-20"))[:4] == (2030, 1, 20, 0)
    assert time.localtime(dates.parse("012030"))[:3] == (2030, 1, 20)
    assert time.localtime(dates.parse("01/20/30"))[:3] == (2030, 1, 20)
    assert time.localtime(dates.parse("teatime")).tm_hour == 16
    assert dates.parse("00:00") > now_s, "a time of day that is over means tomorrow"


@pytest.mark.parametrize("text", ["abc", "now+x", "2020-13-01", "25:00", "now*3", "1/2/3/4/5"])
def test_what_is_no_begin_time_is_refused(text):
    with pytest.raises(dates.TimeError):
        dates.parse(text)


def test_a_format_lays_out_cuts_and_keeps_what_it_does_not_know():
    fields = {"id": ("JOBID", lambda view: view[0]), "name": ("NAME", lambda view: view[1])}
    letters = {"i": "id", "j": "name"}
    layout = columns.parse_short("<%.5i|%4j>%!x", letters)
    assert layout.lines(fields, [("12", "a long name")], True) == [
        "<JOBID|NAME>%!x",
        "<   12|a lo>%!x",
    ]
    assert layout.unknown == ["!"]
    long = columns.parse_long("id:.4,name:6x,nosuch", fields)
    assert long.lines(fields, [("12", "a long name")], False) == ["  12a longx"]
    assert long.unknown == ["nosuch"]
    everything = columns.parse_short("%all", letters)
    assert everything.lines(fields, [("1", "n")], True) == ["JOBID|NAME", "1|n"]


def test_settings_name_the_value_that_is_wrong():
    with pytest.raises(SettingsError, match="link_gbit = 0 must be greater than 0"):
        check(Settings(link_gbit=0))
    with pytest.raises(SettingsError, match="nodes = '2' is not of type int"):
        check(Settings(nodes="2"))
    with pytest.raises(SettingsError, match="use one of auto, namespaces, flat"):
        check(Settings(mode="fast"))
    with pytest.raises(SettingsError, match=r"link_gbit = 1e-06; use 0\.00001"):
        check(Settings(link_gbit=1e-6))


def test_a_link_that_the_kernel_cannot_shape_is_refused_when_a_job_asks_for_it(monkeypatch):
    monkeypatch.setenv("COURSE_BOX_LINK_GBIT", "1e-6")
    with pytest.raises(SettingsError, match=r"COURSE_BOX_LINK_GBIT=1e-06; use 0\.00001"):
        of_submission(Settings())
    monkeypatch.setenv("COURSE_BOX_LINK_GBIT", "0.00001")
    assert of_submission(Settings())[0] == LOWEST_LINK_GBIT
