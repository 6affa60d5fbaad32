# %% [markdown] id="title"
# # 03 Data parallelism on two nodes
#
# On one device, each training step computes gradients from a few samples and updates the parameters. Four devices can
# use four times as many samples in the same time. What must they exchange to train *one* model? In this lesson you
# train a small GPT on four devices of two nodes, read its log, and measure where the time goes.
#
# | | |
# |---|---|
# | You will be able to | read a multi-node job script and a training log; say what data parallelism exchanges, and when; tell strong from weak scaling; hide communication behind the backward pass; compute how many tokens a device needs to hide it |
# | Minutes | 50 |
# | Devices | 2 nodes with 2 devices each |
# | Before | lesson 00 |

# %% id="begin"
import pandas as pd

from course_lib import Lab, check, claim, gpt, predict, show

lab = Lab()

# %% [markdown] id="model-idea"
# ## The model and its recipe
#
# Your jobs run `code/pretrain_gpt.py`, which trains a GPT. Text becomes a sequence of **tokens**, numbers for pieces
# of words. At every position the network predicts the next token. The **loss** measures how bad the predictions are,
# in *nats*, the unit of the natural logarithm. An untrained network gives all 8192 tokens of the vocabulary about the
# same probability, so your run will begin near ln 8192 ≈ 9.0.
#
# The model is small, with 4 layers of width 128, so a run takes seconds even without GPUs. A **recipe** says what to run and how much of
# the cluster to use:

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
# ### Micro-batch, data-parallel size and global batch
#
# - The **micro-batch** is the number of samples that one device passes through the model at once.
# - The **data-parallel size** is the number of copies of the model.
# - The **global batch** is the number of samples in one step, over all copies.
#
# Here the global batch is the product of the other two. Lesson 10 adds a third factor.

# %% [markdown] id="run-idea"
# ## Run it on four devices
#
# `watch` follows the job through the queue and shows the progress of the training.

# %% id="run"
run = lab.submit(dp4)
run.watch()

# %% [markdown] id="twice"
# If you run this cell again, it submits nothing, because the same recipe returns its existing run. Only a cancelled
# run is submitted again.

# %% [markdown] id="world-idea"
# ## Read the log
#
# A **rank** is the number of a training process, from 0 to the **world size** minus one. Ranks 0 and 1 run on
# one node, ranks 2 and 3 on the other. The **local rank**, 0 or 1, counts within a node and selects the device.
#
# First look at the world size:

# %% id="world-grep"
# !grep "using world size" "{run.log_file}"

# %% [markdown] id="world-explain"
# World size 4 and data-parallel size 4 mean four processes, each with a whole copy of the model. The other sizes on
# this line belong to other ways of splitting a model. If the world size were 1, four separate programs would each
# train their own model, and nothing would crash.
#
# Now look at the training steps:

# %% id="iterations-grep"
# !grep "iteration " "{run.log_file}" | tail -n 3

# %% [markdown] id="iterations-explain"
# | field | meaning |
# |---|---|
# | `consumed samples` | samples so far, on all devices together |
# | `elapsed time per iteration (ms)` | mean time of a step since the last line |
# | `learning rate`, `global batch size` | rate of the *next* step, so the last line may say 0; samples per step |
# | `lm loss` | mean loss over all devices, and over the steps since the last line |
# | `loss scale` | 1.0 means no scaling (lesson 08) |
# | `grad norm` | length of the gradient, before **clipping** limits it to 1 |
# | `number of skipped`, `nan iterations` | discarded steps; a number above 0 needs an explanation |
#
# The next cell shows the same lines as a table:

# %% id="iterations-table"
columns = ["iteration", "consumed_samples", "elapsed_ms", "learning_rate", "lm_loss", "grad_norm"]
run.log.iterations[columns]

# %% [markdown] id="script-idea"
# ## How the job script started four processes
#
# The lab turned the recipe into this script and submitted it to Slurm:

# %% id="script"
lab.script(dp4)

