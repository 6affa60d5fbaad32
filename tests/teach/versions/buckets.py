"""Buckets of exercise 02.4 to try: the lesson's, other right ones, wrong ones with their hint."""

from __future__ import annotations

from ..own_trials import FUNCOL

PROGRAM = """
import torch
import torch.distributed as dist


class DDP(torch.nn.Module):
    MOST = 80  # numbers

    def __init__(self, model):
        super().__init__()
        self.model = model
        for tensor in model.state_dict().values():
            dist.broadcast(tensor, src=0)
        self.waiting, self.sent = [], []
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.register_post_accumulate_grad_hook(self.ready)

    def forward(self, *inputs):
        return self.model(*inputs)

    def ready(self, parameter):
        self.waiting.append(parameter)
        if sum(p.numel() for p in self.waiting) >= self.MOST:
            self.send()

    def send(self):
        flat = torch.cat([p.grad.flatten() for p in self.waiting]) / dist.get_world_size()
        self.sent.append((dist.all_reduce(flat, async_op=True), flat, self.waiting))
        self.waiting = []

    def finish(self):
        if self.waiting:
            self.send()
        for work, flat, parameters in self.sent:
            work.wait()
            for p, part in zip(parameters, flat.split([p.numel() for p in parameters])):
                p.grad.copy_(part.view_as(p))
        self.sent = []
"""

