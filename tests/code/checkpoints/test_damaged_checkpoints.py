"""A damaged checkpoint is found before training and named; the last good one is taken."""

from __future__ import annotations

import json
import os
import re
import shutil

import one_run
import pytest
from worlds import Worlds

from checkpoints.files import CHECKSUMS, TRACKER, candidates, checksums, newest

FLAGS = [*one_run.MODEL, "--lr-decay-iters", "12", "--log-interval", "1", "--save-interval", "2"]
LOSS = re.compile(r"iteration +(\d+)/.*lm loss: (\S+) .*grad norm: (\S+) ")


def losses(text):
    return {int(n): (loss, norm) for n, loss, norm in LOSS.findall(text)}


def program(worlds, steps, *flags, ranks=1):
    argv = [*FLAGS, "--train-iters", str(steps), *flags]
    answers = worlds(ranks).run(one_run.program, argv)
    assert [code for code, _ in answers] == [0] * ranks
    return "".join(text for _, text in answers)


def refusal(worlds, *flags):
    (said,) = worlds(1).run(one_run.refusal, [*FLAGS, "--train-iters", "5", *flags])
    return said


@pytest.fixture(scope="module")
def two_saved(tmp_path_factory):
    """Checkpoints of iterations 2 and 4, written by two ranks, and the whole run's losses."""
    folder = tmp_path_factory.mktemp("saved")
    with Worlds() as worlds:
        flags = ("--tensor-model-parallel-size", "2")
        text = program(worlds, 4, "--save", str(folder), *flags, ranks=2)
    return folder, losses(text)


@pytest.fixture
def saved(two_saved, tmp_path):
    return shutil.copytree(two_saved[0], tmp_path / "saved")


def cut(file):
    file.write_bytes(file.read_bytes()[:-7])


def flip(at):
    def one_bit(file):
        content = bytearray(file.read_bytes())
        content[int(at * (len(content) - 1))] ^= 1
        file.write_bytes(content)

    return one_bit


def empty(file):
    file.write_bytes(b"")


def missing(file):
    file.unlink()


def of_the_other(file):
    """Of the right size, but of iteration 2."""
    file.write_bytes((file.parent.parent / "iter_0000002" / file.name).read_bytes())


DAMAGES = {
    "shard cut": ("__0_0.distcp", cut),
    "shard empty": ("__1_0.distcp", empty),
    "shard missing": ("__1_0.distcp", missing),
    "shard of another step": ("__1_0.distcp", of_the_other),
    "first bit of a shard": ("__0_0.distcp", flip(0)),
    "middle bit of a shard": ("__1_0.distcp", flip(0.5)),
    "last bit of a shard": ("__0_0.distcp", flip(1)),
    "metadata missing": (".metadata", missing),
    "metadata empty": (".metadata", empty),
    "metadata cut": (".metadata", cut),
    "one bit of the metadata": (".metadata", flip(0.5)),
    "model missing": ("model.json", missing),
    "one bit of the model": ("model.json", flip(0.7)),
    "checksums missing": (CHECKSUMS, missing),
    "checksums empty": (CHECKSUMS, empty),
    "checksums cut": (CHECKSUMS, cut),
    "checksums are another thing": (CHECKSUMS, lambda file: file.write_text('["a", 1]')),
}


@pytest.mark.many(2)
@pytest.mark.parametrize("kind", DAMAGES)
def test_the_last_good_checkpoint_is_taken_and_the_damage_named(worlds, saved, two_saved, kind):
    name, damage = DAMAGES[kind]
    damage(saved / "iter_0000004" / name)
    text = program(worlds, 4, "--load", str(saved))
    (line,) = [line for line in text.splitlines() if "WARNING" in line]
    assert f"iter_0000004: {name}" in line
    assert line.endswith("continuing from iter_0000002: 2 steps are lost")
    assert sorted(losses(text)) == [3, 4]
    for step, values in losses(text).items():  # float32, in another layout
        assert [float(v) for v in values] == pytest.approx(
            [float(v) for v in two_saved[1][step]], rel=1e-4
        )


def test_any_flipped_bit_of_the_checksums_is_found_or_harmless(saved):
    file = saved / "iter_0000004" / CHECKSUMS
    good = file.read_bytes()
    for at in range(len(good)):
        file.write_bytes(good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :])
        try:
            same = json.loads(file.read_bytes()) == json.loads(good)
        except ValueError:
            same = False
        one_rank_finds = _damage_alone(file.parent)
        assert same == (one_rank_finds is None), at


def _damage_alone(path):
    from checkpoints.files import _differing, _listed

    listed = _listed(path)
    return listed if isinstance(listed, str) else _differing(path, sorted(listed), listed)


