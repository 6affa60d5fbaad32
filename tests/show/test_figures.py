"""Every figure is drawn from tables, has a text for people who cannot see it, and is small."""

from __future__ import annotations

import functools
import io
from fractions import Fraction
from itertools import pairwise
from types import SimpleNamespace

import example_tables as example
import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from PIL import Image

from course_lib import plan, read, show
from course_lib.mistakes.errors import CourseError
from course_lib.read.memory_traces.timeline import MemoryTimeline
from course_lib.show import tables
from course_lib.show.picture import OUTPUT_LIMIT_BYTES


def _links():
    pairs = ((0, 1, 50.0, 1.9), (0, 2, 120.0, 0.12))
    samples = [
        {
            "kind": "point_to_point",
            "source": source,
            "destination": destination,
            "size_bytes": 2**power,
            "time_us": alpha_us + 2**power / bandwidth_gb_s / 1e3,
        }
        for source, destination, alpha_us, bandwidth_gb_s in pairs
        for power in range(10, 27)
    ]
    fits = pd.DataFrame(pairs, columns=["source", "destination", "alpha_us", "bandwidth_gb_s"])
    fits.insert(0, "kind", "point_to_point")
    return SimpleNamespace(samples=pd.DataFrame(samples), fits=fits)


def _steps():
    return pd.DataFrame(
        {
            "rank": [0, 0, 1, 1],
            "step": [1, 2, 1, 2],
            "kernel_us": 41_700.0,
            "communication_us": [48_000.0, 49_000.0, 48_500.0, 48_500.0],
            "dataloader_us": 4_000.0,
            "other_us": 5_800.0,
            "total_us": 100_000.0,
        }
    )


def _kernels():
    return pd.DataFrame(
        {"name": ["gemm", "add"], "total_us": [3e4, 1e4], "tensor_core": [True, False]}
    )


def _scaling():
    devices = [1, 2, 4, 8]
    return pd.DataFrame({"devices": devices, "samples_per_second": [9.0, 17.0, 33.0, 60.0]})


FLOAT16 = SimpleNamespace(max=65504.0, smallest_normal=2.0**-14, eps=2.0**-10)
FLOAT8 = SimpleNamespace(max=448.0, smallest_normal=2.0**-6, eps=2.0**-3)


def _batches():
    return pd.DataFrame(
        {
            "micro_batch": [2, 4, 16],
            "peak_mib": [67.4, 84.8, None],
            "samples_per_second": [30.0, 40.0, None],
        }
    )


def _both():
    return SimpleNamespace(ranks=tuple(example.timeline(rank, 1 - rank / 5) for rank in range(4)))


PREDICTED = {"parameters": 3e8, "activations": 2e9}
MEASURED = {"parameters": 3e8, "activations": 1.7e9, "temporary": 2e8}
GROUPS = {"tensor": [[0, 1], [2, 3]], "data": [[0, 2], [1, 3]]}

