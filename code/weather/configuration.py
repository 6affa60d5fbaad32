"""Values of a run of train_vit.py: a configuration of configurations.yaml, changed by flags.

Every key is a row below, with its range; the flag is the same row. All errors in the file are
reported at once, and so are all errors on the command line."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import yaml

from flags.arguments import fill_in_folders
from flags.parser import DISTRIBUTED, FlagParser, Row
from flags.ranges import COUNT, NUMBER, SIZE, TEXT, OneOf, Real, Takes, Whole, Wrong
from flags.tables import SCALARS_AND_PROFILE
from process.errors import ArgumentsError
from process.reading import content_of, understood
from training.learning_rate import BATCH_SCALING
from weather.fields import FIELDS
from weather.sharing import sharing_problems

FILE = Path(__file__).with_name("configurations.yaml")


class Truth(Takes):
    """Range of true and false, so that a flag can also switch off a configured value."""

    rule = "true or false"

    def __call__(self, word: str) -> bool | Wrong:
        found = {"true": True, "false": False}.get(word.lower())
        return Wrong(word, self.rule) if found is None else found


TRUTH = Truth()
CONFIGURED: dict[str, list[Row]] = {
    "data": [
        ("--data", TEXT, None, "folder with train, valid and stats"),
        ("--channels", Whole(len(FIELDS), 1000), None, "number of fields to use from a file"),
        ("--crop-height", NUMBER, None, "rows of a piece (0: all)"),
        ("--crop-width", NUMBER, None, "columns of a piece (0: all)"),
        ("--train-samples", NUMBER, None, "training pairs (0: all)"),
        ("--valid-samples", NUMBER, None, "validation pairs (0: all)"),
        ("--loader", OneOf(("torch", "dali")), "torch", "dali: on the GPU, if installed"),
        ("--num-workers", Whole(0, 256), 0, "processes that read ahead, per rank (0: none)"),
        ("--prefetch", Whole(1, 100), 2, "batches that each process reads ahead"),
        ("--pin-memory", TRUTH, True, "let a GPU copy batches while it computes"),
        ("--persistent-workers", TRUTH, True, "keep the workers from epoch to epoch"),
    ],
    "model": [
        ("--patch-size", Whole(1, 256), None, "points of a patch in each direction"),
        ("--embed-dim", SIZE, None, "width of a patch in the model"),
        ("--depth", Whole(1, 10_000), None, "layers"),
        ("--num-heads", SIZE, None, "attention heads"),
        ("--mlp-ratio", Whole(1, 64), None, "width inside the MLP over that of the model"),
        ("--forecast", OneOf(("state", "change")), "state", "change: difference to now"),
    ],
    "training": [
        ("--epochs", COUNT, None, "passes over the training pairs"),
        ("--global-batch-size", SIZE, None, "samples per step, of all ranks together"),
        ("--lr", Real(above=0, most=100), None, "highest learning rate, at --lr-batch-size"),
        ("--lr-batch-size", SIZE, None, "batch size to which --lr belongs"),
        ("--lr-scaling", OneOf(tuple(BATCH_SCALING)), "none", "growth with the batch size"),
        ("--warmup-iters", NUMBER, 0, "steps of warm-up; then a cosine to 0"),
        ("--seed", Whole(0, 2**32 - 1), 1, "seed of weights, order and pieces"),
    ],
    "parallel": [
        ("--tensor-model-parallel-size", SIZE, 1, "ranks that share every matrix"),
        ("--context-parallel-size", SIZE, 1, "ranks that share the patches of every sample"),
        ("--rank-order", TEXT, "tp-cp-dp", "axes, fastest first, such as cp-tp-dp"),
    ],
    "speed": [
        ("--amp-mode", OneOf(("none", "fp16", "bf16")), "none", "half precision in the layers"),
        ("--tf32", TRUTH, True, "matmuls with 10 bits of mantissa, on GPUs"),
        ("--fused-optimizer", TRUTH, False, "one kernel for all parameters"),
        ("--torch-compile", TRUTH, False, "compile the layers"),
        ("--cuda-graphs", TRUTH, False, "record a step once and repeat it (one GPU)"),
        ("--ddp-bucket-mb", Whole(1, 10_000), 25, "MiB of gradients per message of DDP"),
    ],
}
OTHERS: dict[str, list[Row]] = {
    "run": [
        ("--config", TEXT, "tiny", "name of a configuration"),
        ("--config-file", TEXT, str(FILE), "file with configurations"),
        *SCALARS_AND_PROFILE,
        ("--profile-dir", TEXT, None, "folder of the traces"),
        *DISTRIBUTED,
    ]
}
ROWS = {row[0][2:].replace("-", "_"): row for rows in CONFIGURED.values() for row in rows}


def parse(argv: list[str], ranks: int) -> argparse.Namespace:
    # Without defaults: values that are not given come from the configuration.
    bare = {
        title: [(name, takes, None, meaning) for name, takes, _, meaning in rows]
        for title, rows in CONFIGURED.items()
    }
    summary = "Train a vision transformer to forecast the weather."
    args = FlagParser(summary, {**OTHERS, **bare}).parse_all(argv)
    configured = read(Path(args.config_file), args.config)
    for name, row in ROWS.items():
        if getattr(args, name) is None:
            setattr(args, name, configured.get(name, row[2]))
    fill_in_folders(args)
    args.record_memory_history = False  # pretrain_gpt.py's profiler asks
    if found := _contradictions(args, ranks):
        raise ArgumentsError(*found)
    return args


def read(path: Path, name: str) -> dict[str, Any]:
    """Return the configuration `name`, on top of `base`."""
    what = "configurations in YAML, each with keys and their values"
    with understood(path, what, "give another --config-file"):
        known = yaml.safe_load(content_of(path))
        given = {**known.get("base", {}), **known.get(name, {})}
        names = ", ".join(known)
    if name not in known:
        raise ArgumentsError(f"--config {name}: {path.name} has {names}")
    found, wrong = {}, []
    for key, value in given.items():
        if key not in ROWS:
            wrong.append(f"{path.name}, {name}: there is no key {key}; keys are the flags' names")
            continue
        single = isinstance(value, str | int | float)
        found[key] = ROWS[key][1](str(value)) if single else Wrong("", "one value")
        if isinstance(found[key], Wrong):
            wrong.append(f"{path.name}, {name}: {found[key].sentence(key)}")
    if wrong:
        raise ArgumentsError(*wrong)
    return found


def _contradictions(args: argparse.Namespace, ranks: int) -> list[str]:
    found = []
    missing = [f"--{name.replace('_', '-')}" for name in ROWS if getattr(args, name) is None]
    if missing:
        return [f"--config {args.config} has no value for {', '.join(missing)}; give these flags"]
    found += sharing_problems(args, ranks)
    if args.embed_dim % args.num_heads:
        found.append(f"--embed-dim {args.embed_dim} is no multiple of --num-heads {args.num_heads}")
    for name in ("crop_height", "crop_width"):
        if getattr(args, name) % args.patch_size:
            found.append(
                f"--{name.replace('_', '-')} {getattr(args, name)} is no multiple of --patch-size "
                f"{args.patch_size}"
            )
    if args.profile and args.profile_step_end <= args.profile_step_start:
        found.append("--profile-step-end: give a step after --profile-step-start")
    return found
