"""The commands as a user types them, on a box of their own; nothing is run for most of them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from course_lib import box as box_room
from course_lib.box.commands import refused
from course_lib.box.commands.shared import advice
from course_lib.box.commands.submit.option_table import options_of

COMMANDS = ("sbatch", "srun", "salloc", "squeue", "scancel", "sinfo", "scontrol", "sacct", "sstat")


def held(box, *options: str) -> str:
    """Number of a job that waits until it is released."""
    return box.run("sbatch", "--parsable", "-H", *options, "--wrap", "true").stdout.strip()


def shown(box, job: str) -> dict[str, str]:
    text = box.run("scontrol", "-o", "show", "job", job).stdout
    return dict(re.findall(r"(\S+?)=(\S*)", text))


@pytest.mark.parametrize(
    ("options", "code", "complaint"),
    [
        ("-N3", 1, "Batch job submission failed: Node count specification invalid"),
        ("-Nx", 255, '"x" is not a valid node count'),
        ("-N2-1", 255, "Maximum node count 1 is less than minimum node count 2"),
        ("-n0", 1, 'Invalid numeric value "0" for --ntasks.'),
        ("-n17", 1, "Batch job submission failed: More processors requested than permitted"),
        (
            "-N1 -n9",
            1,
            "Batch job submission failed: Requested node configuration is not available",
        ),
        ("-c9", 1, "CPU count per node can not be satisfied"),
        ("--mem=20G", 1, "Memory specification can not be satisfied"),
        ("--mem=x", 255, "Invalid --mem specification"),
        ("-t x", 255, "Invalid --time specification"),
        ("-t 2-0", 1, "Requested time limit is invalid (missing or exceeds some limit)"),
        ("-p nosuch", 1, "invalid partition specified: nosuch"),
        ("-w node9", 1, "Batch job submission failed: Invalid node name specified"),
        ("-w node[1-2] -N1", 1, "invalid number of nodes (-N 2-1)"),
        ("-G5", 1, "Batch job submission failed: Requested node configuration is not available"),
        ("--gres=foo:1", 1, "Invalid generic resource (gres) specification"),
        ("-d foo:1", 1, "Batch job submission failed: Job dependency problem"),
        ("--signal=FOO", 255, "Invalid --signal specification"),
        ("--open-mode=x", 255, "Invalid --open-mode specification"),
        ("--exclusive=x", 255, "Invalid --exclusive specification"),
        ("-m foo", 255, "Invalid --distribution specification"),
        ("--propagate=FOO", 1, "--propagate=FOO is not valid."),
        ("--array=1-1001", 1, "Batch job submission failed: Invalid job array specification"),
        ("-n1 : -n1", 1, "the box does not do several components of one job"),
        ("--sockets-per-node=2", 1, "the box does not do --sockets-per-node; a real Slurm does."),
        ("--tmp=1G", 1, "the box does not do --tmp; a real Slurm does."),
        ("--switches=x", 1, 'Invalid numeric value "x" for --switches.'),
        ("-F nosuchfile", 1, "the box does not do --nodefile; a real Slurm does."),
        ("--container=x", 1, "the box does not do --container; a real Slurm does."),
    ],
)
def test_what_can_never_run_is_refused_in_slurms_words(box, options, code, complaint):
    done = box.run("sbatch", *options.split(), "--wrap", "true", check=False)
    assert (done.returncode, done.stdout) == (code, "")
    assert complaint in done.stderr
    assert all(line.startswith("sbatch: error: ") for line in done.stderr.splitlines())


def test_an_option_without_effect_says_so_once_and_the_job_is_taken(box):
    done = box.run(
        "sbatch", "--hold", "--parsable", "--switches=1", "--contiguous", "--wrap", "true"
    )
    assert done.stdout.strip().isdigit()
    assert done.stderr.splitlines() == [
        "sbatch: note: the box accepts --switches and does nothing with it",
        "sbatch: note: the box accepts --contiguous and does nothing with it",
    ]


@pytest.mark.parametrize("what", [["sbatch", "-n1", ":", "-n1", "x"], ["srun", "a", ":", "b"]])
def test_jobs_of_several_components_are_refused_by_name(box, what):
    done = box.run(*what, check=False)
    assert done.returncode == 1
    assert "the box does not do several components" in done.stderr


def test_the_command_line_beats_variables_and_they_beat_the_script(box):
    path = box.work / "job.sh"
    path.write_text("#!/bin/sh\n#SBATCH -J script -c 2 --comment=script -H\n")
    environment = box.environment | {"SBATCH_JOB_NAME": "variable", "SBATCH_COMMENT": "unknown"}
    environment["SBATCH_CPUS_PER_TASK"] = "3"
    done = subprocess.run(
        ["sbatch", "--parsable", "-c4", str(path)],
        env=environment,
        cwd=box.work,
        capture_output=True,
        text=True,
        check=True,
    )
    found = shown(box, done.stdout.strip())
    assert found["JobName"] == "variable"
    assert found["CPUs/Task"] == "4"
    assert found["Comment"] == "script"


def test_an_option_given_twice_counts_as_given_last(box):
    assert shown(box, held(box, "-N2", "-J", "a", "-N1", "-J", "b"))["JobName"] == "b"


@pytest.mark.parametrize("name", ["a name", 'quo"te', "it's", "$(x)", "ümlaut", "-x", "%j"])
def test_any_name_survives(box, name):
    job = held(box, f"--job-name={name}")
    assert box.run("squeue", "-h", "-j", job, "-o", "%j").stdout == f"{name}\n"
    assert box.run("squeue", "-h", "-n", name, "-o", "%i").stdout.split() == [job]
    box.run("scancel", "-n", name)
    assert box.run("squeue", "-h", "-j", job, "-o", "%T").stdout == ""


def test_the_script_and_its_arguments_are_kept_byte_for_byte(box):
    text = b'#!/bin/sh\n# \xff\xfe odd bytes\necho "$1"\n'
    path = box.work / "odd name.sh"
    path.write_bytes(text)
    job = box.run("sbatch", "--parsable", "-H", str(path), "a b", "").stdout.strip()
    box.run("scontrol", "write", "batch_script", job, "copy")
    assert (box.work / "copy").read_bytes() == text
    assert f"Command={path} a b " in box.run("scontrol", "show", "job", job).stdout


def test_a_script_on_standard_input_is_called_sbatch(box):
    job = box.run("sbatch", "--parsable", "-H", input="#!/bin/sh\ntrue\n").stdout.strip()
    assert shown(box, job)["JobName"] == "sbatch"


def test_hold_and_release_and_who_held(box):
    job = held(box, "--begin=now+1hour")
    assert shown(box, job)["Reason"] == "JobHeldUser"
    box.run("scontrol", "release", job)
    assert shown(box, job)["Reason"] == "BeginTime"
    box.run("scontrol", "uhold", job)
    assert shown(box, job)["Reason"] == "JobHeldUser"


def test_a_waiting_job_can_be_changed(box):
    job = held(box)
    changes = "TimeLimit=5 JobName=new Comment=c Nice=7 NumNodes=2 Requeue=0 ReqNodeList=node2"
    box.run("scontrol", "update", f"JobId={job}", *changes.split())
    found = shown(box, job)
    assert found["TimeLimit"] == "00:05:00"
    assert (found["JobName"], found["Nice"], found["NumNodes"]) == ("new", "7", "2")
    assert (found["Requeue"], found["ReqNodeList"]) == ("0", "node2")
    refused = box.run("scontrol", "update", f"JobId={job}", "Partition=nosuch", check=False)
    assert refused.returncode == 1
    assert refused.stderr == f"Invalid partition name specified for job {job}\n"


def test_listings_say_the_same_of_a_waiting_job(box):
    job = held(box, "-N2", "-n3", "-J", "three", "-t", "10")
    line = box.run("squeue", "-h", "-j", job).stdout.split()
    user = box.run("squeue", "-h", "-j", job, "-o", "%u").stdout.strip()
    assert line == [job, "box", "three", user[:8], "PD", "0:00", "2", "(JobHeldUser)"]
    columns = "JobID,State,AllocCPUS,ReqCPUS,NNodes,NodeList,ExitCode,Timelimit,Start"
    assert box.run("sacct", "-n", "-P", "-j", job, "-o", columns).stdout == (
        f"{job}|PENDING|3|3|2|None assigned|0:0|00:10:00|Unknown\n"
    )
    narrow = box.run("sacct", "-n", "-j", job, "-o", "jobname%4,state%-5,nodelist%6").stdout
    assert narrow == "thr+ PEND+ None + \n"


def test_an_unknown_job_is_an_error_for_squeue_and_none_for_scancel(box):
    done = box.run("squeue", "-j", "99999", check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "slurm_load_jobs error: Invalid job id specified\n"
    assert box.run("scancel", "99999").stderr == ""
    signalled = box.run("scancel", "-s", "USR1", "99999", check=False)
    assert "Kill job error on job id 99999: Invalid job id specified" in signalled.stderr


def test_scancel_takes_only_what_all_its_conditions_name(box):
    jobs = {name: held(box, "-J", name) for name in ("one", "two")}
    box.run("scancel", "-n", "one", "-t", "RUNNING")
    box.run("scancel", "-n", "two", jobs["one"])
    assert box.run("squeue", "-h", "-j", jobs["one"], "-o", "%T").stdout == "PENDING\n"
    box.run("scancel", "-n", "one", "-u", str(os.getuid()))
    assert box.state(jobs["one"]) == "CANCELLED"
    assert box.state(jobs["two"]) == "PENDING"


def test_scancel_asks_first_where_told_to(box):
    job = held(box)
    no = box.run("scancel", "-i", job, input="n\n")
    assert f"Cancel job_id={job} name=wrap partition=box [y/n]?" in no.stdout
    assert box.state(job) == "PENDING"
    box.run("scancel", "-i", job, input="y\n")
    assert box.state(job) == "CANCELLED"


def test_nodes_and_partitions_are_shown(box):
    assert box.run("sinfo", "-h", "-o", "%P %a %D %N %c").stdout == "box* up 2 node[1-2] 8\n"
    assert box.run("sinfo", "-h", "-N", "-o", "%N %t").stdout == "node1 idle\nnode2 idle\n"
    node = box.run("scontrol", "show", "node", "node2").stdout
    assert "CfgTRES=cpu=8,mem=16000M,billing=8,gres/gpu=2" in node
    assert "MaxTime=1-00:00:00" in box.run("scontrol", "show", "partition", "box").stdout
    assert box.run("scontrol", "show", "hostnames", "n[08-10]").stdout == "n08\nn09\nn10\n"
    assert box.run("scontrol", "show", "config").stdout.count(str(box.home)) == 2


def test_every_command_answers_about_itself(box):
    for command in COMMANDS:
        assert box.run(command, "--version").stdout == "slurm-wlm 22.05.8\n"
        assert box.run(command, "--usage").stdout.startswith(f"Usage: {command} ")
        assert f"works like {command} of Slurm" in box.run(command, "--help").stdout


def test_a_reader_that_has_enough_is_no_fault(box):
    held(box)
    done = box.run("bash", "-c", "squeue | head -c 5; sacct -e | head -n 1; sinfo | true")
    assert done.stderr == ""


def test_four_processes_submit_two_hundred_jobs_and_none_is_lost(make_box):
    box = make_box()

    def submit(name: int) -> list[int]:
        turns = range(50)
        waits = ("sbatch", "--parsable", "--begin=now+1hour", "-J", f"p{name}", "--wrap", "true")
        return [int(box.run(*waits).stdout) for _ in turns]

    with ThreadPoolExecutor(4) as pool:
        numbers = list(pool.map(submit, range(4)))
    assert sorted(n for found in numbers for n in found) == list(range(1, 201))
    assert all(found == sorted(found) for found in numbers)
    assert len(box.run("squeue", "-h").stdout.splitlines()) == 200
    listed = box.run("squeue", "-h", "-o", "%Q %i").stdout.splitlines()
    assert [int(line.split()[1]) for line in listed] == list(range(1, 201))


@pytest.mark.slow
def test_jobs_of_four_processes_run_once_each_and_in_order(make_box):
    box = make_box()
    log = box.work / "ran"

    def submit(name: int) -> None:
        for turn in range(4):
            box.submit(f"echo {name}-{turn} >> {log}", "--exclusive")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(submit, range(4)))
    deadline = time.monotonic() + 120
    while box.run("squeue", "-h").stdout and time.monotonic() < deadline:
        time.sleep(0.2)
    assert sorted(log.read_text().split()) == sorted(f"{n}-{t}" for n in range(4) for t in range(4))
    rows = box.run("sacct", "-X", "-n", "-P", "-o", "JobID,Start,State").stdout.split("\n")[:-1]
    found = [row.split("|") for row in rows]
    assert {row[2] for row in found} == {"COMPLETED"}
    starts = [row[1] for row in sorted(found, key=lambda row: int(row[0]))]
    assert starts == sorted(starts)


@pytest.mark.parametrize("how", ["path", "link", "link of a link", "relative", "from another copy"])
def test_a_command_starts_however_it_is_called(box, tmp_path, how):
    folder = Path(box_room.bin_dir())
    if how == "from another copy":
        site = tmp_path / "with space" / "lib" / "python3" / "site-packages"
        site.mkdir(parents=True)
        subprocess.run(["cp", "-r", str(folder.parents[1]), str(site)], check=True)
        folder = site / "course_lib" / "box" / "bin"
    target = folder / "squeue"
    if how.startswith("link"):
        for name in ("one", "two")[: 1 + how.count("of")]:
            (tmp_path / name).mkdir()
            (tmp_path / name / "squeue").symlink_to(target)
            target = tmp_path / name / "squeue"
    if how == "relative":
        target = Path(os.path.relpath(target, box.work))
    environment = box.environment | {"COURSE_BOX_PYTHON": sys.executable}
    done = subprocess.run(
        [str(target), "-h"],
        env=environment,
        cwd=box.work,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_clone_is_not_started_with_a_python_that_lies_six_folders_above_it(box, tmp_path):
    """Where an installed package has its environment's, ~/course has /bin/python3: no torch in it,
    so no job started warm."""
    clone = tmp_path / "home" / "me" / "course"
    shutil.copytree(Path(box_room.bin_dir()).parents[1], clone / "course_lib", symlinks=True)
    wrong = tmp_path / "bin" / "python3"
    wrong.parent.mkdir()
    wrong.write_text("#!/bin/sh\necho the wrong Python\nexit 3\n")
    wrong.chmod(0o755)
    squeue = clone / "course_lib" / "box" / "bin" / "squeue"
    assert squeue.parent.joinpath("../../../../../../bin/python3").resolve() == wrong
    mine = str(Path(sys.executable).parent)
    environment = {**box.environment, "PATH": f"{mine}:{os.environ['PATH']}"}
    for name in ("COURSE_BOX_PYTHON", "VIRTUAL_ENV"):
        environment.pop(name, None)
    done = subprocess.run(
        [squeue, "-h"], env=environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "wrong" not in done.stdout


def test_a_hostile_environment_does_not_reach_the_commands(box, tmp_path):
    (tmp_path / "os.py").write_text("raise SystemExit('wrong os')")
    (tmp_path / "sitecustomize.py").write_text("raise SystemExit('wrong site')")
    hostile = {
        "PYTHONPATH": str(tmp_path),
        "PYTHONHOME": "/nonexistent",
        "PYTHONSTARTUP": str(tmp_path / "os.py"),
        "PYTHONINSPECT": "1",
        "PYTHONWARNINGS": "error",
        "PYTHONOPTIMIZE": "2",
        "PYTHONIOENCODING": "ascii",
        "LC_ALL": "C",
        "LANG": "nonsense",
        "POSIXLY_CORRECT": "1",
    }
    held(box, "-J", "ümlaut")
    done = subprocess.run(
        ["squeue", "-h", "-n", "ümlaut", "-o", "%j"],
        env=box.environment | hostile,
        cwd=tmp_path,
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stdout.decode(), done.stderr) == (0, "ümlaut\n", b"")


def test_a_home_that_cannot_be_written_is_said_in_one_line(box, tmp_path):
    (tmp_path / "file").write_text("")
    environment = box.environment | {"COURSE_BOX_HOME": str(tmp_path / "file" / "home")}
    done = subprocess.run(
        ["sbatch", "--wrap", "true"], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "Unable to contact slurm controller" in done.stderr
    assert "cannot use its state file" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_faulty_settings_file_names_its_fault(make_box):
    box = make_box()
    (box.home / "box.toml").write_text("link_gbits = 3\n")
    done = box.run("squeue", check=False)
    assert done.returncode == 1
    assert "box.toml has link_gbits; known are: cluster, nodes" in done.stderr
    (box.home / "box.toml").write_text("nodes = \n")
    assert "box.toml cannot be read" in box.run("squeue", check=False).stderr
    (box.home / "box.toml").write_text("")


def test_a_field_about_what_the_box_does_not_have_is_refused_by_name(box):
    done = box.run("squeue", "-O", "JobID,Reboot:10", check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "squeue: error: the box does not do the field reboot of squeue; a real Slurm does."
        f" {advice.GENERAL}\n"
    )


@pytest.mark.parametrize("command", sorted(refused.INSTEAD))
def test_other_commands_of_slurm_refuse_by_name_and_say_what_to_do(box, command):
    done = box.run(command, "show", "-x", check=False)
    assert (done.returncode, done.stdout) == (1, "")
    said = f"{command}: error: the box does not do {command}; a real Slurm does. "
    assert done.stderr == f"{said}{refused.INSTEAD[command]}\n"


@pytest.mark.parametrize(
    ("variable", "command"),
    [
        ("SLURM_MPI_TYPE=pmix", ("srun", "true")),
        ("SLURM_CPU_FREQ_REQ=high", ("srun", "true")),
        ("SBATCH_GET_USER_ENV=1", ("sbatch", "--hold", "--wrap", "true")),
        ("SALLOC_CLUSTERS=other", ("salloc", "true")),
    ],
)
def test_a_profile_made_for_another_cluster_is_no_reason_to_refuse(box, variable, command):
    done = box.run("env", variable, *command)
    assert f"{command[0]}: note: {variable} is left aside: the box " in done.stderr


def test_every_option_that_is_refused_comes_with_advice():
    known = {option.name for letter in "abr" for option in options_of(letter)}
    beside = {"cluster", "completion", "cron", "env-vars", "federation", "json", "sibling", "yaml"}
    assert advice.OF_OPTIONS.keys() <= known | beside
