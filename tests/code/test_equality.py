"""Every layout computes what the plain model computes: losses and gradients."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import one_run
import pytest
import torch
from fake_quantisation import Eight
from plain_gpt import Mixture, PlainGPT, Shape

from flags.ranges import pattern_of

STEPS = 5
EVALUATED = (2, 4)  # steps after which one_run.DISTURBED evaluates
SP, ZERO, FSDP = "--sequence-parallel", "--use-distributed-optimizer", "--use-torch-fsdp2"


def sizes(tensor=1, pipeline=1, context=1):
    return (
        f"--tensor-model-parallel-size {tensor} --pipeline-model-parallel-size {pipeline} "
        f"--context-parallel-size {context}"
    )


UNIFORM = "--recompute-granularity full --recompute-method uniform --recompute-num-layers"
BLOCK = "--recompute-granularity full --recompute-method block --recompute-num-layers"
SELECTIVE = "--recompute-granularity selective"
EARLY = "--overlap-grad-reduce --ddp-bucket-size"
INTERLEAVED = "--num-layers-per-virtual-pipeline-stage 1"
LAYOUTS = [
    (1, ""),
    (1, f"{UNIFORM} 3"),
    (1, SELECTIVE),
    (1, FSDP),
    (2, ""),
    (2, ZERO),
    (2, FSDP),
    (2, f"{FSDP} {UNIFORM} 1"),
    (2, f"{sizes(tensor=2)} {SP}"),
    (2, f"{sizes(tensor=2)} {SP} {SELECTIVE}"),
    (2, sizes(context=2)),
    (2, sizes(pipeline=2)),
    (2, f"{sizes(pipeline=2)} --pipeline-schedule gpipe"),
    (2, f"{sizes(pipeline=2)} --pipeline-schedule zero-bubble"),
    (2, f"{sizes(pipeline=2)} {INTERLEAVED}"),
    (4, f"{ZERO} --micro-batch-size 2"),
    (4, f"{sizes(tensor=2)} {SP} {FSDP}"),
    (4, f"{sizes(tensor=2, pipeline=2)} {SP}"),
    (4, f"{sizes(tensor=2, pipeline=2)} {BLOCK} 1 --pipeline-schedule zero-bubble"),
    (4, f"{sizes(tensor=2, context=2)} {SP}"),
    (4, f"{sizes(context=2, pipeline=2)} {ZERO}"),
    (4, f"{sizes(context=2)} {FSDP}"),
    (4, f"{sizes(context=4)} --rank-order cp-tp-dp-pp"),
    (4, f"{sizes(pipeline=2)} {INTERLEAVED} {ZERO}"),
    (4, f"{sizes(pipeline=4)} --pipeline-schedule zero-bubble"),
    (8, f"{sizes(tensor=2, context=2)} {SP} {FSDP} {SELECTIVE}"),
    (8, f"{sizes(tensor=2, pipeline=2, context=2)} {SP} {UNIFORM} 1"),
    (8, f"{sizes(pipeline=2, context=2)} {INTERLEAVED} {ZERO} --rank-order pp-dp-cp-tp"),
    (8, f"{sizes(tensor=4, pipeline=2)} {SP} --use-tp-pp-dp-mapping"),
    (2, f"{EARLY} 5000 {ZERO} --micro-batch-size 2"),
    (4, f"{EARLY} 777 {ZERO}"),
    (4, f"{EARLY} 4000 {sizes(pipeline=2)} --untie-embeddings-and-output-weights"),
    (4, f"{EARLY} 4000 {sizes(pipeline=2)} --pipeline-schedule zero-bubble"),
    (4, f"{EARLY} 3000 {sizes(pipeline=2)} {INTERLEAVED} {ZERO}"),
    (8, f"{EARLY} 3000 {sizes(tensor=2, context=2)} {SP} {ZERO} {BLOCK} 1"),
]

ROPE, RMS, SWIGLU = "--position-embedding-type rope", "--normalization RMSNorm", "--swiglu"
GROUPS, BARE = "--group-query-attention --num-query-groups", "--disable-bias-linear"
LLAMA = f"{GROUPS} 2 {ROPE} {RMS} {SWIGLU} {BARE} --untie-embeddings-and-output-weights"
# RMSNorm, since the bias of a LayerNorm of keys has no gradient: the softmax does not see it.
NORMED, RING = f"--qk-layernorm {RMS}", "--cp-comm-type p2p"
# What models have had since GPT-2, one by one and together, in every kind of layout.
SHAPES = [
    (1, f"{GROUPS} 2"),
    (1, f"{ROPE} --rotary-base 500 --rotary-percent 0.5"),
    (1, f"{SWIGLU} --ffn-hidden-size 48"),
    (1, f"{LLAMA} {SELECTIVE} --micro-batch-size 2"),
    (2, f"{LLAMA} {ZERO}"),
    (2, f"{LLAMA} {FSDP} {UNIFORM} 1"),
    (2, f"{LLAMA} {sizes(tensor=2)} {SP} {SELECTIVE} --micro-batch-size 2"),
    (2, f"{LLAMA} {sizes(pipeline=2)} --pipeline-schedule zero-bubble"),
    (2, f"{GROUPS} 2 {ROPE} {SWIGLU} {sizes(tensor=2)} {SP}"),
    (2, f"{GROUPS} 2 {ROPE} {SWIGLU} {sizes(pipeline=2)} {INTERLEAVED}"),
    (4, f"{LLAMA} {sizes(tensor=2, context=2)} {SP} --rotary-percent 0.5"),
    (4, f"{GROUPS} 4 {ROPE} {RMS} {SWIGLU} {BARE} {sizes(tensor=4)} {SP}"),
    (4, f"{LLAMA} {sizes(tensor=2)} {SP} {FSDP}"),
    (4, f"{GROUPS} 1 {ROPE} {RMS} {BARE} {sizes(context=2, pipeline=2)} {ZERO}"),
    (8, f"{LLAMA} {sizes(tensor=2, pipeline=2, context=2)} {SP} {UNIFORM} 1"),
    (2, f"{NORMED} {sizes(tensor=2)}"),
    (2, f"{NORMED} {RING} {sizes(context=2)}"),
    (4, f"{LLAMA} {NORMED} {RING} {sizes(tensor=2, context=2)} {SP} {ZERO}"),
    (4, f"{LLAMA} {RING} {sizes(context=4)} {SELECTIVE}"),
    (4, f"{NORMED} {sizes(tensor=2)} {SP} {FSDP}"),
    (8, f"{LLAMA} {NORMED} {RING} {sizes(pipeline=2, context=4)} {UNIFORM} 1"),
]
OF_THE_MODEL = (
    "untie_embeddings_and_output_weights", "group_query_attention", "num_query_groups", "swiglu",
    "position_embedding_type", "rotary_base", "rotary_percent", "normalization", "ffn_hidden_size",
    "disable_bias_linear", "fp64", "qk_layernorm", "num_experts", "moe_layer_freq",
    "moe_ffn_hidden_size",
    "moe_shared_expert_intermediate_size", "moe_router_topk", "moe_router_score_function",
    "moe_router_pre_softmax", "moe_router_enable_expert_bias", "moe_router_bias_update_rate",
    "moe_router_load_balancing_type", "moe_aux_loss_coeff", "micro_batch_size", "fp8_format",
    "fp8_recipe", "num_layers", "hidden_size", "seq_length", "max_position_embeddings",
    "global_batch_size",
)  # fmt: skip


@pytest.fixture(scope="module")
def plain():
    """Losses and gradients of the plain model, by its shape and precision."""
    made = {}
    return lambda argv: plain_once(argv, made)


def plain_once(argv, made):
    """The plain model's run for these flags; `made` holds earlier runs."""
    from flags.arguments import parse_arguments

    asked = vars(parse_arguments(argv))
    values = {name: asked[name] for name in OF_THE_MODEL}
    key = tuple(values.values())
    if key not in made:
        made[key] = plain_run(one_run.MODEL, values)
    return made[key]


