"""Lesson 05: the bottleneck drawn for a workspace is cured on real ranks. A cure at a different
place does not count."""

from __future__ import annotations

import hashlib
import itertools

import pytest

from course_lib.lab.job.recipes import trial
from course_lib.lab.lab import Lab
from course_lib.teach.checks import lesson05

from .finished_runs import Finished, hint_of
from .own_trials import on_four_ranks, program_of, swapped

PLACES = ("reading", "asking", "messages", "dealing")
FUNCTIONS = dict(zip(PLACES, ("batches", "check_gradients", "add_up", "share"), strict=True))
OWN = program_of("05_profiling", "ex2-own")  # naive, with the cures beside


def function(text, name):
    """Return the lines of a function in a program."""
    begin = text.index(f"def {name}(")
    return text[begin : text.index("\n\n\n", begin)]


def other(name, text):
    """Return the swap that puts this text in place of a naive function."""
    return function(OWN, name), text


def cured(*places):
    """Return the swaps that replace the naive functions by the solution's cures."""
    names = [FUNCTIONS[place] for place in places]
    return [other(name, function(OWN, f"cured_{name}").replace("cured_", "")) for name in names]


@pytest.fixture
def tried(tmp_path, monkeypatch):
    """The trial of a program in a workspace for which this place was drawn."""

    def make(place, pairs):
        for number in itertools.count():
            folder = tmp_path / f"learner-{number}"
            drawn = hashlib.sha256(str(folder.resolve()).encode()).digest()[0] % len(PLACES)
            if PLACES[drawn] == place:
                break
        monkeypatch.setenv("COURSE_WORKSPACE", str(folder))
        monkeypatch.setenv("COURSE_BOX_HOME", str(tmp_path / "box"))
        finished = Finished(folder / "elsewhere", Lab(folder, site="box", quiet=True))
        run = finished(trial.recipe("own", "work/own.py", "cure"), "", exit_code=None)
        on_four_ranks(run.folder, swapped(OWN, *pairs), "cure")
        (run.folder / "exit_code").write_text("0\n")
        return finished.lab.open(run.folder)

    return make


POOL = """def batches(task):
    def read(step):
        return torch.cat([task.read(step, number) for number in share(task.lengths[step])])

    with ThreadPoolExecutor(1) as pool:
        coming = pool.submit(read, 0)
        for step in range(len(task.lengths)):
            batch = coming.result()
            if step + 1 < len(task.lengths):
                coming = pool.submit(read, step + 1)
            yield batch"""
WITH_POOL = ("import queue\n", "import queue\nfrom concurrent.futures import ThreadPoolExecutor\n")
IN_PLACE = """def add_up(model):
    grads = torch.nn.utils.parameters_to_vector([one.grad for one in model.parameters()])
    work = dist.all_reduce(grads, async_op=True)
    work.wait()
    at = 0
    for one in model.parameters():
        one.grad = grads[at : at + one.numel()].view_as(one)
        at += one.numel()"""
GREEDY = """def share(lengths):
    loads, mine = [0] * dist.get_world_size(), []
    for number in sorted(range(len(lengths)), key=lengths.__getitem__, reverse=True):
        rank = loads.index(min(loads))
        loads[rank] += lengths[number]
        if rank == dist.get_rank():
            mine.append(number)
    return mine"""
BY_PARAMETER = """def check_gradients(model):
    for parameter in model.parameters():
        if not parameter.grad.isfinite().all():
            raise FloatingPointError"""
RIGHT = {
    **{place: (place, cured(place)) for place in PLACES},
    "a pool": ("reading", [other("batches", POOL), WITH_POOL]),
    "one row": ("messages", [other("add_up", IN_PLACE)]),
    "the emptiest rank": ("dealing", [other("share", GREEDY)]),
    "a value for each parameter": ("asking", [other("check_gradients", BY_PARAMETER)]),
}


@pytest.mark.parametrize("name", RIGHT)
def test_a_program_without_its_bottleneck_passes(tried, capsys, name):
    run = tried(*RIGHT[name])
    lesson05.ex05_cure(run)
    lesson05.ex05_place(RIGHT[name][0], run)
    assert "✓ the slow function is cured" in capsys.readouterr().out


FIRST = ("in enumerate(batches(task))", "in enumerate([*batches(task)])")
AT_ONCE = """def batches(task):
    with ThreadPoolExecutor(3) as pool:
        for step in range(len(task.lengths)):
            reads = [pool.submit(task.read, step, one) for one in share(task.lengths[step])]
            yield torch.cat([one.result() for one in reads])"""
