"""Formats of squeue and sinfo."""

from __future__ import annotations

import pytest

from course_lib.box.commands import listing
from course_lib.box.commands.command_line import Unsupported

FIELDS = listing.Fields(
    "squeue",
    [("id", "i", "JOBID", lambda view: view[0]), ("name", "j", "NAME", lambda view: view[1])],
)


def printed(layout, header: bool, capsys: pytest.CaptureFixture[str]) -> list[str]:
    FIELDS.print(layout, [("12", "a long name")], header)
    return capsys.readouterr().out.splitlines()


def test_a_format_lays_out_and_cuts(capsys):
    assert printed(FIELDS.columns("<%.5i|%4j>"), True, capsys) == ["<JOBID|NAME>", "<   12|a lo>"]


def test_a_field_that_is_not_there_is_refused_with_those_that_are():
    with pytest.raises(Unsupported, match=r"the field x of squeue; it supports i, j"):
        FIELDS.columns("%i %x")


def test_all_fields_at_once_are_refused_and_not_read_as_one_field_and_a_text():
    with pytest.raises(Unsupported, match=r"the field all of squeue; it supports i, j"):
        FIELDS.columns("%all")
