# %% [markdown] id="title"
# # 03 Data parallelism on two nodes
#
# One device learns by looking at a few samples, working out in which direction every number of the
# model should move, and moving it. Four devices can look at four times as many samples in the same
# time. What must they tell each other, so that it is still *one* model that learns? In this lesson you
# send a small GPT to four devices on two nodes, read what it prints, and find out where the time goes.
#
# | | |
# |---|---|
# | You will be able to | read a multi-node job script line by line; say what data parallelism exchanges, and when; read a training log as text and as a table; tell strong scaling from weak; hide communication behind arithmetic |
# | Minutes | 45 |
# | Devices | 2 nodes with 2 devices each |
# | Before | lesson 00 |

# %% id="begin"
import pandas as pd

from course_lib import Lab, check, claim, gpt, predict, show

lab = Lab()

# %% [markdown] id="model-idea"
# ## The model
#
# The program that your jobs start is `code/pretrain_gpt.py`. It trains a GPT: text goes in as a row of
# *tokens* (numbers for pieces of words), and at every place the network guesses which token comes next.
# How badly it guesses is the **loss**. A network that knows nothing spreads its guess over the whole
# vocabulary, and its loss is the logarithm of the vocabulary's size: ln 8192 ≈ 9.0 for the 8192 pieces
# here (in *nats*, the unit of a natural logarithm). Your run will begin near this number.
#
# The model here is a small sister of those that you read about, with 4 layers of width 128, so that a run takes
# seconds even without GPUs. (`model="lab"` has 12 layers of width 768 and is for GPUs.) A **recipe** says what to
# run and on how much of the cluster:

# %% id="recipe"
dp4 = gpt.recipe(
    "dp4",
    nodes=2,
    gpus_per_node=2,
    micro_batch=2,
    global_batch=8,
    iterations=12,
)

# %% [markdown] id="batch-words"
# ### Three numbers that are easily confused
#
# - the **micro-batch** is how many samples one device passes through the model at once,
# - the **data-parallel size** is how many copies of the model there are,
# - the **global batch** is how many samples count for one step, over all copies.
#
# Without further tricks the third is the product of the first two. (Lesson 10 adds a factor.)

# %% [markdown] id="script-idea"
# ## The script, line by line
#
# This is what will be handed to Slurm, no more and no less.

# %% id="script"
lab.script(dp4)

# %% [markdown] id="script-explain"
# | lines | why they are there |
# |---|---|
# | `#SBATCH --nodes … --ntasks-per-node=1` | two machines, and **one** task on each. The task is not the training process but a *launcher*, `torchrun`, which starts one process per device. |
# | `set -eo pipefail` and the `trap` | a job that goes on after an error produces the wrong error. The trap writes down the exit code when the script ends, however it ends. |
# | `OMP_NUM_THREADS` | with how many threads a process computes. Left alone, each takes one for every core of the node, and the processes fight for the same cores; `torchrun`, left alone, gives each only one. |
# | `SRUN_CPUS_PER_TASK` | `--cpus-per-task` counts for the job; since Slurm 22.05 `srun` does not take it over by itself, and a launcher would get a single core. |
# | `scontrol show hostnames "$SLURM_JOB_NODELIST"` | Slurm writes `node[1-2]`; the processes need names one by one. The first becomes the meeting point. |
# | `MASTER_PORT` from the job's number | two jobs on one node must not wait at the same door. |
# | `srun … torchrun` | `srun` carries the launcher to both nodes. Without it, the second node would be reserved, paid for, and idle. |
# | `--kill-on-bad-exit=1` | when a launcher fails, `srun` ends the others, which would wait for it until the time limit. |
# | `--rdzv-backend=c10d --rdzv-endpoint` | the *rendezvous*: launchers meet there, count themselves, and agree on who is which rank. It asks nobody for a password and runs what it is sent: on a real cluster the site must see to it that no other user reaches the ports of a job's nodes (nodes lent whole, or a firewall between users). The box's nodes have a network of their own. |
# | `--max-restarts=0` | `torchrun` could start all processes anew when one fails. That helps a program that saves checkpoints and goes on from the last one; for a first run, the first error should end it. |
# | the rest | arguments of the program, with the names that Megatron-LM uses, a widely used program for training large models. |
#
# A **rank** is the number of a training process, from 0 to the *world size* minus one. Ranks 0 and 1 live on one
# node, 2 and 3 on the other; within its node each also has a *local rank*, 0 or 1, and takes the
# device with that number.

