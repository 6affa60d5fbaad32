"""Description of a checkpoint's model, compared before a run continues."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from checkpoints.agreement import from_first
from checkpoints.files import CheckpointError, last_good, ours
from checkpoints.slices import read_tensors
from dataset.tokenizer_files import padded
from flags.parser import name_of
from flags.tables import MODEL, OPTIMIZER
from process.reading import read_json

# Model flags that may change: they concern initialization, padding and training.
FREE = {"init_method_std", "make_vocab_size_divisible_by", "hidden_dropout", "attention_dropout"}
# A continued run finds its place in the data by counting samples of this length.
FREE_TO_FINETUNE = {"seq_length"}

# Values that may change with a warning, as they determine the training and its samples. The default
# of --lr-decay-iters is --train-iters: a longer run has other learning rates.
TRAINED_WITH = [
    *(name_of(flag) for flag, *_ in OPTIMIZER),
    "seed",
    "split",
    "mock_data",
    "global_batch_size",
]

SHAPE = [name for flag, *_ in MODEL if (name := name_of(flag)) not in FREE] + ["vocab_size"]


def find(args: argparse.Namespace, tensor: int) -> tuple[Path | None, list[str]]:
    """Return the last good checkpoint of --load, and warnings; called before the model is built.

    As in Megatron, the softmax includes the vocabulary's padding rows. Their number belongs to the
    model, and the first layout determines it. If this layout needs more rows for an equal split
    over its tensor ranks, the softmax leaves out the additional rows, and the training continues
    unchanged."""
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
    """Refuse a --load folder without checkpoints: random weights would train without any sign of
    the mistake. A first run may load from the folder to which it saves, or that is still empty."""
    folder = Path(args.load)
    saves_there = args.save and Path(args.save).resolve() == folder.resolve()
    is_empty = folder.is_dir() and not any(folder.iterdir())
    is_new = saves_there or is_empty or not (folder.exists() or folder.is_symlink())
    if args.finetune or args.no_load_optim or not is_new:
        raise CheckpointError(
            f"{folder} has no checkpoint of this program; give --load the folder to which --save "
            "of that run wrote, or leave out --load to start from random weights"
        )


def description(args: argparse.Namespace) -> dict[str, Any]:
    """Return the model's flags, and how it is trained."""
    shape, trained = ({n: getattr(args, n) for n in names} for names in (SHAPE, TRAINED_WITH))
    return {**shape, "trained_with": trained}


def described(source: Path) -> tuple[dict[str, Any], int]:
    """Return a checkpoint's description, and the number of vocabulary rows in its softmax."""
    saved = ours(source, lambda: _saved(source))
    rows = ours(source, lambda: read_tensors(source)["weight.word.weight"]["size"][0])
    if ours(source, lambda: rows < saved["vocab_size"]):
        raise CheckpointError(
            f"another program wrote {source}: it has {rows} words of a vocabulary of "
            f"{saved['vocab_size']}; give another --load"
        )
    return saved, rows


def _saved(source: Path) -> dict[str, Any]:
    saved = read_json(source / "model.json")
    return {name: saved[name] for name in (*SHAPE, "trained_with")}


def _same_model(args: argparse.Namespace, source: Path) -> tuple[int, str]:
    """Refuse the checkpoint of another model; return its vocabulary rows, and the changes of the
    training flags."""
    (saved, rows), mine = described(source), description(args)
    was, now = saved.pop("trained_with"), mine.pop("trained_with")
    changed = [name for name in was if name in now and was[name] != now[name]]
    free = FREE_TO_FINETUNE if args.finetune else ()
    names = [name for name in SHAPE if name not in free and saved[name] != mine[name]]
    if names:
        raise CheckpointError(
            f"{source} is a checkpoint of another model ({_flags(saved, names)}), and this run "
            f"has {_flags(mine, names)}; give the flags of that model, or another --load"
        )
    if not changed:
        return rows, ""
    return rows, f"{_flags(was, changed)}; it continues with {_flags(now, changed)}"


def _flags(values: dict[str, Any], names: list[str]) -> str:
    return ", ".join(f"--{n.replace('_', '-')} {values[n]}" for n in names)
