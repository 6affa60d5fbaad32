"""What a learner is told where PyTorch or gloo refused a call."""

from __future__ import annotations

import re

from course_lib.teach.trials.exchange.told_of_ddp import OF_BUCKETS, OF_DDP
from course_lib.teach.trials.verdict import Event

CHECKED = re.compile(r"^(\[rank\d+\]:)?\[?[A-Z]\d{4} .*?\] ?(Check failed: )?")
"""What C++ writes before its sentence."""
SIZES = r"\((\d+) vs\. (\d+)\)|expected \((\d+)\), got \((\d+)\)"
OWN_GROUP = (
    "The trial makes the process group, of 1, 2, 3 and 4 ranks: leave init_process_group out."
)
EQUAL_PIECES = (
    "reduce_scatter and all_gather take equal pieces, one for each rank. Fill the row up with "
    "zeros until the number of ranks divides it, and leave them out again when it is whole."
)
OF_EXERCISES = {
    "ring": (
        (
            r"^[^:]*: ring_all_reduce\(\) (missing|takes)",
            "The trial calls ring_all_reduce(tensor), with one tensor and nothing else.",
        ),
    ),
    "ddp": OF_DDP,
    "buckets": (*OF_BUCKETS, *OF_DDP),
}  # fmt: skip
"""Before those for all. The text begins with the phase and the case."""
TOLD_BY_TORCH: tuple[tuple[str, str], ...] = (
    (r"[Ee]llipsis", "A gap is still open: put your own code in place of the dots."),
    (
        r"returned an invalid gradient",
        "What backward returns has the shape of what came into forward: where forward gathers, "
        "backward scatters, and the other way round.",
    ),
    (
        r"does not require grad",
        "Nothing leads back from the result: was it detached, made under torch.no_grad(), or is "
        "the weight no torch.nn.Parameter?",
    ),
    (
        r"leaf [Vv]ariable that requires grad",
        "It changes a parameter in place while autograd watches. Change parameters inside "
        "`with torch.no_grad():`, and gradients through `parameter.grad`.",
    ),
    (
        r"initialize the default process group twice",
        OWN_GROUP,
    ),
    (
        r"params argument given to the optimizer",
        "An optimizer takes a list of tensors: make_optimizer([self.shard]).",
    ),
    (
        r"non-leaf Tensor|view was created in no_grad mode|a view and is being modified in-?place",
        "Autograd remembers where this tensor came from. What optimizers and collectives are given "
        "has no history: .detach() leaves it behind.",
    ),
    (
        r"hook returned|hook .* has changed",
        "What a hook returns takes the gradient's place. It is to gather, and to return nothing.",
    ),
    (
        r"register a hook on a tensor that doesn't require grad",
        "Backward passes this tensor by. The x of the first layer is data: put the hook on the "
        "layer's output, and compute that outside of torch.no_grad().",
    ),
    (
        r"unsupported operand type.*NoneType",
        "all_reduce changes its tensor in place and returns None; a function without return gives "
        "None as well.",
    ),
    (
        r"Expected parameter `output` of type torch.Tensor",
        "Where the result goes is no tensor yet: torch.empty_like makes room for it.",
    ),
    (
        r"'NoneType' object is not callable",
        "A hook is the function itself, without (): register_hook(self.gather), not "
        "register_hook(self.gather()).",
    ),
    (
        r"'input' \(position 1\) must be Tensor, not NoneType",
        "A layer's result is None: does forward end with `return y`?",
    ),
    (
        r"'NoneType' object has no attribute '(flatten|reshape|view|ravel|numel)'",
        "Not all gradients are there yet: a .grad is None until backward has come to its "
        "parameter. The hook of the last one can go on.",
    ),
    (
        r"NoneType",
        "Something is None that is to be a tensor.",
    ),
    (
        r"dtype|tensor type|scalar type",
        "Two tensors have different types. A buffer has the type of what it holds: "
        "torch.empty_like(…), or dtype=….",
    ),
    (
        r"[Ii]nvalid (destination|source) rank|rank .* (out of|not in)",
        "It sends to a rank that does not exist. The rank after the last one is rank 0: "
        "(rank + 1) % size, and the one before rank 0 is the last: (rank - 1) % size.",
    ),
    (
        r"Pair is not connected",
        "There is no connection between these two ranks: one is not there, or both are one.",
    ),
    (
        r"index out of range|out of bounds",
        "Are there as many pieces as ranks? tensor_split(n) always makes n pieces, empty ones too; "
        "chunk(n) may make fewer, and split(k) makes pieces of k numbers.",
    ),
    (
        r"Backend gloo does not implement",
        "gloo, by which the trial talks, cannot do this: call the collectives one by one.",
    ),
    (
        r"offset < this->size",
        "A recv that takes from anybody fails where the piece is empty. Name the rank: "
        "recv(…, src).",
    ),
    (
        r"must be contiguous|has to be contiguous|view size is not compatible",
        "The numbers of this tensor do not lie in one row. Those of a copy by .contiguous() do; "
        "its result has to be written back.",
    ),
    (
        r"world.?size times|times (the )?world.?size|same size as|divisible by|equal.{0,20}sizes"
        r"|outputShape|invalid tensor size at index",
        EQUAL_PIECES,
    ),
    (
        r"mat1 and mat2|inconsistent tensor size",
        "A product of shapes that do not fit. Print both on each rank: is what comes in a slice "
        "already, or still whole? And which dimension of the weight is cut?",
    ),
    (
        r"size of tensor|shape|sizes? mismatch|must match",
        "Two tensors have different shapes. Print their shapes on each rank: pieces differ by one "
        "number where the ranks do not divide the tensor.",
    ),
)  # fmt: skip


def in_short(text: str) -> str:
    """The first line of an error, without the place in C++ that it comes from."""
    return CHECKED.sub("", text.splitlines()[0])[:300].strip() if text else ""


def why_error(event: Event, exercise: str) -> str:
    """What to do about it; "" where nothing is known."""
    text = event["text"]
    if (sizes := re.search(SIZES, text)) and (told := _why_sizes(sizes, event["size"])):
        return told
    placed = f"{event.get('phase', '')}, {event.get('case', '')}: {text}"
    for words, told in OF_EXERCISES.get(exercise, ()):
        if re.search(words, placed, re.DOTALL):
            return told
    return next((told for words, told in TOLD_BY_TORCH if re.search(words, text)), "")


def _why_sizes(found: re.Match[str], size: int) -> str:
    one, other = (int(number) for number in found.groups() if number is not None)
    if size > 1 and one == size**2 * other:
        return (
            "The first argument is where the result goes: reduce_scatter_single(piece, row), "
            "all_gather_single(row, piece)."
        )
    if size == 1:
        return (
            "On one rank the piece is the row. Was it cut by another number of ranks than "
            "dist.get_world_size()?"
        )
    return ""
