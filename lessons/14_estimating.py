# %% [markdown] id="title"
# # 14 Estimating
#
# Large training runs are planned on paper before anyone pays for a device-hour. One page of arithmetic gives the
# parameters, the FLOPs, the days and the memory. In this lesson you estimate published models and find the mistakes in
# another person's estimate. Then you predict a run on your own cluster, run it, and explain the difference. At the end
# you see how accurate your guesses were throughout the course.
#
# | | |
# |---|---|
# | You will be able to | count parameters and FLOPs of a GPT by hand; tell model FLOPs from hardware FLOPs, and achieved speed from peak; estimate how many days a training run takes, and explain why two estimates differ; predict memory and time of a run, part by part |
# | Minutes | 60 |
# | Devices | 2 nodes with 2 devices each |
# | Before | lessons 03 and 09 |

# %% id="begin"
import os

import pandas as pd

from course_lib import Lab, check, claim, gpt, guesses, links, plan, predict, show

lab = Lab()

# %% [markdown] id="hardware-idea"
# The last part of this lesson plans a run on *your* devices. The next cell reads their name from your site's file
# (`device = "…"`). If the name is missing or wrong, write the right name into the cell. Devices that are processes on
# a CPU need no name.

# %% id="hardware"
HARDWARE = lab.site.device.upper()  # or a name from the table, such as "H100"
if HARDWARE not in plan.DEVICES:
    if HARDWARE:
        print(f"site {lab.site.name} names {HARDWARE}, which is not in the table.")
    else:
        print(f"site {lab.site.name} names no device.")
    print("If your devices are GPUs, set HARDWARE to the most similar of these names:")
    print(", ".join(plan.DEVICES))
else:
    print(f"your devices: {HARDWARE}, {plan.device(HARDWARE).memory_gib} GiB each")

# %% [markdown] id="parameters-idea"
# ## How many parameters does a GPT have?
#
# A GPT is a stack of *l* equal **layers** of width *h*. Before the first layer is the **embedding**, a table with one
# row of width *h* for each of the *V* tokens of the vocabulary. After the last layer, the same table gives each token
# a score. A second table has one row for each of the *s* positions in a sequence. One layer holds:
#
# | part of a layer | parameters |
# |---|---|
# | attention: matrices for queries, keys, values and the output | 4 *h*² + 4 *h* |
# | MLP: two matrices, *h* → 4 *h* → *h* | 8 *h*² + 5 *h* |
# | two norms, each with a factor and a shift | 4 *h* |
# | **together** | **12 *h*² + 13 *h*** |
#
# Layers and tables together have *P* parameters:
#
# $$P = 12\,l\,h^2 \left(1 + \frac{13}{12\,h} + \frac{V + s}{12\,l\,h}\right)$$
#
# **Predict.** A model has 40 layers of width 6144, a vocabulary of 50,257 tokens and sequences of 1024 tokens. How
# many billion parameters does it have? Use only the largest term, 12 *l h*².

# %% id="parameters-guess"
### BEGIN SOLUTION
### GAP guess_billions = ...  # your number in place of the dots
guess_billions = 10
### END SOLUTION

# %% id="parameters-see"
billions = predict("14: parameters of a large model", guess_billions, unit="billion")


def parameters_of(layers, hidden, vocabulary, sequence):
    """The formula above."""
    tables = (vocabulary + sequence) / (12 * layers * hidden)
    return 12 * layers * hidden**2 * (1 + 13 / (12 * hidden) + tables)


big = parameters_of(40, 6144, 50257, 1024)
billions.compare(big / 1e9)

# %% [markdown] id="parameters-explain"
# **Explain.** The first term, 12 × 40 × 6144², gives 18.1 of the 18.4 billion parameters. If you guessed about 1.5
# billion, you forgot the factor 12. For small models the first term is a worse estimate, because their tables are a
# larger share of the parameters.
#
# Is the formula exact? A training program counts its parameters, so the next cell trains a small model on one device.
# You will need this run again later.

# %% id="count-run"
small = gpt.model("tiny")


def recipe(name, micro_batch=2, iterations=10, **more):
    return gpt.recipe(name, model=small, micro_batch=micro_batch, iterations=iterations, **more)


probe = lab.submit(recipe("probe", memory=(7, 8)))
probe.watch()

# %% id="count-see"
counted = probe.log.parameter_count
formula = parameters_of(small.layers, small.hidden, small.vocabulary, small.sequence)
print(f"formula {formula:12,.0f}")
print(f"program {counted:12,.0f}")
print(f"missing {counted - formula:12,.0f}")

# %% id="count-claim" tags=["claim"]
missing = counted - formula
claim("parameters that the formula leaves out, twice the width", missing, least=256, most=256)

