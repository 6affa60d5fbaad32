"""A login shell in a job finds the commands of the box, although its profile sets PATH anew."""

from __future__ import annotations


def test_a_login_shell_finds_them(any_box):
    text = any_box.result(
        "bash -lc 'srun -n1 squeue -h -o %j'; bash --login -c 'scontrol show hostnames node1'",
        "-J", "login",
    )  # fmt: skip
    assert text == "login\nnode1\n"


def test_a_script_whose_own_shell_is_a_login_shell_finds_them(any_box):
    job = any_box.run(
        "sbatch", "--parsable", "-o", "out-%j", "-J", "whole",
        input="#!/bin/bash -l\nsrun -n1 squeue -h -o %j\n",
    ).stdout.strip()  # fmt: skip
    assert any_box.wait(job) == "COMPLETED", any_box.output(job)
    assert any_box.output(job) == "whole\n"


def test_bash_reads_the_start_file_of_the_user_too(make_box):
    flat = make_box(mode="flat")
    own = flat.work / "own.sh"
    own.write_text("mine=read\n")
    flat.environment["BASH_ENV"] = str(own)
    assert flat.result("echo $mine; bash -lc 'echo $mine; squeue -h -o %j'", "-J", "both") == (
        "read\nread\nboth\n"
    )