def shape_of(args):
    return Shape(
        args.num_layers,
        args.hidden_size,
        args.num_attention_heads,
        args.seq_length,
        args.padded_vocab_size,
        tied=not args.untie_embeddings_and_output_weights,
        groups=args.num_query_groups,
        rotary_base=args.rotary_base if args.position_embedding_type == "rope" else None,
        rotary_percent=args.rotary_percent,
        rms=args.normalization == "RMSNorm",
        swiglu=args.swiglu,
        bias=not args.disable_bias_linear,
        ffn=args.ffn_hidden_size,
        qk_norm=args.qk_layernorm,
        eight=eight_of(args) if args.fp8_format else None,
        mixture=mixture_of(args) if args.num_experts else None,
    )


def eight_of(args):
    return Eight(args.fp8_recipe, args.fp8_format == "hybrid", args.micro_batch_size)


def mixture_of(args):
    balances = args.moe_router_load_balancing_type == "aux_loss"
    return Mixture(
        layers=tuple(pattern_of(args.moe_layer_freq, args.num_layers)),
        experts=args.num_experts,
        topk=args.moe_router_topk,
        width=args.moe_ffn_hidden_size,
        shared=args.moe_shared_expert_intermediate_size,
        sigmoid=args.moe_router_score_function == "sigmoid",
        pre_softmax=args.moe_router_pre_softmax,
        bias=args.moe_router_enable_expert_bias,
        coefficient=args.moe_aux_loss_coeff if balances else 0.0,
        rate=args.moe_router_bias_update_rate,
        rows=args.micro_batch_size * args.seq_length,
    )


