"""A lesson as slides: cells, titles and spoken sentences."""

from __future__ import annotations

import nbformat
import pytest
from nbformat.v4 import new_output

from course_lib.lab.errors import LabError
from course_lib.publish.book import origin
from course_lib.publish.book.page import Shown
from course_lib.publish.building.build import build_text
from course_lib.publish.building.source import LessonError, lessons_in, number_of, read_lesson
from course_lib.publish.slides import pages, pdf, prose, site, slide_html
from course_lib.publish.slides.deck import slides_of
from course_lib.publish.slides.results import Measured, measured, table

LESSON = """# %% [markdown] id="title"
# # 00 A lesson
#
# It begins here.
#
# | | |
# |---|---|
# | You will be able to | do one thing; do another |
# | Minutes | 30 |
# | Devices | 1 |
# | Before | nothing |

# %% [markdown] id="road-idea"
# ## The road
#
# A **link** joins two nodes.
#
# **Predict.** There are two nodes. How fast is the link?

# %% id="road-guess"
### BEGIN SOLUTION
### GAP guess = ...  # GB/s
guess = 7
### END SOLUTION

# %% id="road-see"
show.curve(run)

# %% id="road-claim" tags=["claim"]
claim("the link is slow", speed, most=1, unit="GB/s")

# %% [markdown] id="road-explain"
# **Explain.** It is slow because it is long.

# %% [markdown] id="bare-idea"
# ## Only words
#
# This section has words alone. They are few.

# %% [markdown] id="moves-idea"
# ## It moves

# %% id="moves"
show.moving.collective("all-gather", ranks=3)

# %% [markdown] id="ex1" tags=["exercise"]
# ## Exercises
#
# > **Exercise 00.1** — Find out
# > how long it is.

# %% id="ex1-gap" tags=["exercise"]
### BEGIN SOLUTION
secret = 8161
### END SOLUTION

# %% [markdown] id="ex1-why" tags=["solution"]
# Because of that.

# %% [markdown] id="home"
# ## To take home
#
# - Links are slow.

# %% [markdown] id="clean"
# ## Cleaning up
#
# All runs go.
"""
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNkYAAAAAYAAjCB0C8AAAAASUVORK5CYII="


@pytest.fixture
def lesson(tmp_path):
    path = tmp_path / "00_a_lesson.py"
    path.write_text(LESSON)
    return read_lesson(path)


def ran(lesson, **outputs):
    notebook = nbformat.reads(build_text(lesson, with_answers=True), as_version=4)
    for cell in notebook.cells:
        cell.outputs = outputs.get(cell.id.replace("-", "_"), [])
    return notebook


def deck(lesson, notebook=None, **sentences):
    told = {name.replace("_", "-"): text for name, text in sentences.items()}
    return {slide.id: slide for slide in slides_of(lesson, Shown(notebook), told)}


def of_a_run(lesson):
    claimed = "✓ holds here: the link is slow (0.3 GB/s; claimed: it is at most 1)\n"
    return ran(
        lesson,
        road_see=[new_output("display_data", {"image/png": PNG, "text/plain": "a curve"})],
        road_claim=[new_output("stream", name="stdout", text=claimed)],
    )


def test_questions_pictures_exercises_and_what_to_take_home_become_slides(lesson):
    made = deck(lesson, of_a_run(lesson))
    assert [slide.kind for slide in made.values()] == [
        "lesson", "question", "figure", "moving", "exercise", "home", "recap",
    ]  # fmt: skip


def test_the_question_is_the_title_and_what_leads_to_it_stands_below(lesson):
    question = deck(lesson)["road-idea"]
    assert question.title == "How fast is the link?"
    assert "There are two nodes." in question.body
    assert "GB/s" in question.body, "what to write down"
    assert any("joins two nodes" in note for note in question.notes)


def test_a_sentence_of_the_file_is_the_title_and_false_leaves_a_slide_out(lesson):
    notebook = of_a_run(lesson)
    assert deck(lesson, notebook, road_see="Slow it is.")["road-see"].title == "Slow it is."
    assert "road-see" not in deck(lesson, notebook, road_see=False)
    shown = deck(lesson, notebook, road_explain="It is long.")
    assert shown["road-explain"].kind == "statement"


def test_what_was_claimed_stands_below_its_picture_and_in_the_recap(lesson):
    made = deck(lesson, of_a_run(lesson))
    assert "0.3 <small>GB/s</small>" in made["road-see"].body
    assert "0.3 GB/s" in made["recap"].body
    assert all("the link is slow" in made[name].body for name in ("road-see", "recap"))
    assert made["road-see"].is_measured


