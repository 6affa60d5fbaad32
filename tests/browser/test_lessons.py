"""Lessons as a learner meets them: opened in JupyterLab, answered by typing, run in a browser."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "lab" / "tensorboard")]
from board import Server, jupyter, wait_until  # noqa: E402
from lab_page import LabPage, pictures, write_settings  # noqa: E402

from course_lib.lab.clusters import box_bin  # noqa: E402
from course_lib.lab.lab import Lab  # noqa: E402
from course_lib.publish.building.build import LINKS_CELL  # noqa: E402
from course_lib.publish.building.source import lessons_in  # noqa: E402

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(600)]
NOTEBOOKS = HERE.parents[1] / "notebooks"
NOTE_EVERY_LINE = """() => {
    window.seen = new Set();
    const widgets = '.jp-OutputArea .widget-html, .jp-OutputArea .jupyter-widgets';
    const look = () => document.querySelectorAll(widgets)
        .forEach(widget => window.seen.add(widget.innerText.trim()));
    setInterval(look, 200);
}"""


@dataclass(frozen=True)
class Learner:
    repository: Path
    server: Server
    page: LabPage
    lesson: str

    def answer(self, gap: str) -> str:
        return self.page.answer(self.repository, gap)

    def guess(self) -> None:
        self.page.guess(self.repository)

    def url(self) -> str:
        return f"{self.server.url}lab/tree/notebooks/{self.lesson}.ipynb?token=secret"

    def picture(self, name: str) -> None:
        self.page.picture(pictures(self.server.folder) / f"{self.lesson}-{name}.png")


@pytest.fixture(scope="module")
def box_home(tmp_path_factory):
    """One box for all lessons, as a learner has. The first lesson warms it up for the others."""
    return tmp_path_factory.mktemp("box")


@pytest.fixture
def recorded(monkeypatch):
    """Use recorded runs instead of the box, if this fixture precedes `open_lesson`, which starts
    Jupyter."""
    monkeypatch.setenv("COURSE_SITE", "recorded")


@pytest.fixture
def open_lesson(browser, repository, tmp_path, monkeypatch, box_home):
    """Open a lesson in its own workspace."""
    monkeypatch.setenv("COURSE_BOX_HOME", str(box_home))
    monkeypatch.setenv("COURSE_PLAIN", "0")
    monkeypatch.setenv("JUPYTER_PATH", str(repository / "deploy" / "jupyter" / "data"))
    monkeypatch.setenv("PATH", f"{box_bin()}{os.pathsep}{os.environ['PATH']}")
    folder = tmp_path / "Jane Doe é"
    (folder / "notebooks").mkdir(parents=True)
    write_settings(folder / "settings")
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    with jupyter(folder) as server:

        def start(lesson: str) -> Learner:
            copy = folder / "notebooks" / f"{lesson}.ipynb"
            shutil.copy(repository / "notebooks" / copy.name, copy)
            page = LabPage(context.new_page(), copy)
            learner = Learner(repository, server, page, lesson)
            page.open(learner.url())
            return learner

        yield start
        context.close()
        subprocess.run(["scancel", "--me"], check=False, timeout=60)


@pytest.mark.many(2)
@pytest.mark.parametrize("lesson", ["00_the_lab", "13b_long_sequences_by_hand"])
def test_a_learner_works_through_a_lesson(open_lesson, lesson):
    work_through(open_lesson(lesson))


def work_through(learner: Learner) -> None:
    page = learner.page
    gaps, checks = page.gaps(learner.repository), page.checks
    learner.guess()
    for gap in gaps[:-1]:
        page.type_into(gap, learner.answer(gap))
    page.run_all()
    page.wait_until_idle()
    learner.picture("last-gap-open")
    assert list(page.failures()) == checks[-1:], page.failures()
    assert "✗" in page.output(checks[-1])

    page.type_into(gaps[-1], learner.answer(gaps[-1]))
    page.run(gaps[-1])
    page.menu("Run", "Run Selected Cell and All Below")
    page.wait_until_idle()
    learner.picture("all-answers")
    assert page.failures() == {}
    for check in checks:
        assert "✓" in page.output(check)
        assert "✗" not in page.output(check)
    last = [name for name in page.place if name != LINKS_CELL][-1]
    assert page.count(last), "the last cell of the lesson did not run"
    assert page.too_wide() == {}


@pytest.mark.many(13)
@pytest.mark.parametrize("path", lessons_in(NOTEBOOKS, "ipynb"), ids=lambda path: path.stem)
def test_with_all_answers_a_lesson_ends_and_nothing_is_too_wide(recorded, open_lesson, path):
    learner = open_lesson(path.stem)
    page = learner.page
    learner.guess()
    for gap in page.gaps(learner.repository):
        page.type_into(gap, learner.answer(gap))
    page.run_all()
    page.wait_until_idle()
    learner.picture("recorded")
    assert page.failures() == {}
    assert page.too_wide() == {}


def test_an_explanation_appears_once_its_guess_is_compared_or_when_asked_for(open_lesson):
    learner = open_lesson("00_the_lab")
    page = learner.page
    hidden = ["first-claim", "first-explain", "link-claim", "link-explain"]

    def seen() -> list[bool]:
        return [page.cell(name).is_visible() for name in hidden]

    def shows() -> list[bool]:
        buttons = (page.cell(name).locator(".course-show") for name in ("first-see", "link-see"))
        return [button.count() == 1 for button in buttons]

    wait_until(lambda: shows() == [True, True])
    assert seen() == [False] * 4
    page.run_down_to("first-see")  # without a guess, so it fails
    assert (seen(), shows()) == ([False] * 4, [True, True])

    page.type_into("first-guess", page.answer(learner.repository, "first-guess"))
    page.run_down_to("first-see")
    page.cell("first-explain").wait_for()
    assert (seen(), shows()) == ([True, True, False, False], [False, True])

    page.cell("link-see").locator(".course-show").focus()
    page.page.keyboard.press("Enter")
    page.cell("link-explain").wait_for()
    assert (seen(), shows()) == ([True] * 4, [False, False])
    assert page.cell("link-claim").evaluate("cell => cell === document.activeElement")

    page.page.keyboard.press("Control+s")
    wait_until(lambda: "after-guess" not in page.file.read_text())
    page.open(learner.url())
    assert (seen(), shows()) == ([True] * 4, [False, False])


def test_a_lesson_goes_by_keyboard_alone(recorded, open_lesson):
    """Find a gap, answer it, run it, read the check, and continue with the next gap."""
    learner = open_lesson("00_the_lab")
    page, press = learner.page, learner.page.page.keyboard.press
    notebook = page.page.locator(".jp-Notebook")
    presses = 0
    while not notebook.evaluate("all => all.contains(document.activeElement)"):
        press("Tab")
        presses += 1
        assert presses < 60, "Tab does not reach the notebook"

    def active() -> int:
        return notebook.evaluate(
            "all => [...all.querySelectorAll('.jp-Cell')]"
            ".findIndex(cell => cell.classList.contains('jp-mod-active'))"
        )

    def reach(name: str) -> None:
        press("Escape")
        while (here := active()) != page.place[name]:
            press("ArrowDown" if here < page.place[name] else "ArrowUp")
            assert active() != here, f"the arrows stop before {name}"

    def answer(name: str, text: str) -> None:
        reach(name)
        press("Enter")
        press("Control+A")
        page.page.keyboard.insert_text(text)
        press("Shift+Enter")

    def read(check: str) -> str:
        reach(check)
        press("Shift+Enter")
        page.wait_until_idle()
        output = page.cell(check).locator(".jp-Cell-outputArea")
        wait_until(lambda: set(output.inner_text()) & {"✓", "✗"})
        assert output.evaluate(
            "out => out.getBoundingClientRect().top < innerHeight"
            " && out.getBoundingClientRect().bottom > 0"
        ), "the check's words are out of view"
        return output.inner_text()

    reach("begin")
    while active() < page.place["ex1-gap"]:
        name = list(page.place)[active()]
        if name.endswith("-guess"):
            answer(name, page.answer(learner.repository, name))
        else:
            press("Shift+Enter")
        page.wait_until_idle()
    for gap, check in (("ex1-gap", "ex1-check"), ("ex2-gap", "ex2-check")):
        reach(gap)
        press("Shift+Enter")
        assert "✗" in read(check)
        answer(gap, learner.answer(gap))
        assert "✓" in read(check)


@pytest.mark.parametrize("width", [390, 820])
def test_in_a_narrow_window_a_lesson_gets_the_room(recorded, open_lesson, width):
    learner = open_lesson("00_the_lab")
    page = learner.page.page
    page.set_viewport_size({"width": width, "height": 900})  # as a zoom does
    page.locator("#jp-left-stack").wait_for(state="hidden")
    learner.page.open(learner.url())
    page.locator("#jp-left-stack").wait_for(state="hidden")
    assert page.locator(".jp-Notebook").bounding_box()["width"] > 0.75 * width


def test_the_links_of_the_profiling_lesson_open_tensorboard_on_its_runs(recorded, open_lesson):
    """Use recorded runs, because the runs of this lesson take minutes."""
    learner = open_lesson("05_profiling")
    page = learner.page
    learner.guess()
    page.run_down_to("profiler-tab")
    scalars = _opened(learner, "board")
    scalars.get_by_text("iteration-time").first.wait_for()
    scalars.get_by_text("healthy").first.wait_for()
    scalars.screenshot(path=pictures(learner.server.folder) / "05-scalars.png")
    profiler = _opened(learner, "profiler-tab")
    profiler.frame_locator("iframe").get_by_text("Step Time Breakdown").first.wait_for()
    profiler.screenshot(path=pictures(learner.server.folder) / "05-profiler.png")


def _opened(learner: Learner, cell: str):
    with learner.page.page.context.expect_page() as opened:
        learner.page.cell(cell).locator("a", has_text="TensorBoard").click()
    return opened.value


def _signal(job_id: int, name: str) -> None:
    subprocess.run(["scancel", "--signal", name, str(job_id)], check=True, timeout=60)


def test_a_kernel_killed_in_the_middle_costs_nothing(open_lesson):
    learner = open_lesson("03_data_parallelism")
    page = learner.page
    page.run_all()
    page.cell("run").get_by_text("running on node").wait_for()
    lab = Lab(learner.server.folder, quiet=True)
    before = [record.job_id for record in lab.jobs.registry.all() if record.name == "dp4"]
    assert len(before) == 1
    run = lab.run("dp4")
    wait_until(lambda: run.log_file.is_file() and run.log_file.stat().st_size)
    _signal(before[0], "STOP")  # else it could end before the page is back, on a busy machine
    kernels = learner.server.started("ipykernel_launcher")
    assert len(kernels) == 1
    kernels[0].send_signal(signal.SIGKILL)

    wait_until(lambda: "restart" in page.page.inner_text("body").lower())
    page.page.reload()
    page.open(learner.url())
    page.page.evaluate(NOTE_EVERY_LINE)
    page.begin_down_to("run")
    page.cell("run").get_by_text("running on node").wait_for()
    _signal(before[0], "CONT")
    page.wait_until_idle()
    assert page.failures() == {}
    assert page.count("run"), "the cell did not run"
    panels = page.page.evaluate("() => [...window.seen]")
    assert len(panels) >= 2, f"the panel did not move: {panels}"
    after = [record.job_id for record in lab.jobs.registry.all() if record.name == "dp4"]
    assert after == before, "submitted twice"
    last = run.log.iterations.iloc[-1]
    assert (run.state, last["iteration"]) == ("COMPLETED", last["total_iterations"])
