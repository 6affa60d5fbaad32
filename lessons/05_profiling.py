# %% [markdown] id="title"
# # 05 Profiling: where a step loses its time
#
# A run is slower than it should be. Which of its thousand parts is to blame? Guessing is expensive: on a
# cluster, every guess is a job. A **profiler** writes down what every process did, and when. In this lesson
# you read such records as tables, as pictures and in TensorBoard, and use them to find out what is wrong with
# a run that was made slow on purpose. You also see, for the first time, the memory of a device fill and
# empty.
#
# | | |
# |---|---|
# | You will be able to | record a few steps of a run; split a step into its parts; tell waiting from working; find a bottleneck from evidence; read memory over time |
# | Minutes | 40 |
# | Devices | 2 nodes with 2 devices each |
# | Before | lessons 03 and 04 |

# %% id="begin"
import pandas as pd

from course_lib import Lab, check, claim, gpt, predict, show

lab = Lab()

# %% [markdown] id="record-idea"
# ## Two runs, one of them ill
#
# Both train the same small GPT on four devices. The second was given a flag that makes it slow; what the flag
# does, you will find out. In both, the steps 8 and 9 are recorded on all four ranks: `profile=(8, 10)` names
# the first step to record and the first not to. (It counts from 0, as the flags of Megatron-LM do; in the log,
# which counts from 1, these are iterations 9 and 10.) Two steps are enough. A record of everything would be large,
# and the recording itself costs time.
#
# The recording is done by PyTorch's own `torch.profiler`. In a program of yours it takes these lines:

# %% id="profiler-code"
lab.code("observing/profiling.py", "Profiler._start")

# %% [markdown] id="profiler-words"
# `schedule` leaves out nothing, throws the first step away (starting costs time) and keeps the next ones; after each
# step the training loop calls `recording.step()`. `on_trace_ready` writes the file when the last one is over.

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
healthy = lab.submit(healthy_recipe)
ill = lab.submit(ill_recipe)
for run in (healthy, ill):  # each needs all devices: the second waits in the queue for the first
    run.require()
show.throughput(healthy, ill, unit="ms")

# %% [markdown] id="board-idea"
# ## TensorBoard
#
# The program also writes its numbers for **TensorBoard**, a page that draws the curves of all runs side by
# side and is updated while they run. Open it, and choose a curve such as `iteration-time`:

# %% id="board"
lab.tensorboard("scalars")

# %% [markdown] id="board-explain"
# The page is served by your own notebook server, for you alone. It shows what the figure above shows: the ill run is
# slower from the start. (Longer in *both* runs are the first one or two steps, which warm up, and iteration 10: when the last recorded
# step is over, its file is written, and the log counts that in. The records below do not.) Curves tell *that* something is
# wrong, and since when. They do not tell what.
#
# Have a look at the loss as well. If it differs, the two runs do not do the same work:


# %% id="same-loss"
print(healthy.log.losses_beside(ill.log))

# %% [markdown] id="same-loss-explain"
# A difference below a thousandth of the loss is rounding. A larger one would mean that something else differs (the data,
# the batch, the program), which `healthy.compare(ill)` helps to find.


# %% [markdown] id="breakdown-idea"
# ## A step, cut into parts
#
# Begin with the healthy run. The record of a rank is a list of many thousand intervals: this operator from
# here to there. Every moment of the step belongs to one of a few kinds:
#
# | part | the rank |
# |---|---|
# | compute | works: an *operator* such as a product of matrices runs (on a GPU: a *kernel*, a program of the device; on the box also the sleep by which a slot keeps its pace) |
# | exposed communication | is inside an all-reduce or another exchange, and computes nothing meanwhile |
# | idle | neither: the program waits for something else, or Python is between two operators |
#
# **Predict.** Which share of a step of the healthy run is communication?

# %% id="breakdown-guess"
### BEGIN SOLUTION
### GAP guess_percent = ...  # of a step
guess_percent = 20
### END SOLUTION

# %% id="breakdown"
share_guess = predict("05: share of a healthy step that is communication", guess_percent, unit="%")
show.step_time(healthy.profile.overlap)

# %% id="breakdown-see"
sums = healthy.profile.overlap[
    ["compute_us", "exposed_communication_us", "idle_us", "total_us"]
].sum()
share = 100 * sums["exposed_communication_us"] / sums["total_us"]
share_guess.compare(share)

