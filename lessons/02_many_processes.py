# %% [markdown] id="title"
# # 02 Many processes
#
# You have a script for one device, and a cluster with four devices. If you start the script on all four, you train
# four separate models, and no error tells you so. In this lesson all four train *one* model. You write a ring that
# sums numbers over all devices, and then data parallelism in fifteen lines.
#
# | | |
# |---|---|
# | You will be able to | move a script to a compute node; see whether four devices train one model or four; tell rank, local rank and world size; say why each device has its own process; write an all-reduce and data parallelism; hide communication behind the backward pass |
# | Minutes | 75, and 20 more for exercise 02.4 |
# | Devices | 2 nodes with 2 devices each |
# | Before | lesson 00; you have trained a model with PyTorch on one device |

# %% id="begin"
import argparse
import re
import shutil

import pandas as pd

from course_lib import Lab, check, claim, predict, program, shell, show, trial

lab = Lab()
print(f"your own programs go to {lab.work}")

# %% [markdown] id="alone-idea"
# ## Does a script from your desktop run on a compute node?
#
# `code/train_letters.py` was written for a desktop computer. It trains a model to guess the next letter of a text.
# First it fetches this text from the internet. The next job runs the script unchanged on a compute node.
#
# **Predict.** How will the job end?

# %% id="alone-guess"
### BEGIN SOLUTION
### GAP guess_end = ...  # "it trains", "no memory" or "no network"
guess_end = "it trains"
### END SOLUTION

# %% id="alone-run"
end = predict(
    "02: how the first job ends", guess_end, choices=("it trains", "no memory", "no network")
)
first = lab.submit(program.recipe("letters-first", "train_letters.py", steps=5))
first.watch()

# %% id="alone-see"
no_network = not first.ok and "urlopen" in first.text
end.compare("no network" if no_network else "it trains" if first.ok else "something else")
print(first.tail(3) if first.ok else first.failure)

# %% [markdown] id="alone-explain"
# **Explain.** On a cluster, you type on the **login node**, which has internet access, and your job runs on a
# **compute node**, which usually has none. If your first job did train, the box runs in flat mode, or your cluster
# allows internet access. Even then, a job that waits for a download blocks devices that others need.
#
# ![The internet, a login node and two compute nodes. An arrow leads from the internet to a file on the login node, and from there to a compute node. The arrow from the compute nodes to the internet is crossed out. Training on the login node is crossed out too, because all users share it.](../images/login_and_compute.svg)
#
# The solution is to **fetch before the job**. Download on the login node, into a folder that the compute nodes also
# see. Here a text that comes with Python is enough:

# %% id="text"
text = lab.work / "letters.txt"
shutil.copy(argparse.__file__, text)  # the text is a module of Python
one = lab.submit(program.recipe("letters-one", "train_letters.py", text=str(text), steps=30))
one.watch()
print(one.tail(2))

# %% [markdown] id="copies-idea"
# ## What do four devices do with one script?
#
# Now ask for four devices and change nothing else. A launcher starts one process per device, and all processes run
# the same script.
#
# **Predict.** Each process prints its losses. Will you see one loss curve, four equal curves, or four different
# curves?

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
    """Return a table for each process, made from what it printed."""
    table = pd.DataFrame(
        LINE.findall(getattr(run, "text", "")), columns=["who", "iteration", "lm_loss", "ms"]
    ).astype({"iteration": int, "lm_loss": float, "ms": float})
    return dict(list(table.groupby("who")))


different = len({table["lm_loss"].iloc[-1] for table in steps(four).values()})
curves.compare({1: "one curve", 4: "four different ones"}.get(different, "four equal ones"))
show.loss(steps(four))

# %% id="copies-claim" tags=["claim"]
claim("models that four processes train without communication", different, least=4, most=4)

# %% [markdown] id="copies-explain"
# **Explain.** Each process drew its own first weights and its own samples, and the processes exchange nothing. You
# pay for four devices and get four models, each no better than a model from one device. With a fixed seed, all four
# draw the same weights and samples. Their curves are equal, and the mistake is harder to see.
#
# Three things are missing: each process needs to know its number, a way to communicate, and something to send. The
# launcher `torchrun` provides the number. It sets three variables in the environment of each process:
#
# - `RANK`, its number among all processes, starting at 0
# - `WORLD_SIZE`, the number of processes
# - `LOCAL_RANK`, its number on this node, which is the number of its device