# %% [markdown] id="run-idea"
# ## Run it
#
# `watch` follows the job through the queue and shows where its training stands, until it is over.

# %% id="run"
run = lab.submit(dp4)
run.watch()

# %% [markdown] id="twice"
# Run the cell above once more: nothing is submitted. A run belongs to its recipe; while the recipe is the same, you get
# the run that there is, also tomorrow. (A run that was cancelled is submitted anew.)


# %% [markdown] id="world-idea"
# ## Read the log
#
# What a job printed is text, and the oldest tool for text is `grep`. The first thing to look at in any
# parallel run is whether the world is what you wanted it to be:

# %% id="world-grep"
# !grep "using world size" "{run.log_file}"

# %% [markdown] id="world-explain"
# World size 4 and data-parallel size 4: four processes, each with a whole copy of the model. Everything else,
# other ways to spread a model, is 1 or `None` for now. If this line says 1 where you expected 4, four separate programs run: each trains its own model,
# none of them is any faster, and nothing crashes.
#
# Then the iterations:

# %% id="iterations-grep"
# !grep "iteration " "{run.log_file}" | tail -n 3

# %% [markdown] id="iterations-explain"
# | field | says |
# |---|---|
# | `consumed samples` | on all devices together; so do papers count: a "batch of 4 million tokens" is what all devices see in one step |
# | `elapsed time per iteration (ms)` | mean since the last line |
# | `learning rate`, `global batch size` | how far the *next* step will go, so the last line may say 0; samples per step |
# | `lm loss` | the loss: mean over all devices, and over the steps since the last line |
# | `loss scale` | 1.0: no scaling. Lesson 08 needs it. |
# | `grad norm` | length of the gradient, before it is cut to at most 1 (*clipping*) |
# | `number of skipped`, `nan iterations` | steps that were thrown away; anything but 0 needs a reason |
#
# The same as data:


# %% id="iterations-table"
columns = ["iteration", "consumed_samples", "elapsed_ms", "learning_rate", "lm_loss", "grad_norm"]
run.log.iterations[columns]

# %% [markdown] id="split-idea"
# ## Who looks at what?
#
# Nobody hands out samples, and nobody sends around the first weights. Every rank works both out for itself. Here
# are the lines that do it, as they stand in the program:

# %% id="split-code"
lab.code("dataset/samples.py", "Loader.micro_batch")

# %% [markdown] id="split-words"
# `first_sample` is how many samples the run has consumed before this step; `data.size` is the data-parallel size and
# `data.index` the place of this rank among the copies. `number` counts micro-batches within the step and is 0 here.
#
# **Predict.** Samples are numbered from 0, in an order that all ranks shuffle with the same seed. With which sample
# does **rank 2** begin its **second** step in your run?

# %% id="split-guess"
### BEGIN SOLUTION
### GAP guess_sample = ...  # "sample 0" to "sample 23", in place of the dots
guess_sample = "sample 4"
### END SOLUTION

# %% id="split-see"
second_step = predict(
    "03: first sample of rank 2 in its second step",
    guess_sample,
    choices=[f"sample {number}" for number in range(24)],
)
micro, copies = 2, 4
starts = pd.DataFrame(
    {
        f"step {step + 1}": [step * micro * copies + rank * micro for rank in range(copies)]
        for step in range(3)
    }
).rename_axis(index="first sample of rank")
second_step.compare(f"sample {starts.loc[2, 'step 2']}")
starts

# %% [markdown] id="split-explain"
# **Explain.** In each step the four ranks take neighbours, two samples each, and together the next eight. A wrong
# sampler is a mistake that nothing reports: if all ranks took the *same* two samples, losses would still fall, at the
# price of four devices and with the progress of one. (`torch.utils.data.DistributedSampler` does this work for a
# `DataLoader`, and wants `set_epoch(epoch)`, or every epoch has the same order.)
#
# And the weights? Each parameter is drawn by a generator that is seeded with the run's seed and the parameter's
# own name, so every rank draws the same:


