"""Test 09.2: `checkpoint(layer, x)` gives layer(x), keeps only x, and runs the layer once more in
backward, with the same dropout.

The reference calls the layers themselves, from the same random state. The first model begins with
samples, which need no gradient; the second model begins with a tensor that does."""

from __future__ import annotations

import gc
from typing import Any

import torch
from torch import Tensor, nn
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode

from trials.calls import tensors_in
from trials.memory import ignore_what_is_there
from trials.ranks import Ranks

ROWS, WIDTH, WIDE = 64, 32, 128
# Each of two layers keeps its input, and y is held: 3 widths. A copy of each input is allowed.
NEEDED, ALLOWED = 3, 6


class DropoutLayer(nn.Module):
    def __init__(self, up: Tensor, down: Tensor) -> None:
        super().__init__()
        self.up, self.down = nn.Parameter(up.clone()), nn.Parameter(down.clone())
        self.dropout = nn.Dropout(0.3)
        self.dropped: list[Any] = []  # what dropout left, for each run

    def forward(self, x: Tensor) -> Tensor:
        wide = self.dropout(nn.functional.gelu(x @ self.up))
        self.dropped.append((wide == 0).tolist())
        return x + wide @ self.down


Parts = tuple[Tensor, DropoutLayer, DropoutLayer]


class Results(TorchDispatchMode):
    """Record of all results of operators, to count the memory that is still held later."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.made: list[tuple[StorageWeakRef, int]] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        storages = [one.untyped_storage() for one in tensors_in(result)]
        self.made += [(StorageWeakRef(one), one.nbytes()) for one in storages]
        return result

    def held_bytes(self) -> int:
        gc.collect()
        return sum({ref.cdata: size for ref, size in self.made if not ref.expired()}.values())


def test(checkpoint: Any, ranks: Ranks) -> None:
    ignore_what_is_there()
    for case, needs in (("x is a batch of samples", False), ("x needs a gradient", True)):
        ranks.begin(case)
        x, dy, *weights = ranks.draw(
            (ROWS, WIDTH), (ROWS, WIDTH), *2 * [(WIDTH, WIDE), (WIDE, WIDTH)]
        )
        right, own = (parts_of(x.clone().requires_grad_(needs), weights) for _ in range(2))
        torch.manual_seed(ranks.seed)
        wanted = right[2](right[1](right[0]))
        wanted.backward(dy)
        after = torch.rand(4)
        torch.manual_seed(ranks.seed)
        results = Results()
        with ranks.phase("forward"), results:
            y = checkpoint(own[2], checkpoint(own[1], own[0]))
        ran(own, 1, ranks)
        ranks.same("y", y, wanted.detach())
        ranks.holds("y learns", y.requires_grad)
        held = results.held_bytes() / x.nbytes
        ranks.holds("held", held < ALLOWED, held=held, needed=NEEDED)
        with ranks.phase("second run"):
            y.backward(dy.clone())
        ran(own, 2, ranks)
        same = [layer.dropped[0] == layer.dropped[1] for layer in (own[1], own[2])]
        ranks.holds("the dropout", all(same))
        ranks.same("the gradients", gradients(own), gradients(right), mistakes={
            "twice": {name: 2 * one for name, one in gradients(right).items()}
        })  # fmt: skip
        ranks.holds("random numbers afterwards", torch.equal(torch.rand(4), after))


def parts_of(x: Tensor, weights: list[Tensor]) -> Parts:
    return x, DropoutLayer(*weights[:2]), DropoutLayer(*weights[2:])


def ran(parts: Parts, times: int, ranks: Ranks) -> None:
    runs = [len(layer.dropped) for layer in (parts[1], parts[2])]
    ranks.holds("runs", runs == [times, times], runs=runs)


def gradients(parts: Parts) -> dict[str, Any]:
    x, *layers = parts
    found = {
        f"{n}.{name}": p.grad for n, one in enumerate(layers) for name, p in one.named_parameters()
    }
    return found | ({"x": x.grad} if x.requires_grad else {})
