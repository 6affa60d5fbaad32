"""Lesson 13: parallel layers of learners on four real ranks, orders of ranks and of steps."""

from __future__ import annotations

import numpy as np
import pytest

from course_lib.plan import Layout
from course_lib.plan import groups as planned
from course_lib.plan.schedules.steps import one_f_one_b
from course_lib.teach.checklist import Checklist
from course_lib.teach.checks import lesson13
from course_lib.teach.orders import ranks, steps

from .finished_runs import hint_of
from .own_trials import program_of, swapped

CHECKS = {
    "column": lesson13.ex13_column, "row": lesson13.ex13_row, "tokens": lesson13.ex13_tokens,
}  # fmt: skip

CELLS = {
    "column": "column-own", "row": "row-own", "tokens": "tokens-own", "schedule": "order-own",
}  # fmt: skip
RIGHT = {
    exercise: program_of("13_parallel_layers_by_hand", cell) for exercise, cell in CELLS.items()
}


@pytest.fixture
def tried(tried):
    """The right text of an exercise, with some words swapped, as a trial leaves it behind."""
    return lambda exercise, *pairs: tried(swapped(RIGHT[exercise], *pairs), exercise)


APPLIED = "return torch.nn.functional.linear(CopyIn.apply(x), self.weight, self.bias)"
HOOKED = """x = x.view_as(x)
        x.register_hook(lambda grad: dist.all_reduce(total := grad.clone()) or total)
        return x @ self.weight.T + self.bias"""
SUMMED = "return SumOut.apply(x @ self.weight.T) + self.bias"
ON_RANK_0 = """y = x @ self.weight.T
        return SumOut.apply(y if self.bias is None else y + self.bias)"""
