"""Hints for errors of PyTorch or gloo. The error itself is shown above the hint."""

from __future__ import annotations

import re

from course_lib.teach.trials.hints import BY_ZERO
from course_lib.teach.trials.verdict import Event
from course_lib.words import N_

# Source location in C++ at the beginning of a message.
CHECKED = re.compile(r"^(\[rank\d+\]:)?\[?[A-Z]\d{4} .*?\] ?(Check failed: )?")
EQUAL_PIECES = N_(
    "reduce_scatter and all_gather take equal pieces, one for each rank, and the first argument is "
    "where the result goes. Fill the row up with zeros until dist.get_world_size() divides it, and "
    "leave them out again when it is whole."
)
ONE_ROOT = N_(
    "src is the rank whose numbers all take, and dst the rank that gets the sum: the same on every "
    "rank, for tensors of the same length. For a sum on each rank all call it once for each."
)
OWN_GROUP = N_(
    "The trial makes the process group, of 1, 2, 3 and 4 ranks: leave init_process_group out."
)
# Patterns for a text that begins with the phase and kind of the error. The first match wins.
RULES: tuple[tuple[str, str], ...] = (
    (r"(division|modulo) by zero", BY_ZERO),
    (r"[Ee]llipsis", N_("A gap is still open: put your own code in place of the dots.")),
    (
        r"^forward Freed",
        N_("It is not gathered, or freed too early. Gather before self.layer(x), free after it."),
    ),
    (
        r"^backward Freed",
        N_(
            "Backward needs the layer once more: a hook on its output runs just before, and can "
            "gather. It is freed when the last of its gradients has come."
        ),
    ),
    (
        r"takes \d+ positional arguments? but",
        N_(
            "PyTorch calls a hook with one argument, the gradient or the parameter, and this "
            "function does not take it. Write def name(self, *_), and look once more at what has to"
            " happen there."
        ),
    ),
    (
        r"returned an invalid gradient",
        N_(
            "What backward returns has the shape of what came into forward: where forward gathers, "
            "backward scatters, and the other way round."
        ),
    ),
    (
        r"hook on a tensor that doesn't require grad",
        N_(
            "A frozen parameter, or x of the first layer, gets no gradient and takes no hook. Hook "
            "parameters that learn, or the layer's output, computed outside of torch.no_grad()."
        ),
    ),
    (
        r"does not require grad",
        N_(
            "Nothing leads back from the result: was it detached, made under torch.no_grad(), or is"
            " the weight no torch.nn.Parameter?"
        ),
    ),
    (
        r"leaf [Vv]ariable that requires grad",
        N_("It changes a parameter in place while autograd watches: `with torch.no_grad():`."),
    ),
    (r"initialize the default process group twice", OWN_GROUP),
    (
        r"Cannot distribute a DTensor with device mesh",
        N_("Call parallelize_module first and fully_shard afterwards."),
    ),
    (
        r"Cannot concatenate overlapping meshes|local_tensor argument only accepts",
        N_('fully_shard gets the blocks first and the model last, each with mesh["data"].'),
    ),
    (
        r"non-leaf Tensor|view was created in no_grad mode|a view and is being modified in-?place",
        N_(
            "Autograd remembers where this tensor came from. What optimizers and collectives are "
            "given has no history: .detach() leaves it behind."
        ),
    ),
    (
        r"'NoneType' object is not callable",
        N_("A hook is the function itself, without (): register_hook(self.gather)."),
    ),
    (
        r"'NoneType' object has no attribute '(wait|is_completed|get_future)",
        N_("There is no work to wait for: without async_op=True a collective returns None."),
    ),
    (
        r"NoneType",
        N_(
            "Something is None. A collective changes its tensor in place and returns None. A .grad "
            "is None until backward has written it (a hook by register_hook runs before that, one "
            "by register_post_accumulate_grad_hook after it), after it was taken away (does a "
            "bucket wait since the step before? what is left is sent in finish()), and always for "
            "a frozen parameter. A hook is given without ()."
        ),
    ),
    (
        r"split_sizes|split_with_sizes|is invalid for input of size",
        N_(
            "The parts do not fit the bucket. Split it by p.numel() of the parameters that it was "
            "made of, in that order: the list is kept with it, and a new one begun (clear() empties"
            " the list that was kept), then part.view_as(p)."
        ),
    ),
    (
        r"dtype|tensor type|scalar type",
        N_("Two tensors have different types. A buffer has the type of what it holds: empty_like."),
    ),
    (
        r"index out of range|out of bounds",
        N_(
            "Are there as many pieces as ranks? tensor_split(n) always makes n pieces, empty ones "
            "too; chunk(n) may make fewer, and split(k) makes pieces of k numbers."
        ),
    ),
    (
        r"world.?size times|times (the )?world.?size|same size as|divisible by|equal.{0,20}sizes"
        r"|outputShape|invalid tensor size at index|\(\d+\), got \(\d+\)|\(\d+ vs\. \d+\)",
        EQUAL_PIECES,
    ),
    (
        r"mat1 and mat2|inconsistent tensor size|size of tensor|shape|sizes? mismatch|must match",
        N_(
            "Two tensors have shapes that do not fit. Print both on each rank: is what comes in a "
            "slice already, or still whole? Pieces differ by one number if the ranks do not divide "
            "the tensor."
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
