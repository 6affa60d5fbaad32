"""Linear layers in eight bits compute what fake quantisation computes, in every layout."""

from __future__ import annotations

import one_run
import pytest
import torch
from fake_quantisation import rounded
from test_equality import (
    BLOCK,
    FSDP,
    INTERLEAVED,
    LLAMA,
    RING,
    SELECTIVE,
    SP,
    STEPS,
    UNIFORM,
    ZERO,
    check,
    each_of,
    plain_once,
    sizes,
)
from test_experts import DEEPSEEK, LOSS, experts, program

from flags.arguments import parse_arguments
from parallel.layout import Group
from parallel.layout_checks import grid_from
from process.errors import ArgumentsError
from training import eight_bits
from training.eight_bits import E4M3, E5M2, block_of, multiply, quantise

ALONE = (Group([0], 0), Group([0], 0))
TENSOR, ROW = "--fp8-format hybrid", "--fp8-format e4m3 --fp8-recipe rowwise"
WIDE = "--hidden-size 64 --seq-length 32 --micro-batch-size 4 --num-layers 2"
MX = f"--fp8-format hybrid --fp8-recipe mxfp8 {WIDE}"
WIDER = "--hidden-size 256 --seq-length 128 --micro-batch-size 4 --num-layers 2"
TILES = f"--fp8-format e4m3 --fp8-recipe blockwise {WIDER}"
LAYOUTS = [
    (1, TENSOR),
    (1, f"{ROW} {LLAMA}"),
    (1, f"{MX} {UNIFORM} 1"),
    (1, f"{TILES} --swiglu --ffn-hidden-size 128"),
    (2, f"{TENSOR} {sizes(tensor=2)}"),
    (2, f"{TENSOR} {sizes(context=2)} {ZERO}"),
    (2, f"{TENSOR} {FSDP} {LLAMA}"),
    (2, f"{TENSOR} {FSDP} --fp8-param-gather"),
    (3, f"{ROW} {FSDP} --global-batch-size 12"),  # a mean of three ranks is rounded otherwise
    (4, f"{TENSOR} {FSDP} --fp8-param-gather {sizes(tensor=2)} {SP} {LLAMA} {UNIFORM} 1"),
    (2, f"{TENSOR} {sizes(pipeline=2)} --pipeline-schedule zero-bubble --micro-batch-size 2"),
    (2, f"{ROW} {sizes(tensor=2)} {SP} {LLAMA}"),
    (2, f"{ROW} {sizes(context=2)} {RING} {SELECTIVE}"),
    (2, f"{ROW} {sizes(pipeline=2)} {INTERLEAVED}"),
    (2, f"{MX} {sizes(tensor=2)} {SP}"),
    (2, f"{MX} {sizes(context=2)}"),
    (2, f"{MX} {sizes(pipeline=2)} --pipeline-schedule zero-bubble"),
    (2, f"{TILES} {sizes(tensor=2)}"),
    (4, f"{TENSOR} {sizes(tensor=2, context=2)} {SP} {LLAMA}"),
    (4, f"{ROW} {sizes(tensor=2)} {SP} {FSDP}"),
    (4, f"{ROW} {sizes(tensor=2, context=2)} {UNIFORM} 3"),
    (4, f"{ROW} {DEEPSEEK} {sizes(tensor=2)} {SP} {experts(2)} {ZERO}"),
    (4, f"{TENSOR} {DEEPSEEK} {sizes(pipeline=2)} {experts(2)}"),
    (4, f"{MX} {sizes(tensor=2, context=2)} {SP} {BLOCK} 1"),
    (4, f"{MX} {sizes(tensor=2)} {ZERO}"),
    (8, f"{TENSOR} {sizes(tensor=2, context=2, pipeline=2)} {SP} {ZERO}"),
]  # fmt: skip


@pytest.fixture(scope="module")
def plain():
    made = {}
    return lambda argv: plain_once(argv, made)


@pytest.mark.many(4)
@each_of(LAYOUTS)
def test_a_layout_equals_the_fake_quantised_plain_model(worlds, plain, ranks, flags, tmp_path):
    if FSDP in flags:
        worlds.renew(ranks)
    argv = [*one_run.MODEL, *flags.split(), "--fp64"]
    check(worlds(ranks).run(one_run.run, argv, STEPS, str(tmp_path)), plain(argv), 1e-10, 1e-9)


@pytest.mark.parametrize("recipe", ["tensorwise", "rowwise", "blockwise", "mxfp8"])
@pytest.mark.parametrize("wide", [torch.float64, torch.float32, torch.bfloat16])
def test_quantised_numbers_equal_fake_quantisation_to_the_last_bit(recipe, wide):
    torch.manual_seed(1)
    matrix = (torch.randn(256, 128) * torch.randn(256, 1).exp() ** 3).to(wide)
    matrix[5] = 0
    for dtype, largest in ((E4M3, 448.0), (E5M2, 57344.0)):
        for weight in (False, True):
            ours = quantise(matrix, dtype, block_of(recipe, weight), ALONE).numbers(wide)
            fake = rounded(matrix.double(), recipe, largest, weight).to(wide)
            assert torch.equal(ours, fake)
            again = quantise(ours, dtype, block_of(recipe, weight), ALONE).numbers(wide)
            assert torch.equal(ours, again)