def test_a_claim_that_did_not_hold_takes_its_slide_the_sentence(lesson):
    claimed = "✗ not here: the link is slow (3 GB/s; claimed: it is at most 1)\n"
    notebook = ran(lesson, road_claim=[new_output("stream", name="stdout", text=claimed)])
    made = deck(lesson, notebook, road_see=False, road_claim="Links are slow.")
    assert made["road-claim"].title == "Not so in this run: the link is slow"
    assert "not-here" in made["road-claim"].body


def test_without_a_run_a_picture_is_said_to_be_missing_and_no_claim_is_shown(lesson):
    made = deck(lesson)
    assert made["road-see"].kind == "missing"
    assert "was not run for this deck" in made["road-see"].body
    assert "the link is slow" not in made["road-see"].body + made["recap"].body


def test_moving_diagrams_need_no_run(lesson):
    moving = deck(lesson)["moves"]
    assert moving.kind == "moving"
    assert moving.body.count("<img ") == 3, "before, and two steps"
    assert moving.body.count("frame fragment") == 2


def test_a_picture_of_frames_may_move_instead(tmp_path):
    path = tmp_path / "00_a_lesson.py"
    path.write_text(LESSON.replace("# This section has words alone. They are few.",
                                   "# ![frames](../images/ddp_step.png)"))  # fmt: skip
    told = {"title": "It moves.", "moving": "ddp_step(ranks=3)"}
    slide = deck(read_lesson(path), bare_idea=told)["bare-idea"]
    assert (slide.kind, slide.title) == ("moving", "It moves.")


def test_the_recap_names_terms_and_exercises_but_no_answer(lesson):
    recap = deck(lesson, terms=["link"])["recap"].body
    assert "<li>link</li>" in recap
    assert "Find out how long it is." in recap
    assert "8161" not in "".join(slide.body for slide in deck(lesson).values())


def test_the_answer_is_in_the_notes_of_its_exercise(lesson):
    notes = deck(lesson)["ex1"].notes
    assert any("Because of that." in note for note in notes)
    assert any("secret = 8161" in note for note in notes)


def test_all_prose_is_in_the_notes_and_cleaning_up_is_not_shown(lesson):
    said = " ".join(note for slide in deck(lesson).values() for note in slide.notes)
    for words in ("It begins here.", "A **link** joins", "because it is long", "words alone"):
        assert words in said
    assert all("Cleaning" not in slide.title for slide in deck(lesson).values())


def test_nothing_of_an_output_is_taken_over_as_html(lesson):
    evil = "<script>alert(1)</script><img src=x onerror=alert(2)>"
    frame = (
        '<table class="dataframe"><tr><th>a</th></tr><tr><td>&lt;b onclick=x&gt;</td></tr></table>'
    )
    notebook = ran(
        lesson,
        road_see=[
            new_output("display_data", {"text/html": evil, "image/png": f'{PNG}"><script>'}),
            new_output("display_data", {"image/png": PNG, "text/plain": f'"{evil}'}),
        ],
        road_claim=[
            new_output("stream", name="stdout", text=f"✓ holds here: {evil} (1; claimed: it is)\n")
        ],
    )
    text = "".join(
        pages.of_lesson(slide, lesson, Shown(notebook)) for slide in deck(lesson, notebook).values()
    )
    assert "alert(1)" in text
    assert "<script" not in text
    assert "<img src=x" not in text
    rows = table([{"data": {"text/html": frame}}])
    assert rows == [["a"], ["<b onclick=x>"]]


def test_the_corner_of_a_table_names_rows_and_columns():
    head = "<tr><th>rank</th><th>0</th></tr><tr><th>iteration</th><th></th></tr>"
    html = f'<table class="dataframe"><thead>{head}</thead><tr><th>1</th><td>9</td></tr></table>'
    rows = table([{"data": {"text/html": html}}])
    assert rows == [["iteration ↓ rank →", "0"], ["1", "9"]]


def test_rows_that_pandas_only_counts_lose_their_numbers():
    assert slide_html.table([["", "x"], ["0", "a"], ["1", "b"]]).count("<td") == 2


def test_a_claim_is_read_from_what_it_printed():
    line = "✗ not here: it (mostly) works (88.5 %; claimed: it lies between 1 and 2)"
    output = {"output_type": "stream", "text": line}
    wanted = Measured("it (mostly) works", "88.5 %", "lies between 1 and 2", holds=False)
    assert measured([output]) == [wanted]


@pytest.mark.parametrize(("claimed", "shown"), [("rank, least=1, most=1", ">1<"), ("ok", ">yes<")])
def test_a_number_is_none_that_is_true_or_not(lesson, claimed, shown):
    text = LESSON.replace('speed, most=1, unit="GB/s"', claimed)
    lesson.path.write_text(text)
    lesson = read_lesson(lesson.path)
    line = "✓ holds here: the link is slow (1; claimed: it is 1)\n"
    notebook = ran(lesson, road_claim=[new_output("stream", name="stdout", text=line)])
    assert shown in deck(lesson, notebook, road_see=False)["road-claim"].body