# %% [markdown] id="count-explain"
# **Explain.** Counting is exact, so the difference of 256 is not rounding. It is twice the width of this model:
# the norm after the last layer has a factor and a shift, and the usual formula leaves it out. Many programs also
# round the vocabulary up to a multiple of 128, for example from 50,257 to 50,304, because matrices of such sizes
# are multiplied faster.

# %% [markdown] id="flops-idea"
# ## How many FLOPs does a training step take?
#
# A **FLOP** is one floating-point operation, an addition or a multiplication. FLOPs are an amount of work, and
# **FLOP/s** are a speed. The two are often confused.
#
# A layer multiplies one token by a matrix of 128 × 512 weights. Each weight is multiplied by an input, and the
# product is added to a sum. The backward pass then computes the gradient of the weights and the gradient of the
# input, and each takes a matmul of the same size.
#
# **Predict.** How many FLOPs does each weight take in the forward pass, and how many in the backward pass?

# %% id="flops-guess"
### BEGIN SOLUTION
### GAP guess_forward, guess_backward = ..., ...  # for each weight
guess_forward, guess_backward = 1, 1
### END SOLUTION

# %% id="flops-count"
import torch
from torch.utils.flop_counter import FlopCounterMode

per_weight = {
    "forward": predict("14: FLOPs per weight and token, forward", guess_forward),
    "backward": predict("14: FLOPs per weight and token, backward", guess_backward),
}
weights = torch.randn(128, 512, requires_grad=True)
rows = torch.randn(256, 128, requires_grad=True)  # 256 tokens
with FlopCounterMode(display=False) as forward:
    out = rows @ weights
with FlopCounterMode(display=False) as backward:
    out.sum().backward()
os.environ.pop("TORCHINDUCTOR_CACHE_DIR", None)  # the counter sets it, and jobs would inherit it
each = weights.numel() * len(rows)
per_weight["forward"].compare(forward.get_total_flops() / each)
per_weight["backward"].compare(backward.get_total_flops() / each)

# %% id="flops-claim" tags=["claim"]
step = (forward.get_total_flops() + backward.get_total_flops()) / each
claim("FLOPs of a training step, for each weight and token", step, least=6, most=6)

# %% [markdown] id="flops-explain"
# **Explain.** The forward pass takes 2 FLOPs for each weight, and the two matmuls of the backward pass take 4. A
# training step therefore takes **6 FLOPs per parameter and token**. If activation checkpointing computes the
# layers forward a second time (lesson 09), a step takes **8**. Both numbers are in use:
#
# - **Model FLOPs** are the FLOPs that the mathematics needs, always 6 per parameter and token.
# - **Hardware FLOPs** are the FLOPs that the devices do, 8 with full recomputation and 6 without.
#
# Two details are missing. Attention also multiplies queries with keys, which are not parameters. The matmul with the
# vocabulary is not recomputed. An exact count for *B* samples of *s* tokens with full recomputation gives
#
# $$F = 96\,B\,s\,l\,h^2 \left(1 + \frac{s}{6\,h} + \frac{V}{16\,l\,h}\right)$$
#
# Without recomputation, replace 96 by 72 and 16 by 12. The factor 96 is 8 × 12 and 72 is 6 × 12, with the 12 from
# the formula for *P*.


# %% id="flops-formula"
def flops_of(batch, layers, hidden, vocabulary, sequence, recomputed):
    """FLOPs of one iteration, on all devices together."""
    factor, head = (96, 16) if recomputed else (72, 12)
    more = sequence / (6 * hidden) + vocabulary / (head * layers * hidden)
    return factor * batch * sequence * layers * hidden**2 * (1 + more)


hardware = flops_of(512, 40, 6144, 50257, 1024, recomputed=True)
model = flops_of(512, 40, 6144, 50257, 1024, recomputed=False)
half_the_scores = flops_of(512, 40, 6144, 50257, 512, recomputed=False) * 2
tokens = 512 * 1024
print(f"hardware: {hardware:.3e} FLOPs = {hardware / big / tokens:.2f} per parameter and token")
print(f"model:    {model:.3e} FLOPs = {model / big / tokens:.2f} per parameter and token")
print(f"causal:   {half_the_scores:.3e} FLOPs, {100 * (1 - half_the_scores / model):.1f} % less")

# %% [markdown] id="flops-causal"
# The third line follows a different convention. Attention in a GPT is **causal**: a mask removes half of the scores.
# The formula counts all scores, as do most papers, the planner and the course's program. The current Megatron-LM
# counts only the half that is needed. The two counts differ by 1.3 % at this size, and by much more for long
# sequences. So compare only numbers of the same convention.

