"""Text in the indexed format, and the samples that each rank reads."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import preprocess_data
from dataset.indexed_data import IndexedText, check_present, split_shares, write_indexed
from dataset.samples import Loader, RandomSamples, Samples, make_loaders
from dataset.tokenizer_files import vocabulary_size
from parallel.layout import Group
from process.errors import DataError


def test_the_files_are_megatrons_to_the_byte(tmp_path):
    write_indexed(tmp_path / "t", [np.array([1, 2, 3]), np.array([4])], np.uint16)
    assert (tmp_path / "t.bin").read_bytes() == struct.pack("<4H", 1, 2, 3, 4)
    assert (tmp_path / "t.idx").read_bytes() == (
        b"MMIDIDX\x00\x00" + struct.pack("<QBQQ", 1, 8, 2, 3)
        + struct.pack("<2i", 3, 1) + struct.pack("<2q", 0, 6) + struct.pack("<3q", 0, 1, 2)
    )  # fmt: skip


def test_shares_are_of_documents(tmp_path):
    documents = [np.full(10, number) for number in range(10)]
    write_indexed(tmp_path / "t", documents, np.int32)
    text = IndexedText.open(str(tmp_path / "t"))
    train, valid, test = (text.share(*share) for share in split_shares("80,10,10"))
    assert (set(train), set(valid), set(test)) == (set(range(8)), {8}, {9})


@pytest.mark.parametrize(
    "change",
    [
        lambda raw: raw[:40],
        lambda raw: b"something else" * 9,
        lambda raw: raw[:18] + b"\xff" * 16 + raw[34:],  # more sequences than numpy can count
        lambda raw: raw[:17] + b"\x07" + raw[18:],  # float32, which may be NaN
    ],
    ids=["cut off", "foreign", "huge", "floats"],
)
def test_a_damaged_file_is_told(tmp_path, change):
    write_indexed(tmp_path / "t", [np.array([1, 2, 3])], np.int32)
    index = tmp_path / "t.idx"
    index.write_bytes(change(index.read_bytes()))
    with pytest.raises(DataError, match="cannot be read as an index in Megatron's format"):
        IndexedText.open(str(tmp_path / "t"))


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("t.bin", "without the ending"),
        ("nowhere", "sample_text.py"),
    ],
)
def test_a_wrong_name_of_data_is_answered_with_the_right_one(tmp_path, name, told):
    write_indexed(tmp_path / "t", [np.array([1, 2, 3])], np.int32)
    with pytest.raises(DataError, match=told):
        check_present(str(tmp_path / name))


def test_sizes_of_vocabularies_follow_from_the_largest_number(tmp_path):
    """The number of tokens is not enough, because tokens that were added later have larger
    numbers."""
    (tmp_path / "vocab.json").write_text(json.dumps({"a": 0, "b": 7}))

    def size(name):
        given = {"vocab_size": None, "vocab_file": str(tmp_path / name), "data_path": None}
        return vocabulary_size(SimpleNamespace(**given))

    assert size("vocab.json") == 8
    with pytest.raises(DataError, match=r"/none\.json does not exist .*sample_text\.py"):
        size("none.json")


def at(file, place, value):
    with file.open("r+b") as changed:
        changed.seek(place)
        changed.write(value.to_bytes(4, "little", signed=True))


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (lambda t: os.truncate(f"{t}.bin", 10), "has 10 bytes, but its index lists 6 tokens"),
        (lambda t: at(Path(f"{t}.idx"), 17, 7 + 2 * 256), "cannot be read"),  # of floats
        (lambda t: at(Path(f"{t}.idx"), 34, -3), "do not follow one another"),
        (lambda t: at(Path(f"{t}.idx"), 42, 5), "do not follow one another"),  # another start
        (lambda t: at(Path(f"{t}.idx"), 66, 9), "do not follow one another"),  # 9 documents
    ],
)
def test_data_that_does_not_fit_its_index_is_told(tmp_path, damage, told):
    """With an incomplete copy, a run would silently train on less text."""
    write_indexed(tmp_path / "t", [np.array([1, 2, 3])] * 2, np.uint16)
    damage(tmp_path / "t")
    with pytest.raises(DataError, match=told):
        IndexedText.open(str(tmp_path / "t"))


@pytest.mark.parametrize("token", [250, -1])
def test_a_token_that_the_vocabulary_does_not_have_is_told(token):
    """Otherwise tensor ranks would look the token up as zeros, and continue to train."""
    tokens = np.arange(100, dtype=np.int32)
    tokens[40] = token
    one = loader(Samples(tokens, 8, seed=1, name="train"), Group([0], 0), vocabulary=250)
    with pytest.raises(DataError, match=f"the data has token {token} .*vocabulary has 0 to 249"):
        one.batch(0, 6)


def test_such_a_token_is_found_when_the_text_is_opened(tmp_path):
    """The error must not wait until the sample is read, perhaps days later."""
    tokens = np.arange(100)
    tokens[97] = 251
    write_indexed(tmp_path / "t", [tokens], np.uint16)
    args = SimpleNamespace(eval_iters=0, mock_data=False, data_path=str(tmp_path / "t"),
                           vocab_size=250, split="1", seq_length=8, seed=1)  # fmt: skip
    with pytest.raises(DataError, match=r"token 251 \(in .*t\.bin\)"):
        make_loaders(args, None, torch.device("cpu"))


def loader(samples, data, context=None, micro=2, length=8, vocabulary=1000):
    layout = SimpleNamespace(data=data, context=context or Group([0], 0))
    args = SimpleNamespace(micro_batch_size=micro, seq_length=length, vocab_size=vocabulary)
    return Loader(samples, args, layout, torch.device("cpu"))


def test_data_ranks_share_the_samples_and_leave_none_out():
    samples = RandomSamples(100, 8, seed=1)
    alone = loader(samples, Group([0], 0), micro=8).micro_batch(16, 0)[0].view(8, 8)
    parts = [
        loader(samples, Group([0, 1], rank)).micro_batch(16, number)[0].view(8, 2)
        for number in range(2)
        for rank in range(2)
    ]
    assert torch.equal(torch.cat(parts, 1), alone)


def test_context_ranks_have_an_early_and_a_late_piece_each():
    samples = RandomSamples(100, 8, seed=1)
    whole = loader(samples, Group([0], 0)).micro_batch(0, 0)[0].view(8, 2)
    for rank, positions in enumerate(([0, 1, 6, 7], [2, 3, 4, 5])):
        part = loader(samples, Group([0], 0), Group([0, 1], rank)).micro_batch(0, 0)[0]
        assert torch.equal(part.view(4, 2), whole[positions])


def test_every_epoch_sees_each_sample_once_in_another_order():
    samples = Samples(np.arange(81), 8, seed=1, name="train")
    epochs = [[int(samples.sample(10 * epoch + n)[0]) for n in range(10)] for epoch in range(2)]
    assert sorted(epochs[0]) == sorted(epochs[1]) == list(range(0, 80, 8))
    assert epochs[0] != epochs[1]


def test_text_survives_the_tokenizer(tmp_path, capsys):
    texts = ["def f(x):\n    return x + 1\n", "Grüße, 世界 🌍", "plain words, again and again"] * 5
    source = tmp_path / "text.jsonl"
    source.write_text("\n".join(json.dumps({"text": text}) for text in texts))
    flags = ["--input", str(source), "--output-prefix", str(tmp_path / "out"), "--append-eod"]
    assert preprocess_data.main([*flags, "--train-vocab-size", "300"]) == 0
    assert "15 documents" in capsys.readouterr().out
    text = IndexedText.open(str(tmp_path / "out_text_document"))
    names = str(tmp_path / "vocab.json"), str(tmp_path / "merges.txt")
    tokenizer = preprocess_data.load_tokenizer(*names)
    lengths = np.cumsum(text.lengths)
    got = [tokenizer.decode(list(part[:-1])) for part in np.split(text.tokens, lengths[:-1])]
    assert got == texts
    end = tokenizer.token_to_id("<|endoftext|>")
    assert {int(text.tokens[stop - 1]) for stop in lengths} == {end}
    first = text.tokens.tobytes()
    given = ["--vocab-file", names[0], "--merge-file", names[1]]
    assert preprocess_data.main([*flags, *given]) == 0
    assert IndexedText.open(str(tmp_path / "out_text_document")).tokens.tobytes() == first


@pytest.mark.slow
def test_the_sample_text_is_made_once_even_when_asked_for_twice(repository, tmp_path):
    (tmp_path / ".making-old").mkdir()  # left by a call that was killed
    command = [sys.executable, str(repository / "code" / "sample_text.py"), "--out", str(tmp_path)]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    told = [process.communicate(timeout=240)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert sum("ready in" in text and "preparing" not in text for text in told) == 1
    assert (tmp_path / "sample.jsonl").stat().st_size >= 10_000_000
    text = IndexedText.open(str(tmp_path / "sample_text_document"))
    assert len(text.tokens) == text.lengths.sum()
    assert not list(tmp_path.glob(".making*"))
