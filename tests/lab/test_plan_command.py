"""`course plan` plans a training for a given model and number of devices."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from course_lib import cli, plan
from course_lib.lab.job.recipes import gpt
from course_lib.plan.layout_search import layout_text
from course_lib.plan.shapes.stages import layers_of_stages


@pytest.fixture
def course(lab, monkeypatch, capsys):
    lab.workspace.folder.mkdir(parents=True, exist_ok=True)
    monkeypatch.setenv("COURSE_WORKSPACE", str(lab.workspace))

    def call(*words):
        capsys.readouterr()
        try:
            code = cli.main(["plan", *words])
        except SystemExit as left:
            code = left.code
        said = capsys.readouterr()
        return code, said.out, said.err

    return call


def asked(model="llama-8b", gpus=16):
    return "--model", model, "--gpus", str(gpus)


def test_its_table_is_that_of_the_search(course):
    code, out, _ = course(*asked(), "--csv", "--top", "3", "--batch", "512")
    rows = list(csv.DictReader(io.StringIO(out)))
    found = plan.search(plan.preset("llama-8b"), plan.cluster("dgx-h100", 16), 512)
    assert code == 0
    assert [row["layout"] for row in rows] == [layout_text(e.layout) for e in found.fitting[:3]]


def test_tokens_may_have_a_unit(course):
    days = [course(*asked(), "--tokens", word, "--top", "1", "--csv")[1] for word in ("2T", "2e12")]
    assert days[0] == days[1]
    assert course(*asked(), "--tokens", "2X")[0] == 2


def test_costs_follow_from_days_power_and_prices(course):
    costs = ("--tokens", "1e12", "--price", "2", "--pue", "1.2", "--co2", "400")
    code, out, _ = course(*asked(), *costs, "--price-per-kwh", "0.1", "--json")
    row = json.loads(out)[0]
    assert out.endswith("]\n")
    hours = row["days"] * 24 * 16
    assert code == 0
    assert row["device_hours"] == pytest.approx(hours)
    assert row["energy_mwh"] == pytest.approx(hours * 0.7 * 1.2 / 1000)
    assert row["co2_tonnes"] == pytest.approx(row["energy_mwh"] * 0.4)
    assert row["price"] == pytest.approx(hours * 2 + row["energy_mwh"] * 100)


def test_nodes_give_as_many_devices_as_divide_them(course):
    _, out, _ = course(*asked(gpus=512), "--machine", "GB200")
    assert "nodes × devices: 8 × 64" in out
    assert "on 512 × GB200" in out


def test_a_mixture_is_planned_with_expert_ranks(course):
    code, out, _ = course(*asked("deepseek-v3", 512), "--explain", "1")
    assert code == 0
    assert "671.0 billion parameters, 37.6 for a token" in out
    assert "exchange" in out


def test_a_configuration_is_planned_as_its_model(course, tmp_path):
    (tmp_path / "config.json").write_text(
        json.dumps(
            {
                "hidden_size": 2048, "num_hidden_layers": 16, "num_attention_heads": 32,
                "num_key_value_heads": 8, "intermediate_size": 8192, "vocab_size": 128256,
            }
        )
    )  # fmt: skip
    code, out, _ = course(*asked(str(tmp_path / "config.json")), "--sequence", "8192")
    assert code == 0
    assert tmp_path.name in out


def test_flags_say_the_layout_in_words_of_megatron(course):
    _, out, _ = course(*asked("deepseek-v3", 512), "--flags", "1")
    for flag in ("--num-experts 256", "--multi-latent-attention", "--moe-router-topk 8"):
        assert flag in out
    stages = out.split("--pipeline-model-parallel-layout ")[1].split()[0]
    assert stages.count("t") == 61
    assert stages[0] + stages[-1] == "EL"


@pytest.mark.parametrize("stages", ["nearly-even", (*[4] * 13, *[3] * 3)])
def test_flags_name_the_layers_that_predict_further_tokens(stages):
    model = plan.preset("deepseek-v3").but(mtp_layers=1)
    layout = plan.Layout(pipeline=16, stages=stages, global_batch=64)
    words = gpt.of_estimate("mtp", plan.predict(model, layout, plan.cluster("H100", 16)), "p.py")
    flags = dict(zip(words.arguments, words.arguments[1:], strict=False))
    assert flags["--mtp-num-layers"] == "1"
    assert (flags["--moe-router-num-groups"], flags["--moe-router-group-topk"]) == ("8", "4")
    written = flags["--pipeline-model-parallel-layout"]
    counts = tuple(part.count("t") + part.count("m") for part in written.split("|"))
    assert counts == layers_of_stages(model, layout)
    assert (written.count("t"), written.endswith("mL")) == (61, True)


def test_the_script_is_one_that_a_shell_understands(course, tmp_path):
    checker = shutil.which("shellcheck", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if checker is None:
        pytest.skip("shellcheck is not installed")
    code, out, _ = course(*asked("mixtral-8x22b", 128), "--script", "1", "--site", "juwels-booster")
    (tmp_path / "job.sh").write_text(out)
    checked = subprocess.run([checker, tmp_path / "job.sh"], capture_output=True, check=False)
    assert code == 0
    assert "#SBATCH --nodes=16" in out
    assert checked.returncode == 0, checked.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--gpus", "8"), "--model and --gpus are needed"),
        (asked("llama"), "use one of llama-1b"),
        ((*asked(), "--machine", "abacus"), "no cluster 'abacus'"),
        (asked("1t", 8), "no layout fits"),
        ((*asked(), "--tokens", "nan"), "tokens"),
        ((*asked(), "--price", "-1"), "price_per_device_hour"),
        ((*asked(), "--pue", "0.5"), "pue"),
        ((*asked(), "--explain", "999999"), "layout 999999 does not exist"),
        ((*asked(), "--code", "abacus"), "no code base"),
        (asked("/no/such/config.json"), "cannot be read"),
        (asked(gpus=10**9), "not a whole number from 1 to 999,999,999"),
    ],
)
def test_what_cannot_be_planned_is_refused_with_a_sentence(course, words, said):
    code, out, error = course(*words)
    assert code == 2
    assert said in error
    assert "Traceback" not in error
    assert out == ""
