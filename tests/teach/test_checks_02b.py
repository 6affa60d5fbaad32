"""Lesson 02b: each of the twelve edits left out, or made wrong, is named with what comes of it."""

from __future__ import annotations

import pytest

from course_lib.teach.building.gaps import with_gaps
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
    "2 by the rank": ([('int(os.environ["LOCAL_RANK"])', "rank")], "counted on each anew"),
    "3 left out": ([(DDP, ""), ("model.module.", "model.")], "Edit 3: the model is not in"),
    "3 left out alone": ([(DDP, "")], "Edit 3: the model is not in"),
    "3 the model within": (
        [("train(model, train_", "train(model.module, train_")], "the model within",
    ),
    "4 left out": (
        [("sampler=train_sampler", "shuffle=True"), (SET_EPOCH, ""),
         ('train_sampler = DistributedSampler(data["train"])\n', "")],
        "Edit 4: every rank goes through the same 384 samples",
    ),
    "4 not used": ([("sampler=train_sampler", "shuffle=True")], "but the loader has another"),
    "4 by the local rank": (
        [('DistributedSampler(data["train"])', BY_LOCAL)], "ranks 0 and 2 saw the same samples",
    ),
    "4 not shuffled": (
        [('DistributedSampler(data["train"])', 'DistributedSampler(data["train"], shuffle=False)')],
        "not shuffled",
    ),
    "5 left out": ([(", sampler=validation_sampler", "")], "Edit 5: every rank goes through"),
    "5 the sampler of the others": (
        [("sampler=validation_sampler", "sampler=train_sampler")], "✗  5 each validates on its own",
    ),
    "6 left out": ([(", sampler=test_sampler", "")], "Edit 6: every rank goes through"),
    "7 left out": (
        [("BATCH // size, sampler=train", "BATCH, sampler=train")], "a step sees 128",
    ),
    "7 by the node": ([("BATCH // size, sampler=train", "BATCH // 2, sampler=train")], "64 a step"),
    "7 both": (
        [("sampler=train_sampler", "sampler=train_sampler, shuffle=True")], "that one shuffles",
    ),
    "8 left out": ([(SET_EPOCH, "")], "Edit 8: rank 0 got its 96 samples in epoch 2"),
    "8 the same": ([("set_epoch(epoch)", "set_epoch(0)")], "Edit 8: rank 0 got"),
    "9 left out": ([(SUM, ""), (DIVIDED, "return mean.item()")], "rank 0's own samples"),
    "9 the sum": ([(DIVIDED, "return mean.item()")], "that is the sum over 4 ranks"),
    "9 divided alone": ([(SUM, "")], "without the others'"),
    "9 on one rank": (
        [(SUM, "    if dist.get_rank() == 0:\n        dist.all_reduce(mean)\n")],
        "behind `if rank == 0:`",
    ),
    "10 left out": (
        [("    dist.all_reduce(average)\n", ""), (AVERAGE, "return average.item()")],
        "Edit 10: the validation loss of epoch 1",
    ),
    "10 twice": (
        [(AVERAGE, AVERAGE.replace("get_world_size()", "get_world_size() ** 2"))], "once too often",
    ),
    "11 left out": ([(PRINTS, "    if True:\n        print(line")], "printed 4 times"),
    "11 by the local rank": (
        [(PRINTS, PRINTS.replace("rank == 0", 'os.environ["LOCAL_RANK"] == "0"'))],
        "the first of each node",
    ),
    "12 left out": ([(ON_0, ON_0.replace("rank == 0", "True"))], "write the same file"),
    "12 wrapped": ([("model.module.", "model.")], "begin with `module.`"),
    "12 loaded into the wrapped one": (
        [(LOADS, "model.load_state_dict(")], "model.module.load_state_dict(…)",
    ),
    "12 nobody waits": ([("dist.barrier()\n", "")], "dist.barrier() before loading"),
    "12 nobody waits, and finds an empty file": (
        [("dist.barrier()\n", 'if rank:\n    open(FILE, "wb").close()\n')],
        "dist.barrier() before loading",
    ),
    "12 nobody saves": ([(ON_0, ON_0.replace("rank == 0", "False")), (LOADS, "str(")], "Edit 12:"),
    "1 ended too early": (
        [("test_loss = test(", "dist.destroy_process_group()\ntest_loss = test(")],
        "after destroy_process_group",
    ),
    "3 another model is trained": (
        [("Adam(model.parameters()", "Adam(Summariser().parameters()")], "of another one?",
    ),
    "3 the loss is averaged too": (
        [(BACK, "        dist.all_reduce(loss)\n        loss /= 4\n" + BACK)],
        "1/4 of the mean over 4 ranks",
    ),
    "3 the sum": ([(DDP, ""), ("model.module.", "model."), (BACK, BACK + BY_HAND)], "the sum."),
    "4 four replicas": (
        [('DistributedSampler(data["train"])', 'DistributedSampler(data["train"], 4, rank)')],
        "On 2 ranks, edit 4: 192 of 384 samples were seen by no rank",
    ),
    "4 the data of others": (
        [("train(model, train_loader", "train(model, validation_loader")],
        "Edit 4: no loader goes through data['train']",
    ),
    "7 a number": (
        [("BATCH // size, sampler=train", "8, sampler=train")], "On 2 ranks, edit 7: each rank",
    ),
    "9 a number": ([(DIVIDED, "return mean.item() / 4")], "On 2 ranks, edit 9: the train loss"),
    "10 a number": ([(AVERAGE, "return average.item() / 4")], "On 2 ranks, edit 10: the valid"),
    "10 the own loss decides": (
        [(AVERAGE, AVERAGE + ", total / len(loader)"),
         ("    validation_loss = test", "    validation_loss, own = test"),
         ("if validation_loss < best", "if own < best"),
         ("best = validation_loss", "best = own"), ("test_loss = test", "test_loss, _ = test")],
        "Rank 0's own are",
    ),
    "10 a barrier where rank 0 finds it best": (
        [TO_RANK_0, ("dist.barrier()\n", ""), (SAVES, SAVES + "        dist.barrier()\n")],
        "all ranks come to the same meetings",
    ),
    "11 the test loss by all": (
        [("if rank == 0:\n    print(f\"test", "if True:\n    print(f\"test")],
        "Edit 11: the test loss was printed 4 times",
    ),
    "11 twice, by all": (
        [(PRINTS, '    print(f"rank {rank}: {line}", flush=True)\n' + PRINTS)],
        "Edit 11: the train loss was printed 4 times",
    ),
    "12 the whole wrapped model": (
        [("model.module.state_dict(), FILE", "model, FILE"),
         (LOADS + "torch.load(FILE, map_location=device))",
          "model = torch.load(FILE, weights_only=False)")],
        "the whole wrapped model",
    ),
    "12 one rank loads": ([(LOADS, "rank or " + LOADS)], "ranks 1, 2, 3 test with other weights"),
    "12 nobody loads": ([(LOADS, "str(")], "the model that is tested is not the one in the file"),
    "12 the optimizer's state": (
        [("model.module.state_dict(), FILE", "optimizer.state_dict(), FILE"), (LOADS, "str(")],
        "It holds: state, param_groups",
    ),
    "12 the last one": (
        [(SAVES, "        pass\n"), ("dist.barrier()\n", LAST + "dist.barrier()\n")],
        "the model of epoch 3 is in the file, and the best was that of epoch 2",
    ),
    "12 a file of each rank": (
        [(ON_0, ON_0.replace("rank == 0", "True")), ("dict(), FILE", "dict(), f'{FILE}{rank}'"),
         ("torch.load(FILE", "torch.load(f'{FILE}{rank}'")],
        "write a file each",
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
    "a worker in the loader": [("sampler=train_sampler)", "sampler=train_sampler, num_workers=1)")],
    "averaged at once": [
        (SUM, "    values = [None] * dist.get_world_size()\n"
              "    dist.all_gather_object(values, mean.item())\n"),
        (DIVIDED, "return sum(values) / len(values)"),
    ],
    "dealt by hand": [
        ('DataLoader(data["validation"], BATCH // size, sampler=validation_sampler)', SUBSET),
    ],
    "more in the file": [
        ("torch.save(model.module.state_dict(), FILE)",
         'torch.save({"model": model.module.state_dict(), "epoch": epoch}, FILE)'),
        ("torch.load(FILE, map_location=device)", 'torch.load(FILE, map_location=device)["model"]'),
    ],
    "rank 0 alone knows the best": [TO_RANK_0],
    "another barrier": [("dist.barrier()", "dist.monitored_barrier()")],
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
    "the last one beside it": [
        (SAVES, SAVES + "    if rank == 0:\n"
         "        torch.save(optimizer.state_dict(), FILE.with_name('last.pt'))\n"),
    ],
    "rank 0 loads, and hands on": [
        ("dist.barrier()\n", ""), (LOADS, "rank or " + LOADS),
        ("test_loss = test", "for value in model.module.state_dict().values():\n"
         "    dist.broadcast(value, 0)\ntest_loss = test"),
    ],
    "rank 0 loads, and sends an object": [
        ("dist.barrier()", "box = [rank or torch.load(FILE)]\ndist.broadcast_object_list(box, 0)"),
        ("torch.load(FILE, map_location=device)", "box[0]"),
    ],
    "a model anew for the test": [
        (LOADS, "plain = Summariser().to(device)\nplain.load_state_dict("),
        ("test_loss = test(model", "test_loss = test(plain"),
    ],
    "gradients are clipped": [
        (BACK, BACK + "        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)\n"),
    ],
}  # fmt: skip


def in_main(text):
    head, begin, body = text.partition(INIT)
    lines = "".join(f"    {line}\n" for line in (begin + body).splitlines())
    return f"{head}def main():\n{lines}\n\nmain()\n"


@pytest.mark.many(2)
@pytest.mark.parametrize("time", range(6))
def test_a_program_whose_names_end_with_its_function_comes_to_its_end(tried, time):
    lesson02b.ex02b_program(tried(in_main(RIGHT)))


@pytest.mark.many(4)
@pytest.mark.parametrize("name", OTHER_FORMS)
def test_edits_in_other_forms_pass(tried, name):
    lesson02b.ex02b_program(tried(swapped(RIGHT, *OTHER_FORMS[name])))


@pytest.mark.many(5)
@pytest.mark.parametrize("name", WRONG)
def test_an_edit_that_is_missing_or_wrong_is_named(tried, name):
    pairs, words = WRONG[name]
    assert words in hint_of(lesson02b.ex02b_program, tried(swapped(RIGHT, *pairs)))
