"""The text that training runs read is created only once."""

from __future__ import annotations

import pytest

from course_lib.lab.errors import LabError
from course_lib.lab.job import program_files
from course_lib.lab.job.recipes import gpt
from course_lib.lab.job.site import Site


def prepare(tmp_path, program):
    (tmp_path / "sample_text.py").write_text(program, encoding="utf-8")
    site = Site(name="here", programs=str(tmp_path), data=str(tmp_path))
    program_files.prepare_data(gpt.recipe("first", iterations=1), site, print)


def test_what_went_wrong_is_told(tmp_path):
    with pytest.raises(LabError, match="could not be made: no room"):
        prepare(tmp_path, "import sys; sys.exit('no room')")
