"""Convert JSON lines to tokens in Megatron-LM's indexed format.

    python code/preprocess_data.py --input text.jsonl --output-prefix data/mine \\
        --vocab-file vocab.json --merge-file merges.txt --append-eod

The program writes data/mine_text_document.bin and .idx. With --train-vocab-size N instead of the
two files, it first trains a byte-level BPE of N tokens on the text and writes its files beside the
output."""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from dataset.indexed_data import token_type, write_indexed
from dataset.tokenizer_files import read_vocabulary
from flags.parser import FlagParser
from flags.ranges import ON, TEXT, OneOf, Whole
from process.errors import DataError, run_alone
from process.reading import understood

END_OF_DOCUMENT = "<|endoftext|>"
DOCUMENTS_AT_ONCE = 256
LEAST_VOCABULARY = 257  # every byte, and the end of a document


def read_texts(path: Path, key: str) -> Iterator[str]:
    """Yield the text of each line; an entry that is not text is an error that names its line, so
    that no training reads unchecked data."""
    with path.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                text = json.loads(line.decode("utf-8-sig"))[key]
                text.encode()  # JSON can write half of a surrogate pair, which UTF-8 cannot
            except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
                raise DataError(
                    f'{path}, line {number}: expected a JSON object in UTF-8 with a text "{key}" '
                    f"({error}); --json-keys names the entry that holds the text"
                ) from error
            yield text


def train_tokenizer(texts: Iterator[str], size: int, folder: Path) -> Tokenizer:
    """Train a byte-level BPE like GPT-2's, which can encode every text.

    It starts from the 256 bytes and repeatedly merges the most frequent pair of tokens until there
    are `size` tokens: vocab.json numbers them, merges.txt lists the merges."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=[END_OF_DOCUMENT],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.model.save(str(folder))
    return tokenizer


def load_tokenizer(vocab_file: str, merge_file: str) -> Tokenizer:
    read_vocabulary(Path(vocab_file))
    cure = f"--merge-file takes the merges.txt that came with {vocab_file}"
    with understood(Path(merge_file), "merges of this vocabulary", cure):
        tokenizer = Tokenizer(models.BPE.from_file(vocab_file, merge_file))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def encode(tokenizer: Tokenizer, texts: Iterator[str], end: bool) -> Iterator[np.ndarray]:
    """Yield the token numbers of each document, in batches that use all cores."""
    last = [tokenizer.token_to_id(END_OF_DOCUMENT)] if end else []
    if last == [None]:
        raise DataError(f"--append-eod needs the token {END_OF_DOCUMENT} in the vocabulary")
    batch: list[str] = []
    for text in texts:
        batch.append(text)
        if len(batch) == DOCUMENTS_AT_ONCE:
            yield from (np.array(e.ids + last) for e in tokenizer.encode_batch_fast(batch))
            batch = []
    yield from (np.array(e.ids + last) for e in tokenizer.encode_batch_fast(batch))


FLAGS = [
    ("--input", TEXT, None, "a file of JSON lines"),
    ("--output-prefix", TEXT, None, "writes PREFIX_KEY_document.bin and .idx"),
    ("--json-keys", TEXT, "text", "key of the text in each object"),
    ("--tokenizer-type", OneOf(("GPT2BPETokenizer",)), "GPT2BPETokenizer", "byte-level BPE"),
    ("--vocab-file", TEXT, None, "vocab.json of the tokenizer"),
    ("--merge-file", TEXT, None, "merges.txt of the tokenizer"),
    ("--train-vocab-size", Whole(LEAST_VOCABULARY, 2**31 - 1), None, "train a BPE of this size"),
    ("--append-eod", ON, False, "end each document with a special token"),
    ("--workers", Whole(1, 4096), None, "processes (default: one per core)"),
]


def parse(argv: list[str] | None) -> argparse.Namespace:
    parser = FlagParser(__doc__.splitlines()[0], {"flags": FLAGS})
    return parser.parse_all(argv, ("--input", "--output-prefix"))


def main(argv: list[str] | None = None) -> int:
    args = parse(argv)
    started = time.perf_counter()
    tokens, documents = run(args)
    seconds = time.perf_counter() - started
    print(f"{documents} documents, {tokens} tokens in {seconds:.1f} s: {args.output_prefix}")
    return 0


def run(args: argparse.Namespace) -> tuple[int, int]:
    """Write the files; return the numbers of tokens and documents."""
    if args.workers:  # the tokenizer's own threads, which start at its first work
        os.environ["RAYON_NUM_THREADS"] = str(args.workers)
    source, prefix = Path(args.input), Path(args.output_prefix)
    if args.train_vocab_size and not (args.vocab_file or args.merge_file):
        texts = read_texts(source, args.json_keys)
        tokenizer = train_tokenizer(texts, args.train_vocab_size, prefix.parent)
    elif args.vocab_file and args.merge_file and not args.train_vocab_size:
        tokenizer = load_tokenizer(args.vocab_file, args.merge_file)
    else:
        raise DataError("give either --vocab-file and --merge-file, or --train-vocab-size")
    prefix.parent.mkdir(parents=True, exist_ok=True)
    count = 0

    def counted() -> Iterator[np.ndarray]:
        nonlocal count
        for tokens in encode(tokenizer, read_texts(source, args.json_keys), args.append_eod):
            count += 1
            yield tokens

    target = Path(f"{prefix}_{args.json_keys}_document")
    # Token numbers may have gaps, so the largest counts, not their number.
    largest = max(tokenizer.get_vocab().values(), default=0)
    return write_indexed(target, counted(), token_type(largest + 1)), count


if __name__ == "__main__":
    run_alone(main)