# %% [markdown] id="script-explain"
# | lines | why they are there |
# |---|---|
# | `#SBATCH --nodes … --ntasks-per-node=1` | Two nodes, and **one** task on each. The task is a **launcher**, `torchrun`, which starts one process per device. |
# | `set -eo pipefail` and the `trap` | The first error ends the script. The trap records the exit code, however the script ends. |
# | `OMP_NUM_THREADS` | Threads per process. With one thread per core of the node, processes would compete; `torchrun` alone sets 1. |
# | `SRUN_CPUS_PER_TASK` | Since Slurm 22.05, `srun` does not inherit the job's `--cpus-per-task`. A launcher would get one core. |
# | `scontrol show hostnames "$SLURM_JOB_NODELIST"` | Slurm writes `node[1-2]`, but processes need single names. The first node is the meeting point. |
# | `MASTER_PORT` | Two jobs on one node need different ports, so the port is computed from the job's number. |
# | `srun … torchrun` | `srun` starts the launcher on both nodes. Otherwise the second node would be idle. |
# | `--kill-on-bad-exit=1` | If one launcher fails, the others end too, instead of waiting until the time limit. |
# | `--rdzv-backend=c10d --rdzv-endpoint` | The **rendezvous**: launchers meet at this address, wait until all have joined, and assign the ranks. |
# | `--max-restarts=0` | The first error ends the job. Restarts by `torchrun` help only programs that continue from a checkpoint. |
# | the rest | Arguments of the program, named as in Megatron-LM, a widely used program for large models. |
#
# The rendezvous has no authentication and executes what it receives. A site must therefore keep other users
# away from a job's ports, with whole nodes or a firewall.

# %% [markdown] id="split-idea"
# ## Which samples does each rank take?
#
# In this program no rank distributes the samples or the first weights. Every rank computes both by itself. These
# lines choose the samples:

# %% id="split-code"
lab.code("dataset/samples.py", "Loader.micro_batch")

# %% [markdown] id="split-words"
# In this code:
#
# - `first_sample` is the number of samples that were consumed before this step,
# - `data.size` is the data-parallel size, and `data.index` the position of this rank among the copies,
# - `number` counts the micro-batches of a step, and is 0 in your run.
#
# **Predict.** All ranks shuffle the samples with the same seed and number them from 0 in the shuffled order. Each of
# your four ranks takes micro-batches of 2 samples. With which sample does **rank 2** begin its **second** step?

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
# **Explain.** In each step the four ranks take the next eight samples, two neighbouring samples per rank. Rank 2
# begins its second step with sample 8 + 4 = 12. If you guessed sample 4, you computed the first step.
#
# A wrong sampler causes no error. If all ranks took the *same* two samples, the losses would still fall, but four
# devices would make the progress of one.
#
# For the first weights, every rank draws each parameter from a random generator whose seed depends only on the run
# and on the parameter's name. So every rank draws the same values:

# %% id="seed-code"
lab.code("training/model.py", "initialise")

# %% [markdown] id="same-idea"
# ## Do four devices train the same model as one?
#
# Each device computes gradients from *its own* two samples. Before the optimizer step, an **all-reduce** sums the
# gradients over the ranks: every device contributes its numbers, and every device receives the sum. The program
# divides each token's loss by the number of tokens in the *global* batch, so the sum is the mean gradient. All copies
# then take the same step, so they stay equal.
#
# Step 3 of this function is the all-reduce of your run:

# %% id="reduce-code"
lab.code("parallel/data_parallel.py", "Replicated.reduce")

# %% [markdown] id="same-predict"
# A computer rounds after every addition, so the order of a sum can change its last digits.
#
# **Predict.** One device with micro-batch 8 sees the same eight samples per step. The log prints the loss with six
# decimals. Will one device and four devices print exactly the same losses, nearly the same, or different losses?

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
claim("difference of the losses of one device and of four", difference.max(), most=1e-3)