WORLD = "dist.group.WORLD"
ASYNC, WORK = "dist.all_reduce(flat, async_op=True)", "            work.wait()\n"
CLASS = "class DDP("
HOOKS = PROGRAM[
    PROGRAM.index("        for parameter in model.par") : PROGRAM.index("\n    def forward")
]
SENT = "\n        self.sent = []\n"
WAITED = "def waited_for(work):\n    work.wait()\n    return work\n\n\n"
ASKED = WAITED.replace("work.wait()", "while not work.is_completed(): pass")
THREAD_OF = """def thread_of(flat):
    import threading
    thread = threading.Thread(target=dist.all_reduce, args=(flat,))
    thread.start()
    return thread


"""
WRONG = {
    "all after backward": (
        [("if sum(p.numel() for p in self.waiting) >= self.MOST:", "if False:")],
        "All calls come after backward",
    ),
    "blocking": ([(ASYNC, "dist.all_reduce(flat)"), (WORK, "")], "async_op=True"),
    "one each": ([("MOST = 80", "MOST = 1")], "Every call costs its latency"),
    "the rest is not sent": (
        [("        if self.waiting:\n            self.send()\n", "")],
        "What is left is sent in finish()",
    ),
    "not copied back": ([("p.grad.copy_(part.view_as(p))", "pass")], "copy it back"),
    "other buckets": ([(">= self.MOST:", ">= self.MOST + 50 * dist.get_rank():")], "same order"),
    "waits at once": ([(ASYNC + ",", "waited_for(" + ASYNC + "),"), (CLASS, WAITED + CLASS)],
                      "waited for when 2 of 6 gradients were there"),
    "waits for the one before": (
        [("        self.sent.append", "        if self.sent:\n            self.sent[-1][0].wait()\n"
          "        self.sent.append")],
        "waited for when 4 of 6 gradients were there",
    ),
    "asks until it is through": (
        [(ASYNC + ",", "waited_for(" + ASYNC + "),"), (CLASS, ASKED + CLASS)],
        "gradients were there: backward stands still",
    ),
    "a future at once": (
        [(ASYNC + ",", "waited_for(" + ASYNC + ".get_future()),"), (CLASS, WAITED + CLASS)],
        "gradients were there: backward stands still",
    ),
    "the group's, at once": (
        [(ASYNC + ",", f"waited_for({WORLD}.allreduce([flat])),"), (CLASS, WAITED + CLASS)],
        "a call was begun, and waited for when",
    ),
    "functional, used at once": (
        [(ASYNC + ", flat", f"None, funcol.all_reduce(flat, 'sum', {WORLD}) + 0"), (WORK, ""),
         FUNCOL],
        "a call was begun, and waited for when",
    ),
    "no wait": ([(WORK, "")], "nobody waited for all_reduce(90 numbers)"),
    "the last alone": (
        [(WORK, ""),
         ("        for work, flat", "        self.sent[-1][0].wait()\n        for work, flat")],
        "nobody waited for all_reduce(90 numbers)",
    ),
    "sent grows": ([(SENT, "\n\n\n")], "Is a list never emptied?"),
    "hooks anew": (
        [(HOOKS, ""), ("        return self.model(", HOOKS.replace("in model", "in self.model") +
                       "        return self.model(")],
        "Are hooks registered anew in each forward?",
    ),
    "hooks twice": ([("(self.ready)\n", "(self.ready)\n" + HOOKS.splitlines(True)[-1])],
                    "sent more than once"),
    "no work": ([(ASYNC, "dist.all_reduce(flat)")],
                "without async_op=True a collective returns None"),
    "cleared": ([("        self.waiting = []\n\n", "        self.waiting.clear()\n\n")],
                "empties the very list that was kept"),
    "hook before": (
        [("register_post_accumulate_grad_hook(self.ready)",
          "register_hook(lambda grad, p=parameter: self.ready(p))")],
        "A hook by register_hook runs before the gradient",
    ),
    "hook called": ([("hook(self.ready)", "hook(self.ready(parameter))"), ("= 80", "= 1")],
                    "A hook is the function itself"),
    "all hooked": ([("if parameter.requires_grad:", "if True:")], "takes no hook"),
    "parameters counted": ([("sum(p.numel() for p in self.waiting)", "len(self.waiting)")],
                           "one of 243 numbers, so no bucket was full before"),
    "in the last hook": (
        [("if sum(p.numel() for p in self.waiting) >= self.MOST:", "if len(self.waiting) == 6:")],
        "The first call comes when all 6 gradients are there",
    ),
    "the other order": ([("in zip(parameters", "in zip(parameters[::-1]")],
                        "The parts lie in the bucket in the order"),
    "the last hook's parameter": (
        [("hook(self.ready)", "hook(lambda _: self.ready(parameter))")],
        "54 numbers were summed, and there are 243 gradients",
    ),
    "by threads": (
        [(ASYNC, "thread_of(flat)"), (WORK, "            work.join()\n"),
         (CLASS, THREAD_OF + CLASS)],
        ("Calls come from several threads", "in the same order"),
    ),
}  # fmt: skip
SCATTERED = """n = dist.get_world_size()
        flat = torch.nn.functional.pad(flat, (0, -len(flat) % n))
        mine = torch.empty(len(flat) // n, dtype=flat.dtype)
        work = dist.reduce_scatter_tensor(mine, flat, async_op=True)
        self.sent.append((work, mine, self.waiting))
"""
GATHERED = """            mine = flat
            flat = torch.empty(len(mine) * dist.get_world_size(), dtype=mine.dtype)
            dist.all_gather_into_tensor(flat, mine)
            flat = flat[: sum(p.numel() for p in parameters)]
"""
APPENDS = f"self.sent.append(({ASYNC}, flat, self.waiting))\n"
RIGHT = {
    "async by its place": [(ASYNC, "dist.all_reduce(flat, dist.ReduceOp.SUM, None, True)")],
    "reduce_scatter and all_gather": [(APPENDS, SCATTERED), (WORK, WORK + GATHERED)],
    "functional": [
        (ASYNC + ", flat", f"None, funcol.all_reduce(flat, 'sum', {WORLD})"),
        (WORK, "            flat = funcol.wait_tensor(flat)\n"),
        FUNCOL,
    ],
    "a future": [(ASYNC, ASYNC + ".get_future()")],
    "of the group": [(ASYNC, f"{WORLD}.allreduce([flat])")],
    "asks in finish": [(WORK, "            while not work.is_completed(): pass\n")],
    "a list": [(ASYNC, "dist.all_reduce_coalesced([flat], async_op=True)")],
}  # fmt: skip
