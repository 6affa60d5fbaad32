"""Page of a lesson in the book: shown parts, folded parts, and the origin of its numbers."""

from __future__ import annotations

import os
import re

import nbformat
import pytest
from nbformat.v4 import new_output

from course_lib.lab.errors import LabError
from course_lib.lab.queue.records import Record
from course_lib.publish.book import check, command, contents, origin, site
from course_lib.publish.book.page import make
from course_lib.publish.building.build import build_text
from course_lib.publish.building.source import LessonError, lessons_in, read_lesson

LESSON = """# %% [markdown] id="title"
# # 00 A lesson
#
# About $x^2$. ![a picture](../images/one.svg)

# %% id="guess"
### BEGIN SOLUTION
### GAP guess_ms = ...  # your number
guess_ms = 7
### END SOLUTION

# %% id="run"
print("it took 3 ms")

# %% id="gap" tags=["exercise"]
### BEGIN SOLUTION
secret = 17
### END SOLUTION

# %% [markdown] id="why" tags=["solution"]
# Because of that.
"""


@pytest.fixture
def lesson(tmp_path):
    path = tmp_path / "00_a_lesson.py"
    path.write_text(LESSON)
    return read_lesson(path)


def ran(lesson, **shown):
    """The notebook as a run leaves it: cells by id, with their output."""
    notebook = nbformat.reads(build_text(lesson, with_answers=True), as_version=4)
    for cell in notebook.cells:
        if text := shown.get(cell.id):
            cell.outputs = [new_output("stream", name="stdout", text=text)]
    return notebook


def printed(page) -> list[str]:
    return [
        output.text for cell in page.cells if cell.cell_type == "code" for output in cell.outputs
    ]


def page_of(lesson, notebook=None, **changes):
    return make(lesson, notebook, changes.get("open_at", ""))


def test_a_gap_is_shown_and_its_answer_with_what_it_printed_is_folded(lesson):
    page = page_of(lesson, ran(lesson, run="it took 3 ms\n", gap="found"))
    sources = [cell.source for cell in page.cells]
    guess = sources.index("guess_ms = ...  # your number")
    assert "<summary>The guess of this run</summary>" in sources[guess + 1]
    assert sources[guess + 2 : guess + 5] == ["guess_ms = 7", "</details>", 'print("it took 3 ms")']
    gap = sources.index("...  # your answer")
    assert sources[gap + 2 :] == ["secret = 17", "Because of that.", "</details>"]
    assert printed(page) == ["it took 3 ms\n", "found"]


def test_formulas_are_drawn_and_pictures_lie_beside_the_page(lesson):
    title = page_of(lesson).cells[0].source
    assert '<svg role="img" aria-label="x^2"' in title
    assert "![a picture](images/one.svg)" in title


def test_a_cell_that_has_changed_since_the_run_shows_nothing_and_the_page_says_so(lesson):
    notebook = ran(lesson, run="it took 3 ms\n", gap="found")
    next(cell for cell in notebook.cells if cell.id == "run").source = "print('once')"
    page = page_of(lesson, notebook)
    assert printed(page) == ["found"]
    assert "1 of its cells have changed since" in page.cells[0].source


def test_the_page_says_when_and_on_what_machine_its_numbers_were_measured(lesson):
    notebook = ran(lesson)
    where = origin.Origin(
        "a machine <b>with</b> 2 cores", "2026-03-01", ("on the box",), ("a-1", "b-2")
    )
    origin.write(notebook, where)
    again = nbformat.reads(nbformat.writes(notebook), as_version=4)
    assert origin.read(again) == where
    note = page_of(lesson, again).cells[0].source
    assert "2026-03-01, 2 jobs, on the box; a machine &lt;b&gt;with&lt;/b&gt; 2 cores." in note


def test_of_runs_that_were_recorded_the_page_names_their_machine_alone():
    banner = "recorded on 2026-05-02 on a machine with 8 GPUs"
    record = Record(token="t", name="a", key="", folder="a-1", site="box", origin=banner)
    assert origin.of([record, record]).words() == f"2 jobs, {banner}"


def test_on_a_cluster_the_machine_of_the_notebook_is_not_taken_for_that_of_the_jobs():
    record = Record(token="t", name="a", key="", folder="a-1", site="leonardo")
    assert (
        "1 job, on the cluster leonardo; the notebook on a machine with"
        in origin.of([record]).words()
    )


@pytest.mark.parametrize("told", [None, 3, {}, {"machine": 1}, {"machine": "m", "runs": 7}])
def test_what_says_nothing_of_its_run_is_no_origin(lesson, told):
    notebook = ran(lesson)
    notebook.metadata[origin.KEY] = told
    assert origin.read(notebook) is None
    assert "The run did not record" in page_of(lesson, notebook).cells[0].source


def test_no_answer_has_a_heading_that_would_end_its_fold(repository):
    for path in lessons_in(repository / "lessons", "py"):
        for cell in read_lesson(path).cells:
            if cell.kind == "markdown" and "solution" in cell.tags:
                assert not cell.text.startswith("#"), f"{path.name}, cell {cell.id}"
                assert "\n#" not in cell.text, f"{path.name}, cell {cell.id}"


def test_links_lead_to_the_notebook_and_to_the_hub_that_was_named(lesson):
    assert 'href="notebooks/00_a_lesson.ipynb"' in page_of(lesson).cells[0].source
    where = "https://hub.example.org/hub/user-redirect/lab/tree/notebooks/{notebook}"
    note = page_of(lesson, open_at=command.address(where)).cells[0].source
    assert f'<a href="{where.format(notebook="00_a_lesson.ipynb")}">Open in JupyterHub</a>' in note