# %% [markdown] id="achieved-idea"
# ## What percentage of the peak does a training run reach?
#
# The **peak** of a device is the speed on its data sheet. An A100 has a peak of 312 TFLOP/s in 16-bit numbers
# ([NVIDIA, 2020](https://www.nvidia.com/en-us/data-center/a100/)), if it does nothing but large matmuls. The
# **achieved** speed of a run is its FLOPs, divided by its time and its number of devices.
#
# The model with 18.4 billion parameters was trained with full recomputation on 16 A100 GPUs, with 512 samples per
# iteration. One iteration took 32.09 s. This time comes from the notes of a training workshop and has no public
# source, so the explanation below compares it with published runs.
#
# **Predict.** What percentage of the peak did this run reach, counted in the hardware FLOPs printed above?

# %% id="achieved-guess"
### BEGIN SOLUTION
### GAP guess_share = ...  # percent
guess_share = 80
### END SOLUTION

# %% id="achieved-see"
share = predict("14: hardware FLOP/s, as a percentage of the peak", guess_share, unit="%")
peak = plan.device("A100-40GB").fp16_tflops
achieved = hardware / 32.09 / 16 / 1e12
model_rate = model / 32.09 / 16 / 1e12
share.compare(100 * achieved / peak)
print(f"hardware FLOPs: {achieved:.1f} TFLOP/s per device, {achieved / peak:.1%} of the peak (HFU)")
print(
    f"model FLOPs:    {model_rate:.1f} TFLOP/s per device, {model_rate / peak:.1%} of the peak (MFU)"
)

# %% [markdown] id="achieved-explain"
# **Explain.** The run reached 49 % of the peak. The authors of Megatron-LM published 43 to 52 % for ten models on up to
# 3,072 A100 GPUs, with the same kind of FLOPs ([Narayanan and others, 2021, Table
# 1](https://arxiv.org/abs/2104.04473)). A model of the same layers reached 43 % on 256 GPUs. So half is a good result
# on an A100, and 80 % is far away.
#
# An H100 multiplies matrices three times as fast, but its memory and links are not three times as fast, so 40 % is a
# good result on many thousands of them. Meta reports 38 to 43 % for [Llama 3
# 405B](https://arxiv.org/abs/2407.21783), trained in 2024 on up to 16,384 H100 GPUs. Use the **dense** peak of an
# H100, 989 TFLOP/s. [NVIDIA's page](https://www.nvidia.com/en-us/data-center/h100/) prints twice as much, which holds
# only for matrices that are half zeros.
#
# The percentage is called **HFU** (hardware FLOPs utilisation) if it counts what the devices did, and **MFU** (model
# FLOPs utilisation) if it counts what the model needed. To see which measure is better, compare two published runs
# ([Korthikanti and others, 2022, Table 5](https://arxiv.org/abs/2205.05198)). Both trained a model with 175 billion
# parameters on 64 A100 GPUs, with 64 samples per iteration. One run recomputed everything. The other recomputed only
# the inside of attention and used sequence parallelism. The times in the table are published, and the next cell
# computes the percentages.

# %% id="mfu-table"
gpt3 = plan.Model("175 B", 96, 12288, 96, 2048, vocabulary=51200)
rows = {}
for recompute, seconds in (("full", 18.13), ("selective", 13.75)):
    layout = plan.Layout(tensor=8, pipeline=8, global_batch=64, recompute=recompute, flash=False)
    flops = plan.of_iteration(gpt3, layout)
    rows[recompute] = {
        "iteration, published (s)": seconds,
        "HFU, counted here (%)": 100 * flops.hardware / seconds / 64 / 312e12,
        "MFU, counted here (%)": 100 * flops.model / seconds / 64 / 312e12,
    }
table = pd.DataFrame(rows).T
table.round(1)

# %% id="mfu-claim" tags=["claim"]
hfu, mfu = table["HFU, counted here (%)"], table["MFU, counted here (%)"]
claim(
    "HFU with selective recomputation, minus HFU with full",
    hfu["selective"] - hfu["full"],
    least=-1,
    most=1,
    unit="%",
)
claim(
    "MFU with selective recomputation, minus MFU with full",
    mfu["selective"] - mfu["full"],
    least=10,
    unit="%",
)

# %% [markdown] id="mfu-explain"
# **Explain.** By HFU the two runs are equally good, although the second run needs a quarter less time. HFU counts
# recomputation as useful work. MFU does not, so MFU tells you when a training run will finish.
#
# The paper reports the same MFU for the second run, but an HFU of 52.8 %. Its formula counts the recomputed matmuls
# of attention as a whole forward and backward pass. An exact count gives a third of that pass.

