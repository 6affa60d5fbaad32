"""Sentences that are hard to read are listed by cell."""

from __future__ import annotations

import pytest

from course_lib.publish.building.build import main
from course_lib.publish.building.prose import findings, sentences

LONG = " ".join(["word"] * 30)


@pytest.mark.parametrize(
    ("sentence", "reasons"),
    [
        (f"{LONG}.", []),
        (f"One {LONG}.", ["31 words"]),
        ("It waits (one two three four five six seven eight).", []),
        ("It waits (one two three four five six seven eight nine).", ["9 words in parentheses"]),
        ("Whoever waits is late.", ["begins with 'Whoever'"]),
        ("**Where** a rank waits, others are late.", ["begins with 'Where'"]),
        ("Where is the time?", []),
        ("A rank waits where others are late.", []),
    ],
)
def test_a_sentence_is_listed_for_its_reasons(sentence, reasons):
    assert list(findings(sentence)) == reasons


def test_sentences_are_those_of_paragraphs_lists_and_headings():
    prose = "# A heading\n\nOne. Two with `a. B c`\nand $x. Y z$, e.g. three.\n\n- An item.\n"
    text = prose + "\n|a|b|\n|-|-|\n|Who|me|\n"
    found = [one.replace("\u00a0", " ") for one in sentences(text)]
    assert found == ["A heading", "One.", "Two with `a. B c` and `x. Y z`, e.g. three.", "An item."]
    assert list(findings(next(sentences(f"{LONG[:-5]} `several words of code`.")))) == []


def test_the_command_lists_and_changes_nothing(capsys, repository):
    assert main(["--prose"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert all(" [" in line and "]" in line for line in lines if line)
