"""Input that cannot become data is refused in one line that names the place."""

from __future__ import annotations

import gzip

import pytest

import preprocess_data
from dataset.indexed_data import IndexedText
from process.errors import run_alone

EXPECTED = 'line 2: expected a JSON object in UTF-8 with a text "text"'
GOOD = b'{"text": "some words, and some more words"}\n'


def preprocess(tmp_path, raw, *flags):
    (source := tmp_path / "in.jsonl").write_bytes(raw)
    given = flags or ("--train-vocab-size", "300")
    place = ["--input", str(source), "--output-prefix", str(tmp_path / "out" / "mine")]
    with pytest.raises(SystemExit) as end:
        run_alone(lambda: preprocess_data.main([*place, *given]))
    return end.value.code


@pytest.mark.parametrize(
    ("raw", "told"),
    [
        (GOOD + b'{"text": 3}\n', EXPECTED),
        (GOOD + '{"text": "é"}\n'.encode("latin-1"), EXPECTED),
        (GOOD + b'{"text": "\\ud83d"}\n', EXPECTED),
        (GOOD + b'{"words": 1}\n', EXPECTED),
        (GOOD + b'{"text": "cut sho', EXPECTED),
        (b"", "nothing to write"),
        (gzip.compress(GOOD, mtime=0), "line 1: expected a JSON object in UTF-8"),
    ],
)
def test_what_cannot_be_a_text_is_told_in_one_line(tmp_path, capsys, raw, told):
    assert preprocess(tmp_path, raw) == 1
    said = capsys.readouterr().err
    assert told in said
    assert said.count("\n") == 1
    assert not list(tmp_path.glob("out/mine*"))


def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path):
    texts = []
    for raw in (GOOD, b"\xef\xbb\xbf" + GOOD):
        assert preprocess(tmp_path, raw) == 0
        texts.append(list(IndexedText.open(str(tmp_path / "out" / "mine_text_document")).tokens))
    assert texts[0] == texts[1]


@pytest.fixture
def files(tmp_path):
    """A vocabulary and its merges, as the program makes them."""
    assert preprocess(tmp_path, GOOD * 9) == 0
    return str(tmp_path / "out" / "vocab.json"), str(tmp_path / "out" / "merges.txt")


def test_swapped_or_foreign_tokenizer_files_are_told(tmp_path, files, capsys):
    vocabulary, merges = files
    foreign = tmp_path / "foreign.txt"
    foreign.write_text("#version: 0.2\nquite unknown\n")
    halves = tmp_path / "halves.json"
    halves.write_text('{"a": 0.5, "b": -1}')
    for first, second, told in (
        (str(halves), merges, "cannot be read as a vocabulary"),
        (merges, vocabulary, "did you swap --vocab-file and --merge-file?"),
        (vocabulary, vocabulary, f"came with {vocabulary}"),
        (vocabulary, str(foreign), f"came with {vocabulary}"),
    ):
        capsys.readouterr()
        assert preprocess(tmp_path, GOOD, "--vocab-file", first, "--merge-file", second) == 1
        said = capsys.readouterr().err
        assert told in said
        assert said.count("\n") == 1
