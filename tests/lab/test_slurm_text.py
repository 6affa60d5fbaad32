"""Reading what Slurm prints: any state, any reason, any name."""

from __future__ import annotations

import csv
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from course_lib.lab.errors import SlurmError
from course_lib.lab.queue.slurm import (
    STATES,
    UNIT,
    UNKNOWN,
    Slurm,
    Status,
    expand_hosts,
    explain,
    hint_for,
    job_environment,
    normal,
    parse_accounting_line,
    parse_queue_line,
    seconds,
)


def queue_line(**changes):
    given = {"id": "12", "state": "RUNNING", "reason": "None", "elapsed": "0:07",
             "nodes": "node[1-2]", "comment": "course:ab", "name": "dp4"}  # fmt: skip
    return UNIT.join((given | changes).values())


def test_a_line_of_the_queue_is_read_field_by_field():
    row = parse_queue_line(queue_line())
    assert (row.job_id, row.name, row.comment) == (12, "dp4", "course:ab")
    assert row.status == Status("RUNNING", "None", None, 7.0, "node[1-2]", "squeue")


def test_a_name_may_hold_anything_but_the_separator():
    assert parse_queue_line(queue_line(name="a|b c,d")).name == "a|b c,d"


def test_the_rest_of_a_name_with_a_line_break_is_no_job():
    assert parse_queue_line("rest of a name") is None
    assert parse_queue_line("") is None


def test_fields_that_say_nothing_are_empty():
    row = parse_queue_line(queue_line(nodes="", comment="(null)", state="PENDING", elapsed="N/A"))
    assert (row.status.nodes, row.comment, row.status.elapsed_s) == ("", "", None)


@given(st.text())
def test_no_text_breaks_the_readers(text):
    for line in (text, queue_line(state=text), queue_line(id=text), queue_line(elapsed=text)):
        parse_queue_line(line)
    parse_accounting_line(text)
    parse_accounting_line(UNIT.join(["1", text, text, text, text, text, text]))
    Status(state=text, reason=text).words  # noqa: B018
    normal(text)
    hint_for(text)


@pytest.mark.parametrize(
    ("clock", "expected"),
    [("0:07", 7), ("1:02:03", 3723), ("2-15:52:19", 229939), ("00:00.123", 0), ("INVALID", None),
     ("UNLIMITED", None), ("", None), ("NOT_SET", None)],
)  # fmt: skip
def test_times(clock, expected):
    assert seconds(clock) == expected


def test_an_account_line_keeps_code_and_signal():
    line = UNIT.join(["7", "CANCELLED by 0", "0:15", "12", "None assigned", "None", "dp4"])
    row = parse_accounting_line(line)
    assert (row.job_id, row.name) == (7, "dp4")
    assert row.status == Status("CANCELLED", "", 143, 12.0, "", "sacct")


def test_every_state_of_a_real_accounting_dump_is_known(shared):
    found = set()
    for path in sorted((shared / "logs" / "slurm").glob("ubccr-sacct_dump*.log")):
        with path.open(newline="") as file:
            for row in csv.DictReader(file, delimiter="|", quoting=csv.QUOTE_NONE):
                found.add(normal(row["State"] or ""))
    assert found
    assert found <= set(STATES)


def test_states_of_real_queues_and_job_records_are_known(shared):
    folder = shared / "logs" / "slurm"
    text = "\n".join(path.read_text(errors="replace") for path in folder.glob("*.log"))
    found = set(re.findall(r"JobState=(\S+)", text)) | set(
        re.findall(r"\s(PENDING|RUNNING|COMPLETED|CANCELLED|TIMEOUT|CONFIGURING)\s", text)
    )
    assert {"OUT_OF_MEMORY", "TIMEOUT", "RUNNING", "PENDING"} <= found
    assert {normal(state) for state in found} <= set(STATES)


