# %% [markdown] id="title"
# # 05 Profiling: where a step loses its time
#
# A run is slower than it should be. A guess at the cause is expensive, because on a cluster every guess costs a job.
# A **profiler** records what every process did, and when. In this lesson you read such records as tables, as figures
# and in TensorBoard. You find the fault in a run that was slowed down on purpose, and you watch the memory of a
# device over two steps.
#
# | | |
# |---|---|
# | You will be able to | record a few steps of a run; split a step into its parts; tell waiting from transfer; find a bottleneck, prove it and cure it; read memory over time |
# | Minutes | 65 |
# | Devices | 2 nodes with 2 devices each |
# | Before | lessons 03 and 04 |

# %% id="begin"
import pandas as pd

from course_lib import Lab, check, claim, gpt, predict, show, trial

lab = Lab()

# %% [markdown] id="record-idea"
# ## Record two runs, one of them slow
#
# To find a fault, you compare a record of the slow run with a record of a healthy run. Both runs train the same
# small GPT on four devices over the same links. A flag makes the second run, `ill`, slow, and you will find out what
# the flag does.
#
# With `profile=(8, 10)`, steps 8 and 9 are recorded on all four ranks. The count starts at 0, as in the flags of
# Megatron-LM. The log counts from 1 and calls these steps iterations 9 and 10. Record few steps, because recording
# takes time and disk space.
#
# PyTorch's `torch.profiler` records the steps. The course's program starts it in this function. Your own program
# needs `torch.profiler.profile` with the arguments `activities`, `schedule` and `on_trace_ready`:

# %% id="profiler-code"
lab.code("observing/profiling.py", "Profiler._start")

# %% [markdown] id="profiler-words"
# `schedule` discards the first step as a warm-up and keeps the following steps. The training loop calls
# `recording.step()` after each step. After the last recorded step, `on_trace_ready` writes the file.

# %% id="record"
healthy_recipe = gpt.recipe(
    "healthy",
    nodes=2,
    gpus_per_node=2,
    micro_batch=2,
    global_batch=8,
    iterations=12,
    profile=(8, 10),
    memory=(8, 10),
    profile_ranks=[0, 1, 2, 3],
    monitor=True,
)
ill_recipe = healthy_recipe.but(name="ill", planted_bottleneck=1)
first, second = lab.submit(healthy_recipe), lab.submit(ill_recipe)
healthy, ill = first.require(), second.require()  # each needs all devices, so one waits
show.throughput(healthy, ill, unit="ms")

# %% [markdown] id="board-idea"
# ## Curves show that a run is slow
#
# The program also writes its numbers for **TensorBoard**, a page that draws the curves of all runs while they
# continue. Open it and choose a curve such as `iteration-time`:

# %% id="board"
lab.tensorboard("scalars")

# %% [markdown] id="board-explain"
# Only you can open this page on your notebook server. Its curves agree with the figure above: the second run is
# slower from the start. In both runs the first one or two steps are long because they warm up. Iteration 10 is long
# because it includes writing the record.
#
# Curves show *that* something is wrong, and since when, but not what. Check the loss as well, because different
# losses would mean different work:

# %% id="same-loss"
print(healthy.log.losses_beside(ill.log))

# %% [markdown] id="same-loss-explain"
# A difference below a thousandth of the loss is rounding. If it is larger, the data, the batch or the program
# differs, and `healthy.compare(ill)` helps to find how.

# %% [markdown] id="breakdown-idea"
# ## A step consists of compute, communication and idle time
#
# The record of a rank is a list of many thousand intervals, one for each operator. Every moment of the step belongs
# to one of three parts:
#
# | part | what the rank does |
# |---|---|
# | compute | runs an *operator* such as a matmul, or on a GPU a *kernel*, a program of the device; on the box this includes the sleep that keeps a slot's pace |
# | exposed communication | is inside an all-reduce or another exchange, and computes nothing meanwhile |
# | idle | waits for something else, or Python is between two operators |
#
# **Predict.** What percentage of a healthy step is communication? The model has 1.86 million parameters, so each
# device has 7.4 MB of gradients. A ring of four devices sends 1.5 times this size over the link between the nodes.
# Lesson 04 measured the bandwidth of this link, about 0.12 GB/s on the box. The figure above shows how long a step
# takes.

