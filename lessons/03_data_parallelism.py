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
# | You will be able to | read a multi-node job script line by line; say what data parallelism exchanges, and when; read a training log as text and as a table; tell strong scaling from weak |
# | Minutes | 40 |
# | Devices | 2 nodes with 2 devices each |
# | Before | lesson 00 |

# %% id="begin"
from course_lib import Lab, check, claim, gpt, show

lab = Lab()

# %% [markdown] id="model-idea"
# ## The model
#
# The program that your jobs start is `code/pretrain_gpt.py`. It trains a GPT: text goes in as a row of
# *tokens* (numbers for pieces of words), and at every place the network guesses which token comes next.
# How badly it guesses is the **loss**. A network that knows nothing spreads its guess over the whole
# vocabulary, and its loss is the logarithm of the vocabulary's size: ln 8192 ≈ 9.0 for the 8192 pieces
# here. Your run will begin near this number.
#
# The model here is a small sister of those that you read about, with 4 layers of width 128, so that a run takes
# seconds even without GPUs. (`model="lab"` has 12 layers of width 768; it is the model of a published lab that
# trained on 2 nodes with 2 V100 GPUs each. This course follows that lab, and sets its numbers beside yours.) A
# **recipe** says what to run and on how much of the cluster:

# %% id="recipe"
dp4 = gpt.recipe(
    "dp4",
    nodes=2,
    gpus_per_node=2,
    micro_batch=2,
    global_batch=8,
    iterations=40,
    log_interval=5,
)

# %% [markdown] id="batch-words"
# ### Three numbers that are easily confused
#
# - the **micro batch** is how many samples one device passes through the model at once,
# - the **data-parallel size** is how many copies of the model there are,
# - the **global batch** is how many samples count for one step, over all copies.
#
# Without further tricks the third is the product of the first two. (Lesson 10 adds a factor.)
#
# **Predict.** How many samples has this run seen after its 40 iterations?

# %% id="batch-guess"
guess_samples = 80  # change it to your own guess

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
# | `scontrol show hostnames "$SLURM_JOB_NODELIST"` | Slurm writes `node[1-2]`; the processes need names one by one. The first becomes the meeting point. |
# | `MASTER_PORT` from the job's number | two jobs on one node must not wait at the same door. |
# | `srun … torchrun` | `srun` carries the launcher to both nodes. Without it, the second node would be reserved, paid for, and idle. |
# | `--rdzv-backend=c10d --rdzv-endpoint` | the *rendezvous*: launchers meet there, count themselves, and agree on who is which rank. It asks nobody for a password and runs what it is sent: on a real cluster the site must see to it that no other user reaches the ports of a job's nodes (nodes lent whole, or a firewall between users). The box's nodes have a network of their own. |
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
# Run the cell above once more: nothing is submitted. A run belongs to its recipe; while the recipe is the same,
# you get the run that there is. That also holds tomorrow, and after the notebook's kernel has died.

# %% [markdown] id="world-idea"
# ## Read the log
#
# What a job printed is text, and the oldest tool for text is `grep`. The first thing to look at in any
# parallel run is whether the world is what you wanted it to be:

# %% id="world-grep"
# !grep "using world size" {run.log_file}

# %% [markdown] id="world-explain"
# World size 4 and data-parallel size 4: four processes, each with a whole copy of the model. Everything else is
# 1 for now. If this line says 1 where you expected 4, then four separate programs run, each trains its own model,
# and none of them is any faster. It is the most common mistake of all, and nothing crashes.
#
# Then the iterations:

# %% id="iterations-grep"
# !grep "iteration " {run.log_file} | tail -n 3

# %% [markdown] id="iterations-explain"
# | field | says |
# |---|---|
# | `iteration 40/ 40` | steps of the optimizer so far, of how many |
# | `consumed samples` | samples that the run has seen, on all devices together |
# | `elapsed time per iteration (ms)` | mean over the iterations since the last line |
# | `learning rate` | how far a step goes; here it falls evenly to zero |
# | `global batch size` | samples per step |
# | `lm loss` | the loss, averaged over all devices |
# | `loss scale` | 1.0: no scaling. Lesson 08 needs it. |
# | `grad norm` | length of the gradient, before it is cut to at most 1 (*clipping*) |
# | `number of skipped`, `nan iterations` | steps that were thrown away; anything but 0 needs a reason |
#
# The same as data:

# %% id="iterations-table"
columns = ["iteration", "consumed_samples", "elapsed_ms", "learning_rate", "lm_loss", "grad_norm"]
run.log.iterations[columns]

# %% id="batch-see"
seen = int(run.log.iterations["consumed_samples"].iloc[-1])
print(f"you guessed {guess_samples} samples; the run saw {seen} = 40 iterations × 8 per step")

