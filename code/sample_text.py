"""Prepare a text for training without internet: the source of Python's standard library.

    python code/sample_text.py --out data

The program writes sample.jsonl (one document per module), a byte-level BPE trained on it
(vocab.json, merges.txt), and sample_text_document.bin and .idx. A second call returns at once."""

from __future__ import annotations

import fcntl
import json
import random
import shutil
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path

from flags.parser import FlagParser
from flags.ranges import TEXT
from process.errors import run_alone

LEAST_BYTES = 10_000_000
MOST_BYTES = 16_000_000
VOCABULARY = 8192
FILES = ("sample.jsonl", "vocab.json", "merges.txt", "sample_text_document.bin",
         "sample_text_document.idx")  # fmt: skip
FLAGS = [("--out", TEXT, "data", "folder (default: data)")]


def sources(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield modules of the standard library: the most instructive first, its own tests last."""
    files = [path for path in folder.rglob("*.py") if "site-packages" not in path.parts]
    names = sorted((path.relative_to(folder).as_posix(), path) for path in files)
    names.sort(key=lambda pair: "test" in pair[0].split("/")[0] or "/test" in pair[0])
    for name, path in names:
        try:
            text = path.read_text(encoding="utf-8")
        except (UnicodeDecodeError, OSError):  # some of its tests are damaged on purpose
            continue
        if len(text) > 200:
            yield name, text


def documents() -> Iterator[tuple[str, str]]:
    """Yield about LEAST_BYTES to MOST_BYTES of modules, if the installation has them."""
    size = 0
    for name, text in sources(Path(sysconfig.get_path("stdlib"))):
        yield name, text
        size += len(text.encode())
        if size > MOST_BYTES:
            return
    if size < LEAST_BYTES:  # a Python without its tests: add installed packages
        for name, text in sources(Path(sysconfig.get_path("purelib"))):
            yield name, text
            size += len(text.encode())
            if size > LEAST_BYTES:
                return


def prepare(out: Path) -> None:
    """Write all files into a temporary folder and move them into place, the index last."""
    import preprocess_data

    with tempfile.TemporaryDirectory(dir=out, prefix=".making-") as making:
        folder = Path(making)
        with (folder / "sample.jsonl").open("w", encoding="utf-8") as lines:
            found = list(documents())
            random.Random(1).shuffle(found)  # so that each share of --split has all kinds
            for name, text in found:
                lines.write(json.dumps({"name": name, "text": text}) + "\n")
        flags = f"--train-vocab-size {VOCABULARY} --append-eod".split()
        where = ["--input", f"{folder}/sample.jsonl", "--output-prefix", f"{folder}/sample"]
        tokens, count = preprocess_data.run(preprocess_data.parse([*where, *flags]))
        for name in FILES:
            (folder / name).replace(out / name)
    print(f"{count} modules, {tokens} tokens of {VOCABULARY} kinds in {out}")


def main(argv: list[str] | None = None) -> int:
    out = Path(FlagParser(__doc__.splitlines()[0], {"flags": FLAGS}).parse_all(argv).out)
    out.mkdir(parents=True, exist_ok=True)
    with (out / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # a second call waits for the first, then finds the files
        if all((out / name).is_file() for name in FILES):
            print(f"sample text is ready in {out}")
            return 0
        for leftover in out.glob(".making-*"):
            shutil.rmtree(leftover, ignore_errors=True)
        print(f"preparing the sample text in {out} …", flush=True)
        prepare(out)
    return 0


if __name__ == "__main__":
    run_alone(main)
