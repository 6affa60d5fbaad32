"""A run continues bit for bit: in another layout, after a kill, on a full disk."""

from __future__ import annotations

import json
import re
import resource
import signal
import subprocess
import sys

import one_run
import pytest
from plain_ranks import plain_ranks

from checkpoints.files import newest

DECAY = ("--lr-decay-iters", "12")
LOSS = re.compile(r"iteration +(\d+)/.*lm loss: (\S+) .*grad norm: (\S+) ")


def losses(text):
    return {int(n): (loss, norm) for n, loss, norm in LOSS.findall(text)}


def run(worlds, ranks, folder, *more, steps):
    argv = [*one_run.MODEL, *DECAY, "--log-interval", "1",
            "--train-iters", str(steps), *" ".join(more).split()]  # fmt: skip
    if folder is not None:
        argv += ["--save", str(folder), "--load", str(folder), "--save-interval", "2"]
    answers = worlds(ranks).run(one_run.program, argv)
    assert [code for code, _ in answers] == [0] * ranks
    return "\n".join(text for _, text in answers)


@pytest.mark.many(2)
@pytest.mark.parametrize(
    ("ranks", "flags"),
    [
        (1, ""),
        (1, "--fp16 --initial-loss-scale 1048576"),
        (3, "--use-distributed-optimizer --global-batch-size 6"),  # the last shard's end is padding
        (2, "--use-torch-fsdp2"),
        (4, "--tensor-model-parallel-size 2 --use-distributed-optimizer --sequence-parallel"),
        (2, "--async-save --use-distributed-optimizer --bf16"),
        (4, "--async-save --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2"),
    ],
)
def test_a_resumed_run_continues_bit_for_bit(worlds, tmp_path, ranks, flags):
    whole = losses(run(worlds, ranks, None, flags, steps=6))
    run(worlds, ranks, tmp_path, flags, steps=4)
    resumed = run(worlds, ranks, tmp_path, flags, steps=6)
    assert "at iteration 4" in resumed
    assert losses(resumed) == {5: whole[5], 6: whole[6]}


LLAMA = (
    "--fp64 --group-query-attention --num-query-groups 2 --position-embedding-type rope "
    "--normalization RMSNorm --swiglu --disable-bias-linear"
)


def test_a_checkpoint_of_one_layout_is_read_by_any_other(worlds, tmp_path):
    layouts = [
        (4, "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2"),
        (2, "--use-torch-fsdp2"),
        (2, "--context-parallel-size 2"),
        (4, "--tensor-model-parallel-size 2 --use-distributed-optimizer --sequence-parallel"),
        (1, ""),
    ]
    whole = losses(run(worlds, 1, None, LLAMA, steps=10))
    for number, (ranks, flags) in enumerate(layouts, 1):
        text = run(worlds, ranks, tmp_path, flags, LLAMA, steps=2 * number)
        got = losses(text)
        assert got == {step: whole[step] for step in (2 * number - 1, 2 * number)}


def test_a_half_written_checkpoint_is_never_chosen(worlds, tmp_path):
    run(worlds, 1, tmp_path, steps=2)
    unfinished = tmp_path / "iter_0000004.unfinished"
    unfinished.mkdir()
    (unfinished / "tensors.json").touch()
    (tmp_path / "iter_0000006").mkdir()
    (tmp_path / "latest_checkpointed_iteration.txt").write_text("6\n")
    assert newest(tmp_path).name == "iter_0000002"
    (tmp_path / "latest_checkpointed_iteration.txt").write_text("garbage")
    assert newest(tmp_path).name == "iter_0000002"


@pytest.mark.parametrize(
    ("flags", "inside"),
    [("--finetune", []), ("--no-load-optim", []), ("", ["config.json", "model.safetensors"])],
)
def test_who_waits_for_weights_does_not_get_random_ones(worlds, tmp_path, flags, inside):
    for name in inside:
        (tmp_path / name).touch()
    argv = [*one_run.MODEL, *DECAY, *flags.split(), "--train-iters", "1", "--load", str(tmp_path)]
    with pytest.raises(AssertionError, match="has no checkpoint of this program; give"):
        worlds(1).run(one_run.program, argv)


def test_a_link_whose_target_has_gone_is_no_empty_folder(worlds, tmp_path):
    (tmp_path / "there").symlink_to("back")
    (tmp_path / "back").symlink_to("there")
    argv = [*one_run.MODEL, *DECAY, "--train-iters", "1", "--load", str(tmp_path / "there")]
    with pytest.raises(AssertionError, match="has no checkpoint of this program; give"):
        worlds(1).run(one_run.program, argv)


def test_the_last_steps_are_saved_whatever_the_interval(worlds, tmp_path):
    """The result is the same as in Megatron-LM."""
    argv = [*one_run.MODEL, *DECAY, "--save", str(tmp_path), "--load", str(tmp_path)]
    for more in (["--save-interval", "1000"], []):
        answers = worlds(2).run(one_run.program, [*argv, "--train-iters", "3", *more])
        assert newest(tmp_path).name == "iter_0000003"
    assert "saving checkpoint" not in "".join(text for _, text in answers), "nothing was left to do"


