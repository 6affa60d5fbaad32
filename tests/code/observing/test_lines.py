"""The lines that the program prints are Megatron-LM's."""

from __future__ import annotations

import math
import re

import one_run
import pytest

from flags.arguments import parse_arguments
from observing.flops import flops_per_iteration
from training.optimizer import LossScale

ITERATION = re.compile(
    r"\n \[20\d\d-[01]\d-[0-3]\d [0-2]\d:[0-5]\d:[0-5]\d\.\d{6}\] "
    r"iteration +1/ +20 \| consumed samples: +8 \| elapsed time per iteration \(ms\): \d+\.\d \| "
    r"learning rate: \d\.\d{6}E[+-]\d\d \| global batch size: +8 \| lm loss: \d\.\d{6}E[+-]\d\d \| "
    r"loss scale: 1\.0 \| grad norm: \d+\.\d{3} \| number of skipped iterations: +0 \| "
    r"number of nan iterations: +0 \|"
)


def run(worlds, ranks, flags):
    answers = worlds(ranks).run(one_run.program, [*one_run.MODEL, *flags.split()])
    return [text for _, text in answers]


def test_the_lines_of_a_plain_run(worlds):
    [text] = run(worlds, 1, "--log-interval 1 --exit-interval 1")
    assert text.startswith(
        "using world size: 1, data-parallel size: 1, context-parallel size: 1, "
        "hierarchical context-parallel sizes: None, tensor-model-parallel size: 1, "
        "pipeline-model-parallel size: 1\nusing torch.float32 for parameters ...\n"
        "------------------------ arguments ------------------------\n"
    )
    assert "setting number of microbatches to constant 8\n" in text
    assert ITERATION.search(text)
    assert re.search(
        r"^\[Rank 0\] \(after 1 iterations\) memory \(MB\) \| allocated: [\d.]+ \| "
        r"max allocated: [\d.]+ \| reserved: [\d.]+ \| max reserved: [\d.]+$", text, re.MULTILINE,
    )  # fmt: skip
    assert "exiting program at iteration 1: --exit-interval 1" in text


LATER = (
    "--group-query-attention --num-query-groups 2 --position-embedding-type rope --swiglu "
    "--ffn-hidden-size 48 --normalization RMSNorm --disable-bias-linear "
)
LATER_MODEL = {
    "kv_groups": 2, "positions": "rotary", "activation": "swiglu", "ffn": 48, "norm": "rmsnorm",
    "bias": False,
}  # fmt: skip


def planned(**more):
    """The planner's model of one_run.MODEL."""
    from course_lib.plan import Model

    shape = {"layers": 4, "hidden": 32, "heads": 4, "sequence": 16, "vocabulary": 250}
    return Model("tested", **shape, pad_vocabulary_to=32, **more)


@pytest.mark.parametrize(
    ("flags", "shape"),
    [
        ("", {}),
        (LATER, LATER_MODEL),
        (f"{LATER} --untie-embeddings-and-output-weights", LATER_MODEL | {"tied": False}),
        ("--group-query-attention --swiglu --ffn-hidden-size 64",
         {"kv_groups": 1, "activation": "swiglu", "ffn": 64}),
    ],
)  # fmt: skip
def test_the_planner_counts_the_parameters_that_the_program_tells(worlds, flags, shape):
    from course_lib.plan import Layout, on_rank

    tensor = 1 if shape.get("kv_groups") == 1 else 2
    texts = run(worlds, 2 * tensor, f"{flags} --tensor-model-parallel-size {tensor} --log-interval "
                "1 --pipeline-model-parallel-size 2 --exit-interval 1")  # fmt: skip
    where = r"\(tensor, gtp_weight_remat, pipeline\) model parallel rank \((\d), 0, (\d)\)"
    told = re.findall(rf" > number of parameters on {where}: (\d+)", "".join(texts))
    layout = Layout(tensor=tensor, pipeline=2, global_batch=8)
    counted = [
        (t, p, on_rank(planned(**shape), layout, p).total) for t in range(tensor) for p in (0, 1)
    ]
    assert sorted((int(t), int(p), int(count)) for t, p, count in told) == counted


@pytest.mark.parametrize(("flags", "shape"), [("", {}), (LATER, LATER_MODEL)])
def test_the_planner_counts_the_flops_that_the_program_counts(flags, shape):
    from course_lib.plan import Layout, of_iteration

    args = parse_arguments([*one_run.MODEL, *flags.split()])
    args.padded_vocab_size = 256
    counted = of_iteration(planned(**shape), Layout(global_batch=8), padded=True).model
    assert flops_per_iteration(args) == counted


def test_the_reader_understands_every_line(worlds, tmp_path):
    """`read` returns as data what the program prints as text."""
    from course_lib.read import training_log

    texts = run(worlds, 4, "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 "
                "--log-interval 1 --train-iters 2 --log-throughput")  # fmt: skip
    (tmp_path / "out.log").write_text("".join(texts))
    log = training_log(tmp_path / "out.log")
    world = (log.world.world_size, log.world.data, log.world.tensor, log.world.pipeline)
    assert (world, log.world.context, log.world.micro_batches) == ((4, 1, 2, 2), 1, 8)
    counts = re.findall(r"rank \((\d), 0, (\d)\): (\d+)", "".join(texts))
    columns = ["tensor_rank", "pipeline_rank", "parameters"]
    table = log.parameters[columns].to_numpy().tolist()
    assert sorted(table) == sorted([int(n) for n in line] for line in counts)
    assert log.iterations["iteration"].tolist() == [1, 2]
    assert log.iterations["timestamp"].notna().all()
    assert log.iterations["learning_rate"].tolist() == pytest.approx([5.5e-3, 1e-3])
    assert log.iterations["tflops_per_device"].notna().all()


def test_float16_starts_with_skipped_steps(worlds):
    [text] = run(worlds, 1, "--fp16 --log-interval 10 --train-iters 10")
    assert "using torch.float16 for parameters ..." in text
    line = next(line for line in text.splitlines() if "] iteration" in line)
    assert "loss scale: 8388608.0 |" in line
    assert "number of skipped iterations:  10 |" in line
    assert "lm loss" not in line


def test_evaluation_lines(worlds):
    texts = run(worlds, 2, "--log-interval 2 --eval-interval 2 --eval-iters 2 --train-iters 4")
    line = r" validation loss at (.*?) \| lm loss value: (\S+) \| lm loss PPL: (\S+) \| "
    found = re.findall(line, texts[1])
    assert [title for title, *_ in found] == [
        "iteration 2",
        "iteration 4",
        "iteration 4 on validation set",
        "iteration 4 on test set",
    ]
    for _, loss, perplexity in found:
        assert float(perplexity) == pytest.approx(math.exp(float(loss)), rel=1e-4)


def test_the_loss_scale_moves_as_in_the_diagram_of_it():
    from course_lib.show.moving import loss_scaler

    scale = LossScale(2.0**20, dynamic=True, window=3, patience=2, hysteresis=2)
    for state in loss_scaler.simulate(30, start_power=20, window=3, hysteresis=2):
        assert scale.scale == state.scale
        scale.update(state.overflow)


def test_tensorboard_has_megatrons_names(worlds, tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    run(worlds, 1, f"--log-interval 1 --train-iters 2 --tensorboard-dir {tmp_path}")
    events = EventAccumulator(str(tmp_path))
    events.Reload()
    names = {"lm loss", "learning-rate", "loss-scale", "grad-norm", "batch-size"}
    assert names <= set(events.Tags()["scalars"])
    assert [event.step for event in events.Scalars("lm loss")] == [1, 2]
