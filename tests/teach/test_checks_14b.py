"""Lesson 14b: documents packed on four real ranks, and the size and tokens for a budget."""

from __future__ import annotations

import numpy as np
import pytest

from course_lib.teach.checks import lesson14b

from .answers_to_try import hold
from .finished_runs import hint_of, tried_with_swaps
from .own_trials import program_of

PACKED = program_of("14b_how_large_how_long", "pack-own")
tried = tried_with_swaps(PACKED, "packing")


ROW = "            if end + len(document) > length:\n                row, end = row + 1, 0\n"
FIRST_FIT = """            fits = [n for n, one in enumerate(used) if one + len(document) <= length]
            row = fits[0] if fits else len(used)
            used += [] if fits else [0]
            end = used[row]
            used[row] += len(document)
"""
COUNT = (
    "            count = (self.targets != NO_TARGET).sum()\n            dist.all_reduce(count)\n"
)
COUNT = COUNT.replace("            ", "        ")
SAME = "same = self.owners[:, :, None] == self.owners[:, None, :]"
RESULT = "return same & torch.ones_like(same).tril()"


@pytest.mark.parametrize(
    "pairs",
    [
        [],
        [(ROW, FIRST_FIT), ("places, row, end = [], -1, length", "places, used = [], []"),
         ("empty = torch.zeros(row + 1,", "empty = torch.zeros(len(used),")],
        [(RESULT, "return same & (self.positions[:, :, None] >= self.positions[:, None, :])")],
    ],
)  # fmt: skip
def test_right_ones_pass(tried, capsys, pairs):
    lesson14b.ex14b_packed(tried(*pairs))
    assert "equal to the serial result on 1, 2, 3 and 4 ranks" in capsys.readouterr().out


OWN = ("        dist.all_reduce(count)\n", "")
TARGETS = "torch.cat([document[1:], torch.tensor([NO_TARGET])])"
WRONG = {
    "positions": ([("= torch.arange(len(document))", "= torch.arange(length)[here[1]]")],
                  "Each document begins at 0"),
    "mask": ([(RESULT, "return torch.ones_like(same).tril()")], "Compare owners as well"),
    "ahead": ([(RESULT, "return same")], "causal part of the mask is missing"),
    "inverted": ([(RESULT, "return ~(same & torch.ones_like(same).tril())")],
                 "True at [row, query, key]"),
    "numbers": ([(RESULT, "return (same & same.tril()).float()")], "a tensor of bools"),
    "across": ([("            self.owners[here] = number\n",
                 "            self.owners[here] = number\n"
                 "        self.targets[:, :-1] = self.tokens[:, 1:]\n"
                 "        self.targets[self.owners < 0] = NO_TARGET\n")],
               "because no token follows"),
    "itself": ([(TARGETS, "document")], "the next token of its document"),
    "last": ([(TARGETS, "torch.cat([document[1:], document[-1:]])")], "because no token follows"),
    "padding": ([("empty + NO_TARGET", "empty.clone()")], "Set them to -100"),
    "own targets": ([OWN], "by the number of targets of all ranks"),
    "mean of ranks": ([OWN, ("each / count", "each / count / dist.get_world_size()")],
                      "without a mean over rows or ranks"),
    "all places": ([("each / count", "each / self.tokens.numel()")], "Padding has no target"),
    "sum": ([("each / count", "each")], "by the number of targets of all ranks"),
    "rows": ([(ROW, "            row, end = row + 1, 0\n")], "before you begin the next one"),
    "padding sees nothing": ([(RESULT, RESULT + " & (self.owners >= 0)[:, None]")],
                             "a position without a key gives NaN"),
    "owners of a row": ([("self.owners[here] = number", "self.owners[here] = here[1].start")],
                        "number of the document among all"),
    "owners": ([("self.owners[here] = number", "self.owners[here] = number + 1")],
               "are not document 0, whole"),
}  # fmt: skip


@pytest.mark.many(2)
@pytest.mark.parametrize("name", WRONG)
def test_wrong_packing_is_told_its_mistake(tried, name):
    pairs, words = WRONG[name]
    assert words in hint_of(lesson14b.ex14b_packed, tried(*pairs))


# The best size is 1e-1 times the root of the budget.
BEST = {budget: 0.1 * budget**0.5 for budget in (5e8, 1e9, 2e9, 4e9, 8e9)}
SIXTH, WIDTH = 32e9, 49


def count(width):
    return 256 * width + 3 * width**2


@pytest.mark.parametrize("width", [WIDTH, 40, 60, np.int64(WIDTH), f"{WIDTH}"])
def test_a_size_near_the_line_passes(workspace, capsys, width):
    lesson14b.ex14b_budget(width, SIXTH / 6 / count(int(width)), BEST, SIXTH)
    assert "✓ size and tokens use up the budget exactly" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("width", "tokens", "words"),
    [
        (..., 1, "Replace the ..."),
        (WIDTH, ..., "Replace the ..."),
        (17_888, 1e6, "A model of this width has"),
        (27, 1e6, "the best size for a smaller budget"),
        (78, 1e6, "in proportion to the compute"),
        (5, 1e6, "Continue the straight line"),
        (WIDTH, SIXTH / count(WIDTH), "6 N D is 6.00 times the budget"),
        (WIDTH, SIXTH / 2 / count(WIDTH), "6 N D is 3.00 times the budget"),
    ],
)
def test_other_sizes_are_told_their_mistake(workspace, width, tokens, words):
    assert words in hint_of(lesson14b.ex14b_budget, width, tokens, BEST, SIXTH)


def test_numbers_are_taken_in_every_form_and_wrong_ones_are_explained():
    best = {budget: 10_000 * (budget / 1e9) ** 0.5 for budget in (0.25e9, 0.5e9, 1e9, 2e9, 4e9)}
    budget, width = 16e9, 80
    tokens = budget / 6 / (3 * width**2 + 256 * width)
    widths = {
        49: "the best size for a smaller budget", 126: "in proportion to the compute",
        40_000: "A model of this width has", 10: "Continue the straight line",
    }  # fmt: skip
    spent = {tokens * 3: "6 N D is 3.00 times", tokens / 4: "0.25 times", 20: "6 N D is 0.00"}
    check = lesson14b.ex14b_budget
    hold("width", lambda answer: check(answer, tokens, best, budget), width, widths)
    hold("tokens", lambda answer: check(width, answer, best, budget), tokens, spent)