# %% [markdown] id="batch-explain"
# If your guess was 80, you counted the samples of one device. The log counts over all devices, and so do papers: a
# "batch of 4 million tokens" is what all devices together see in one step.

# %% [markdown] id="same-idea"
# ## Is it the same model?
#
# Each device computed gradients from *its* two samples. Before the optimizer moves anything, the four gradients
# are averaged by an **all-reduce**: every device hands in its numbers, and every device gets the result for all.
# All four copies then take the same step, so they stay equal without ever being compared.
#
# **Predict.** One device with micro batch 8 sees the same eight samples per step. Will its losses be the same,
# nearly the same, or different?

# %% id="same-guess"
guess_same = "nearly the same"  # or "the same", or "different"

# %% id="same-run"
dp1 = gpt.recipe(
    "dp1", nodes=1, gpus_per_node=1, micro_batch=8, global_batch=8, iterations=40, log_interval=5
)
run1 = lab.submit(dp1)
run1.watch()

# %% id="same-see"
show.loss(run1, run)

# %% id="same-numbers"
difference = (run.log.iterations["lm_loss"] - run1.log.iterations["lm_loss"]).abs()
print(f"you guessed: {guess_same}; largest difference of the two losses: {difference.max():.1e}")

# %% id="same-claim" tags=["claim"]
claim("one device and four devices train the same model", difference.max(), most=1e-3)

# %% [markdown] id="same-explain"
# **Explain.** The curves lie on top of each other, and the numbers agree in all digits but the last ones. If
# you guessed "different", you may have thought of four devices that each learn something else. But the mean
# of four means of two samples *is* the mean of eight. If you guessed "the same", you trusted computers too
# much: they round after every addition, and the two runs add in a different order. It is the same model, with
# other rounding.

# %% [markdown] id="nodes-idea"
# ## One node against two
#
# Now a question of money. Two devices on one node, four devices on two nodes: how much faster do four learn?
# There are two honest ways to ask. Both compare samples per second.
#
# - **Strong scaling** keeps the global batch and spreads it over more devices. Each has less to do per step.
# - **Weak scaling** keeps the micro batch of each device, so the global batch grows with the devices.
#
# **Predict.** Ideally, four devices are twice as fast as two. How large will the factor be, once with the
# global batch kept at 8, once with the micro batch kept at 2?

# %% id="nodes-guess"
guess_strong, guess_weak = 2.0, 2.0  # change them to your own guesses

# %% id="nodes-run"
strong2 = lab.submit(
    gpt.recipe(
        "dp2-strong",
        nodes=1,
        gpus_per_node=2,
        micro_batch=4,
        global_batch=8,
        iterations=20,
        log_interval=5,
    )
)
weak2 = lab.submit(
    gpt.recipe(
        "dp2-weak",
        nodes=1,
        gpus_per_node=2,
        micro_batch=2,
        global_batch=4,
        iterations=20,
        log_interval=5,
    )
)
strong2.require()
weak2.require()
show.throughput(run, strong2, weak2)


# %% id="nodes-see"
def samples_per_second(run):
    """Median over the logged intervals: the first one is always slow."""
    iterations = run.log.iterations
    return float((iterations["global_batch_size"] / iterations["elapsed_ms"] * 1000).median())


strong = samples_per_second(run) / samples_per_second(strong2)
weak = samples_per_second(run) / samples_per_second(weak2)
print(f"strong scaling: you guessed {guess_strong}, measured {strong:.2f}")
print(f"weak scaling:   you guessed {guess_weak}, measured {weak:.2f}")

# %% id="nodes-claim" tags=["claim"]
claim(
    "four devices give more samples per second than two, each with its own batch",
    weak,
    least=1.0,
    unit="times",
)

# %% [markdown] id="nodes-explain"
# *The figure: samples per second in each logged interval. The first interval has what happens only once.*
#
# **Explain.** Two things keep the factors from 2. Within one node the devices talk through memory; the run on
# two nodes sends its gradients over the link between them, and every step waits for that. And the volume that
# is sent does not shrink with the batch: there are as many gradients as parameters, whether a device saw one
# sample or a hundred. So the *more* work a device has per step, the smaller the share of waiting. That is why
# weak scaling nearly always looks better than strong scaling, and why you should ask which of the two a paper
# shows.
#
# One thing is special if your devices are processes on a laptop: more of them than the processor has cores cannot
# compute faster at all. Then even perfect communication leaves the factor near 1, and what you see is an honest
# statement about your laptop.
#
# Published for comparison: the lab that this course follows took 537 ms per iteration, with 12 layers of
# width 768 and global batch 8 on 2 nodes with 2 V100 each.

