"""Lesson 02b: each missing or wrong edit of the twelve is named with its consequence."""

from __future__ import annotations

import pytest

from course_lib.publish.building.gaps import with_gaps
from course_lib.teach.checks import lesson02b

from .finished_runs import hint_of
from .own_trials import program_of, swapped

LESSON = "02b_fifteen_edits"
RIGHT = program_of(LESSON, "program-file")
ALONE = program_of(LESSON, "program-file", with_gaps)


@pytest.fixture
def tried(tried):
    """The run that this program leaves behind as a trial."""
    return lambda text: tried(text, "edits")


ON_0 = "        if rank == 0:\n            torch.save("
PRINTS = "    if rank == 0:\n        print(line"
SUM, DIVIDED = "    dist.all_reduce(mean)\n", "return mean.item() / dist.get_world_size()"
AVERAGE = "return average.item() / dist.get_world_size()"
INIT = 'dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")\n'
DDP = "model = DistributedDataParallel(model)\n"
SET_EPOCH = "    train_sampler.set_epoch(epoch)\n"
LOADS = "model.module.load_state_dict("
BACK = "        loss.backward()\n"
BY_HAND = """        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
"""
SAVES = ON_0 + "model.module.state_dict(), FILE)\n"
LAST = "if rank == 0:\n    torch.save(model.module.state_dict(), FILE)\n"
TO_RANK_0 = ("    dist.all_reduce(average)\n", "    dist.reduce(average, 0)\n")
BY_LOCAL = 'DistributedSampler(data["train"], 2, int(os.environ["LOCAL_RANK"]))'
WRONG = {
    "1 left out": ([(INIT, "")], "Edit 1: init_process_group was not called"),
    "2 left out": ([('int(os.environ["LOCAL_RANK"])', "0")], "Edit 2: rank 1 computes on device 0"),
    "3 left out": ([(DDP, ""), ("model.module.", "model.")], "Edit 3: the model is not in"),
    "3 you call the model inside": (
        [("train(model, train_", "train(model.module, train_")], "you call the model inside",
    ),
    "4 left out": (
        [("sampler=train_sampler", "shuffle=True"), (SET_EPOCH, ""),
         ('train_sampler = DistributedSampler(data["train"])\n', "")],
        "Edit 4: every rank goes through the same 384 samples",
    ),
    "4 by the local rank": (
        [('DistributedSampler(data["train"])', BY_LOCAL)], "ranks 0 and 2 saw the same samples",
    ),
    "5 left out": ([(", sampler=validation_sampler", "")], "Edit 5: every rank goes through"),
    "6 left out": ([(", sampler=test_sampler", "")], "Edit 6: every rank goes through"),
    "7 left out": (
        [("BATCH // size, sampler=train", "BATCH, sampler=train")], "a step sees 128",
    ),
    "7 the rate grows": ([("lr=2e-3", "lr=2e-3 * size")], "rate was 0.002 and is now 0.008"),
    "8 left out": ([(SET_EPOCH, "")], "Edit 8: rank 0 got its 96 samples in epoch 2"),
    "9 left out": ([(SUM, ""), (DIVIDED, "return mean.item()")], "rank 0's own samples"),
    "10 left out": (
        [("    dist.all_reduce(average)\n", ""), (AVERAGE, "return average.item()")],
        "Edit 10: the validation loss of epoch 1",
    ),
    "11 left out": ([(PRINTS, "    if True:\n        print(line")], "printed 4 times"),
    "12 left out": ([(ON_0, ON_0.replace("rank == 0", "True"))], "It is enough if rank 0 saves"),
    "12 wrapped": ([("model.module.", "model.")], "begin with `module.`"),
    "12 loaded into the wrapped one": (
        [(LOADS, "model.load_state_dict(")], "model.module.load_state_dict(…)",
    ),
    "12 nobody waits": ([("dist.barrier()\n", "")], "dist.barrier() before loading"),
    "3 the loss is averaged too": (
        [(BACK, "        dist.all_reduce(loss)\n        loss /= 4\n" + BACK)],
        "0.25 times the mean over 4 ranks",
    ),
    "4 four replicas": (
        [('DistributedSampler(data["train"])', 'DistributedSampler(data["train"], 4, rank)')],
        "On 2 ranks, edit 4: 192 of 384 samples were seen by no rank",
    ),
    "10 the own loss decides": (
        [(AVERAGE, AVERAGE + ", total / len(loader)"),
         ("    validation_loss = test", "    validation_loss, own = test"),
         ("if validation_loss < best", "if own < best"),
         ("best = validation_loss", "best = own"), ("test_loss = test", "test_loss, _ = test")],
        "Rank 0's own losses are",
    ),
    "12 one rank loads": (
        [(LOADS, "rank or " + LOADS)],
        "ranks 1, 2, 3 test with weights that differ",
    ),
    "12 nobody loads": ([(LOADS, "str(")], "ranks 0, 1, 2, 3 test with weights that differ"),
    "12 the last one": (
        [(SAVES, "        pass\n"), ("dist.barrier()\n", LAST + "dist.barrier()\n")],
        "the model of epoch 3 is in the file, but the best model is the model of epoch 2",
    ),
    "another mistake": ([("loss.backward()", "loss.backwards()")], "no attribute 'backwards'"),
    "no program": ([("best = float", "best = = float")], "SyntaxError"),
}  # fmt: skip


