# %% [markdown] id="title"
# # 14 Estimating
#
# Large trainings are planned on paper, long before the first device-hour is paid. How many parameters, how
# many operations, how many days, how much memory: four numbers that a page of arithmetic tells, and that are
# wrong surprisingly often. In this lesson you compute them for published models and find the mistakes in
# somebody else's estimate. Then you do what paper cannot do: predict a run of your own, let it run, and
# account for the difference. In the end you look at another series of predictions: yours.
#
# | | |
# |---|---|
# | You will be able to | count parameters and FLOPs of a GPT by hand; tell model FLOPs from hardware FLOPs, and achieved from peak; estimate days of training, and say why two estimates differ; predict memory and time of a run on your cluster, and say what the prediction is made of |
# | Minutes | 50 |
# | Devices | 2 nodes with 2 devices each |
# | Before | lessons 03 and 09 |

# %% id="begin"
import os

import pandas as pd

from course_lib import Lab, check, claim, gpt, guesses, links, plan, predict, show

lab = Lab()

# %% [markdown] id="hardware-idea"
# The last part of this lesson plans a run on *your* devices, and needs to know which they are. Your site says so, if
# somebody has written it into its file (`device = "…"`). If the next cell does not find it, or you know better,
# write the name in. Devices that are processes on a processor need none.

# %% id="hardware"
HARDWARE = lab.site.device.upper()  # or a name of the table, such as "H100"
if HARDWARE not in plan.DEVICES:
    if HARDWARE:
        print(f"site {lab.site.name} names {HARDWARE}, which is not in the table.")
    else:
        print(f"site {lab.site.name} names no device.")
    print("If your devices are GPUs, set HARDWARE to the one that is most like them, of:")
    print(", ".join(plan.DEVICES))
else:
    print(f"your devices: {HARDWARE}, {plan.device(HARDWARE).memory_gib} GiB each")

# %% [markdown] id="parameters-idea"
# ## How many parameters?
#
# A GPT is a stack of *l* equal layers of width *h*. Before them stands the *embedding*, a table that has a row of width *h*
# for each word of the vocabulary; behind them the same table is used backwards, to score every word. One layer holds:
#
# | | numbers |
# |---|---|
# | attention: three matrices for queries, keys and values, one for the output | 4 *h*² + 4 *h* |
# | the wide middle, *h* → 4 *h* → *h* | 8 *h*² + 5 *h* |
# | two norms, a factor and a shift each | 4 *h* |
# | **together** | **12 *h*² + 13 *h*** |
#
# The embedding has *V* rows, the table of positions has *s*, one for each place in the sequence. In all:
#
# $$P = 12\,l\,h^2 \left(1 + \frac{13}{12\,h} + \frac{V + s}{12\,l\,h}\right)$$
#
# **Predict.** A model with 40 layers of width 6144, with a vocabulary of 50 257 words and sequences of 1024:
# how many billion parameters? (In your head, from the largest term alone.)

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
# **Explain.** Nearly everything comes from the first term. 12 *l h*² alone gives 18.1 billion, which is 12 ×
# 40 × 6144² and needs no more than the back of an envelope. The smaller the model, the worse this gets: the
# tables do not shrink with the layers.
#
# Is the formula right? A program that trains can count. Here is a small model on one device; you will need
# the run again later.

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
claim("formula and program differ by the last norm", missing, least=256, most=256)

# %% [markdown] id="count-explain"
# **Explain.** A difference of a few hundred in millions is no rounding: counting is exact. It is twice the
# width. The formula, which is the one that papers print, forgets the norm that stands between the last layer
# and the vocabulary. Programs often differ from it in a second way: they round the vocabulary up to a
# multiple of 128, because matrices of such sizes are multiplied faster. (50 257 becomes 50 304.)
#
# An estimate may be wrong in the last digits. But you should know *why*; what nobody can explain is not an
# estimate, it is a coincidence.

# %% [markdown] id="flops-idea"
# ## Six or eight?
#
# A **FLOP** is one floating-point operation: an addition or a multiplication. (FLOPs are a number; FLOP/s,
# per second, are a speed. Mixing up the two words has cost many an hour.)
#
# **Predict.** A matrix of 128 × 512 weights is applied to one token. How many FLOPs for each weight, forward?
# And how many for the backward pass alone?

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
os.environ.pop("TORCHINDUCTOR_CACHE_DIR", None)  # counting sets it, and jobs would inherit it
each = weights.numel() * len(rows)
per_weight["forward"].compare(forward.get_total_flops() / each)
per_weight["backward"].compare(backward.get_total_flops() / each)

