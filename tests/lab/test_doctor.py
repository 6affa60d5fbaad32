"""The doctor reports all faults at once, each with its cure, and has the right exit code."""

from __future__ import annotations

import pytest

from course_lib.lab.doctor import checks
from course_lib.lab.doctor.command import main
from course_lib.lab.doctor.findings import bad, fair, good, report
from course_lib.lab.job import site
from course_lib.lab.lab import Lab
from course_lib.lab.workspace import Workspace


@pytest.fixture
def doctor(cluster, tmp_path, monkeypatch, capsys):
    """`doctor()` → exit code and text, in an empty workspace."""
    monkeypatch.setenv("COURSE_WORKSPACE", str(tmp_path))

    def examine(*words, toml=""):
        if toml:
            (tmp_path / "site.toml").write_text(toml, encoding="utf-8")
        site_words = [] if toml or "--site" in words else ["--site", cluster]
        code = main([*words, *site_words])
        return code, capsys.readouterr().out

    return examine


def test_on_a_sound_machine_a_job_would_run(doctor):
    code, text = doctor()
    assert code == 0, text
    assert text.endswith("A job would run.\n")
    assert "the cluster would accept a job on 2 nodes" in text


def test_figures_in_korean_need_a_font_for_it(monkeypatch):
    assert list(checks.fonts()) == [], "nobody who reads English is asked for one"
    monkeypatch.setenv("COURSE_LANGUAGE", "ko")
    monkeypatch.setattr("course_lib.show.style.fonts_with_korean", lambda: [])
    (finding,) = checks.fonts()
    assert finding.level == "fair"
    assert "fonts-noto-cjk" in finding.cure
    monkeypatch.setattr("course_lib.show.style.fonts_with_korean", lambda: ["NanumGothic"])
    assert list(checks.fonts()) == []


def test_a_test_job_looks_from_inside(doctor):
    code, text = doctor("--run")
    assert code == 0, text
    assert "names, shared folder and torch work" in text


@pytest.fixture
def flat_box(cluster, tmp_path, monkeypatch):
    """Separate box in flat mode."""
    if cluster != "box":
        pytest.skip("flat mode is the box's")
    home = tmp_path / "flat"
    home.mkdir()
    (home / "box.toml").write_text('mode = "flat"\n', encoding="utf-8")
    monkeypatch.setenv("COURSE_BOX_HOME", str(home))


def test_flat_mode_is_told_with_its_reason_and_stops_no_job(doctor, flat_box):
    code, text = doctor("--run")
    assert code == 0, text
    lines = text.splitlines()
    why = "flat mode: all nodes share the network of this machine, because box.toml sets mode"
    cure = lines[lines.index(f"! {why} = 'flat'") + 1]
    assert cure.startswith("  → set mode = 'auto' in box.toml; until then all lessons run")
    assert "a job ran on node1, node2, and host names, shared folder and torch work" in text


def test_a_lab_knows_flat_mode(tmp_path, flat_box):
    assert not Lab(tmp_path / "work", site="box", quiet=True).nodes_are_separate


def test_names_that_flat_mode_cannot_give_are_told_and_stop_no_job(doctor, flat_box, fake):
    for compiler in ("cc", "gcc", "clang"):
        fake(compiler, "exit 1")
    code, text = doctor("--run")
    assert code == 0, text
    assert "! in a job: name node1 on" in text
    assert "→ install a C compiler (cc)" in text


def test_nodes_with_networks_of_their_own_are_told_too(fake):
    fake("sinfo", ":")
    (finding,) = checks.network()
    assert (finding.level, finding.cure) == ("good", "")


def test_every_fault_is_told_at_once_with_its_cure(doctor, cluster):
    text = site.preset_path(cluster).read_text(encoding="utf-8")
    wrong = f'fill_in = ["account"]\npartition = "nowhere"\n{text}'
    code, told = doctor(toml=wrong)
    assert code == 1
    assert "still needs account" in told
    assert told.count("→") >= 1


def test_a_site_file_that_cannot_be_read_is_a_finding(doctor):
    code, text = doctor(toml="nonsense = [")
    assert code == 1
    assert "is not valid TOML" in text


def test_commands_that_are_missing_are_named(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    (finding,) = checks.commands(site.preset("slurm"))
    assert finding.level == "bad"
    assert "sbatch, srun, squeue" in finding.what


def test_a_cluster_that_does_not_answer_is_told_apart_from_one_that_is_not_there(fake, monkeypatch):
    for name in checks.COMMANDS:
        fake(name, ":")
    fake(
        "sinfo",
        '[ "$1" = --version ] || { echo "Unable to contact slurm controller" >&2; exit 1; }',
    )
    (finding,) = checks.commands(site.preset("slurm"))
    assert "does not answer: Unable to contact" in finding.what


def test_a_workspace_that_cannot_be_written_is_a_fault(tmp_path):
    (tmp_path / "file").write_text("")
    (finding,) = checks.folder(Workspace(tmp_path / "file"))
    assert finding.level == "bad"
    assert "COURSE_WORKSPACE" in finding.cure


def test_the_report_counts_what_stops_a_job():
    text, is_well = report([good("a"), fair("b", "do b"), bad("c", "do c")])
    assert not is_well
    assert text.splitlines() == [
        "✓ a", "! b", "  → do b", "✗ c", "  → do c", "", "1 of these stops jobs from running."
    ]  # fmt: skip
    assert report([good("a")])[1]


@pytest.mark.parametrize(
    ("comment", "level", "what", "cure"),
    [
        ("3 (4 slots on 2 cores)", "good", "1/3 of the rate of a core", ""),
        ("2.5 (set in box.toml)", "good", "set in box.toml", ""),
        ("3 (4 slots on 2 cores; now 8 cores, so remove /a to choose again)", "fair",
         "(4 slots on 2 cores)", "now 8 cores, so remove /a to choose again"),
        ("1 (4 slots on 16 cores; 1 GPU for 4 slots, so these …)", "fair",
         "slot computes at the rate of a core", "1 GPU for 4 slots, so these …"),
    ],
)  # fmt: skip
def test_the_pace_of_a_slot_is_told_and_what_has_changed_since(fake, comment, level, what, cure):
    fake("scontrol", f"echo '   Comment=device_pace={comment}'")
    (finding,) = checks.pace()
    assert (finding.level, finding.cure) == (level, cure)
    assert what in finding.what


def test_a_slot_as_fast_as_it_goes_is_not_worth_a_line(fake):
    fake("scontrol", "echo NodeName=node1")
    assert list(checks.pace()) == []