@pytest.mark.parametrize(
    ("content", "said", "end"),
    [
        (None, "is missing", "continuing from iter_0000004: no step is lost"),
        (b"", "names no iteration", "continuing from iter_0000004: no step is lost"),
        (b"\xff\x00-3", "names no iteration", "continuing from iter_0000004: no step is lost"),
        ("pipe", "names no iteration", "continuing from iter_0000004: no step is lost"),
        (b"5\n", "names iteration 5, which is not there", "iter_0000004: 1 step is lost"),
    ],
)
def test_a_tracker_that_misleads_is_named(worlds, saved, content, said, end):
    (saved / TRACKER).unlink()
    if content == "pipe":  # reading it would wait for somebody who writes
        os.mkfifo(saved / TRACKER)
    elif content is not None:
        (saved / TRACKER).write_bytes(content)
    text = program(worlds, 5, "--load", str(saved))
    (line,) = [line for line in text.splitlines() if "WARNING" in line]
    assert f"{TRACKER} {said}" in line
    assert line.endswith(end)
    assert sorted(losses(text)) == [5]


def test_the_tracker_may_point_back(saved):
    (saved / TRACKER).write_text("2\n")
    assert [path.name for path in candidates(saved)] == ["iter_0000002", "iter_0000004"]


def test_killed_between_two_renames_the_replaced_checkpoint_is_taken(saved):
    (saved / "iter_0000004").rename(saved / "iter_0000004.replaced")
    assert newest(saved).name == "iter_0000004.replaced"


def test_where_nothing_is_whole_training_does_not_begin(worlds, saved):
    flip(0.3)(saved / "iter_0000002" / "__0_0.distcp")
    (saved / "iter_0000004" / ".metadata").unlink()
    said = refusal(worlds, "--load", str(saved))
    assert said.startswith(f"no checkpoint in {saved} is whole")
    assert "iter_0000004: .metadata is missing; iter_0000002: __0_0.distcp is not" in said


def test_where_only_the_tracker_is_left_training_does_not_begin(worlds, tmp_path):
    (tmp_path / TRACKER).write_text("4\n")
    assert "the checkpoints are gone" in refusal(worlds, "--load", str(tmp_path))


@pytest.mark.parametrize(
    ("flags", "was", "asked"),
    [
        ("--num-layers 2", "--num-layers 4", "--num-layers 2"),
        ("--num-attention-heads 2", "--num-attention-heads 4", "--num-attention-heads 2"),
        ("--hidden-size 64", "--hidden-size 32, --ffn-hidden-size 128", "--hidden-size 64"),
        ("--vocab-size 240", "--vocab-size 250", "--vocab-size 240"),
        ("--seq-length 32", "--seq-length 16", "--seq-length 32"),
        (
            "--max-position-embeddings 64",
            "--max-position-embeddings 16",
            "--max-position-embeddings 64",
        ),
        (
            "--untie-embeddings-and-output-weights",
            "--untie-embeddings-and-output-weights False",
            "--untie-embeddings-and-output-weights True",
        ),
    ],
)
def test_another_model_is_refused_and_both_are_named(worlds, saved, flags, was, asked):
    has, wants = refusal(worlds, "--load", str(saved), *flags.split()).split("and this run has")
    assert has.startswith(f"{saved}/iter_0000004 is the checkpoint of another model")
    assert was in has
    assert asked in wants


def test_a_load_that_is_no_folder_of_checkpoints_does_not_begin_anew(worlds, saved, tmp_path):
    (tmp_path / "file").touch()
    assert "Not a directory; give --load the folder" in refusal(
        worlds, "--load", str(tmp_path / "file")
    )
    one = saved / "iter_0000004"
    assert f"is one checkpoint; give --load the folder that it lies in, {saved}" in refusal(
        worlds, "--load", str(one)
    )
    (tmp_path / "loop").symlink_to("loop")
    assert "nothing can be loaded from" in refusal(worlds, "--load", str(tmp_path / "loop"))


def with_fitting_checksums(folder):
    listed = json.loads((folder / CHECKSUMS).read_text())
    (folder / CHECKSUMS).write_text(json.dumps(checksums(folder, listed)))


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        (".metadata", b"", "cannot be read, though its checksums are right (.metadata: "),
        ("__0_0.distcp", b"none", "cannot be read, though its checksums are right (rank 0: "),
        ("model.json", b"[1]", "model.json does not say of which model it is"),
        ("model.json", b"{}", "model.json does not say of which model it is"),
    ],
)
def test_what_another_program_wrote_is_told_in_one_line(worlds, saved, name, content, told):
    (saved / "iter_0000004" / name).write_bytes(content)
    with_fitting_checksums(saved / "iter_0000004")
    assert told in refusal(worlds, "--load", str(saved))


def test_a_checkpoint_that_was_renamed_is_told(worlds, saved):
    shutil.rmtree(saved / "iter_0000004")
    (saved / "iter_0000002").rename(saved / "iter_0000004")
    assert "iter_0000004 holds iteration 2: it was renamed" in refusal(worlds, "--load", str(saved))


def test_a_copy_with_a_shorter_name_does_not_take_the_place_of_ours(saved):
    shutil.copytree(saved / "iter_0000002", saved / "iter_4")
    assert newest(saved).name == "iter_0000004"