# %% id="seed-code"
lab.code("training/model.py", "initialise")

# %% [markdown] id="same-idea"
# ## Is it the same model?
#
# Each device computed gradients from *its* two samples. Before the optimizer moves anything, they are
# summed over the ranks by an **all-reduce**: every device hands in its numbers, and every device gets the result for
# all. (Each token's loss was divided by the tokens of the *global* batch before, so the sum is the mean.) All four
# copies then take the same step, so they stay equal without ever being compared. This is the place; step 3 is
# yours, the others belong to later lessons:

# %% id="reduce-code"
lab.code("parallel/data_parallel.py", "Replicated.reduce")

# %% [markdown] id="same-predict"
# **Predict.** One device with micro-batch 8 sees the same eight samples per step. Will its losses be the same to the
# last digit, nearly the same, or different?

# %% id="same-guess"
### BEGIN SOLUTION
### GAP guess_same = ...  # "the same", "nearly the same" or "different"
guess_same = "the same"
### END SOLUTION

# %% id="same-run"
losses = predict(
    "03: losses of one device and of four",
    guess_same,
    choices=("the same", "nearly the same", "different"),
)
dp1 = gpt.recipe("dp1", nodes=1, gpus_per_node=1, micro_batch=8, global_batch=8, iterations=12)
run1 = lab.submit(dp1)
run1.watch()

# %% id="same-see"
show.loss(run1, run, difference=True)

# %% id="same-numbers"
difference = (run.log.iterations["lm_loss"] - run1.log.iterations["lm_loss"]).abs()
print(f"largest difference of the two losses: {difference.max():.1e}")
same = "the same" if difference.max() == 0 else "nearly the same"
losses.compare(same if difference.max() < 1e-3 else "different")

# %% id="same-claim" tags=["claim"]
claim("one device and four devices train the same model", difference.max(), most=1e-3)

# %% [markdown] id="same-explain"
# *Above: both curves, one on top of the other. Below: how far they are apart, in powers of ten; where they agree in every
# digit of the log, nothing is drawn.*
#
# **Explain.** If you guessed "different", you may have thought of four devices that each learn something else. But
# the mean of four means of two samples *is* the mean of eight. "The same" is too much to rely on: computers round after
# every addition, and the two runs add in a different order. So they may differ in the last of the six decimals that the
# log prints or, as luck has it, in none.
#
# The rule has conditions. The mean of means is the mean only if every rank has the same number of tokens that count:
# with padded samples, sums and counts have to be reduced first. Dropout draws other masks on other ranks, and batch
# normalisation takes its statistics per device. Such runs are alike, not equal.


# %% [markdown] id="nodes-idea"
# ## One node against two
#
# Now a question of money. Two devices on one node, four devices on two nodes: how much faster do four learn?
# There are two honest ways to ask. Both compare samples per second with the same run on two devices, each with
# micro-batch 4:
#
# - **Strong scaling** keeps the global batch, 8, and spreads it over more devices. That is your run `dp4`: each
#   device has half as much to do per step.
# - **Weak scaling** keeps the micro-batch of each device, 4, so the global batch grows to 16.
#
# **Predict.** Ideally, four devices are twice as fast as two. How large will the two factors be?

# %% id="nodes-guess"
### BEGIN SOLUTION
### GAP guess_strong, guess_weak = ..., ...  # times as many samples per second
guess_strong, guess_weak = 2.0, 2.0
### END SOLUTION

# %% id="nodes-run"
strong_guess = predict("03: strong scaling, 4 devices over 2", guess_strong, unit="times")
weak_guess = predict("03: weak scaling, 4 devices over 2", guess_weak, unit="times")
short = {"gpus_per_node": 2, "micro_batch": 4, "iterations": 8}
run2 = lab.submit(gpt.recipe("dp2", nodes=1, global_batch=8, **short))
run4_weak = lab.submit(gpt.recipe("dp4-weak", nodes=2, global_batch=16, **short))
for each in (run2, run4_weak):  # the second needs all devices, and waits in the queue for the first
    each.require()


