"""Tables of all flags, with Megatron-LM's names, so that one script can start either program.

A flag is one row: name, range (see ranges.py), default, meaning. Every row has a range. The last
group has the flags that only this program knows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from flags.parser import Row
from flags.ranges import COUNT, NUMBER, ON, SIZE, TEXT, Layers, OneOf, Real, Several, Shares, Whole
from training.learning_rate import STYLES, WSD_STYLES

POSITIONS = OneOf(("learned_absolute", "rope"))
NORMS = OneOf(("LayerNorm", "RMSNorm"))
BACKENDS = OneOf(("nccl", "gloo"))
GRANULARITIES, METHODS = OneOf(("full", "selective")), OneOf(("uniform", "block"))
SCHEDULES = OneOf(("1f1b", "gpipe", "interleaved", "zero-bubble"))
CONTEXTS = OneOf(("allgather", "p2p"))
SCORES, BALANCES = OneOf(("softmax", "sigmoid")), OneOf(("aux_loss", "none"))
FORMATS = OneOf(("e4m3", "hybrid"))
RECIPES = OneOf(("tensorwise", "rowwise", "blockwise", "mxfp8"))
SHARE = Real(least=0, below=1)
TOKENIZERS = OneOf(("GPT2BPETokenizer", "NullTokenizer"))
MODEL = [
    ("--num-layers", Whole(1, 100_000), 2, "transformer layers"),
    ("--hidden-size", SIZE, 128, "width of the residual stream"),
    ("--ffn-hidden-size", SIZE, None, "width inside the MLP (default: 4 × hidden; SwiGLU: 8/3)"),
    ("--num-attention-heads", SIZE, 4, "attention heads"),
    ("--group-query-attention", ON, False, "several heads share one key and value"),
    ("--num-query-groups", SIZE, None, "keys and values per token (default: 1, one for all heads)"),
    ("--qk-layernorm", ON, False, "normalize queries and keys in every head"),
    ("--position-embedding-type", POSITIONS, "learned_absolute", "learned table, or rotary"),
    ("--rotary-base", SIZE, 10000, "the slowest pair rotates once in about 6 times as many tokens"),
    ("--rotary-percent", Real(above=0, most=1), 1.0, "share of a head's components that rotate"),
    ("--normalization", NORMS, "LayerNorm", "norm before attention, MLP and head"),
    ("--swiglu", ON, False, "gate the MLP: SiLU of one matrix times another, instead of GELU"),
    ("--disable-bias-linear", ON, False, "no biases beside the matrices"),
    ("--num-experts", SIZE, None, "MLPs per layer, of which each token uses a few"),
    ("--moe-layer-freq", Layers(), "1", "layers with experts: every n-th, or [0]*1+[1]*3"),
    ("--moe-ffn-hidden-size", SIZE, None, "width inside an expert (default: ffn-hidden-size)"),
    ("--moe-shared-expert-intermediate-size", SIZE, None, "width of an MLP for every token"),
    ("--moe-router-topk", SIZE, 2, "experts per token"),
    ("--moe-router-score-function", SCORES, "softmax", "score over all experts, or of each alone"),
    ("--moe-router-pre-softmax", ON, False, "take the weights from a softmax over all experts"),
    ("--moe-router-enable-expert-bias", ON, False, "balance the choice by a bias, without a loss"),
    ("--seq-length", SIZE, 128, "tokens per sample"),
    ("--max-position-embeddings", SIZE, None, "rows of the position table (default: seq-length)"),
    ("--untie-embeddings-and-output-weights", ON, False, "separate output matrix"),
    ("--init-method-std", Real(above=0, most=10), 0.02, "deviation of the initial weights"),
    ("--norm-epsilon", Real(above=0, most=1), 1e-5, "epsilon of the layer norms"),
    ("--make-vocab-size-divisible-by", SIZE, 128, "pad the vocabulary to a multiple × tensor size"),
    ("--hidden-dropout", SHARE, 0.0, "share of embeddings and branches (Megatron-LM: 0.1)"),
    ("--attention-dropout", SHARE, 0.0, "share of probabilities (Megatron-LM: 0.1)"),
]
LAYOUT = [
    ("--tensor-model-parallel-size", SIZE, 1, "ranks that share every matrix"),
    ("--pipeline-model-parallel-size", SIZE, 1, "ranks that share the layers"),
    ("--context-parallel-size", SIZE, 1, "ranks that share every sequence"),
    ("--cp-comm-type", CONTEXTS, "allgather", "gather all keys at once, or p2p: in a ring"),
    ("--expert-model-parallel-size", SIZE, 1, "ranks with different experts"),
    ("--expert-tensor-parallel-size", SIZE, None, "ranks per expert (default: tensor size)"),
    ("--sequence-parallel", ON, False, "split norms and residuals over the tensor ranks too"),
    ("--num-layers-per-virtual-pipeline-stage", SIZE, None, "interleaved: layers per chunk"),
    ("--use-distributed-optimizer", ON, False, "ZeRO-1: optimizer state split over data ranks"),
    ("--use-torch-fsdp2", ON, False, "FSDP2: parameters split over data ranks as well"),
    ("--overlap-grad-reduce", ON, False, "sum gradients while backward runs (FSDP2 always does)"),
    ("--ddp-bucket-size", COUNT, None, "numbers per bucket (default: 40 million or more)"),
    ("--use-tp-pp-dp-mapping", ON, False, "rank order tp-cp-ep-pp-dp"),
    ("--distributed-backend", BACKENDS, "nccl", "use gloo without an accelerator"),
    ("--distributed-timeout-minutes", Whole(1, 100_000), 10, "wait for a lost rank"),
    ("--distributed-timeout-seconds-after-init", COUNT, None, "the same, from the second step on"),
]
BATCH = [
    ("--micro-batch-size", SIZE, 1, "samples per forward pass and rank"),
    ("--global-batch-size", SIZE, None, "samples per optimizer step (default: micro × data)"),
    ("--train-iters", COUNT, 10, "optimizer steps"),
    ("--eval-interval", COUNT, 1000, "steps between evaluations"),
    ("--eval-iters", NUMBER, 0, "batches of an evaluation (0: none)"),
    ("--seed", Whole(0, 2**32 - 1), 1234, "seed of the weights and the order of the data"),
]
OPTIMIZER = [
    ("--lr", Real(above=0, most=1000), 1e-3, "highest learning rate"),
    ("--min-lr", Real(least=0, most=1000), 0.0, "learning rate at the end of the decay"),
    ("--lr-decay-style", OneOf(STYLES), "linear", "shape of the decay"),
    ("--lr-wsd-decay-style", OneOf(WSD_STYLES), "exponential", "WSD: shape of its decay"),
    ("--lr-wsd-decay-iters", COUNT, None, "WSD: steps of that decay, the last of the decay steps"),
    ("--lr-decay-iters", COUNT, None, "steps of the decay (default: train-iters)"),
    ("--lr-warmup-fraction", Real(least=0, most=1), None, "share of the decay steps for warm-up"),
    ("--lr-warmup-iters", NUMBER, 0, "number of warm-up steps"),
    ("--lr-warmup-init", Real(least=0, most=1000), 0.0, "rate of the first warm-up step"),
    ("--weight-decay", Real(least=0, most=100), 0.01, "for matrices; biases and norms have none"),
    ("--clip-grad", Real(least=0, most=1e9), 1.0, "largest norm of the gradient (0: no clipping)"),
    ("--adam-beta1", Real(least=0, below=1), 0.9, "memory of the mean"),
    ("--adam-beta2", Real(least=0, below=1), 0.999, "memory of the square"),
    ("--moe-router-load-balancing-type", BALANCES, "aux_loss", "balancing of the experts"),
    ("--moe-aux-loss-coeff", Real(least=0, most=1000), 0.0, "weight of the balancing loss"),
    ("--moe-router-bias-update-rate", Real(least=0, most=10), 1e-3, "change of a bias per step"),
    ("--adam-eps", Real(above=0, most=1), 1e-8, "term that keeps the division finite"),
]
PRECISION = [
    ("--fp16", ON, False, "float16 with dynamic loss scaling"),
    ("--bf16", ON, False, "bfloat16"),
    ("--fp8-format", FORMATS, None, "linear layers in eight bits; hybrid: gradients in e5m2"),
    ("--fp8-recipe", RECIPES, "tensorwise", "blocks of numbers with a scale of their own"),
    ("--fp8-param-gather", ON, False, "FSDP2 gathers the weights of linear layers in eight bits"),
    ("--loss-scale", Real(above=0, most=2.0**64), None, "a fixed loss scale"),
    ("--initial-loss-scale", Real(above=0, most=2.0**64), 2.0**32, "first dynamic loss scale"),
    ("--min-loss-scale", Real(above=0, most=2.0**64), 1.0, "smallest dynamic loss scale"),
    ("--loss-scale-window", Real(least=1, most=1e9), 1000, "good steps before the scale doubles"),
    ("--hysteresis", COUNT, 2, "overflows before the scale first halves"),
    ("--accumulate-allreduce-grads-in-fp32", ON, False, "sum gradients in float32"),
    ("--no-check-for-nan-in-loss-and-grad", ON, False, "continue when they are not finite"),
]
MEMORY = [
    ("--recompute-granularity", GRANULARITIES, None, "drop activations and recompute them"),
    ("--recompute-method", METHODS, None, "full: groups of layers, or the first ones"),
    ("--recompute-num-layers", Whole(1, 100_000), None, "layers per group, or how many layers"),
    ("--recompute-activations", ON, False, "short for --recompute-granularity selective"),
]
DATA = [
    ("--data-path", TEXT, None, "indexed text, without the ending of its files"),
    ("--mock-data", ON, False, "train on random tokens"),
    ("--split", Shares(), "969,30,1", "train, validation and test shares of the documents"),
    ("--tokenizer-type", TOKENIZERS, "GPT2BPETokenizer", "NullTokenizer needs --vocab-size"),
    ("--vocab-file", TEXT, None, "vocab.json of the tokenizer"),
    ("--merge-file", TEXT, None, "merges.txt of the tokenizer"),
    ("--vocab-size", Whole(1, 2**31 - 1), None, "vocabulary size, without a file"),
]
CHECKPOINTS = [
    ("--save", TEXT, None, "folder of checkpoints"),
    ("--load", TEXT, None, "folder to continue from"),
    ("--save-interval", COUNT, None, "steps between checkpoints"),
    ("--async-save", ON, False, "write checkpoints while training continues"),
    ("--no-load-optim", ON, False, "load the weights only"),
    ("--finetune", ON, False, "load the weights only and start at step 0"),
    ("--exit-interval", COUNT, None, "stop after a step divisible by this"),
    ("--exit-duration-in-mins", Real(above=0, most=1e7), None, "save and stop after this time"),
    ("--exit-signal-handler", ON, False, "save and stop on SIGTERM"),
]
# Also flags of train_vit.py.
SCALARS_AND_PROFILE: list[Row] = [
    ("--tensorboard-dir", TEXT, None, "folder of the scalars"),
    ("--profile", ON, False, "record PyTorch profiler traces"),
    ("--profile-step-start", COUNT, 10, "first step that is recorded"),
    ("--profile-step-end", COUNT, 12, "first step after the recording"),
    ("--profile-ranks", Several(NUMBER), [0], "ranks that record"),
]
LOOKING = [
    ("--log-interval", COUNT, 100, "steps between lines"),
    ("--log-throughput", ON, False, "TFLOP/s and samples per second in the line"),
    ("--log-memory-interval", COUNT, None, "steps between memory reports (default: once)"),
    *SCALARS_AND_PROFILE,
    ("--use-pytorch-profiler", ON, False, "implied by --profile"),
    ("--record-memory-history", ON, False, "memory trace of the profiled steps, every rank"),
    ("--memory-snapshot-path", TEXT, None, "PyTorch's own snapshots (on CUDA; one per rank)"),
]
OURS = [
    ("--profile-dir", TEXT, None, "folder of the traces (default: --tensorboard-dir)"),
    ("--rank-order", TEXT, None, "axes, fastest first, such as tp-cp-ep-dp-pp"),
    ("--pipeline-schedule", SCHEDULES, None, "schedule of the pipeline (default: 1f1b)"),
    ("--torch-compile", ON, False, "compile the layers"),
    ("--cuda-graphs", ON, False, "with --torch-compile: replay kernels as one graph"),
    ("--fp64", ON, False, "float64, for tests of equality"),
    ("--planted-bottleneck", OneOf(("1", "3")), None, "add a bottleneck that a profile shows"),
    ("--planted-fault", TEXT, None, "NAME:RANK:ITERATION of a fault in code/faults/"),
    ("--diary", ON, False, "each rank writes a line per step into diary/ of the run folder"),
    ("--detect-anomaly", ON, False, "stop in backward at the first NaN; slow"),
]
GROUPS: Mapping[str, Sequence[Row]] = {
    "model": MODEL, "layout": LAYOUT, "batch": BATCH, "optimizer": OPTIMIZER,
    "precision": PRECISION, "recomputation": MEMORY, "data": DATA, "checkpoints": CHECKPOINTS,
    "looking": LOOKING, "known to this program only": OURS,
}  # fmt: skip