def test_a_number_without_a_unit_stays_whole_and_claims_of_two_cells_share_a_row():
    assert (
        "<small>"
        not in slide_html.strip([Measured("longer", "0.962", "at most 1")]).split("what")[0]
    )
    row = slide_html.with_strip(
        slide_html.with_strip("<p></p>", [Measured("a", "2배")]), [Measured("b")]
    )
    assert row.count('class="strip"') == 1
    assert row.endswith("</div></div>")
    assert "2<small>배</small>" in row


def test_claims_of_several_cells_beside_a_picture_are_at_most_three(lesson):
    explain = '# %% [markdown] id="road-explain"'
    more = f'# %% id="more-claim" tags=["claim"]\nclaim("more", 1, least=1)\n\n{explain}'
    lesson.path.write_text(LESSON.replace(explain, more))
    lesson = read_lesson(lesson.path)
    told = [
        new_output("stream", name="stdout", text="✓ holds here: long (1; claimed: it is)\n" * 2)
    ]
    drawn = new_output("display_data", {"image/png": PNG, "text/plain": "a curve"})
    notebook = ran(lesson, road_see=[drawn], road_claim=told, more_claim=told)
    made = deck(lesson, notebook)
    assert made["road-see"].body.count('<div class="number') == 3


def test_a_picture_without_other_words_is_told_in_the_notes(lesson):
    drawn = new_output("display_data", {"image/png": PNG, "text/plain": "a curve <b>"})
    made = deck(lesson, ran(lesson, road_see=[drawn, drawn]), road_claim=False)
    assert made["road-see"].notes == ["a curve &lt;b&gt;"]


def test_prose_is_parted_into_blocks():
    text = "## A\nwords\n\n- b\n\n| d |\n|---|\n\n```\na\n```\n\n> q\n\n![a](../images/one.svg)\n"
    kinds = ["heading", "words", "list", "table", "code", "quote", "image"]
    assert [block.kind for block in prose.blocks(text)] == kinds


def test_every_lesson_has_slides_and_a_recap(repository):
    lessons = {path.stem: read_lesson(path) for path in lessons_in(repository / "lessons", "py")}
    told = site.read_sentences(repository / "lessons" / site.SENTENCES, lessons)
    for name, each in lessons.items():
        made = slides_of(each, Shown(None), told.get(name, {}))
        assert len(made) >= 8, name
        assert made[-1].kind == "recap", name
        assert all(slide.title for slide in made), name
        assert len({slide.id for slide in made}) == len(made), name
        assert number_of(each.path) in made[0].title


def test_a_sentence_for_a_cell_that_is_not_there_is_named(tmp_path, lesson):
    file = tmp_path / site.SENTENCES
    file.write_text('[00]\n"road-see-2" = "Fine."\n"gone" = "Lost."\n')
    with pytest.raises(LessonError, match="lesson 00 has no cell gone"):
        site.read_sentences(file, {lesson.name: lesson})
    file.write_text("[99]\n")
    with pytest.raises(LessonError, match="no lesson has the number 99"):
        site.read_sentences(file, {lesson.name: lesson})


def test_only_slides_are_replaced_by_slides(tmp_path):
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(LabError, match="no slides of the course"):
        site.write(None, tmp_path)


def test_without_reveal_it_is_said_what_installs_it(tmp_path):
    with pytest.raises(LabError, match="make slides"):
        site.write(None, tmp_path / "out", reveal=tmp_path)


def test_the_terms_of_a_recap_are_words_of_their_lesson(repository):
    lessons = {path.stem: read_lesson(path) for path in lessons_in(repository / "lessons", "py")}
    told = site.read_sentences(repository / "lessons" / site.SENTENCES, lessons)
    for name, sentences in told.items():
        text = prose.plain(" ".join(cell.text for cell in lessons[name].cells)).lower()
        missing = [term for term in sentences.get("terms", []) if term.lower() not in text]
        assert not missing, name


def test_where_no_browser_is_installed_the_pdf_is_said_to_be_missing(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "chromium is not installed" in "".join(pdf.print_all(tmp_path))


def test_a_slide_says_on_which_machine_it_was_measured(lesson):
    notebook = of_a_run(lesson)
    origin.write(notebook, origin.Origin("a machine <b>", "2026-03-01", ("on the box",), ("a-1",)))
    shown = Shown(notebook)
    told = {
        slide.id: pages.of_lesson(slide, lesson, shown) for slide in slides_of(lesson, shown, {})
    }
    assert "Measured: 2026-03-01, 1 job, on the box; a machine &lt;b&gt;" in told["road-see"]
    assert "Measured" not in told["moves"]
