# %% [markdown] id="title"
# # 02b Fifteen edits
#
# Lesson 02 wrote data parallelism from nothing. Mostly one has a script already, as one writes it alone: three data
# loaders, a mean loss, a line per epoch, the best model in a file. Fifteen small edits make of it one that runs on
# any number of devices. None is hard. But leave one out, and mostly the script trains on, prints figures that look right,
# and is wrong: that is why you will see what each of them does, and what comes of it where it is missing.
#
# | | |
# |---|---|
# | You will be able to | take a script for one device to many nodes; deal out samples so that each is seen once; say of a printed loss whose samples it stands for; write the commands that start it; tell by a run which of fifteen edits is missing |
# | Minutes | 35 |
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
    """The lines about epochs in a log, as a table."""
    found = LINE.findall(getattr(run, "text", ""))
    table = pd.DataFrame(found, columns=["epoch", "train_loss", "validation_loss"])
    kinds = {"epoch": int, "train_loss": float, "validation_loss": float}
    return table.astype(kinds).drop_duplicates()


# %% [markdown] id="alone-idea"
# ## The script, alone
#
# `code/train_summary.py` reads a function of Python's standard library and learns to say in a line what it does: the
# function is the source, the first line of its docstring the summary. So every compute node has the data. The model is a
# small transformer, an encoder that reads and a decoder that writes.

# %% id="alone-code"
lab.code("train_summary.py", "run")

# %% [markdown] id="alone-guess-idea"
# First on one device; then on four, as it stands. Unlike the script of lesson 02 it sets a seed.
#
# **Predict.** Four processes print a line for epoch 3. How many *different* lines are among the four?

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
last = [line[0] for line in re.finditer(r"epoch 3: .*", four.require().text)]
lines.compare(len(set(last)))
print("\n".join(last))
curves = {"one device": epochs(one), "four devices": epochs(four)}
show.lines(curves, x="epoch", y="train_loss")

# %% id="alone-claim" tags=["claim"]
claim("four copies with one seed print one line four times", len(set(last)) == 1)
claim("lines of epoch 3 in the log", len(last), least=4, most=4, unit="lines")

# %% [markdown] id="alone-explain"
# **Explain.** Equal seeds: equal weights, equal samples, equal losses. Four devices did the same work, and after each
# epoch that was better than those before, four processes wrote their model to one file at one time. At the end all four read it.
# (If the job failed there, one of them read what another was writing.) The curve does not show it. That the lines come four times
# does; with edit 11 alone, the print on one rank, nothing would.

# %% [markdown] id="deal-idea"
# ## Dealing out samples
#
# A `DistributedSampler` shuffles the numbers of all samples, by a seed that is the same on every rank, and deals them out
# like cards: rank *r* takes the *r*-th, the (*r* + *n*)-th, and so on. Nothing needs to be sent for that. Here are 32
# samples on four ranks.
#
# **Predict.** A program goes through three epochs, and tells the sampler the epoch's number only once, before the
# third. Of its 8 samples, how many does **rank 0** have in epoch 2 at the same place as in epoch 1?

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
again = predict("02b: samples of rank 0 at the same place in epoch 2", guess_again)
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
    "no sample goes to two ranks",
    len({number for rank in range(4) for number in dealt[rank, 1]}),
    least=32,
    most=32,
    unit="of 32 samples",
)
claim("without set_epoch, epoch 2 is epoch 1 again", dealt[0, 1] == dealt[0, 2])
claim("with it, the order is another", dealt[0, 2] != dealt[0, 3])

# %% [markdown] id="deal-explain"
# *The squares are the 32 samples, and the colour is the rank that has them: blue 0, orange 1, green 2, purple 3.*
#
# **Explain.** All 8. The order follows from seed and epoch, and the sampler cannot know that an epoch is over:
# `set_epoch` tells it. Without, every epoch has the same batches in the same order. Losses fall all the same, so nobody
# notices.
#
# Two small things. Where the ranks do not divide the samples, a few are dealt out twice, so that all ranks have equally
# many (`drop_last=True` leaves some out instead); a mean over a test set is then slightly off. Here all divides. And the mean
# of the ranks' means is the mean over all samples only since all batches here are equally large. Lesson 10 has the
# other case.

# %% [markdown] id="program-idea"
# ## Twelve edits
#
# Below is the script, as it stands. What is to change is marked with the number of the edit:
#
# | | edit | where it is missing |
# |---|---|---|
# | 1 | process group | nobody knows of the others |
# | 2 | device by the local rank | two ranks on one device, one idle |
# | 3 | `DistributedDataParallel` | a model on each rank |
# | 4, 5, 6 | three samplers | every rank sees all samples |
# | 7 | batch over the ranks | fewer, larger steps |
# | 8 | `set_epoch` | the same order in each epoch |
# | 9, 10 | mean loss in `train`, in `test` | rank 0's samples speak for all |
# | 11 | print on rank 0 | every line four times |
# | 12 | save on rank 0, the others wait | a file of pieces |
#
# > **Exercise 02b.1** — Make the edits, one after the other. The trial runs your program on four ranks, and follows what
# > it does: which samples each rank takes, what it prints and saves, when they meet. Then it runs the first epoch once more, on two. The check names the
# > first edit that is missing or wrong, and what came of it. Submit as often as you like.
#
# Three hints. `32` is the batch of a *step*, over all ranks. A loader that has a sampler takes no `shuffle`. And the
# wrapped model has the plain one as `model.module`: save that, or nobody can load it without DDP.
#
# In the trial the validation losses of epochs 2 and 3 are moved: over all ranks epoch 2 is best, by rank 0's own samples epoch 3. So it
# shows which model is in the file, and who tests with it.


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
did = [[json.loads(line) for line in file.open()] for file in files]  # what each rank did
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
# The mean of the loss is summed on *every* rank, though one prints it: a collective under `if rank == 0:` waits for the
# others until a time-out ends it. And all ranks need the validation loss, since each decides by it whether this model is
# the best. Were it their own, they would not agree. The barrier makes all wait until rank 0 has written: without it a rank may read half a
# file, on some disks, on some days.

