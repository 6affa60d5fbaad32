"""The benchmark of lesson 15: planned, rendered, and run with a model of the box's size."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest

from course_lib import bench
from course_lib.cli import main
from course_lib.lab.bench.results import measured
from course_lib.lab.errors import LabError, RecipeError
from course_lib.lab.job import site
from course_lib.plan import Layout

from .conftest import PATIENCE_S

LARGE = ["13", "175"]


@pytest.fixture
def workspace(lab, monkeypatch):
    lab.workspace.folder.mkdir(parents=True, exist_ok=True)
    monkeypatch.setenv("COURSE_WORKSPACE", str(lab.workspace))
    return lab.workspace.folder


def test_published_rates_make_the_published_times_to_report():
    times = {tag: round(bench.published(tag).time_to_report_s, 2) for tag in LARGE}
    assert times == {"13": 329.07, "175": 554.70}


def test_the_plan_meets_a_published_run_to_which_nothing_was_fitted(shared):
    """This run is the benchmark's large model on 1024 A100, from the README of Megatron-LM."""
    rows = pd.read_csv(shared / "truth" / "published_training_rows.csv").set_index("model")
    row = rows.loc["GPT-3 175B (README example)"]
    layout = Layout(
        tensor=int(row["tp"]), pipeline=int(row["pp"]), data=int(row["dp"]), micro_batch=1,
        global_batch=int(row["global_batch_seqs"]), recompute="full", precision="fp16",
    )  # fmt: skip
    model = bench.case("175").model
    planned = bench.plan(bench.Case("175", "175 B", model, layout, 8, "selene"))
    assert planned.iteration_s == pytest.approx(row["iter_time_s"], rel=0.1)
    published_s = 20e6 / (layout.global_batch * model.sequence) * row["iter_time_s"]
    assert planned.low_s <= published_s <= planned.high_s


@pytest.mark.parametrize("tag", LARGE)
def test_the_plan_knows_the_published_rate_and_is_on_the_published_nodes(tag):
    """The planner's constants were fitted to these runs too, so a plan that misses them has
    changed."""
    planned, published = bench.plan(tag), bench.published(tag)
    assert planned.case.nodes == {"13": 8, "175": 96}[tag]
    assert planned.tokens_per_s == pytest.approx(published.tokens_per_s, rel=0.2)
    assert planned.low_s <= published.time_to_report_s <= planned.high_s


def test_only_the_large_model_is_judged_by_its_time():
    assert bench.published("175").accepted is True
    assert bench.published("13").accepted is None


def test_free_parameters_change_the_layout_and_the_batch_follows():
    case = bench.case("13").but(nodes=16, tensor=4, pipeline=2, micro_batch=2, accumulation=32)
    layout = case.layout
    assert (case.nodes, layout.data, layout.global_batch) == (16, 8, 8 * 2 * 32)
    assert case.model == bench.case("13").model
    assert bench.published(case) is None


def test_free_parameters_may_be_numbers_of_a_table():
    plain = bench.case("13").but(nodes=16, tensor=4)
    assert bench.case("13").but(nodes=np.int64(16), tensor=pd.Series([4])) == plain


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"tensor": 2.5}, "tensor: use whole numbers"),
        ({"nodes": -1}, "nodes: use whole numbers"),
        ({"tensor": 3}, "tensor 3 .* there are 32"),
        ({"tensor": 8, "pipeline": 1, "nodes": 3}, "tensor 8 .* there are 12"),
        ({"pipeline": 16}, "does not divide layers 40; use 10 or 20"),
    ],
)
def test_a_layout_that_does_not_divide_is_refused_with_what_would(changes, part):
    with pytest.raises(RecipeError, match=part):
        bench.case("13").but(**changes)


@pytest.mark.parametrize("tag", LARGE)
def test_the_job_of_a_site_starts_one_launcher_per_node_and_one_process_per_device(tag):
    text = str(bench.script(tag, "juwels-booster", partition="booster", account="me"))
    nodes = bench.case(tag).nodes
    for line in (
        f"#SBATCH --nodes={nodes}\n",
        "#SBATCH --gres=gpu:4\n",
        f"--nnodes={nodes} --nproc-per-node=4",
        "--rdzv-backend=c10d",
        '--rdzv-endpoint="$MASTER_ADDR:$MASTER_PORT"',
        "--max-restarts=0 --tee=3",
        "module load PyTorch",
        f"--tensor-model-parallel-size {bench.case(tag).layout.tensor} ",
    ):
        assert line in text


