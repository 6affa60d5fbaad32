"""Operators, kernels and named ranges of one trace, summed by name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from course_lib.read.profiler_traces.step_times import (
    COLLECTIVE_NAMES,
    Kinds,
    Worker,
    is_communication,
    step_number,
)
from course_lib.read.profiler_traces.trace_file import NOTHING, Trace

if TYPE_CHECKING:
    import pandas as pd

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
# Parts of names of Tensor Core kernels: the sizes of their instructions.
TENSOR_CORE_KERNELS = (
    "h884", "s884", "h1688", "s1688", "c1688", "hmma", "i8816", "16816", "gmma", "tensorop",
    "dgrad_1x1_stride_2x2", "first_layer_wgrad_kernel", "conv1x1", "conv2d_c1_k1",
    "direct_group", "xmma_implicit_gemm", "xmma_sparse_conv", "xmma_gemm", "xmma_sparse_gemm",
    "xmma_warp_specialized_implicit_gemm",
)  # fmt: skip
_ELIGIBLE = {
    "addmm", "addmm_", "addbmm", "baddbmm", "bmm", "matmul", "mm", "mv", "addmv", "linear",
    "_convolution", "convolution", "conv1d", "conv2d", "conv3d", "cudnn_convolution",
    "convolution_backward", "cudnn_convolution_backward", "_thnn_fused_lstm_cell", "lstm_cell",
    "_scaled_dot_product_flash_attention", "_scaled_dot_product_efficient_attention",
}  # fmt: skip
OPERATOR_COLUMNS = (
    "name",
    "calls",
    "host_self_us",
    "host_total_us",
    "device_self_us",
    "device_total_us",
    "tensor_core_eligible",
    "tensor_core_us",
)
KERNEL_COLUMNS = (
    "name",
    "calls",
    "total_us",
    "mean_us",
    "max_us",
    "min_us",
    "tensor_core",
    "communication",
)


def on_tensor_cores(name: str) -> bool:
    return any(part in name for part in TENSOR_CORE_KERNELS)


def is_eligible(name: str) -> bool:
    """Tell whether an operator could use Tensor Cores in a lower precision."""
    return name.startswith("aten::") and name[6:] in _ELIGIBLE


@dataclass(frozen=True)
class Tree:
    """Host events of all threads, each after its parent; `parent` is -1 at the top."""

    rows: Ints
    parent: Ints


def tree_of(trace: Trace, kinds: Kinds) -> Tree:
    """Return the nesting by time in each thread; if two start together, the longer is outside."""
    host = np.flatnonzero(kinds.operator | kinds.step | kinds.collective)
    host = host[~trace.of_category("gpu_user_annotation")[host]]
    order = np.lexsort((-trace.end_us[host], trace.start_us[host], trace.thread[host]))
    rows = host[order]
    parent = np.full(len(rows), -1, np.int64)
    starts, ends = trace.start_us[rows].tolist(), trace.end_us[rows].tolist()
    threads = trace.thread[rows].tolist()
    stack: list[int] = []
    for number, (start, end) in enumerate(zip(starts, ends, strict=True)):
        while stack and (
            threads[stack[-1]] != threads[number]
            or ends[stack[-1]] <= start
            or ends[stack[-1]] < end
        ):
            stack.pop()
        if stack:
            parent[number] = stack[-1]
        stack.append(number)
    return Tree(rows, parent)


def operator_table(part: Worker) -> pd.DataFrame:
    import pandas as pd

    trace, kinds = part.trace, part.kinds
    tree = tree_of(trace, kinds)
    duration = trace.duration_us[tree.rows]
    inner = np.zeros(len(duration))
    nested = tree.parent >= 0
    np.add.at(inner, tree.parent[nested], duration[nested])
    device, tensor = _device_time(trace, kinds, tree)
    whole = _with_children(device, tree.parent)
    chosen = kinds.operator[tree.rows] & ~trace.of_name(_is_wrapper)[tree.rows]
    once = ~_repeated(trace, kinds, tree)
    frame = pd.DataFrame(
        {
            "code": trace.name[tree.rows][chosen],
            "calls": once[chosen].astype(np.int64),
            "host_self_us": (duration - inner)[chosen],
            "host_total_us": (duration * once)[chosen],
            "device_self_us": device[chosen],
            "device_total_us": (whole * once)[chosen],
            "tensor_core_us": tensor[chosen],
        }
    )
    table = frame.groupby("code", as_index=False).sum()
    table["name"] = [trace.names[code] for code in table["code"]]
    table["tensor_core_eligible"] = [is_eligible(name) for name in table["name"]]
    table = table.sort_values(["device_self_us", "host_self_us"], ascending=False)
    return table[list(OPERATOR_COLUMNS)].reset_index(drop=True)


def _repeated(trace: Trace, kinds: Kinds, tree: Tree) -> npt.NDArray[np.bool_]:
    """Mark operators that are alone inside an operator of the same name; both count as one."""
    found = np.zeros(len(tree.rows), np.bool_)
    inside = np.flatnonzero(tree.parent >= 0)
    above = tree.parent[inside]
    alone = np.bincount(above, minlength=len(tree.rows))[above] == 1
    operator, name = kinds.operator[tree.rows], trace.name[tree.rows]
    same = (name[inside] == name[above]) & operator[inside] & operator[above]
    found[inside] = alone & same
    return found


def _is_wrapper(name: str) -> bool:
    """Tell whether a name covers more than one operator."""
    return name.startswith(("Optimizer.", "enumerate(Data", "DistributedDataParallel."))


def _device_time(trace: Trace, kinds: Kinds, tree: Tree) -> tuple[Floats, Floats]:
    """Return the device time of each operator's own launches, and the part on Tensor Cores."""
    device, tensor = np.zeros(len(tree.rows)), np.zeros(len(tree.rows))
    launched = np.flatnonzero(kinds.on_device & (trace.external > 0))
    if not len(launched) or not len(tree.rows):
        return device, tensor
    ids = trace.external[tree.rows]
    order = np.argsort(ids, kind="stable")
    place = np.minimum(np.searchsorted(ids[order], trace.external[launched]), len(ids) - 1)
    owner = order[place]
    known = ids[owner] == trace.external[launched]
    time = trace.duration_us[launched]
    np.add.at(device, owner[known], time[known])
    cores = trace.of_name(on_tensor_cores)[launched] & kinds.kernel[launched] & known
    np.add.at(tensor, owner[cores], time[cores])
    return device, tensor