FIGURES = {
    "loss": lambda: show.loss({"dp4": example.iterations(skipped=3)}),
    "loss of two and their difference": lambda: show.loss(
        {"dp1": example.iterations(), "dp4": example.iterations()}, difference=True
    ),
    "two columns": lambda: show.lines(
        {"line": example.iterations(), "points": example.iterations(9)},
        x="iteration",
        y="lm_loss",
        log="xy",
        points=["points"],
        level=4,
    ),
    "gains": lambda: show.gains(
        pd.DataFrame(
            {"here": [9.0, 20.0, None], "elsewhere": [8.8, None, 53.2]},
            index=["as it was", "fewer gaps", "half the bits"],
        )
    ),
    "diary": lambda: show.diary(example.diary(), "own_ms"),
    "diary with a NaN": lambda: show.diary(example.diary(broken=True), "loss"),
    "kept work": lambda: show.goodput_curve(48, plan.Failures(), {4000.0: [0.9, 0.93]}),
    "throughput": lambda: show.throughput({"dp4": example.iterations()}),
    "time per iteration": lambda: show.throughput({"dp4": example.iterations()}, unit="ms"),
    "loss scale": lambda: show.loss_scale({"fp16": example.iterations(skipped=8)}),
    "scaling": lambda: show.scaling(_scaling()),
    "step time": lambda: show.step_time(_steps()),
    "operators": lambda: show.operators(_kernels()),
    "predicted": lambda: show.predicted({"step": 300.0}, {"step": 330.0}),
    "guess": lambda: show.guess(30, [62.0, 63.0], prediction=58.3, unit="ms", what="all-reduce"),
    "link heat": lambda: show.link_heat(pd.DataFrame([[np.nan, 1.9], [1.8, np.nan]])),
    "link curve": lambda: show.link_curve(_links(), {"inside": (0, 1), "between": (0, 2)}),
    "memory": lambda: show.memory(example.timeline()),
    "memory of ranks": lambda: show.memory_ranks(_both()),
    "memory compared": lambda: show.memory_compare(
        {"plain": example.timeline(), "checkpointed": example.timeline(height=0.3)}
    ),
    "memory compared by share": lambda: show.memory_compare(
        {"plain": example.timeline(), "slow": example.timeline(height=0.3)}, by="share"
    ),
    "memory compared by event": lambda: show.memory_compare(
        {"plain": example.timeline(), "short": example.timeline(points=90)}, by="event"
    ),
    "formats of numbers": lambda: show.number_formats({"fp16": FLOAT16, "fp8": FLOAT8}),
    "batches": lambda: show.batches(_batches(), 160, {"line": (30.8, 13.5), "plan": (28.3, 8.3)}),
    "batches without a wall": lambda: show.batches(_batches().head(2)),
    "memory parts": lambda: show.memory_parts(PREDICTED, MEASURED, limit_bytes=4e9),
    "memory of kinds": lambda: show.memory_kinds({"a": PREDICTED, "b": MEASURED, "c": MEASURED}),
    "memory that stays": lambda: show.memory_kinds({"a": PREDICTED}, at_peak=False),
    "ranks": lambda: show.ranks(GROUPS, devices_per_node=2),
    "schedule": lambda: show.schedule("interleaved", 4, 8),
    "measured pipeline": lambda: show.pipeline_measured(_both()),
    "monitor": lambda: show.monitor(example.load()),
    "monitor of devices": lambda: show.monitor(example.load(devices=True)),
    "timeline": lambda: show.timeline(example.spans()),
    "node from inside": lambda: show.node(plan.CLUSTERS["dgx-h100"]),
    "topology of 4": lambda: show.topology(example.nccl(4, 2)),
    "topology of 64": lambda: show.topology(example.nccl(64, 8, True)),
    "topology of 1024": lambda: show.topology(example.nccl(1024, 4)),
}


@functools.cache
def drawn(name):
    return FIGURES[name]()


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_is_an_opaque_image_with_words_that_fits_a_notebook(name):
    before = dict(mpl.rcParams)
    picture = drawn(name)
    assert dict(mpl.rcParams) == before
    data, metadata = picture._repr_mimebundle_()
    assert sum(map(len, data.values())) <= OUTPUT_LIMIT_BYTES
    assert len(picture.alt) > 30
    assert metadata["image/png"]["alt"] == data["text/plain"] == picture.alt
    image = Image.open(io.BytesIO(picture.png)).convert("RGBA")
    assert image.getpixel((0, 0)) == (255, 255, 255, 255)
    assert picture.width_px <= 800
    assert len(image.convert("RGB").getcolors(1 << 20)) > 5  # something is drawn


@pytest.mark.parametrize("name", FIGURES)
def test_every_axis_with_numbers_says_what_they_are(name):
    for axes in drawn(name).figure.axes:
        if not axes.axison or not axes.get_visible():
            continue
        for axis in axes.xaxis, axes.yaxis:
            ticks = [text.get_text() for text in axis.get_ticklabels()]
            numeric = any(tick.replace("−", "").replace(".", "").isdigit() for tick in ticks)
            shared = axes.get_shared_y_axes().get_siblings(axes) if axis is axes.yaxis else [axes]
            labels = [other.yaxis.get_label_text() for other in shared]
            assert axis.get_label_text() or any(labels) or not numeric, (name, ticks)