@pytest.mark.parametrize(
    "text", ["javascript:alert(1)//{notebook}", "https://hub.example.org", "hub/{notebook}", "x"]
)
def test_what_is_no_address_of_notebooks_is_refused(text):
    with pytest.raises(LabError, match="no address of notebooks"):
        command.address(text)


README = """# A course

Words, and [more](CONTRIBUTING.md).

## Begin

See [the hub](deploy/README.md) or [a page](https://example.org/).

## Lessons

| | lesson | |
|---|---|---|
| I | **First** | |
| 00 | [a](notebooks/00_a.ipynb) | x |
| 01 | b *(not yet written)* | x |
| II | **Second** | |
| 02b | [c](notebooks/02b_c.ipynb) | x |
"""


def test_parts_and_front_page_come_from_the_readme():
    told = contents.read(README, ["00_a", "02b_c"])
    assert told.parts == (
        contents.Part("I. First", ("00_a",)),
        contents.Part("II. Second", ("02b_c",)),
    )
    assert "[a](00_a.ipynb)" in told.front
    assert "and more." in told.front, "a link to what the book does not have"
    assert "See the hub or [a page](https://example.org/)" in told.start


def test_a_lesson_that_the_readme_does_not_list_is_named():
    with pytest.raises(LessonError, match="differ in: 03_d"):
        contents.read(README, ["00_a", "02b_c", "03_d"])


def test_in_korean_the_words_of_the_page_are_korean_and_its_code_is_the_same(repository, lesson):
    notebook = ran(lesson)
    origin.write(notebook, origin.Origin("a machine", "2026-03-01", ("on the box",), ("a-1",)))
    english, korean = (make(lesson, notebook, "", language) for language in ("en", "ko"))
    code = [
        [cell.source for cell in page.cells if cell.cell_type == "code"]
        for page in (english, korean)
    ]
    assert code[0] == code[1]
    assert "2026-03-01, 작업 1개, 박스에서; a machine" in korean.cells[0].source
    assert any("<summary>답</summary>" in cell.source for cell in korean.cells)


def test_the_korean_book_has_the_parts_lessons_and_pictures_of_the_english_one(repository):
    english, korean = (site.text_in(language, repository) for language in ("en", "ko"))
    parts = [[part.lessons for part in text.told.parts] for text in (english, korean)]
    assert parts[0] == parts[1]
    assert "# 00 실습실" in korean.lessons[0].cells[0].text
    assert korean.told.start.startswith("# 직접 실행하기\n")
    page = make(
        next(each for each in korean.lessons if each.name.startswith("16_")),
        None,
        "",
        "ko",
    )
    shown = {name for cell in page.cells for name in re.findall(r"\]\(([^)]*\.svg)\)", cell.source)}
    assert shown
    assert all(re.fullmatch(r"images/[\w-]+\.svg", name) for name in shown)


@pytest.mark.parametrize(
    ("html", "problem"),
    [
        ('<a href="../other.html">x</a>', "leads to no file"),
        ('<a href="#nowhere">x</a>', "#nowhere leads to no such place"),
        ('<script src="https://cdn.example/x.js"></script>', "would be loaded from the web"),
        ('<link rel="stylesheet" href="//fonts.example/f.css">', "loaded from the web"),
    ],
)
def test_a_link_that_leads_nowhere_and_what_comes_from_the_web_are_named(tmp_path, html, problem):
    (tmp_path / "index.html").write_text(html)
    assert problem in "\n".join(check.broken_links(tmp_path))


def test_good_links_are_not_complained_about(tmp_path):
    (tmp_path / "index.html").write_text(
        '<a href="b.html#here">x</a><a href="https://example.org">y</a><a href="#">z</a>'
        '<img src="data:image/png;base64,AA"><a href="a%20b.txt">w</a>'
    )
    (tmp_path / "b.html").write_text('<p id="here">')
    (tmp_path / "a b.txt").touch()
    assert check.broken_links(tmp_path) == []


def test_the_newest_run_beside_the_readme_is_taken(tmp_path):
    assert command.newest_run(tmp_path) is None
    for name in ("course-run-a", "course-run-b"):
        (tmp_path / name / ".course" / "executed").mkdir(parents=True)
        (tmp_path / name / ".course" / "executed" / "00.ipynb").touch()
    (tmp_path / "course-run-none").mkdir()
    os.utime(tmp_path / "course-run-a" / ".course" / "executed", (2e9, 2e9))
    assert command.newest_run(tmp_path) == tmp_path / "course-run-a"


def test_only_a_book_is_replaced_by_a_book(tmp_path):
    def replace(out):
        with site.replacement(out, site.MARK, "book") as made:
            (made / "new").touch()

    replace(tmp_path / "book")
    replace(tmp_path / "book")
    assert sorted(path.name for path in (tmp_path / "book").iterdir()) == [site.MARK, "new"]
    (tmp_path / "book" / site.MARK).unlink()
    for there in (tmp_path / "book", tmp_path / "book" / "new"):
        with pytest.raises(LabError, match="no book of the course"):
            replace(there)
    assert (tmp_path / "book" / "new").exists()


def test_a_workspace_in_which_nothing_was_run_is_refused(tmp_path):
    with pytest.raises(LabError, match="no lesson was run in"):
        command.main(["--workspace", str(tmp_path)])