def plain_run(argv, values):
    from dataset.samples import RandomSamples
    from flags.arguments import parse_arguments
    from parallel.layout import ExpertGroups, Grid, Group, Layout
    from parallel.products import WeightWork
    from training.learning_rate import learning_rate
    from training.model import Piece, Stage, initialise

    args = parse_arguments(argv)
    vars(args).update(values)
    args.padded_vocab_size = 256
    alone = Group([0], 0)
    layout = Layout(Grid({"tp": 1, "cp": 1, "dp": 1, "pp": 1}, "tp-cp-dp-pp"), 0, *[alone] * 8)
    if args.num_experts:
        layout = replace(layout, experts=ExpertGroups(*[alone] * 6, owners=[[0]]))
    stage = Stage(args, layout, Piece(0, args.num_layers, True, True), WeightWork())
    initialise(stage, args)
    model = PlainGPT(shape_of(args))
    model.load_state_dict(stage.state_dict(), strict=values["untie_embeddings_and_output_weights"])
    model = model.double() if args.fp64 else model
    adam = torch.optim.AdamW(model.groups(args.weight_decay), betas=(0.9, 0.999), eps=1e-8)
    samples = RandomSamples(args.vocab_size, args.seq_length, args.seed)
    losses, norms, gradients, evaluations = [], [], {}, []
    unseen = RandomSamples(args.vocab_size, args.seq_length, args.seed + 1)
    for step in range(STEPS):
        first = step * args.global_batch_size
        model.zero_grad()
        loss = loss_of(model, samples, first, args)
        sum((router.loss for router in model.routers), loss).backward()
        if step == 0:
            gradients = {n: p.grad.numpy().copy() for n, p in model.named_parameters()}
        norms.append(torch.nn.utils.clip_grad_norm_(model.parameters(), args.clip_grad).item())
        for group in adam.param_groups:
            group["lr"] = learning_rate(step, args)
        adam.step()
        for router in model.routers:
            router.move_bias()
        losses.append(loss.item())
        if step + 1 in EVALUATED:
            evaluations.append(loss_of(model, unseen, 0, args).item())
    return {"losses": losses, "norms": norms, "gradients": gradients, "evaluations": evaluations}


