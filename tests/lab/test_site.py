"""Descriptions of clusters are read strictly, and every fault in them is named."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import pytest

from course_lib.lab import clusters
from course_lib.lab.errors import SiteError
from course_lib.lab.job import site


@pytest.mark.parametrize("name", site.presets())
def test_every_preset_is_whole(name):
    preset = site.preset(name)
    assert preset.name == name
    assert preset.title
    if name not in ("box", "slurm"):
        assert preset.missing == ["account"]


def test_an_unknown_preset_is_answered_with_the_known_ones():
    with pytest.raises(SiteError, match=r"juwels-booster.*perlmutter"):
        site.preset("perlmuter")


def test_all_faults_of_a_file_are_said_at_once():
    with pytest.raises(SiteError) as error:
        site.from_toml('[devices]\nask = "please"\nkind = "tpu"\n')
    for part in ("please", "tpu"):
        assert part in str(error.value)


def test_an_unknown_key_is_named_with_its_section():
    with pytest.raises(SiteError, match=r"\[slurm\] acount.*known are:.*account"):
        site.from_toml('[slurm]\nacount = "x"\n')


def test_broken_toml_names_the_file_and_the_place():
    with pytest.raises(SiteError, match=r"my\.toml is not valid TOML.*line 1"):
        site.from_toml("a = = 1", "my.toml")


def test_a_command_written_as_one_text_is_refused():
    with pytest.raises(SiteError, match="a list of commands, each a list of words"):
        site.from_toml('[setup]\ncommands = ["module load PyTorch"]\n')


def test_names_of_directives_and_variables_are_checked():
    with pytest.raises(SiteError) as error:
        site.from_toml(
            '[slurm]\nskip = ["--mem"]\n[slurm.directives]\n"x\\ny" = "1"\n'
            '[setup.environment]\n"A;B" = "1"\n'
        )
    assert "'--mem'" in str(error.value)
    assert r"'x\ny'" in str(error.value)
    assert "'A;B'" in str(error.value)


def test_home_and_variables_are_filled_in_when_the_file_is_read(monkeypatch):
    monkeypatch.setenv("PROJECT", "/p/deep learning")
    monkeypatch.setenv("HOME", "/home/learner")
    found = site.from_toml('[setup]\nvenv = "~/venv"\ncontainer = ["${PROJECT}/$USER"]\n')
    assert found.venv == "/home/learner/venv"
    assert found.container[0].startswith("/p/deep learning/")


def test_a_variable_that_is_not_set_is_an_error_and_no_empty_text(monkeypatch):
    monkeypatch.delenv("NO_SUCH_THING", raising=False)
    with pytest.raises(SiteError, match=r"\$NO_SUCH_THING"):
        site.from_toml('[setup]\nvenv = "$NO_SUCH_THING/x"\n')


def test_a_real_cluster_cannot_be_given_another_link():
    with pytest.raises(SiteError, match="on the box only"):
        site.preset("perlmutter").but(link_gbit=0.2)
    assert site.preset("box").but(link_gbit=0.2).link_gbit == 0.2


def test_a_file_that_is_no_text_is_an_error_of_the_site(tmp_path):
    (tmp_path / "site.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(SiteError, match="cannot be read"):
        site.load(tmp_path / "site.toml")


def test_numbers_of_a_site_are_stored_as_python_s_own():
    box = site.preset("box")
    one = box.but(link_gbit=np.float64(0.2), cpus_per_device=np.int64(2))
    assert one == box.but(link_gbit=0.2, cpus_per_device=2)
    assert {type(value) for value in (one.link_gbit, one.cpus_per_device)} == {float, int}
    with pytest.raises(SiteError, match="cpus_per_device"):
        box.but(cpus_per_device=np.bool_(True))


def test_the_box_starts_jobs_with_the_python_of_the_site(monkeypatch, tmp_path):
    """The first Python on the PATH may have no torch, and jobs would start cold."""
    environment = Path(sys.executable).parent
    box, cluster = (site.preset(name).but(path=str(environment)) for name in ("box", "slurm"))
    monkeypatch.setenv("PATH", os.defpath)
    monkeypatch.setenv(clusters.BOX_PYTHON, "")
    clusters.put_commands_on_path(cluster)
    assert not os.environ[clusters.BOX_PYTHON]
    clusters.put_commands_on_path(box)
    assert os.environ[clusters.BOX_PYTHON] == str(environment / "python3")
    clusters.put_commands_on_path(box.but(path=str(tmp_path)))
    assert os.environ[clusters.BOX_PYTHON] == str(environment / "python3"), "who sets it decides"
    monkeypatch.setenv(clusters.BOX_PYTHON, "")
    clusters.put_commands_on_path(box.but(path=""))
    assert os.environ[clusters.BOX_PYTHON] == sys.executable
