"""A check judges the result of its cell's last run, or says that it cannot."""

from __future__ import annotations

import nbformat
from nbclient import NotebookClient

from course_lib.teach.progress import standings

BEGIN = "from course_lib import Lab, check, shell\nlab = Lab(quiet=True)"
SUBMIT = '''
local = shell.recipe("local", """srun bash -c 'echo "local $SLURM_LOCALID"'""", nodes=2,
                     directives={"ntasks-per-node": 3})
local_run = lab.submit(local)
local_run.wait(60)
'''
CHECK = "check.ex00_local(local_run)"
# A cell that an error stops before it has made a run, and how the check names the error.
STOPPED = {
    SUBMIT.replace("directives={", 'directives={"partition": "nowhere", '): "sbatch exited with 1",
    SUBMIT.replace("nodes=2", "nodes=-2"): "nodes = -2 is not a whole number",
    SUBMIT.replace("local =", "local = 1 / 0,"): "ZeroDivisionError: division by zero",
    SUBMIT.replace("local =", "local = ="): "SyntaxError",
    f"!true\n{SUBMIT}".replace("lab.submit(", "submit("): "NameError: name 'submit'",
}


def test_a_check_never_judges_the_run_of_before_when_its_cell_has_stopped(tmp_path, monkeypatch):
    monkeypatch.setenv("COURSE_WORKSPACE", str(tmp_path / "workspace"))
    monkeypatch.setenv("COURSE_BOX_HOME", str(tmp_path / "box"))
    tries = [cell for stopped in STOPPED for cell in (stopped, CHECK)]
    cells = [BEGIN, SUBMIT, *tries, SUBMIT, CHECK]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    NotebookClient(notebook, timeout=120, kernel_name="python3", allow_errors=True).execute()
    checks = [cell.outputs[-1] for cell in notebook.cells if cell.source == CHECK]
    assert [check.get("ename", "passed") for check in checks] == [
        *["NotYet"] * len(STOPPED), "passed",
    ]  # fmt: skip
    for check, named in zip(checks[:-1], STOPPED.values(), strict=True):
        assert "local_run is out of date" in check["evalue"]
        assert named in check["evalue"]
    assert [one.attempts for one in standings(tmp_path / "workspace")] == [1]
