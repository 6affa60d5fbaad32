# %% [markdown] id="title"
# # 02b Fifteen edits
#
# In lesson 02 you wrote data parallelism from scratch. Usually you already have a script for one device. The script of
# this lesson has three data loaders, prints a mean loss per epoch, and saves the best model in a file. Fifteen small
# edits make it run on any number of devices. If an edit is missing, the script usually continues to train and prints
# plausible but wrong numbers.
#
# | | |
# |---|---|
# | You will be able to | take a script for one device to many nodes; give each sample to one rank; say which samples a printed loss covers; write the commands that start the script; find out from a run which edit is missing |
# | Minutes | 55 |
# | Devices | 2 nodes with 2 devices each |
# | Before | lesson 02 |

# %% id="begin"
import json
import re

import pandas as pd

from course_lib import Lab, check, claim, predict, program, shell, show, trial

lab = Lab()
LINE = re.compile(r"epoch (\d+): train loss ([\d.]+), validation loss ([\d.]+)")


def epochs(run):
    """Table of the lines about epochs in the log of a run."""
    found = LINE.findall(getattr(run, "text", ""))
    table = pd.DataFrame(found, columns=["epoch", "train_loss", "validation_loss"])
    kinds = {"epoch": int, "train_loss": float, "validation_loss": float}
    return table.astype(kinds).drop_duplicates()


# %% [markdown] id="alone-idea"
# ## The script for one device
#
# `code/train_summary.py` learns to describe a function of Python's standard library in one line. The input is
# the function's source, and the target is the first line of its docstring. Every compute node has this data,
# because it comes with Python. The model is a small transformer.

# %% id="alone-code"
lab.code("train_summary.py", "run")

# %% [markdown] id="alone-guess-idea"
# Run the script without any change, first on one device and then on four. Unlike the script of lesson 02, it sets a
# seed.
#
# **Predict.** Each of four processes prints a line for epoch 3. How many of the four lines are *different*?

# %% id="alone-guess"
### BEGIN SOLUTION
### GAP guess_lines = ...  # your number in place of the dots
guess_lines = 4
### END SOLUTION

# %% id="alone-run"
lines = predict("02b: different lines of epoch 3 from four copies", guess_lines)
one = lab.submit(program.recipe("summary-one", "train_summary.py"))
four = lab.submit(program.recipe("summary-four", "train_summary.py", nodes=2, gpus_per_node=2))
one.watch()
four.watch()

# %% id="alone-see"
# Four processes write into one log, so a line may follow another without a break.
last = re.findall(r"epoch 3: train loss [\d.]+, validation loss [\d.]+", four.require().text)
lines.compare(len(set(last)))
print("\n".join(last))
curves = {"one device": epochs(one), "four devices": epochs(four)}
show.lines(curves, x="epoch", y="train_loss")

# %% id="alone-claim" tags=["claim"]
claim("different lines of epoch 3 from four copies", len(set(last)), least=1, most=1, unit="lines")
claim("lines of epoch 3 in the log", len(last), least=4, most=4, unit="lines")

# %% [markdown] id="alone-explain"
# **Explain.** Equal seeds give equal weights, equal samples and equal losses, so four devices did the same work.
# After every epoch with a new best loss, four processes wrote their model to the same file at the same time. The file
# is intact only because each process writes a temporary file first and then renames it.
#
# The curve does not show this mistake. Only the four equal lines show it. If you let only one rank print and change
# nothing else, even these lines disappear.

# %% [markdown] id="deal-idea"
# ## Distribute the samples with a sampler
#
# A `DistributedSampler` shuffles the indices of all samples and distributes them in turn. With *n* ranks, rank *r*
# takes the entries *r*, *r* + *n*, and so on of the shuffled list. The order depends only on the epoch number and on
# a seed that all ranks share, so the ranks exchange nothing. The epoch number is 0 until a program sets it with
# `set_epoch`.
#
# **Predict.** Four ranks share 32 samples. A program goes through three epochs, but calls `set_epoch` only before the
# third. Rank 0 takes 8 samples per epoch. How many of these 8 are at the same position in epoch 2 as in epoch 1?

# %% id="deal-guess"
### BEGIN SOLUTION
### GAP guess_again = ...  # a number from 0 to 8
guess_again = 2
### END SOLUTION

# %% id="deal-file"
# %%writefile "{lab.work}/deal.py"
import torch.distributed as dist
from torch.utils.data import DistributedSampler