# %% id="nodes-see"
def samples_per_second(run):
    """Of a quick step: what disturbs a step makes it longer, never shorter."""
    iterations = run.log.iterations
    elapsed_s = iterations["elapsed_ms"].quantile(0.25) / 1000
    return float(iterations["global_batch_size"].iloc[-1] / elapsed_s)


speed = {each.name: samples_per_second(each) for each in (run1, run2, run, run4_weak)}
strong, weak = speed["dp4"] / speed["dp2"], speed["dp4-weak"] / speed["dp2"]
strong_guess.compare(strong)
weak_guess.compare(weak)
keeping = {
    "strong: global batch 8": ("dp1", "dp2", "dp4"),
    "weak: micro-batch 4": ("dp2", "dp4-weak"),
}
curves = [
    {"name": name, "devices": int(run_name[2]), "samples_per_second": speed[run_name]}
    for name, names in keeping.items()
    for run_name in names
]
show.scaling(pd.DataFrame(curves))

# %% id="nodes-claim" tags=["claim"]
claim("weak scaling of four devices over two", weak, least=1.2, most=2.1, unit="times")
claim("strong scaling of four devices over two", strong, least=0.85, most=1.8, unit="times")
claim("weak scaling is better than strong scaling", weak / strong, least=1.0, unit="times")

# %% [markdown] id="nodes-explain"
# *Left: samples per second; dotted: if nothing were lost. Right: the share of that which is left.*
#
# **Explain.** From one device to two, both on one node, some is lost already, to the optimizer's step, which does not shrink
# with a device's samples, and to the sum of the gradients, which is new. (Where four samples fit the caches of a processor
# better than eight, it may be next to nothing.) From two to four with the same global batch, more is lost: each device sends half as
# much again, which crosses the link between the nodes where they have one of their own, and every step waits for that. The volume that is sent does not shrink with the batch: there
# are as many gradients as parameters, whether a device saw one sample or a hundred. So the *more* work a device has per
# step, the smaller the share of waiting. That is why weak scaling looks better, and why you should ask which of the
# two a paper shows. (Its price is hidden here: a larger global batch makes fewer steps of the same data.)


# %% [markdown] id="time-idea"
# ## Where the time goes
#
# How much of a step is arithmetic, how much is waiting? The profiler of PyTorch writes down what each process
# does and when. Lesson 05 reads its traces in detail; here one figure is enough. The run resembles `dp4`: it has
# twice as many layers, a vocabulary of 1024 (in a large model, too, most parameters are in the layers), made-up
# text to go with it, and only a few steps, six of which are recorded on every rank.
#
# **Predict.** Before you run it, write a number down: how many percent of a step are your devices busy with
# exchanging gradients, and with nothing else?

# %% id="time-guess"
### BEGIN SOLUTION
### GAP guess_percent = ...  # of a step
guess_percent = 10
### END SOLUTION

# %% id="time-run"
exposed_guess = predict(
    "03: share of a step that is exposed communication", guess_percent, unit="%"
)
looked_at = {
    "nodes": 2,
    "gpus_per_node": 2,
    "num_layers": 8,
    "vocab_size": 1024,
    "mock_data": True,
    "micro_batch": 2,
    "global_batch": 8,
    "iterations": 10,
    "profile": (4, 10),
    "profile_ranks": [0, 1, 2, 3],
}
after_backward = lab.submit(gpt.recipe("after-backward", **looked_at))
after_backward.require()
show.step_time(after_backward.profile.overlap)


# %% id="time-see"
def exposed_ms(run):
    """Communication while nothing is computed, of the rank that comes last and waits for nobody:
    the median of the recorded steps."""
    steps = run.profile.overlap.groupby("step")
    return float(steps["exposed_communication_us"].min().median() / 1e3)


def step_ms(run):
    """Of the slowest rank: the median of the recorded steps."""
    return float(run.profile.overlap.groupby("step")["total_us"].max().median() / 1e3)


share = 100 * exposed_ms(after_backward) / step_ms(after_backward)
exposed_guess.compare(share)

# %% id="time-claim" tags=["claim"]
claim("gradients that nothing hides take a good part of a step", share, least=10, most=60, unit="%")