def test_a_run_that_goes_on_under_another_schedule_says_so(worlds, tmp_path):
    """--lr-decay-iters follows from --train-iters if it is not given."""
    argv = [*one_run.MODEL, "--save", str(tmp_path), "--load", str(tmp_path)]
    worlds(1).run(one_run.program, [*argv, "--train-iters", "2"])
    [(_, text)] = worlds(1).run(one_run.program, [*argv, "--train-iters", "3", "--seed", "7"])
    [line] = [line for line in text.splitlines() if "WARNING: iter_0000002" in line]
    assert line.endswith(
        "was trained with --lr-decay-iters 2, --seed 1234; it continues with --lr-decay-iters 3, "
        "--seed 7"
    )


SCALE = re.compile(r"iteration +\d+/.*loss scale: (\S+) ")
FP16 = "--fp16 --initial-loss-scale 4096"


@pytest.mark.parametrize(
    ("first", "then", "scale"),
    [
        (FP16, "--fp16 --initial-loss-scale 8", "4096.0"),
        (FP16, "--fp16 --loss-scale 16", "16.0"),
        (FP16, "--bf16", "1.0"),
        ("--bf16", FP16, "4096.0"),
    ],
)
def test_the_loss_scale_continues_if_both_runs_use_one(worlds, tmp_path, first, then, scale):
    run(worlds, 1, tmp_path, first, steps=2)
    assert SCALE.findall(run(worlds, 1, tmp_path, then, steps=3)) == [scale]


def start(repository, folder, steps, *more, before=(), **options):
    argv = [*one_run.MODEL, *DECAY, "--log-interval", "1", "--train-iters", str(steps), "--save",
            str(folder), "--load", str(folder), "--save-interval", "1", *more]  # fmt: skip
    return subprocess.Popen(
        [*before, sys.executable, str(repository / "code" / "pretrain_gpt.py"), *argv],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options,
    )  # fmt: skip


@pytest.mark.many(2)
@pytest.mark.parametrize("flags", [(), ("--async-save",)])
def test_killed_at_any_file_operation_of_a_save_it_continues(worlds, repository, tmp_path, flags):
    program = repository / "tests/code/checkpoints/killed_saves.py"
    done = subprocess.run(
        [sys.executable, str(program), str(tmp_path), *flags],
        capture_output=True, text=True, check=False, timeout=200,
    )  # fmt: skip
    runs = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0, done.stderr
    assert [run["killed"] for run in runs] == [True] * (len(runs) - 1) + [False]
    whole = losses(run(worlds, 1, None, steps=3))
    chosen = [run["chosen"] for run in runs]
    second = chosen.index("iter_0000002")
    assert second > 5  # files are opened, closed and renamed before the checkpoint is complete
    assert chosen == ["iter_0000001"] * second + ["iter_0000002"] * (len(chosen) - second)
    for one in runs:
        first = int(one["chosen"][-1]) + 1
        assert losses(one["text"]) == {step: whole[step] for step in range(first, 4)}


@pytest.mark.slow
@pytest.mark.many(2)
@pytest.mark.parametrize("flags", [(), ("--async-save",)])
@pytest.mark.parametrize("killed", [0, 2])
def test_a_rank_that_is_lost_while_it_saves_is_no_full_disk(repository, tmp_path, killed, flags):
    codes, text = plain_ranks(
        repository / "code/pretrain_gpt.py", *one_run.MODEL, *DECAY, "--global-batch-size", "6",
        "--train-iters", "2000", "--save", tmp_path, "--save-interval", "2",
        "--planted-fault", f"killed-saving:{killed}:4", *flags, size=3,
    )  # fmt: skip
    assert codes == [-signal.SIGKILL if rank == killed else 1 for rank in range(3)], text
    [line] = [line for line in text.splitlines() if "rror" in line]
    assert f"pretrain_gpt.py: error: lost rank {killed} (on " in line
    assert newest(tmp_path).name == "iter_0000002"


@pytest.mark.parametrize("flags", [(), ("--async-save",)])
def test_a_full_disk_leaves_the_last_good_checkpoint_and_says_so(repository, tmp_path, flags):
    def no_large_files():
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

    with start(repository, tmp_path, 1) as process:
        process.communicate(timeout=120)
    assert newest(tmp_path).name == "iter_0000001"
    with start(repository, tmp_path, 3, *flags, preexec_fn=no_large_files) as process:
        text, _ = process.communicate(timeout=120)
    assert process.returncode == 1
    assert "ERROR: no checkpoint of iteration 2: rank 0: [Errno 27] File too large" in text
    assert f"the last good checkpoint is {tmp_path}/iter_0000001. `ls -ld {tmp_path}`" in text
    assert 3 in losses(text)  # training went on
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "iter_0000001",
        "latest_checkpointed_iteration.txt",
        "saving.lock",
    ]
