# %% [markdown] id="title"
# # 02 Many processes
#
# You have a script that trains on one device, and a cluster that lends you four. Ask for four, start the
# script, and it runs: four times over, four models, each as slow as before. Nothing crashes, and nothing says so.
# In this lesson you make it *one* model. You write the two pieces that every large training rests on, a ring
# that adds numbers up over all devices, and data parallelism in fifteen lines, and real devices try them.
#
# | | |
# |---|---|
# | You will be able to | bring a script from a desk to a node; see at once whether four devices train one model or four; say rank, local rank and world size of any process; write an all-reduce with sends and receives; write data parallelism, and hide its messages behind the backward pass; read a rendezvous that fails |
# | Minutes | 45 |
# | Devices | 2 nodes with 2 devices each |
# | Before | lesson 00; you have trained a model with PyTorch on one device |

# %% id="begin"
import argparse as a_file_of_python
import re
import shutil

import pandas as pd

from course_lib import Lab, check, claim, predict, program, shell, show, trial

lab = Lab()
print(f"programs of your own go to {lab.work}")

# %% [markdown] id="alone-idea"
# ## From a desk to a node
#
# `code/train_letters.py` was written on somebody's desk. It guesses the next letter of a text; the text,
# 2,600 lines of Python, it fetches from the internet as its first act, as many scripts do with data, weights
# or a tokenizer. Here it goes to a node as it is.
#
# **Predict.** What will the job end with?

# %% id="alone-guess"
### BEGIN SOLUTION
### GAP guess_end = ...  # "it trains", "no memory" or "no network"
guess_end = "it trains"
### END SOLUTION

# %% id="alone-run"
end = predict(
    "02: the end of the first job", guess_end, choices=("it trains", "no memory", "no network")
)
first = lab.submit(program.recipe("letters-first", "train_letters.py", steps=5))
first.watch()

# %% id="alone-see"
no_network = not first.ok and "urlopen" in first.text
end.compare("no network" if no_network else "it trains" if first.ok else "something else")
print(first.tail(3) if first.ok else first.failure)

# %% [markdown] id="alone-explain"
# **Explain.** On your desk, the machine that you type on is the machine that computes. On a cluster it is not. You
# type on a *login node*, which has the internet. *Compute nodes* mostly have none: nobody wants ten thousand
# machines that each open connections to the world, and a job that waits for a slow download holds devices that
# others queue for. (The box's nodes have a network of their own with no way out. Where your first job trained,
# the box runs in flat mode, or your cluster is a generous one.)
#
# ![The internet, a login node and two compute nodes. An arrow leads from the internet to a file on the login node, and from there to a compute node; the way from the compute nodes to the internet is closed.](../images/login_and_compute.svg)
#
# The cure is always the same: **fetch before the job**, on the login node, into a folder that the nodes see
# too. Python brings a text that will do, so not even that needs the internet here:

# %% id="text"
text = lab.work / "letters.txt"
shutil.copy(a_file_of_python.__file__, text)
one = lab.submit(program.recipe("letters-one", "train_letters.py", text=str(text), steps=30))
one.watch()
print(one.tail(2))

# %% [markdown] id="copies-idea"
# ## Four devices, four copies
#
# Now ask for four devices. Nothing else changes: one process is started for each, all run the same script.
#
# **Predict.** Each process prints its losses. What will the four curves be?

# %% id="copies-guess"
### BEGIN SOLUTION
### GAP guess_curves = ...  # "one curve", "four equal ones" or "four different ones"
guess_curves = "one curve"
### END SOLUTION

# %% id="copies-run"
curves = predict(
    "02: loss curves of one script on four devices",
    guess_curves,
    choices=("one curve", "four equal ones", "four different ones"),
)
four = lab.submit(
    program.recipe(
        "letters-four", "train_letters.py", nodes=2, gpus_per_node=2, text=str(text), steps=30
    )
)
four.watch()


# %% id="copies-see"
LINE = re.compile(r"^(\S+ process \d+): step (\d+), loss ([\d.]+), ([\d.]+) ms$", re.MULTILINE)


