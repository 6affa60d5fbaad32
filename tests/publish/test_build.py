"""Lessons become notebooks with gaps and notebooks with answers, with the same bytes each time."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

import nbformat
import pytest
from IPython.core.inputtransformer2 import TransformerManager

from course_lib.publish.building import build, gaps
from course_lib.publish.building.source import AFTER_GUESS, LessonError, lessons_in, read_lesson

LESSON = """# %% [markdown] id="title"
# # 99 A lesson
#
# It says: `course`, **twice**.

# %% id="look"
# !squeue
print(40 + 2)
#> 42

# %% id="gap" tags=["exercise"]
before = 1
### BEGIN SOLUTION
### GAP hybrid = recipe(tensor=..., pipeline=...)
hybrid = recipe(tensor=2, pipeline=2)
### END SOLUTION
if before:
    ### BEGIN SOLUTION
    secret = 17
    ### END SOLUTION

# %% [markdown] id="why" tags=["solution"]
# Because two and two are four devices.

# %% [markdown] id="try" tags=["exercise-only"]
# Now you.
"""


@pytest.fixture
def house(tmp_path: Path) -> Path:
    (tmp_path / "lessons").mkdir()
    (tmp_path / "lessons" / "99_test.py").write_text(LESSON)
    return tmp_path


def notebook_of(house: Path, folder: str):
    build.write(house)
    return nbformat.read(house / folder / "99_test.ipynb", as_version=4)


def sources(notebook) -> dict[str, str]:
    return {cell.id: cell.source for cell in notebook.cells}


def test_the_learner_finds_the_gap_and_the_solution_its_answer(house):
    learner = sources(notebook_of(house, "notebooks"))
    solution = sources(notebook_of(house, "solutions"))
    assert learner["gap"] == (
        "before = 1\nhybrid = recipe(tensor=..., pipeline=...)\nif before:\n    ...  # your answer"
    )
    assert solution["gap"] == (
        "before = 1\nhybrid = recipe(tensor=2, pipeline=2)\nif before:\n    secret = 17"
    )
    assert "why" not in learner
    assert "try" not in solution


def answer_lines(lesson):
    """Every line that must not be in the learner's notebook."""
    answers = set()
    for cell in lesson.cells:
        where = f"{lesson.path}:{cell.line}"
        lines = set(gaps.answered(cell.text, where).split("\n"))
        if "solution" not in cell.tags:  # what the gap itself tells is no secret
            lines -= set(gaps.with_gaps(cell.text, where).split("\n"))
        answers |= lines
    stripped = {line.strip() for line in answers}
    return sorted(line for line in stripped if line and not line.startswith(gaps.GAP))


def test_no_line_of_an_answer_reaches_the_learner(house):
    lesson = read_lesson(house / "lessons" / "99_test.py")
    learner_text = "\n".join(sources(notebook_of(house, "notebooks")).values())
    answers = answer_lines(lesson)
    assert "secret = 17" in answers
    assert [line for line in answers if line in learner_text.splitlines()] == []


def test_magics_are_restored_and_printed_lines_become_the_compared_output(house):
    notebook = notebook_of(house, "notebooks")
    look = next(cell for cell in notebook.cells if cell.id == "look")
    assert look.source == "!squeue\nprint(40 + 2)"
    assert look.outputs[0].text == "42\n"
    assert look.metadata.tags == ["nbval-check-output"]
    assert look.execution_count is not None


def test_the_code_of_claims_is_folded_and_nothing_else(repository):
    for lesson in map(read_lesson, sorted((repository / "lessons").glob("*.py"))):
        notebook = json.loads(build.build_text(lesson, with_answers=True))
        cells = {cell["id"]: cell["metadata"] for cell in notebook["cells"]}
        folded = {name for name, metadata in cells.items() if "jupyter" in metadata}
        assert all(cells[name]["jupyter"] == {"source_hidden": True} for name in folded)
        assert {cell.id for cell in lesson.cells if "claim" in cell.tags} <= folded
        assert not {cell.id for cell in lesson.cells if "exercise" in cell.tags} & folded


GUESSED = (
    LESSON
    + """
# %% id="early" tags=["claim"]
claim("before any guess", 1, least=1)

# %% id="see"
guess.compare(4)

# %% id="claim" tags=["claim"]
claim("after the guess", 1, least=1)

# %% id="between"
print("more")

# %% [markdown] id="explain"
# A table.
#
# **Explain.** It was four.

# %% id="late" tags=["claim"]
claim("after the explanation", 1, least=1)
"""
)


