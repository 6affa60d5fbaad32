"""Files of recorded runs: their content, and the refusal of hostile files before use."""

from __future__ import annotations

import io
import json
import lzma
import re
import tarfile

import pytest

from course_lib.lab.errors import LabError
from course_lib.lab.queue.records import Registry
from course_lib.lab.recorded import anonymous
from course_lib.lab.recorded import pack as packing
from course_lib.lab.recorded import recording as recordings
from course_lib.lab.recorded.recording import Recording, RecordingError, may_be_recorded
from course_lib.lab.workspace import Workspace
from course_lib.publish import recording as command
from course_lib.publish.executed import executed_in


def whole_text(made, file) -> str:
    return lzma.decompress(file.read_bytes()).decode("latin-1")


def test_what_was_recorded_comes_out_again(made, tmp_path):
    recording = Recording(made.pack())
    recording.check()
    names = [run.name for run in recording.manifest.runs]
    assert names == ["dp4", "mine"]
    recording.unpack(recording.manifest.runs[0], tmp_path / "out")
    log = made.workspace.runs / "dp4-17" / "out.log"
    assert (tmp_path / "out" / "out.log").read_bytes() == log.read_bytes()
    assert not (tmp_path / "out" / "program").exists(), "of the other run"


def test_neither_folders_nor_accounts_nor_secrets_go_in(made):
    made.recipes["dp4"] = made.recipes["dp4"].but(environment={"HF_TOKEN": "hf_abcdef123"})
    elsewhere = made.box.but(data="/scratch/someone/texts")
    said = "token hf_abcdef123 and proj_secret_42 in /scratch/someone/texts\n"
    made.add("dp4", 19, said, elsewhere)
    text = whole_text(made, made.pack())
    words = (str(made.workspace.folder), "proj_secret_42", "hf_abcdef123", "/scratch/someone")
    for word in words:
        assert word not in text
    assert "hello from ~/course/runs/mine.txt" in text


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("in /a/ws.", "in ~."),
        ("x\n/a/ws/x:/a/ws", "x\n~/x:~"),
        ("/a/ws에서", "~에서"),
        ("\\n/a/ws \x1b[0;32m/a/ws \x1b[m/a/ws", "\\n~ \x1b[0;32m~ \x1b[m~"),
        ("/a/ws-other /a/ws2 /a/ws.old b/a/ws", "/a/ws-other /a/ws2 /a/ws.old b/a/ws"),
    ],
)
def test_a_name_is_replaced_where_it_stands_alone(text, told):
    assert anonymous.without(text, {"/a/ws": "~"}) == told


def test_a_workspace_that_was_moved_since_is_not_told_either(made, tmp_path):
    before = str(made.workspace.folder)
    made.workspace = Workspace(made.workspace.folder.rename(tmp_path / "moved"))
    text = whole_text(made, made.pack())
    assert before not in text
    assert "hello from ~/course/runs/mine.txt" in text