@pytest.mark.parametrize(
    ("reason", "part"),
    [("Resources", "in use"), ("Priority", "come first"), ("(Dependency)", "another job"),
     ("ReqNodeNotAvail, UnavailableNodes:cs[100,101]", "down, reserved"),
     ("Nodes required for job are DOWN, DRAINED or reserved", "down or reserved"),
     ("QOSMaxGRESPerUser", "limit of its QOS"), ("AssocGrpGRESMinutes", "too few device-hours"),
     ("SomethingNew", "SomethingNew")],
)  # fmt: skip
def test_reasons_become_words(reason, part):
    assert part in explain(reason)


@pytest.mark.parametrize("reason", ["", "None", "N/A", "()"])
def test_no_reason_needs_no_words(reason):
    assert explain(reason) == ""


def test_an_unknown_state_is_a_state():
    status = Status(state="MELTED")
    assert "MELTED" in status.words
    assert not status.ended


def test_a_failing_command_speaks_in_its_own_words_with_a_hint(fake):
    fake("sbatch", 'echo "sbatch: error: invalid account or qos" >&2; exit 1')
    with pytest.raises(SlurmError) as error:
        Slurm().call("sbatch", "--hold", stdin="x")
    for part in ("exited with 1", "invalid account", "sacctmgr", "--hold"):
        assert part in str(error.value)


def test_a_command_that_is_not_there_is_said_to_be_missing():
    with pytest.raises(SlurmError, match="not on the PATH") as error:
        Slurm().call("no-such-command-of-slurm")
    assert error.value.exit_code == 127


def test_sbatch_that_names_no_job_is_an_error(fake):
    fake("sbatch", "cat >/dev/null; echo welcome")
    with pytest.raises(SlurmError, match="printed no job id"):
        Slurm().submit("#!/bin/sh\n", [], {}, folder=None)


def test_the_job_id_is_found_beside_a_cluster_name_and_a_greeting(fake, monkeypatch):
    import os

    fake("sbatch", "cat >/dev/null; echo welcome; echo '123;main'")
    assert Slurm().submit("#!/bin/sh\n", [], os.environ, folder=None) == 123


def test_a_notebook_inside_a_job_hands_none_of_that_job_on():
    inherited = {
        "SLURM_JOB_ID": "1", "SLURM_MEM_PER_CPU": "1", "SLURM_CONF": "/etc/s", "SBATCH_TIME": "1",
        "SBATCH_ACCOUNT": "mine", "SBATCH_QOS": "q", "RANK": "0", "MASTER_ADDR": "x", "PATH": "/b",
        "MPLBACKEND": "module://inline", "JPY_PARENT_PID": "5", "COURSE_BOX_HOME": "/h",
    }  # fmt: skip
    assert job_environment(inherited, {"qos": "debug"}) == {
        "SLURM_CONF": "/etc/s", "SBATCH_ACCOUNT": "mine", "PATH": "/b", "COURSE_BOX_HOME": "/h"
    }  # fmt: skip


def test_habits_of_the_user_do_not_change_what_the_commands_print(fake, monkeypatch):
    monkeypatch.setenv("SQUEUE_FORMAT", "%i")
    monkeypatch.setenv("SCANCEL_INTERACTIVE", "1")
    fake("squeue", 'echo "[$SQUEUE_FORMAT$SCANCEL_INTERACTIVE]"')
    assert Slurm().call("squeue") == "[]\n"


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("node-[42,49-51]", ["node-42", "node-49", "node-50", "node-51"]),
        ("nid0[0099,0156-0157]", ["nid00099", "nid00156", "nid00157"]),
        ("a1,b[08-10]", ["a1", "b08", "b09", "b10"]),
        ("r[1-2]-ib,r3-ib", ["r1-ib", "r2-ib", "r3-ib"]),
        ("login", ["login"]),
        ("", []),
    ],
)
def test_host_lists(text, names):
    assert expand_hosts(text) == names


def test_a_state_is_its_first_word():
    given = ("RUNNING", "CANCELLED+", "CANCELLED by 5", " ", "?")
    assert [normal(state) for state in given] == [
        "RUNNING", "CANCELLED", "CANCELLED", UNKNOWN, UNKNOWN,
    ]  # fmt: skip