def steps(run):
    """What each process of a run printed: a table for each."""
    table = pd.DataFrame(
        LINE.findall(getattr(run, "text", "")), columns=["who", "iteration", "lm_loss", "ms"]
    ).astype({"iteration": int, "lm_loss": float, "ms": float})
    return dict(list(table.groupby("who")))


different = len({table["lm_loss"].iloc[-1] for table in steps(four).values()})
curves.compare({1: "one curve", 4: "four different ones"}.get(different, "four equal ones"))
show.loss(steps(four))

# %% id="copies-claim" tags=["claim"]
claim("four devices without a word between them train four models", different, least=4, most=4)

# %% [markdown] id="copies-explain"
# **Explain.** Each process drew its own first weights and its own samples, and none of them knows that it is not
# alone. You pay for four devices and get four models, each as far as one device alone would have come. At the
# end all four would save to the same file, and the last one would win. With a fixed seed it is even harder to see:
# then four *equal* models are trained on equal samples.
#
# What is missing are three things: who am I among how many; a way to talk; and something to say. The launcher,
# `torchrun`, answers the first. Each process finds in its environment
#
# - `RANK`, its number among all, from 0;
# - `WORLD_SIZE`, how many there are;
# - `LOCAL_RANK`, its number on this node: the number of its device.

# %% [markdown] id="talk-idea"
# ## A way to talk
#
# The second is a **process group**: `init_process_group` lets all processes find each other. (On GPUs the group
# talks through NCCL, on processors through gloo; the calls are the same.) From then on they can call
# **collectives**, in which all take part:
#
# - `broadcast`: one rank's numbers go to all;
# - `all_reduce`: everybody ends with the sum of all;
# - `all_gather`: everybody ends with the pieces of all;
# - `reduce_scatter`: rank *r* ends with piece *r* of the sum.
#
# The cell below writes a program of your own, `%%writefile` puts it into a file. A run takes a copy of it along:
# change the file, submit again, and the new one runs.

# %% id="talk-file"
# %%writefile "{lab.work}/talk.py"
import os

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
mine = torch.tensor([10 * rank + piece for piece in range(size)])  # rank 2 of 4: 20, 21, 22, 23
total, piece = mine.clone(), torch.zeros(1, dtype=mine.dtype)
dist.all_reduce(total)
dist.reduce_scatter_single(piece, mine)
place = f"rank {rank} of {size}, local rank {os.environ['LOCAL_RANK']} on {os.uname().nodename}"
print(f"{place}: all_reduce {total.tolist()}, reduce_scatter {piece.tolist()}", flush=True)
dist.destroy_process_group()

# %% [markdown] id="talk-guess-idea"
# **Predict.** On two nodes with two devices each, rank *r* holds 10 *r* + 0, 10 *r* + 1, 10 *r* + 2, 10 *r* + 3.
# What does **rank 2** hold after `reduce_scatter`? And which local rank has **rank 2**?

# %% id="talk-guess"
### BEGIN SOLUTION
### GAP guess_piece, guess_local = ..., ...  # two numbers
guess_piece, guess_local = 20, 2
### END SOLUTION

# %% id="talk-run"
piece = predict("02: rank 2 after reduce_scatter", guess_piece)
local = predict("02: local rank of rank 2 on 2 × 2 devices", guess_local)
talk = lab.submit(program.recipe("talk", "work/talk.py", nodes=2, gpus_per_node=2))
talk.watch()
print("\n".join(sorted(re.findall(r"^rank .*", talk.text, re.MULTILINE))))

# %% id="talk-see"
said = re.search(
    r"^rank 2 of 4, local rank (\d+) .*reduce_scatter \[(\d+)\]", talk.require().text, re.MULTILINE
)
piece.compare(int(said[2]))
local.compare(int(said[1]))
show.moving.collective("reduce-scatter", ranks=4)

# %% [markdown] id="talk-explain"
# **Explain.** 2 + 12 + 22 + 32 = 68: piece 2 of every rank, added up. And rank 2 is the *first* on the second
# node: its local rank is 0. A script that chooses its device by `RANK` instead of `LOCAL_RANK` asks that node
# for a device number 2, which it does not have.
#
# One node or two was one number of the recipe: `nodes=2`. The program does not know which of its partners live
# next door.