# %% [markdown] id="same-explain"
# *The top panel shows both loss curves, one on top of the other. The bottom panel shows their difference, on a
# logarithmic axis. Steps with equal printed losses have no point.*
#
# **Explain.** The mean of four means of two samples *is* the mean of all eight. Only rounding can differ, because the
# two runs add in a different order.
#
# The losses are equal only if the same number of tokens counts in the loss on every rank. If samples are padded, first
# sum the losses and the token counts over all ranks, then divide. Runs with dropout or batch normalisation are only
# similar.

# %% [markdown] id="nodes-idea"
# ## How much faster are two nodes than one?
#
# You can compare four devices on two nodes with two devices on one node in two ways. Both count samples per second,
# and both start from two devices with micro-batch 4:
#
# - **Strong scaling** keeps the global batch, 8, and spreads it over more devices. In your run `dp4`, each device has
#   half as much work as with two devices.
# - **Weak scaling** keeps the micro-batch, 4, so the global batch grows to 16.
#
# Two of your runs help you estimate both factors. A step of `dp1` passes 8 samples through one device and exchanges
# nothing. A step of `dp4` passes 2 samples through each device and exchanges the gradients, which takes equally long
# for any number of samples. These are the step times:

# %% id="nodes-known"
for each in (run1, run):
    print(f"{each.name}: {each.log.iterations['elapsed_ms'].min():.0f} ms for the fastest step")

# %% [markdown] id="nodes-predict"
# **Predict.** Ideally, four devices are twice as fast as two. By what factor will they be faster, with strong and with
# weak scaling? Assume that the exchange inside one node takes no time.

# %% id="nodes-guess"
### BEGIN SOLUTION
### GAP guess_strong, guess_weak = ..., ...  # factors between 1 and 2, in samples per second
guess_strong, guess_weak = 2.0, 2.0
### END SOLUTION

# %% id="nodes-run"
strong_guess = predict(
    "03: speed-up from 2 to 4 devices, strong scaling", guess_strong, unit="times"
)
weak_guess = predict("03: speed-up from 2 to 4 devices, weak scaling", guess_weak, unit="times")
short = {"gpus_per_node": 2, "micro_batch": 4, "iterations": 16}
two = lab.submit(gpt.recipe("dp2", nodes=1, global_batch=8, **short))
four = lab.submit(gpt.recipe("dp4-weak", nodes=2, global_batch=16, **short))
run2, run4_weak = two.require(), four.require()  # four needs all devices, so it waits for two


# %% id="nodes-see"
def samples_per_second(run):
    """Speed of the fastest step: a disturbance makes a step longer, never shorter."""
    iterations = run.log.iterations
    elapsed_s = iterations["elapsed_ms"].min() / 1000
    return float(iterations["global_batch_size"].iloc[-1] / elapsed_s)


speed = {each.name: samples_per_second(each) for each in (run1, run2, run, run4_weak)}
strong, weak = speed["dp4"] / speed["dp2"], speed["dp4-weak"] / speed["dp2"]
strong_guess.compare(strong)
weak_guess.compare(weak)
print(f"two devices over one: a factor of {speed['dp2'] / speed['dp1']:.2f} in samples per second")
alone_ms, four_ms = (each.log.iterations["elapsed_ms"].min() for each in (run1, run))
two_ms, exchange_ms = alone_ms / 2, four_ms - alone_ms / 4  # without the exchange; the exchange
print(f"estimated from dp1 and dp4: strong scaling {two_ms / four_ms:.2f}", end=", ")
print(f"weak scaling {2 * two_ms / (two_ms + exchange_ms):.2f}")
keeping = {
    "strong: global batch 8": ("dp2", "dp4"),
    "weak: micro-batch 4": ("dp2", "dp4-weak"),
}
curves = [
    {"name": name, "devices": int(run_name[2]), "samples_per_second": speed[run_name]}
    for name, names in keeping.items()
    for run_name in names
]
show.scaling(pd.DataFrame(curves))

# %% id="nodes-claim" tags=["claim"]
if lab.nodes_are_separate:
    claim(
        "speed-up from two to four devices, weak scaling", weak, least=1.1, most=1.95, unit="times"
    )
    claim("speed-up from two to four devices, strong scaling", strong, most=1.8, unit="times")