# %% [markdown] id="days-idea"
# ## How many days does a training run take?
#
# The time is the FLOPs per token, times the tokens, divided by the speed of all devices. With *T* tokens, *P*
# parameters, *n* devices and *X* FLOP/s **achieved** by each device:
#
# $$\text{time} \approx \frac{8\,T\,P}{n\,X} \quad\text{or}\quad \frac{6\,T\,P}{n\,X}$$
#
# Use 8 if *X* counts hardware FLOPs of a run that recomputes everything, and 6 if *X* counts model FLOPs. The factor
# and the speed must count the same kind of FLOPs.
#
# **Predict.** GPT-3 has 175 billion parameters and learns from 300 billion tokens. It runs on 1024 A100 GPUs with
# full recomputation, and each achieves 140 TFLOP/s in hardware FLOPs. How many days does the training take?

# %% id="days-guess"
### BEGIN SOLUTION
### GAP guess_days = ...  # your number in place of the dots
guess_days = 100
### END SOLUTION

# %% id="days-see"
days_guessed = predict("14: days for GPT-3", guess_days, unit="days")


def days_of(factor, tokens, parameters, devices, flops_per_s):
    """The formula above."""
    return factor * tokens * parameters / (devices * flops_per_s) / 86400


days = days_of(8, 300e9, 175e9, 1024, 140e12)
mixed = days_of(6, 300e9, 175e9, 1024, 140e12)
days_guessed.compare(days)
print(f"with factor 6 and the same speed: {mixed:.0f} days, a quarter too few")

# %% [markdown] id="days-explain"
# **Explain.** The training takes 34 days, as the authors estimate too ([Narayanan and others, 2021, section
# 5.1](https://arxiv.org/abs/2104.04473)). The formula leaves attention out. For the model with 18.4 billion
# parameters the exact count was 8.18 instead of 8, so the formula misses 2 % of the days. It also leaves out
# failures, restarts and checkpoints. The formula is therefore a quick lower bound.

# %% [markdown] id="ex1" tags=["exercise"]
# > **Exercise 14.1** — The formulas above describe a GPT of 2019. Write both counts for a model such as Llama 3,
# > which differs in four points:
# >
# > - The queries have `heads` heads, and keys and values have only `kv_heads` heads of the same size
# >   (**grouped-query attention**). The matrices of keys and values are narrower by this factor.
# > - The MLP has three matrices of `hidden` × `mlp` weights.
# > - No matrix has a bias, and a norm has only a factor. Each layer has two norms, and one follows the last layer.
# > - There is no table of positions. A second table of `vocabulary` rows gives the scores of the tokens.
# >
# > Return the number of parameters and the model FLOPs per token of a training step. Count the FLOPs of all attention
# > scores, as the formula above does. Taking a row from the first table is not a matmul.


# %% id="ex1-gap" tags=["exercise"]
def count(layers, hidden, heads, kv_heads, mlp, vocabulary, sequence):
    """Return the parameters, and the model FLOPs per token of a training step."""
    ### BEGIN SOLUTION
    ### GAP return ...  # 4 to 8 lines
    attention = 2 * hidden**2 + 2 * hidden**2 * kv_heads / heads
    layer = attention + 3 * hidden * mlp
    in_matmuls = layers * layer + vocabulary * hidden
    norms = (2 * layers + 1) * hidden
    scores = 3 * 4 * layers * hidden * sequence
    return in_matmuls + vocabulary * hidden + norms, 6 * in_matmuls + scores
    ### END SOLUTION


# %% id="ex1-check" tags=["check"]
check.ex14_today(count)

# %% [markdown] id="ex1-why" tags=["solution"]
# In a forward pass, a query is multiplied with *s* keys, and its scores with *s* values. Each takes 2 *s h* FLOPs,
# in every layer, and the backward pass takes twice as many. The next cell counts the largest Llama 3.

# %% id="ex1-use" tags=["solution"]
total, per_token = count(126, 16384, 128, 8, 53248, 128256, 8192)
print(f"{total / 1e9:.1f} billion parameters")
print(f"{per_token * 15.6e12:.2e} FLOPs for 15.6 trillion tokens of training")
print(f"{6 * total * 15.6e12:.2e} FLOPs by 6 T P")

# %% [markdown] id="ex1-published" tags=["solution"]
# Meta gives 3.8 × 10²⁵ FLOPs for [Llama 3 405B](https://arxiv.org/abs/2407.21783), trained in 2024 on 15.6 trillion
# tokens. The last line agrees, so this number leaves the attention scores out. With all scores of a sequence of 8192
# tokens, the count is 8 % higher.