@pytest.mark.parametrize(("last", "numbers"), [(10, {"10", "20"}), (0.5, {"10.1", "10.4"})])
def test_a_logarithmic_axis_of_less_than_a_decade_has_numbers_too(last, numbers):
    table = example.iterations(40).assign(lm_loss=np.linspace(10, 10 + last, 40))
    axis = show.lines({"a": table}, x="iteration", y="lm_loss", log="y").figure.axes[0].yaxis
    low, high = axis.get_view_interval()
    ticks = axis.get_major_ticks()
    assert numbers <= {t.label1.get_text() for t in ticks if low <= t.get_loc() <= high}


@pytest.mark.parametrize("first", [10.0, 2.5e8])
def test_numbers_of_a_logarithmic_axis_do_not_overlap(first):
    table = pd.DataFrame({"FLOPs": [first, 64 * first], "loss": [3.0, 2.0]})
    figure = show.lines({"a": table}, x="FLOPs", y="loss", log="x").figure
    figure.draw_without_rendering()
    axis = figure.axes[0].xaxis
    low, high = axis.get_view_interval()
    ticks = [tick for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high]
    boxes = [tick.label1.get_window_extent() for tick in ticks]
    assert len(boxes) >= 3
    assert all(left.x1 < right.x0 for left, right in pairwise(boxes))


def test_the_reader_s_own_matplotlib_style_has_no_say():
    with mpl.rc_context({"figure.facecolor": "black", "font.size": 30, "axes.grid": False}):
        dark = show.guess(1, [2.0], unit="s")
    assert dark.png == show.guess(1, [2.0], unit="s").png


def test_noise_of_a_million_iterations_stays_below_the_limit():
    noise = np.random.default_rng(0)
    table = pd.DataFrame(
        {"iteration": np.arange(1_000_000), "lm_loss": noise.normal(5, 1, 1_000_000)}
    )
    data, _ = show.loss({"noise": table})._repr_mimebundle_()
    assert sum(map(len, data.values())) <= OUTPUT_LIMIT_BYTES


def test_thinning_keeps_the_lone_spike():
    y = np.zeros(1_000_000)
    y[123_456] = 9
    x, thinned = tables.thin(np.arange(1_000_000), y)
    assert thinned.max() == 9
    assert x[thinned.argmax()] == 123_456
    assert len(x) <= 2400


def test_names_may_be_korean_or_look_like_formulas():
    picture = show.loss({"한국어 $x_1$ <b>": example.iterations()})
    assert "한국어 $x_1$ <b>" in picture.alt
    assert "&lt;b&gt;" in picture.html()


def test_a_missing_column_is_named_with_those_that_are_there():
    with pytest.raises(ValueError, match=r"show\.loss needs the column lm_loss; .*: iteration"):
        show.loss({"x": pd.DataFrame({"iteration": [1]})})


def test_something_that_is_no_table_is_answered_with_what_would_do():
    with pytest.raises(TypeError, match=r"a figure needs a table.*given the text 'out.log'"):
        show.loss("out.log")


def test_an_empty_log_still_makes_a_picture():
    assert "no finite value" in show.loss({"empty": example.iterations(0)}).alt


def test_the_peak_in_words_is_the_peak_of_the_table():
    line = example.timeline()
    assert f"{line.peak_bytes / 2**30:.2f} GiB" in show.memory(line).alt


def test_a_rank_that_is_not_there_is_answered_with_those_that_are():
    with pytest.raises(ValueError, match=r"rank 7 is not in .* it has 0, 1, 2, 3"):
        show.memory_compare({"a": _both()}, rank=7)


def test_a_guess_is_drawn_whatever_kind_of_number_it_is():
    alt = show.guess(Fraction(3), 5.0, prediction=np.float32(4), unit="s").alt
    assert "guessed 3.00 s; says 4.00 s" in alt


def test_a_guess_is_optional_and_never_judged():
    alt = show.guess(..., 5.0, unit="s").alt
    assert alt == "Points on one axis: measured 5.00 s (median of 1)."


def test_gains_are_told_as_times_and_what_was_not_measured_is_left_out():
    alt = drawn("gains").alt
    assert "here: as it was 1.00 times and fewer gaps 2.22 times" in alt
    assert "elsewhere: as it was 1.00 times and half the bits 6.05 times" in alt
    with pytest.raises(ValueError, match="one row per change"):
        show.gains(pd.DataFrame())


def test_ranks_in_two_groups_are_refused():
    with pytest.raises(ValueError, match="rank 1 is in two groups groups"):
        show.ranks([[0, 1], [1, 2]])