# %% [markdown] id="job-idea"
# ## Three more, for the job
#
# The program asks its environment who it is. Somebody has to say it: on each node a launcher, which has met the others.
# So the job changes in three places.
#
# ![Two launchers have arrived at the meeting point on node1, which counts 2 of 3; a third was never started.](../images/rendezvous.svg)
#
# *Lesson 02's figure: they meet at one address and port, and count themselves.*
#
# 13. **Devices.** The job asks for nodes and for devices on each; torchrun starts a process for each device.
# 14. **Where to meet.** The first node's address and a port. A node has several networks. At some sites (Jülich's, for one) a
#    node's name on the fast one has an `i` behind it: `jwb0001i`. So: the first name of the job's list, that suffix, and
#    of the result the *address*, a number, about which no two nodes can differ. The port follows from the job's number:
#    another job on this node takes another.
# 15. **The launchers.** `srun` starts one on each node. `--rdzv-backend=c10d` lets them count themselves, `--rdzv-id` tells
#    them from another job's, `--rdzv-endpoint` says where, and `--rdzv-conf=is_host=…` who opens the place: 1 on the first
#    node (`SLURM_NODEID` is 0), 0 on the others. Left out, each launcher compares the address with its own names. Where
#    the fast network has other names, none of them recognises itself.
#
# **Predict.** Some commands print where they meet. What will stand there?

# %% id="job-guess"
### BEGIN SOLUTION
### GAP guess_place = ...  # "a name", "127.0.0.1" or "another address"
guess_place = "a name"
### END SOLUTION

# %% [markdown] id="job-exercise"
# > **Exercise 02b.2** — Fill in the gaps. `$SUFFIX` is your site's (on the box there is none), `$START` and `$PROGRAM` are what
# > each process is to run. The check runs your commands once more, in an empty folder and with stand-ins for `getent`, `scontrol`, `srun` and
# > `torchrun`: as jobs of other numbers, also where nodes have a second name with an `i`. It looks at what each node's torchrun is called with.

# %% id="job-commands" tags=["exercise"]
commands = r"""
first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | sed -n 1p)
### BEGIN SOLUTION
### GAP MASTER_ADDR=... # 14: the address of $first with its suffix: the first word of getent's line
MASTER_ADDR=$(getent hosts "$first$SUFFIX" | awk 'NR == 1 {print $1}')
### END SOLUTION
### BEGIN SOLUTION
### GAP MASTER_PORT=... # 14: from 10000 on, by $SLURM_JOB_ID
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
    "02b: where the launchers meet",
    guess_place,
    choices=("a name", "127.0.0.1", "another address"),
)
environment = {
    "SUFFIX": lab.site.host_suffix,
    "START": f"{lab.site.programs}/run_own.py",
    "PROGRAM": f"{lab.work}/summary_ddp.py",
    "TORCH_CPP_LOG_LEVEL": "ERROR",  # it warns of hosts whose addresses have no names
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
# **Explain.** An address, and not that of the loopback: on the box, node1 has one on the network between the nodes. (Where
# the box runs in flat mode, all nodes are one machine, and 127.0.0.1 is right.) Write `localhost` there, and each
# launcher waits at its own door. `lab.script(…)` has written the same three edits for you in all other lessons; look at it
# again. It hands on the first node's *name*, and `is_host` only at sites whose fast network has other names: elsewhere
# torchrun finds out by itself.

# %% [markdown] id="nodes-idea"
# ## One node, two nodes: one number
#
# Your program says nowhere how many ranks there are. So here it runs on one node with two devices, and on two nodes.
#
# **Predict.** Both print a train loss for each epoch. How large is the difference in epoch 3?

# %% id="nodes-guess"
### BEGIN SOLUTION
### GAP guess_apart = ...  # such as 0.1
guess_apart = 0.1
### END SOLUTION

# %% id="nodes-run"
apart = predict("02b: train loss of epoch 3, two ranks against four", guess_apart)
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
claim("two ranks and four print the same loss", abs(large - small), most=0.001)

# %% [markdown] id="nodes-explain"
# **Explain.** Not *about* the same: the same, but for rounding. The sampler deals out one shuffled row. With two ranks a
# step takes 16 cards to each, with four 8 to each: the same 32 samples, whose mean gradient is the same. (The one device
# shuffles by itself, so its curve is only near.) That is worth more than speed: a run on one node tells whether
# the one on a hundred is right. It holds as long as the batch of a *step* stays. With more and more devices each of them
# has less and less to do, and at some point one wants the batch to grow: lesson 12.

# %% [markdown] id="home"
# ## To take home
#
# - A missing edit seldom stops a program. Look at what ranks *do*: which samples, how many lines, whose mean.
# - Same seed, same order, dealt out like cards; `set_epoch` before each epoch.
# - Collectives on every rank; printing and saving on one; a barrier before others read.
# - One address, a number, on the fast network; a port by the job's number; one host.
# - A program that never says how many ranks there are goes from one node to two by one number.

# %% [markdown] id="clean-idea"
# ## Cleaning up
#
# The trial and your job stay, so that their checks can be run again.

# %% id="clean"
lab.clean(one, four, deal, *by_nodes.values(), yes=True)