def test_what_gives_a_guess_away_is_tagged_for_the_learner_only(house):
    (house / "lessons" / "99_test.py").write_text(GUESSED)
    tagged = {
        folder: [
            cell.id
            for cell in notebook_of(house, folder).cells
            if AFTER_GUESS in cell.metadata.get("tags", [])
        ]
        for folder in ("notebooks", "solutions")
    }
    assert tagged == {"notebooks": ["claim", "explain"], "solutions": []}


def test_a_build_repeated_changes_nothing_and_check_sees_an_edit(house):
    build.write(house)
    assert build.differing(house) == []
    path = house / "notebooks" / "99_test.ipynb"
    edited = json.loads(path.read_text())
    edited["cells"][0]["source"].append("!")
    path.write_text(json.dumps(edited))
    assert build.differing(house) == ["notebooks/99_test.ipynb"]


def test_a_notebook_without_a_lesson_is_a_difference_and_goes(house):
    build.write(house)
    (house / "notebooks" / "98_old.ipynb").write_text("{}")
    assert build.differing(house) == ["notebooks/98_old.ipynb"]
    build.write(house)
    assert not (house / "notebooks" / "98_old.ipynb").exists()


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("# %%\nx = 1\n", 'needs id="'),
        ('# %% id="a"\nx\n# %% id="a"\ny\n', "already the cell of line 1"),
        ('# %% [markdown] id="a"\nno comment\n', "markdown without '# '"),
        ('# %% id="a" colour="red"\nx\n', "unknown cell attribute colour"),
        ('# %% [markdown] id="t"\n# # T\n# %% id="a"\n### BEGIN SOLUTION\n', "without"),
        ('# %% [markdown] id="t"\n# # T\n# %% id="a"\n### END SOLUTION\n', "other mark was due"),
    ],
)
def test_a_broken_lesson_is_named_with_its_line(house, text, complaint):
    (house / "lessons" / "99_test.py").write_text(text)
    with pytest.raises(LessonError, match=complaint):
        build.write(house)


def test_the_repositorys_notebooks_are_what_its_lessons_say(repository):
    assert build.differing(repository) == []


def test_no_answer_of_the_repository_leaks(repository):
    for path in sorted((repository / "lessons").glob("*.py")):
        lesson = read_lesson(path)
        learner = json.loads(build.build_text(lesson, with_answers=False))
        shown = {line.strip() for cell in learner["cells"] for line in cell["source"]}
        # a short line such as `)` or `gpus_per_node=2,` says nothing of an answer
        leaked = [line for line in answer_lines(lesson) if len(line) > 16 and line in shown]
        assert leaked == [], path.name


UNQUOTED = re.compile(r"^(?:!|%%writefile).*?(?<!\")\{(?!\w*\.?(?:job_id|ids)\})", re.MULTILINE)


def test_lines_for_the_shell_hold_paths_in_quotes(repository):
    """The path of a home folder may contain a space, as in `Jane Doe`."""
    for path in sorted((repository / "lessons").glob("*.py")):
        for cell in read_lesson(path).cells:
            assert cell.kind != "code" or not UNQUOTED.search(cell.text), f"{path.name}: {cell.id}"


def test_every_lesson_begins_and_ends_with_links_to_those_beside_it(repository):
    texts = build.outputs(repository)
    for folder in ("notebooks", "solutions"):
        built = [path for path in sorted(texts) if path.parent.name == folder]
        assert len(built) > 2
        for number, path in enumerate(built):
            cells = json.loads(texts[path])["cells"]
            first, last = ("".join(cells[place]["source"]) for place in (0, -1))
            beside = {built[n].name for n in (number - 1, number + 1) if 0 <= n < len(built)}
            assert set(re.findall(r"\]\((\w+\.ipynb)\)", last)) == beside
            assert first.splitlines()[2] == last, "below the title"
            assert all((path.parent / name).is_file() for name in beside)


def test_no_cell_of_a_lesson_draws_a_figure_that_it_does_not_show(repository):
    """A cell shows the value of its last expression, and of no other."""
    unseen = []
    for path in lessons_in(repository / "lessons", "py"):
        for cell in read_lesson(path).cells:
            if cell.kind == "code":
                tree = ast.parse(TransformerManager().transform_cell(cell.text))
                calls = {
                    ast.unparse(node.value)
                    for node in ast.walk(tree)
                    if isinstance(node, ast.Expr) and node is not tree.body[-1]
                }
                unseen += [(cell.id, call) for call in calls if call.startswith("show.")]
    assert unseen == []
