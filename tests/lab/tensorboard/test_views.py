"""TensorBoard from JupyterLab, and every view of its profiler tab: in a real browser, offline."""

from __future__ import annotations

import os

import nbformat
import pytest
from board import wait_until

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(900)]
RUNS = ("gpu-4/profile", "narrow-1/profile", "two-3/profile", "wide-2/profile")


@pytest.fixture
def tab(visit, server):
    """The tab's own page, once all traces are read."""
    page = visit.page
    plugin = f"{server.url}tensorboard/data/plugin/pytorch_profiler/"

    def read() -> bool:
        answer = page.request.get(f"{plugin}runs")
        if not answer.ok:  # still loading
            return False
        facts = answer.json()
        return set(RUNS) <= set(facts["runs"]) and not facts["loading"]

    wait_until(read)
    page.goto(f"{plugin}index.html")
    return page


def choose(page, place: int, name: str = "") -> None:
    """Choose an entry of a menu on the left: 0 is the run, 1 the view, 2 the worker."""
    page.locator(".MuiSelect-select").nth(place).click()
    options = page.locator("li[role=option]")
    (options.filter(has_text=name) if name else options).first.click()
    page.locator("li[role=option]").first.wait_for(state="detached")


def open_view(page, run: str, view: str) -> None:
    page.locator(".MuiSelect-select").nth(1).wait_for()
    choose(page, 0, run)
    choose(page, 1, view)


def charts(page, kind: str) -> list[dict]:
    """Return title, labels, length and smallest axis value of each chart of this kind on the
    page."""
    return page.evaluate(
        """kind => [...document.querySelectorAll("#app canvas")].map(one => Chart.getChart(one))
        .filter(chart => chart && chart.config.type === kind && chart.width > 0)
        .map(chart => ({title: chart.options.plugins.title.text || "", labels: chart.data.labels,
            sets: chart.data.datasets.map(one => one.label),
            points: chart.data.datasets.reduce((sum, one) => sum + one.data.length, 0),
            inked: chart.ctx.getImageData(0, 0, chart.canvas.width, chart.canvas.height).data
                .some(value => value), min: chart.scales.x?.min, max: chart.scales.x?.max}))""",
        kind,
    )


def shown(page, kind: str, points: int) -> bool:
    found = charts(page, kind)
    return sum(one["points"] for one in found) >= points and all(one["inked"] for one in found)


def keep_picture(page, name: str) -> None:
    """Save a screenshot for people to look at, if COURSE_SCREENS names a folder."""
    if folder := os.environ.get("COURSE_SCREENS"):
        page.screenshot(path=f"{folder}/{name}.png", full_page=True)


def fits(page) -> bool:
    return page.evaluate("document.documentElement.scrollWidth") <= 1280


def test_overview_shows_the_summary_as_a_ring_and_the_steps_as_areas(tab):
    open_view(tab, "gpu-4", "Overview")
    tab.get_by_text("Step Time Breakdown").wait_for()
    wait_until(lambda: shown(tab, "doughnut", 5) and shown(tab, "bar", 10))
    assert tab.locator("td", has_text="Communication").count() == 1
    assert "Example GPU" in tab.inner_text("#app")
    assert fits(tab)
    keep_picture(tab, "overview")


def test_operator_shows_rings_and_the_table(tab):
    open_view(tab, "narrow-1", "Operator")
    tab.locator("td", has_text="aten::addmm").first.wait_for()
    wait_until(lambda: shown(tab, "doughnut", 10))
    keep_picture(tab, "operator")


def test_kernel_shows_the_share_on_tensor_cores(tab):
    open_view(tab, "gpu-4", "GPU Kernel")
    tab.locator("td", has_text="s16816gemm").first.wait_for()
    wait_until(lambda: shown(tab, "doughnut", 2))
    assert "Using Tensor Cores" in [
        name for ring in charts(tab, "doughnut") for name in ring["labels"]
    ]
    keep_picture(tab, "kernel")


def test_memory_shows_the_curve_which_zooms_by_dragging(tab):
    open_view(tab, "narrow-1", "Memory")
    wait_until(lambda: shown(tab, "line", 10))
    [whole] = charts(tab, "line")
    tab.locator("td", has_text="aten::addmm").first.wait_for()
    rows = tab.locator(".ant-table-row").count()
    box = tab.locator("#app canvas").first.bounding_box()
    middle = box["y"] + box["height"] / 2
    tab.mouse.move(box["x"] + 120, middle)
    tab.mouse.down()
    tab.mouse.move(box["x"] + 200, middle, steps=4)
    tab.mouse.up()
    wait_until(lambda: charts(tab, "line")[0]["max"] < whole["max"])
    wait_until(lambda: tab.locator(".ant-table-row").count() != rows)  # the tables follow
    tab.mouse.click(box["x"] + 150, middle, button="right")
    wait_until(lambda: charts(tab, "line") == [whole])
    assert fits(tab)
    keep_picture(tab, "memory")