@pytest.mark.parametrize("recipe", ["tensorwise", "rowwise"])
def test_the_matmul_in_eight_bits_equals_the_emulated_one(recipe, monkeypatch):
    """PyTorch's `_scaled_mm` also runs on processors."""
    torch.manual_seed(2)
    block = block_of(recipe)
    a = quantise(torch.randn(32, 64), E4M3, block, ALONE)
    b = quantise(torch.randn(48, 64), E5M2, block, ALONE)
    emulated = multiply(a, b, torch.float32)
    monkeypatch.setattr(eight_bits, "multiplies_in_eight_bits", lambda *_: True)
    assert torch.allclose(multiply(a, b, torch.float32), emulated, rtol=1e-6, atol=1e-5)


@pytest.mark.parametrize("bad", [torch.inf, torch.nan])
def test_an_overflow_is_not_hidden(bad):
    matrix = torch.tensor([[1.0, bad]])
    assert quantise(matrix, E4M3, (0, 0), ALONE).numbers(torch.float32).isnan().all()


def test_a_run_in_eight_bits_goes_on_in_another_layout(worlds, tmp_path):
    flags = f"{ROW} {LLAMA} --fp64 --log-interval 1 --lr-decay-iters 6"
    whole = LOSS.findall(program(worlds, 1, f"{flags} --train-iters 6"))
    layouts = [(2, sizes(tensor=2)), (2, f"{sizes(pipeline=2)}"), (2, f"{sizes(context=2)} {ZERO}")]
    text = ""
    for number, (ranks, layout) in enumerate(layouts, 1):
        files = f"--save {tmp_path} --load {tmp_path} --train-iters {2 * number}"
        text += program(worlds, ranks, f"{flags} {layout} {files}")
    assert LOSS.findall(text) == whole
    assert len(whole) == 6


def counted(argv, folder):
    """Run on this rank, and count the bytes that FSDP2 gathers in its first forward pass."""
    import torch.distributed as dist

    gather, sent = dist.all_gather_single, []
    training = one_run.make(argv)

    def counting(output, *given, **named):
        sent.append(output.nbytes * (1 - 1 / dist.get_world_size()))
        return gather(output, *given, **named)

    dist.all_gather_single = counting
    try:
        training.pipeline.evaluate(training.loaders["train"].batch(0, 1))
    finally:
        dist.all_gather_single = gather
    training.holder.evaluated()
    return one_run.run(argv, 2, folder)["losses"], sum(sent), training.holder.gathered_bytes


@pytest.mark.parametrize("ranks", [2, 3])
def test_gathers_in_eight_bits_send_fewer_bytes_and_change_nothing(worlds, ranks, tmp_path):
    """Three ranks have shards of different sizes."""
    argv = [*one_run.MODEL, *f"{TENSOR} {FSDP} --bf16 --micro-batch-size 4".split()]
    argv += ["--global-batch-size", f"{4 * ranks}"]
    found = []
    for more in ([], ["--fp8-param-gather"]):
        worlds.renew(ranks)
        found.append(worlds(ranks).run(counted, [*argv, *more], str(tmp_path))[0])
    (losses, long, long_said), (same_losses, short, short_said) = found
    assert losses == same_losses
    if ranks == 2:  # others send padding too
        matrices = 4 * 12 * 32 * 32  # 3 + 1 + 4 + 4 times the square of the width in each layer
        assert long - short == matrices / 2
        assert (long, short) == (long_said, short_said)


@pytest.mark.parametrize(
    ("flags", "cure"),
    [
        (f"{ROW} {FSDP} --fp8-param-gather", "--fp8-recipe tensorwise"),
        (f"{TENSOR} --torch-compile", "or --torch-compile"),
        ("--fp8-format e4m3 --fp8-recipe mxfp8", "--seq-length 16 × --micro-batch-size 1"),
        (f"{MX} {sizes(tensor=2)} --hidden-size 96", "use 64 or 128, or --fp8-recipe rowwise"),
        (f"{TILES} {sizes(tensor=2)} --ffn-hidden-size 128", "--ffn-hidden-size 128 cannot give"),
        (f"{MX} {sizes(context=2)} --micro-batch-size 2", "use 128"),
    ],
)
def test_what_cannot_be_is_refused_with_the_cure(flags, cure):
    with pytest.raises(ArgumentsError) as error:
        grid_from(parse_arguments([*one_run.MODEL, *flags.split()]), 2)
    assert cure in "\n".join(error.value.problems)


def test_a_transposed_matrix_is_quantised_into_row_major_values():
    # _scaled_mm refuses other strides on GPUs; the backward pass quantises transposed matrices.
    transposed = torch.randn(64, 32).t()
    assert quantise(transposed, E4M3, (0, 0), ALONE).values.is_contiguous()