# %% id="flops-claim" tags=["claim"]
step = (forward.get_total_flops() + backward.get_total_flops()) / each
claim("a step takes 6 FLOPs for each weight and token", step, least=6, most=6)

# %% [markdown] id="flops-explain"
# **Explain.** Forward, each weight is multiplied with something and the product is added to a sum: two.
# Backward needs two products of the same size, one for the gradient of the weights, one for the gradient of
# the input: four.
#
# So a training step takes **6 FLOPs per parameter and token**. If the layers are computed forward a second
# time (lesson 09), it takes **8**. Both numbers are true, of different things:
#
# - **model FLOPs** are what the mathematics needs: 6 per parameter and token, however clumsily it is done;
# - **hardware FLOPs** are what the devices really do: 8 with full recomputation, 6 without.
#
# Two things do not fit this rule: attention multiplies queries with keys, which are no parameters, and the
# product with the vocabulary is not recomputed. Counted exactly, one iteration of *B* samples of *s* tokens
# takes, fully recomputed,
#
# $$F = 96\,B\,s\,l\,h^2 \left(1 + \frac{s}{6\,h} + \frac{V}{16\,l\,h}\right)$$
#
# and without recomputation 72 in the place of 96, and 12 in that of 16. (96 is 8 × 12, 72 is 6 × 12: look at *P*.)


# %% id="flops-formula"
def flops_of(batch, layers, hidden, vocabulary, sequence, recomputed):
    """FLOPs of one iteration, of all devices together."""
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
# The third line is a matter of taste that you have to know of. A GPT's attention is *causal*: half of the scores are
# masked away. The formula counts them all, as most papers, the planner and the course's program do. Today's Megatron-LM
# counts the half that is needed. At this size they differ by 1.3 %, at long sequences by much more: compare only numbers of one count.

# %% [markdown] id="achieved-idea"
# ## Achieved, and peak
#
# The **peak** of a device stands on its data sheet: an A100 can do 312 TFLOP/s in 16-bit numbers, if it does
# nothing but multiply large matrices. The **achieved** rate is what a run really did: its FLOPs, divided by
# its time and by its devices.
#
# The model of 18.4 billion was trained, with full recomputation, on 16 A100 with 512 samples per iteration.
# One iteration took 32.09 s (published in the notes of a training lab).
#
# **Predict.** At how many percent of the peak did it run?

# %% id="achieved-guess"
### BEGIN SOLUTION
### GAP guess_share = ...  # percent
guess_share = 80
### END SOLUTION

# %% id="achieved-see"
share = predict("14: hardware FLOPs, of the peak", guess_share, unit="%")
peak = plan.device("A100-40GB").fp16_tflops
achieved = hardware / 32.09 / 16 / 1e12
model_rate = model / 32.09 / 16 / 1e12
share.compare(100 * achieved / peak)
print(f"hardware FLOPs: {achieved:.1f} TFLOP/s per device, {achieved / peak:.1%} of the peak (HFU)")
print(
    f"model FLOPs:    {model_rate:.1f} TFLOP/s per device, {model_rate / peak:.1%} of the peak (MFU)"
)

# %% [markdown] id="achieved-explain"
# **Explain.** On an A100 half of the peak is a good run; four fifths are reached by nobody. It depends on the device: an
# H100 multiplies three times as fast, and the rest of it is not three times as fast; there about 40 % in bf16 are good.
# (Take the *dense* peak, 989 TFLOP/s. Many data sheets print twice that, for matrices half of which is zero.)
#
# The share of the peak that was achieved is called **HFU** (hardware FLOPs utilisation) if it counts what the devices did,
# and **MFU** if it counts what the model needed. Which of the two is the better measure? Here is a published pair to
# decide it: the same model of 175 billion parameters on the same 64 A100, 64 samples per iteration, once with
# everything recomputed, once with only the inside of attention and with sequence parallelism (arXiv
# 2205.05198, Table 5). The times are published; both shares are our count.

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
claim("HFU does not see the difference", hfu["selective"] - hfu["full"], least=-1, most=1, unit="%")
claim("MFU does", mfu["selective"] - mfu["full"], least=10, unit="%")

