"""Functions of Python's standard library, paired with the first lines of their docstrings.

Every machine with Python has these data, even a compute node without internet. A sample is a row of
source words and a row of summary words, both as numbers."""

from __future__ import annotations

import ast
import random
import re
import sysconfig
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor
from torch.utils.data import Dataset

SIZES = {"train": 384, "validation": 96, "test": 96}
# Longer rows are cut. Shorter ones are padded with the end mark, which is learned like any word. So
# each sample has the same weight, and the mean of equal batches is the mean over all samples.
SOURCE_WORDS, SUMMARY_WORDS = 48, 8
END, UNKNOWN, START = range(3)
VOCABULARY = 600
# Parts of names: `readLine` and `read_line` are both `read`, `line`.
WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|[^\w\s]")


class Pairs(Dataset[tuple[Tensor, Tensor]]):
    """One of the three parts of the data, named `split`."""

    def __init__(self, split: str, sources: Tensor, summaries: Tensor) -> None:
        self.split, self.sources, self.summaries = split, sources, summaries

    def __len__(self) -> int:
        return len(self.sources)

    def __getitem__(self, number: int) -> tuple[Tensor, Tensor]:
        return self.sources[number], self.summaries[number]


def read_pairs() -> dict[str, Pairs]:
    """Return the same data on every rank: files sorted by name, then shuffled by a fixed seed."""
    rows = first_pairs(sum(SIZES.values()))
    random.Random(0).shuffle(rows)
    common = Counter(word for row in rows[: SIZES["train"]] for part in row for word in part)
    number = {word: START + n for n, (word, _) in enumerate(common.most_common(VOCABULARY - 3), 1)}
    table, begin = {}, 0
    for split, size in SIZES.items():
        part = rows[begin : begin + size]
        sources = [numbers(source, number, SOURCE_WORDS) for source, _ in part]
        summaries = [numbers(summary, number, SUMMARY_WORDS) for _, summary in part]
        table[split] = Pairs(split, torch.tensor(sources), torch.tensor(summaries))
        begin += size
    return table


def words(text: str) -> list[str]:
    return [word.lower() for word in WORD.findall(text)]


def numbers(row: list[str], number: dict[str, int], length: int) -> list[int]:
    known = [number.get(word, UNKNOWN) for word in row[:length]]
    return known + [END] * (length - len(known))


def first_pairs(count: int) -> list[tuple[list[str], list[str]]]:
    """Return the first of functions that begin alike, so that parts of the data do not overlap."""
    found: dict[tuple[str, ...], list[str]] = {}
    for path in sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py")):
        for source, summary in functions_of(path):
            found.setdefault(tuple(words(source)[:SOURCE_WORDS]), words(summary))
        if len(found) >= count:
            return [(list(source), summary) for source, summary in found.items()][:count]
    raise RuntimeError(f"only {len(found)} functions with a docstring beside {ast.__file__}")


def functions_of(path: Path) -> Iterator[tuple[str, str]]:
    """Yield each function's source without its docstring, and the docstring's first line."""
    text = path.read_text(encoding="utf-8", errors="replace")
    lines = text.splitlines()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            summary = (ast.get_docstring(node) or "").partition("\n")[0]
            first = node.body[0]
            if words(summary) and first.end_lineno:
                head = lines[node.lineno - 1 : first.lineno - 1]
                yield "\n".join(head + lines[first.end_lineno : node.end_lineno]), summary
