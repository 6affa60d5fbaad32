"""Hints for errors of PyTorch or gloo. The error itself is shown above the hint."""

from __future__ import annotations

import re

from course_lib.teach.trials.verdict import Event
from course_lib.words import N_

# Source location in C++ at the beginning of a message.
CHECKED = re.compile(r"^(\[rank\d+\]:)?\[?[A-Z]\d{4} .*?\] ?(Check failed: )?")
EQUAL_PIECES = N_(
    "reduce_scatter and all_gather take equal pieces, one for each rank. Pad the row with zeros "
    "until dist.get_world_size() divides it, and remove the zeros afterwards."
)
OWN_GROUP = N_(
    "The trial makes the process group, of 1, 2, 3 and 4 ranks: leave init_process_group out."
)
# Patterns for a text that begins with the phase and kind of the error. The first match wins.
RULES: tuple[tuple[str, str], ...] = (
    (
        r"(division|modulo) by zero",
        N_(
            "dist.get_rank() is 0 on rank 0, and size - 1 is 0 on one rank. The number of ranks is "
            "dist.get_world_size()."
        ),
    ),
    (r"[Ee]llipsis(?! was)", N_("A gap is still open: put your own code in place of the dots.")),
    (
        r"^(forward|backward) Freed",
        N_(
            "The layer was not gathered, or freed too early. Gather before self.layer(x) and free "
            "after it. Backward needs the layer once more: a hook on the output can gather it."
        ),
    ),
    (
        r"^backward (?!.*backward\(\)).*(\d+ (required )?positional argument|hook .* has changed)",
        N_(
            "PyTorch calls a hook with one argument, the gradient or the parameter, and a result "
            "replaces it. Write def name(self, *_) without a return. Must the hook gather, or free?"
        ),
    ),
    (r"initialize the default process group twice", OWN_GROUP),
    (
        r"^second run .*does(n't| not) require grad",
        N_("Autograd records nothing inside backward, except within torch.enable_grad()."),
    ),
    (
        r"Cannot distribute a DTensor|Cannot concatenate overlapping|local_tensor argument only",
        N_(
            "The order is parallelize_module first, then fully_shard: the blocks first and the "
            'model last, each with mesh["data"].'
        ),
    ),
    (
        r"cannot register a hook",
        N_(
            "Backward does not reach this tensor: it is data, or frozen. A hook belongs on what "
            "the layer returns, or on a parameter that requires a gradient."
        ),
    ),
    (
        r"does(n't| not) require grad\b|leaf [Vv]ariable that requires grad|non-leaf Tensor"
        r"|created in no_grad mode|being modified in-?place",
        N_(
            "Autograd does not allow this. Does backward need this tensor? Then compute it outside "
            "torch.no_grad(). Does it only hold numbers? Then use torch.no_grad() or .detach()."
        ),
    ),
    (
        r"NoneType",
        N_(
            "Something is None. A collective returns None, except with async_op=True. p.grad is "
            "None until backward has written it: use register_post_accumulate_grad_hook. A frozen "
            "parameter never has a gradient. A tensor that recv has written needs requires_grad_() "
            "before forward. Register a hook without ()."
        ),
    ),
    (
        r"Split sizes doesn't match",
        N_(
            "The numbers of rows do not add up to the rows of the tensor. In the backward pass, "
            "swap the numbers of sent and received rows."
        ),
    ),
    (
        r"(Read error|Write error|Connection closed).*(remote worker|by peer)",
        N_(
            "The other rank ended the call, because it sends a different number of bytes than this "
            "rank expects. Does each rank know what the other ranks send to it?"
        ),
    ),
    (
        r"world.?size times|times (the )?world.?size|same size as|divisible by|equal.{0,20}sizes"
        r"|outputShape|invalid tensor size at index|\(\d+\), got \(\d+\)|\(\d+ vs\. \d+\)",
        EQUAL_PIECES,
    ),
    (
        r"invalid gradient at index",
        N_(
            "backward returns a gradient for each argument of forward, in the same order and of "
            "the same shape. Is one transposed or missing, or are two of them swapped?"
        ),
    ),
    (
        r"mat1 and mat2|inconsistent tensor size|size of tensor|shape|sizes? mismatch|must match"
        r"|split_sizes|split_with_sizes|invalid for input of size|dtype|tensor type|scalar type"
        r"|(?<!list )index out of range|out of bounds",
        N_(
            "Two tensors do not match. Print their shapes and types on each rank. Is one a piece "
            "and the other still whole? tensor_split(n) always makes n pieces; chunk(n) may make "
            "fewer. With torch's own tools, look at input_layouts and output_layouts."
        ),
    ),
)


def in_short(text: str) -> str:
    """Return the first line of an error, without its source location in C++."""
    return CHECKED.sub("", text.splitlines()[0])[:300].strip() if text else ""


def why_error(event: Event) -> str:
    """Return a hint for an error; "" if none is known."""
    told = f"{event.get('phase', '')} {event['kind']}: {event['text']}"
    return next((hint for words, hint in RULES if re.search(words, told)), "")
