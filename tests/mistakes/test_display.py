"""A notebook shows the learner's line and the message of a course error."""

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


def test_a_misspelt_name_of_a_reader_or_its_table_is_answered_with_the_right_one(tmp_path):
    (tmp_path / "out.log").write_text("")
    cells = [
        "from course_lib import read",
        "read.trainig_log",
        f"read.training_log({str(tmp_path)!r}).iteratons",
        "read.training_log('/no/such/file')",
        "''.uper",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    NotebookClient(notebook, timeout=120, kernel_name="python3", allow_errors=True).execute()
    shown = ["\n".join(cell.outputs[0]["traceback"]) for cell in notebook.cells[1:]]
    assert "read has no 'trainig_log'; did you mean training_log" in shown[0]
    assert "TrainingLog has no 'iteratons'; did you mean iterations or" in shown[1]
    assert "no log at /no/such/file" in shown[2]
    assert "'str' object has no attribute 'uper'" in shown[3]
    assert not any("course_lib/" in text for text in shown)


def test_the_name_of_an_error_is_in_the_notebook_s_file_too(tmp_path):
    cells = [nbformat.v4.new_code_cell(cell) for cell in (CELLS[0], "gpt.recipe()")]
    notebook = nbformat.v4.new_notebook(cells=cells)
    NotebookClient(notebook, timeout=120, kernel_name="python3", allow_errors=True).execute()
    (error,) = notebook.cells[1].outputs
    assert (error["ename"], error["evalue"]) == ("ArgumentError", "gpt.recipe also needs name")


def test_a_name_that_a_stopped_cell_would_have_made_leads_back_to_it(tmp_path):
    cells = [
        "from course_lib import predict",
        "def f(): pass\nguess = predict('16: whose error', ...)\nimport json as j\nhang = 1\n!true",
        "print(hang)",
        "j.dumps",
        "print(another)",
        "!echo of {hang}",
        "hang = 2",
        "!echo is {hang}",
        "print(hang)\ndel hang",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    NotebookClient(notebook, timeout=120, kernel_name="python3", allow_errors=True).execute()
    shown = ["\n".join(cell.outputs[0].get("traceback", ())) for cell in notebook.cells[2:5]]
    assert "print(hang)" in shown[0]
    assert "NameError" in shown[0]
    assert (
        "hang does not exist yet, because the cell that makes it stopped before (your guess is "
        "missing: whose error). Correct that cell" in shown[0]
    )
    assert "j does not exist yet" in shown[1]
    assert "name 'another' is not defined" in shown[2]
    assert "stopped before" not in shown[2]
    of_a_command = notebook.cells[5].outputs
    assert [output.output_type for output in of_a_command] == ["error"]
    assert "hang does not exist yet" in "\n".join(of_a_command[0]["traceback"])
    printed = ["".join(one["text"] for one in cell.outputs) for cell in notebook.cells[-2:]]
    assert [text.strip() for text in printed] == ["is 2", "2"]
