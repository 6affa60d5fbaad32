"""`course run`: the headless run of a notebook, with its table."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import nbformat
import pytest

from course_lib.lab.errors import LabError
from course_lib.publish import executed
from course_lib.publish import run as course_run
from course_lib.publish.book import origin

BEGIN = "from course_lib import Lab, shell\nlab = Lab()"
A_JOB_THAT_IS_CLEANED = """
lab.submit(shell.recipe("gone", "true", nodes=1, gpus_per_node=1)).wait()
lab.clean("gone", yes=True)
"""


@pytest.fixture
def notebook(tmp_path):
    def write(*sources):
        cells = [
            nbformat.v4.new_code_cell(source, id=f"c{number}")
            for number, source in enumerate(sources)
        ]
        path = tmp_path / "77_test.ipynb"
        nbformat.write(nbformat.v4.new_notebook(cells=cells), path)
        return path

    return write


def test_jobs_are_counted_though_the_lesson_deleted_them(notebook, tmp_path):
    path = notebook(BEGIN, A_JOB_THAT_IS_CLEANED)
    result = course_run.run_lesson(path, tmp_path / "work")
    assert (result.lesson, result.failure, result.jobs) == ("77_test", "", 1)


def test_a_lesson_that_fails_names_its_cell(notebook, tmp_path):
    path = notebook("1", "raise ValueError('three\\nlines')", "2")
    result = course_run.run_lesson(path, tmp_path / "work")
    assert result.failure == "cell c1: lines"
    kept = nbformat.read(tmp_path / "work" / ".course" / "executed" / path.name, as_version=4)
    assert kept.cells[1].outputs[0].output_type == "error"
    assert "FAILED" in course_run.table([result])


def test_a_magic_that_is_refused_says_why(notebook, tmp_path):
    path = notebook("1", "%%writefile one two\nthree", "2")
    result = course_run.run_lesson(path, tmp_path / "work")
    assert result.failure == "cell c1: UsageError: unrecognized arguments: two"


def test_what_ran_in_a_language_is_kept_beside_the_english_with_its_pictures(notebook, tmp_path):
    folder = tmp_path / "solutions" / "ko"
    (folder / "images").mkdir(parents=True)
    (folder / "images" / "own.svg").touch()
    path = notebook("1").rename(folder / "77_test.ipynb")
    course_run.run_lesson(path, tmp_path / "work")
    kept = executed.executed_in(tmp_path / "work", "ko")
    assert kept == executed.executed_in(tmp_path / "work") / "ko"
    assert (kept / "77_test.ipynb").is_file()
    assert (kept / "images/own.svg").is_file()
    assert (kept / "../../images/ddp_step.png").is_file()


def test_pictures_of_what_ran_are_found_from_where_it_is_kept(notebook, tmp_path):
    course_run.run_lesson(notebook("1"), tmp_path / "work")
    kept = executed.executed_in(tmp_path / "work") / "77_test.ipynb"
    assert (kept.parent / "../images/ddp_step.png").is_file()


SHOWS_WHERE_IT_IS = """
import getpass, json, os, sys
import nbformat
from IPython.display import HTML, SVG, display
here, me = os.environ["COURSE_WORKSPACE"], getpass.getuser()
print(f"It lies in {here}. As JSON:", json.dumps(f"\\n{here}/x"), f"\\033[31m{here}/runs\\033[0m")
print(here[:7], end="", flush=True)
sys.stdout.write(here[7:] + "/runs\\n")
print(f"{me:.8}", f"{me:.8}+", f"/scratch/{me}/tmp")
display(SVG(f"<svg xmlns='http://www.w3.org/2000/svg'><title>{here}</title></svg>"))
display(HTML(f"<a data-of='{here}'>{os.path.realpath(here)}</a>"))
nbformat.read(f"{here}/missing.ipynb", as_version=4)
"""


def test_what_is_kept_names_neither_folders_nor_account(notebook, tmp_path, monkeypatch):
    monkeypatch.setenv("LOGNAME", "somebody-private")
    (tmp_path / "rëal").mkdir()
    link = tmp_path / "link"
    link.symlink_to("rëal")
    course_run.run_lesson(notebook(SHOWS_WHERE_IT_IS.replace("\\\\", "\\")), link)
    (file,) = executed.executed_in(link).glob("*.ipynb")
    (cell,) = nbformat.read(file, as_version=4).cells
    assert [output.output_type for output in cell.outputs] == [
        *("stream", "display_data", "display_data", "error")
    ]
    shown = json.dumps(cell.outputs, ensure_ascii=False)
    for name in (str(tmp_path), str(executed.SHIPPED), str(Path.home()), "somebody", "private"):
        assert name not in shown
    assert "It lies in ~/course. As JSON" in shown
    assert "learner learner+ /scratch/learner/tmp" in shown
    assert "~/course/missing.ipynb" in shown


NO_PORT = "import psutil\nassert psutil.Process().net_connections('inet') == []"


def test_the_kernel_of_a_lesson_has_no_port_that_another_account_could_reach(notebook, tmp_path):
    assert course_run.run_lesson(notebook(NO_PORT), tmp_path / "work").failure == ""


def test_a_lesson_is_chosen_by_its_number_with_or_without_a_letter(tmp_path):
    names = ["00_lab", "07_cut", "07b_both", "08_half", "notes", "1_old"]
    for name in names:
        (tmp_path / f"{name}.ipynb").touch()

    def chosen(*wanted):
        return [path.stem for path in course_run.chosen(tmp_path, list(wanted))]

    assert chosen() == names[:4]
    assert chosen("07") == ["07_cut"]
    assert chosen("07b", "00") == ["00_lab", "07b_both"]
    assert chosen("07b_bo") == ["07b_both"]
    assert chosen("0") == names[:4]
    with pytest.raises(LabError, match="there are: 00, 07, 07b, 08"):
        chosen("09")


A_JOB = """
run = lab.submit(shell.recipe("kept", "true", nodes=1, gpus_per_node=1))
run.wait()
"""


def test_a_lesson_that_runs_again_names_the_runs_that_it_got_again(notebook, tmp_path):
    path = notebook(BEGIN, A_JOB)
    results = [course_run.run_lesson(path, tmp_path / "work") for _ in range(2)]
    assert [result.jobs for result in results] == [1, 0]
    kept = nbformat.read(tmp_path / "work" / ".course" / "executed" / path.name, as_version=4)
    (run,) = origin.read(kept).runs
    assert run.startswith("kept-")


STOPPED = """
import sys
from pathlib import Path
import psutil
from course_lib.publish.run import run_lesson

try:
    run_lesson(Path(sys.argv[1]), Path(sys.argv[2]))
except KeyboardInterrupt:
    children = psutil.Process().children()
    kernels = [child.pid for child in children if "kernel" in str(child.cmdline())]
    print("stopped, kernels left:", kernels, flush=True)
"""


def test_a_signal_stops_the_course_and_is_no_fault_of_it(notebook, tmp_path):
    began = tmp_path / "began"
    path = notebook(f"open({str(began)!r}, 'w').close()", "import time; time.sleep(60)")
    command = [sys.executable, "-c", STOPPED, str(path), str(tmp_path / "work")]
    pipe = subprocess.PIPE
    run = subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True)
    end_s = time.monotonic() + 60
    while not began.exists() and time.monotonic() < end_s:
        time.sleep(0.1)
    run.send_signal(signal.SIGINT)
    said, errors = run.communicate(timeout=30)
    assert said == "stopped, kernels left: []\n"
    assert "Exception in message handler" not in errors