# %% [markdown] id="process-idea"
# ## Why does each device have its own process?
#
# One process could also control all devices of a node, with one thread for each device. PyTorch's old `DataParallel`
# does this. But Python has a global interpreter lock (**GIL**), so only one thread of a process runs Python code at a
# time.
#
# **Predict.** Two small models are trained at once, first by two threads of one process, then by two processes. By
# what factor do two *threads* together make more steps per second than one worker alone?

# %% id="process-guess"
### BEGIN SOLUTION
### GAP guess_threads = ...  # times the steps of one
guess_threads = 2
### END SOLUTION

# %% id="process-run"
of_threads = predict(
    "02: steps of two threads, relative to one worker", guess_threads, unit="times"
)
shared = lab.submit(program.recipe("share-process", "share_process.py", gpus_per_node=2)).require()
show.lines(
    {
        name: shared.log.iterations.rename(columns={column: "steps_per_second"})
        for name, column in (
            ("one worker", "one_worker"),
            ("two threads", "threads"),
            ("two processes", "processes"),
        )
    },
    x="iteration",
    y="steps_per_second",
    title="Two workers in one process and in two processes",
)

# %% id="process-see"
speed = shared.log.iterations[["one_worker", "threads", "processes"]].max()  # least disturbance
of_threads.compare(speed["threads"] / speed["one_worker"])
(speed / speed["one_worker"]).rename("times the steps of one worker").round(2).to_frame()

# %% id="process-claim" tags=["claim"]
claim(
    "steps of two processes, relative to two threads",
    speed["processes"] / speed["threads"],
    least=1.1,
    unit="times",
)
claim(
    "steps of two threads, relative to one worker", speed["threads"] / speed["one_worker"], most=1.5
)

# %% [markdown] id="process-explain"
# **Explain.** The two threads take turns. Python code starts every operation, and only one thread at a time runs
# Python code. An operation releases the GIL while it computes, and so does the backward pass. But the operations of a
# small model are so short that starting them is most of the work. Switching between threads takes time, too, so two
# threads can make fewer steps than one. Two processes have two interpreters, so launchers start one process per
# device.

# %% [markdown] id="talk-idea"
# ## How do processes communicate?
#
# A **process group** is the way to communicate. All processes call `init_process_group` and find each other. The
# group communicates through NCCL on GPUs and through gloo on CPUs, with the same calls. All ranks take part in a
# **collective**:
#
# - `broadcast`: the numbers of one rank go to all ranks
# - `all_reduce`: every rank ends with the sum over all ranks
# - `all_gather`: every rank ends with the pieces of all ranks
# - `reduce_scatter`: rank *r* ends with piece *r* of the sum
# - `all_to_all`: rank *r* ends with piece *r* of every rank
#
# The next cell uses `%%writefile` to write your own program into a file. If you change the file and submit again, the
# new version runs.

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
# **Predict.** There are two nodes with two devices each. Rank *r* holds the four numbers 10 *r* + 0, 10 *r* + 1, 10
# *r* + 2 and 10 *r* + 3. What does **rank 2** hold after `reduce_scatter`, and what is its local rank?

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
# **Explain.** Rank 2 holds 2 + 12 + 22 + 32 = 68, the sum of piece 2 over all ranks. Rank 2 is the *first* rank on
# the second node, so its local rank is 0. A script that chooses its device by `RANK` instead of `LOCAL_RANK` would
# ask this node for device 2, which does not exist.

# %% [markdown] id="ex1" tags=["exercise"]
# > **Exercise 02.1** — A job runs on **8 nodes with 4 devices each**. The next cell draws a rank and a number for you.
# > On which node (counted from 0) is the rank `given.rank`, and what are its **local rank** and its **world size**?
# > Each rank holds `given.numbers` numbers and calls `reduce_scatter`. **How many numbers** does it hold afterwards?

# %% id="ex1-given" tags=["exercise"]
given = check.drawn("02.1", rank=(22, 23, 30), numbers=(32, 64, 96))
given

