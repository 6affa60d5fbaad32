"""What a learner is told where their own data parallelism met an error.

A text begins with the phase of the step (wrapping, forward, backward, finish) and the case.
"""

from __future__ import annotations

NONE_OF = r".*'NoneType' object has no attribute '(flatten|reshape|view|ravel|numel)"
FROZEN = (
    "Something is None. A frozen parameter (requires_grad=False) never gets a gradient: its .grad "
    "stays None, and has to be left out."
)
LEFT_OVER = (
    "A .grad is None: that of a parameter which waits in a bucket since the step before. What is "
    "left is sent in finish()."
)
OF_DDP: tuple[tuple[str, str], ...] = (
    (
        r"'NoneType' object has no attribute '(wait|is_completed|get_future|synchronize)",
        "There is no work to wait for: without async_op=True a collective returns None, when all "
        "is done.",
    ),
    (
        r"unsupported operand type.*NoneType",
        "Something is None: a collective changes its tensor in place and returns None, and a "
        "frozen parameter (requires_grad=False) never gets a gradient.",
    ),
    (r"^(finish|backward), .*NoneType", FROZEN),
    (
        r"has no attribute 'finish'",
        "The trial calls finish() of what DDP(model) returns, after backward.",
    ),
    (
        r"before Module.__init__\(\) call",
        "super().__init__() has to come first: a Module keeps its parts in tables that it makes.",
    ),
    (
        r"__init__\(\) (missing|takes)|finish\(\) (missing|takes)|forward\(\) (missing|takes)",
        "The trial calls DDP(model), then own(x), and finish() with nothing.",
    ),
    (
        r"Must specify global_rank",
        "broadcast(tensor, src=0): all ranks name the one whose numbers they take.",
    ),
)  # fmt: skip
OF_BUCKETS: tuple[tuple[str, str], ...] = (
    (
        r"^wrapping" + NONE_OF,
        "There are no gradients yet. A hook is the function itself, without (): "
        "register_post_accumulate_grad_hook(self.ready).",
    ),
    (
        r"^backward, gradients of step 1" + NONE_OF,
        "A .grad is None while backward goes on. A hook by register_hook runs before the gradient "
        "is written there; one by register_post_accumulate_grad_hook runs after it.",
    ),
    (r"^(forward|backward)" + NONE_OF, LEFT_OVER),
    (
        r"hook on a tensor that doesn't require grad",
        "A frozen parameter (requires_grad=False) gets no gradient, and takes no hook.",
    ),
    (
        r"ready\(\) takes",
        "A hook is called with its parameter: ready(self, parameter).",
    ),
    (
        r"split_sizes=\[\]",
        "The bucket's list of parameters is empty when its parts are to be copied back. "
        "self.waiting.clear() empties the very list that was kept; `self.waiting = []` begins "
        "another one.",
    ),
    (
        r"split_with_sizes",
        "The parts do not add up to the bucket. Split by p.numel() of those parameters that it was "
        "made of: the list is kept with it, and a new one begun.",
    ),
    (
        r"is invalid for input of size|size of tensor|must match",
        "A part has another shape than its gradient. The parts lie in the bucket in the order in "
        "which it was made, each as one row: split by p.numel() in that order, then "
        "part.view_as(p).",
    ),
)  # fmt: skip
"""Before OF_DDP."""
