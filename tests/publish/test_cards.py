"""A card has a lesson's commands and calls on one page, and no answer."""

from __future__ import annotations

import re

import pytest

from course_lib.cli import main
from course_lib.publish import cards
from course_lib.publish.building.source import lessons_in, read_lesson
from course_lib.publish.cards import Call, Card

LESSON = """# %% [markdown] id="title"
# # 98 A lesson
#
# | | |
# |---|---|
# | You will be able to | see a `<b>` and **more** |
# | Minutes | 30 |

# %% id="begin"
from course_lib import Lab, shell, show

lab = Lab()
run = lab.submit(shell.recipe("x", "true"))
# !sleep 2; squeue --me -j {run.job_id}

# %% id="bash"
# %%bash
sinfo -N

# %% id="gap" tags=["exercise"]
### BEGIN SOLUTION
### GAP answer = ...
answer = lab.tensorboard("the secret 42")
### END SOLUTION

# %% id="only" tags=["solution"]
lab.cancel("secret 42")

# %% [markdown] id="home"
# ## To take home
#
# - One [link](../x.md)
#   and `a < b`.
# - Two.
#
# Lesson 99 goes on.
"""


@pytest.fixture
def card(tmp_path):
    path = tmp_path / "98_a_lesson.py"
    path.write_text(LESSON)
    [(_, made)] = cards.cards([read_lesson(path)])
    return made


def test_a_card_is_read_from_the_lesson(card):
    assert (card.title, card.facts) == ("98 A lesson", "Minutes: 30")
    assert card.commands == ("squeue --me -j JOB_ID", "sinfo -N")
    assert [call.name for call in card.new] == ["lab.submit", "shell.recipe"]
    assert card.new[0].says == "The run of this recipe, an existing or a new one."
    assert card.take_home == ("One [link](../x.md) and `a < b`.", "Two.")


def test_no_answer_stands_on_it(card):
    for text in (cards.markdown(card), cards.html(card)):
        assert "42" not in text
        assert "tensorboard" not in text
        assert "cancel" not in text


def test_what_an_earlier_lesson_brought_is_not_new_again(tmp_path):
    lessons = []
    for number in (97, 98):
        path = tmp_path / f"{number}_x.py"
        path.write_text(LESSON)
        lessons.append(read_lesson(path))
    (_, first), (_, second) = cards.cards(lessons)
    assert second.new == ()
    assert second.known == tuple(call.name for call in first.new)


def test_the_page_is_html_in_which_words_of_the_lesson_are_words(card):
    text = cards.html(card)
    assert "see a <code>&lt;b&gt;</code> and <strong>more</strong>" in text
    assert "<code>a &lt; b</code>" in text
    assert "One link" in text
    evil = Card("<script>", "<script>", "<script>", ("<script>",), (Call("<script>", "<script>"),),
                ("<script>",), ("<script>",))  # fmt: skip
    assert "<script" not in cards.html(evil)


def test_every_lesson_has_a_card_with_something_to_take_home(repository):
    lessons = [read_lesson(path) for path in lessons_in(repository / "lessons", "py")]
    made = cards.cards(lessons)
    assert len(made) == len(lessons)
    for lesson, one in made:
        assert one.goal, lesson.name
        assert one.facts, lesson.name
        assert len(one.take_home) >= 3, lesson.name
        assert all("\n" not in call.says for call in one.new), lesson.name
        assert not re.search(r"[{}]", " ".join(one.commands).replace("{print", "")), lesson.name


def test_the_command_makes_those_that_are_named(tmp_path, capsys):
    assert main(["cards", "00", "07b", "--out", str(tmp_path)]) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "00_the_lab.html", "00_the_lab.md",
        "07b_pipelines_and_both.html", "07b_pipelines_and_both.md",
    ]  # fmt: skip
    assert main(["cards", "99", "--out", str(tmp_path)]) == 2
    assert "'99' begins no lesson" in capsys.readouterr().err


@pytest.mark.browser
def test_every_card_is_one_page(repository, browser):
    lessons = [read_lesson(path) for path in lessons_in(repository / "lessons", "py")]
    window = browser.new_page()
    long = []
    for lesson, card in cards.cards(lessons):
        window.set_content(cards.html(card))
        printed = window.pdf(prefer_css_page_size=True)
        if (count := len(re.findall(rb"/Type\s*/Page[^s]", printed))) != 1:
            long.append((lesson.name, count))
    window.close()
    assert long == []
