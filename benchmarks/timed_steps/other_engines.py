"""Steps of another engine on a rank of peers.py, from a checkout of its repository."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import code_on_path  # noqa: F401
import numpy as np
import torch
import torch.distributed as dist
import torch.nn.functional as F
from plain_gpt import Shape

from timed_steps.ours_and_plain import KEPT, MICRO_BATCH, MICRO_BATCHES, Times, timed

Cuts = tuple[int, int, int]
# Modules that picotron imports for GPUs and downloads; none of them runs on processors.
NEVER_CALLED = (
    "flash_attn flash_attn.flash_attn_interface flash_attn.layers flash_attn.layers.rotary "
    "flash_attn.ops flash_attn.ops.triton flash_attn.ops.triton.layer_norm huggingface_hub"
)


class Batches:
    """Micro-batches of one data-parallel rank, in the program's order."""

    def __init__(self, shape: Shape, replicas: int, replica: int) -> None:
        from dataset.samples import RandomSamples

        self.samples = RandomSamples(shape.vocabulary, shape.length, 1)
        self.replicas, self.replica = replicas, replica
        self.grad_acc_steps = MICRO_BATCHES // replicas
        self.served = 0

    def draw(self) -> tuple[torch.Tensor, torch.Tensor]:
        number = self.served % self.grad_acc_steps
        self.served += 1
        start = (number * self.replicas + self.replica) * MICRO_BATCH
        rows = np.stack([self.samples.sample(start + n) for n in range(MICRO_BATCH)])
        text = torch.from_numpy(rows)
        return text[:, :-1], text[:, 1:]


def nanogpt_step(
    folder: str, shape: Shape, _ffn: int, duel: tuple[Any, ...], steps: int, keep: bool
) -> Times:
    name = "nanoGPT"
    if name not in KEPT:
        prepare(folder, keep)
        from model import GPT, GPTConfig  # type: ignore[import-not-found]

        config = GPTConfig(
            block_size=shape.length, vocab_size=shape.vocabulary, n_layer=shape.layers,
            n_head=shape.heads, n_embd=shape.hidden, dropout=0.0, bias=True,
        )  # fmt: skip
        torch.manual_seed(1)
        with contextlib.redirect_stdout(io.StringIO()):
            model = GPT(config)
            adam = model.configure_optimizers(0.01, 1e-4, (0.9, 0.999), "cpu")
        whole = model
        if dist.get_world_size() > 1:
            whole = torch.nn.parallel.DistributedDataParallel(model)
        batches = Batches(shape, dist.get_world_size(), dist.get_rank())
        KEPT[name] = (model, whole, adam, batches)
        nanogpt_iteration(*KEPT[name])
    return timed(lambda: nanogpt_iteration(*KEPT[name]), steps)


def nanogpt_iteration(
    model: torch.nn.Module, whole: Any, adam: torch.optim.Optimizer, batches: Batches
) -> None:
    for number in range(batches.grad_acc_steps):
        whole.require_backward_grad_sync = number == batches.grad_acc_steps - 1
        words, targets = batches.draw()
        _, loss = whole(words, targets.contiguous())
        (loss / batches.grad_acc_steps).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    adam.step()
    adam.zero_grad(set_to_none=True)


def picotron_step(
    folder: str, shape: Shape, ffn: int, duel: tuple[Any, ...], steps: int, keep: bool
) -> Times:
    ranks, _, cuts, engine = duel
    name = f"picotron {ranks} {cuts} {engine}"
    if name not in KEPT:
        prepare(folder, keep)
        KEPT[name] = build_picotron(shape, ffn, cuts)
        picotron_iteration(KEPT[name], shape, engine)
    return timed(lambda: picotron_iteration(KEPT[name], shape, engine), steps)


def prepare(folder: str, keep: bool) -> None:
    from process.device import keep_memory

    if keep:
        keep_memory()
    if folder not in sys.path:
        sys.path.insert(0, folder)
    os.environ.update(FLASH_ATTEN="0", DTYPE="float32", DEVICE="cpu")
    for module in NEVER_CALLED.split():
        sys.modules.setdefault(module, MagicMock(spec=ModuleType))
    torch.cuda.synchronize = lambda *_: None  # picotron waits for a GPU after each message