# %% id="ex1-gap" tags=["exercise"]
### BEGIN SOLUTION
### GAP node, local_rank, world_size, numbers = ..., ..., ..., ...
node, local_rank, world_size = given.rank // 4, given.rank % 4, 8 * 4
numbers = given.numbers // world_size
### END SOLUTION

# %% id="ex1-check" tags=["check"]
check.ex02_ranks(node, local_rank, world_size, numbers, given)

# %% [markdown] id="ring-idea"
# ## How does a ring sum over all ranks?
#
# If every rank sent all its numbers to every other rank, it would send them *n* − 1 times. In a **ring**, a rank sends
# less than twice its numbers for any number *n* of ranks. The numbers are cut into *n* pieces, and every rank sends
# only to its right neighbour. This figure shows an `all_reduce` in a ring:

# %% id="ring-moves"
show.moving.collective("all-reduce", ranks=4)

# %% [markdown] id="ring-explain"
# The first round has *n* − 1 steps. In each step a rank adds its own share to the piece that has just arrived, and
# passes it on. After this round every rank holds one finished piece. In the second round the finished pieces travel
# around the ring. Each of the 2 (*n* − 1) steps sends 1/*n* of the numbers:
#
# $$\text{sent by each rank} = \frac{2\,(n-1)}{n} \times \text{size}$$
#
# You need two calls. `isend(tensor, to)` starts to send and returns a request at once. The request's `wait()` returns
# when you may change the tensor again. `recv(tensor, from)` returns when the numbers have arrived.
#
# > **Exercise 02.2** — Write the ring. The tensor may have any shape, and its size need not be a multiple of the
# > number of ranks. Change the tensor in place. The trial runs your ring on 1, 2, 3 and 4 ranks with random numbers,
# > and compares the result with the plain sum. `check.test("02.2")` prints its test, which you may read. Each exercise
# > with a trial has a test.

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
        ### GAP ...  # choose the pieces; send one, receive the other, then add or replace
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
# In step *s*, rank *r* sends piece *r* − *s* and receives piece *r* − *s* − 1. If you use `send` instead of `isend`,
# every rank waits until its right neighbour receives, but this neighbour is also sending. No rank can continue. This
# is a **deadlock**. A library that buffers small messages hides this mistake until a message is large.

# %% [markdown] id="time-idea"
# ### How does the time grow with the number of ranks?
#
# The formula predicts the answer, because the library's own `all_reduce` is a ring too. **Predict.** `all_reduce`
# sums 8 MB, first with one device on each node and then with two. By what factor does it take longer over four ranks
# than over two?

# %% id="time-guess"
### BEGIN SOLUTION
### GAP guess_times = ...  # by what factor
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
    # No barrier in between: ranks leave a barrier at different times, but end a sum together.
    for _ in range(12):
        began = time.perf_counter()
        add_up()
        if dist.get_rank() == 0:
            print(f"{name} {1e3 * (time.perf_counter() - began):.1f} ms", flush=True)

# %% id="time-run"
times = predict(
    "02: time of all_reduce over four ranks, relative to two", guess_times, unit="times"
)
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
    .quantile(0.25)  # other work of the machine only makes a sum longer
    for ranks, run in rings.items()
    for name in ("ring", "all_reduce")
}
ratio = measured["all_reduce, 4 ranks"] / measured["all_reduce, 2 ranks"]
times.compare(ratio)
base = "all_reduce, 2 ranks"
by_formula = {
    name: measured[base] * (1.5 if "4" in name else 1) for name in measured if name != base
}
show.predicted(by_formula, {name: measured[name] for name in by_formula}, what="time of 8 MB")

# %% id="time-claim" tags=["claim"]
claim(
    "time for 8 MB over four ranks, relative to two",
    ratio,
    least=1.1,
    most=1.95,
    unit="times",
)