dist.init_process_group("gloo")
sampler = DistributedSampler(range(32))
for epoch in (1, 2, 3):
    if epoch == 3:
        sampler.set_epoch(epoch)
    print(f"rank {dist.get_rank()}, epoch {epoch}: {list(sampler)}", flush=True)

# %% id="deal-run"
again = predict("02b: samples of rank 0 at the same position in epoch 2", guess_again)
deal = lab.submit(program.recipe("deal", "work/deal.py", nodes=2, gpus_per_node=2))
deal.watch()

# %% id="deal-see"
dealt = {
    (int(rank), int(epoch)): [int(number) for number in row.split(", ")]
    for rank, epoch, row in re.findall(
        r"^rank (\d), epoch (\d): \[(.*)\]", deal.require().text, re.MULTILINE
    )
}
again.compare(sum(a == b for a, b in zip(dealt[0, 1], dealt[0, 2], strict=True)))
show.ranks({f"epoch {epoch}": [dealt[rank, epoch] for rank in range(4)] for epoch in (1, 2, 3)})

# %% id="deal-claim" tags=["claim"]
claim(
    "different samples that the four ranks take",
    len({number for rank in range(4) for number in dealt[rank, 1]}),
    least=32,
    most=32,
    unit="of 32 samples",
)
same = {
    epoch: sum(a == b for a, b in zip(dealt[0, epoch - 1], dealt[0, epoch], strict=True))
    for epoch in (2, 3)
}
claim("without set_epoch, samples of rank 0 at the same position", same[2], least=8, most=8)
claim("with set_epoch, samples of rank 0 at the same position", same[3], most=2)

# %% [markdown] id="deal-explain"
# *The squares are the 32 samples. The colour is the rank that takes a sample: blue 0, orange 1, green 2, purple
# 3.*
#
# **Explain.** All 8 are at the same position. The sampler does not notice that an epoch is over, so without
# `set_epoch` every epoch has the same batches in the same order. The losses still fall.
#
# If the number of samples is not a multiple of the number of ranks, the sampler distributes a few samples twice, so
# that all ranks have the same number. A mean over a test set is then slightly wrong. With `drop_last=True` the sampler
# leaves some samples out instead. The mean of the ranks' means equals the mean over all samples only if no sample
# counts twice and all batches are equally large. Both conditions hold here.

# %% [markdown] id="program-idea"
# ## Twelve edits to the program
#
# The next cell contains the script for one device. Numbered comments mark what to change:
#
# | | edit | without it |
# |---|---|---|
# | 1 | process group | no rank knows the other ranks |
# | 2 | device by the local rank | two ranks share a device, and one device is idle |
# | 3 | `DistributedDataParallel` | every rank trains its own model |
# | 4, 5, 6 | three samplers | every rank sees all samples |
# | 7 | batch divided by the ranks | fewer, larger steps |
# | 8 | `set_epoch` | the same order in each epoch |
# | 9, 10 | mean loss in `train`, in `test` | the loss covers rank 0's samples only |
# | 11 | print on rank 0 | every line four times |
# | 12 | save on rank 0, the others wait | a damaged file |
#
# > **Exercise 02b.1** — Make the edits, one after the other. The trial runs your program on four ranks. It records
# > which samples each rank takes, what each rank prints and saves, and where the ranks wait for each other. Then it
# > runs the first epoch again on two ranks. The check names the first edit that is missing or wrong, and its
# > consequence. Submit as often as you like.
#
# Three hints may help. The `32` is the batch of a *step*, over all ranks. Do not give `shuffle` to a loader that has
# a sampler. The wrapped model contains the plain model as `model.module`; save the plain model, so that it can be
# loaded without DDP.
#
# The trial changes the validation losses, so that epoch 2 is best over all ranks and epoch 3 is best over rank 0's
# own samples. The saved model then shows whether your validation loss covers all ranks.

# %% id="program-file" tags=["exercise"]
# %%writefile "{lab.work}/summary_ddp.py"
import os
from pathlib import Path

import torch
import torch.distributed as dist
from summary.device import device_of
from summary.model import Summariser, loss_of
from summary.pairs import read_pairs
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler

EPOCHS, BATCH = 3, 32
FILE = Path(os.environ.get("COURSE_RUN_DIR", "."), "best.pt")