# %% id="breakdown-guess"
### BEGIN SOLUTION
### GAP guess_percent = ...  # of a step
guess_percent = 20
### END SOLUTION

# %% id="breakdown"
share_guess = predict(
    "05: percentage of a healthy step that is communication", guess_percent, unit="%"
)
show.step_time(healthy.profile.overlap)

# %% id="breakdown-see"
sums = healthy.profile.overlap[
    ["compute_us", "exposed_communication_us", "idle_us", "total_us"]
].sum()
share = 100 * sums["exposed_communication_us"] / sums["total_us"]
share_guess.compare(share)

# %% [markdown] id="breakdown-explain"
# *Mean of the two recorded steps, one bar per rank, with the share of each part. On the box, a slot that has computed
# sleeps to keep its pace (lesson 00). This time is hatched and named "the box waits".*
#
# **Explain.** On the box the gradients take roughly 7.4 MB × 1.5 / 0.12 GB/s ≈ 90 ms per step. The share depends on
# the bandwidth of the link and on the arithmetic between two exchanges. The gradients have the same size for any
# number of samples. If you guessed a small share, you assumed that a training program mostly computes.
#
# TensorBoard's profiler tab computes the same sums for one rank at a time. Open it, choose the run `healthy` and the
# views *Overview* and *Trace*. PyTorch no longer develops this plug-in, and most people open trace files in
# **Perfetto** instead. Go to https://ui.perfetto.dev and drop a file of the list below onto the page. The file stays
# in your browser. The table contains the sums of all ranks:

# %% id="profiler-tab"
lab.tensorboard("profiler")

# %% id="profiler-table"
columns = ["rank", "step", "total_us", "kernel_us", "communication_us", "cpu_us", "other_us"]
table = healthy.profile.step_time[columns]
table = (
    table.set_index(["rank", "step"])
    .div(1e3)
    .rename(columns=lambda name: name.replace("_us", "_ms"))
)
print(*sorted((healthy.folder / "profile").glob("*.json.gz")), sep="\n")
table.round(1)

# %% [markdown] id="profiler-explain"
# `step` is the recorder's count, so 1 and 2 are steps 8 and 9. The column `kernel_ms` is time on a GPU. The column
# `cpu_ms` is time of operators on the processor, including the box's sleep. `other_ms` is the rest.
#
# Which operators take the time? The next figure shows the *self* time of each operator, without the operators that
# it calls. It is the sum over both steps and all four ranks. *Host* means the processor:

# %% id="operators"
show.operators(healthy.profile, top=8)

# %% [markdown] id="operators-explain"
# A healthy training step consists of matmuls, some element-wise work and communication. If a different operator
# leads this list, ask why. `aten::addmm` and `aten::mm` are matmuls, and `aten` is PyTorch's library of operators.
# The sleep that keeps a slot's pace is `course::pace` (lesson 00).
#
# On a GPU a step may also be **launch-bound**. Its kernels are then so short that the program cannot start them fast
# enough, and the trace shows gaps between them. NVIDIA's `nsys` records what happens below PyTorch, and Holistic
# Trace Analysis reads the traces of hundreds of ranks.

# %% [markdown] id="ill-idea"
# ## What slows the second run down?
#
# **Predict.** Every step of the slow run takes longer. It sends the same gradients over the same link and reaches
# the same loss. Is the cause the network, the arithmetic or something else?

# %% id="ill-guess"
### BEGIN SOLUTION
### GAP guess_cause = ...  # "the network", "the arithmetic" or "something else"
guess_cause = "the network"
### END SOLUTION

# %% [markdown] id="outside-idea"
# ### From outside, a slow network and a slow rank look alike
#
# Many clusters have a page that shows how busy the devices of a job are. With `monitor=True`, the run records once a
# second how busy each rank or GPU is, and how much its node has sent. During a run, `run.watch()` shows these
# curves.

# %% id="outside"
cause = predict(
    "05: why the ill run is slow",
    guess_cause,
    choices=("the network", "the arithmetic", "something else"),
)
monitored = len(ill.monitor.load) > 0
show.monitor(ill.monitor) if monitored else f"nothing was recorded: {ill.folder / 'monitor.log'}"


