"""Widths and columns of -o and -O."""

from __future__ import annotations

from course_lib.box.formats import columns


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
