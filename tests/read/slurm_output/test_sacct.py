"""Every way to print the same jobs gives the same cells: one table of them, printed again."""

from __future__ import annotations

import json

import pytest

from course_lib import read

NAMES = "JobID JobName Partition Account AllocCPUS State ExitCode Elapsed ReqTRES NodeList"
FIELDS = NAMES.split()
JOBS = [
    ["12", "my job", "gpu", "acc", "4", "COMPLETED", "0:0", "00:01:02", "cpu=4,mem=8G", "n[1,2]"],
    ["12.batch", "batch", "", "acc", "4", "CANCELLED by 12", "0:15", "1-00:01:02", "", "n1"],
    ["13_[1-3]", "a|b", "gpu", "", "0", "PENDING", "0:0", "00:00:00", "cpu=1", "None assigned"],
    ["14", "", "gpu", "acc", "", "FAILED", "1:0", "00:00:09", "", ""],
]
EXPECTED = [dict(zip(FIELDS, job, strict=True)) for job in JOBS]
STATES = ["COMPLETED", "CANCELLED", "PENDING", "FAILED"]
MARKS = ["|", ",", ";", "\t", "^^^", ":::", "\x1f", " ", "~", "||", " | ", "#", "§"]


@pytest.mark.parametrize("end", [False, True], ids=["parsable2", "parsable"])
@pytest.mark.parametrize("mark", MARKS)
def test_delimited(mark, end):
    text = "".join(mark.join(row) + mark * end + "\n" for row in [FIELDS, *JOBS])
    found = read.slurm("$ sacct -p\n" + text)
    assert found.kind == "sacct"
    assert found.rows == EXPECTED
    assert found.table["state_name"].tolist() == STATES


@pytest.mark.parametrize("count", range(1, len(FIELDS) + 1))
@pytest.mark.parametrize("end", ["", "|"])
def test_any_choice_of_columns(count, end):
    for first in range(len(FIELDS) - count + 1):
        chosen = slice(first, first + count)
        names, *cells = [row[chosen] for row in [FIELDS, *JOBS]]
        filled = [row for row in cells if any(row)]  # an empty line is no row of one empty cell
        text = "".join("|".join(row) + end + "\n" for row in [names, *filled])
        assert read.slurm(text).rows == [dict(zip(names, row, strict=True)) for row in filled]


def test_without_header_no_empty_column_is_made_up():
    rows = read.slurm("12|a|COMPLETED|\n13|b||\n").rows
    assert [list(row.values()) for row in rows] == [["12", "a", "COMPLETED"], ["13", "b", ""]]


@pytest.mark.parametrize("widths", [[20] * 10, [10, 12, 9, 10, 10, 20, 8, 12, 14, 15], [-20] * 10])
def test_columns_with_widths(widths):
    """`--format=JobID%20` is right-aligned, `%-20` left-aligned; both have a ruler."""

    def line(cells):
        pairs = zip(cells, widths, strict=True)
        return " ".join(cell.rjust(w) if w > 0 else cell.ljust(-w) for cell, w in pairs) + "\n"

    text = line(FIELDS) + line(["-" * abs(width) for width in widths])
    found = read.slurm(text + "".join(map(line, JOBS)))
    assert found.rows == EXPECTED
    trimmed = "\n".join(part.rstrip() for part in (text + "".join(map(line, JOBS))).splitlines())
    assert read.slurm(trimmed + "\n").rows == EXPECTED


def test_names_cut_by_narrow_columns():
    text = "  JobI  Stat  Elap\n------ ----- -----\n    12 COMPL 00:01\n12.ba+ FAIL+ 00:02\n"
    text = text.replace("  JobI", "JobIDR").replace(" Stat", "State").replace(" Elap", "Elaps")
    found = read.slurm(text)
    assert list(found.rows[0]) == ["JobIDRaw", "State", "Elaps"]  # Elapsed or ElapsedRaw
    assert found.table["state_name"].tolist() == ["COMPLETED", "FAILED"]


@pytest.mark.parametrize(
    "state",
    ["FAILED", ["FAILED"], {"current": "FAILED", "reason": "None"}, {"current": ["FAILED"]}],
)
def test_json_of_old_and_new_versions(state):
    limit = {"set": True, "infinite": False, "number": 60}
    endless = {"set": False, "infinite": True, "number": 0}
    for name in ("state", "job_state"):
        jobs = [{"job_id": 12, name: state, "limit": limit, "until": endless}]
        found = read.slurm(json.dumps({"jobs": jobs, "errors": []}) + "\n")
        assert found.table["state_name"].tolist() == ["FAILED"]
        assert (found.rows[0]["limit"], found.rows[0]["until"]) == ("60", "UNLIMITED")


def test_a_command_line_in_a_cell_is_no_header():
    text = (
        "Account|JobID|SubmitLine|State|\n"
        "acc|7|sacct --format=JobID,State,Start|COMPLETED|\n"
        "acc|8|sacct -o JobID,State|FAILED|\n"
    )
    assert [row["State"] for row in read.slurm(text).rows] == ["COMPLETED", "FAILED"]