# %% [markdown] id="breakdown-explain"
# *Mean of the two recorded steps, one bar for each rank, with the share of each part.*
#
# **Explain.** The likely thought is that a training program mostly trains. How far that is true depends on how much
# arithmetic there is between two exchanges, and on the road: the gradients of lesson 04 have to travel, however few
# samples they were made from.
#
# TensorBoard's profiler tab does the same sums for one rank at a time. Open it, choose the run `healthy` and the views
# *Overview* and *Trace*. (PyTorch no longer works on this plug-in. The trace files are plain ones, and **Perfetto** is
# what most people look at them with today: open https://ui.perfetto.dev and drop a file of the list below onto it. It
# stays in your browser.) The table after it holds the same sums for all ranks at once:


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
# `step` is the recorder's own count: its 1 and 2 are the steps 8 and 9. `kernel_ms` is time on a GPU, `cpu_ms` time of
# operators on the processor; without a GPU the first is 0 and the second is the work, on the box with the sleep by which a slot keeps its pace. `other_ms` is what is left.
#
# Which operators does the work consist of? In the figure, the *self* time of an operator leaves out the operators
# that it calls. It is the sum over both recorded steps of all four ranks; *host* is the processor:

# %% id="operators"
show.operators(healthy.profile, top=8)

# %% [markdown] id="operators-explain"
# `aten::addmm` and `aten::mm` are products of matrices; `aten` is the name of PyTorch's library of operators.
# A healthy training step is made of products of matrices, some element-wise work between them, and
# communication. (`_Product`, where it is in the list, is the program's own function around a product. Leave out
# `course::pace`, where it is there: the sleep by which a slot keeps its pace, lesson 00.)
# If something else leads this list, ask why. On a GPU a step may also be *launch-bound*: kernels so short that the
# program cannot start them fast enough, which shows as gaps between them. (What happens below PyTorch, NVIDIA's
# `nsys` records; for traces of hundreds of ranks there is Holistic Trace Analysis.)

# %% [markdown] id="ill-idea"
# ## What is wrong with the ill run?
#
# Now the same cut through the ill run.
#
# **Predict.** Before you look: every step of it is slower. You have just seen how much of a healthy step is
# communication, and in lesson 04 what a slow road does. Is the network to blame?

# %% id="ill-guess"
### BEGIN SOLUTION
### GAP guess_cause = ...  # "the network", "the arithmetic" or "something else"
guess_cause = "the network"
### END SOLUTION

# %% [markdown] id="outside-idea"
# ### From outside
#
# Many clusters have a page that shows how busy the devices of a job are. `monitor=True` in the recipes does the same
# in small: once a second, how busy each rank (or GPU) is, and how much its node has sent. (`run.watch()` shows these
# curves while a job runs.)

# %% id="outside"
cause = predict(
    "05: why the ill run is slow",
    guess_cause,
    choices=("the network", "the arithmetic", "something else"),
)
monitored = len(ill.monitor.load) > 0
show.monitor(ill.monitor) if monitored else f"no look was recorded: {ill.folder / 'monitor.log'}"


# %% id="outside-table"
def from_outside(run):
    """A usual look at the ranks while the nodes sent, and at the nodes in their fuller seconds."""
    seen = run.monitor
    sent_mb_s = seen.load.set_index("time_s")["network_out_bytes_s"].dropna() / 1e6
    training = sent_mb_s[sent_mb_s >= sent_mb_s.max() / 2].index
    busy = seen.ranks.set_index("time_s")["slot_percent"]
    if len(seen.devices):
        busy = seen.devices.set_index("time_s")["utilisation_percent"]
    inside = (busy.index > training.min() - 0.1) & (busy.index < training.max() + 0.1)
    # In the first and the last second only a part of the time was training.
    return {
        "busy (%)": busy[inside].median(),
        "sent by a node (MB/s)": sent_mb_s.quantile(0.75),
    }


pd.DataFrame({run.name: from_outside(run) for run in (healthy, ill)}).T.round(1)

# %% [markdown] id="outside-explain"
# *The ill run while it ran: one curve for each rank (or GPU) and each node. For a rank on a processor, 100 % is the rate
# of its slot; sending and writing files count as well, and are not paced. Memory is that of
# the whole process, with its libraries; tensors are a small part of it (further down). The table: both runs while they trained.*
#
# **Explain.** If the ill run sends less per second, and its ranks are less busy, what does that prove? That its steps are
# rarer, and that something is waited for; no more. A slow network looks like this, too: fewer bytes a second arrive, and
# the ranks wait for them. So does one rank that keeps the others waiting. From outside the two are alike.
#
# On GPUs one sees even less: a GPU that waits inside an NCCL all-reduce asks again and again whether
# the others have come, and counts as busy. And what goes over InfiniBand bypasses the operating system, which counts
# only ordinary network traffic.
#
# ### From inside
#
# So to the profile:

# %% id="ill-breakdown"
show.step_time({"healthy": healthy.profile.overlap, "ill": ill.profile.overlap})

# %% [markdown] id="ill-explain"
# *The same bars for both runs, rank by rank.*
#
# Compare the bars of the ill run with those of the healthy one. In three of the four ranks communication has
# grown by a lot, and it is tempting to stop here and write to the people who run the network. But one rank is
# different: its communication has *not* grown, and it is idle instead.
#
# An all-reduce ends for nobody before the last rank has brought its part, and then for all at about the same moment. The
# time that a rank spends inside therefore has two parts: **waiting** for the last one to come, and the **transfer**
# itself. One record cannot tell them apart. Four can: the rank that came last waited for nobody, so the time
# *it* spent is the transfer, and whatever the others spent beyond that is waiting. (A step has some small exchanges besides, to
# which another rank may come last. The table adds them all up, so the rank that is waited for shows some milliseconds, too.)


# %% id="waiting"
def waiting_ms(run):
    """Per rank and recorded step."""
    steps = run.profile.overlap["step"].nunique()
    table = run.profile.communication.groupby("rank")[
        ["data_transfer_us", "synchronising_us"]
    ].sum()
    return (table / steps / 1e3).round(1).set_axis(["transfer (ms)", "waiting (ms)"], axis=1)


pd.concat({"healthy": waiting_ms(healthy), "ill": waiting_ms(ill)}, axis=1)

# %% [markdown] id="waiting-explain"
# **Who waits least is waited for.** Look at what has grown from the healthy run to the ill one: the waiting, and
# by far more than the transfer. So the network is not to blame. In the ill run three ranks wait, all for the
# same fourth. Whatever is wrong happens there, and before the all-reduce.
#
# What did that rank do while the others waited? The program gives names to what it does (`forward 0`,
# `backward 0`, `data`), and the profiler records these *ranges* too:

# %% id="suspect"
suspect = int(waiting_ms(ill)["waiting (ms)"].idxmin())
print(f"everyone waits for rank {suspect}")
show.timeline(ill.profile, step=int(ill.profile.overlap["step"].min()))

# %% id="suspect-claim" tags=["claim"]
waits = {run.name: waiting_ms(run) for run in (healthy, ill)}
grown = waits["ill"].mean() - waits["healthy"].mean()
by_waiting = grown["waiting (ms)"] / (grown["waiting (ms)"] + max(grown["transfer (ms)"], 0))
claim("what has grown is waiting, not transfer", 100 * by_waiting, least=75, unit="%")
claim("the straggler is rank 2", suspect, least=2, most=2)

# %% [markdown] id="suspect-caption"
# *The first recorded step of the ill run (step 8 of the flags, iteration 9 of the log), rank by rank. A range that lies
# inside another is drawn one row below it: the program sums its gradients as the first thing in `optimizer`. Compare
# the ranks from the left: what does the suspect do while the others are already computing, and what do they do when it
# begins? (At the left each rank sums the last step's loss with the others, for the log. Grey is what the key does not name. After `layers`, `forward` computes the output layer, and on the box the slot
# sleeps.)*
#
# The same ranges as numbers:

# %% id="ranges"
ranges = ill.profile.ranges
ranges = ranges[ranges["name"].isin(["data", "forward 0", "backward 0", "optimizer"])]
(ranges.pivot_table(index="name", columns="rank", values="total_us") / 1e3).round(1)

# %% [markdown] id="ranges-explain"
# **Explain.** Each number is the time of both recorded steps, in milliseconds. Three ranks have their data at once. One
# takes a few hundred milliseconds to get it: its disk is slow. (There is no such disk. The flag plants the fault: that
# rank sleeps before it reads; see `code/faults/bottlenecks.py` after the exercises.) The others are as slow as it is,
# although nothing is wrong with *them*, and their records alone would have accused the network.
#
# This kind of trouble has a name, the **straggler**: a disk, a hot device that has lowered its clock, another user's
# process on one node. With a thousand ranks, the slowest of a thousand sets the pace.
#
# The library draws such conclusions too. It prints evidence, not certainty; the last word is yours:


# %% id="recommendations"
cause.compare("something else")
print("The evidence:")
for each in ill.profile.recommendations:
    print(f"- {each.title}: {each.evidence}.")

