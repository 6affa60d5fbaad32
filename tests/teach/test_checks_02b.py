"""Lesson 02b: each of the fifteen edits left out, or made wrong, is named with what comes of it."""

from __future__ import annotations

import pytest

from course_lib.lab.job.recipes import shell
from course_lib.teach.building.gaps import answered, with_gaps
from course_lib.teach.checks import lesson02b

from .finished_runs import hint_of
from .own_trials import cell_of, program_of, swapped

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
}  # fmt: skip


@pytest.mark.many(2)
@pytest.mark.parametrize("name", OTHER_FORMS)
def test_edits_in_other_forms_pass(tried, name):
    lesson02b.ex02b_program(tried(swapped(RIGHT, *OTHER_FORMS[name])))


@pytest.mark.many(5)
@pytest.mark.parametrize("name", WRONG)
def test_an_edit_that_is_missing_or_wrong_is_named(tried, name):
    pairs, words = WRONG[name]
    assert words in hint_of(lesson02b.ex02b_program, tried(swapped(RIGHT, *pairs)))


def commands_of(text):
    known = {}
    exec(answered(text, ""), known)
    return known["commands"]


COMMANDS = commands_of(cell_of(LESSON, "job-commands"))
LOG = "meeting at 10.77.0.1:10042\nepoch 1: train loss 5.1, validation loss 4.2\n"
WRONG_JOBS = {
    "13 one node": ({"nodes": 1}, [], LOG, "the job asks for 1 node "),
    "13 no device": ({"gpus_per_node": 0}, [], LOG, "asks for no device"),
    "13 one device": ({"gpus_per_node": 1}, [], LOG, "torchrun starts 2 processes there"),
    "13 one process": ({}, [("node=2", "node=1")], LOG, "2 devices are paid for"),
    "13 no number": ({}, [("--nproc-per-node=2", "")], LOG, "which is 1"),
    "13 one launcher": ({}, [("--nnodes=2", "--nnodes=1")], LOG, "do not wait for each other"),
    "14 localhost": (
        {}, [("MASTER_ADDR=$(", "MASTER_ADDR=localhost #$(")], LOG, "waits at its own door",
    ),
    "14 a fixed port": (
        {}, [("$((10000 + SLURM_JOB_ID % 20000))", "29500")], LOG, "the port is always the same",
    ),
    "14 no suffix": ({}, [("$SUFFIX", "")], LOG, "$SUFFIX is left out"),
    "14 a name": ({}, [], LOG.replace("10.77.0.1", "node1i"), "node1i is a name"),
    "14 nothing": ({}, [], LOG.replace("10.77.0.1", ""), "are to be set before"),
    "15 no srun": ({}, [("srun bash", "bash")], LOG, "the first node alone has a launcher"),
    "15 no backend": ({}, [("--rdzv-backend=c10d", "")], LOG, "--rdzv-backend is not given"),
    "15 no id": ({}, [('--rdzv-id="$SLURM_JOB_ID"', "")], LOG, "--rdzv-id is to tell"),
    "15 no end": (
        {}, [('--rdzv-endpoint="$MASTER_ADDR:$MASTER_PORT"', "")], LOG, "--rdzv-endpoint is not",
    ),
    "15 no host": (
        {}, [("--rdzv-conf=is_host=$((SLURM_NODEID == 0))", "")], LOG, "does not say is_host",
    ),
    "15 host nowhere": ({}, [("$((SLURM_NODEID == 0))", "0")], LOG, "nobody opens"),
    "two models": ({}, [], LOG + LOG, "Epoch 1 is told 2 times"),
}  # fmt: skip


def job(finished, *pairs, log=LOG, **asked):
    given = {"nodes": 2, "gpus_per_node": 2, "environment": {"SUFFIX": "i"}} | asked
    return finished(shell.recipe("own", swapped(COMMANDS, *pairs), **given), log)


def test_a_job_with_the_last_three_passes(finished, capsys):
    lesson02b.ex02b_script(job(finished))
    underscores = [("--rdzv-id=", "--rdzv_id "), ("--rdzv-conf=", "--rdzv_conf=")]
    lesson02b.ex02b_script(job(finished, *underscores, ("--nnodes=2", '--nnodes="$SLURM_NNODES"')))
    assert "✓ one model was trained: each epoch is told once" in capsys.readouterr().out


@pytest.mark.parametrize("name", WRONG_JOBS)
def test_a_wrong_line_of_the_job_is_named(finished, name):
    asked, pairs, log, words = WRONG_JOBS[name]
    assert words in hint_of(lesson02b.ex02b_script, job(finished, *pairs, log=log, **asked))