# %% [markdown] id="ex1" tags=["exercise"]
# > **Exercise 02.1** — A job runs on **8 nodes with 4 devices each**. On which node (counted from 0) is **rank
# > 22**, what is its **local rank**, and with what **world size**? Suppose that each rank holds **32 numbers**
# > and calls `reduce_scatter`: with **how many numbers** does it end?

# %% id="ex1-gap" tags=["exercise"]
### BEGIN SOLUTION
### GAP node, local_rank, world_size, numbers = ..., ..., ..., ...
node, local_rank, world_size, numbers = 22 // 4, 22 % 4, 8 * 4, 32 // 32
### END SOLUTION

# %% id="ex1-check" tags=["check"]
check.ex02_ranks(node, local_rank, world_size, numbers)

# %% [markdown] id="ring-idea"
# ## A ring, by you
#
# How does `all_reduce` do it? If everyone sent everything to everyone, each rank would send *n* − 1 times its
# numbers. The ring sends less than twice as much as there is, however many ranks there are. Cut the numbers into
# *n* pieces, and let every rank talk to its right neighbour only:

# %% id="ring-moves"
show.moving.collective("all-reduce", ranks=4)

# %% [markdown] id="ring-explain"
# In the first round (*n* − 1 steps) each rank passes on the piece that has just come in, with its own share
# added. Then every rank holds one finished piece, and in the second round the finished pieces go round. Each
# step sends 1/*n* of the numbers, and there are 2 (*n* − 1) of them:
#
# $$\text{sent by each rank} = \frac{2\,(n-1)}{n} \times \text{size}$$
#
# Two calls are enough: `isend(tensor, to)` begins to send and goes on at once; its `wait()` returns when the
# numbers may be changed again. `recv(tensor, from)` returns when they are there.
#
# > **Exercise 02.2** — Write the ring. The tensor may have any shape, and the ranks need not divide it. Change it
# > in place. What you write is then tried on 1, 2, 3 and 4 ranks, with numbers drawn anew each time, and compared
# > with the plain sum.

# %% id="ring-file" tags=["exercise"]
# %%writefile "{lab.work}/my_ring.py"
import torch
import torch.distributed as dist


def ring_all_reduce(tensor):
    rank, size = dist.get_rank(), dist.get_world_size()
    ### BEGIN SOLUTION
    ### GAP after, before = ...  # the ranks to send to and to receive from
    after, before = (rank + 1) % size, (rank - 1) % size
    ### END SOLUTION
    pieces = tensor.view(-1).tensor_split(size)  # views: what changes a piece changes the tensor
    for step in range(2 * (size - 1)):
        ### BEGIN SOLUTION
        ### GAP ...  # which piece goes, which comes? send one, receive the other, then add or replace
        going = pieces[(rank - step) % size]
        coming = pieces[(rank - step - 1) % size]
        arrived = torch.empty_like(coming)
        sending = dist.isend(going, after)
        dist.recv(arrived, before)
        sending.wait()
        if step < size - 1:
            coming += arrived
        else:
            coming.copy_(arrived)
        ### END SOLUTION


# %% id="ring-run" tags=["exercise"]
ring_trial = lab.submit(trial.recipe("ring-trial", "work/my_ring.py", "ring"))
ring_trial.watch()

# %% id="ring-check" tags=["check"]
check.ex02_ring(ring_trial)

# %% [markdown] id="ring-why" tags=["solution"]
# In step *s* rank *r* passes on piece *r* − *s*, and piece *r* − *s* − 1 comes in. With `send` in place of `isend`
# every rank would wait until its right neighbour receives, and that one waits as well: a circle that never
# ends. It is the oldest mistake of this trade. (Libraries that keep small messages in a buffer hide it until one is large.)

# %% [markdown] id="time-idea"
# ### What the formula is good for
#
# It says how time grows with the number of ranks, without a single measurement. The library's own `all_reduce` is a
# ring too. **Predict.** The same 8 MB, first on one device of each node, then on two. How many times as long
# does `all_reduce` over four ranks take as over two?