# %% [markdown] id="wrong-idea"
# ## Can a wrong estimate look right?
#
# Here is an estimate of the days that the same 16 devices need to train the model with 18.4 billion parameters on
# 300 billion tokens:

# %% id="wrong-page"
their_tokens = 300 * 10e9
more = 1048 / (6 * 6144) + 50257 / (16 * 40 * 6144)
their_flops = 96 * 512 * 1048 * 40 * 6144**2 * (1 + more)
theoretical_peak = round(their_flops / 32.09 / 16 / 1e12, 1) * 10e12
their_days = 8 * their_tokens * 18.4e9 / (16 * theoretical_peak) / 86400
print(f"{their_days:.0f} days")

# %% [markdown] id="wrong-ask"
# The result looks sensible.
#
# **Predict.** How many mistakes are in these lines? Check every number, every name, and every assumption that is not
# stated. Count a repeated mistake only once.

# %% id="wrong-guess"
### BEGIN SOLUTION
### GAP guess_mistakes = ...  # your number in place of the dots
guess_mistakes = 1
### END SOLUTION

# %% id="wrong-predict"
mistakes = predict("14: mistakes in an estimate", guess_mistakes)

# %% [markdown] id="ex2" tags=["exercise"]
# > **Exercise 14.2** — Repair the estimate. Give the number of tokens, the FLOP/s that one device achieved in
# > hardware FLOPs, and the resulting days. Then give the factor, 6 or 8, for a run **without** recomputation.

# %% id="ex2-gap" tags=["exercise"]
### BEGIN SOLUTION
### GAP right_tokens = ...
### GAP right_flops_per_s = ...
### GAP right_days = ...
### GAP factor_without_recomputation = ...
right_tokens = 300e9
right_flops_per_s = flops_of(512, 40, 6144, 50257, 1024, recomputed=True) / 32.09 / 16
right_days = days_of(8, right_tokens, 18.4e9, 16, right_flops_per_s)
factor_without_recomputation = 6
### END SOLUTION

# %% id="ex2-check" tags=["check"]
check.ex14_repaired(right_tokens, right_flops_per_s, right_days, factor_without_recomputation)

# %% id="wrong-counted"
mistakes.compare(5)

# %% [markdown] id="wrong-count"
# There are five mistakes: two wrong powers of ten, a mistyped number, a wrong name and an assumption that is not
# stated. Only the mistyped number changes the result.

# %% [markdown] id="ex2-why" tags=["solution"]
# In Python `10e9` is ten billion, so `300 * 10e9` is 3000 billion tokens, and `10e12` is ten tera. One error is in
# the numerator and one is in the denominator, so they cancel and the result looks right. But if you copy only the
# number of tokens, you are wrong by a factor of ten.
#
# The sequence length is mistyped as 1048 instead of 1024, which gives a speed of 157.7 instead of 154.0 TFLOP/s.
# The speed is called a theoretical peak, but it was measured, and the peak is 312 TFLOP/s. The factor 8 assumes
# full recomputation without saying so. Otherwise the factor would be 6.
#
# There are several correct ways to count the days:

# %% id="ex2-ways" tags=["solution"]
model_flops_per_s = flops_of(512, 40, 6144, 50257, 1024, recomputed=False) / 32.09 / 16
pd.Series(
    {
        "the estimate above: 8 T P, speed with the mistyped sequence": their_days,
        "8 T P, speed in hardware FLOPs": right_days,
        "6 T P, speed in model FLOPs": days_of(6, right_tokens, 18.4e9, 16, model_flops_per_s),
        "8.18 T P, as counted exactly": days_of(
            hardware / big / tokens, right_tokens, big, 16, right_flops_per_s
        ),
        "iterations × 32.09 s": right_tokens / (512 * 1024) * 32.09 / 86400,
    },
    name="days",
).round(1).to_frame()

# %% [markdown] id="ex2-differ" tags=["solution"]
# The difference between 203 and 207 days comes from the mistyped sequence length, which made the speed 2 % too high.
# The difference between 207 and 212.5 days comes from attention. The speed includes the matmuls of attention, but 8
# *T P* leaves them out. With 8.18 instead of 8, formula and iterations agree. With 6 *T P* the gap is slightly wider,
# because model FLOPs are 6.16 per parameter and token. The last line is the most accurate and needs no FLOPs, but it
# needs a measured iteration.

# %% [markdown] id="site-idea"
# ## Can you predict a run on your own cluster?
#
# To predict a run on a real machine, the planner must know how fast the machine multiplies, moves memory, starts
# operations and sends data over its links. The program of lesson 00 measures the links. Short runs on one device
# each, called **probes**, give the other speeds. Three probes use a micro-batch of 2 samples and one uses 8.
#
# The four probes run at the same time, because all four devices also work in the run that you will predict. A device
# is a little slower when its neighbours work, since they share memory, caches or power.

