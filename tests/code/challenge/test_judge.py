"""The text of the challenge is the same on every machine, and saved weights are judged
unchanged."""

from __future__ import annotations

import json
import math
import random
import shutil
from pathlib import Path

import pytest
from forked_programs import Forked

CODE = Path(__file__).resolve().parents[3] / "code"
WORDS = ["the", "quick", "brown", "fox", "jumps", "over", "lazy", "dogs", "while", "rain", "falls"]
MODEL = (
    *("--num-layers", "1", "--hidden-size", "32", "--num-attention-heads", "1"),
    *("--seq-length", "16", "--max-position-embeddings", "16", "--swiglu"),
)


def start(program, *arguments, code=0):
    ended, text = Forked(CODE / program, *arguments).end()
    assert ended == code, text
    return text


@pytest.fixture(scope="module")
def sample(tmp_path_factory):
    chance = random.Random(1)
    path = tmp_path_factory.mktemp("sample") / "sample.jsonl"
    path.write_text("".join(json.dumps({"text": document(chance)}) + "\n" for _ in range(60)))
    return path


def document(chance):
    """Document with its own sentences, which a model that has read it predicts better than
    others."""
    sentences = [" ".join(chance.choices(WORDS, k=8)) for _ in range(3)]
    return " ".join(chance.choices(sentences, k=50))


@pytest.fixture(scope="module")
def text(sample):
    start("challenge/text.py", "--sample", sample, "--out", sample.parent / "text")
    return sample.parent / "text"


@pytest.fixture(scope="module")
def trained(text):
    """The checkpoints of a run that has learned from the part that is given."""
    return learned(text, "learn", "60")


def learned(text, part, steps):
    folder = text.parent / f"checkpoints-{part}"
    start(
        "pretrain_gpt.py", *MODEL, "--micro-batch-size", "8", "--train-iters", steps,
        "--lr", "1e-2",
        "--data-path", text / f"{part}_text_document", "--split", "100,0,0", "--save", folder,
        "--distributed-backend", "gloo",
    )  # fmt: skip
    return folder


def judged(folder, *texts, seed=1, samples=128):
    said = start(
        "challenge/judge.py", "--load", folder, "--text", *texts, "--seed", seed,
        "--samples", samples,
    )  # fmt: skip
    return json.loads(said.splitlines()[-1])


def test_whoever_makes_the_text_gets_the_same_bytes(sample, text, tmp_path):
    start("challenge/text.py", "--sample", sample, "--out", tmp_path)
    names = sorted(path.name for path in text.iterdir())
    assert "judge_text_document.bin" in names
    assert names == sorted(path.name for path in tmp_path.iterdir())
    for name in names:
        assert (tmp_path / name).read_bytes() == (text / name).read_bytes(), name


def test_weights_are_judged_by_both_parts_and_say_what_they_have_seen(text, trained):
    parts = [str(text / f"{part}_text_document") for part in ("judge", "learn")]
    found = judged(trained, *parts)
    assert (found["iteration"], found["samples"]) == (60, 480)
    assert (found["model"]["hidden_size"], found["model"]["seq_length"]) == (32, 16)
    for part in parts:
        assert 1 < found["texts"][part]["loss"] < math.log(1024)
        assert 0 < found["texts"][part]["error"] < 0.2
        assert found["texts"][part]["tokens"] == 128 * 16


def test_who_has_learned_from_the_held_out_part_finds_it_easier_than_the_other(text, trained):
    judge, learn = (str(text / f"{part}_text_document") for part in ("judge", "learn"))
    honest = judged(trained, judge, learn)["texts"]
    cheat = judged(learned(text, "judge", "200"), judge, learn)["texts"]
    assert abs(honest[judge]["loss"] - honest[learn]["loss"]) < 0.1
    assert cheat[judge]["loss"] < cheat[learn]["loss"] - 0.3


def test_a_folder_without_weights_and_damaged_ones_are_told_in_a_line(text, trained, tmp_path):
    part = text / "judge_text_document"
    assert "error: give --text" in start("challenge/judge.py", "--load", tmp_path, code=2)
    said = start("challenge/judge.py", "--load", tmp_path, "--text", part, code=1)
    assert "no checkpoint in" in said
    assert "Traceback" not in said
    shutil.copytree(trained, tmp_path / "damaged")
    [file] = (tmp_path / "damaged").glob("iter_*/rank0.bin")
    file.write_bytes(file.read_bytes()[:-100])
    said = start("challenge/judge.py", "--load", tmp_path / "damaged", "--text", part, code=1)
    assert "is complete" in said
    assert "Traceback" not in said