# %% id="time-guess"
### BEGIN SOLUTION
### GAP guess_times = ...  # your number in place of the dots
guess_times = 2
### END SOLUTION

# %% id="time-file"
# %%writefile "{lab.work}/time_ring.py"
import time

import torch
import torch.distributed as dist
from links.collectives import ring  # the course's own: compare it with yours

dist.init_process_group("gloo")
numbers, ranks = torch.zeros(2_000_000), range(dist.get_world_size())
for name, add_up in {
    "ring": lambda: ring(numbers, ranks),
    "all_reduce": lambda: dist.all_reduce(numbers),
}.items():
    for _ in range(8):
        dist.barrier()
        began = time.perf_counter()
        add_up()
        if dist.get_rank() == 0:
            print(f"{name} {1e3 * (time.perf_counter() - began):.1f} ms", flush=True)

# %% id="time-run"
times = predict("02: all_reduce over four ranks against two", guess_times, unit="times")
rings = {
    2 * devices: lab.submit(
        program.recipe(f"ring-{2 * devices}", "work/time_ring.py", nodes=2, gpus_per_node=devices)
    ).require()
    for devices in (1, 2)
}

# %% id="time-see"
measured = {
    f"{name}, {ranks} ranks": pd.Series(re.findall(rf"^{name} ([\d.]+) ms", run.text, re.MULTILINE))
    .astype(float)
    .median()
    for ranks, run in rings.items()
    for name in ("ring", "all_reduce")
}
ratio = measured["all_reduce, 4 ranks"] / measured["all_reduce, 2 ranks"]
times.compare(ratio)
by_formula = {
    name: measured["all_reduce, 2 ranks"] * (1.5 if "4" in name else 1) for name in measured
}
show.predicted(by_formula, measured, what="time of 8 MB")

# %% id="time-claim" tags=["claim"]
claim(
    "four ranks add up 8 MB in about 1.5 times the time of two",
    ratio,
    least=1.1,
    most=1.95,
    unit="times",
)

# %% [markdown] id="time-explain"
# *The figure: medians. "Predicted" is the time of all_reduce over two ranks, and 1.5 times that for four.*
#
# **Explain.** 2 · 3/4 against 2 · 1/2: the formula says 1.5. Who guessed 2 thought of twice as many ranks, and who
# guessed 3 of six steps against two; but each step sends only half as much. A ring of a thousand would take
# twice as long as a ring of two, not five hundred times. The figure shows by how much your library misses the 1.5. Less
# than that means that two ranks alone do not reach the link's full rate: bytes are not all that takes time. The ring in Python
# sends just as much. The time it takes longer is waiting: in each step until a whole piece has come, and only then does it
# add. A library cuts pieces finer, and adds one while the next comes in.
#
# All that holds for large tensors. Each of the 2 (*n* − 1) steps also costs a latency, which the formula leaves
# out. For small tensors, and for many ranks, libraries take trees (lesson 04).

# %% [markdown] id="ddp-idea"
# ## Data parallelism, in fifteen lines
#
# Now there is something to say. Every rank trains on its own samples. Before the optimizer moves anything, all
# gradients are averaged over the ranks; if the weights were equal at the start, they stay equal for ever.

# %% id="ddp-moves"
show.moving.ddp_step()

# %% [markdown] id="ddp-explain"
# So `DDP(model)` has three things to do:
#
# 1. at the start, everybody takes **rank 0's weights**. (And what a layer keeps beside its weights, such as the
#    running means of a batch norm: `model.state_dict()` holds all.)
# 2. after backward, each gradient becomes the **mean over the ranks**. A mean, since each loss is a mean over its
#    rank's samples. (That is the mean over all samples only if the ranks hold equally many.)
# 3. all ranks call their collectives **in the same order**. The first `all_reduce` of one rank meets the first of
#    the others, whatever was meant by it.
#
# > **Exercise 02.3** — Write it. The trial compares weights and gradients with one model that sees all samples,
# > over two steps, in float64 to ten digits. The model has a frozen parameter, which never gets a gradient.