# %% id="site-run"
submitted = [lab.submit(recipe(f"probe2-{number}", iterations=24)) for number in (1, 2, 3)]
submitted += [
    lab.submit(recipe("probe8", micro_batch=8, iterations=7)),
    lab.submit(links.recipe("roads", nodes=2, gpus_per_node=2, max_bytes=2**22, repeat=10)),
]
*probes, probe8, link_run = [run.require() for run in submitted]
link_run.links.table


# %% id="site-calibrate"
def seconds(*runs):
    """Median of all iterations, because the first and the recorded one are slower."""
    return pd.concat([run.log.iterations["elapsed_ms"] for run in runs]).median() / 1e3


def observed(*runs):
    first = runs[0].recipe
    return plan.Observation(gpt.model(first), gpt.layout(first), seconds(*runs))


if probe.memory[0].device == "cpu":
    cluster = plan.box(processors=os.cpu_count())
else:
    known = HARDWARE if HARDWARE in plan.DEVICES else "A100-40GB"
    cluster = plan.cluster(known).but(nodes=2, devices_per_node=2)
print(f"the planner starts from the figures of: {cluster.device.name}")
cluster = plan.with_links(cluster, link_run.links)
here = plan.calibrate(cluster, plan.STACKS["course"], [observed(*probes), observed(probe8)])
print(f"an iteration on one device: {1e3 * seconds(*probes):.0f} ms with a micro-batch of 2")
for part in ("gradients", "activations"):
    print(f"{part}: {probe.memory[0].peak_composition[part] / 2**20:.1f} MiB")
pd.Series(here.factors, name="factor").round(2).to_frame()

# %% [markdown] id="site-explain"
# The planner started from round figures for a CPU core, or from the data sheet of the GPU that it names above. The
# probes corrected these figures. A factor of 2 means that your device is twice as fast as the starting figure. On the
# box, a device may be a share of a core. If your GPU was not in the table, the probes have multiplied all speeds of a
# different GPU by one factor, so the predicted time is less accurate.

# %% [markdown] id="target-idea"
# Now predict a new run, the same model on four devices, two on each node. Each device computes 2 samples, as in the
# first three probes. Then a ring all-reduce adds up the gradients and sends 1.5 times their size over each link
# (lesson 04). A device stores 16 bytes per parameter, four times the size of the gradients, and the activations.
#
# **Predict.** How many milliseconds does an iteration take, and how many MiB does one device need at its peak?

# %% id="target-guess"
### BEGIN SOLUTION
### GAP guess_ms, guess_mib = ..., ...
guess_ms, guess_mib = 100, 100
### END SOLUTION

# %% id="target-plan"
expected = {
    "ms": predict("14: time of an iteration on four devices", guess_ms, unit="ms"),
    "MiB": predict("14: peak memory of one of four devices", guess_mib, unit="MiB"),
}
target_recipe = recipe(
    "target",
    nodes=2,
    gpus_per_node=2,
    memory=(7, 8),
    profile=(7, 8),
    profile_ranks=[0, 1, 2, 3],
)


def planned_for(recipe):
    return plan.predict(gpt.model(recipe), gpt.layout(recipe), here.cluster, here.stack)


predicted = planned_for(target_recipe)
in_ms = {name: 1e3 * part for name, part in predicted.parts.items()}
pd.Series(in_ms | {"together": 1e3 * predicted.seconds}, name="ms").round(1).to_frame().T

# %% [markdown] id="target-table"
# The planner predicts each part of the step, and the parts add up:
#
# - `matmul` and `attention` are the FLOPs of this lesson, divided by the speed that the probes found.
# - `memory` and `optimizer` only move data.
# - `launch` and `loop` are the costs of starting operations and steps.
# - `data` is the all-reduce over the links that you measured.
# - `straggler` is the time that ranks wait for the slowest rank.
# - `sharing` appears only if the devices share a smaller number of CPU cores and keep no fixed pace.

# %% id="target-run"
submitted = lab.submit(target_recipe)
submitted.watch()
target = submitted.require()

# %% id="memory-see"
planned = dict(predicted.fullest.parts)
planned["activations"] += planned.pop("logits")  # the trace counts them as one
measured = target.memory[0].peak_composition
planned_mib, measured_mib = sum(planned.values()) / 2**20, target.memory[0].peak_bytes / 2**20
expected["MiB"].compare(measured_mib)
print(f"predicted {planned_mib:.1f}, measured {measured_mib:.1f}")
show.memory_parts(planned, measured)

# %% id="memory-claim" tags=["claim"]
ratio = planned_mib / measured_mib
claim("memory: predicted relative to measured", ratio, least=0.97, most=1.03, unit="times")

