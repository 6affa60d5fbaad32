"""Functions and their docstrings: the data are the same everywhere, and the model learns."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import torch

from summary.model import Summariser
from summary.pairs import read_pairs

PROGRAM = Path(__file__).resolve().parents[2] / "code" / "train_summary.py"


def test_no_sample_of_one_part_is_in_another():
    rows = [tuple(row.tolist()) for part in read_pairs().values() for row in part.sources]
    assert len(set(rows)) > 0.97 * len(rows), "few differ in unknown words alone"


def test_it_learns_in_three_epochs_and_keeps_the_best(tmp_path, monkeypatch):
    monkeypatch.setenv("COURSE_RUN_DIR", str(tmp_path))
    said = subprocess.check_output([sys.executable, str(PROGRAM)], text=True)
    losses = [float(loss) for loss in re.findall(r"train loss ([\d.]+)", said)]
    assert len(losses) == 3
    assert losses[2] < 0.85 * losses[0]
    Summariser().load_state_dict(torch.load(tmp_path / "best.pt"))
    assert re.search(r"^test loss [\d.]+$", said, re.MULTILINE)


def test_no_word_of_a_summary_sees_those_that_follow():
    torch.manual_seed(0)
    model = Summariser().eval()
    source, summary = read_pairs()["test"][0]
    changed = summary.clone()
    changed[4:] = 7
    one, other = (model(source[None], row[None])[0, :5] for row in (summary, changed))
    assert torch.allclose(one, other, atol=1e-6)