def test_of_a_thousand_ranks_the_first_are_drawn_and_all_links_are_counted():
    picture = drawn("topology of 1024")
    assert picture.figure.get_suptitle() == "The first 64 of 1024 ranks"
    assert "Between nodes: 256 links by NET/Socket" in picture.alt


def test_links_are_counted_inside_and_between_nodes():
    alt = show.topology(example.nccl(4, 2)).alt
    assert "4 ranks on 2 nodes" in alt
    assert "Inside nodes: 2 links by P2P/IPC" in alt
    assert "Between nodes: 2 links by NET/Socket" in alt


def test_ranks_of_another_communicator_do_not_move_those_that_are_drawn(tmp_path):
    pair = "node2:40107:50000 [1] NCCL INFO comm 0x77 rank 0 nranks 2 cudaDev 1 - Init COMPLETE\n"
    path = tmp_path / "two.log"
    path.write_text(plan.nccl_log() + pair, encoding="utf-8")
    alt = show.topology(read.nccl(path)).alt
    assert "Inside nodes: 2 links by P2P/CUMEM" in alt
    assert "Between nodes: 3 links by NET/Socket" in alt


@pytest.mark.parametrize(("nodes", "devices"), [(2, 2), (4, 4)])
def test_a_simulated_topology_is_called_so_in_the_picture(tmp_path, nodes, devices):
    path = tmp_path / "simulated.log"
    path.write_text(plan.nccl_log(nodes, devices), encoding="utf-8")
    picture = show.topology(read.nccl(path))
    shape = f"Simulated: {nodes} × {devices} devices, NVLink inside a node, sockets"
    assert picture.alt.startswith(shape)
    title = picture.figure.get_suptitle() or picture.figure.axes[0].get_title(loc="left")
    assert title.replace("\n", " ").startswith(shape)


def test_the_live_table_gives_every_rank_its_last_value_and_a_curve():
    html = show.monitor_panel(example.load(seconds=90))
    assert html.count("<svg") == 12  # load and memory of 4 ranks, network of 2 nodes both ways
    assert "load of rank 3, node2" in html
    assert "<b>93.0 %</b>" in html
    assert html.count(",") < 60 * 12 * 2  # the last minute, not the whole run


def test_before_the_first_look_the_live_table_is_empty():
    assert show.monitor_panel(SimpleNamespace()) == ""


def test_a_range_inside_another_lies_below_it_in_the_timeline():
    from course_lib.show.runs import timelines

    spans = example.spans()
    lanes = timelines._lanes(spans)
    assert set(lanes[spans["name"] == "ProfilerStep#3"]) == {0}
    assert set(lanes[spans["name"] == "forward 1"]) == {1}
    assert set(lanes[spans["name"] == "layers"]) == {2}


@pytest.mark.parametrize(("language", "name"), [("en", "the box waits"), ("ko", "박스가 기다림")])
def test_a_sleep_interrupts_its_range_in_the_timeline_and_is_hatched(language, name, monkeypatch):
    monkeypatch.setenv("COURSE_LANGUAGE", language)
    spans = example.spans()
    spans.loc[len(spans)] = (0, 3, "course::pace", 1_006_100.0, 1_006_900.0)
    figure = show.timeline(spans).figure
    hatched = [bar for bar in figure.axes[0].collections if bar.get_hatch()]
    (asleep,) = [bar for bar in hatched if len(bar.get_paths()) == 1 and bar.get_zorder() == 2]
    assert asleep.get_paths()[0].get_extents().y0 == 0.6, "in the row of forward 0"
    assert name in [text.get_text() for text in figure.legends[0].get_texts()]


def test_a_sleep_has_the_same_name_above_the_memory_curve():
    (axes,) = show.memory(example.timeline()).figure.axes
    legends = [text for legend in axes.figure.legends for text in legend.get_texts()]
    names = {text.get_text() for text in (*axes.texts, *legends)}
    assert [name for name in names if "pace" in name] == []
    assert [name for name in names if "the box waits" in name]