# %% [markdown] id="time-explain"
# **Explain.** The figure has one bar for each rank, in parts of a step. *Exposed* communication is the part during
# which nothing is computed. Here that is nearly all of it: the gradients are sent in one piece when the backward
# pass is over. Part of it is not sending but waiting: an all-reduce ends when the slowest rank has
# joined, and the bars of the others show that as communication too. (*Idle* is what is neither.) The number below the
# figure is therefore that of the rank that waits least, less than the bars show. (They are means of the recorded steps;
# numbers here and in the table below are medians.)
#
# ## Hiding it
#
# Other programs begin earlier. Backward starts at the *last* layer. As soon as a layer's gradients are there, their
# all-reduce can start, and the layers before it compute meanwhile:
#
# ![Seven pictures of one step on three ranks: same weights and other data; forward; backward of layer 3; backward of layer 2 while the gradients of layer 3 are averaged; backward of layer 1 while those of layer 2 are averaged; the average of layer 1; the optimizer's step, after which all ranks have the same weights again](../images/ddp_step.png)
#
# *A step that hides its communication: three ranks, a model of three layers. From picture 4 on, arrows
# average one layer while the next is computed; only the last all-reduce is exposed.*
#
# Megatron-LM's flag for it is `--overlap-grad-reduce`, and `--ddp-bucket-size` says how many gradients are
# collected in a **bucket** before it leaves. The same training, four ways:
#
# | run | gradients leave |
# |---|---|
# | `after-backward` | in one piece, after the backward pass |
# | `one-bucket` | early, but a bucket leaves only when it has all of them |
# | `buckets` | in buckets of 200,000: the matrices of a layer are 197,000, so two leave after every second layer |
# | `tiny-buckets` | in buckets of 50,000: four for each layer |
#
# **Predict.** Which of the four has the least exposed communication? And how many percent of the exposed
# communication of `after-backward` are left in `buckets`, for the rank that waits least?

# %% id="hide-guess"
### BEGIN SOLUTION
### GAP guess_least = ...  # "after-backward", "one-bucket", "buckets" or "tiny-buckets"
### GAP guess_left = ...  # percent
guess_least, guess_left = "tiny-buckets", 10
### END SOLUTION

# %% id="hide-run"
sizes = {"one-bucket": 10**9, "buckets": 200_000, "tiny-buckets": 50_000}
least_guess = predict("03: buckets that hide most", guess_least, choices=["after-backward", *sizes])
left_guess = predict("03: exposed communication that buckets leave", guess_left, unit="%")
hidden = {"after-backward": after_backward}
for name, size in sizes.items():
    hidden[name] = lab.submit(
        gpt.recipe(name, overlap_grad_reduce=True, ddp_bucket_size=size, **looked_at)
    )
for each in hidden.values():
    each.require()
show.step_time({name: each.profile.overlap for name, each in hidden.items()})

# %% id="hide-see"
exposed = pd.Series({name: exposed_ms(each) for name, each in hidden.items()})
left = 100 * exposed["buckets"] / exposed["after-backward"]
least_guess.compare(exposed.idxmin())
left_guess.compare(left)
whole = {name: step_ms(each) for name, each in hidden.items()}
pd.DataFrame({"exposed (ms)": exposed, "step (ms)": whole}).round()

# %% id="hide-claim" tags=["claim"]
claim("of the exposed communication, buckets leave", left, most=88, unit="%")
one_bucket = exposed["one-bucket"] / exposed["after-backward"]
claim("one bucket hides nothing", one_bucket, least=0.75, unit="times as much exposed")
tiny = exposed["tiny-buckets"] / exposed["after-backward"]
claim("tiny buckets cost more than they hide", tiny, least=1.1, unit="times")
plain, bucketed = (hidden[name].log.iterations["lm_loss"] for name in ("after-backward", "buckets"))
claim("buckets train the same model", (plain - bucketed).abs().max(), most=1e-3)