def test_all_edits_made_pass(tried, capsys):
    lesson02b.ex02b_program(tried(RIGHT))
    assert "✓ 12 one rank saves, and the others wait for it" in capsys.readouterr().out


def test_the_script_as_it_stands_lacks_the_first(tried):
    assert "Edit 1: init_process_group was not called" in hint_of(
        lesson02b.ex02b_program, tried(ALONE)
    )


SUBSET = (
    'DataLoader(torch.utils.data.Subset(data["validation"], range(rank, 96, size)), BATCH // size)'
)
OTHER_FORMS = {
    "reduced to rank 0": [(SUM, "    dist.reduce(mean, 0)\n")],
    "dealt by hand": [
        ('DataLoader(data["validation"], BATCH // size, sampler=validation_sampler)', SUBSET),
    ],
    "rank 0 alone knows the best": [TO_RANK_0],
    "a barrier after each save": [
        ("dist.barrier()\n", ""), (SAVES, SAVES + "        dist.barrier()\n"),
    ],
    "a message in place of the barrier": [
        ("dist.barrier()\n", "token = torch.zeros(1)\nfor other in range(1, size):\n"
         "    if rank == 0:\n        dist.send(token, other)\n"
         "    elif rank == other:\n        dist.recv(token, 0)\n"),
    ],
    "gradients by hand": [
        (DDP, ""), ("model.module.", "model."),
        (BACK, BACK + BY_HAND + "            parameter.grad /= dist.get_world_size()\n"),
    ],
    "the best is kept, and saved at the end": [
        (SAVES, "        kept = {n: p.clone() for n, p in model.module.state_dict().items()}\n"),
        ("dist.barrier()\n", LAST.replace("model.module.state_dict()", "kept")
         + "dist.barrier()\n"),
    ],
    "rank 0 loads, and hands on": [
        ("dist.barrier()\n", ""), (LOADS, "rank or " + LOADS),
        ("test_loss = test", "for value in model.module.state_dict().values():\n"
         "    dist.broadcast(value, 0)\ntest_loss = test"),
    ],
}  # fmt: skip


def in_main(text):
    head, begin, body = text.partition(INIT)
    lines = "".join(f"    {line}\n" for line in (begin + body).splitlines())
    return f"{head}def main():\n{lines}\n\nmain()\n"


@pytest.mark.many(3)
@pytest.mark.parametrize("time", range(6))
def test_a_program_whose_names_end_with_its_function_comes_to_its_end(tried, time):
    lesson02b.ex02b_program(tried(in_main(RIGHT)))


@pytest.mark.many(3)
@pytest.mark.parametrize("name", OTHER_FORMS)
def test_edits_in_other_forms_pass(tried, name):
    lesson02b.ex02b_program(tried(swapped(RIGHT, *OTHER_FORMS[name])))


@pytest.mark.many(3)
@pytest.mark.parametrize("name", WRONG)
def test_an_edit_that_is_missing_or_wrong_is_named(tried, name):
    pairs, words = WRONG[name]
    assert words in hint_of(lesson02b.ex02b_program, tried(swapped(RIGHT, *pairs)))
