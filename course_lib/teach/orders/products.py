"""How large the matrices are that a learner's function multiplies, by numpy or by torch."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

OF_NUMPY = {"matmul", "dot", "einsum", "inner", "tensordot", "vdot", "multi_dot"}
OF_TORCH = {"mm", "bmm", "addmm", "baddbmm", "mv", "addmv", "dot", "vdot"}


class Watched(np.ndarray[Any, Any]):
    """A matrix that notes, in `sizes`, how many numbers each factor has of the products that it,
    or what was made of it, takes part in."""

    sizes: list[int]

    def __array_finalize__(self, made_of: Any) -> None:
        self.sizes = getattr(made_of, "sizes", [])

    def __array_ufunc__(self, ufunc: Any, method: str, *given: Any, **more: Any) -> Any:
        return self._noted(ufunc.__name__, getattr(ufunc, method), given, more)

    def __array_function__(self, function: Any, types: Any, given: Any, more: Any) -> Any:
        return self._noted(function.__name__, function, given, more)

    def dot(self, *given: Any, **more: Any) -> Any:
        return self._noted("dot", np.dot, (self, *given), more)

    def _noted(self, name: str, function: Callable[..., Any], given: Any, more: Any) -> Any:
        if name in OF_NUMPY:
            self.sizes += [each.size for each in _inside(given) if isinstance(each, np.ndarray)]
        found = function(*_plain(given), **{word: _plain(each) for word, each in more.items()})
        return _each(found, lambda one: watched(one, self.sizes))


def watched(matrix: Any, sizes: list[int]) -> Any:
    """Whatever is no matrix stays what it is."""
    if type(matrix) is not np.ndarray:
        return matrix
    view = matrix.view(Watched)
    view.sizes = sizes
    return view


@contextlib.contextmanager
def noting_torch(sizes: list[int]) -> Iterator[None]:
    """Notes them also where the matrices were made tensors. No torch, no tensors."""
    if "torch" not in sys.modules:
        yield
        return
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    class Noted(TorchDispatchMode):
        def __torch_dispatch__(
            self, function: Any, types: Any, given: Any = (), more: Any = None
        ) -> Any:
            if function.overloadpacket.__name__ in OF_TORCH:
                found = [one for one in _inside(given) if isinstance(one, torch.Tensor)]
                sizes.extend(one.numel() for one in found)
            return function(*given, **(more or {}))

    noted: Any = Noted
    with noted():
        yield


def _inside(given: Any) -> Iterator[Any]:
    for one in given:
        if isinstance(one, list | tuple):
            yield from _inside(one)
        else:
            yield one


def _plain(given: Any) -> Any:
    return _each(given, lambda one: one.view(np.ndarray) if isinstance(one, Watched) else one)


def _each(given: Any, change: Callable[[Any], Any]) -> Any:
    if type(given) in (list, tuple):
        return type(given)(_each(one, change) for one in given)
    return change(given)