# %% [markdown] id="time-explain"
# *The bars are lower quartiles. The prediction for four ranks is 1.5 times the time over two ranks.*
#
# **Explain.** Each rank sends 2 · 3/4 of the data instead of 2 · 1/2, so the formula gives 1.5. If you guessed 2, you
# compared the numbers of ranks. If you guessed 3, you compared six steps with two, but each step sends only half as
# much. A ring of a thousand ranks takes only about twice as long as a ring of two.
#
# The ring in Python is slower than the library, which cuts finer pieces and adds one piece while the next arrives.
#
# The formula leaves out the latency of each step, so it holds only for large tensors. For small tensors and many
# ranks, libraries use trees (lesson 04).

# %% [markdown] id="ddp-idea"
# ## Data parallelism, in fifteen lines
#
# The ranks have to send their gradients. In **data parallelism**, every rank trains on its own samples. Before the
# optimizer changes the weights, all ranks average their gradients. If the weights are equal at the start, they
# therefore stay equal.

# %% id="ddp-moves"
show.moving.ddp_step()

# %% [markdown] id="ddp-explain"
# So `DDP(model)` does three things:
#
# 1. At the start, all ranks take **rank 0's weights** and buffers, such as the running means of batch normalisation.
#    `model.state_dict()` holds both.
# 2. After backward, each gradient becomes the **mean over the ranks**. If all ranks hold the same number of samples,
#    this is the mean over all samples.
# 3. All ranks call their collectives **in the same order**. The first `all_reduce` of one rank is combined with the
#    first `all_reduce` of the others, even if they belong to different gradients.
#
# > **Exercise 02.3** — Write `DDP`. The trial runs two steps in float64. It compares weights and gradients, to ten
# > digits, with one model that sees all samples. The model has a frozen parameter, which never gets a gradient.

# %% id="ddp-file" tags=["exercise"]
# %%writefile "{lab.work}/my_ddp.py"
import torch
import torch.distributed as dist


class DDP(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model
        ### BEGIN SOLUTION
        ### GAP ...  # all ranks take what rank 0 has
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
# Without the broadcast nothing looks wrong, because the losses still fall. The next section measures what is lost.

# %% [markdown] id="begin-idea"
# ### What does it cost to leave out the broadcast?
#
# **Predict.** Two ranks average their gradients, but each rank draws its own first weights, and nothing is broadcast.
# Each has batches of 32. After 32,768 samples, is the loss `"the same"` as with a broadcast, `"a little higher"` (by
# less than 0.5), or `"much higher"`?

# %% id="begin-guess"
### BEGIN SOLUTION
### GAP guess_begin = ...  # one of the three
guess_begin = "the same"
### END SOLUTION

# %% id="begin-run"
ENDS = ("the same", "a little higher", "much higher")
without = predict("02: the loss without the broadcast", guess_begin, choices=ENDS)
sizes = {"samples": 32_768, "batch_size": 64, "lr": 4e-3, "warmup_samples": 4096}
beginnings = {
    name: lab.submit(
        program.recipe(
            short,
            "scale_batch.py",
            text=str(text),
            gpus_per_node=2,
            lr_decay_style="constant",
            no_broadcast=short == "begin-own",
            **sizes,
        )
    )
    for name, short in {"weights of rank 0": "begin-one", "own weights": "begin-own"}.items()
}
logs = {name: run.require().log.iterations for name, run in beginnings.items()}
show.lines(
    logs,
    x="consumed_samples",
    y="lm_loss",
    title="Two ranks that average gradients, with common or own first weights",
)

# %% id="begin-see"
ended = pd.DataFrame({name: log.tail(4).mean(numeric_only=True) for name, log in logs.items()})
higher = ended["own weights"]["lm_loss"] - ended["weights of rank 0"]["lm_loss"]
without.compare(ENDS[0] if higher < 0.05 else ENDS[1] if higher < 0.5 else ENDS[2])
ended.loc[["lm_loss", "validation_loss", "copies_differ_by"]].T.round(3)

# %% id="begin-claim" tags=["claim"]
claim("without the broadcast, the loss is higher by", higher, least=0.1, most=0.5, unit="nats")
apart = logs["own weights"]["copies_differ_by"]
claim(
    "distance between the copies at the end, relative to the beginning",
    apart.iloc[-1] / apart.iloc[0],
    least=0.98,
    most=1.02,
    unit="times",
)

# %% [markdown] id="begin-explain"
# **Explain.** The model learns without the broadcast, but it learns less. There are two different models here, so half
# of each rank's step was computed for the weights of the other model. The difference between the copies never shrinks,
# because every step adds the same numbers to both. An equal seed on all ranks can replace the broadcast, until one
# rank draws one more random number than the others.

# %% [markdown] id="one-idea"
# ## Four devices, one model
#
# The next cell is the script from the beginning with PyTorch's `DistributedDataParallel`, which does what your class
# does. The numbered comments mark six changes:

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
    "loss curves that four processes print after six changes",
    len(steps(together)),
    least=1,
    most=1,
)