def loss_of(model, samples, first, args):
    text = np.stack([samples.sample(first + n) for n in range(args.global_batch_size)])
    text = torch.tensor(text)
    return model(text[:, :-1], text[:, 1:])


def difference(got, wanted):
    """Return the largest deviation, relative to the size of the right values."""
    got, wanted = np.asarray(got, np.float64), np.asarray(wanted, np.float64)
    largest = np.abs(got - wanted).max() / np.abs(wanted).max()
    return max(largest, np.linalg.norm(got - wanted) / np.linalg.norm(wanted))


def each_of(layouts):
    names = ("ranks", "flags")
    return pytest.mark.parametrize(names, layouts, ids=[f"{n} {f}" for n, f in layouts])


@pytest.mark.many(4)
@each_of(LAYOUTS)
def test_a_layout_equals_the_plain_model(worlds, plain, ranks, flags, tmp_path):
    argv = [*one_run.MODEL, *flags.split(), "--fp64"]
    check(worlds(ranks).run(one_run.run, argv, STEPS, str(tmp_path)), plain(argv), 1e-10)


@pytest.mark.many(5)
@each_of(SHAPES)
def test_later_shapes_of_the_model_equal_the_plain_one(worlds, plain, ranks, flags, tmp_path):
    if FSDP in flags:
        worlds.renew(ranks)
    argv = [*one_run.MODEL, *flags.split(), "--fp64"]
    check(worlds(ranks).run(one_run.run, argv, STEPS, str(tmp_path)), plain(argv), 1e-10)


PIPELINES = [one for one in LAYOUTS if re.search("pipeline-model-parallel-size [2-9]", one[1])]


@pytest.mark.many(2)
@each_of(PIPELINES[::3])
def test_a_pipeline_with_a_group_each_way_equals_it(worlds, plain, ranks, flags, tmp_path):
    argv = [*one_run.MODEL, *flags.split(), "--fp64"]
    answers = worlds(ranks).run(one_run.run_with_a_group_each_way, argv, STEPS, str(tmp_path))
    check(answers, plain(argv), 1e-10)


@pytest.mark.many(6)
@each_of(LAYOUTS[::3])
def test_in_float32_a_layout_equals_it_to_rounding(worlds, plain, ranks, flags, tmp_path):
    """The same code computes in both types, so every third layout is enough to show that rounding
    stays small."""
    if FSDP in flags:
        worlds.renew(ranks)
    argv = [*one_run.MODEL, *flags.split()]
    check(worlds(ranks).run(one_run.run, argv, STEPS, str(tmp_path)), plain(argv), 1e-5)


@pytest.mark.slow
def test_the_compiled_model_is_one_graph_and_equals_the_plain_one(worlds, plain, tmp_path):
    argv = [*one_run.MODEL, "--torch-compile"]
    assert worlds(1).run(one_run.graph_breaks, argv) == [0]
    check(worlds(1).run(one_run.run, argv, STEPS, str(tmp_path)), plain(argv), 1e-5)


def check(answers, wanted, allowed, later_norms=None):
    """Check that all ranks have the plain model's losses, and together its gradients. Adam enlarges
    rounding errors from step to step, most of all in the norms of gradients."""
    seen = set()
    for answer in answers:
        assert difference(answer["losses"], wanted["losses"]) <= allowed
        assert difference(answer["norms"][0], wanted["norms"][0]) <= allowed
        assert difference(answer["norms"], wanted["norms"]) <= (later_norms or allowed)
        assert difference(answer["evaluations"], wanted["evaluations"]) <= allowed
        assert answer["traced"]
        assert [line for line in answer["said"] if "ERROR" in line] == []
        for name, gradient in answer["gradients"].items():
            whole = wanted["gradients"][name]
            assert difference(gradient, whole[answer["place"][name]]) <= allowed, name
            seen.add(name)
    assert seen == set(wanted["gradients"])
