"""What a notebook shows of an error of the course: the learner's line and the message."""

from __future__ import annotations

import nbformat
from nbclient import NotebookClient

CELLS = [
    "from course_lib import gpt, plan",
    "gpt.recipe(\n    'a',\n    micro_batchs=2,\n)",
    "%tb",
    "def mine(model):\n"
    "    return plan.predict(model, plan.Layout(), plan.cluster('selene'))\n"
    "mine('13b')",
    "1 / 0",
]


def test_a_notebook_shows_the_learner_s_line_and_the_message(tmp_path):
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in CELLS])
    NotebookClient(notebook, timeout=120, kernel_name="python3", allow_errors=True).execute()
    shown = ["\n".join(cell.outputs[0]["traceback"]) for cell in notebook.cells[1:]]
    micro, whole, mine, python = shown
    assert "did you mean micro_batch?" in micro
    assert micro.startswith("Cell In[2], line 1\n----> 1 gpt.recipe(\n")
    assert "course_lib/" not in micro
    assert len(micro.splitlines()) == 7
    assert whole.count("course_lib/") > 2
    assert "line 3\n----> 3 mine('13b')" in mine
    assert "line 2\n----> 2     return plan.predict(" in mine
    assert "model = '13b' is not a Model; use one such as plan.preset" in mine
    assert "course_lib/" not in mine
    assert "ZeroDivisionError" in python


def test_the_name_of_an_error_is_in_the_notebook_s_file_too(tmp_path):
    cells = [nbformat.v4.new_code_cell(cell) for cell in (CELLS[0], "gpt.recipe()")]
    notebook = nbformat.v4.new_notebook(cells=cells)
    NotebookClient(notebook, timeout=120, kernel_name="python3", allow_errors=True).execute()
    (error,) = notebook.cells[1].outputs
    assert (error["ename"], error["evalue"]) == ("ArgumentError", "gpt.recipe also needs name")