# %% [markdown] id="memory-explain"
# **Explain.** Memory can be counted like parameters: 4 bytes for a parameter, 4 for its gradient, 8 for the
# optimizer, and the activations of every token (lesson 09). The ratio above shows how accurate such a count is before
# anything has run. On a GPU the part `temporary` may be larger than planned, because libraries for matmuls reserve a
# workspace.

# %% id="time-see"
low, high = predicted.interval
expected["ms"].compare(1e3 * seconds(target))
print(f"predicted   {1e3 * predicted.seconds:.0f} ms")
print(f"            (80 % of the runs of this kind take {1e3 * low:.0f} to {1e3 * high:.0f} ms)")
print(f"measured    {1e3 * seconds(target):.0f} ms")

# %% id="time-claim" tags=["claim"]
ratio = predicted.seconds / seconds(target)
claim("time: predicted relative to measured", ratio, least=0.75, most=1.25, unit="times")

# %% [markdown] id="residual-idea"
# ## Which part of the prediction was wrong?
#
# The predicted and the measured time differ. To explain the difference, find the part of the step that caused it. The
# profile divides the step into computing and waiting for others, so you can compare both parts with the plan.
# Recording slows the recorded step down. The next cell therefore takes the percentages from the profile and the time
# from the log.


# %% id="residual-see"
def divided(parts):
    """The planner's parts in ms, divided as the profile divides the step."""
    waiting = ("tensor", "context", "pipeline", "data", "bubble", "straggler")
    waited = 1e3 * sum(parts.get(name, 0) for name in waiting)
    return {"computing": 1e3 * sum(parts.values()) - waited, "waiting for others": waited}


def divided_as_measured(run):
    overlap = run.profile.overlap
    waited = overlap["exposed_communication_us"].sum() / overlap["total_us"].sum()
    whole = 1e3 * seconds(run)
    return {"computing": (1 - waited) * whole, "waiting for others": waited * whole}


both = pd.DataFrame(
    {"predicted": divided(predicted.parts), "measured": divided_as_measured(target)}
)
both.loc["together"] = both.sum()
show.predicted(dict(both["predicted"]), dict(both["measured"]), unit="ms", what="time of a step")

# %% id="residual-table"
both["residual"] = both["measured"] - both["predicted"]
both.round(1)

# %% [markdown] id="residual-explain"
# **Explain.** The **residual** is the measured time minus the predicted time. The next cell names the larger residual
# and a possible cause:

# %% id="residual-said"
LONGER = {
    "computing": "Computing took longer than predicted. "
    "Perhaps another job used the machine, or the machine became warm and slowed down.",
    "waiting for others": "Waiting for others took longer than predicted. "
    "Perhaps the ranks reached the all-reduce at different times: it waits for the last rank.",
}
LESS = {
    "computing": "Computing took less than predicted. Perhaps something slowed down the probes but not the target.",
    "waiting for others": "Waiting for others took less than predicted. "
    "Perhaps the links were busy when they were measured, or the target uses them better than planned.",
}
residuals = both["residual"].drop("together")
larger = residuals.abs().idxmax()
if residuals.abs().max() < 0.05 * both.loc["together", "measured"]:
    print("Both residuals are below 5 % of the step, too small to explain. If the larger one grew:")
print((LONGER if residuals[larger] > 0 else LESS)[larger])

# %% [markdown] id="residual-more"
# This cause is only a hypothesis. To test it, change one thing and predict again. Twice the micro-batch doubles
# `matmul`, `attention` and `memory`, and leaves the optimizer, the launches and the all-reduce unchanged. If the
# residual grows in proportion to a part, this part was predicted wrongly.
#
# How accurate can a prediction be? In 2023 [vTrain](https://arxiv.org/abs/2312.12391) reported a mean error of 8 % on
# one node of A100 GPUs and 15 % on up to 512 GPUs. In 2025 [Lumos](https://arxiv.org/abs/2504.09307) reported 3 %
# when it replayed runs on up to 512 H100 GPUs. `benchmarks/planner.py` compares our planner with published runs.

# %% [markdown] id="ex3" tags=["exercise"]
# > **Exercise 14.3** — All four devices of `target` keep the whole parameters and the whole optimizer state. The
# > argument `zero` says what is sharded instead: 0 nothing, 1 the optimizer state, 3 also gradients and parameters
# > (lesson 11). Shard **only the optimizer state**. Predict the peak of the run `target` with this one change, in MiB
# > and within 3 %, *then* run it.