def test_a_sleep_is_no_computing_in_the_bars_of_a_step():
    table = pd.DataFrame(
        {"rank": [0], "step": [1], "compute_us": 70e3, "pace_us": 30e3, "idle_us": 1e3}
    )
    picture = show.step_time(table)
    assert "compute 56 %, the box waits 42 %" in picture.alt
    (axes,) = picture.figure.axes
    hatches = {bars.get_label(): bars[0].get_hatch() for bars in axes.containers}
    assert hatches["the box waits"]
    assert not hatches["compute"]


def test_a_rank_without_a_host_is_in_the_node_whose_memory_reaches_it():
    """The log of one node names ranks of other nodes without their hosts."""
    alt = show.topology(example.nccl(4, 2, known=2)).alt
    assert "4 ranks on 2 nodes" in alt
    assert "Inside nodes: 2 links by P2P/IPC" in alt


def test_a_table_of_kernels_of_a_cpu_run_is_answered_with_what_to_use():
    with pytest.raises(ValueError, match="a CPU run has no kernels"):
        show.operators(_kernels().head(0))


@pytest.mark.parametrize("times", [2, 40])
def test_a_limit_far_above_what_is_in_use_is_told_and_not_drawn(times):
    line = example.timeline()
    line.limit_bytes = times * line.peak_bytes
    for picture in (show.memory(line), show.memory_compare({"a": line, "b": line})):
        (axes,) = picture.figure.axes
        legend = {text.get_text() for text in picture.figure.legends[0].get_texts()}
        assert ("limit of the device" in legend) == (times == 2)
        titles = axes.get_title(loc="left") + axes.get_title(loc="right")
        assert ("far above" in titles) == (times == 40)
        scale = 2**30  # the figures of these gigabytes are drawn in GiB
        assert axes.get_ylim()[1] * scale < 2.6 * line.peak_bytes


def test_memories_by_share_end_together_and_no_other_axis_is_taken():
    slow = example.timeline()
    times_us, by_category = 50 * slow.time_us, slow.bytes_by_category
    slow.time_us, slow.downsample = times_us, lambda _points: (times_us, by_category)
    (axes,) = show.memory_compare({"a": example.timeline(), "b": slow}, by="share").figure.axes
    ends = [line.get_xdata()[-1] for line in axes.lines if len(line.get_xdata()) > 2]
    assert len(ends) == 2
    assert ends == pytest.approx([100.0, 100.0], abs=1)
    with pytest.raises(CourseError, match="one of time, share, event"):
        show.memory_compare({"a": slow}, by="step")


def test_one_kind_of_memory_alone_is_not_called_all_that_is_in_use():
    times_us, by_category = np.array([0.0, 1e6]), np.array([[3 << 30, 0], [3 << 30, 1 << 30]])
    kinds = ("parameters", "activations")
    line = MemoryTimeline("cpu", "written here", kinds, times_us, by_category, rank=0)
    for shown, label in ((line, "memory in use"), (line.only("activations"), "activations")):
        for picture in (show.memory_compare({"a": shown}), show.memory_ranks(shown)):
            assert picture.figure.axes[0].get_ylabel() == f"{label} (GiB)"


def test_a_format_ends_at_its_largest_number_and_rounds_most_below_its_smallest():
    picture = show.number_formats({"fp8": FLOAT8})
    (axes,) = picture.figure.axes
    size, error = axes.lines[0].get_data()
    assert size[-1] == pytest.approx(448)
    assert error[-1] == pytest.approx(6.25)
    assert error[0] == 100
    assert "6.2 % from 0.016 to 448" in picture.alt
    with pytest.raises(CourseError, match="at least one format"):
        show.number_formats({})


def test_a_phase_is_named_in_its_visible_part():
    """Communication fills nearly all of the optimizer's phase, whose name would stand above it."""
    line = example.timeline()
    rows = [("forward", 0.0, 4e5), ("optimizer", 4e5, 9e5), ("communication", 4.1e5, 8.9e5)]
    phases = pd.DataFrame(rows, columns=["phase", "begin_us", "end_us"]).assign(step=1)
    line.phases = phases
    (panel,) = show.memory(line).figure.axes
    named = {text.get_text() for text in panel.texts}
    assert {"forward", "communication"} <= named
    assert "optimizer" not in named


def test_a_guess_that_is_no_number_is_refused_and_not_left_out():
    with pytest.raises(ValueError, match="'much' is not a number"):
        show.guess("much", [1.0, 2.0])