LOADER = """def batches(task):
    steps = [[task.read(step, one) for one in share(lengths)]
             for step, lengths in enumerate(task.lengths)]
    yield from torch.utils.data.DataLoader(steps, batch_size=None, collate_fn=torch.cat)"""
PIECES = function(OWN, "check_gradients").replace(
    "in parameter.grad:", "in parameter.grad.split(100):"
)
ONE_BY_ONE = """def check_gradients(model):
    total = 0
    for parameter in model.parameters():
        for row in parameter.grad:
            total = total + row.sum()
    if not math.isfinite(total.item()):
        raise FloatingPointError"""
BUCKETS = """def add_up(model):
    gradients = [one.grad for one in model.parameters()]
    for begin in range(0, len(gradients), 8):
        bucket = gradients[begin : begin + 8]
        row = torch.cat([one.flatten() for one in bucket])
        dist.all_reduce(row)
        for one, piece in zip(bucket, row.split([one.numel() for one in bucket])):
            one.copy_(piece.view_as(one))"""
COPIED, SENT = "        gradient.copy_(piece.view_as(gradient))", "    dist.all_reduce(row)\n"
MINE = "longest[dist.get_rank() :: dist.get_world_size()]"
BACKWARDS = function(OWN, "share").replace(
    "get_rank(), ", "get_world_size() - 1 - dist.get_rank(), "
)
SUM = "torch.stack(sums).sum()"
WRONG = {
    "nothing": ("reading", [], "no bottleneck is cured"),
    "messages, not dealing": ("dealing", cured("messages"),
                              "you cured messages, which costs little time here"),
    "all others": ("messages", cured("reading", "asking", "dealing"),
                   "you cured reading and asking and dealing"),
    "all cures": ("asking", cured(*PLACES), "you cured reading and messages and dealing"),
    "one more": ("dealing", cured("dealing", "messages"), "you cured messages, which costs"),
    "all first": ("reading", [FIRST], "are read before the first step"),
    "a thread for the step itself": ("reading", [other("batches", AT_ONCE), WITH_POOL],
                                     "steps computed while the next step was read"),
    "torch's loader": ("reading", [other("batches", LOADER)],
                       "uses torch.utils.data.DataLoader."),
    "in pieces": ("asking", [other("check_gradients", PIECES)], "without a loop over rows"),
    "row by row": ("asking", [other("check_gradients", ONE_BY_ONE)],
                   "without a loop over rows"),
    "no check": ("asking", [("        check_gradients(task.model)\n", "")],
                 "no FloatingPointError ends"),
    "a check of one gradient": ("asking", [*cured("asking"), (SUM, "sums[0]")],
                                "the gradient of up.0.bias is infinite"),
    "buckets": ("messages", [other("add_up", BUCKETS)], "8 messages are sent"),
    "not copied back": ("messages", [*cured("messages"), (COPIED, COPIED.replace(".copy_", " = "))],
                        "copied back to their parameters"),
    "averaged": ("messages",
                 [*cured("messages"), (SENT, SENT + "    row /= dist.get_world_size()\n")],
                 "without a division"),
    "blocks backwards": ("dealing", [other("share", BACKWARDS)], "a rank gets 19800 tokens"),
    "a sample left out": ("dealing", [*cured("dealing"), (MINE, MINE + "[:-1]")],
                          "samples are not read"),
    "everything for all": ("dealing", [*cured("dealing"), (MINE, "longest")],
                           "are read twice or more"),
    "the last step": ("reading",
                      [*cured("reading"), ("    for _ in shares:", "    for _ in shares[1:]:")],
                      "only 4 of 5 steps ran"),
}  # fmt: skip


@pytest.mark.many(3)
@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_cure_is_told_its_mistake(tried, name):
    place, pairs, words = WRONG[name]
    assert words in hint_of(lesson05.ex05_cure, tried(place, pairs))


def test_another_place_is_told_what_its_trace_would_show(tried):
    run = tried("asking", [])
    assert "some ranks compute while the other ranks wait" in hint_of(
        lesson05.ex05_place, "dealing", run
    )
    assert "The places are reading, asking" in hint_of(lesson05.ex05_place, "disk", run)
    assert "place is filled in" in hint_of(lesson05.ex05_place, ..., run)
