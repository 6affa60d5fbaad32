"""Input that cannot become data is refused in one line that names the place."""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

import preprocess_data
from dataset.indexed_data import IndexedText
from dataset.tokenizer_files import vocabulary_size
from process.errors import DataError

GOOD = b'{"text": "some words, and some more words"}\n'


def preprocess(tmp_path, raw, *flags, name="in.jsonl"):
    (tmp_path / name).write_bytes(raw)
    given = flags or ("--train-vocab-size", "300")
    place = ["--input", str(tmp_path / name), "--output-prefix", str(tmp_path / "out" / "mine")]
    return preprocess_data.main([*place, *given])


@pytest.mark.parametrize(
    ("raw", "told"),
    [
        (GOOD + b'{"text": 3}\n', 'line 2: "text" is 3, not a text'),
        (GOOD + b'{"text": null}\n', 'line 2: "text" is null'),
        (GOOD + b'{"text": ["a", "b"]}\n', 'line 2: "text" is ["a", "b"]'),
        (GOOD + '{"text": "é"}\n'.encode("latin-1"), "line 2: byte 11 (0xe9) is not UTF-8"),
        (GOOD.decode().encode("utf-16"), "line 1: byte 1 (0xff) is not UTF-8"),
        (GOOD + b'{"text": "\\ud83d"}\n', "line 2: \\ud83d is half of a character"),
        (GOOD + b'["text"]\n', 'line 2: expected a JSON object with "text"'),
        (GOOD + b'"text"\n', 'line 2: expected a JSON object with "text"'),
        (GOOD + b"[" * 100_000 + b"\n", 'line 2: expected a JSON object with "text"'),
        (GOOD + b'{"text": "cut sho', 'line 2: expected a JSON object with "text"'),
        (b"", "nothing to write"),
        (b"\n\n", "nothing to write"),
        (b'{"text": ""}\n', "1 documents with 0 tokens"),
        (gzip.compress(GOOD * 1000)[:-20], "cannot be read beyond line"),
        (b"\x1f\x8bnothing of the kind", "cannot be read beyond line 0"),
    ],
)
def test_what_cannot_be_a_text_is_told_in_one_line(tmp_path, capsys, raw, told):
    assert preprocess(tmp_path, raw) == 1
    said = capsys.readouterr().err
    assert told in said
    assert said.count("\n") == 1
    assert not list(tmp_path.glob("out/mine*"))


def test_a_packed_file_is_read_whatever_it_is_called(tmp_path):
    texts = []
    for name, raw in (("a.jsonl", GOOD), ("b.jsonl", gzip.compress(GOOD)),
                      ("c.jsonl", b"\xef\xbb\xbf" + GOOD)):  # fmt: skip
        assert preprocess(tmp_path, raw, name=name) == 0
        texts.append(list(IndexedText.open(str(tmp_path / "out" / "mine_text_document")).tokens))
    assert texts[0] == texts[1] == texts[2]


def test_zstd_is_read_where_a_module_for_it_is_installed(tmp_path, capsys, monkeypatch):
    for name in ("compression.zstd", "zstandard", "pyzstd"):
        monkeypatch.setitem(sys.modules, name, None)
    packed = b"\x28\xb5\x2f\xfd and so on"
    assert preprocess(tmp_path, packed) == 1
    said = capsys.readouterr().err
    assert "`pip install zstandard`" in said
    assert said.count("\n") == 1
    (tmp_path / "unpacked").write_bytes(GOOD)
    module = ModuleType("zstandard")
    module.open = lambda path, mode: (tmp_path / "unpacked").open(mode)
    monkeypatch.setitem(sys.modules, "zstandard", module)
    assert preprocess(tmp_path, packed) == 0


@pytest.fixture
def files(tmp_path):
    """A vocabulary and its merges, as the program makes them."""
    assert preprocess(tmp_path, GOOD * 9) == 0
    return str(tmp_path / "out" / "vocab.json"), str(tmp_path / "out" / "merges.txt")


def test_swapped_or_foreign_tokenizer_files_are_told(tmp_path, files, capsys):
    vocabulary, merges = files
    foreign = tmp_path / "foreign.txt"
    foreign.write_text("#version: 0.2\nquite unknown\n")
    for first, second, told in (
        (merges, vocabulary, "--vocab-file and --merge-file swapped?"),
        (vocabulary, vocabulary, "does not belong to"),
        (vocabulary, str(foreign), "does not belong to"),
    ):
        capsys.readouterr()
        assert preprocess(tmp_path, GOOD, "--vocab-file", first, "--merge-file", second) == 1
        said = capsys.readouterr().err
        assert told in said
        assert said.count("\n") == 1


def test_training_tells_of_a_vocabulary_that_is_none(tmp_path, files):
    vocabulary, merges = files
    given = {"vocab_size": None, "tokenizer_model": None, "vocab_file": None, "data_path": None}
    size = len(json.loads(Path(vocabulary).read_text()))
    assert vocabulary_size(SimpleNamespace(**{**given, "vocab_file": vocabulary})) == size
    with pytest.raises(DataError, match="swapped"):
        vocabulary_size(SimpleNamespace(**{**given, "vocab_file": merges}))
    with pytest.raises(DataError, match=r"is no tokenizer\.json"):
        vocabulary_size(SimpleNamespace(**{**given, "tokenizer_model": vocabulary}))


@pytest.mark.parametrize(
    "flags", [("--train-vocab-size", "0"), ("--train-vocab-size", "nan"),
              ("--train-vocab-size", "300", "--workers", "-1")],
)  # fmt: skip
def test_numbers_have_their_range(tmp_path, capsys, flags):
    with pytest.raises(SystemExit) as end:
        preprocess(tmp_path, GOOD, *flags)
    assert end.value.code == 2
    assert "give a whole number, at least" in capsys.readouterr().err