def test_pickles_checkpoints_links_and_unknown_files_stay_behind(made, tmp_path):
    folder = made.workspace.runs / "dp4-17"
    for name in ("snapshots/a.pickle", "checkpoints/x.bin", "memory/rank0.pkl", "notes.txt"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("x")
    (tmp_path / "outside").write_text("secret of the machine")
    (folder / "memory" / "rank0.jsonl.gz").write_bytes(b"cut off")
    (folder / "links.json").symlink_to(tmp_path / "outside")
    manifest, _ = made.parts(made.pack())
    names = {file[0] for file in manifest["runs"][0]["files"]}
    assert names == {"recipe.toml", "job.sbatch", "out.log", "exit_code"}


def test_of_checkpoints_their_names_and_words_go_in_and_no_weights(made):
    folder = made.workspace.runs / "dp4-17"
    kept = {
        "checkpoints/iter_0000003/model.json", "checkpoints/iter_0000006.unfinished/model.json",
        "checkpoints/latest_checkpointed_iteration.txt", "diary/rank0.jsonl", "stacks/rank1.txt",
        "mine_text_document.idx", "mine_text_document.bin",
    }  # fmt: skip
    for name in {*kept, "checkpoints/iter_0000003/rank0.bin", "checkpoints/a/.metadata"}:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("x")
    manifest, _ = made.parts(made.pack())
    names = {file[0] for file in manifest["runs"][0]["files"]}
    assert names == {"recipe.toml", "job.sbatch", "out.log", "exit_code", *kept}


def test_traces_are_slimmed_and_those_of_later_ranks_left_out_where_room_is_short(
    made, monkeypatch, tmp_path
):
    for rank in range(4):
        made.trace("dp4-17", rank, events=3000)
    monkeypatch.setattr(packing, "LARGEST_BYTES", 64 << 10)
    file = made.pack()
    recording = Recording(file)
    assert file.stat().st_size <= 64 << 10
    run = recording.manifest.runs[0]
    assert run.left_out
    assert not any("rank0" in name for name in run.left_out)
    recording.unpack(run, tmp_path / "out")
    from course_lib import read

    assert read.profile(tmp_path / "out" / "profile") is not None
    assert "Ev Idx" not in whole_text(made, file)
    assert "/secret" not in whole_text(made, file)


@pytest.mark.parametrize(
    "name",
    [
        "../../.bashrc", "/etc/passwd", "program/../../x", "program/.hidden", ".ssh/key", "program",
        "profile/", "memory/x.pickle", "program/model.pt", "program\\x.py", "C:/x", "other/x.json",
        "checkpoints/x.bin", "checkpoints/a/rank0.bin", "a/x.idx", "x.bin.pt",
        "program/a\nb", "program/a/b/c/d/e/f", "", "..", "exit_code/x", "program/é.py",
    ],
)  # fmt: skip
def test_a_file_elsewhere_or_of_another_kind_is_refused(made, name):
    assert not may_be_recorded(name)
    file = made.pack()
    manifest, files = made.parts(file)
    manifest["runs"][0]["files"][0][0] = name
    with pytest.raises(RecordingError, match="is not a file of a run"):
        Recording(made.forged(file, manifest, files))


@pytest.mark.parametrize("name", ["../x", "a/b", "", "x\0", "name with spaces", "é"])
def test_a_run_whose_folder_would_lie_elsewhere_is_refused(made, name):
    file = made.pack()
    manifest, files = made.parts(file)
    manifest["runs"][0]["name"] = manifest["runs"][0]["recipe"]["name"] = name
    with pytest.raises(RecordingError, match="cannot be used as a recording"):
        Recording(made.forged(file, manifest, files)).check()


def test_a_file_that_was_cut_off_or_changed_is_refused_wherever(made):
    file = made.pack()
    content = file.read_bytes()
    for length in [0, 10, 90, len(content) // 2, len(content) - 40]:
        file.write_bytes(content[:length])
        with pytest.raises(RecordingError, match="cannot be used as a recording"):
            Recording(file).check()
    for place in range(5, len(content), max(len(content) // 60, 1)):
        file.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        with pytest.raises(RecordingError, match="cannot be used as a recording"):
            Recording(file).check()


def test_files_that_are_not_those_of_the_manifest_are_refused(made):
    file = made.pack()
    manifest, files = made.parts(file)
    log = "dp4-17/out.log"
    changed = {log: files[log].replace(b"loss", b"LOSS")}
    for other, why in (
        (files | changed, "checksum"),
        (files | {"dp4-17/more.txt": b""}, "more in it"),
        (files | {log: files[log][:-1]}, "where dp4-17/out.log is listed"),
        (dict(reversed(files.items())), "is listed"),
        (dict(list(files.items())[:-1]), "it ends before"),
    ):
        with pytest.raises(RecordingError, match=why):
            Recording(made.forged(file, manifest, other)).check()


@pytest.mark.parametrize(
    "change",
    [
        {"name": "/etc/passwd"}, {"name": "../x"}, {"name": "dp4-17/../x"}, {"name": "C:/x"},
        {"type": tarfile.SYMTYPE, "linkname": "/etc/passwd", "size": 0},
        {"type": tarfile.LNKTYPE, "linkname": "/etc/passwd", "size": 0},
        {"type": tarfile.CHRTYPE, "size": 0}, {"type": tarfile.FIFOTYPE, "size": 0},
        {"type": tarfile.DIRTYPE, "size": 0}, {"size": 1 << 40},
        {"pax_headers": {"path": "../x"}}, {"pax_headers": {"size": "99999999"}},
    ],
)  # fmt: skip
def test_a_member_that_is_no_plain_file_of_its_name_writes_nothing(made, tmp_path, change):
    """Replace the first file in the tar by an entry that the manifest does not list."""
    file = made.pack()
    manifest, files = made.parts(file)
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
        first = {"manifest.json": json.dumps(manifest).encode()} | files
        for name, content in first.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            if name == next(iter(files)):
                for field, value in change.items():
                    setattr(member, field, value)
            archive.addfile(member, io.BytesIO(content) if member.size == len(content) else None)
    file.write_bytes(lzma.compress(packed.getvalue()))
    target = tmp_path / "out"
    recording = Recording(file)
    with pytest.raises(RecordingError, match="cannot be used as a recording"):
        recording.unpack(recording.manifest.runs[0], target)
    assert not target.exists()


def test_a_bomb_is_refused_before_it_is_unpacked(made, monkeypatch):
    file = made.pack()
    manifest, files = made.parts(file)
    entry = manifest["runs"][0]["files"][0]
    entry[1] = recordings.LARGEST_PART_BYTES + 1
    with pytest.raises(RecordingError, match="more than 64 MiB"):
        Recording(made.forged(file, manifest, files))
    large = tarfile.TarInfo("x")
    large.pax_headers = {"comment": "x" * (8 << 20)}
    file.write_bytes(lzma.compress(large.tobuf(tarfile.PAX_FORMAT), preset=1))
    monkeypatch.setattr(recordings, "LARGEST_BODY_BYTES", 100_000)
    with pytest.raises(RecordingError, match="it unpacks to more than"):
        Recording(file)


def test_a_file_that_is_too_large_is_not_even_read(made):
    file = made.pack()
    with file.open("r+b") as opened:
        opened.truncate(recordings.LARGEST_FILE_BYTES + 1)
    with pytest.raises(RecordingError, match="at most 16 MiB"):
        Recording(file)


def test_a_recipe_or_state_that_no_run_has_is_refused(made):
    file = made.pack()
    for change in (
        {"recipe": {"name": "dp4", "nodes": -1}},
        {"site": {"name": "x", "kind": "quantum"}},
        {"site": {"no_such_field": 1}},
        {"status": {"state": "RUNNING"}},
        {"job_id": -3},
        {"files": "all"},
        {"recipe": [1]},
    ):
        manifest, files = made.parts(file)
        manifest["runs"][0] |= change
        other = file.with_name("other.runs")
        with pytest.raises(RecordingError):
            Recording(made.forged(other, manifest, files)).check()


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"\x80\x04.", b"[" * 100_000])
def test_what_is_no_recording_is_refused_in_words(tmp_path, content):
    file = tmp_path / "x.runs"
    file.write_bytes(content)
    with pytest.raises(RecordingError, match="cannot be used as a recording"):
        Recording(file)


# Shown beside a learner's own runs (`lab.elsewhere`).
OF_OTHER_MACHINES = {"h100"}


def test_recordings_that_come_with_the_course_are_small_whole_and_of_nobody_s_machine(repository):
    lessons = {path.stem for path in (repository / "lessons").glob("*.py")}
    files = sorted((repository / "recordings").glob("*.runs"))
    assert {file.stem for file in files} == lessons | OF_OTHER_MACHINES
    for file in files:
        Recording(file).check()
        assert file.stat().st_size <= packing.LARGEST_BYTES, file.name
        told = lzma.decompress(file.read_bytes())
        assert not re.search(rb"(?<![\w.~-])/(?:w[o]rk|r[o]ot|home|opt|tmp)/[.\w]", told), file.name


STDOUT = {"output_type": "stream", "name": "stdout", "text": ["id", "le\n"]}
CELLS = [
    {"cell_type": "code", "source": ["!sinfo"], "outputs": [STDOUT]},
    {"cell_type": "code", "source": ["n = 1\n", "!sleep 1; squeue --me"], "outputs": []},
    {"cell_type": "code", "source": ["!sacct\n", "!scontrol"], "outputs": [STDOUT]},
    {"cell_type": "code", "source": ["!scancel 1\n", "!scancel 2"], "outputs": []},
    {"cell_type": "code", "source": ["!ls"], "outputs": [STDOUT]},
    {"cell_type": "markdown", "source": ["!sbatch"]},
]


def test_the_command_packs_a_file_for_each_lesson_that_was_run(made, capsys):
    executed = made.workspace.state / "executed"
    executed.mkdir()
    for name, runs in (("03_x", ["dp4-17"]), ("04_y", ["mine-18", "gone-1"])):
        metadata = {"course": {"machine": "m", "runs": runs}}
        notebook = {"metadata": metadata, "cells": CELLS}
        (executed / f"{name}.ipynb").write_text(json.dumps(notebook))
    (executed / "broken.ipynb").write_text("{")
    assert command.main(["--workspace", str(made.workspace.folder)]) == 0
    files = sorted((made.workspace.folder / "recordings").iterdir())
    assert [file.name for file in files] == ["03_x.runs", "04_y.runs"]
    found = Recording(files[1]).manifest
    assert [run.folder for run in found.runs] == ["mine-18"]
    silent = dict.fromkeys(("sleep 1; squeue --me", "scancel 1", "scancel 2"), "")
    assert found.printed == {"sinfo": "idle\n", **silent}
    assert command.main(["--check", str(files[0])]) == 0
    assert "1 runs, whole" in capsys.readouterr().out


def test_runs_of_the_box_on_another_machine_are_of_another_site(made, capsys):
    arguments = ["--workspace", str(made.workspace.folder), "--name", "mine"]
    assert command.main([*arguments, "--as-site", "box-h100"]) == 0
    [file] = (made.workspace.folder / "recordings").iterdir()
    assert {run.site["name"] for run in Recording(file).manifest.runs} == {"box-h100"}
    assert {run.site["box"] for run in Recording(file).manifest.runs} == {True}
    with pytest.raises(LabError, match="--as-site"):
        command.main([*arguments, "--as-site", "../x"])


def test_runs_of_a_translated_lesson_are_recorded_too(made):
    for language, runs in (("en", ["dp4-17"]), ("ko", ["dp4-17", "mine-18"])):
        folder = executed_in(made.workspace.folder, language)
        folder.mkdir()
        metadata = {"course": {"machine": "m", "runs": runs}}
        (folder / "03_x.ipynb").write_text(json.dumps({"metadata": metadata}))
    found = command.by_lesson(made.workspace, command.notebooks(made.workspace))
    assert [record.folder for record in found["03_x"]] == ["dp4-17", "mine-18"]


def test_runs_that_a_lesson_cleaned_are_recorded_from_where_they_were_kept(made, monkeypatch):
    from course_lib.lab.lab import Lab
    from course_lib.lab.runs.clean import KEEP

    monkeypatch.setenv(KEEP, "1")
    Lab(made.workspace.folder, site="box", quiet=True).clean("dp4", yes=True)
    assert not (made.workspace.runs / "dp4-17").exists()
    runs = packing.sources(made.workspace, Registry(made.workspace).all())
    assert [source.folder.parent.name for source in runs] == ["kept", "runs"]


@pytest.mark.parametrize(
    ("python", "workspace"),
    [("~/course/.venv/bin", "~/course/runs"), ("'/opt/Jane Doe/bin'", "'~/course/runs'")],
)
def test_a_batch_script_is_the_same_wherever_python_and_the_workspace_lie(python, workspace):
    script = f'#!/bin/bash\nexport PATH={python}:"$PATH"\necho "$PATH" > {workspace}/told\n'
    told = '#!/bin/bash\n\necho "$PATH" > ~/course/runs/told\n'
    assert anonymous.as_on_any_machine({"commands": script}) == {"commands": told}