# %% [markdown] id="mfu-explain"
# The HFU says that the two runs are equally good, and yet one of them needs a quarter less time. Work that was not
# necessary counts as work in the HFU; whoever wants to know when the training will be over looks at the MFU.
#
# (The paper's own MFU for the second run is 51.4 % too; its HFU is 52.8 %. Its formula counts for the recomputed products
# of attention as much as for all of their forward and backward pass; exactly it is a third of that.)

# %% [markdown] id="days-idea"
# ## How many days?
#
# FLOPs per token, times tokens, divided by the speed of all devices. With *T* tokens, *P* parameters, *n*
# devices and *X* FLOP/s **achieved** by each:
#
# $$\text{time} \approx \frac{8\,T\,P}{n\,X} \quad\text{or}\quad \frac{6\,T\,P}{n\,X}$$
#
# Eight, if *X* counts hardware FLOPs of a run that recomputes everything. Six, if *X* counts model FLOPs.
# Factor and rate must be of the same kind.
#
# **Predict.** GPT-3: 175 billion parameters, 300 billion tokens, 1024 A100 that achieve 140 TFLOP/s each
# (hardware FLOPs, with full recomputation). How many days?

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
print(f"with factor 6 and the same rate: {mixed:.0f} days, a quarter too few")

# %% [markdown] id="days-explain"
# 34 days is also what the authors published (arXiv 2104.04473, section 5.1). The formula leaves attention out: for the
# model of 18.4 billion it was 8.18 FLOPs per parameter and token, not 8, so 2 % of the days are missing. It also leaves out
# whatever happens in a month to a thousand devices: failures, restarts, checkpoints. It is a lower bound that is easily
# computed, which is a good thing to have.

# %% [markdown] id="ex1" tags=["exercise"]
# > **Exercise 14.1** — The model `lab` of lesson 03, run by the published lab of lesson 08: 12 layers of width 768,
# > vocabulary 50 257, sequences of 1024. On 4 V100 GPUs, without recomputation, it took 537 ms per iteration
# > of 8 samples. How many million parameters has it, how many TFLOP/s did each device achieve by `flops_of`,
# > and how many days would 10 billion tokens take?

# %% id="ex1-gap" tags=["exercise"]
### BEGIN SOLUTION
### GAP parameters_millions = ...
### GAP tflops_per_device = ...
### GAP training_days = ...
parameters_millions = parameters_of(12, 768, 50257, 1024) / 1e6
tflops_per_device = flops_of(8, 12, 768, 50257, 1024, recomputed=False) / 0.537 / 4 / 1e12
training_days = 10e9 / (8 * 1024) * 0.537 / 86400
### END SOLUTION

# %% id="ex1-check" tags=["check"]
check.ex14_own(parameters_millions, tflops_per_device, training_days)

# %% [markdown] id="ex1-why" tags=["solution"]
# 124 million parameters, the size of GPT-2 small. Each V100 achieved about 3.3 TFLOP/s: a fifth of its 15.7
# TFLOP/s in float32. The days need no FLOPs at all: tokens, divided by tokens per iteration, times seconds
# per iteration. If you took 6 *T P* / (*n X*) instead, you found a little less than 7 days: the short formula
# leaves out the products of attention, which are an eighth of the work of this small model.

# %% [markdown] id="wrong-idea"
# ## An estimate to check
#
# Here is an estimate as one finds it, for the model of 18.4 billion: how long do its 16 devices take for 300
# billion tokens?

# %% id="wrong-page"
their_tokens = 300 * 10e9
more = 1048 / (6 * 6144) + 50257 / (16 * 40 * 6144)
their_flops = 96 * 512 * 1048 * 40 * 6144**2 * (1 + more)
theoretical_peak = round(their_flops / 32.09 / 16 / 1e12, 1) * 10e12
their_days = 8 * their_tokens * 18.4e9 / (16 * theoretical_peak) / 86400
print(f"{their_days:.0f} days")

# %% [markdown] id="wrong-ask"
# 203 days: that looks sensible, it was printed, and people have planned with it.
#
# **Predict.** How many mistakes are in these lines? (Look at every number, and at the names too.)