# %% [markdown] id="recommendations-explain"
# All of these are true, and only one is the cause. *Exposed communication* is what the first look at the bars said: it
# counts the waiting as communication. Ranks that are *out of step*, where that is in the list, compute unequally long;
# compare their bars. The share of *waiting* is the one that you will work out yourself in exercise 05.3.

# %% [markdown] id="cure-idea"
# ## The cure, and the proof
#
# A bottleneck has been found when removing it makes the run as fast as you said it would. The healthy run is the ill
# run without the fault. But the two ran one after the other, and if something else kept the machine busy during one of
# them, the comparison is unfair. So the test is one run, `proof`, in which the disk is slow in every second step only:
# whatever else happens on the machine, ill and cured steps meet it alike. Five steps of each kind are recorded.
#
# Take what the other ranks wait off an ill step. What is left should be as long as a cured step, but for the waiting
# that a cured step has as well. That is your prediction. Length and waiting are measured in the same steps: a disturbance
# of one rank makes both longer by as much, and what is left stays the same.

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
proof = lab.submit(proof_recipe)
proof.require()

by_rank = proof.profile.overlap.pivot(index="step", columns="rank")
inside_us = by_rank["exposed_communication_us"]
last_us = inside_us.min(axis=1)  # of the rank that came last
others_us = (inside_us.sum(axis=1) - last_us) / (len(inside_us.columns) - 1)
waited_ms = (others_us - last_us) / 1e3
step_ms = by_rank["total_us"].mean(axis=1) / 1e3
is_ill = step_ms.index % 2 == 1  # the recorder counts from 1, and its first step is an ill one

should_be_ms = (step_ms - waited_ms)[is_ill].mean() + waited_ms[~is_ill].mean()
cured_ms = step_ms[~is_ill].mean()
show.predicted({"a step, cured": should_be_ms}, {"a step, cured": cured_ms}, unit="ms")

# %% id="cure-claim" tags=["claim"]
claim("the cure is as good as predicted", cured_ms / should_be_ms,
      least=0.85, most=1.15, unit="times")  # fmt: skip

# %% [markdown] id="cure-explain"
# If both bars are about as long, the diagnosis explains the loss. A large gap would mean a second cause, smaller than
# the first; bottlenecks come in layers, and after each cure another one is the largest.

# %% [markdown] id="memory-idea"
# ## Memory over time
#
# The healthy run also recorded every tensor that was made and freed in the two steps, on every rank.
#
# **Predict.** What will the curve of memory in use look like over two training steps? Draw it on paper: where
# does it rise, where does it fall, and does it return to zero?

# %% id="memory"
show.memory(healthy.memory[0])

# %% [markdown] id="memory-explain"
# *Memory in use on rank 0 over the two recorded steps, by what it is used for. The bands behind are the phases of
# a step. On the box forward and backward each end with a quiet stretch: the slot sleeps, to keep its pace.*
#
# **Explain.** Two steps, two humps. From the bottom:
#
# - **parameters**, **gradients** and the **optimizer**'s state are there all the time, however small the
#   batch. (This program keeps its gradients in one buffer. Plain PyTorch frees them with `zero_grad()` and makes new
#   ones in backward.) They do not return to zero between steps; the likely thought that a step begins with empty memory
#   is wrong.
# - **activations** grow during the *forward* pass, layer by layer: each layer keeps what its own backward
#   pass will need. The last and largest step of the climb belongs to the output layer, which holds a number
#   for every token and every word of the vocabulary. During the *backward* pass activations are used up in
#   the reverse order and freed. The peak lies where forward turns into backward.
# - **temporary** memory is what an operator needs only while it runs.
#
# The peak need not lie there in every program: an optimizer that makes temporary copies of everything at once, or
# buckets of gradients that wait to be sent, can move it. What this peak is made of, on rank 0:

# %% id="memory-parts"
peak = healthy.memory[0].peak_composition
pd.DataFrame({"part": list(peak), "MiB": [round(size / 2**20, 1) for size in peak.values()]})

# %% [markdown] id="memory-numbers"
# Three of the numbers you can check by hand. Each parameter has 4 bytes, and so has its gradient; the optimizer
# Adam keeps two more numbers, 8 bytes, for each parameter:

# %% id="memory-check"
parameters = healthy.log.parameter_count
mib = 4 * parameters / 2**20
print(f"parameters {mib:.1f} MiB, gradients {mib:.1f} MiB, optimizer {2 * mib:.1f} MiB")

# %% [markdown] id="memory-end"
# (The program aligns its buffers, so it may use a few hundred bytes more.) Lesson 06 fills the memory on
# purpose.