# %% [markdown] id="one-explain"
# **Explain.** One curve remains, near the curve of the single device. Each step uses 64 samples, 16 from each rank.
# On GPUs, the model, the samples and `mean` must also be on the device of the local rank. Lesson 02b converts a
# longer script.

# %% [markdown] id="meet-idea"
# ## How do the processes find each other?
#
# Each node runs one launcher. A launcher knows only the address of the first node and the number of launchers
# (`--nnodes=2`). At this address, the **rendezvous**, the launchers wait until all have joined. Then they assign the
# ranks.
#
# What happens if a launcher is missing? The next cell changes the script of `talk` so that it expects three
# launchers, but only two start. The rendezvous has a **time-out**, ten minutes by default and five seconds here.
#
# **Predict.** Do the two launchers start without the third, wait and then fail, or report an error at once?

# %% id="meet-guess"
### BEGIN SOLUTION
### GAP guess_meeting = ...  # "they start without it", "they wait, then fail" or "an error at once"
guess_meeting = "an error at once"
### END SOLUTION

# %% id="meet-run"
meeting = predict(
    "02: what two launchers do if three are expected",
    guess_meeting,
    choices=("they start without it", "they wait, then fail", "an error at once"),
)
script = str(lab.script(talk.recipe.but(name="one-too-few"))).replace(
    "--nnodes=2", "--nnodes=3 --rdzv-conf=join_timeout=5"
)
missing = lab.submit(shell.script("one-too-few", script))
missing.watch()

# %% id="meet-see"
print(missing.cause)
waited = "RendezvousTimeoutError" in missing.text
meeting.compare(
    "they wait, then fail"
    if waited
    else "they start without it"
    if missing.ok
    else "an error at once"
)

# %% id="meet-claim" tags=["claim"]
seconds = missing.elapsed_s if waited and not missing.ok else 0
claim("two launchers wait for the third before they fail", seconds, least=4, unit="s")

# %% [markdown] id="meet-explain"
# ![Two launchers have arrived at the meeting point on node1, which counts 2 of 3; a third was never started.](../images/rendezvous.svg)
#
# **Explain.** No launcher can know whether the third is late or will never come, so both wait until the time-out. The
# same happens if an address is wrong or a firewall blocks the port: the job runs and prints nothing. First check what
# the script *asked* for (`--nnodes`, `--rdzv-endpoint`), then whether all launchers run.

# %% [markdown] id="overlap-idea"
# ## How much communication can a backward pass hide?
#
# Your class sends gradients after backward has finished. But the gradients of the last layer are ready long before
# the gradients of the first layer. PyTorch's DDP collects gradients in **buckets** of several MB. It starts an
# all-reduce for each full bucket while backward continues, so the communication is hidden behind the computation.
#
# One device on each of two nodes trains a wider model with 13.5 MB of gradients. From the last layer to the first, the
# gradients take 0.5, 3.7, 3.7, 3.7 and 2.0 MB. A bucket is sent as soon as it holds 3 MiB (3.1 MB). The program does
# each step three times: without communication, with one bucket, and with small buckets. The cost of communication is
# the time with one bucket minus the time without communication.
#
# **Predict.** How many small buckets are there? What percentage of the cost of communication do they hide? First
# compute how much they can hide at most.