# %% id="outside-table"
def from_outside(run):
    """Return how busy the ranks usually were in training, and what a node sent per second."""
    seen = run.monitor
    sent_mb_s = seen.load.set_index("time_s")["network_out_bytes_s"].dropna() / 1e6
    training = sent_mb_s[sent_mb_s >= sent_mb_s.max() / 2]
    busy = seen.ranks.set_index("time_s")["slot_percent"]
    if len(seen.devices):
        busy = seen.devices.set_index("time_s")["utilisation_percent"]
    inside = (busy.index > training.index.min() - 0.1) & (busy.index < training.index.max() + 0.1)
    # The first and the last second contain only a part of the training.
    return {
        "busy (%)": busy[inside].median(),
        "sent by a node (MB/s)": training.median(),
    }


pd.DataFrame({run.name: from_outside(run) for run in (healthy, ill)}).T.round(1)

# %% [markdown] id="outside-explain"
# *The slow run over time, with one curve for each rank or GPU and each node. For a rank on a processor, 100 % is the
# rate of its slot; sending and writing files count too. Memory is the memory of the whole process including its
# libraries. The table compares both runs while they trained.*
#
# **Explain.** If the slow run sends less per second and its ranks are less busy, this proves only that ranks wait.
# On a slow network fewer bytes arrive per second, and the ranks wait for them. One slow rank has the same effect,
# because the other ranks wait for it.
#
# On GPUs you see even less. A GPU that waits inside an NCCL all-reduce keeps polling, and counts as busy. InfiniBand
# traffic bypasses the operating system, which counts only ordinary network traffic.
#
# ### From inside, one rank stands out
#
# The profile shows each rank's step from inside:

# %% id="ill-breakdown"
show.step_time({"healthy": healthy.profile.overlap, "ill": ill.profile.overlap})

# %% [markdown] id="ill-explain"
# *The same bars for both runs, rank by rank.*
#
# Three of the four ranks communicate much longer than before, so it is tempting to blame the network. But one rank
# communicates *no* longer than before. This rank is idle instead.
#
# An all-reduce cannot end before the last rank has joined, and it ends for all ranks at about the same time. So a
# rank first **waits** until the last rank joins, and then the **transfer** takes place. One record cannot separate
# the two parts, but four records can. The last rank did not wait, so *its* time is the transfer. The additional time
# of the other ranks is waiting.
#
# The table adds up all exchanges of a step. In a small exchange a different rank may come last, so every rank shows a
# few milliseconds of waiting:


# %% id="waiting"
def waiting_ms(run):
    """Return transfer and waiting per rank and recorded step."""
    steps = run.profile.overlap["step"].nunique()
    table = run.profile.communication.groupby("rank")[
        ["data_transfer_us", "synchronising_us"]
    ].sum()
    return (table / steps / 1e3).round(1).set_axis(["transfer (ms)", "waiting (ms)"], axis=1)


pd.concat({"healthy": waiting_ms(healthy), "ill": waiting_ms(ill)}, axis=1)

# %% [markdown] id="waiting-explain"
# **The rank that waits least is the rank that the others wait for.** Waiting has grown far more than transfer, so
# the network is not to blame. Three ranks wait for the fourth, and the fault lies on that rank, before the
# all-reduce.
#
# What did that rank do while the others waited? The program names its activities, such as `forward 0`, `backward 0`
# and `data`, and the profiler records these *ranges*:

# %% id="suspect"
suspect = int(waiting_ms(ill)["waiting (ms)"].idxmin())
print(f"the other ranks wait for rank {suspect}")
show.timeline(ill.profile, step=int(ill.profile.overlap["step"].min()))

# %% id="suspect-claim" tags=["claim"]
claim("the straggler is rank 2", suspect, least=2, most=2)

# %% [markdown] id="suspect-caption"
# *The first recorded step of the slow run, rank by rank. A range inside another range is drawn one row lower, and
# grey time belongs to no range of the legend. At the left edge, the ranks add up the previous step's loss for the
# log. The sum of the gradients is the first part of `optimizer`. What does the suspect do while the others already
# compute?*
#
# The same ranges as numbers:

