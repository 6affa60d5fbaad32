"""Which model a checkpoint is of: written beside the weights, compared before it is continued."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from checkpoints.agreement import from_first
from checkpoints.files import CheckpointError, last_good
from dataset.tokenizer_files import padded
from flags.ranges import shortened
from flags.tables import MODEL, OPTIMIZER

FREE = {"init_method_std", "make_vocab_size_divisible_by", "hidden_dropout", "attention_dropout"}
"""Flags of the model that may change: they say how it began, how it is cut, how it is trained."""
FREE_TO_FINETUNE = {"seq_length"}
"""A run that goes on reads the data where it stopped, counted in samples of this length."""

TRAINED_WITH = [
    *(name.removeprefix("--").replace("-", "_") for name, *_ in OPTIMIZER),
    "seed",
    "split",
    "mock_data",
    "global_batch_size",
]
"""What may change, but says how the rest is trained and on which samples. --lr-decay-iters follows
from --train-iters where it is not given: a run that is made longer has another learning rate."""


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
    own = Path(args.save).resolve() if args.save else None
    within = (own, *own.parents) if own else ()  # of --load, where it saves is no other
    inside = folder.iterdir() if folder.is_dir() and folder.resolve() != own else ()
    others = sorted(path.name for path in inside if path.resolve() not in within)
    if others:
        raise CheckpointError(
            f"{folder} has no checkpoint of this program, but {shortened(', '.join(others))}; "
            f"{cure}, or leave out --load to start from random weights"
        )


def description(args: argparse.Namespace) -> dict[str, Any]:
    """The model's flags, and how many rows of the output matrix the softmax is taken over."""
    flags = [name.removeprefix("--").replace("-", "_") for name, *_ in MODEL]
    shape = {name: getattr(args, name) for name in [*flags, "vocab_size"] if name not in FREE}
    trained = {name: getattr(args, name) for name in TRAINED_WITH}
    rows = args.softmax_rows or args.padded_vocab_size
    return {**shape, "softmax_rows": rows, "trained_with": trained}


def _same_model(args: argparse.Namespace, source: Path) -> tuple[int, str]:
    """Refuses the checkpoint of another model; returns its softmax_rows, and what of the training
    has changed since."""
    saved, mine = _described(source), description(args)
    rows = int(saved.pop("softmax_rows"))
    was, now = saved.pop("trained_with", {}), mine.pop("trained_with")
    changed = [name for name in was if name in now and was[name] != now[name]]
    free = {"softmax_rows", *(FREE_TO_FINETUNE if args.finetune else ())}
    names = [n for n in {**saved, **mine} if n not in free and saved.get(n) != mine.get(n)]
    if names:
        raise CheckpointError(
            f"{source} is the checkpoint of another model, with {_flags(saved, names)}, and this "
            f"run has {_flags(mine, names)}; give the flags it was trained with, or another --load"
        )
    if not changed:
        return rows, ""
    return rows, f"{_flags(was, changed)}; it goes on with {_flags(now, changed)}"


def _described(source: Path) -> dict[str, Any]:
    try:
        saved = json.loads((source / "model.json").read_text(encoding="utf-8"))
        return {**saved, "softmax_rows": int(saved["softmax_rows"])}
    except (ValueError, TypeError, KeyError) as error:
        raise CheckpointError(
            f"{source / 'model.json'} does not say of which model it is, though its checksum is "
            "right: another program wrote it; give another --load"
        ) from error


def _flags(values: dict[str, Any], names: list[str]) -> str:
    return ", ".join(f"--{name.replace('_', '-')} {values.get(name)}" for name in names)