# %% id="wrong-guess"
### BEGIN SOLUTION
### GAP guess_mistakes = ...  # your number in place of the dots
guess_mistakes = 1
### END SOLUTION

# %% id="wrong-predict"
mistakes = predict("14: mistakes in an estimate", guess_mistakes)

# %% [markdown] id="ex2" tags=["exercise"]
# > **Exercise 14.2** — Repair it. Give the number of tokens, the FLOP/s that one device achieved (hardware
# > FLOPs), and the days that follow. Then say by which factor, 6 or 8, the 18.4 billion must be multiplied if
# > the devices did **not** recompute.

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
# Five: two powers of ten, one number that was mistyped, one name, and one thing that was left unsaid. Only one of them
# shows in the result.

# %% [markdown] id="ex2-why" tags=["solution"]
# In Python `10e9` is ten billion, not one: `300 * 10e9` are 3000 billion tokens. And `10e12` is ten tera.
# One stands above the line and one below, so the two tenfold mistakes cancel, and the result looks right. It
# is the most dangerous kind: the next one who takes only the number of tokens from this page is wrong by ten.
#
# The sequence is typed 1048 for 1024, which makes the rate 157.7 in the place of 154.0 TFLOP/s. The rate is called a
# theoretical peak, but it was measured: the peak of the device is 312. And the factor 8 stands there without a word about
# recomputation; without it, it would have to be 6.
#
# How many days are right? There are several honest ways to count:

# %% id="ex2-ways" tags=["solution"]
model_flops_per_s = flops_of(512, 40, 6144, 50257, 1024, recomputed=False) / 32.09 / 16
pd.Series(
    {
        "their page: 8 T P, rate with the mistyped sequence": their_days,
        "8 T P, rate of hardware FLOPs": right_days,
        "6 T P, rate of model FLOPs": days_of(6, right_tokens, 18.4e9, 16, model_flops_per_s),
        "8.18 T P, as counted exactly": days_of(
            hardware / big / tokens, right_tokens, big, 16, right_flops_per_s
        ),
        "iterations × 32.09 s": right_tokens / (512 * 1024) * 32.09 / 86400,
    },
    name="days",
).round(1).to_frame()

# %% [markdown] id="ex2-differ" tags=["solution"]
# From 203 to 207 is the mistyped sequence: the rate came out 2 % too high. From 207 to 212.5 is attention: the rate contains
# its products, and 8 *T P* leaves them out. Put 8.18 in the place of 8, and formula and counting agree, as they must.
# With 6 *T P* the gap is a little wider still, since the rate of model FLOPs contains 6.16. The last line is
# the best, and needs no FLOPs at all: but somebody must have measured an iteration.

# %% [markdown] id="site-idea"
# ## Your cluster, predicted
#
# So much for paper. A prediction for a real machine needs to know the machine: how fast it multiplies, how
# fast it moves memory, what starting an operation costs, and how fast the roads between the devices are. The
# roads are measured by the program of lesson 00, the rest is found from short runs of two known sizes, on one device each.
#
# They run side by side, on all four devices at once. A device whose neighbours work is a little slower than one alone, since
# they share memory, caches or power, and in the run to predict all four will work.

# %% id="site-run"
probes = [lab.submit(recipe(f"probe2-{number}", iterations=24)) for number in (1, 2, 3)]
probe8 = lab.submit(recipe("probe8", micro_batch=8, iterations=7))
roads = lab.submit(links.recipe("roads", nodes=2, gpus_per_node=2, max_bytes=2**22, repeat=10))
for run in (*probes, probe8, roads):
    run.require()
roads.links.roads


# %% id="site-calibrate"
def seconds(*runs):
    """Median over the iterations; the recorded one and the first are slower."""
    return pd.concat([run.log.iterations["elapsed_ms"] for run in runs]).median() / 1e3


def observed(*runs):
    first = runs[0].recipe
    return plan.Observation(gpt.model(first), gpt.layout(first), seconds(*runs))


if probe.memory[0].device == "cpu":
    cluster = plan.box(processors=os.cpu_count())
else:
    known = HARDWARE if HARDWARE in plan.DEVICES else "A100-40GB"
    cluster = plan.cluster(known).but(nodes=2, devices_per_node=2)