claim("weak scaling, relative to strong scaling", weak / strong, least=1.02, unit="times")

# %% [markdown] id="nodes-explain"
# *The left panel shows samples per second, with the ideal speed dotted. The right panel shows the percentage of
# the ideal speed.*
#
# **Explain.** The last printed line is an estimate from your two runs. Two devices compute a batch of 8 in half of
# the time of `dp1`. The exchange takes the time of `dp4`, minus a quarter of the time of `dp1`. A step with weak
# scaling takes the sum of both times.
#
# Two devices on one node are usually less than twice as fast as one device. The optimizer step takes as long as
# before, and the sum of the gradients is additional work.
#
# Four devices lose more with strong scaling. Each device sends the gradients 1.5 times in a ring of four, and only
# once in a ring of two. Every step waits for this data, which crosses the link between the nodes.
#
# This volume does not depend on the batch, because a device has as many gradients as parameters. With *more* work per
# step, waiting is a smaller part of the step, so weak scaling looks better. But its larger global batch makes fewer
# steps from the same data.

# %% [markdown] id="time-idea"
# ## What percentage of a step is communication?
#
# PyTorch's **profiler** records what each process does, and when. Here one figure is enough, and lesson 05 reads the
# traces in detail.
#
# The next run has nearly as many parameters as `dp4`, so it exchanges nearly as many bytes. But it has twice as many
# layers and a vocabulary of only 1024 tokens. Most of its parameters are therefore in the layers, as in a large model.
# The profiler records six of its ten steps on every rank.
#
# **Predict.** **Exposed communication** is the time in which a device communicates and computes nothing. What
# percentage of a step is exposed communication? The step times of `dp1` and `dp4` give a first estimate.

# %% id="time-guess"
### BEGIN SOLUTION
### GAP guess_percent = ...  # percentage of a step
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
after_backward = lab.submit(gpt.recipe("after-backward", **looked_at)).require()
show.step_time(after_backward.profile.overlap)


# %% id="time-see"
def exposed_ms(run):
    """Exposed communication of the rank that waits least, in a fast step (lower quartile)."""
    steps = run.profile.overlap.groupby("step")
    return float(steps["exposed_communication_us"].min().quantile(0.25) / 1e3)


def step_ms(run):
    """Length of a fast step on the slowest rank."""
    return float(run.profile.overlap.groupby("step")["total_us"].max().quantile(0.25) / 1e3)


share = 100 * exposed_ms(after_backward) / step_ms(after_backward)
exposed_guess.compare(share)

# %% id="time-claim" tags=["claim"]
if lab.nodes_are_separate:
    claim("exposed communication is a large part of a step", share, least=8, most=60, unit="%")

# %% [markdown] id="time-explain"
# **Explain.** Each bar is one rank. Nearly all communication is exposed, because the program sends
# the gradients in one piece after the backward pass.
#
# A part of the exposed time is waiting, because an all-reduce ends only after the slowest rank has joined. The number
# below the figure therefore comes from the rank that waits least. An estimate from step times is usually higher,
# because it includes waiting.
#
# ## Hide communication behind the backward pass
#
# The backward pass starts at the *last* layer. As soon as the gradients of a layer are complete, their all-reduce can
# start, while the gradients of earlier layers are computed:
#
# ![One step on three ranks in seven pictures: equal weights and different data; forward pass; backward pass of layer 3. Then backward pass of layer 2, while layer 3 is averaged; backward pass of layer 1, while layer 2 is averaged; layer 1 is averaged. Last comes the optimizer step, after which all ranks have equal weights again.](../images/ddp_step.png)
#
# *From picture 4 on, one layer is averaged while the next layer is computed. Only the last all-reduce is exposed.*
#
# Megatron-LM's flag for this is `--overlap-grad-reduce`. The flag `--ddp-bucket-size` sets how many gradients a
# **bucket** collects before it is sent. You will train the same model in four ways:
#
# | run | when the gradients are sent |
# |---|---|
# | `after-backward` | in one piece, after the backward pass |
# | `one-bucket` | early, but the only bucket must first collect all gradients |
# | `buckets` | in buckets of 200,000; a layer's matrices have 197,000 numbers, so two buckets are sent after every second layer |
# | `tiny-buckets` | in buckets of 50,000, four for each layer |
#
# A bucket can hide only behind layers that are still to be computed. Each bucket needs its own all-reduce, which
# costs latency. The backward pass goes through 8 layers and ends at the embedding table (1024 × 128 numbers).
#
# **Predict.** In `after-backward` all communication is exposed. Which run exposes the smallest percentage of its
# communication? What is the percentage in `buckets`?