# %% [markdown] id="hide-explain"
# **Explain.** One bucket is no better than none: it is full when the backward pass is over. Buckets that leave with every
# second layer hide, but what leaves last has nothing left to hide behind: here the first layers and the table of word
# embeddings. Tiny buckets have the best intentions and, with latencies like these, the worst result: each all-reduce begins anew, with its messages
# and with four processes that have to come to it. Between the two lies a bucket that fills a message well and still leaves
# early. PyTorch's `DistributedDataParallel` (**DDP**), which you wrap round a model of your own, does this, with buckets
# of 25 MiB. Where the model does not fit on a device any more, **FSDP** spreads parameters, gradients and optimizer over the ranks and fetches what it needs, layer by layer;
# lesson 06 says why that moment comes.
#
# How long *should* the all-reduce take? That needs two numbers, the size of the gradients and the speed of
# the roads. You know the first:


# %% id="bytes"
parameters = run.log.parameter_count
print(
    f"{parameters:,} parameters × 4 bytes = {4 * parameters / 1e6:.1f} MB of gradients per step and device"
)

# %% [markdown] id="bytes-explain"
# The second is measured in lesson 04.

# %% [markdown] id="ex1" tags=["exercise"]
# ## Exercises
#
# > **Exercise 03.1** — Train with a global batch of 32 on all four devices of both nodes, for 5 iterations,
# > so that every device sees its whole share of the batch at once. Fill the gaps.

# %% id="ex1-gap" tags=["exercise"]
### BEGIN SOLUTION
### GAP wide = gpt.recipe(
### GAP     "wide", nodes=..., gpus_per_node=2, micro_batch=..., global_batch=32, iterations=5
### GAP )
wide = gpt.recipe("wide", nodes=2, gpus_per_node=2, micro_batch=8, global_batch=32, iterations=5)
### END SOLUTION
wide_run = lab.submit(wide)
wide_run.watch()

# %% id="ex1-check" tags=["check"]
check.ex03_wide(wide_run)

# %% [markdown] id="ex1-why" tags=["solution"]
# Four copies share 32 samples, so each passes 8 through the model at once. With micro-batch 2 the recipe
# would be accepted too: 2 × 4 is 8, and the program would go through the model four times before each step.
# That is gradient accumulation, the subject of lesson 10; the log then says
# `number of microbatches to constant 4`.

# %% [markdown] id="ex2" tags=["exercise"]
# > **Exercise 03.2** — The usual way to all-reduce is a *ring*: each device sends only to its neighbour, one
# > piece after the other (lesson 02 has you write one). With *d* devices every one of them sends 2 (*d* − 1) /
# > *d* times the size of what is reduced. How many **megabytes** (10⁶ bytes) does each device of the run
# > `dp4` send in its 12 iterations?

# %% id="ex2-gap" tags=["exercise"]
### BEGIN SOLUTION
### GAP megabytes_sent = ...
megabytes_sent = 12 * 2 * (4 - 1) / 4 * 4 * run.log.parameter_count / 1e6
### END SOLUTION

# %% id="ex2-check" tags=["check"]
check.ex03_megabytes(megabytes_sent, run)

# %% [markdown] id="ex2-why" tags=["solution"]
# Per iteration every device sends 1.5 times its 4 bytes per parameter. The factor goes towards 2 as *d*
# grows, and no further: with a thousand devices each one still sends twice the gradients. What grows is the
# number of steps round the ring, and each of them costs a latency.

# %% [markdown] id="challenge" tags=["exercise"]
# > **Going further** — Find the smallest micro-batch with which four devices on two nodes reach at least 80 %
# > of twice the speed of two devices on one node, or show that there is none, and say why. Which of the two
# > scalings are you measuring? Then suppose that every rank takes the samples
# > of rank 0: which number of the log could tell you?

# %% [markdown] id="home"
# ## To take home
#
# - Every device holds the whole model and looks at its own samples; once per step the gradients are averaged. That
#   makes it *one* model, up to rounding.
# - Read the world line first. World size 1 where you expected 4 means four separate models.
# - Global batch = micro-batch × data-parallel size. Weak scaling grows it, strong scaling keeps it.
# - The volume of communication depends on the model, not on the batch. More work per step makes it cheaper;
#   buckets of a good size hide it behind the backward pass.

# %% [markdown] id="clean-idea"
# ## Cleaning up
#
# The runs `dp4`, `dp1` and `wide` are small and may stay, to be compared with later ones. The others can go.

# %% id="clean"
lab.clean("dp2", "dp4-weak", *hidden, yes=True)