# %% [markdown] id="time-idea"
# ## Where the time goes
#
# How much of a step is arithmetic, how much is waiting? The profiler of PyTorch writes down what each process
# does and when. Lesson 05 reads its traces in detail; here one figure is enough. The run is `dp4` once more,
# only shorter, and two of its steps are recorded on every rank.
#
# **Predict.** Before you run it, write a number down: how many percent of a step are your devices busy with
# exchanging gradients, and with nothing else?

# %% id="time-guess"
guess_percent = 10  # change it to your own guess

# %% id="time-run"
traced = lab.submit(
    gpt.recipe(
        "dp4-traced",
        nodes=2,
        gpus_per_node=2,
        micro_batch=2,
        global_batch=8,
        iterations=14,
        profile=(10, 12),
        profile_ranks=[0, 1, 2, 3],
    )
)
traced.require()
show.step_time(traced.profile.overlap)

# %% id="time-see"
total = traced.profile.overlap[["exposed_communication_us", "total_us"]].sum()
share = 100 * total["exposed_communication_us"] / total["total_us"]
print(f"you guessed {guess_percent} % of a step, measured {share:.0f} %, mean over the four ranks")

# %% id="time-claim" tags=["claim"]
claim("some of a step is communication that nothing hides", share, least=1, most=99, unit="%")

# %% [markdown] id="time-explain"
# **Explain.** The figure has one bar for each rank, in parts of a step. *Exposed* communication is the part during which
# nothing is computed. In this program that is nearly all of it: the gradients are sent in one piece when the
# backward pass is over. Part of it is not sending but waiting: an all-reduce ends when the slowest rank has
# joined, and the bars of the others show that as communication too.
#
# Other programs begin earlier. As soon as the gradients of the last layers are there, their all-reduce starts, and
# the first layers compute meanwhile. Hiding communication behind arithmetic is half of the art in this course.
#
# ![Seven pictures of one step on three ranks: same weights and other data; forward; backward of layer 3; backward of layer 2 while the gradients of layer 3 are averaged; backward of layer 1 while those of layer 2 are averaged; the average of layer 1; the optimizer's step, after which all ranks have the same weights again](../images/ddp_step.png)
#
# *A step that hides its communication: three ranks, a model of three layers. From picture 4 on, arrows
# average one layer while the next is computed; only the last all-reduce is exposed.*
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
# Four copies share 32 samples, so each passes 8 through the model at once. With micro batch 2 the recipe
# would be accepted too: 2 × 4 is 8, and the program would go through the model four times before each step.
# That is gradient accumulation, the subject of lesson 10; the log then says
# `number of microbatches to constant 4`.

# %% [markdown] id="ex2" tags=["exercise"]
# > **Exercise 03.2** — The usual way to all-reduce is a *ring*: each device sends only to its neighbour, one
# > piece after the other (lesson 04 shows it move). With *d* devices every one of them sends 2 (*d* − 1) /
# > *d* times the size of what is reduced. How many **megabytes** (10⁶ bytes) does each device of the run
# > `dp4` send in its 40 iterations?

# %% id="ex2-gap" tags=["exercise"]
### BEGIN SOLUTION
### GAP megabytes_sent = ...
megabytes_sent = 40 * 2 * (4 - 1) / 4 * 4 * run.log.parameter_count / 1e6
### END SOLUTION

# %% id="ex2-check" tags=["check"]
check.ex03_megabytes(megabytes_sent, run)

# %% [markdown] id="ex2-why" tags=["solution"]
# Per iteration every device sends 1.5 times its 4 bytes per parameter. The factor goes towards 2 as *d*
# grows, and no further: with a thousand devices each one still sends twice the gradients. What grows is the
# number of steps round the ring, and with it the time that the slowest link is waited for.

# %% [markdown] id="challenge" tags=["exercise"]
# > **For the quick** — Find the smallest micro batch with which four devices on two nodes reach at least 80 %
# > of twice the speed of two devices on one node, or show that on your machine there is none, and say why.
# > Which of the two scalings are you measuring?

# %% [markdown] id="home"
# ## To take home
#
# - Every device holds the whole model and looks at its own samples; once per step the gradients are averaged. That
#   makes it *one* model, up to rounding.
# - Read the world line first. World size 1 where you expected 4 means four separate models.
# - Global batch = micro batch × data-parallel size.
# - The volume of communication depends on the model, not on the batch. More work per step hides it better.

# %% [markdown] id="clean-idea"
# ## Cleaning up
#
# The runs `dp4` and `dp1` are used again in later lessons. The others can go.

# %% id="clean"
lab.clean("dp2-strong", "dp2-weak", "dp4-traced", yes=True)