def test_module_shows_the_layers_over_time(tab):
    open_view(tab, "narrow-1", "Module")
    tab.locator("td", has_text="Sequential_0").first.wait_for()
    wait_until(lambda: shown(tab, "bar", 20))
    keep_picture(tab, "module")


def test_distributed_shows_what_overlaps_and_who_waits(tab):
    open_view(tab, "two-3", "Distributed")
    tab.locator("td", has_text="gloo:all_reduce").first.wait_for()
    wait_until(lambda: shown(tab, "bar", 8))
    keep_picture(tab, "distributed")


def test_trace_shows_the_timeline(tab):
    from course_lib.lab.tensorboard import plugin

    if plugin.webcomponents_file() is None:
        need_webcomponents()
    open_view(tab, "narrow-1", "Trace")
    frame = tab.frame_locator("iframe")
    frame.locator("tr-ui-timeline-view").wait_for()
    frame.get_by_text("PyTorch Profiler", exact=True).first.wait_for()
    keep_picture(tab, "trace")


def need_webcomponents() -> None:
    text = "webcomponents was not installed by set-up (is npm there?)"
    if os.environ.get("COURSE_TEST_REQUIRE_ALL"):
        pytest.fail(text)
    pytest.skip(text)


def test_diff_compares_two_runs_and_goes_deeper_by_a_click(tab):
    tab.get_by_text("Diff", exact=True).click()
    for place, name in enumerate(("narrow-1", "", "", "wide-2", "", "")):
        choose(tab, place, name)
    wait_until(lambda: shown(tab, "bar", 2))
    names = charts(tab, "bar")[0]["labels"]
    place = tab.evaluate(
        """() => { const canvas = document.querySelector("#app canvas");
        const bar = Chart.getChart(canvas).getDatasetMeta(0).data[0];
        const box = canvas.getBoundingClientRect();
        return [box.x + bar.x, box.y + (bar.y + bar.base) / 2]; }"""
    )
    tab.mouse.click(*place)
    wait_until(
        lambda: any("Linear_0" in name for one in charts(tab, "bar") for name in one["labels"])
    )
    assert not any("Linear_0" in name for name in names)
    keep_picture(tab, "diff")


def test_scalars_and_the_tab_itself_are_reached_from_tensorboards_page(visit, server):
    visit.page.goto(f"{server.url}tensorboard/#pytorch_profiler")
    frame = visit.page.frame_locator("iframe[src*=pytorch_profiler], iframe")
    frame.get_by_text("Overview").first.wait_for()
    visit.page.goto(f"{server.url}tensorboard/#timeseries")
    visit.page.get_by_text("lm loss").first.wait_for()
    keep_picture(visit.page, "scalars")


def test_the_launcher_has_the_entry_with_its_icon(visit, server):
    page = visit.page
    page.goto(f"{server.url}lab?reset")
    card = page.locator(".jp-LauncherCard", has_text="TensorBoard")
    card.wait_for()
    card.locator("img").wait_for()
    icon = card.locator("img")
    assert icon.evaluate("image => image.naturalWidth") > 0


def run_cell(page, server, name: str, source: str) -> None:
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source)])
    notebook.metadata.kernelspec = {"name": "python3", "display_name": "Python 3"}
    nbformat.write(notebook, server.folder / f"{name}.ipynb")
    page.goto(f"{server.url}lab/tree/{name}.ipynb?reset")  # alone, not beside the last one
    page.get_by_text("| Idle").wait_for()
    page.locator(".jp-Cell .cm-content").first.click()
    page.keyboard.press("Shift+Enter")


def test_the_link_of_a_cell_opens_tensorboard(visit, server):
    source = "from course_lib.lab.tensorboard import tensorboard\ntensorboard('scalars')"
    page = visit.page
    run_cell(page, server, "link", source)
    link = page.locator(".jp-OutputArea a", has_text="TensorBoard")
    link.wait_for()
    with page.context.expect_page() as opened:
        link.click()
    board = opened.value
    pinned = board.locator("metrics-pinned-view")
    pinned.get_by_text("lm loss").first.wait_for()
    keep_picture(page, "link")
    keep_picture(board, "opened")


def test_a_moving_diagram_is_stepped_through_in_a_notebook(visit, server):
    source = "from course_lib import show\nshow.moving.collective('all-gather', 3)"
    page = visit.page
    run_cell(page, server, "steps", source)
    page.get_by_text("1 of 3. before").wait_for()
    page.get_by_role("button", name="one frame forward").click()
    page.get_by_text("2 of 3. all-gather").wait_for()
    picture = page.locator(".jp-OutputArea img:visible")
    assert picture.get_attribute("alt").startswith("2. all-gather, step 1 of 2: 3 messages")
    output = page.locator(".jp-OutputArea-output").first
    assert output.evaluate("box => box.scrollWidth <= box.clientWidth")
    keep_picture(page, "stepper")
