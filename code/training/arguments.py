"""The flags: Megatron-LM's names, so that one script can start either program.

Every flag is one row of a table below: name, what it takes, default, meaning. Flags that only this
course's program knows are in the last group.
"""

from __future__ import annotations

import argparse
import difflib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from training import older_flags
from training.argument_checks import problems_of

INT, FLOAT, STR, ON = int, float, str, bool

MODEL = [
    ("--num-layers", INT, 2, "transformer layers"),
    ("--hidden-size", INT, 128, "width of the residual stream"),
    ("--ffn-hidden-size", INT, None, "width inside the MLP (default: 4 × hidden)"),
    ("--num-attention-heads", INT, 4, "attention heads"),
    ("--seq-length", INT, 128, "tokens per sample"),
    ("--max-position-embeddings", INT, None, "rows of the position table (default: seq-length)"),
    ("--untie-embeddings-and-output-weights", ON, False, "an output matrix of its own"),
    ("--init-method-std", FLOAT, 0.02, "standard deviation of the initial weights"),
    ("--norm-epsilon", FLOAT, 1e-5, "epsilon of the layer norms"),
    ("--make-vocab-size-divisible-by", INT, 128, "pad the vocabulary to a multiple × tensor size"),
    ("--hidden-dropout", FLOAT, 0.0, "only 0 is supported"),
    ("--attention-dropout", FLOAT, 0.0, "only 0 is supported"),
]
LAYOUT = [
    ("--tensor-model-parallel-size", INT, 1, "ranks that share every matrix"),
    ("--pipeline-model-parallel-size", INT, 1, "ranks that share the layers"),
    ("--context-parallel-size", INT, 1, "ranks that share every sequence"),
    ("--sequence-parallel", ON, False, "split norms and residuals over the tensor ranks too"),
    (
        "--num-layers-per-virtual-pipeline-stage",
        INT,
        None,
        "interleaved pipeline: layers per chunk",
    ),
    ("--use-distributed-optimizer", ON, False, "ZeRO-1: optimizer state split over data ranks"),
    ("--use-torch-fsdp2", ON, False, "FSDP2: parameters split over data ranks as well"),
    ("--use-tp-pp-dp-mapping", ON, False, "rank order tp-cp-ep-pp-dp"),
    ("--distributed-backend", ("nccl", "gloo"), "nccl", "gloo where there is no accelerator"),
    ("--distributed-timeout-minutes", INT, 10, "how long a collective waits for a lost rank"),
]
BATCH = [
    ("--micro-batch-size", INT, 1, "samples that pass through the model at once, per rank"),
    ("--global-batch-size", INT, None, "samples per optimizer step (default: micro × data)"),
    ("--train-iters", INT, 10, "optimizer steps"),
    ("--eval-interval", INT, 1000, "steps between evaluations"),
    ("--eval-iters", INT, 0, "batches of an evaluation (0: none)"),
    ("--seed", INT, 1234, "of the weights and the order of the data"),
]
OPTIMIZER = [
    ("--lr", FLOAT, 1e-3, "highest learning rate"),
    ("--min-lr", FLOAT, 0.0, "learning rate at the end of the decay"),
    ("--lr-decay-style", ("constant", "linear", "cosine"), "linear", "shape of the decay"),
    ("--lr-decay-iters", INT, None, "steps of the decay (default: train-iters)"),
    ("--lr-warmup-fraction", FLOAT, None, "share of the decay steps that warm up"),
    ("--lr-warmup-iters", INT, 0, "or their number"),
    ("--weight-decay", FLOAT, 0.01, "of matrices; biases and norms have none"),
    ("--clip-grad", FLOAT, 1.0, "largest norm of the gradient (0: no clipping)"),
    ("--adam-beta1", FLOAT, 0.9, "memory of the mean"),
    ("--adam-beta2", FLOAT, 0.999, "memory of the square"),
    ("--adam-eps", FLOAT, 1e-8, "keeps the division finite"),
]
PRECISION = [
    ("--fp16", ON, False, "float16 with dynamic loss scaling"),
    ("--bf16", ON, False, "bfloat16"),
    ("--loss-scale", FLOAT, None, "a fixed loss scale"),
    ("--initial-loss-scale", FLOAT, 2.0**32, "where dynamic scaling starts"),
    ("--min-loss-scale", FLOAT, 1.0, "where it stops halving"),
    ("--loss-scale-window", FLOAT, 1000, "good steps before it doubles"),
    ("--hysteresis", INT, 2, "overflows before it halves for the first time"),
    ("--accumulate-allreduce-grads-in-fp32", ON, False, "sum gradients in float32"),
]
MEMORY = [
    (
        "--recompute-granularity",
        ("full", "selective"),
        None,
        "drop activations, compute them again",
    ),
    ("--recompute-method", ("uniform", "block"), None, "full: groups of layers, or the first ones"),
    ("--recompute-num-layers", INT, None, "layers per group, or how many layers"),
    ("--recompute-activations", ON, False, "short for --recompute-granularity selective"),
]
DATA = [
    ("--data-path", ("+", STR), None, "indexed files without .bin, or weights and files by turns"),
    ("--mock-data", ON, False, "random tokens, no file"),
    ("--split", STR, "969,30,1", "train, validation and test shares of the documents"),
    ("--tokenizer-type", STR, "GPT2BPETokenizer", "or NullTokenizer with --vocab-size"),
    ("--vocab-file", STR, None, "vocab.json of the tokenizer"),
    ("--merge-file", STR, None, "merges.txt of the tokenizer"),
    ("--tokenizer-model", STR, None, "a tokenizer.json"),
    ("--vocab-size", INT, None, "tokens, where there is no vocabulary file"),
]
CHECKPOINTS = [
    ("--save", STR, None, "folder of checkpoints"),
    ("--load", STR, None, "folder to continue from"),
    ("--save-interval", INT, None, "steps between checkpoints"),
    ("--no-load-optim", ON, False, "load the weights only"),
    ("--finetune", ON, False, "load the weights only and start at step 0"),
    ("--exit-interval", INT, None, "stop after a step divisible by this"),
    ("--exit-duration-in-mins", FLOAT, None, "stop, with a checkpoint, after this time"),
    ("--exit-signal-handler", ON, False, "on SIGTERM, save and stop"),
]
LOOKING = [
    ("--log-interval", INT, 100, "steps between lines"),
    ("--log-throughput", ON, False, "TFLOP/s and samples per second in the line"),
    ("--log-memory-interval", INT, None, "steps between memory reports (default: once)"),
    ("--tensorboard-dir", STR, None, "folder of the scalars"),
    ("--tensorboard-log-interval", INT, 1, "steps between scalars"),
    ("--profile", ON, False, "record PyTorch profiler traces"),
    ("--use-pytorch-profiler", ON, False, "implied by --profile"),
    ("--profile-step-start", INT, 10, "first step that is recorded"),
    ("--profile-step-end", INT, 12, "first step that is not"),
    ("--profile-ranks", ("+", INT), [0], "ranks that record"),
    ("--record-memory-history", ON, False, "memory trace of the profiled steps, every rank"),
    ("--memory-snapshot-path", STR, None, "PyTorch's own snapshots (on CUDA; one per rank)"),
]
OURS = [
    ("--profile-dir", STR, None, "folder of the traces (default: --tensorboard-dir)"),
    ("--rank-order", STR, None, "axes, fastest first, such as tp-cp-ep-dp-pp"),
    ("--pipeline-schedule", ("1f1b", "gpipe", "interleaved", "zero-bubble"), None, "default: 1f1b"),
    ("--print-schedule", ON, False, "draw the pipeline schedule as text"),
    ("--dry-run", ON, False, "check the layout for --world-size devices and stop"),
    ("--world-size", INT, None, "devices that --dry-run is to assume"),
    ("--torch-compile", ON, False, "compile the layers"),
    ("--cuda-graphs", ON, False, "with --torch-compile: replay kernels as one graph"),
    ("--fp64", ON, False, "float64, for tests of equality"),
    ("--planted-bottleneck", ("1", "2"), None, "be slow in a way that a profile shows"),
]
GROUPS: Mapping[str, Sequence[tuple[str, Any, Any, str]]] = {
    "model": MODEL, "layout": LAYOUT, "batch": BATCH, "optimizer": OPTIMIZER,
    "precision": PRECISION, "recomputation": MEMORY, "data": DATA, "checkpoints": CHECKPOINTS,
    "looking": LOOKING, "known to this program only": OURS,
}  # fmt: skip


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """An unknown flag is answered with the nearest known ones."""
        for word in message.split():
            name = word.split("=")[0]
            if "unrecognized" in message and name.startswith("--"):
                known = [option for action in self._actions for option in action.option_strings]
                near = difflib.get_close_matches(name, known, n=3)
                message += f"; nearest to {name}: {', '.join(near)}" if near else ""
        super().error(message)