def train(model, loader, optimizer, device):
    model.train()
    total = 0.0
    for source, summary in loader:
        loss = loss_of(model, source.to(device), summary.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
    ### BEGIN SOLUTION
    ### GAP return total / len(loader)  # 9: over all ranks
    mean = torch.tensor(total / len(loader), device=device)
    dist.all_reduce(mean)
    return mean.item() / dist.get_world_size()
    ### END SOLUTION


@torch.no_grad()
def test(model, loader, device):
    model.eval()
    total = 0.0
    for source, summary in loader:
        total += loss_of(model, source.to(device), summary.to(device)).item()
    ### BEGIN SOLUTION
    ### GAP return total / len(loader)  # 10: over all ranks
    average = torch.tensor(total / len(loader), device=device)
    dist.all_reduce(average)
    return average.item() / dist.get_world_size()
    ### END SOLUTION


### BEGIN SOLUTION
### GAP # 1: meet the others; who am I, and among how many?
dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
rank, size = dist.get_rank(), dist.get_world_size()
### END SOLUTION
### BEGIN SOLUTION
### GAP device = device_of(0)  # 2: which of this node's devices?
device = device_of(int(os.environ["LOCAL_RANK"]))
### END SOLUTION
torch.manual_seed(0)
data = read_pairs()
model = Summariser().to(device)
### BEGIN SOLUTION
### GAP # 3: wrap the model
model = DistributedDataParallel(model)
### END SOLUTION
### BEGIN SOLUTION
### GAP # 4, 5, 6: a sampler for each of data["train"], data["validation"], data["test"]
train_sampler = DistributedSampler(data["train"])
validation_sampler = DistributedSampler(data["validation"], shuffle=False)
test_sampler = DistributedSampler(data["test"], shuffle=False)
### END SOLUTION
### BEGIN SOLUTION
### GAP train_loader = DataLoader(data["train"], BATCH, shuffle=True)  # 7: these samplers, this batch
### GAP validation_loader = DataLoader(data["validation"], BATCH)
### GAP test_loader = DataLoader(data["test"], BATCH)
train_loader = DataLoader(data["train"], BATCH // size, sampler=train_sampler)
validation_loader = DataLoader(data["validation"], BATCH // size, sampler=validation_sampler)
test_loader = DataLoader(data["test"], BATCH // size, sampler=test_sampler)
### END SOLUTION
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
best = float("inf")
for epoch in range(1, EPOCHS + 1):
    ### BEGIN SOLUTION
    ### GAP # 8: another order in each epoch
    train_sampler.set_epoch(epoch)
    ### END SOLUTION
    train_loss = train(model, train_loader, optimizer, device)
    validation_loss = test(model, validation_loader, device)
    line = f"epoch {epoch}: train loss {train_loss:.4f}, validation loss {validation_loss:.4f}"
    ### BEGIN SOLUTION
    ### GAP print(line, flush=True)  # 11: once
    if rank == 0:
        print(line, flush=True)
    ### END SOLUTION
    if validation_loss < best:
        best = validation_loss
        ### BEGIN SOLUTION
        ### GAP torch.save(model.state_dict(), FILE)  # 12: once, and the plain model
        if rank == 0:
            torch.save(model.module.state_dict(), FILE)
        ### END SOLUTION
### BEGIN SOLUTION
### GAP model.load_state_dict(torch.load(FILE, map_location=device))  # 12: when is the file there?
dist.barrier()
model.module.load_state_dict(torch.load(FILE, map_location=device))
### END SOLUTION
test_loss = test(model, test_loader, device)
### BEGIN SOLUTION
### GAP print(f"test loss {test_loss:.4f}", flush=True)  # 11 again
if rank == 0:
    print(f"test loss {test_loss:.4f}", flush=True)
dist.destroy_process_group()
### END SOLUTION

# %% id="program-run" tags=["exercise"]
edited = lab.submit(trial.recipe("summary-edits", "work/summary_ddp.py", "edits"))
edited.watch()

# %% id="program-see" tags=["exercise"]
files = sorted(edited.paths.verdict.glob("rank*.jsonl"))
did = [[json.loads(line) for line in file.open()] for file in files]  # steps of each rank
took = [
    next((step["order"] for step in steps if step.get("part") == "train" and "order" in step), [])
    for steps in did
]
first = [[number for number in range(32) if number in numbers] for numbers in took]
are_dealt = sum(map(len, first)) == len(set().union(*first)) == 32
print("samples that each rank took in epoch 1:", *map(len, took))
print("of them samples 0 to 31, which the picture shows:", *map(len, first))
show.ranks({"training samples 0 to 31, by rank": first}) if are_dealt else None

# %% id="program-check" tags=["check"]
check.ex02b_program(edited)

# %% [markdown] id="program-why" tags=["solution"]
# The loss is averaged on *every* rank, although only one rank prints it. A collective under `if rank == 0:` would wait
# for the other ranks until a time-out ends it. All ranks also need the same validation loss, because each rank uses it
# to decide whether this model is the best. With different losses, the ranks could disagree.
#
# The barrier makes all ranks wait until rank 0 has written the file. Without the barrier, a rank may sometimes read
# half a file.

# %% [markdown] id="job-idea"
# ## Three edits to the job
#
# The program reads its rank from its environment. A launcher on each node sets this environment after all launchers
# have met. Three edits make the job start these launchers.
#
# ![Two launchers have arrived at the meeting point on node1, which counts 2 of 3. A third launcher was never started.](../images/rendezvous.svg)
#
# *The figure from lesson 02: launchers meet at one address and port, and wait until all have joined.*
#
# 13. **Devices.** The job asks for nodes, and for devices on each node. torchrun starts a process for each
#     device.
# 14. **Rendezvous.** The launchers meet at an address and a port of the first node, the meeting point. A node has
#     several networks, and at some sites its name on the fast network has a suffix. At the Jülich Supercomputing
#     Centre the suffix is `i`, as in `jwb0001i`. Take the first node name of the job, add the suffix, and look up its
#     *address*, which is the same on every node. Compute the port from the job's number, so that two jobs on one node
#     use different ports. A busy cluster starts thousands of jobs a day, and each may run for days. So two jobs whose
#     numbers differ by at most 10,000 must never share a port.
# 15. **Launchers.** `srun` starts one launcher on each node. With `--rdzv-backend=c10d` the launchers wait until all
#     have joined. `--rdzv-id` keeps two jobs apart, and `--rdzv-endpoint` is the meeting point. The launcher on the
#     first node, whose `SLURM_NODEID` is 0, opens the meeting point and gets `--rdzv-conf=is_host=1`. The others get
#     `is_host=0`. Without `is_host`, each launcher compares the address with the names of its node. If the names on
#     the fast network are different, no launcher opens the meeting point.
#
# **Predict.** The commands below print the meeting point. Will it be a name, the address 127.0.0.1 or another
# address? At 127.0.0.1 a machine reaches only itself.

# %% id="job-guess"
### BEGIN SOLUTION
### GAP guess_place = ...  # "a name", "127.0.0.1" or "another address"
guess_place = "a name"
### END SOLUTION

# %% [markdown] id="job-exercise"
# > **Exercise 02b.2** — Fill in the gaps. `$SUFFIX` is your site's suffix, and is empty on the box. Each process has
# > to run `$START` with `$PROGRAM`. The check runs your commands once more, in an empty folder and with stand-ins for
# > `getent`, `scontrol`, `srun` and `torchrun`. It tries hundreds of job numbers, and nodes with a second name that
# > ends in `i`. Then it looks at the arguments of torchrun on each node.

# %% id="job-commands" tags=["exercise"]
commands = r"""
first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | sed -n 1p)
### BEGIN SOLUTION
### GAP MASTER_ADDR=... # 14: the address of $first with its suffix: the first word of getent's line
MASTER_ADDR=$(getent hosts "$first$SUFFIX" | awk 'NR == 1 {print $1}')
### END SOLUTION
### BEGIN SOLUTION
### GAP MASTER_PORT=... # 14: 10000 or more, from $SLURM_JOB_ID
MASTER_PORT=$((10000 + SLURM_JOB_ID % 20000))
### END SOLUTION
export MASTER_ADDR MASTER_PORT OMP_NUM_THREADS=1
echo "meeting at $MASTER_ADDR:$MASTER_PORT"
srun bash -c 'torchrun --max-restarts=0 \
    ### BEGIN SOLUTION
    ### GAP --nnodes=... --nproc-per-node=... \
    --nnodes=2 --nproc-per-node=2 \
    ### END SOLUTION
    ### BEGIN SOLUTION
    ### GAP --rdzv-backend=c10d --rdzv-id=... --rdzv-endpoint=... --rdzv-conf=is_host=... \
    --rdzv-backend=c10d --rdzv-id="$SLURM_JOB_ID" \
    --rdzv-endpoint="$MASTER_ADDR:$MASTER_PORT" --rdzv-conf=is_host=$((SLURM_NODEID == 0)) \
    ### END SOLUTION
    "$START" "$PROGRAM"'
"""
### BEGIN SOLUTION
### GAP nodes, devices_per_node = 1, 1  # 13
nodes, devices_per_node = 2, 2
### END SOLUTION

# %% id="job-run" tags=["exercise"]
place = predict(
    "02b: what the commands print as the meeting point",
    guess_place,
    choices=("a name", "127.0.0.1", "another address"),
)
environment = {
    "SUFFIX": lab.site.host_suffix,
    "START": f"{lab.site.programs}/run_own.py",
    "PROGRAM": f"{lab.work}/summary_ddp.py",
    "TORCH_CPP_LOG_LEVEL": "ERROR",  # no warnings about addresses without names
}
own_job = lab.submit(
    shell.recipe(
        "summary-job",
        commands,
        nodes=nodes,
        gpus_per_node=devices_per_node,
        environment=environment,
    )
)
own_job.watch()

# %% id="job-see"
met = re.search(r"^meeting at (\S*):\d+", getattr(own_job, "text", ""), re.MULTILINE)
if met:
    number = re.fullmatch(r"[\d.]+|[\da-f:]+", met[1])
    loopback = met[1].startswith("127.")
    place.compare("127.0.0.1" if loopback else "another address" if number else "a name")
print(met[0] if met else "the commands have not run yet")

# %% id="job-check" tags=["check"]
check.ex02b_script(own_job)

# %% [markdown] id="job-explain"
# **Explain.** The launchers meet at an address of node1 on the network between the nodes. The address 127.0.0.1 is
# right only in flat mode, because there all nodes are one machine. With `localhost` on real nodes, each launcher
# would wait on its own node.
#
# `lab.script(…)` writes these three edits for you in all other lessons.

# %% [markdown] id="nodes-idea"
# ## Run the same program on one node and on two
#
# Your program contains no number of ranks. The next cell runs it with two ranks on one node, and with four ranks on
# two nodes. Both runs shuffle the samples in the same order, and each step takes 32 samples.
#
# **Predict.** Both runs print a train loss for each epoch. How large is their difference in epoch 3?

# %% id="nodes-guess"
### BEGIN SOLUTION
### GAP guess_apart = ...  # such as 0.1
guess_apart = 0.1
### END SOLUTION

# %% id="nodes-run"
apart = predict("02b: difference of the train losses of epoch 3, two ranks and four", guess_apart)
by_nodes = {
    nodes: lab.submit(
        program.recipe(f"summary-{nodes}", "work/summary_ddp.py", nodes=nodes, gpus_per_node=2)
    )
    for nodes in (1, 2)
}
for run in by_nodes.values():
    run.watch()

# %% id="nodes-see"
curves = {f"{nodes} × 2 devices": epochs(run) for nodes, run in by_nodes.items()}
small, large = (table["train_loss"].iloc[-1] for table in curves.values())
apart.compare(abs(large - small))
show.lines(curves, {"one device": epochs(one)}, x="epoch", y="train_loss")

# %% id="nodes-claim" tags=["claim"]
claim("difference of the losses of two ranks and of four", abs(large - small), most=0.001)

# %% [markdown] id="nodes-explain"
# **Explain.** The losses are the same, up to rounding. A step gives 16 samples to each of two ranks, or 8 samples to
# each of four. In both runs these are the same 32 samples, with the same mean gradient. The script for one device
# shuffles in its own order, so its curve is only similar.
#
# You can therefore use a run on one node to check a run on a hundred nodes, as long as the batch of a *step* stays the
# same. With more devices, each device has less to do, so at some point the batch should grow (lesson 12).

# %% [markdown] id="home"
# ## To take home
#
# - A missing edit seldom stops a program. Check which samples each rank takes, how many lines are printed, and which
#   samples a mean covers.
# - All ranks shuffle in the same order, and each takes its own samples. Call `set_epoch` before each epoch.
# - Call collectives on every rank. Print and save on one rank, with a barrier before the others read.
# - Launchers meet at one address on the fast network, with a port from the job's number. One launcher is the
#   host.
# - A program that contains no number of ranks runs on any number of nodes.

# %% [markdown] id="clean-idea"
# ## Cleaning up
#
# The trial and your job stay, so that you can run their checks again.

# %% id="clean"
lab.clean(one, four, deal, *by_nodes.values(), yes=True)
