"""A folder that cannot be written to is told before training, not when the first file is due."""

from __future__ import annotations

import one_run
import pytest

RECORDING = ["--profile-step-start", "1", "--profile-step-end", "2", "--train-iters", "2"]


@pytest.mark.parametrize(
    ("flags", "what"),
    [
        (["--tensorboard-dir"], "scalars"),
        ([*RECORDING, "--profile", "--profile-ranks", "1", "--profile-dir"], "profiles"),
    ],
)
def test_every_rank_is_refused_where_one_could_not_write(worlds, tmp_path, flags, what):
    (tmp_path / "file").touch()
    argv = [*one_run.MODEL, *flags, str(tmp_path / "file" / "inside")]
    said = worlds(2).run(one_run.refusal, argv)
    assert said[0] == said[1]
    assert said[0].startswith(f"{what} (")
    assert "cannot be written to" in said[0]


def test_a_run_that_goes_on_behind_the_steps_to_record_says_so(worlds, tmp_path):
    saving = ["--save", str(tmp_path), "--load", str(tmp_path), "--lr-decay-iters", "12"]
    argv = [*one_run.MODEL, *saving, "--train-iters"]
    worlds(1).run(one_run.program, [*argv, "3"])
    recording = ["--record-memory-history", *RECORDING[:-2]]
    [(code, text)] = worlds(1).run(one_run.program, [*argv, "5", *recording])
    assert code == 0
    assert "WARNING: no step is recorded: --profile-step-start 1 lies before iteration 3" in text