IN_HALVES = """        mine = total.new_empty(total.numel() // dist.get_world_size())
        dist.reduce_scatter_tensor(output=mine, input=total.flatten())
        dist.all_gather_into_tensor(output_tensor=total.view(-1), input_tensor=mine)
"""
RING = """        rank, size = dist.get_rank(), dist.get_world_size()
        going = grad.clone()
        for _ in range(size - 1):
            coming = torch.empty_like(going)
            sending = dist.isend(going, (rank + 1) % size)
            dist.recv(coming, (rank - 1) % size)
            sending.wait()
            total, going = total + coming, coming
"""
SCATTERED = "dist.reduce_scatter_tensor(mine, x.contiguous())"
GATHERS_AGAIN = """

class GatherTokens(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, a):
        ctx.save_for_backward(x, a)
        return gather(x) @ a.T

    @staticmethod
    def backward(ctx, grad):
        x, a = ctx.saved_tensors
        return scatter(grad @ a), grad.T @ gather(x)


def split_mlp(x, a, b):
    return ScatterTokens.apply(torch.nn.functional.gelu(GatherTokens.apply(x, a)) @ b.T)
"""
OTHER_FORMS = {
    "the right column": ("column", []),
    "a hook in the place of a function": ("column", [(APPLIED, HOOKED)]),
    "a slice by its indices": (
        "column",
        [("weight.chunk(size, 0)[rank]",
          "weight[rank * len(weight) // size : (rank + 1) * len(weight) // size]")],
    ),
    "a sum in two halves": ("column", [("        dist.all_reduce(total)\n", IN_HALVES)]),
    "a ring of messages": ("column", [("        dist.all_reduce(total)\n", RING)]),
    "the right row": ("row", []),
    "a reduce and a broadcast": (
        "row", [("dist.all_reduce(total)", "dist.reduce(total, 0)\n        "
                 "dist.broadcast(total, 0)")],
    ),
    "the bias on the last rank alone": (
        "row",
        [("torch.nn.Parameter(bias.clone())",
          "torch.nn.Parameter(bias.clone()) if rank == size - 1 else None"),
         (SUMMED, ON_RANK_0)],
    ),
    "summed in place, unseen by autograd": (
        "row", [(SUMMED, "y = x @ self.weight.T\n        dist.all_reduce(y)\n"
                 "        return y + self.bias")],
    ),
    "the bias on rank 0 alone": (
        "row",
        [("torch.nn.Parameter(bias.clone())", "None if rank else torch.nn.Parameter(bias.clone())"),
         (SUMMED, ON_RANK_0)],
    ),
    "the right tokens": ("tokens", []),
    "one that gathers once more": ("tokens", [(RIGHT["tokens"], RIGHT["tokens"] + GATHERS_AGAIN)]),
    "keywords, input first": (
        "tokens", [(SCATTERED, "dist.reduce_scatter_tensor(input=x.contiguous(), output=mine)")],
    ),
    "a reduce for each rank": (
        "tokens",
        [(SCATTERED, "for rank, piece in enumerate(x.clone().chunk(dist.get_world_size())):\n"
          "        dist.reduce(piece, rank)\n        if rank == dist.get_rank():\n"
          "            mine.copy_(piece)")],
    ),
    "lists of tensors": (
        "tokens",
        [("dist.all_gather_into_tensor(whole, x.contiguous())",
          "dist.all_gather(list(whole.chunk(dist.get_world_size())), x.contiguous())"),
         ("dist.reduce_scatter_tensor(mine, x.contiguous())",
          "dist.reduce_scatter(mine, list(x.contiguous().chunk(dist.get_world_size())))")],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", OTHER_FORMS)
def test_right_ones_pass_in_every_form(tried, capsys, name):
    exercise, pairs = OTHER_FORMS[name]
    CHECKS[exercise](tried(exercise, *pairs))
    assert "equal to the serial result on 1, 2, 3 and 4 ranks" in capsys.readouterr().out


REDUCES = "        total = grad.clone()\n        dist.all_reduce(total)\n        return total\n"
GATHERED = """y = torch.nn.functional.linear(CopyIn.apply(x), self.weight, self.bias)
        parts = [torch.empty_like(y) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, y.detach())
        parts[dist.get_rank()] = y
        return torch.cat(parts, -1)"""
OF_WEIGHT = "self.weight = torch.nn.Parameter(weight.chunk(size, 0)[rank].clone())"
OF_BIAS = "torch.nn.Parameter(bias.chunk(size)[rank].clone())"
GROWS = """        ctx.owner.total = ctx.owner.total + grad
        total = ctx.owner.total.clone()
        dist.all_reduce(total)
        return total, None
"""
AT_THE_TOP = "import torch.distributed as dist\n\nSIZE = dist.get_world_size()\n"
WRONG_COLUMNS = {
    "a bias that is no parameter": (
        [(OF_BIAS, "bias.chunk(size)[rank].clone().requires_grad_()")], "no torch.nn.Parameter",
    ),
    "a frozen weight": ([("[rank].clone())\n        self.bias", "[rank].clone(), requires_grad="
                          "False)\n        self.bias")], "it is frozen"),
    "the whole kept beside": ([(OF_WEIGHT, OF_WEIGHT + "\n        self.whole = weight")],
                              "4.84 times its slices"),
    "a bias that is a view": ([(OF_BIAS, OF_BIAS.replace(".clone()", ""))], "1.12 times"),
    "in place": ([(REDUCES, "        dist.all_reduce(grad)\n        return grad\n")],
                 "changes in place what came to it"),
    "the first weight kept": (
        [(APPLIED, "if not hasattr(self, 'first'):\n            self.first = self.weight * 1\n"
          f"        {APPLIED.replace('self.weight', 'self.first')}")], "right in the first step",
    ),
    "a sum that grows": (
        [(REDUCES, GROWS), ("def forward(ctx, x):\n", "def forward(ctx, x, owner):\n        "
          "ctx.owner = owner\n"), ("CopyIn.apply(x)", "CopyIn.apply(x, self)"),
         ("super().__init__()", "super().__init__()\n        self.total = 0")],
        "right in the first step",
    ),
    "summed a copy": ([("dist.all_reduce(total)", "dist.all_reduce(total.clone())")],
                      "what it has summed up is not what is used"),
    "float32": ([("total = grad.clone()", "total = grad.float()")], "float32, or less"),
    "the next slice": ([("chunk(size, 0)[rank]", "chunk(size, 0)[(rank + 1) % size]")],
                       "holds the slice of rank 1"),
    "the size at the top": ([("import torch.distributed as dist\n", AT_THE_TOP)],
                            "imported before the ranks have met"),
    "no all-reduce in backward": (
        [(REDUCES, "        return grad\n")], "the all-reduce in backward is missing",
    ),
    "summed twice": (
        [(REDUCES, REDUCES.replace("return", "dist.all_reduce(total)\n        return"))],
        "the gradient was summed twice",
    ),
    "a mean": ([("return total\n", "return total / dist.get_world_size()\n")], "not averaged"),
    "rank 0 only": (
        [("dist.all_reduce(total)", "dist.reduce(total, 0)")], "Every rank needs it",
    ),
    "the wrong dimension": ([("chunk(size, 0)", "chunk(size, 1)")], "cut along the inputs"),
    "transposed": ([("weight.chunk(size, 0)[rank]", "weight.chunk(size, 0)[rank].T")],
                   "it is transposed"),
    "not cut": ([("weight.chunk(size, 0)[rank]", "weight")], "every rank holds the whole"),
    "the first slice": ([("weight.chunk(size, 0)[rank]", "weight.chunk(size, 0)[0]")],
                        "Where does `rank` enter"),
    "every so many": ([("weight.chunk(size, 0)[rank]", "weight[rank::size]")], "takes neighbours"),
    "a view": ([("[rank].clone())\n        self.bias", "[rank])\n        self.bias")], ".clone()"),
    "a bias that is whole": ([("bias.chunk(size)[rank]", "bias")], "One number for each output"),
    "no bias": ([("self.weight, self.bias)", "self.weight)")], "the bias is missing"),
    "no CopyIn": ([("CopyIn.apply(x)", "x")], "the all-reduce in backward is missing"),
    "gathered": ([(APPLIED, GATHERED)], "gathered where nobody needs them"),
    "summed forward": (
        [("return x.view_as(x)", "return dist.all_reduce(y := x.clone()) or y / "
          "dist.get_world_size()")], "In forward it calls all_reduce; nothing has to travel",
    ),
    "no parameter": ([("torch.nn.Parameter(weight", "(weight")], "no torch.nn.Parameter"),
    "detached": ([("CopyIn.apply(x), self", "CopyIn.apply(x).detach(), self")], "it is None"),
    "weights under no_grad": (
        [(APPLIED, f"with torch.no_grad():\n            {APPLIED}")], "Nothing leads back",
    ),
}  # fmt: skip
WRONG_ROWS = {
    "what all_reduce returns": (
        [("        dist.all_reduce(total)\n        return total\n",
          "        return dist.all_reduce(total)\n")], "changes its tensor in place",
    ),
    "detached": ([("T) + self", "T).detach() + self")], "nothing leads from y back to x"),
    "zeros elsewhere": (
        [("bias.clone()", "bias.clone() if rank == 0 else torch.zeros_like(bias)"),
         (SUMMED, "return SumOut.apply(x @ self.weight.T + self.bias)")], "it is zero here",
    ),
    "a mean of all": ([(SUMMED, f"{SUMMED.replace('return ', 'return (')}) / "
                        "dist.get_world_size()")], "the bias as well"),
    "to itself": ([("        dist.all_reduce(total)\n", RING.replace("grad.clone()", "x.clone()")
                    .replace("size - 1", "size"))], "is a message to itself"),
    "no all-reduce in forward": (
        [("SumOut.apply(x @ self.weight.T)", "x @ self.weight.T")],
        "the all-reduce in forward is missing",
    ),
    "bias on every rank": (
        [("SumOut.apply(x @ self.weight.T) + self.bias",
          "SumOut.apply(x @ self.weight.T + self.bias)")],
        "the bias is in it 2 times",
    ),
    "bias divided": (
        [("torch.nn.Parameter(bias.clone())", "torch.nn.Parameter(bias / size)"),
         ("SumOut.apply(x @ self.weight.T) + self.bias",
          "SumOut.apply(x @ self.weight.T + self.bias)")],
        "moves it 2 times as far",
    ),
    "summed in backward too": (
        [("        return grad\n", REDUCES)], "a sum in backward that is not needed",
    ),
    "torch's function": (
        [("SumOut.apply(", "torch.distributed.nn.functional.all_reduce("),
         ("import torch\n", "import torch\nimport torch.distributed.nn.functional\n")],
        "a sum in backward that is not needed",
    ),
    "the wrong dimension": ([("chunk(size, 1)", "chunk(size, 0)")], "cut along the outputs"),
    "rank 0 only": ([("dist.all_reduce(total)", "dist.reduce(total, 0)")], "only rank 0 has"),
    "a bias that is cut": ([("bias.clone()", "bias.chunk(size)[rank]")], "it is cut"),
    "cut again": ([("SumOut.apply(x @", "SumOut.apply(x.chunk(2, -1)[0] @")], "a slice already"),
    "cut outputs": (
        [("self.weight.T) + self.bias", "self.weight.T).chunk(4, -1)[0]")], "has shape",
    ),
    "no bias": ([("T) + self.bias", "T)")], "the bias is missing"),
    "backward returns nothing": ([("return grad\n", "return None\n")], "what does backward return"),
}  # fmt: skip
WRONG_TOKENS = {
    "the tokens of the next": ([("return scatter(x)", "return scatter(torch.roll(x, -(len(x) // "
                                 "dist.get_world_size()), 0))")], "the tokens of rank 1"),
    "tokens kept": ([("return gather(x)\n", "kept = KEPT.setdefault(dist.get_world_size(), "
                      "gather(x))\n        return kept.clone()\n"),
                     ("class GatherTokens", "KEPT = {}\n\n\nclass GatherTokens")],
                    "right in the first step"),
    "gradients of slices summed": (
        [("    whole = GatherTokens.apply(x)\n", "    for one in (a, b):\n        one.register_"
          "hook(lambda g: dist.all_reduce(t := g.clone()) or t)\n"
          "    whole = GatherTokens.apply(x)\n")],
        "the gradients of all slices were added up",
    ),
    "not summed": (
        [("dist.reduce_scatter_tensor(mine, x.contiguous())",
          "mine.copy_(x.chunk(dist.get_world_size())[dist.get_rank()])")],
        "the partial sums have to be added",
    ),
    "cut in backward": (
        [("return scatter(grad)",
          "return grad.chunk(dist.get_world_size())[dist.get_rank()]")],
        "a reduce-scatter, not a cut",
    ),
    "all-reduce forward": (
        [("return scatter(x)",
          "return dist.all_reduce(x := x.clone()) or x.chunk(dist.get_world_size())"
          "[dist.get_rank()]")],
        "An all-gather and a reduce-scatter are half of it each",
    ),
    "all tokens": (
        [("return ScatterTokens.apply(torch.nn.functional.gelu(whole @ a.T) @ b.T)",
          "y = torch.nn.functional.gelu(whole @ a.T) @ b.T\n    dist.all_reduce(y)\n    return y")],
        "all tokens are here",
    ),
    "backward of scatter returns its own": ([("return gather(grad)", "return grad")],
                                            "where forward gathers"),
}  # fmt: skip
WRONG = {
    f"{exercise}: {name}": (exercise, *told)
    for exercise, some in (
        ("column", WRONG_COLUMNS), ("row", WRONG_ROWS), ("tokens", WRONG_TOKENS),
    )
    for name, told in some.items()
}  # fmt: skip


@pytest.mark.many(4)
@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_layer_is_told_its_mistake(tried, name):
    exercise, pairs, words = WRONG[name]
    assert words.lower() in hint_of(CHECKS[exercise], tried(exercise, *pairs)).lower()


def by_strides(order, sizes, axis):
    """Another way than the check's."""
    step = 1
    for name in order.split("-"):
        if name == axis:
            break
        step *= sizes[name]
    world = np.prod(list(sizes.values()))
    starts = [rank for rank in range(world) if rank // step % sizes[axis] == 0]
    return [[start + step * n for n in range(sizes[axis])] for start in starts]


def test_orders_are_those_of_the_text_and_of_the_planner(workspace, capsys):
    sizes = {"tp": 4, "cp": 1, "dp": 2}
    assert ranks.groups("tp-cp-dp", sizes, "tp") == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert ranks.groups("tp-cp-dp", sizes, "dp") == [[0, 4], [1, 5], [2, 6], [3, 7]]
    layout = Layout(tensor=2, context=3, data=4, order="cp-tp-dp-pp")
    wanted = planned(layout, "tp")
    assert sorted(ranks.groups("cp-tp-dp", {"tp": 2, "cp": 3, "dp": 4}, "tp")) == wanted
    lesson13.ex13_groups(by_strides)
    lesson13.ex13_groups(lambda *case: np.array(ranks.groups(*case))[::-1])
    lesson13.ex13_groups(lambda *case: [tuple(map(float, g)) for g in ranks.groups(*case)])
    assert "✓ right for" in capsys.readouterr().out


def reversed_order(order, sizes, axis):
    return ranks.groups("-".join(order.split("-")[::-1]), sizes, axis)


def neighbours(order, sizes, axis):
    world, size = int(np.prod(list(sizes.values()))), sizes[axis]
    return [list(range(start, start + size)) for start in range(0, world, size)]


def same_place(order, sizes, axis):
    return np.array(ranks.groups(order, sizes, axis)).T.tolist()


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (..., "Replace the ..."),
        (3, "the function itself"),
        (lambda order, sizes, axis: ..., "fill in the gap"),
        (lambda order, sizes, axis: None, "fill in the gap"),
        (lambda order: [], "TypeError"),
        (lambda order, sizes, axis: 1 / 0, "ZeroDivisionError"),
        (lambda order, sizes, axis: [["a"]], "It gave"),
        (lambda order, sizes, axis: [], "in exactly one group"),
        (reversed_order, "wrong end"),
        (neighbours, "These are the tp groups|Neighbours are together"),
        (same_place, "These are the dp groups|the same place"),
        (lambda order, sizes, axis: ranks.groups("tp-cp-dp", sizes, axis)
         if "pp" not in sizes else [], "does not enter"),
        (lambda order, sizes, axis: ranks.groups(order, sizes, axis)[1:], "exactly one group"),
    ],
)  # fmt: skip
def test_a_wrong_order_of_ranks_is_told_its_mistake(workspace, function, words):
    hint = hint_of(lesson13.ex13_groups, function)
    assert any(some in hint for some in words.split("|")), hint


def schedule(warm_up):
    """1F1B with another warm-up."""

    def steps(stages, stage, micro_batches):
        ahead = min(warm_up(stages, stage), micro_batches)
        for m in range(ahead):
            yield "forward", m
        for m in range(micro_batches - ahead):
            yield "forward", m + ahead
            yield "backward", m
        for m in range(micro_batches - ahead, micro_batches):
            yield "backward", m

    return steps


def gpipe(stages, stage, micro_batches):
    yield from (("forward", m) for m in range(micro_batches))
    yield from (("backward", m) for m in range(micro_batches))


def last_in_first_out(stages, stage, micro_batches):
    held = []
    for phase, m in schedule(lambda p, r: p - r - 1)(stages, stage, micro_batches):
        if phase == "forward":
            held.append(m)
        yield phase, m if phase == "forward" else held.pop()


def without_the_end(stages, stage, micro_batches):
    steps = list(schedule(lambda p, r: p - r - 1)(stages, stage, micro_batches))
    return steps[: 2 * micro_batches - (stages - stage - 1)]


def beyond_the_last(stages, stage, micro_batches):
    ahead = stages - stage - 1
    yield from (("forward", m) for m in range(ahead))
    for m in range(micro_batches):
        if m + ahead < micro_batches:
            yield "forward", m + ahead
        yield "backward", m


def without_end(stages, stage, micro_batches):
    while True:
        yield "forward", 0


def test_right_schedules_pass_in_every_form(tried, capsys):
    run, right = tried("schedule"), schedule(lambda p, r: p - r - 1)
    lesson13.ex13_schedule(run.folder / "own.py", run)
    lesson13.ex13_schedule(str(run.folder / "own.py"), run)
    lesson13.ex13_schedule(right, run)
    lesson13.ex13_schedule(lambda p, r, m: one_f_one_b(p, r, m, 1), run)
    lesson13.ex13_schedule(lambda *case: [[phase, np.int64(m)] for phase, m in right(*case)], run)
    said = capsys.readouterr().out
    assert "8 × 16 pipelines" in said
    assert "equal to the serial result on 1, 2, 3 and 4 ranks" in said


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("if turn >= ahead:", "if turn > ahead:"),
        ('yield "forward", turn\n', 'yield "backward", turn\n'),
    ],
)
def test_the_order_that_ranks_carried_out_is_the_one_that_is_checked(tried, old, new):
    """The notebook may still hold the function as it was before the file was changed."""
    hint = hint_of(lesson13.ex13_schedule, schedule(lambda p, r: p - r - 1),
                   tried("schedule", (old, new)))  # fmt: skip
    assert "✗ equal to the serial result" in hint or "✗ no error" in hint


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (..., "Replace the ..."),
        (7, "the function itself"),
        (lambda p, r, m: None, "fill in the gap"),
        (lambda p, r, m: ..., "fill in the gap"),
        (lambda p: [], "TypeError"),
        (lambda p, r, m: [("F", 0)] * 2 * m, 'a step is ("forward", 0)'),
        (lambda p, r, m: 1 / 0, "ZeroDivisionError"),
        (gpipe, "that is GPipe"),
        (schedule(lambda p, r: p - r), "one too long"),
        (schedule(lambda p, r: max(0, p - r - 2)), "too short"),
        (schedule(lambda p, r: 0), "No stage has a warm-up"),
        (schedule(lambda p, r: r), "grows towards the last stage"),
        (schedule(lambda p, r: p - 1), "as long on every stage"),
        (last_in_first_out, "comes back first"),
        (without_the_end, "The last ones are missing"),
        (beyond_the_last, "never full"),
        (without_end, "gives more than 24 steps"),
        (lambda p, r, m: [(phase, n + 1) for phase, n in schedule(lambda p, r: p - r - 1)(p, r, m)],
         "counted from 1"),
        (lambda p, r, m: gpipe(p, r, m) if r == 0 else schedule(lambda p, r: p - r - 1)(p, r, m),
         "which is GPipe"),
        (lambda p, r, m: [one for one in schedule(lambda p, r: p - r - 1)(p, r, m)
                          if one != ("backward", 4)], "Missing: 4"),
        (lambda stage, micro_batches, stages: schedule(lambda p, r: p - r)(
            stages, stage, micro_batches), "one too long"),
        (lambda p, r, m: [("backward", n) for n in range(m)] + [("forward", n) for n in range(m)],
         "stands before its forward"),
    ],
)  # fmt: skip
def test_a_wrong_schedule_is_told_its_mistake(workspace, function, words):
    assert words in hint_of(steps_are_right, function)


