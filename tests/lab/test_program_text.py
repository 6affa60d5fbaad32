"""A lesson shows the same program text that its jobs run."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from course_lib.lab.errors import LabError
from course_lib.lab.job import program_files
from course_lib.lab.job.program_files import excerpt

PROGRAMS = Path(program_files.__file__).parents[3] / "code"


def test_a_function_stands_as_it_is_written():
    shown = str(excerpt(Path(program_files.__file__).parent, "program_files.py", ("excerpt",)))
    assert inspect.getsource(excerpt).rstrip() in shown


def test_functions_of_classes_lose_their_margin():
    shown = str(excerpt(PROGRAMS, "dataset/samples.py", ("Loader.micro_batch", "make_loaders")))
    assert shown.startswith("# code/dataset/samples.py\n\ndef micro_batch(")
    assert "\n\ndef make_loaders(" in shown


def test_a_notebook_sees_colours():
    assert "<span" in excerpt(PROGRAMS, "pretrain_gpt.py", ("train_step",))._repr_html_()


def test_a_wrong_name_is_told_with_those_that_there_are():
    with pytest.raises(LabError, match=r"Loader\.micro_batch"):
        excerpt(PROGRAMS, "dataset/samples.py", ("Loader.batches",))
    with pytest.raises(LabError, match="no program"):
        excerpt(PROGRAMS, "dataset/nothing.py", ("main",))