print(f"the plan starts from the figures of: {cluster.device.name}")
cluster = plan.with_links(cluster, roads.links)
here = plan.calibrate(cluster, plan.STACKS["course"], [observed(*probes), observed(probe8)])
pd.Series(here.factors, name="factor").round(2).to_frame()

# %% [markdown] id="site-explain"
# The planner began with the figures that it names above: round ones of a processor's core, or those of a GPU's
# data sheet. The probes moved them: a factor of 2 means that yours is twice as fast as that. (On the box a device is a
# core or a share of one, see lesson 00. If it named a GPU that is not yours, since `HARDWARE` was not in the table, the probes
# have corrected its speeds as a whole, but not each by itself; with the right name the prediction of time is better.)

# %% [markdown] id="target-idea"
# Now the run that has never run: the same model on four devices, two of them on each node.
#
# **Predict.** How many milliseconds per iteration, and how many MiB at the peak of one device?

# %% id="target-guess"
### BEGIN SOLUTION
### GAP guess_ms, guess_mib = ..., ...
guess_ms, guess_mib = 100, 100
### END SOLUTION

# %% id="target-plan"
expected = {
    "ms": predict("14: an iteration on four devices", guess_ms, unit="ms"),
    "MiB": predict("14: peak of one of four devices", guess_mib, unit="MiB"),
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
# Every part has a reason, and the parts add up. *matmul* and *attention* are the FLOPs of this lesson,
# divided by the speed that the probes found; *memory* and *optimizer* only move data; *launch* and *loop* are
# what starting operations and steps costs. *data* is the all-reduce over the roads that you measured, and
# *straggler* the waiting for the slowest rank. (A part *sharing* appears where devices are processes that share fewer
# processors than they are, and keep no pace.)

# %% id="target-run"
target = lab.submit(target_recipe)
target.watch()
target.require()

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
claim("memory: predicted over measured", ratio, least=0.97, most=1.03, unit="times")

# %% [markdown] id="memory-explain"
# **Explain.** Memory is counting, like parameters: 4 bytes for a parameter, 4 for its gradient, 8 for the
# optimizer, and for every token what the layers keep (lesson 09). So it can be right within a percent, before
# anything has run. On a GPU the *temporary* part may be larger than planned: libraries for matrix products
# take a work space of their own.

# %% id="time-see"
low, high = predicted.interval
expected["ms"].compare(1e3 * seconds(target))
print(f"predicted   {1e3 * predicted.seconds:.0f} ms")
print(f"            (four of five runs of this kind: {1e3 * low:.0f} to {1e3 * high:.0f} ms)")
print(f"measured    {1e3 * seconds(target):.0f} ms")

# %% id="time-claim" tags=["claim"]
ratio = predicted.seconds / seconds(target)
claim("time: predicted over measured", ratio, least=0.75, most=1.25, unit="times")

# %% [markdown] id="residual-idea"
# ## What the difference is made of
#
# Predicted and measured times differ. By how much is an answer for a bookkeeper; *where* is the answer that
# helps. The profile of the run says how its step was divided into computing and waiting for others, so both
# parts can be compared one by one. (The profile gives the shares, the iteration lines the time, since
# recording slows the recorded step down.)


# %% id="residual-see"
def divided(parts):
    """The planner's parts in ms, as a profile can tell them apart."""
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
# **Explain.** Which residual is the larger one, and what may be behind it?

# %% id="residual-said"
LONGER = {
    "computing": "Computing took longer than predicted. "
    "Perhaps something came between: another job, or a machine that became warm.",
    "waiting for others": "Waiting for others took longer than predicted. "
    "Perhaps the ranks came unevenly: an all-reduce ends when the last one has come.",
}
LESS = {
    "computing": "Computing took less than predicted. Perhaps something held the probes up, and not the target.",
    "waiting for others": "Waiting for others took less than predicted. "
    "Perhaps the roads were measured at a bad moment, or are used better than planned.",
}
residuals = both["residual"].drop("together")
larger = residuals.abs().idxmax()
if residuals.abs().max() < 0.05 * both.loc["together", "measured"]:
    print(
        "Both residuals are below a twentieth of the step: too little to search for. If they grew:"
    )
print((LONGER if residuals[larger] > 0 else LESS)[larger])

# %% [markdown] id="residual-more"
# That is a suspicion. To find out whether it is true, change one thing and predict again: twice the micro batch doubles what is
# computed for samples (`matmul`, `attention`, `memory`) and leaves the optimizer, the starts and the all-reduce as they are. A residual that grows along with a part belongs to that part.
#
# How good is good? Published predictors of training time claim mean errors of 3 to 15 % on the clusters that
# they were made for (vTrain, arXiv 2312.12391: 8 and 15 %; Lumos, arXiv 2504.09307: 3 %).
# `benchmarks/planner.py` holds ours against published runs.

# %% [markdown] id="ex3" tags=["exercise"]
# > **Exercise 14.3** — All four devices keep the same parameters and the same numbers of the optimizer: four
# > times the same. They can share instead, and each keep a quarter. `zero` says what is shared: 0 nothing, 1
# > the optimizer's numbers, 3 gradients and parameters too (lesson 11). Share **only the optimizer's
# > numbers**. Predict the peak of the run `target` with this one change, in MiB and within 3 %, *then* let it
# > run.

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
# Three quarters of the 8 bytes per parameter are gone: 6 bytes. But each device also has a place for
# the sum of its own quarter, beside its own gradients, and keeps it all the time: one more byte per
# parameter. So the peak falls by 8 × 3/4 − 4 × 1/4 = 5 bytes per parameter, not by 6. Whoever forgot the sum
# finds it by comparing part by part: it has become a piece of the gradients.

# %% id="ex3-look" tags=["solution"]
sharded_parts = dict(planned_for(sharded_recipe).fullest.parts)
sharded_parts["activations"] += sharded_parts.pop("logits")
show.memory_parts(sharded_parts, sharded.memory[0].peak_composition)

# %% [markdown] id="challenge" tags=["exercise"]
# > **Going further** — Let the planner search:
# > `plan.search(gpt.model("18b"), plan.cluster("selene", 64), 512).table()` ranks all layouts of the model
# > of 18.4 billion on 64 A100. How many days for 300 billion tokens does it promise, with how much
# > recomputation, and what would the formula have said? How much memory does the best layout leave free?

# %% [markdown] id="guesses-idea"
# ## Your guesses
#
# You have made another series of predictions: one before nearly every run of this course. They were kept, the first one for
# each question, with what came out.

# %% id="guesses-see"
kept = guesses()
show.guesses(kept) if len(kept) else print(
    "No guess has been kept: whoever guesses sees a figure here."
)

# %% id="guesses-said"
numbers = kept["times_off"].dropna()
half = len(numbers) // 2
early, late = numbers.iloc[:half].median(), numbers.iloc[half:].median()
if len(numbers) < 10:
    print(f"{len(numbers)} numbers so far: too few to see whether they get better.")
else:
    print(f"In the first half you were off by a factor of {early:.2g}, in the second by {late:.2g}")
    print("(the middle one of each half).", end=" ")
    if late < 0.95 * early:
        print("You foresee these machines better than you did at the beginning.")
    elif late < 1.05 * early:
        print("That is the same, and the questions became harder.")
    else:
        print("The questions became harder, too. Look at kept.nlargest(5, 'times_off').")

# %% [markdown] id="guesses-explain"
# *By which factor each guess missed, too much or too little, lesson by lesson; the dashed line is right. Where the answer
# was a word, it is counted above.*
#
# A guess that is off by three in a quantity that ranges over thousands is a good one. What counts is not the last point of
# the curve. It is whether you could say *which term* you had forgotten, each time.

# %% [markdown] id="home"
# ## To take home
#
# - Parameters: 12 *l h*², and the tables. Counting is exact; know why yours differs.
# - 6 FLOPs per parameter and token are what the model needs. 8 are what devices do that recompute everything.
#   Never take the factor of one with the rate of the other.
# - Peak is on the data sheet (dense), achieved is in the log. Half of it is good on an A100, two fifths on an H100.
# - A sensible result proves nothing: two mistakes may cancel. Check the inputs.
# - Memory can be counted beforehand, to about a percent. Time can be predicted in parts, and the difference
#   belongs to one of them.

# %% [markdown] id="clean-idea"
# ## Cleaning up
#
# The probes go. The runs `target` and `sharded` stay, since the check of exercise 14.3 reads both. (Whoever runs
# the lesson again gets new probes; their roads and speeds may have changed meanwhile.)

# %% id="clean"
lab.clean(probe, *probes, probe8, roads, yes=True)