# %% [markdown] id="ex1" tags=["exercise"]
# ## Exercises
#
# > **Exercise 05.1** — There is a second planted fault. Make a run `second` like the ill one, on both nodes, with
# > the other fault planted, 12 iterations, and recorded on all four ranks in the steps in which the ill one was. Fill
# > the gaps.

# %% id="ex1-gap" tags=["exercise"]
### BEGIN SOLUTION
### GAP second_recipe = gpt.recipe(
### GAP     "second",
### GAP     nodes=2,
### GAP     gpus_per_node=2,
### GAP     micro_batch=2,
### GAP     global_batch=8,
### GAP     iterations=12,
### GAP     profile=...,
### GAP     profile_ranks=...,
### GAP     planted_bottleneck=...,
### GAP )
second_recipe = gpt.recipe(
    "second",
    nodes=2,
    gpus_per_node=2,
    micro_batch=2,
    global_batch=8,
    iterations=12,
    profile=(8, 10),
    profile_ranks=list(range(4)),
    planted_bottleneck=2,
)
### END SOLUTION
second = lab.submit(second_recipe)
second.wait()

# %% id="ex1-check" tags=["check"]
check.ex05_second(second)

# %% [markdown] id="ex2" tags=["exercise"]
# > **Exercise 05.2** — Which operator is called far more often in `second` than in `healthy`, and how many
# > times does **one rank** call it in **one step**? Give its name and the number. (The tables are
# > `second.profile.operators` and `healthy.profile.operators`, with one row for each rank and operator. Several
# > names have grown together, since one operator calls another. Those that merely cut a tensor into pieces,
# > such as `aten::slice`, are not the point: what is done with each piece?)

# %% id="ex2-gap" tags=["exercise"]
### BEGIN SOLUTION
### GAP operator, calls_per_step = ..., ...
both = {run.name: run.profile.operators for run in (second, healthy)}
calls = pd.DataFrame(
    {name: table[table["rank"] == 0].set_index("name")["calls"] for name, table in both.items()}
)
grown = (calls["second"] - calls["healthy"].fillna(0)).sort_values(ascending=False)
operator, calls_per_step = "aten::item", calls.loc["aten::item", "second"] / 2
grown.head(5)
### END SOLUTION

# %% id="ex2-check" tags=["check"]
check.ex05_operator(operator, calls_per_step, second, healthy)

# %% [markdown] id="ex2-why" tags=["solution"]
# The second planted fault looks at the gradients in rows of 1024 numbers, sums each row, and asks for the sum as a
# number of Python with `.item()`: a few thousand tiny operators where one would do. Each takes microseconds of
# work and costs as much again to start. On a GPU it is worse: `.item()` makes the program wait until the device
# has finished everything before, so that the device runs dry between any two. The cure is to ask once:
# `gradients.sum().isfinite()` is one pass over the memory. Here all ranks are slow alike, so nobody waits for
# anybody, and the share of communication may even look better than before. A good share is not the same as a
# fast step.

# %% [markdown] id="ex3" tags=["exercise"]
# > **Exercise 05.3** — A cluster charges for every device of a job as long as the job runs, working or not. In the
# > recorded steps of `ill`, how many **percent** of the device time of all four ranks together went into *waiting*
# > for another rank? (The transfer itself does not count. Each rank's steps are in `ill.profile.overlap`.)

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
# Both sides must be of the same kind: `waiting_ms` is for one step of one rank, so its sum over the ranks belongs to
# the four devices' time of one step. Three ranks wait for about the 200 ms that the fourth spends on its data, and for
# what ranks wait for each other anyway. That share of the bill bought nothing. With more devices it is not three
# of four that stand still for one slow disk, but 999 of 1000.

# %% [markdown] id="challenge" tags=["exercise"]
# > **Going further** — Record the run with `gpt.recipe(…, zero=1)` instead of plain data parallelism: the copies then
# > share the optimizer's state (lesson 06). Which collectives replace the all-reduce, and how does the memory of the
# > optimizer change?

# %% [markdown] id="home"
# ## To take home
#
# - Curves say that a run is slow, a profile says why. Record few steps, but several ranks: one alone cannot tell waiting
#   from transfer.
# - Communication is waiting plus transfer. Who waits least is waited for.
# - A list of operators that is not led by products of matrices deserves a question.
# - A cause is found when its removal makes the run as fast as predicted.
# - Memory rises in forward and falls in backward, on top of what is always there.

# %% [markdown] id="clean-idea"
# ## Cleaning up

# %% id="clean"
lab.clean("healthy", "ill", "proof", "second", yes=True)