def _with_children(own: Floats, parent: Ints) -> Floats:
    whole, above = own.tolist(), parent.tolist()
    for number in range(len(whole) - 1, -1, -1):
        if above[number] >= 0 and whole[number]:
            whole[above[number]] += whole[number]
    return np.array(whole)


def kernel_table(part: Worker) -> pd.DataFrame:
    table = _by_name(part.trace, part.kinds.kernel)
    return table.assign(
        tensor_core=[on_tensor_cores(name) for name in table["name"]],
        communication=[is_communication(name) for name in table["name"]],
    )


def range_table(part: Worker) -> pd.DataFrame:
    """Return the ranges that the program itself named (`record_function`)."""
    trace = part.trace
    return _by_name(trace, trace.of_category("user_annotation") & ~trace.of_name(_is_internal))


def _by_name(trace: Trace, chosen: npt.NDArray[np.bool_]) -> pd.DataFrame:
    """Return the times of the chosen events by name, the largest first."""
    import pandas as pd

    frame = pd.DataFrame({"code": trace.name[chosen], "us": trace.duration_us[chosen]})
    table = frame.groupby("code", as_index=False).agg(
        calls=("us", "count"),
        total_us=("us", "sum"),
        mean_us=("us", "mean"),
        max_us=("us", "max"),
        min_us=("us", "min"),
    )
    table["name"] = [trace.names[code] for code in table["code"]]
    return table.sort_values("total_us", ascending=False, ignore_index=True)


def _is_internal(name: str) -> bool:
    return step_number(name) is not None or name in COLLECTIVE_NAMES


def collective_table(part: Worker) -> pd.DataFrame:
    """Return the communications in order of time: kernels if there are any, else host events.
    `turn` counts communications with the same name."""
    import pandas as pd

    trace, kinds = part.trace, part.kinds
    kernels = kinds.named_communication
    chosen = np.flatnonzero(kernels if kernels.any() else kinds.collective)
    items = [trace.collectives.get(row, NOTHING) for row in chosen.tolist()]
    table = pd.DataFrame(
        {
            "name": [
                item.collective or trace.names[code]
                for item, code in zip(items, trace.name[chosen], strict=True)
            ],
            "duration_us": trace.duration_us[chosen],
            "size_bytes": [
                np.nan if item.elements is None else item.elements * _BYTES.get(item.dtype or "", 4)
                for item in items
            ],
        }
    )
    return table.assign(turn=table.groupby("name").cumcount())


_BYTES = {
    "Float": 4,
    "Half": 2,
    "BFloat16": 2,
    "Double": 8,
    "Long": 8,
    "Int": 4,
    "Byte": 1,
    "Char": 1,
}