# %% id="hide-guess"
### BEGIN SOLUTION
### GAP guess_least = ...  # "after-backward", "one-bucket", "buckets" or "tiny-buckets"
### GAP guess_left = ...  # percentage
guess_least, guess_left = "tiny-buckets", 10
### END SOLUTION

# %% id="hide-run"
sizes = {"one-bucket": 10**9, "buckets": 200_000, "tiny-buckets": 50_000}
least_guess = predict(
    "03: run that exposes the smallest percentage", guess_least, choices=["after-backward", *sizes]
)
left_guess = predict(
    "03: percentage of communication that is exposed with buckets", guess_left, unit="%"
)
submitted = {"after-backward": after_backward}
for name, size in sizes.items():
    submitted[name] = lab.submit(
        gpt.recipe(name, overlap_grad_reduce=True, ddp_bucket_size=size, **looked_at)
    )
hidden = {name: each.require() for name, each in submitted.items()}
show.step_time({name: each.profile.overlap for name, each in hidden.items()})


# %% id="hide-see"
def exposed_percent(run):
    """Percentage of its communication that the rank that waits least exposes, in a usual step."""
    table = run.profile.overlap
    rows = table.loc[table.groupby("step")["exposed_communication_us"].idxmin()]
    return float(100 * (rows["exposed_communication_us"] / rows["communication_us"]).median())


exposed = pd.Series({name: exposed_ms(each) for name, each in hidden.items()})
left = pd.Series({name: exposed_percent(each) for name, each in hidden.items()})
least_guess.compare(left.idxmin())
left_guess.compare(left["buckets"])
whole = {name: step_ms(each) for name, each in hidden.items()}
pd.DataFrame({"exposed (ms)": exposed, "exposed (%)": left, "step (ms)": whole}).round()

# %% id="hide-claim" tags=["claim"]
claim("exposed communication with buckets", left["buckets"], least=15, most=60, unit="%")
claim("exposed communication with one bucket", left["one-bucket"], least=75, unit="%")
tiny = left["tiny-buckets"] / left["buckets"]
claim(
    "exposed communication with tiny buckets, relative to larger buckets",
    tiny,
    least=1.1,
    unit="times",
)
plain, bucketed = (hidden[name].log.iterations["lm_loss"] for name in ("after-backward", "buckets"))
claim(
    "difference of the losses with and without buckets", (plain - bucketed).abs().max(), most=1e-3
)

# %% [markdown] id="hide-explain"
# *Exposed (%): the exposed percentage of a run's own communication.*
#
# **Explain.** One bucket hides nothing, because it is full only when the backward pass is over. Buckets that are sent
# after every second layer hide a part of the communication. The gradients of the first layers and of the embedding
# table come last, when nothing is left to hide them. They are about a third of all gradients.
#
# Tiny buckets are sent earliest but expose more than larger buckets, because every bucket costs latency, and four
# processes must wait for each other. A good bucket is large enough to use the bandwidth, and small enough to be sent
# early.
#
# The step may shrink by less than the exposed time. A step ends with the slowest rank, and communication can slow
# down the backward pass that hides it, because both need the same cores or the same GPU.
#
# PyTorch's `DistributedDataParallel` (**DDP**) does the same with buckets of 25 MiB.