def build_picotron(shape: Shape, ffn: int, cuts: Cuts) -> dict[str, Any]:
    for name in ("flash_attn_func", "apply_rotary_emb", "layer_norm_fn"):
        for module in NEVER_CALLED.split():
            setattr(sys.modules[module], name, None)
    import picotron.process_group_manager as groups  # type: ignore[import-not-found]
    from picotron.data_parallel.data_parallel import (  # type: ignore[import-not-found]
        DataParallelBucket,
    )
    from picotron.model import Llama  # type: ignore[import-not-found]
    from picotron.pipeline_parallel.pipeline_parallel import (  # type: ignore[import-not-found]
        PipelineParallel,
    )
    from picotron.tensor_parallel.tensor_parallel import (  # type: ignore[import-not-found]
        apply_tensor_parallel,
    )

    tensor, context, pipeline = cuts
    data = dist.get_world_size() // (tensor * context * pipeline)
    groups.setup_process_group_manager(tensor, context, pipeline, data)
    manager = groups.process_group_manager
    config = SimpleNamespace(
        vocab_size=shape.vocabulary, hidden_size=shape.hidden, num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads, num_key_value_heads=shape.heads, intermediate_size=ffn,
        max_position_embeddings=shape.length, rms_norm_eps=1e-5, rope_theta=500000.0,
    )  # fmt: skip
    torch.manual_seed(1)
    model = Llama(config)
    if tensor > 1:
        model = apply_tensor_parallel(model)
    if pipeline > 1:
        model = PipelineParallel(model, config)
    if data * context > 1:
        model = DataParallelBucket(model)
    adam = torch.optim.AdamW(model.parameters(), lr=1e-4)
    batches = PicotronBatches(shape, data, manager.dp_rank, context, manager.cp_rank)
    return {"manager": manager, "model": model, "adam": adam, "batches": batches, "cuts": cuts}


class PicotronBatches(Batches):
    """Batches with the names of picotron's loader; a context-parallel rank has its part."""

    def __init__(
        self, shape: Shape, replicas: int, replica: int, context: int, context_rank: int
    ) -> None:
        super().__init__(shape, replicas, replica)
        self.part = slice(*(shape.length // context * (context_rank + end) for end in (0, 1)))

    def __next__(self) -> dict[str, Any]:
        words, targets = self.draw()
        return {
            "input_ids": words[:, self.part],
            "target_ids": targets[:, self.part].contiguous(),
            "position_ids": torch.arange(words.size(1))[self.part],
            "hidden_states": None,
        }


def picotron_iteration(kept: dict[str, Any], shape: Shape, engine: str) -> None:
    import picotron.process_group_manager as groups
    from picotron.pipeline_parallel import (
        pipeline_parallel as stages,  # type: ignore[import-not-found]
    )

    model, batches, (_, context, pipeline) = kept["model"], kept["batches"], kept["cuts"]
    groups.process_group_manager = kept["manager"]
    os.environ["CONTEXT_PARALLEL"] = "1" if context > 1 else "0"
    kept["adam"].zero_grad()
    if pipeline > 1:
        step = getattr(stages, f"train_step_pipeline_{engine}")
        shapes = (MICRO_BATCH, shape.length // context, shape.hidden)
        step(model, batches, shapes, torch.device("cpu"), torch.float32)
    else:
        picotron_accumulate(model, batches)
    kept["adam"].step()
    if hasattr(model, "reset"):
        model.reset()


def picotron_accumulate(model: Any, batches: PicotronBatches) -> None:
    for number in range(batches.grad_acc_steps):
        batch = next(batches)
        if hasattr(model, "require_backward_grad_sync"):
            model.require_backward_grad_sync = number == batches.grad_acc_steps - 1
        words = model(input_ids=batch["input_ids"]).flatten(0, 1)
        loss = F.cross_entropy(words, batch["target_ids"].flatten()) / batches.grad_acc_steps
        loss.backward()
        loss.item()
