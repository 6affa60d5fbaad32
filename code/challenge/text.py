"""Prepare the text of the challenge: one part for training, and one for the judge.

    python code/challenge/text.py --sample data/sample.jsonl --out work/challenge

The program takes documents of the sample text (code/sample_text.py), every tenth for the judge. It
writes learn_text_document and judge_text_document (.bin and .idx) with tokens of a BPE trained on
the first part alone. The same sample always gives the same bytes."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # `python -P` leaves it out

from flags.parser import FlagParser
from flags.ranges import TEXT
from process.errors import run_alone

# Characters of each document: short enough that both parts get many documents of every kind.
LETTERS = 6000
VOCABULARY = 1024
# The judge gets every tenth document.
JUDGED, OF = 7, 10
PARTS = ("learn", "judge")
FILES = ("vocab.json", "merges.txt", *(f"{part}_text_document{end}" for part in PARTS
                                       for end in (".bin", ".idx")))  # fmt: skip
FLAGS = [
    ("--sample", TEXT, "data/sample.jsonl", "text from code/sample_text.py"),
    ("--out", TEXT, "data/challenge", "folder (default: data/challenge)"),
]


def documents(sample: Path) -> Iterator[str]:
    with sample.open(encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)["text"][:LETTERS]


def write(path: Path, texts: Iterable[str]) -> None:
    with path.open("w", encoding="utf-8") as lines:
        for text in texts:
            lines.write(json.dumps({"text": text}) + "\n")


def prepare(sample: Path, out: Path) -> None:
    """Write all files into a temporary folder and move them into place at the end."""
    import preprocess_data

    numbered = list(enumerate(documents(sample)))
    with tempfile.TemporaryDirectory(dir=out, prefix=".making-") as making:
        folder = Path(making)
        write(folder / "learn.jsonl", (text for n, text in numbered if n % OF != JUDGED))
        write(folder / "judge.jsonl", (text for n, text in numbered if n % OF == JUDGED))
        known = ["--vocab-file", f"{folder}/vocab.json", "--merge-file", f"{folder}/merges.txt"]
        words = {"learn": ["--train-vocab-size", str(VOCABULARY)], "judge": known}
        for part in PARTS:
            where = ["--input", f"{folder}/{part}.jsonl", "--output-prefix", f"{folder}/{part}"]
            flags = [*where, *words[part], "--append-eod"]
            tokens, count = preprocess_data.run(preprocess_data.parse(flags))
            print(f"{part}: {count} documents, {tokens} tokens")
        for name in FILES:
            (folder / name).replace(out / name)


def main(argv: list[str] | None = None) -> int:
    args = FlagParser(__doc__.splitlines()[0], {"flags": FLAGS}).parse_all(argv)
    out = Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    prepare(Path(args.sample), out)
    return 0


if __name__ == "__main__":
    run_alone(main)