# %% [markdown] id="rule-idea"
# ## How many tokens does a device need to hide the all-reduce?
#
# Compare two parts of a step. Let *P* be the number of parameters and *t* the number of tokens of a device in one
# step.
#
# - **Compute.** Each parameter and token costs about 2 FLOPs in the forward pass, a multiplication and an addition,
#   and 4 in the backward pass. A device that does *C* FLOP/s therefore needs 6 *P t* / *C* seconds.
# - **All-reduce.** If a gradient has *b* bytes, each device in a ring of many devices sends 2 *b P* bytes. A link
#   with *W* bytes/s needs 2 *b P* / *W* seconds for them.
#
# *P* cancels. The all-reduce takes as long as all the computing if *t* = (*b* / 3) · *C* / *W*. But it can only hide
# behind the backward pass, which is 4 of the 6 FLOPs. So a device needs
#
# $$t \geq \frac{b}{2} \cdot \frac{C}{W} \quad\text{tokens}$$
#
# *C* / *W* is the number of FLOPs for each byte of the link. It corresponds to peak over memory bandwidth in the
# roofline of lesson 01. Lessons 07, 07b, 11, 13b and 13c find such a rule for each kind of parallelism.
#
# With fewer tokens, a part of the all-reduce is exposed, however large the buckets are. In a ring of four, each
# device sends 1.5 instead of 2 times the gradients, so three quarters of these tokens are enough.
#
# Your gradients have 4 bytes each. The next cell shows *C* and *W*. *C* comes from the time in which a rank of
# `after-backward` computes, and *W* is the bandwidth of the box's link. On a real cluster, replace *W* by the data
# sheet's value.

# %% id="rule-known"
tokens = 2 * gpt.model(after_backward.recipe).sequence  # of a device in one step
computing_s = after_backward.profile.overlap["compute_us"].quantile(0.25) / 1e6
flop_per_s = 6 * after_backward.log.parameter_count * tokens / computing_s
link_bytes_per_s = (lab.site.link_gbit or 1.0) * 1e9 / 8
print(f"C = {flop_per_s / 1e9:.1f} GFLOP/s, W = {link_bytes_per_s / 1e9:.3f} GB/s")
print(f"a device of `after-backward` has {tokens} tokens")

# %% [markdown] id="rule-predict"
# **Predict.** How many tokens per device and step does *your* ring of four need?

# %% id="rule-guess"
### BEGIN SOLUTION
### GAP guess_tokens = ...  # tokens per device
guess_tokens = 1000
### END SOLUTION

# %% id="rule-see"
enough_guess = predict(
    "03: tokens per device that hide the all-reduce", guess_tokens, unit="tokens"
)
by_rule = 0.75 * 4 / 2 * flop_per_s / link_bytes_per_s
backward_ms = 1000 * computing_s * 4 / 6
by_run = tokens * exposed_ms(after_backward) / backward_ms
enough_guess.compare(by_run)
print(f"by the rule {by_rule:.0f} tokens, by the run after-backward {by_run:.0f}")

# %% id="rule-claim" tags=["claim"]
if lab.site.box and lab.nodes_are_separate:
    claim(
        "tokens that hide the all-reduce, by the rule relative to the run",
        by_rule / by_run,
        least=0.5,
        most=1.6,
        unit="times",
    )

# %% [markdown] id="rule-explain"
# **Explain.** To get the run's number, the cell multiplies its tokens by the ratio of its all-reduce to its backward
# pass. The number differs from the rule because an all-reduce has a latency too, and because ranks wait for each
# other. Faster devices need more tokens, and faster links need fewer. If you forgot the bytes of a gradient, your
# guess is four times too small.
#
# **On real hardware.** An H100 does about 990 TFLOP/s in bf16. The eight GPUs of a node together send 400 GB/s to
# other nodes, and each sends only an eighth of the gradients, so *W* is 400 GB/s. With *b* = 2, the rule gives
# 990,000 / 400 = 2,475 tokens per GPU. ["How to Scale Your Model"](https://jax-ml.github.io/scaling-book/gpus/)
# (Google DeepMind, 2025) derives the same number. So 16,384 H100s that compute at their peak need a batch of
# about 40 million tokens.
#
# Real programs do not reach the peak. Llama 3 with 405 billion parameters reached 400 TFLOP/s per GPU
# ([2024](https://arxiv.org/abs/2407.21783), table 4). At this rate the rule asks for 1,000 tokens per GPU. The run
# had 16,384 GPUs and 16 million tokens in a step, about 1,000 per GPU. So data parallelism alone could just have
# hidden its all-reduce, but with twice as many GPUs it could not. And no GPU holds such a model, so runs of this size
# combine several kinds of parallelism.
#
# The next cell shows the size of the gradients of your run:

# %% id="bytes"
parameters = run.log.parameter_count
print(
    f"{parameters:,} parameters × 4 bytes = {4 * parameters / 1e6:.1f} MB of gradients per step and device"
)

# %% [markdown] id="bytes-explain"
# Each device sends 1.5 times these bytes in every step.

# %% [markdown] id="ex1" tags=["exercise"]
# ## Exercises
#
# > **Exercise 03.1** — Train with a global batch of 32 on all four devices of both nodes, for 5 iterations. Every
# > device should pass its whole share of the batch through the model at once. Fill in the gaps.

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
# Four copies share 32 samples, so each passes 8 samples through the model at once. The program also accepts
# micro-batch 2. It then goes through the model four times before each step, and the log says
# `number of microbatches to constant 4`. This is gradient accumulation, the subject of lesson 10.

# %% [markdown] id="ex2" tags=["exercise"]
# > **Exercise 03.2** — The usual all-reduce is a **ring**, in which each device sends only to its neighbour, one
# > piece after the other. With *d* devices, every device sends 2 (*d* − 1) / *d* times the size of the data. How many
# > **megabytes** (10⁶ bytes) does each device of the run `dp4` send in its 12 iterations?

# %% id="ex2-gap" tags=["exercise"]
### BEGIN SOLUTION
### GAP megabytes_sent = ...
megabytes_sent = 12 * 2 * (4 - 1) / 4 * 4 * run.log.parameter_count / 1e6
### END SOLUTION

# %% id="ex2-check" tags=["check"]
check.ex03_megabytes(megabytes_sent, run)

# %% [markdown] id="ex2-why" tags=["solution"]
# Per iteration, every device sends 1.5 times its 4 bytes per parameter. With more devices this factor approaches 2,
# but the number of steps around the ring keeps growing, and each step costs a latency.

# %% [markdown] id="challenge" tags=["exercise"]
# > **Going further** — Find the smallest micro-batch with which four devices on two nodes reach at least 80 % of
# > twice the speed of two devices on one node. If no micro-batch is large enough, show it, and say why. Then suppose
# > that every rank takes the samples of rank 0. Which number in the log could show this mistake?

# %% [markdown] id="home"
# ## To take home
#
# - Every device holds the whole model and uses its own samples. Once per step the gradients are averaged, so the
#   devices train *one* model, up to rounding.
# - Read the world size first. World size 1 instead of 4 means four separate models.
# - Global batch = micro-batch × data-parallel size. Strong scaling keeps the global batch, and weak scaling lets it
#   grow.
# - The volume of communication depends on the model, not on the batch. Buckets of a good size hide a part of it
#   behind the backward pass.
# - A device needs about (*b* / 2) · *C* / *W* tokens per step to hide the all-reduce, whatever the size of the model.
# - With torch's own tools: `DistributedDataParallel`; lesson 11b.
#
# References: [sbatch](https://slurm.schedmd.com/sbatch.html) on `--cpus-per-task` since Slurm 22.05, and
# [DistributedDataParallel](https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html)
# on `bucket_cap_mb`.

# %% [markdown] id="clean-idea"
# ## Cleaning up
#
# Keep the small runs `dp4`, `dp1` and `wide` if you want to compare them with later runs.

# %% id="clean"
lab.clean("dp2", "dp4-weak", *hidden, yes=True)