# %% id="ranges"
ranges = ill.profile.ranges
ranges = ranges[ranges["name"].isin(["data", "forward 0", "backward 0", "optimizer"])]
(ranges.pivot_table(index="name", columns="rank", values="total_us") / 1e3).round(1)

# %% [markdown] id="ranges-explain"
# **Explain.** Each number is the time of both recorded steps, in milliseconds. Three ranks have their data at once.
# One rank needs a few hundred milliseconds, because its disk is slow. The flag simulates this disk with a sleep before
# the rank reads. The sleep is in `code/faults/bottlenecks.py`.
#
# A rank that makes the others wait is called a **straggler**. The cause may be a disk, a device that lowered its
# clock because of heat, or another user's process. With a thousand ranks, every step still takes as long as the
# slowest rank.
#
# The library also reads the records and prints evidence:

# %% id="recommendations"
cause.compare("something else")
print("Evidence:")
for each in ill.profile.recommendations:
    print(f"- {each.title}: {each.evidence}.")

# %% [markdown] id="recommendations-explain"
# All of these statements are true, but only one names the cause. *Exposed communication* counts waiting as
# communication. If *out of step* is in the list, some ranks compute longer than others. You will compute the share of
# *waiting* yourself in exercise 05.3.

# %% [markdown] id="cure-idea"
# ## Prove the diagnosis with a prediction
#
# If you remove the right cause, the run becomes as fast as you predicted. The two runs above ran one after the
# other, so something else may have slowed one of them. In the run `proof`, the disk is slow in every second step
# only, so a disturbance affects slow and cured steps alike. Five steps of each kind are recorded.
#
# The prediction uses the slow steps. Subtract the waiting of the other ranks from the length of a slow step, and add
# the waiting of a cured step. The result should be the length of a cured step.

# %% id="cure"
proof_recipe = gpt.recipe(
    "proof",
    nodes=2,
    gpus_per_node=2,
    micro_batch=2,
    global_batch=8,
    iterations=14,
    profile=(4, 14),
    profile_ranks=[0, 1, 2, 3],
    planted_bottleneck=3,
)
proof = lab.submit(proof_recipe).require()

by_rank = proof.profile.overlap.pivot(index="step", columns="rank")
inside_us = by_rank["exposed_communication_us"]
last_us = inside_us.min(axis=1)  # the rank that came last
others_us = (inside_us.sum(axis=1) - last_us) / (len(inside_us.columns) - 1)
waited_ms = (others_us - last_us) / 1e3
step_ms = by_rank["total_us"].mean(axis=1) / 1e3
is_ill = step_ms.index % 2 == 1  # the recorder counts from 1, and its first step is slow

should_be_ms = (step_ms - waited_ms)[is_ill].mean() + waited_ms[~is_ill].mean()
cured_ms = step_ms[~is_ill].mean()
show.predicted({"a step, cured": should_be_ms}, {"a step, cured": cured_ms}, unit="ms")

# %% id="cure-claim" tags=["claim"]
waits_ms, sends_ms = (
    each[is_ill].mean() - each[~is_ill].mean() for each in (waited_ms, last_us / 1e3)
)
by_waiting = waits_ms / (waits_ms + max(sends_ms, 0))
claim(
    "percentage of the additional communication that is waiting",
    100 * by_waiting,
    least=75,
    unit="%",
)
claim("measured time of a cured step, relative to the prediction", cured_ms / should_be_ms,
      least=0.9, most=1.15, unit="times")  # fmt: skip

# %% [markdown] id="cure-explain"
# If both bars are about equally long, the diagnosis explains the loss. A large gap would mean a second, smaller cause.
# After each cure, a different bottleneck limits the step.

# %% [markdown] id="memory-idea"
# ## Memory rises in forward and falls in backward
#
# The healthy run also recorded every tensor that was created and freed in the two steps.
#
# **Predict.** Parameters, gradients and optimizer state stay in memory. The forward pass stores results that the
# backward pass needs. Draw the memory in use over two steps on paper. When does a device need the most memory, and
# does the curve return to zero?

# %% id="memory"
show.memory(healthy.memory[0])