# %% id="ddp-file" tags=["exercise"]
# %%writefile "{lab.work}/my_ddp.py"
import torch
import torch.distributed as dist


class DDP(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model
        ### BEGIN SOLUTION
        ### GAP ...  # everybody takes what rank 0 has
        for tensor in model.state_dict().values():
            dist.broadcast(tensor, src=0)
        ### END SOLUTION

    def forward(self, *inputs):
        return self.model(*inputs)

    def finish(self):
        """After backward: every gradient becomes the mean over all ranks."""
        ### BEGIN SOLUTION
        ### GAP ...  # all_reduce sums; leave out what has no gradient
        for parameter in self.model.parameters():
            if parameter.grad is not None:
                dist.all_reduce(parameter.grad)
                parameter.grad /= dist.get_world_size()
        ### END SOLUTION


# %% id="ddp-run" tags=["exercise"]
ddp_trial = lab.submit(trial.recipe("ddp-trial", "work/my_ddp.py", "ddp"))
ddp_trial.watch()

# %% id="ddp-check" tags=["check"]
check.ex02_ddp(ddp_trial)

# %% [markdown] id="ddp-why" tags=["solution"]
# Without the broadcast nothing would look wrong: gradients are averaged, losses fall. But the ranks would add
# the same steps to different weights, and the gradients of one model would train another.

# %% [markdown] id="one-idea"
# ## Four devices, one model
#
# The script from the beginning, with PyTorch's own `DistributedDataParallel`, which does what yours does. What has
# changed is marked:

# %% id="one-file"
# %%writefile "{lab.work}/train_ddp.py"
import argparse
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from train_letters import model_of, samples, tell, text_of

options = argparse.ArgumentParser()
options.add_argument("--text")
asked = options.parse_args()

dist.init_process_group("gloo")  # 1: meet the others ("nccl" on GPUs)
rank, size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
model = DistributedDataParallel(model_of(width=128))  # 2: equal weights, averaged gradients
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
text, generator = text_of(asked.text), torch.Generator().manual_seed(rank)  # 3: other samples
for step in range(1, 31):
    began = time.perf_counter()
    x, y = samples(text, 64 // size, generator)  # 4: 64 samples over all ranks
    loss = torch.nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    mean = loss.detach() / size
    dist.all_reduce(mean)  # 5: the loss over all samples
    if rank == 0:  # 6: one rank speaks, and one would save
        tell(step, mean.item(), time.perf_counter() - began)
dist.destroy_process_group()

# %% id="one-run"
together = lab.submit(
    program.recipe("letters-ddp", "work/train_ddp.py", nodes=2, gpus_per_node=2, text=str(text))
)
together.watch()
alone, joined = (next(iter(steps(run).values())) for run in (one, together))
show.loss({"one device": alone, "four devices, one model": joined})

# %% id="one-claim" tags=["claim"]
claim(
    "with six marked changes four processes print one loss curve",
    len(steps(together)),
    least=1,
    most=1,
)
late = [table["lm_loss"].tail(10).mean() for table in (joined, alone)]
claim("its last ten losses, over those of one device", late[0] / late[1], least=0.85, most=1.15)

# %% [markdown] id="one-explain"
# **Explain.** One curve, near that of the single device: 64 samples a step, 16 from each. These six changes are the heart of
# it. On GPUs the model, the samples and `mean` also have to lie on the device of the local rank. (Lesson 02b takes a script with
# validation and a saved model, and a job script besides: there it is fifteen.) Data that is read in
# order instead of at random needs a `DistributedSampler`, which deals the samples out like cards, and whose `set_epoch` shuffles
# them anew in each epoch.

# %% [markdown] id="overlap-idea"
# ## Talking while computing
#
# Yours waits until backward is over, and sends then. But the gradients of the last layer are ready long before
# those of the first. PyTorch's DDP puts gradients into **buckets** of some MB, and sends a bucket as soon as it is
# full, while backward goes on. With a bucket larger than the model nothing is hidden; with small ones, at best
# all but the last.
#
# **Predict.** A wider model, 13 MB of gradients, one device on each of two nodes. A program does each step three
# times: without sending, with one bucket for all, and with buckets of 4 MB. The second takes longer than the first:
# that is what sending costs. How many percent of it do the small buckets hide?

# %% id="overlap-guess"
### BEGIN SOLUTION
### GAP guess_hidden = ...  # percent
guess_hidden = 100
### END SOLUTION

# %% id="overlap-file"
# %%writefile "{lab.work}/time_buckets.py"
import contextlib
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from train_letters import model_of

dist.init_process_group("gloo")
one, small = (DistributedDataParallel(model_of(width=960), bucket_cap_mb=mb) for mb in (100, 4))
x = torch.randint(128, (256, 16))
variants = {
    "nothing sent": (one, one.no_sync),
    "one bucket": (one, contextlib.nullcontext),
    "4 MB buckets": (small, contextlib.nullcontext),
}
for step in range(1, 19):
    for name, (model, quiet) in variants.items():
        model.zero_grad()
        dist.barrier()
        began = time.perf_counter()
        with quiet():
            torch.nn.functional.cross_entropy(model(x), x[:, 0]).backward()
        if dist.get_rank() == 0:
            print(f"{name}: step {step}, {1e3 * (time.perf_counter() - began):.1f} ms", flush=True)

# %% id="overlap-run"
hidden = predict("02: share of the sending that small buckets hide", guess_hidden, unit="%")
overlap = lab.submit(program.recipe("buckets", "work/time_buckets.py", nodes=2, gpus_per_node=1))
overlap.watch()

# %% id="overlap-see"
found = re.findall(r"^(.+): step (\d+), ([\d.]+) ms$", overlap.require().text, re.MULTILINE)
table = pd.DataFrame(found, columns=["variant", "iteration", "elapsed_ms"]).astype(
    {"iteration": int, "elapsed_ms": float}
)
table = table[table["iteration"] > 2]  # the first steps make the buckets
ms = table.pivot(index="iteration", columns="variant", values="elapsed_ms")
quick = ms.quantile(0.25)  # of each variant: what the machine does beside only adds to a step
share = (
    100
    * (quick["one bucket"] - quick["4 MB buckets"])
    / (quick["one bucket"] - quick["nothing sent"])
)
hidden.compare(share)
print(quick.round().to_frame("ms of a step, lower quartile"))
order = ("nothing sent", "one bucket", "4 MB buckets")
show.throughput({name: table[table["variant"] == name] for name in order}, unit="ms")

# %% id="overlap-claim" tags=["claim"]
claim("small buckets hide a part of the sending", share, least=10, most=100, unit="%")

# %% [markdown] id="overlap-explain"
# **Explain.** A step is forward, backward, sending, optimizer. Overlap puts sending *beside* backward: at best the
# shorter of the two disappears. So it can never bring more than a factor of 2, and brings that only where both
# last equally long and all else takes no time. Nor does the last bucket hide: when it is full, backward is over. And
# sending is work, too: gloo adds up on the processor, NCCL's kernels take a few of a GPU's multiprocessors, so that
# each slows the other down.
#
# > **Exercise 02.4** — Give your DDP buckets. A hook, set by `parameter.register_post_accumulate_grad_hook(f)`,
# > calls `f(parameter)` when its gradient is ready. Collect them until there are 80 numbers or more, flatten
# > them into one tensor, send that with `async_op=True`, and let `finish` wait for all. (80 is for the small
# > model of the trial. PyTorch takes 25 MB.)

# %% id="buckets-file" tags=["exercise"]
# %%writefile "{lab.work}/my_buckets.py"
import my_ddp
import torch
import torch.distributed as dist


class DDP(my_ddp.DDP):
    def __init__(self, model):
        super().__init__(model)  # as yours: everybody takes what rank 0 has
        self.waiting, self.sent = [], []  # parameters of the next bucket; buckets on their way
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.register_post_accumulate_grad_hook(self.ready)

    def ready(self, parameter):
        ### BEGIN SOLUTION
        ### GAP ...  # it waits for the next bucket; is that one full?
        self.waiting.append(parameter)
        if sum(p.numel() for p in self.waiting) >= 80:
            self.send()
        ### END SOLUTION

    def send(self):
        flat = torch.cat([p.grad.flatten() for p in self.waiting]) / dist.get_world_size()
        ### BEGIN SOLUTION
        ### GAP work = ...  # begin to sum `flat`, and go on
        work = dist.all_reduce(flat, async_op=True)
        ### END SOLUTION
        self.sent.append((work, flat, self.waiting))
        self.waiting = []

    def finish(self):
        ### BEGIN SOLUTION
        ### GAP ...  # send what is left; wait for each bucket, and copy its parts back
        if self.waiting:
            self.send()
        for work, flat, parameters in self.sent:
            work.wait()
            for p, part in zip(
                parameters, flat.split([p.numel() for p in parameters]), strict=True
            ):
                p.grad.copy_(part.view_as(p))
        self.sent = []
        ### END SOLUTION


# %% id="buckets-run" tags=["exercise"]
buckets_trial = lab.submit(trial.recipe("buckets-trial", "work/my_buckets.py", "buckets"))
buckets_trial.watch()

# %% id="buckets-check" tags=["check"]
check.ex02_buckets(buckets_trial)

# %% [markdown] id="meet-idea"
# ## How they find each other
#
# One piece is left: before rank 0 is rank 0, somebody must decide that. On each node one launcher runs, and
# knows nothing but an address, that of the first node, and how many launchers there are to be (`--nnodes=2`).
# They meet at that address (the *rendezvous*), count themselves, and deal out the ranks. What if
# one does not come? Here is the script of `talk`, with one number changed: three launchers are expected, and two
# are started. (They wait ten minutes by default; here five seconds.)
#
# **Predict.** What happens?

# %% id="meet-guess"
### BEGIN SOLUTION
### GAP guess_meeting = ...  # "they start without it", "they wait, then fail" or "an error at once"
guess_meeting = "an error at once"
### END SOLUTION

# %% id="meet-run"
meeting = predict(
    "02: two launchers where three are expected",
    guess_meeting,
    choices=("they start without it", "they wait, then fail", "an error at once"),
)
script = str(lab.script(talk.recipe.but(name="one-too-few"))).replace(
    "--nnodes=2", "--nnodes=3 --rdzv-conf=join_timeout=5"
)
missing = lab.submit(shell.script("one-too-few", script))
missing.watch()

# %% id="meet-see"
waited = "RendezvousTimeoutError" in missing.text
meeting.compare(
    "they wait, then fail"
    if waited
    else "they start without it"
    if missing.ok
    else "an error at once"
)
print(missing.failure)

# %% id="meet-claim" tags=["claim"]
claim("launchers wait for one that does not come, and then fail", waited and not missing.ok)

# %% [markdown] id="meet-explain"
# ![Two launchers have arrived at the meeting point on node1, which counts 2 of 3; a third was never started.](../images/rendezvous.svg)
#
# **Explain.** No launcher can know whether the third is late or will never come, so they wait. In a queue that is the
# common case: a node that starts slowly, a wrong address, a firewall; at first all look alike, a job that runs and
# prints nothing. Look at what was *asked* first (`--nnodes`, `--rdzv-endpoint`), then whether all
# launchers run. Lesson 03 reads the script line by line.

# %% [markdown] id="home"
# ## To take home
#
# - Fetch before the job: compute nodes have no internet.
# - More devices alone train more copies. Look at the world size, and at how many losses are printed.
# - The device is chosen by the local rank.
# - A ring sends 2 (*n* − 1) / *n* of the data from each rank, however many there are.
# - Data parallelism: equal weights, the mean of the gradients, the same collectives in the same order.
# - Small buckets hide sending behind backward: at best the shorter of the two.

# %% [markdown] id="clean-idea"
# ## Cleaning up
#
# The trials stay, so that their checks can be run again; so do your programs.

# %% id="clean"
lab.clean(first, one, four, talk, together, missing, overlap, *rings.values(), yes=True)
