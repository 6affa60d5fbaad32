"""The model of a checkpoint: written beside the weights, compared before a run continues."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from checkpoints.agreement import from_first
from checkpoints.files import CheckpointError, last_good, ours
from checkpoints.json_files import read_json
from checkpoints.slices import read_tensors
from dataset.tokenizer_files import padded
from flags.ranges import shortened
from flags.tables import MODEL, OPTIMIZER

# Flags of the model that may change: they say how it began, how it is cut, how it is trained.
FREE = {"init_method_std", "make_vocab_size_divisible_by", "hidden_dropout", "attention_dropout"}
# A run that goes on reads the data where it stopped, counted in samples of this length.
FREE_TO_FINETUNE = {"seq_length"}

# What may change, but says how the rest is trained and on which samples. --lr-decay-iters follows
# from --train-iters where it is not given: a run that is made longer has another learning rate.
TRAINED_WITH = [
    *(name.removeprefix("--").replace("-", "_") for name, *_ in OPTIMIZER),
    "seed",
    "split",
    "mock_data",
    "global_batch_size",
]

SHAPE = [*(name.removeprefix("--").replace("-", "_") for name, *_ in MODEL), "vocab_size"]
SHAPE = [name for name in SHAPE if name not in FREE]
FORM = {**dict.fromkeys(SHAPE, object), "vocab_size": int, "trained_with": {str: object}}


def find(args: argparse.Namespace, tensor: int) -> tuple[Path | None, list[str]]:
    """The last good checkpoint of --load, and what to warn of; called before the model is built.

    Padding rows of the vocabulary are part of the softmax (as in Megatron), so their number is part
    of the model: it stays that of the layout which the training began with. Where this layout needs
    more rows so that its tensor ranks share them evenly, these are left out of the softmax, and the
    run goes on as if it had never moved.
    """
    if not args.load:
        return None, []
    source, warnings = last_good(Path(args.load))
    if source is None:
        from_first(lambda: _refuse_nothing(args))
        return None, [f"no complete checkpoint in {args.load}: starting from random weights"]
    rows, changed = from_first(lambda: _same_model(args, source))
    if changed and not args.finetune:
        warnings = [*warnings, f"{source.name} was trained with {changed}"]
    args.padded_vocab_size = padded(rows, args.make_vocab_size_divisible_by, tensor)
    args.softmax_rows = rows if rows < args.padded_vocab_size else None
    return source, warnings


def _refuse_nothing(args: argparse.Namespace) -> None:
    """A run that saves where it loads begins there once. Else somebody waits for weights that are
    not there, and random ones would train as if nothing were wrong."""
    folder = Path(args.load)
    cure = "give --load the folder that --save of that run wrote to"
    if args.finetune or args.no_load_optim:
        flag = "--finetune" if args.finetune else "--no-load-optim"
        raise CheckpointError(
            f"{flag} trains saved weights on, and there is no checkpoint in {folder}; {cure}"
        )
    if not folder.exists() or (args.save and Path(args.save).resolve() == folder.resolve()):
        return
    others = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else ["a file"]
    if others:
        raise CheckpointError(
            f"{folder} has no checkpoint of this program, but {shortened(', '.join(others))}; "
            f"{cure}, or leave out --load to start from random weights"
        )


def description(args: argparse.Namespace) -> dict[str, Any]:
    """The model's flags, and how it is trained."""
    shape, trained = ({n: getattr(args, n) for n in names} for names in (SHAPE, TRAINED_WITH))
    return {**shape, "trained_with": trained}


def described(source: Path) -> tuple[dict[str, Any], int]:
    """The same of a checkpoint, and over how many rows of the vocabulary its softmax is taken."""
    saved = ours(source, lambda: read_json(source / "model.json", FORM))
    rows = ours(source, lambda: read_tensors(source))["weight.word.weight"]["size"][0]
    if rows < saved["vocab_size"]:
        raise CheckpointError(
            f"{source} has words for {rows} of a vocabulary of {saved['vocab_size']}: another "
            "program wrote it; give another --load"
        )
    return saved, rows


def _same_model(args: argparse.Namespace, source: Path) -> tuple[int, str]:
    """Refuses the checkpoint of another model; returns its rows of the vocabulary, and what of the
    training has changed since."""
    (saved, rows), mine = described(source), description(args)
    was, now = saved.pop("trained_with"), mine.pop("trained_with")
    changed = [name for name in was if name in now and was[name] != now[name]]
    free = FREE_TO_FINETUNE if args.finetune else ()
    names = [name for name in SHAPE if name not in free and saved[name] != mine[name]]
    if names:
        raise CheckpointError(
            f"{source} is the checkpoint of another model, with {_flags(saved, names)}, and this "
            f"run has {_flags(mine, names)}; give the flags it was trained with, or another --load"
        )
    if not changed:
        return rows, ""
    return rows, f"{_flags(was, changed)}; it goes on with {_flags(now, changed)}"


def _flags(values: dict[str, Any], names: list[str]) -> str:
    return ", ".join(f"--{n.replace('_', '-')} {shortened(str(values[n]))}" for n in names)