# %% id="ex3-gap" tags=["exercise"]
### BEGIN SOLUTION
### GAP sharded_recipe = recipe("sharded", nodes=2, gpus_per_node=2, memory=(7, 8), zero=...)
### GAP predicted_mib = ...  # planned_for(recipe).fullest.allocated are bytes
sharded_recipe = recipe("sharded", nodes=2, gpus_per_node=2, memory=(7, 8), zero=1)
predicted_mib = planned_for(sharded_recipe).fullest.allocated / 2**20
### END SOLUTION
sharded = lab.submit(sharded_recipe)
sharded.watch()

# %% id="ex3-check" tags=["check"]
check.ex14_sharded(predicted_mib, sharded, target)

# %% [markdown] id="ex3-why" tags=["solution"]
# Three quarters of the 8 bytes per parameter are gone, which saves 6 bytes. But each device also keeps the summed
# gradient of its own quarter, beside its own gradients. This sum costs 1 byte per parameter. So the peak falls by 8 ×
# 3/4 − 4 × 1/4 = 5 bytes per parameter, not by 6. If you left this sum out, look at the next figure, which counts it
# with the gradients.

# %% id="ex3-look" tags=["solution"]
sharded_parts = dict(planned_for(sharded_recipe).fullest.parts)
sharded_parts["activations"] += sharded_parts.pop("logits")
show.memory_parts(sharded_parts, sharded.memory[0].peak_composition)

# %% [markdown] id="challenge" tags=["exercise"]
# > **Going further** — Let the planner search.
# > `plan.search(gpt.model("18b"), plan.cluster("selene", 64), 512).table()` ranks all layouts of the model with 18.4
# > billion parameters on 64 A100. How many days does the best layout take for 300 billion tokens, and what does it
# > recompute? How many days does the formula give? How much memory does the best layout leave free?

# %% [markdown] id="guesses-idea"
# ## Did your guesses get better?
#
# The course kept your first guess for each prediction, together with the result:

# %% id="guesses-see"
kept = guesses()
show.guesses(kept) if len(kept) else print(
    "No guesses have been kept. If you answer the predictions, a figure appears here."
)

# %% id="guesses-said"
numbers = kept["times_off"].dropna()
half = len(numbers) // 2
early, late = numbers.iloc[:half].median(), numbers.iloc[half:].median()
if len(numbers) < 10:
    print(f"{len(numbers)} numbers so far: too few to see whether they get better.")
else:
    print(f"In the first half you were off by a factor of {early:.2g}, in the second by {late:.2g}")
    print("(median of each half).", end=" ")
    if late < 0.95 * early:
        print("You predict these machines better than you did at the beginning.")
    elif late < 1.05 * early:
        print("Your accuracy stayed the same, although the questions became harder.")
    else:
        print("But the questions also became harder. Look at kept.nlargest(5, 'times_off').")

# %% [markdown] id="guesses-explain"
# *The factor by which each guess was too large or too small, lesson by lesson. The dashed line marks a correct guess.
# The line above counts the guesses that are not numbers.*
#
# If the possible values differ by factors of thousands, a guess within a factor of three is good. If a guess was far
# off, try to name the *term* that you had forgotten.

# %% [markdown] id="home"
# ## To take home
#
# - A GPT has 12 *l h*² parameters and two tables. A count is exact, so a difference has a reason that you can find.
# - A model needs 6 FLOPs per parameter and token. Devices that recompute everything do 8. Never combine the factor of
#   one count with the speed of the other.
# - The (dense) peak is on the data sheet, and the achieved speed is in the log. Half of the peak is good on an
#   A100, 40 % on thousands of H100s.
# - A sensible result does not prove an estimate, because two mistakes may cancel. Check the inputs.
# - Memory can be counted before the run, to about one percent. Time can be predicted in parts, and a residual shows
#   which part was wrong.

# %% [markdown] id="clean-idea"
# ## Cleaning up
#
# The next cell deletes the probes. The runs `target` and `sharded` stay for the check of exercise 14.3. If you
# run the lesson again, new probes may find other speeds.
#
# **References**
#
# - Narayanan and others, 2021, Megatron-LM: [arXiv 2104.04473](https://arxiv.org/abs/2104.04473)
# - Korthikanti and others, 2022, Megatron-LM: [arXiv 2205.05198](https://arxiv.org/abs/2205.05198)
# - Bang and others, 2023, vTrain: [arXiv 2312.12391](https://arxiv.org/abs/2312.12391)
# - Meta, 2024, Llama 3: [arXiv 2407.21783](https://arxiv.org/abs/2407.21783)
# - Liang and others, 2025, Lumos: [arXiv 2504.09307](https://arxiv.org/abs/2504.09307)

# %% id="clean"
lab.clean(probe, *probes, probe8, link_run, yes=True)
