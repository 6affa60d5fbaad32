"""A notebook in another language shows the learner's own results unchanged."""

from __future__ import annotations

import nbformat
import pytest
from nbclient import NotebookClient

from course_lib.lab.jupyter.kernels import NotebookKernels

OWN = "rank 0 is done"
"""The words of the course are in it: `rank {rank}` is one of its messages."""
BEGIN = """import logging, sys, warnings
import pandas as pd
from course_lib import claim, predict, shell, show
rank, table = 0, pd.DataFrame({"iteration": [1, 2], "rank 0 is done": [1.0, 2.0]})"""
FIGURE = """picture = show.lines({OWN: table, "measured": table}, x="iteration", y=OWN, title=OWN)
from matplotlib.text import Text
print(picture)
print([found.get_text() for found in picture.figure.findobj(Text)])"""
MADE_BY_THE_LEARNER = [
    "print(OWN, 'the run has ended')",
    "OWN",
    "display(OWN)",
    "sys.stdout.write(OWN)",
    "logging.warning(OWN)",
    "warnings.warn(OWN)",
    "raise ValueError(OWN)",
    "raise NameError(OWN)",
    "claim(f'rank {rank} is done', 1, least=0)",
    "predict(f'00: rank {rank} is done', 3).compare(3)",
    FIGURE,
]


@pytest.fixture
def shown(tmp_path, monkeypatch):
    """Return the output of a cell in a Korean notebook."""
    monkeypatch.delenv("COURSE_LANGUAGE")
    monkeypatch.setenv("COURSE_WORKSPACE", str(tmp_path))
    folder = tmp_path / "notebooks" / "ko"
    folder.mkdir(parents=True)

    def run(*cells: str) -> list[str]:
        code = [f"{BEGIN}\nOWN = {OWN!r}", *cells]
        notebook = nbformat.v4.new_notebook(cells=list(map(nbformat.v4.new_code_cell, code)))
        NotebookClient(
            notebook, timeout=120, kernel_name="python3", allow_errors=True,
            kernel_manager_class=NotebookKernels, resources={"metadata": {"path": str(folder)}},
        ).execute()  # fmt: skip
        return [str(cell.outputs) for cell in notebook.cells[1:]]

    return run


def test_what_the_learner_has_made_is_not_rewritten(shown):
    *outputs, of_the_course = shown(*MADE_BY_THE_LEARNER, "shell.recipe('b')")
    for cell, output in zip(MADE_BY_THE_LEARNER, outputs, strict=True):
        assert OWN in output, cell
        assert "랭크" not in output, cell
    assert "the run has ended" in outputs[0]
    assert "여기서도 맞습니다" in outputs[-3]
    assert "'측정'" in outputs[-1], "a name that lessons use is told"
    assert "commands도 필요합니다" in of_the_course


def test_the_log_that_an_error_quotes_is_not_rewritten(shown):
    job = f"lab.submit(shell.recipe('own', commands='echo {OWN}; exit 3')).require()"
    (output,) = shown(f"from course_lib import Lab\nlab = Lab()\n{job}")
    assert "의 마지막 줄:" in output
    assert f"\\n  {OWN}" in output
