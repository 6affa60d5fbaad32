"""Megatron-LM reads the course's preprocessed files, and the course reads those of its builder.

The two programs cut different samples from these files, because Megatron-LM also shuffles
documents.
"""

from __future__ import annotations

import json

import numpy as np
import pytest

import preprocess_data
from dataset.indexed_data import IndexedText, split_shares, write_indexed

TEXTS = ["def f(x):\n    return x + 1\n", "Grüße, 世界 🌍", "plain words, again and again"] * 5


@pytest.mark.slow
def test_megatron_reads_text_that_the_course_prepared(asked, tmp_path):
    source = tmp_path / "text.jsonl"
    source.write_text("\n".join(json.dumps({"text": text}) for text in TEXTS))
    flags = ["--input", str(source), "--output-prefix", str(tmp_path / "out"), "--append-eod"]
    assert preprocess_data.main([*flags, "--train-vocab-size", "300"]) == 0
    got = asked("indexed.py", {"read": str(tmp_path / "out_text_document")})
    tokenizer = preprocess_data.load_tokenizer(
        str(tmp_path / "vocab.json"), str(tmp_path / "merges.txt")
    )
    end = tokenizer.token_to_id("<|endoftext|>")
    assert [sequence[-1] for sequence in got["sequences"]] == [end] * len(TEXTS)
    assert [tokenizer.decode(sequence[:-1]) for sequence in got["sequences"]] == TEXTS
    assert got["middle"] == got["sequences"][0][1:3]
    assert (got["type"], got["ends"]) == ("uint16", list(range(len(TEXTS) + 1)))


@pytest.mark.slow
def test_it_reads_large_vocabularies_too(asked, tmp_path):
    documents = [[0, 70_000, 2**31 - 1], [5, 6]]
    write_indexed(tmp_path / "t", [np.array(tokens) for tokens in documents], np.int32)
    got = asked("indexed.py", {"read": str(tmp_path / "t")})
    assert (got["sequences"], got["type"], got["ends"]) == (documents, "int32", [0, 1, 2])


@pytest.mark.slow
@pytest.mark.parametrize(("vocabulary", "kind"), [(300, "uint16"), (100_000, "int32")])
def test_the_course_reads_what_megatrons_builder_wrote(asked, tmp_path, vocabulary, kind):
    """Documents of several sequences, as Megatron-LM writes them if text is split into
    sentences."""
    documents = [[[1, 2, 3], [4]], [[vocabulary - 1]], [[7, 8], [9], [10, 11]], [[12]]]
    question = {"write": str(tmp_path / "t"), "documents": documents, "vocabulary": vocabulary}
    assert asked("indexed.py", question) == kind
    text = IndexedText.open(str(tmp_path / "t"))
    assert text.tokens.dtype == kind
    assert text.tokens.tolist() == [1, 2, 3, 4, vocabulary - 1, 7, 8, 9, 10, 11, 12]
    train, unseen, _ = (text.share(*share) for share in split_shares("75,25,0"))
    assert (train.tolist(), unseen.tolist()) == (text.tokens[:-1].tolist(), [12])