# %% [markdown] id="memory-explain"
# *Memory in use on rank 0 over the two recorded steps, by kind. The bands in the background are the phases of a step.
# On the box forward and backward each end with a flat stretch, while the slot sleeps to keep its pace.*
#
# **Explain.** The peak lies between forward and backward. The curve does not return to zero, because a step does not
# start with empty memory. From the bottom:
#
# - **parameters**, **gradients** and **optimizer** state are always there, however small the batch. This program
#   keeps its gradients in one buffer, while plain PyTorch frees them with `zero_grad()` and creates them again in
#   backward.
# - **activations** grow during *forward*, layer by layer, because each layer keeps what its own backward pass needs.
#   The largest increase comes from the output layer, which holds a number for every token and every entry of the
#   vocabulary. *Backward* frees the activations in reverse order.
# - **temporary** memory is what an operator needs only while it runs.
#
# In other programs the peak may lie elsewhere, for example in an optimizer that copies everything at once. This peak
# consists of:

# %% id="memory-parts"
peak = healthy.memory[0].peak_composition
pd.DataFrame({"part": list(peak), "MiB": [round(size / 2**20, 1) for size in peak.values()]})

# %% [markdown] id="memory-numbers"
# You can check three of the numbers. Each parameter takes 4 bytes, and so does its gradient. Adam keeps two more
# numbers for each parameter, 8 bytes:

# %% id="memory-check"
parameters = healthy.log.parameter_count
mib = 4 * parameters / 2**20
print(f"parameters {mib:.1f} MiB, gradients {mib:.1f} MiB, optimizer {2 * mib:.1f} MiB")

# %% [markdown] id="memory-end"
# The measured values may be a few hundred bytes larger, because the program aligns its buffers. Lesson 06 fills the
# memory on purpose.

# %% [markdown] id="ex1" tags=["exercise"]
# ## Exercises
#
# The next program trains a small model with data parallelism. Four places in it are written naively, but only one of
# them costs much time. The slow place depends on the data and the model, which are drawn at random for *your*
# workspace.
#
# | place | what the program does |
# |---|---|
# | `"reading"` | `batches` reads the samples of a step when the step needs them |
# | `"asking"` | `check_gradients` asks for a value of each row of the gradients |
# | `"messages"` | `add_up` sends a message for each parameter |
# | `"dealing"` | `share` gives each rank equally many samples, one block after another |
#
# The job gives `train` a `task`. `task.lengths[step]` has the lengths of all samples of a step, in tokens. `task.read`
# reads one sample. `task.loss` returns the sum of the losses over the tokens of a batch.

# %% id="ex1-own" tags=["exercise"]
# %%writefile "{lab.work}/my_slow.py"
import math

import torch
import torch.distributed as dist


def share(lengths):
    """Return which samples of a step are for this rank."""
    rank, size = dist.get_rank(), dist.get_world_size()
    each = len(lengths) // size
    return range(rank * each, (rank + 1) * each)


def batches(task):
    """Read the samples of this rank, step by step."""
    for step, lengths in enumerate(task.lengths):
        yield torch.cat([task.read(step, number) for number in share(lengths)])


def add_up(model):
    """Add up the gradients of all ranks."""
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)


def check_gradients(model):
    """Stop if a gradient is not finite."""
    for parameter in model.parameters():
        for row in parameter.grad:
            if not math.isfinite(row.sum().item()):
                raise FloatingPointError("a gradient is not finite")


def train(task):
    for step, batch in enumerate(batches(task)):
        task.optimizer.zero_grad()
        loss = task.loss(batch) / sum(task.lengths[step])
        loss.backward()
        add_up(task.model)
        check_gradients(task.model)
        task.optimizer.step()


# %% id="ex1-run" tags=["exercise"]
slow = lab.submit(trial.recipe("slow", "work/my_slow.py", "cure"))
slow.watch()
show.step_time(slow.profile.overlap)

# %% id="ex1-timeline" tags=["exercise"]
show.timeline(slow.profile, step=int(slow.profile.overlap["step"].min()))