def make_parser() -> argparse.ArgumentParser:
    parser = _Parser(description="Pretrain a GPT in any parallel layout.", allow_abbrev=False)
    for title, rows in GROUPS.items():
        group = parser.add_argument_group(title)
        for name, takes, default, meaning in rows:
            if takes is ON:
                group.add_argument(name, action="store_true", help=meaning)
            elif isinstance(takes, tuple) and takes[0] == "+":
                group.add_argument(name, nargs="+", type=takes[1], default=default, help=meaning)
            elif isinstance(takes, tuple):
                group.add_argument(name, choices=takes, default=default, help=meaning)
            else:
                group.add_argument(name, type=takes, default=default, help=meaning)
    return parser


def parse_arguments(argv: list[str]) -> argparse.Namespace:
    argv, notes = older_flags.translate(argv)
    parser = make_parser()
    args = parser.parse_args(argv)
    args.notes = notes
    _fill_in(args)
    problems = problems_of(args)
    if problems:
        parser.error("; ".join(problems))
    return args


def _fill_in(args: argparse.Namespace) -> None:
    """Defaults that follow from other values."""
    args.ffn_hidden_size = args.ffn_hidden_size or 4 * args.hidden_size
    args.max_position_embeddings = args.max_position_embeddings or args.seq_length
    args.softmax_rows = None  # all of the padded vocabulary, unless a checkpoint has fewer
    args.lr_decay_iters = args.lr_decay_iters or args.train_iters
    args.save_interval = args.save_interval or args.train_iters
    if args.rank_order is None:
        args.rank_order = "tp-cp-ep-pp-dp" if args.use_tp_pp_dp_mapping else "tp-cp-ep-dp-pp"
    if args.recompute_activations:
        args.recompute_granularity = "selective"
    if args.recompute_granularity == "full":
        args.recompute_method = args.recompute_method or "uniform"
        args.recompute_num_layers = args.recompute_num_layers or 1
    if args.pipeline_schedule is None:
        interleaved = args.num_layers_per_virtual_pipeline_stage is not None
        args.pipeline_schedule = "interleaved" if interleaved else "1f1b"
    if args.bf16:  # sums of many bfloat16 numbers lose what is added last
        args.accumulate_allreduce_grads_in_fp32 = True
    if args.tensor_model_parallel_size == 1:
        args.sequence_parallel = False
    if run_folder := os.environ.get("COURSE_RUN_DIR"):
        args.tensorboard_dir = args.tensorboard_dir or str(Path(run_folder) / "tensorboard")
        args.profile_dir = args.profile_dir or str(Path(run_folder) / "profile")
    args.profile_dir = args.profile_dir or args.tensorboard_dir or "profile"
    args.memory_dir = str(Path(run_folder or ".") / "memory")
    snapshots = Path(run_folder or ".") / "snapshots" / "snapshot.pickle"
    args.memory_snapshot_path = args.memory_snapshot_path or str(snapshots)