# %% id="overlap-guess"
### BEGIN SOLUTION
### GAP guess_buckets, guess_hidden = ..., ...  # a number, and percent
guess_buckets, guess_hidden = 5, 100
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
one, small = (DistributedDataParallel(model_of(width=960), bucket_cap_mb=mb) for mb in (100, 3))
x = torch.randint(128, (256, 16))
variants = {
    "nothing sent": (one, one.no_sync),
    "one bucket": (one, contextlib.nullcontext),
    "small buckets": (small, contextlib.nullcontext),
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
if dist.get_rank() == 0:
    print("bucket sizes:", small._get_ddp_logging_data()["rebuilt_bucket_sizes"], flush=True)

# %% id="overlap-run"
many = predict("02: all-reduces of small buckets", guess_buckets)
hidden = predict("02: share of the communication that small buckets hide", guess_hidden, unit="%")
overlap = lab.submit(program.recipe("buckets", "work/time_buckets.py", nodes=2, gpus_per_node=1))
overlap.watch()

# %% id="overlap-see"
found = re.findall(r"^(.+): step (\d+), ([\d.]+) ms$", overlap.require().text, re.MULTILINE)
table = pd.DataFrame(found, columns=["variant", "iteration", "elapsed_ms"]).astype(
    {"iteration": int, "elapsed_ms": float}
)
table = table[table["iteration"] > 2]  # the first steps make the buckets
ms = table.pivot(index="iteration", columns="variant", values="elapsed_ms")
quick = ms.quantile(0.25)  # other work of the machine only makes steps longer
share = (
    100
    * (quick["one bucket"] - quick["small buckets"])
    / (quick["one bucket"] - quick["nothing sent"])
)
buckets = [int(size) for size in re.search(r"bucket sizes: (.*)", overlap.text)[1].split(",")]
many.compare(len(buckets))
hidden.compare(share)
print("MB in each bucket:", [round(size / 1e6, 1) for size in buckets])
print(quick.round().to_frame("ms of a step, lower quartile"))
order = ("nothing sent", "one bucket", "small buckets")
show.throughput({name: table[table["variant"] == name] for name in order}, unit="ms")

# %% id="overlap-claim" tags=["claim"]
claim("buckets of 3 MiB", len(buckets), least=4, most=4)
claim("small buckets hide a part of the communication", share, least=5, most=90, unit="%")

# %% [markdown] id="overlap-explain"
# **Explain.** There are four buckets, because the 0.5 MB of the last layer do not fill a bucket and share one with the
# next layer. The last bucket, 2.0 MB, is complete only when backward is over, and nothing is left to hide it. At most
# 11.5 of 13.5 MB are hidden, or 85 %.
#
# The measured share is smaller, because communication and backward slow each other down. gloo adds on the CPU, and
# NCCL's kernels occupy some of a GPU's multiprocessors.
#
# > **Exercise 02.4** — This is the hardest exercise of the lesson. Give your DDP buckets. A hook, set by
# > `parameter.register_post_accumulate_grad_hook(f)`, calls `f(parameter)` when the gradient of this parameter is
# > ready. Collect parameters until they have 80 numbers or more. Flatten their gradients into one tensor, sum it with
# > `async_op=True`, and let `finish` wait for all buckets. The limit of 80 suits the small model of the trial. PyTorch
# > uses 25 MB.

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
        ### GAP ...  # it waits for the next bucket; is this bucket full?
        self.waiting.append(parameter)
        if sum(p.numel() for p in self.waiting) >= 80:
            self.send()
        ### END SOLUTION

    def send(self):
        flat = torch.cat([p.grad.flatten() for p in self.waiting]) / dist.get_world_size()
        ### BEGIN SOLUTION
        ### GAP work = ...  # start to sum `flat` and continue
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

# %% [markdown] id="home"
# ## To take home
#
# - Fetch data before the job, because compute nodes usually have no internet.
# - If you only add devices, they train separate models. Check the world size and how many losses are printed.
# - Each device has its own process, because threads of one process take turns in Python. The local rank chooses the
#   device.
# - In a ring, each rank sends 2 (*n* − 1) / *n* of the data, which is never more than twice.
# - Data parallelism needs equal weights, the mean of the gradients, and the same collectives in the same order.
# - Small buckets hide a part of the communication behind the backward pass.

# %% [markdown] id="clean-idea"
# ## Cleaning up
#
# The trials and your programs stay, so that you can run the checks again.

# %% id="clean"
used = (first, one, four, shared, talk, together, missing, overlap)
lab.clean(*used, *rings.values(), *beginnings.values(), yes=True)
