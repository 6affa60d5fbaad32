"""A damaged checkpoint is found and named before training, and the last good one is loaded."""

from __future__ import annotations

import json
import os
import pickle
import re
import shutil
import tempfile
from pathlib import Path

import one_run
import pytest
from worlds import Worlds

from checkpoints.files import CHECKSUMS, TRACKER, checksums, newest

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


def missing(file):
    file.unlink()


DAMAGES = {
    "shard cut": ("rank0.bin", cut),
    "middle bit of a shard": ("rank1.bin", flip(0.5)),
    "metadata missing": ("tensors.json", missing),
    "one bit of the metadata": ("tensors.json", flip(0.5)),
    "checksums cut": (CHECKSUMS, cut),
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
        (b"four\n", "names no iteration", "continuing from iter_0000004: no steps are lost"),
        (b"5\n", "names iteration 5, which is not there", "iter_0000004: 1 step is lost"),
    ],
)
def test_a_tracker_that_misleads_is_named(worlds, saved, content, said, end):
    (saved / TRACKER).write_bytes(content)
    text = program(worlds, 5, "--load", str(saved))
    (line,) = [line for line in text.splitlines() if "WARNING" in line]
    assert f"{TRACKER} {said}" in line
    assert line.endswith(end)
    assert sorted(losses(text)) == [5]


def test_killed_between_two_renames_the_replaced_checkpoint_is_taken(saved):
    (saved / "iter_0000004").rename(saved / "iter_0000004.replaced")
    assert newest(saved).name == "iter_0000004.replaced"


def test_where_nothing_is_whole_training_does_not_begin(worlds, saved):
    flip(0.3)(saved / "iter_0000002" / "rank0.bin")
    (saved / "iter_0000004" / "tensors.json").unlink()
    said = refusal(worlds, "--load", str(saved))
    assert said.startswith(f"no checkpoint in {saved} is complete")
    assert "iter_0000004: tensors.json is missing; iter_0000002: rank0.bin is damaged" in said


def test_where_only_the_tracker_is_left_training_does_not_begin(worlds, tmp_path):
    (tmp_path / TRACKER).write_text("4\n")
    assert "the checkpoints are gone" in refusal(worlds, "--load", str(tmp_path))


@pytest.mark.parametrize(
    ("flags", "was", "asked"),
    [
        ("--num-layers 2", "--num-layers 4", "--num-layers 2"),
        ("--vocab-size 240", "--vocab-size 250", "--vocab-size 240"),
        (
            "--untie-embeddings-and-output-weights",
            "--untie-embeddings-and-output-weights False",
            "--untie-embeddings-and-output-weights True",
        ),
    ],
)
def test_another_model_is_refused_and_both_are_named(worlds, saved, flags, was, asked):
    has, wants = refusal(worlds, "--load", str(saved), *flags.split()).split("and this run has")
    assert has.startswith(f"{saved}/iter_0000004 is a checkpoint of another model")
    assert was in has
    assert asked in wants


def with_fitting_checksums(folder):
    listed = json.loads((folder / CHECKSUMS).read_text())
    (folder / CHECKSUMS).write_text(json.dumps(checksums(folder, listed)))


class Hostile:
    """Object that, as a pickle, makes a folder when it is read."""

    def __reduce__(self):
        return os.mkdir, (Path(tempfile.gettempdir()) / f"hostile-{os.getpid()}",)


def changed(**values):
    """Change each value of a JSON file, or of its first tensor."""

    def change(file):
        content = json.loads(file.read_text())
        for name, value in values.items():
            place = content if name in content else next(iter(content.values()))
            place[name] = value
        file.write_text(json.dumps(content))

    return change


def first_slice(name, value):
    def change(file):
        content = json.loads(file.read_text())
        content["weight.word.weight"]["slices"][0][name] = value
        file.write_text(json.dumps(content))

    return change


def scaled(value):
    """A scale without end would stay so, and no step would ever be taken."""

    def change(file):
        content = json.loads(file.read_text())
        content["loss_scale"]["scale"] = value
        file.write_text(json.dumps(content))

    return change


def told(content):
    return lambda file: file.write_bytes(content)


PROGRESS = {"iteration": 4, "consumed_samples": 32}
FOREIGN = {
    "a pickle for tensors": ("tensors.json", told(pickle.dumps(Hostile())), "is not readable"),
    "a pickle for a model": ("model.json", told(pickle.dumps(Hostile())), "is not readable"),
    "a pickle for numbers": ("rank0.bin", told(pickle.dumps(Hostile())), "is missing in its file"),
    "a file elsewhere": ("tensors.json", first_slice("file", "../rank0.bin"), "../rank0.bin"),
    "behind the end": ("tensors.json", first_slice("start", 2**40), "is missing in its file"),
    "outside of it": ("tensors.json", first_slice("offsets", [2**40, 0]), "lies outside of it"),
    "nested deeply": ("model.json", told(b"[" * 100_000), "model.json is not readable"),
    "steps": ("progress.json", changed(adam_steps=float("nan")), "progress.json is not readable"),
    "a scale": ("progress.json", scaled(float("inf")), "progress.json is not readable"),
    "another type": ("tensors.json", changed(type="object"), "'object'"),
    "another count": (
        "progress.json",
        changed(progress=PROGRESS | {"adam": 0}),
        "unexpected keyword argument",
    ),
    "half a sample": (
        "progress.json",
        changed(progress=PROGRESS | {"consumed_samples": 1.5}),
        "cannot be interpreted as an integer",
    ),
}


@pytest.mark.parametrize("kind", FOREIGN)
def test_what_another_program_wrote_is_told_in_one_sentence_and_never_run(worlds, saved, kind):
    name, write, said = FOREIGN[kind]
    write(saved / "iter_0000004" / name)
    with_fitting_checksums(saved / "iter_0000004")
    heard = refusal(worlds, "--load", str(saved))
    assert heard.startswith(f"{saved}/iter_0000004 cannot be read, though its checksums are right")
    assert said in heard
    assert "\n" not in heard
    assert not list(Path(tempfile.gettempdir()).glob("hostile-*"))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"[1]", "is not readable"),
        (b'{"tensors.json": [1, -1]}', "does not list model.json"),
        ("directory", "is not readable"),
        ("pipe", "is not readable"),  # whose reader would wait for a writer
    ],
)
def test_checksums_of_a_stranger_are_told(saved, content, said):
    file = saved / "iter_0000004" / CHECKSUMS
    file.unlink()
    if content == "directory":
        file.mkdir()
    elif content == "pipe":
        os.mkfifo(file)
    else:
        file.write_bytes(content)
    assert said in _damage_alone(file.parent)


def test_a_checkpoint_that_was_renamed_is_told(worlds, saved):
    shutil.rmtree(saved / "iter_0000004")
    (saved / "iter_0000002").rename(saved / "iter_0000004")
    assert "iter_0000004 holds iteration 2" in refusal(worlds, "--load", str(saved))