def test_megatrons_kernels_are_built_once_before_the_launch_and_its_folder_is_quoted():
    text = str(bench.script("13", "slurm", program="/opt/my code/pretrain_gpt.py"))
    build, launch = text.index("compile_helpers()"), text.index("torchrun")
    assert build < launch
    assert "PYTHONPATH='/opt/my code' srun --nodes=1 --ntasks=1 python" in text
    assert "--use-flash-attn" in text
    assert "compile_helpers" not in str(bench.script("13", "slurm"))


def test_every_site_can_render_both_jobs(monkeypatch):
    monkeypatch.setenv("USER", "learner")
    for name in site.presets():
        if name == "box":
            continue
        for tag in LARGE:
            assert "srun" in str(bench.script(tag, name, partition="large"))


def test_a_case_with_gaps_runs_nothing_and_says_what_is_missing(lab, capsys):
    gap = bench.case("box").but(tensor=4, pipeline=...)
    assert bench.run(lab, gap) is gap
    assert "still to fill in: pipeline" in capsys.readouterr().out
    assert len(lab.runs()) == 0
    assert len(bench.table([bench.published("13"), gap])) == 1


def test_what_is_fixed_cannot_be_changed():
    with pytest.raises(RecipeError, match="the benchmark fixes layers; you can change nodes"):
        bench.case("175").but(layers=48)


def test_rules_say_what_is_fixed_and_what_is_free():
    rules = bench.rules()["rule"]
    assert rules[["layers", "hidden", "heads", "sequence"]].eq("fixed").all()
    assert rules[["nodes", "tensor", "pipeline", "micro batch", "accumulation"]].eq("free").all()


def test_the_command_prints_planned_beside_published_and_says_that_nothing_ran(capsys):
    assert main(["bench", "--tag", "175"]) == 0
    text = capsys.readouterr().out
    for part in ("Planned, not run: juwels-booster", "36055.39", "554.70", "accepted"):
        assert part in text


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["--tag", "13", "--machine", "abacus"], "use one of dgx-2"),
        (["--tag", "13", "--submit", "--site", "box"], "Node count specification invalid"),
        (["--tag", "175", "--pipeline", "5"], "there are 384"),
    ],
)
def test_what_cannot_be_is_refused_with_the_reason(workspace, capsys, words, part):
    assert main(["bench", *words]) == 2
    assert part in capsys.readouterr().err


def test_the_box_runs_its_case_for_real_and_the_table_holds_what_its_log_says(lab):
    result = bench.run(lab, "box")
    times_ms = result.run.log.iterations["elapsed_ms"]
    assert len(times_ms) == bench.case("box").iterations
    assert result.tokens_per_s == pytest.approx(4 * 128 / (times_ms[1:].mean() / 1e3))
    row = result.table.iloc[0]
    assert (row["nodes"], row["tensor"], row["pipeline"], row["batch"]) == (2, 2, 2, 4)
    assert row["time to report (s)"] == pytest.approx(20e6 / result.tokens_per_s, abs=0.01)
    assert row["how"].startswith("measured")


def test_a_run_with_one_line_has_no_rate(lab, done):
    done.log_file.write_text(
        " iteration 1/ 1 | elapsed time per iteration (ms): 5.0 | global batch size: 8 |\n"
    )
    with pytest.raises(LabError, match="fewer than two lines"):
        measured("box", done)


def test_the_jube_file_holds_the_parameters_of_the_case():
    root = ElementTree.fromstring(bench.jube("175", site="juwels-booster").split("\n", 1)[1])
    given = {entry.get("name"): entry.text for entry in root.iter("parameter")}
    assert (given["nodes"], given["tensor"], given["pipeline"]) == ("96", "8", "8")
    assert "--site juwels-booster" in root.find(".//do").text


def test_jube_runs_the_benchmark_of_the_box_and_makes_the_same_table(need, workspace):
    need("jube")
    file = workspace / "box.xml"
    file.write_text(bench.jube("box"), encoding="utf-8")
    here = Path(sys.executable).parent
    environment = os.environ | {"PATH": f"{here}{os.pathsep}{os.environ['PATH']}"}
    for words in (["run", str(file)], ["result", "-a", str(workspace / "gpt-box_runs")]):
        done = subprocess.run(
            ["jube", *words], cwd=workspace, env=environment, capture_output=True, text=True,
            timeout=4 * PATIENCE_S, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
    titles, _, values = (line for line in done.stdout.splitlines() if line.startswith("|"))
    row = dict(zip(_cells(titles), _cells(values), strict=True))
    assert (row["Nodes"], row["Batch"], row["Tensor"], row["Pipeline"]) == ("2", "4", "2", "2")
    rate, seconds = float(row["Tokens/s"]), float(row["Time to report (s)"])
    assert seconds == pytest.approx(20e6 / rate, rel=1e-3)


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]