def steps_are_right(function):
    with Checklist("13.5") as check:
        steps.are_right(check, function)


FIRST_LINE = "    ahead = min(stages - stage - 1, micro_batches)\n"
NEVER_BACK = {
    "a loop that yields nothing": (
        (FIRST_LINE, FIRST_LINE + "    while micro_batches:\n        pass\n"),
        "stayed at line",
    ),
    "it prints without end": (
        (FIRST_LINE, FIRST_LINE + "    for n in range(10**6):\n        print('working', n)\n"),
        "printed more than 256 KiB",
    ),
    "it ends the program": (
        (FIRST_LINE, FIRST_LINE + "    raise SystemExit\n"),
        "ends the program",
    ),
    "another name": (("def one_f_one_b", "def schedule"), "It defines schedule"),
    "a group is asked": (
        (
            FIRST_LINE,
            "    import torch.distributed as dist\n    stage = dist.get_rank()\n" + FIRST_LINE,
        ),
        "stage and stages are given",
    ),
}


@pytest.mark.parametrize("name", NEVER_BACK)
def test_what_never_comes_back_is_not_called_in_the_notebook(tried, name):
    pair, words = NEVER_BACK[name]
    run = tried("schedule", pair)
    assert words in hint_of(lesson13.ex13_schedule, run.folder / "own.py", run)


def test_a_file_that_has_changed_since_is_to_be_tried_again(tried):
    run = tried("schedule")
    run.paths.program.mkdir()
    (run.paths.program / "own.py").write_text("before")
    hint = hint_of(lesson13.ex13_schedule, run.folder / "own.py", run)
    assert "It has changed since" in hint
    assert "There is none" in hint_of(lesson13.ex13_schedule, run.folder / "mine.py", run)
