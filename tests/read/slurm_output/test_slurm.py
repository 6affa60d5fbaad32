"""Saved output of Slurm's commands, in the formats that people use."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from course_lib import read
from course_lib.read.slurm_output.field_values import job_state, node_state, seconds
from course_lib.read.slurm_output.reader import nearest

FACTS = {
    # file: kinds and numbers of rows of its tables
    "aiida-squeue-2013.log": [("delimited", 8)],
    "azure-scontrol-node-1905.log": [("scontrol node", 1)],
    "azure-sinfo-powerstates.log": [("sinfo", 6)],
    "azure-squeue-cf.log": [("squeue", 1)],
    "cirrus-sinfo.log": [("sinfo", 13)],
    "cirrus-squeue.log": [("squeue", 1)],
    "ctcms-sinfo.log": [("sinfo", 21)],
    "doc-sinfo.log": [("sinfo", 5)],
    "graham-sinfo.log": [("sinfo", 9)],
    "graham-squeue2.log": [("squeue", 1)],
    "hostnames-expand.log": [("hosts", 4)],
    "magiccastle-sinfo.log": [("sinfo", 3)],
    "magiccastle-squeue.log": [("squeue", 1)],
    "osc-null_submit_time.log": [("squeue", 4)],
    "osc-sinfo_gres.log": [("columns", 300)],
    "osc-sinfo_gres_long_hostnames.log": [("columns", 3)],
    "pcluster-scontrol-nodes.log": [("scontrol node", 6)],
    "rivos-sinfo_out.json": [("nodes", 4)],
    "rivos-squeue_out.json": [("jobs", 2)],
    "rivos-squeue_fallback.log": [("json", 6)],
    "scontrol-show-job-oom-sacct.log": [("columns", 3), ("scontrol job", 1)],
    "scontrol-show-job-timeout-oneliner.log": [("scontrol job", 1)],
    "sigma2-squeue.log": [("squeue", 1)],
    "sinfo-R-and-squeue-long-azhop.log": [("sinfo -R", 4), ("squeue", 2)],
    "sinfo-drain.log": [("sinfo", 3)],
    "squeue-array-dependency.log": [("squeue", 2)],
    "squeue-array-pending.log": [("squeue", 1)],
    "ubccr-sacct_dump2101.log": [("sacct", 15)],
    "ubccr-sacct_dump2110.log": [("sacct", 7)],
    "ubccr-sacct_simple.log": [("sacct", 4)],
    "vpenso-sinfo.log": [("delimited", 709)],
    "vpenso-sinfo_mem.log": [("columns", 21)],
}


@pytest.mark.parametrize("name", FACTS)
def test_tables_of_a_real_text(logs, name):
    found = read.slurm(logs / "slurm" / name)
    assert [(table.kind, len(table.rows)) for table in found.tables] == FACTS[name]
    for table in found.tables:
        assert len(table.table) == len(table.rows)


def test_states_with_their_marks(logs):
    table = read.slurm(logs / "slurm/azure-sinfo-powerstates.log").table
    assert table["state_name"].tolist() == ["ALLOCATED"] * 2 + ["IDLE", "MIXED", "IDLE", "IDLE"]
    assert table["state_marks"].iloc[1] == ("powering up",)
    assert table["state_marks"].iloc[2] == ("powered off",)
    assert len(table["hosts"].iloc[2]) == 25
    table = read.slurm(logs / "slurm/doc-sinfo.log").table
    assert table["hosts"].iloc[2] == ("adev6", "adev13", "adev15")
    assert table["state_marks"].iloc[0] == ("not responding",)


def test_jobs_and_why_they_wait(logs):
    found = read.slurm(logs / "slurm/azure-squeue-cf.log")
    assert found.submitted == (37,)
    assert found.table["state_name"].tolist() == ["CONFIGURING"]
    rows = read.slurm(logs / "slurm/squeue-array-dependency.log").rows
    assert [row["NODELIST(REASON)"] for row in rows] == ["node-[1-64]", "(Dependency)"]
    assert rows[1]["JOBID"] == "88_[1-10%1]"
    rows = read.slurm(logs / "slurm/squeue-array-pending.log").rows
    assert rows[0]["NODELIST(REASON)"] == "(JobArrayTaskLimit)"
    failed, queue = read.slurm(logs / "slurm/sinfo-R-and-squeue-long-azhop.log").tables
    assert {row["REASON"] for row in failed.rows} == {"cyclecloud_node_fail"}
    assert queue.table["state_name"].tolist() == ["CONFIGURING"] * 2


def test_records_of_scontrol(logs):
    _, job = read.slurm(logs / "slurm/scontrol-show-job-oom-sacct.log").tables
    row = job.rows[0]
    assert (row["JobState"], row["Reason"]) == ("OUT_OF_MEMORY", "OutOfMemory")
    assert (row["ExitCode"], row["TimeLimit"], row["NodeList"]) == ("0:125", "00:15:00", "gnode009")
    row = read.slurm(logs / "slurm/scontrol-show-job-timeout-oneliner.log").rows[0]
    assert (row["JobState"], row["Reason"], row["RunTime"]) == ("TIMEOUT", "TimeLimit", "00:01:12")
    node = read.slurm(logs / "slurm/azure-scontrol-node-1905.log")
    assert (node.rows[0]["CPUAlloc"], node.rows[0]["Version"]) == ("4", "19.05.5")
    assert node.rows[0]["OS"].startswith("Linux 3.10.0-1127.el7.x86_64 #1 SMP")
    assert node.table["state_marks"].tolist() == [("CLOUD",)]


def test_cells_that_hold_the_delimiter(logs):
    rows = read.slurm(logs / "slurm/ubccr-sacct_simple.log").rows
    assert [row["JobName"] for row in rows] == [
        "job_00001",
        "job_0||0002",
        "job_0|0003",
        "job_|00004",
    ]
    rows = read.slurm(logs / "slurm/ubccr-sacct_dump2110.log").rows
    assert rows[0]["State"] == "CANCELLED by 75200"
    assert rows[0]["SubmitLine"].endswith("| sed 's/^/export /g'; sleep 24h")
    rows = read.slurm(logs / "slurm/ubccr-sacct_dump2101.log").rows
    assert [row["JobName"] for row in rows[11:13]] == ["Job| Name003", "Job| Name |003"]
    assert rows[12]["Constraints"] == "cpu-a|cpu-b|gpu"
    assert rows[8]["State"] == "OUT_OF_MEMORY"


def test_a_command_line_over_several_lines_is_one_cell():
    text = (
        "JobID|JobName|SubmitLine|State|ExitCode\n"
        "7|a|sbatch -x\n\n$ b|c|FAILED|1:0\n"
        "8|b|x|COMPLETED|0:0\n"
    )
    rows = read.slurm(text).rows
    assert [row["State"] for row in rows] == ["FAILED", "COMPLETED"]
    assert rows[0]["SubmitLine"] == "sbatch -x\n\n$ b|c"


def test_sacct_under_a_ruler_with_empty_cells():
    text = (
        "JobID           JobName      State ExitCode \n"
        "------------ ---------- ---------- -------- \n"
        "12             my job    COMPLETED      0:0 \n"
        "12.batch                 CANCELLED+     0:15 \n"
    )
    table = read.slurm(text).table
    assert table["JobName"].tolist() == ["my job", ""]
    assert table["state_name"].tolist() == ["COMPLETED", "CANCELLED"]


@st.composite
def spans(draw, most):
    """Places of words in a line: they neither touch nor overlap."""
    edges = sorted(draw(st.sets(st.integers(0, 60), min_size=2, max_size=2 * most)))
    return [(a, b) for a, b in zip(edges[::2], edges[1::2], strict=False)]


@given(spans(8), spans(2), st.integers(0, 7))
def test_the_nearest_column_is_found_without_looking_at_all(columns, words, first):
    first = min(first, len(columns) - 1)
    for start, end in words:
        shared = [min(b, end) - max(a, start) for a, b in columns[first:]]
        assert nearest(columns, (start, end), first) == first + shared.index(max(shared))


def test_names_with_blanks_in_an_aligned_table():
    text = (
        "             JOBID PARTITION     NAME     USER ST       TIME  NODES "
        "NODELIST(REASON)\n"
        "                12       gpu   my job    alice PD       0:00      2 "
        "(Resources, Priority)\n"
        "                13       gpu      two      bob  R 1-02:03:04      1 n[1-2]\n"
    )
    table = read.slurm(text).table
    assert table["NAME"].tolist() == ["my job", "two"]
    assert table["NODELIST(REASON)"].tolist()[0] == "(Resources, Priority)"
    assert table["time_s"].tolist() == [0, 93784]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("node-[42,49-51]", ["node-42", "node-49", "node-50", "node-51"]),
        ("nid0[0099,0156-0157]", ["nid00099", "nid00156", "nid00157"]),
        ("a1,b[08-10]", ["a1", "b08", "b09", "b10"]),
        ("r[1-2]n[3-4]x", ["r1n3x", "r1n4x", "r2n3x", "r2n4x"]),
        ("gra[8,99,803,85...", ["gra8", "gra99", "gra803"]),
        ("", []),
        ("login", ["login"]),
        ("None assigned", []),
        ("None assig+", []),
        ("(null)", []),
    ],
)
def test_host_lists(text, names):
    assert read.expand_hosts(text) == names


def test_words():
    assert [
        job_state(word) for word in ("R", "CG", "CONFIGUR", "CANCELLED+", "CANCELLED by 5")
    ] == [
        "RUNNING",
        "COMPLETING",
        "CONFIGURING",
        "CANCELLED",
        "CANCELLED",
    ]
    assert node_state("drain*") == ("DRAINED", ("not responding",))
    assert node_state("IDLE+CLOUD+POWER") == ("IDLE", ("CLOUD", "POWER"))
    assert [seconds(text) for text in ("1-00:00:00", "02:03:04", "05:06", "UNLIMITED")] == [
        86400,
        7384,
        306,
        None,
    ]


def test_lists_of_more_hosts_than_fit_the_memory_end_early():
    assert len(read.expand_hosts("n[1-999999]" * 3)) <= 1_000_000
    assert sum(map(len, read.expand_hosts("n" * 10_000 + "[1-999999]"))) <= 20_000_000
    assert read.expand_hosts("n[1-2]" * 1000) == ["n[1-2]" * 1000]


@pytest.mark.timeout(60)
def test_a_broken_header_does_not_fill_every_row():
    header = " ".join(["JOBID", "STATE", *map(str, range(30_000))])
    (table,) = read.slurm("\n".join([header, *["700001 RUNNING here"] * 5000])).tables
    assert len(table.rows) == 5000
    assert len(table.rows[0]) == 300
    assert table.rows[0]["STATE"] == "RUNNING"


def test_a_table_of_such_lists_holds_no_more_than_one_of_them(tmp_path):
    path = tmp_path / "squeue.txt"
    head = "JOBID PARTITION NAME USER ST TIME NODES NODELIST(REASON)\n"
    row = "{} course a me R 0:01 999999 " + "n" * 200 + "[1-999999]\n"
    path.write_text(head + "".join(row.format(number) for number in range(1, 40)))
    hosts = read.slurm(path).table["hosts"]
    assert len(hosts) == 39
    assert sum(len(name) for names in hosts for name in names) <= 20_000_000