# %% [markdown] id="ex1-question" tags=["exercise"]
# > **Exercise 05.1** — The job has recorded three steps on four ranks. Which place costs the most time? Use the
# > figures above and the tables of this lesson: `slow.profile.ranges`, `slow.profile.operators` and `waiting_ms(slow)`.
# > The range `data` is the reading of a sample. Write the name of the place.

# %% id="ex1-gap" tags=["exercise"]
### BEGIN SOLUTION
### GAP place = ...  # "reading", "asking", "messages" or "dealing"
profile, exchanged = slow.profile, waiting_ms(slow).mean()
ranges, operators = profile.ranges, profile.operators
of_rows = ["aten::item", "aten::_local_scalar_dense", "aten::sum", "aten::select", "aten::unbind"]
parts_ms = {
    "reading": ranges[ranges["name"] == "data"]["total_us"].sum() / 12e3,  # 4 ranks, 3 steps
    "asking": operators[operators["name"].isin(of_rows)]["host_self_us"].sum() / 12e3,
    "messages": exchanged["transfer (ms)"],
    "dealing": exchanged["waiting (ms)"],
}
place = max(parts_ms, key=parts_ms.get)
print(place, {name: round(float(ms), 1) for name, ms in parts_ms.items()})
### END SOLUTION

# %% id="ex1-check" tags=["check"]
check.ex05_place(place, slow)

# %% [markdown] id="ex2" tags=["exercise"]
# > **Exercise 05.2** — Cure it. Here is the program again. Rewrite the function that costs the time, and leave the
# > other functions unchanged. The result has to stay the same. The trial judges counts, not times:
# >
# > - *reading*: while a step computes, another **thread** reads the next step. Use `queue.Queue` and `threading`.
# > - *asking*: the program asks for at most one value for each parameter. It still raises a `FloatingPointError` if any
# >   number of a gradient is not finite.
# > - *messages*: a step sends at most three messages.
# > - *dealing*: no rank gets more than 1.3 times the mean number of tokens.

# %% id="ex2-own" tags=["exercise"]
# %%writefile "{lab.work}/my_cure.py"
import math
import queue
import threading

import torch
import torch.distributed as dist


def share(lengths):
    """Return which samples of a step are for this rank."""
    rank, size = dist.get_rank(), dist.get_world_size()
    each = len(lengths) // size
    return range(rank * each, (rank + 1) * each)


def batches(task):
    """Read the samples of this rank, step by step."""
    for step, lengths in enumerate(task.lengths):
        yield torch.cat([task.read(step, number) for number in share(lengths)])


def add_up(model):
    """Add up the gradients of all ranks."""
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)


def check_gradients(model):
    """Stop if a gradient is not finite."""
    for parameter in model.parameters():
        for row in parameter.grad:
            if not math.isfinite(row.sum().item()):
                raise FloatingPointError("a gradient is not finite")


### BEGIN SOLUTION
### GAP # Rewrite one of the functions above.
# The cures of all four places. Yours takes the place of the function above, without `cured_`.
def cured_share(lengths):
    """Deal the samples in turn, the longest first."""
    longest = sorted(range(len(lengths)), key=lambda number: -lengths[number])
    return longest[dist.get_rank() :: dist.get_world_size()]


def cured_batches(task):
    """Let a thread read one step ahead."""
    ready = queue.Queue(maxsize=1)
    shares = [share(lengths) for lengths in task.lengths]

    def read():
        for step, numbers in enumerate(shares):
            ready.put(torch.cat([task.read(step, number) for number in numbers]))

    threading.Thread(target=read, daemon=True).start()
    for _ in shares:
        yield ready.get()


def cured_add_up(model):
    """Send the gradients of all parameters as one message."""
    gradients = [parameter.grad for parameter in model.parameters()]
    row = torch.cat([gradient.flatten() for gradient in gradients])
    dist.all_reduce(row)
    pieces = row.split([gradient.numel() for gradient in gradients])
    for gradient, piece in zip(gradients, pieces, strict=True):
        gradient.copy_(piece.view_as(gradient))


def cured_check_gradients(model):
    """Ask once: one number that is not finite makes the sum not finite."""
    sums = [parameter.grad.sum() for parameter in model.parameters()]
    if not math.isfinite(torch.stack(sums).sum().item()):
        raise FloatingPointError("one of the gradients is not finite")


