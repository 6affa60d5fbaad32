"""Lesson 16b: a program that SIGTERM stops on real ranks, and that continues bit for bit."""

from __future__ import annotations

import pytest

from course_lib.teach.checks import lesson16b

from .finished_runs import hint_of, tried_with_swaps
from .own_trials import program_of

OWN = program_of("16b_keep_going", "resume-own")
tried = tried_with_swaps(OWN, "resume")
LOADS = OWN[OWN.index("    came = []") : OWN.index("    for step in")]
SAVES = OWN[OWN.index("        votes =") :]
ONE_FILE = """    global stopping
    stopping = False

    def stop(*_):
        global stopping
        stopping = True

    signal.signal(signal.SIGTERM, stop)
    file, first = os.path.join(str(folder), "all.pt"), 0
    if os.path.exists(file):
        model_state, adam_state, random, first = torch.load(file, weights_only=False)
        model.load_state_dict(model_state), adam.load_state_dict(adam_state)
        torch.random.set_rng_state(random[rank])
"""
FROM_RANK_0 = """        told = [None] * size
        dist.all_gather_object(told, (stopping, torch.get_rng_state()))
        if any(one for one, _ in told):
            if rank == 0:
                random = [state for _, state in told]
                torch.save((model.state_dict(), adam.state_dict(), random, step + 1), file)
            dist.barrier()
            raise SystemExit(0)
"""
BY_PICKLE = """    came = torch.zeros(1)
    signal.signal(signal.SIGTERM, lambda *_: came.fill_(1))
    place = Path(folder, f"{rank}-of-{size}")
    first = 0
    for kept in sorted(place.glob("*.pkl"), key=lambda one: int(one.stem))[-1:]:
        weights, (moments, random) = pickle.loads(kept.read_bytes())
        with torch.no_grad():
            for mine, one in zip(model.parameters(), weights):
                mine.copy_(one)
        adam.load_state_dict(moments)
        torch.set_rng_state(random)
        first = int(kept.stem)
"""
IN_EVERY_STEP = """        place.mkdir(exist_ok=True)
        state = list(model.parameters()), (adam.state_dict(), torch.get_rng_state())
        (place / f"{step + 1}.pkl").write_bytes(pickle.dumps(state))
        vote = came.clone()
        dist.all_reduce(vote, dist.ReduceOp.MAX)
        if vote.item():
            break
"""
BY_THE_HANDLER = """    first, came, file = 0, {}, Path(folder) / f"{rank}.pt"
    signal.signal(signal.SIGTERM, lambda *_: came.update(now=1))
    parts = {"model": model, "adam": adam}
    try:
        saved = torch.load(file)
    except FileNotFoundError:
        pass
    else:
        for name, part in parts.items():
            part.load_state_dict(saved[name])
        torch.default_generator.set_state(saved["random"])
        first = 1 + saved["last"]
"""
AT_THE_END = """        told = torch.tensor([float(bool(came))])
        dist.all_reduce(told, op=dist.ReduceOp.MAX)
        if told > 0:
            random = torch.default_generator.get_state()
            state = {name: part.state_dict() for name, part in parts.items()}
            torch.save({**state, "last": step, "random": random}, file)
            break
"""
IMPORTS = ("import signal\n", "import os\nimport pickle\nimport signal\n")


@pytest.mark.parametrize(
    "pairs",
    [
        [], [IMPORTS, (LOADS, ONE_FILE), (SAVES, FROM_RANK_0)],
        [IMPORTS, (LOADS, BY_PICKLE), (SAVES, IN_EVERY_STEP)],
        [(LOADS, BY_THE_HANDLER), (SAVES, AT_THE_END)],
    ],
    ids=["solution", "one file", "every step", "parts"],
)  # fmt: skip
def test_programs_that_come_back_pass(tried, capsys, pairs):
    lesson16b.ex16b_resume(tried(*pairs))
    assert "equal to the undisturbed run, to the last bit" in capsys.readouterr().out


HANDLER = "lambda number, frame: came.append(number)"
SAVE_AND_EXIT = """    def save(*_):
        torch.save({"finished": step + 1, "random": torch.get_rng_state(),
                    "model": model.state_dict(), "adam": adam.state_dict()}, file)
        raise SystemExit

    signal.signal(signal.SIGTERM, save)
"""
WRONG = {
    "no handler": ([(f"    signal.signal(signal.SIGTERM, {HANDLER})\n", "")], "Register a handler"),
    "in the middle": ([(f"    signal.signal(signal.SIGTERM, {HANDLER})\n", SAVE_AND_EXIT)],
                      "should only set a flag"),
    "never looked at": ([("votes > 0", "step == steps - 1")], "Look at it on all ranks"),
    "no vote": ([("        dist.all_reduce(votes)\n", "")], "let all ranks vote"),
    "not loaded": ([("file.exists()", "False")], "began with step 0"),
    "a step twice": ([('"finished": step + 1', '"finished": step')], "number of finished steps"),
    "no random state": ([('        torch.set_rng_state(saved["random"])\n', "")],
                        "its own torch.get_rng_state()"),
    "random state of rank 0": (
        [("torch.get_rng_state()}", "random}"),
         ("            state = {", "            random = torch.get_rng_state()\n"
          "            dist.broadcast(random, 0)\n            state = {")],
        "its own torch.get_rng_state()"),
    "no weights": ([('        model.load_state_dict(saved["model"])\n', "")],
                   "Are the weights loaded?"),
    "no moments": ([('        adam.load_state_dict(saved["adam"])\n', "")],
                   "the update of a weight also depend on"),
    "of the course": ([("import torch\n", "import torch\nimport checkpoints.checkpoint\n")],
                      "uses checkpoints.checkpoint."),
}  # fmt: skip


@pytest.mark.many(3)
@pytest.mark.parametrize("name", WRONG)
def test_a_program_that_does_not_is_told_its_mistake(tried, name):
    pairs, words = WRONG[name]
    assert words in hint_of(lesson16b.ex16b_resume, tried(*pairs))