### END SOLUTION


def train(task):
    for step, batch in enumerate(batches(task)):
        task.optimizer.zero_grad()
        loss = task.loss(batch) / sum(task.lengths[step])
        loss.backward()
        add_up(task.model)
        check_gradients(task.model)
        task.optimizer.step()


# %% id="ex2-mine" tags=["solution"]
names = dict(reading="batches", asking="check_gradients", messages="add_up", dealing="share")
with (lab.work / "my_cure.py").open("a") as file:
    print(f"\n\n{names[place]} = cured_{names[place]}", file=file)

# %% id="ex2-run" tags=["exercise"]
cured = lab.submit(trial.recipe("cured", "work/my_cure.py", "cure"))
cured.watch()
show.step_time({"slow": slow.profile.overlap, "cured": cured.profile.overlap})

# %% id="ex2-check" tags=["check"]
check.ex05_cure(cured)

# %% [markdown] id="ex2-why" tags=["solution"]
# Each place leaves its own trace:
#
# - *Reading* shows long ranges `data` on all ranks, and no rank waits. A thread can hide reading that waits for a
#   disk, because Python lets other threads run meanwhile.
# - *Asking* shows thousands of tiny operators. Each operator takes microseconds to start and microseconds to run. A
#   GPU suffers more, because `.item()` makes the program wait until the device has finished all earlier work.
# - *Messages* show many short all-reduces on all ranks, and each pays the latency of the link.
# - *Dealing* shows ranks that wait for one another. The samples are sorted by length, so the last rank gets the
#   longest samples.
#
# In the first three cases all ranks are equally slow, so no rank waits. A profile that shows little communication
# therefore does not prove that a step is fast.

# %% [markdown] id="ex3" tags=["exercise"]
# > **Exercise 05.3** — A cluster charges for every device of a job as long as the job runs, whether the device
# > works or waits. In the recorded steps of `ill`, what **percentage** of the device time of all four ranks went
# > into *waiting* for another rank? The transfer itself does not count. `ill.profile.overlap` holds each rank's
# > steps.

# %% id="ex3-gap" tags=["exercise"]
### BEGIN SOLUTION
### GAP waiting_percent = ...
ranks = len(ill.profile.ranks)
device_time_ms = ranks * ill.profile.overlap["total_us"].mean() / 1e3  # of a step
waiting_percent = 100 * waiting_ms(ill)["waiting (ms)"].sum() / device_time_ms
### END SOLUTION

# %% id="ex3-check" tags=["check"]
check.ex05_waiting(waiting_percent, ill)

# %% [markdown] id="ex3-why" tags=["solution"]
# A value of `waiting_ms` is for one step of one rank. So divide the sum over the ranks by the device time of all four
# ranks in one step. Three ranks wait for about 200 ms while the fourth reads its data. Every run adds a little waiting
# of its own. With 1000 devices, 999 would wait for one slow disk.

# %% [markdown] id="challenge" tags=["exercise"]
# > **Going further** — Record the run with `gpt.recipe(…, zero=1)` instead of plain data parallelism, so that the
# > devices share the optimizer state (lesson 06). Which collectives replace the all-reduce, and how does the
# > optimizer's memory change?

# %% [markdown] id="home"
# ## To take home
#
# - Curves show that a run is slow, and a profile shows why. Record few steps but several ranks, because one rank
#   alone cannot separate waiting from transfer.
# - Communication is waiting plus transfer. The rank that waits least is the rank that the others wait for.
# - If matmuls do not lead the list of operators, ask why.
# - You have found the cause if removing it makes the run as fast as predicted.
# - Memory rises in forward and falls in backward, on top of the parameters, gradients and optimizer state that are
#   always there.
#
# References: PyTorch, [torch.profiler](https://docs.pytorch.org/docs/stable/profiler.html).
# [Perfetto](https://ui.perfetto.dev). Meta, [Holistic Trace
# Analysis](https://github.com/facebookresearch/HolisticTraceAnalysis).

# %% [markdown] id="clean-idea"
# ## Cleaning up

# %% id="clean"
lab.clean("healthy", "ill", "proof", "slow", "cured", yes=True)
