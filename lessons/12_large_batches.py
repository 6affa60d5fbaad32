# %% [markdown] id="title"
# # 12 Large batches
#
# Sixteen times the devices see sixteen times the samples in the same time. Each of their steps has a batch sixteen
# times as large, so the same samples make a sixteenth of the steps. Is the model as good after that? It can be, if
# one number changes with the batch; and from some batch on it cannot. Here you find both, on a model so small that
# a training takes seconds, and predict from two gradients what a larger batch will buy.
#
# | | |
# |---|---|
# | You will be able to | choose learning rate and warm-up for a batch that grew; tell a rate that is too high from a batch that is too large; measure the critical batch size from gradients that your devices have anyway; say what a training costs in time and in samples with any batch; see overfitting in two curves; say why each device has its own process, and why they begin with one rank's weights |
# | Minutes | 45 |
# | Devices | 2 nodes with 2 devices each |
# | Before | lessons 02 and 10 |

# %% id="begin"
import argparse
import ast
import difflib
import inspect
import typing

import numpy as np
import pandas as pd

from course_lib import Lab, check, claim, predict, program, show

lab = Lab()
text = lab.work / "library.txt"
text.write_text("".join(map(inspect.getsource, (argparse, ast, difflib, inspect, typing))))
SAMPLES, BATCH, RATE = 65_536, 16, 2e-3


def training(name, times=1, scaling="sqrt", **more):
    """The batch `times` as large as 16, and the rate scaled with it; 65,536 samples, unless `more` says so."""
    more = {"samples": SAMPLES, "warmup_samples": 4096, "lr": RATE, "width": 64} | more
    return program.recipe(
        name, "scale_batch.py", text=str(text), batch_size=times * BATCH, lr_scaling=scaling, **more
    )


def finished(recipes):
    """All are submitted before the first is waited for."""
    submitted = {name: lab.submit(recipe) for name, recipe in recipes.items()}
    return {name: run.require() for name, run in submitted.items()}


def lines(runs):
    """What each log says, a row for each time that the model was judged."""
    return {name: run.log.iterations for name, run in runs.items()}


# %% [markdown] id="rate-idea"
# ## Sixteen times the batch
#
# `code/scale_batch.py` trains the model of lesson 02, which sees sixteen letters of a Python program and guesses the
# next, with Adam. However large the batch, it sees 65,536 samples where nothing else is said. And it is judged by 2,048 samples from a part of the text from
# which nothing is learned: the *validation loss*. (A loss of *x* **nats** is that of guessing among e<sup>*x*</sup> equally
# likely letters.)
#
# With batches of 16 the learning rate 0.002 has proved good; that makes 4,096 steps. Now the batch is 256: 256 steps.
#
# **Predict.** Which learning rate ends with the lowest validation loss: the old one, 4 times it, or 16 times?

# %% id="rate-guess"
### BEGIN SOLUTION
### GAP guess_rate = ...  # "the same", "4 times" or "16 times"
guess_rate = "16 times"
### END SOLUTION

# %% id="rate-run"
RATES = {"the same": "none", "4 times": "sqrt", "16 times": "linear"}
best_rate = predict("12: best learning rate for 16 times the batch", guess_rate, choices=[*RATES])
small = finished({"batch 16": training("b16")})
by_rate = finished(
    {
        f"batch 256, rate {times}": training(f"b256-{scaling}", 16, scaling, micro_batch_size=64)
        for times, scaling in RATES.items()
    }
)
show.lines(
    lines(small | by_rate),
    x="consumed_samples",
    y="validation_loss",
    title="Sixteen times the batch, three rates",
)

# %% id="rate-see"
ends = {
    name: table["validation_loss"].tail(4).mean() for name, table in lines(small | by_rate).items()
}
lowest = min(RATES, key=lambda times: ends[f"batch 256, rate {times}"])
best_rate.compare(lowest)
pd.Series(ends, name="validation loss at the end").round(3).to_frame()

# %% id="rate-claim" tags=["claim"]
best = ends["batch 256, rate 4 times"]
claim("the old rate ends higher", ends["batch 256, rate the same"] - best, least=0.05, unit="nats")
claim("so does 16 times the rate", ends["batch 256, rate 16 times"] - best, least=0.05, unit="nats")
claim(
    "16 times the batch costs something", best - ends["batch 16"], least=0.03, most=0.2, unit="nats"
)

# %% [markdown] id="rate-explain"
# **Explain.** A mean over 16 times as many samples has 16 times smaller a variance: its noise is 4 = √16 times
# smaller. Adam divides each step by the size that its gradients have had. Where they are mostly noise,
# it divides by the noise, so that with the large batch what *is* signal already moves the weights 4 times as far per
# step. A sixteenth of the steps needs 16 times as far: the other factor of 4 is left to the rate.
#
# So the rule for Adam is the **root**: rate ∝ √batch. Plain SGD divides by nothing and has to get all of it from
# the rate: there the rule is *linear*, and who carries it over to Adam ends where "16 times" does. All had a **warm-up**:
# the rate grew from 0 over the first 4,096 samples. At the beginning Adam has seen few gradients and divides by a poor
# estimate. With the largest rate and no warm-up, how much of the bad first steps is left at the end? Chance has a hand in
# that, for it draws the first weights and the order of the samples. So three seeds, each with a warm-up and without:

# %% id="warm-run"
SEEDS = (1, 2, 3)
ways = {"warm-up": {}, "no warm-up": {"warmup_samples": 0}}
starts = finished(
    {
        f"{way}, seed {seed}": training(
            f"b256-{way.replace(' ', '-')}-{seed}", 16, "linear", seed=seed, **how
        )
        for way, how in ways.items()
        for seed in SEEDS
    }
)
ends |= {name: table["validation_loss"].tail(4).mean() for name, table in lines(starts).items()}
by_seed = pd.DataFrame(
    {way: {seed: ends[f"{way}, seed {seed}"] for seed in SEEDS} for way in ways}
).rename_axis("seed")
by_seed.round(3)

# %% id="warm-claim" tags=["claim"]
cold = by_seed["no warm-up"].mean() - by_seed["warm-up"].mean()
claim("without a warm-up it ends higher, mean of three seeds", cold, least=0.03, unit="nats")

# %% [markdown] id="warm-explain"
# *Validation loss at the end.* One seed tells little: what a cold start costs differs much from one to the next, so
# whoever compares two trainings by one seed each compares their luck too.
#
# And yet even the best of the three *rates* ends higher than batches of 16. Root and line are rules for gradients that are mostly
# noise. Where the noise ends they end; where that is, we shall measure. (LARS and LAMB, optimizers for very large batches, fit
# the step of each layer to the size of its weights. Large rates get safer by that; samples that say nothing new do not say more.)

# %% [markdown] id="only-idea"
# ## If only the rate grows
#
# Why not take the larger rate without the larger batch? **Predict.** Batches of 16 again, as in the first run, with
# 16 times its rate. After 65,536 samples, has the model learned `"more"` than with the rate of 0.002, `"less"`, or
# `"nothing but frequencies"`: how often each letter comes?

# %% id="only-guess"
### BEGIN SOLUTION
### GAP guess_only = ...  # one of the three
guess_only = "more"
### END SOLUTION

# %% id="only-run"
LEARNED = ("more", "less", "nothing but frequencies")
only = predict("12: only the rate grows, 16 times", guess_only, choices=LEARNED)
only_rate = finished(
    {
        f"batch 16, rate {times} times": training(f"b16-{times}", lr=times * RATE)
        for times in (4, 16)
    }
)
show.lines(
    lines(small | only_rate),
    x="consumed_samples",
    y="validation_loss",
    title="The same batch, larger rates",
    log="y",
)

# %% id="only-see"
shares = pd.Series(list(text.read_text())).value_counts(normalize=True)
frequencies = float(-(shares * np.log(shares)).sum())
learned = {name: table["validation_loss"] for name, table in lines(small | only_rate).items()}
last = {name: losses.tail(4).mean() for name, losses in learned.items()}
sixteen_times = last["batch 16, rate 16 times"]
only.compare(
    "more" if sixteen_times < last["batch 16"]
    else "less" if sixteen_times < frequencies - 0.1
    else "nothing but frequencies"
)  # fmt: skip
pd.Series(last | {"how frequent each letter is": frequencies}, name="loss").round(3).to_frame()

# %% id="only-claim" tags=["claim"]
claim(
    "4 times the rate alone costs",
    last["batch 16, rate 4 times"] - last["batch 16"],
    least=0.15,
    unit="nats",
)
claim(
    "16 times leaves frequencies", sixteen_times - frequencies, least=-0.15, most=0.3, unit="nats"
)

# %% [markdown] id="only-explain"
# **Explain.** The noise of a small batch is what it was, and every step follows it further. With 4 times the rate the
# weights stray about the place where they should settle. With 16 times they stray so far that unit after unit dies: its
# `ReLU` lets nothing through any more, for no text, so that it gets no gradient either and never comes back. In the end a
# whole layer is dead, and only the biases behind it can learn: how frequent each letter is.
#
# Adam's steps are hardly longer than the rate, so this model breaks without a bang. A step of plain SGD is as
# long as the rate times the gradient, and the gradient grows with the weights. There a rate that is too high **diverges**:

# %% id="only-sgd"
diverged = lab.submit(training("sgd", optimizer="sgd", lr=64))
diverged.wait()
print(diverged.tail(1) if diverged.ok else diverged.failure)

# %% id="only-sgd-claim" tags=["claim"]
claim("plain SGD with a rate of 64 loses the loss", not diverged.ok)

# %% [markdown] id="only-end"
# So the rate may only grow *with* the batch, which takes away the noise that it would magnify.

# %% [markdown] id="same-idea"
# ## To the same loss
#
# "As many samples" is a fair end for a bill, but not for a model: one wants to know what it takes to reach a loss.
# Here are batches of 16, 64, 256 and 1,024, each with a rate that grows as the root of its size; the last sees twice as many
# samples, or it would not get there. The loss to reach: the one that
# batches of 16 have after half of their samples.
#
# **Predict.** How many times as many **samples** does the batch of 1,024 need for it as the batch of 16?

# %% id="same-guess"
### BEGIN SOLUTION
### GAP guess_samples = ...  # times as many samples
guess_samples = 1
### END SOLUTION

# %% id="same-run"
more_samples = predict("12: samples with 64 times the batch", guess_samples, unit="times")
by_batch = {16: small["batch 16"], 256: by_rate["batch 256, rate 4 times"]} | finished(
    {
        64: training("b64", 4),
        1024: training("b1024", 64, samples=2 * SAMPLES, lines=64),
    }
)
by_batch = dict(sorted(by_batch.items()))
judged = {f"batch {batch}": run.log.iterations for batch, run in by_batch.items()}
TARGET = float(judged["batch 16"]["validation_loss"].iloc[14:18].mean())
show.lines(
    judged,
    x="iteration",
    y="validation_loss",
    title="The same curves over steps; dotted: the loss to reach",
    log="x",
    level=TARGET,
)


# %% id="same-see"
def samples_to(table, loss):
    """When the validation loss, smoothed over three lines, first falls below `loss`."""
    smooth = table["validation_loss"].rolling(3, center=True, min_periods=1).mean()
    after = int((smooth < loss).to_numpy().argmax())
    share = (smooth.iloc[after - 1] - loss) / (smooth.iloc[after - 1] - smooth.iloc[after])
    seen = table["consumed_samples"]
    return seen.iloc[after - 1] + share * (seen.iloc[after] - seen.iloc[after - 1])


reached = pd.DataFrame(
    {"samples": {b: samples_to(judged[f"batch {b}"], TARGET) for b in by_batch}}
).assign(steps=lambda table: table["samples"] / table.index)
reached.index.name = "batch"
more_samples.compare(reached["samples"][1024] / reached["samples"][16])
reached.round().astype(int)

# %% id="same-claim" tags=["claim"]
steps_saved = reached["steps"][16] / reached["steps"]
claim("4 times the batch saves steps", steps_saved[64], least=2.8, most=4.5, unit="times")
claim("16 times the batch saves", steps_saved[256], least=6, most=15, unit="times")
claim("64 times the batch saves", steps_saved[1024], least=12, most=32, unit="times")

# %% [markdown] id="same-explain"
# **Explain.** Four times the batch is nearly four times as fast, for nearly as many samples: on four times the devices,
# the same bill. Sixteen times the batch is still faster, but the bill has grown. With 64 times most of the added devices see
# what the others have seen already. Nothing in samples per second would tell: there 64 devices are 64 times as fast.
#
# Could one know that *before* one rents the devices?

# %% [markdown] id="noise-idea"
# ## How noisy is a gradient?
#
# Let *G* be the true gradient, over all there is to see. A batch's gradient *g* is a mean over *B* samples drawn at
# random: *G* and some noise. Its variance, summed over all parameters, is that of a single sample, tr(Σ), divided by
# *B*. Noise points anywhere, so on average it makes the gradient *longer*:
#
# $$\text{mean of } |g_B|^2 = |G|^2 + \frac{\operatorname{tr}\Sigma}{B}$$
#
# That is one equation for two unknowns; so measure with two batches. A small one, *b*, and a large one, *B*:
#
# $$\operatorname{tr}\Sigma = \frac{|g_b|^2 - |g_B|^2}{1/b - 1/B} \qquad\qquad |G|^2 = \frac{B\,|g_B|^2 - b\,|g_b|^2}{B - b}$$
#
# Whoever trains on several devices has both: a rank's gradient before the all-reduce is a small batch's, and after it
# a large one's. Who accumulates has both as well: that of one micro-batch, and the sum of all. The three runs above that
# compared rates had micro-batches of 64 in batches of 256, and kept the mean of each length.
#
# The ratio, **tr(Σ) / |G|²**, is a number of samples: with so large a batch the noise is as long as the gradient. It
# is called the *simple noise scale*.
#
# **Predict.** Will it be larger at the beginning of a training, or at the end; and how large will it be at the end?

# %% id="noise-guess"
### BEGIN SOLUTION
### GAP guess_when = ...  # "at the beginning" or "at the end"
### GAP guess_scale = ...  # samples, at the end
guess_when, guess_scale = "at the beginning", 64
### END SOLUTION

# %% id="noise-run"
WHEN = ("at the beginning", "at the end")
when = predict("12: the noise scale is larger", guess_when, choices=WHEN)
scale_at_end = predict("12: noise scale at the end", guess_scale, unit="samples")


def noise_scale(table, small, large):
    """From the mean squared lengths; both means first, then the ratio."""
    short, long = (
        table[f"{size}_gradient_squared"].rolling(5, center=True, min_periods=3).mean()
        for size in ("large", "small")
    )
    noise = (long - short) / (1 / small - 1 / large)
    true = (large * short - small * long) / (large - small)
    return noise / true


measured = judged["batch 256"].assign(noise_scale=lambda table: noise_scale(table, 64, 256))
show.lines(
    {"batch 256": measured},
    x="consumed_samples",
    y="noise_scale",
    title="Samples whose gradient is as long as its noise",
    log="y",
    level=256,
)

# %% id="noise-see"
first, end = measured["noise_scale"].iloc[0], measured["noise_scale"].tail(8).median()
when.compare(WHEN[int(end > first)])
scale_at_end.compare(end)

# %% id="noise-claim" tags=["claim"]
claim("the noise scale grows as the model learns", end / first, least=5, unit="times")

# %% [markdown] id="noise-explain"
# *Dotted: a batch of 256. Where the curve is below it, such a batch is more gradient than noise.*
#
# **Explain.** In the first steps all samples say the same: blanks and `e` are frequent, most signs are rare. A few letters
# are enough to find that out, and a large batch hears it over and over. What is left to learn later, samples
# disagree about. So |*G*|² falls steeply at first while the noise hardly changes, and a batch that was a waste at the beginning is
# soon a small one. Then both only waver.
#
# Elsewhere it is larger: about a thousand samples for handwritten digits, tens of thousands for ImageNet, millions for
# a game of strategy (McCandlish and others, 2018). No table says it for your model; two numbers in its log do.

# %% [markdown] id="cost-idea"
# ## Time against cost
#
# How far does a step go, then? Along *G* it gains in proportion to its length ε, and loses in proportion to ε² times
# the squared length of what it follows, which is |*G*|² + tr(Σ)/*B*. The best ε gains a share of what a step without
# noise would:
#
# $$\frac{|G|^2}{|G|^2 + \operatorname{tr}\Sigma / B} = \frac{1}{1 + B_c / B}, \qquad\text{so}\qquad S = S_{min}\,\left(1 + \frac{B_c}{B}\right)$$
#
# steps lead to a loss, with *B*<sub>c</sub> = tr(Σ)/|*G*|², and the samples are *S B* = *S*<sub>min</sub> (*B* + *B*<sub>c</sub>). Far below the **critical batch**
# *B*<sub>c</sub>, twice the batch halves the steps, and costs nothing. Far above it, twice the batch costs twice the samples, and
# saves nothing. At *B*<sub>c</sub> both are twice what they could be.
#
# (Assumed: the loss bends alike in all directions, and each batch has its best rate. The derivation is SGD's; what
# is measured with Adam has the same shape, and a *B*<sub>c</sub> of the same order.)
#
# The cell takes one run, the one with batches of 256, and the noise that was measured in it. For each stretch of its
# way the law says, from the noise of that moment, how many steps it would have taken with any other batch.
#
# **Predict.** From batches of 256, how many times as many steps do batches of 16 take to the same loss?

# %% id="cost-guess"
### BEGIN SOLUTION
### GAP guess_steps = ...  # times as many
guess_steps = 16
### END SOLUTION

# %% id="cost-run"
steps_of_small = predict("12: steps with a sixteenth of the batch", guess_steps, unit="times")
way = measured[measured["consumed_samples"] <= reached["samples"][256]]
noise = way["noise_scale"].ffill().bfill()


def times_the_steps(batch):
    """Of those with batches of 256, by the law."""
    return float(((1 + noise / batch) / (1 + noise / 256)).mean())


batches = [2**power for power in range(2, 12)]
law = pd.DataFrame({"steps": {b: times_the_steps(b) * reached["steps"][256] for b in batches}})
law["samples"] = law["steps"] * law.index
show.lines(
    {"law, with the noise of one run": law, "measured: 16, 64, 256, 1024": reached},
    x="samples",
    y="steps",
    log="xy",
    points=["measured: 16, 64, 256, 1024"],
    title="Time (steps) against cost (samples), to the same loss",
)

# %% id="cost-see"
steps_of_small.compare(reached["steps"][16] / reached["steps"][256])
useful = 1 / (1 + noise / 256)  # the share of a step with 256 that is not spent on noise
critical = float((noise * useful).mean() / useful.mean())
print(f"critical batch of the whole way: {critical:.0f} samples")
pd.DataFrame({"by the law": law["steps"], "measured": reached["steps"]}).dropna().round()

# %% id="cost-claim" tags=["claim"]
off = law["steps"] / reached["steps"]
for batch in (16, 64, 1024):
    claim(f"steps with batches of {batch}, law over measured", off[batch], least=0.6, most=1.65)

# %% [markdown] id="cost-explain"
# **Explain.** One run, and the noise in it, told the bill of three others, to within two fifths or so. The curve falls steeply on the left:
# there a larger batch saves time and costs hardly anything. It is flat on the right: there one pays, and hardly saves. The knee is at
# the critical batch, a few hundred samples for this model and this loss; sixteen times the first batch was already near it,
# and no rule for the rate could have helped. (The point of 256 is on the curve because the law starts from it. The others are not: each batch has a rate by a rule of
# thumb and not its best one, and noise was measured along one way out of four.)
#
# It also says what to do with more devices than the critical batch feeds: not a larger batch. They can share
# layers (lessons 07 and 07b), or train another model.

# %% [markdown] id="begin-idea"
# ## One beginning, many processes
#
# The large batch comes from many devices. Two habits of data parallelism are easily taken for granted. The first:
# before the first step every rank takes over the **weights of rank 0**. Gradients are averaged anyway.
#
# **Predict.** Two ranks with batches of 32 each; every rank draws its own first weights, and nothing is broadcast.
# After 32,768 samples the loss is: `"the same"`, `"a little higher"` (by less than 0.3), or `"much higher"`?

# %% id="begin-guess"
### BEGIN SOLUTION
### GAP guess_begin = ...  # one of the three
guess_begin = "the same"
### END SOLUTION

# %% id="begin-run"
ENDS = ("the same", "a little higher", "much higher")
without = predict("12: the loss without the broadcast", guess_begin, choices=ENDS)
two_ranks = {"samples": SAMPLES // 2, "gpus_per_node": 2}
beginnings = finished(
    {
        "weights of rank 0": training("begin-one", 4, **two_ranks),
        "each its own": training("begin-own", 4, no_broadcast=True, **two_ranks),
    }
)
show.lines(
    lines(beginnings),
    x="consumed_samples",
    y="lm_loss",
    title="Gradients averaged over two ranks, from one beginning or two",
)

# %% id="begin-see"
begun = {name: table.tail(4).mean(numeric_only=True) for name, table in lines(beginnings).items()}
higher = begun["each its own"]["lm_loss"] - begun["weights of rank 0"]["lm_loss"]
without.compare(ENDS[0] if higher < 0.05 else ENDS[1] if higher < 0.3 else ENDS[2])
pd.DataFrame(begun).loc[["lm_loss", "validation_loss", "copies_differ_by"]].T.round(3)

# %% id="begin-claim" tags=["claim"]
claim("without the broadcast the loss is higher by", higher, least=0.1, most=0.5, unit="nats")
apart = lines(beginnings)["each its own"]["copies_differ_by"]
claim(
    "and the copies end as far apart as they began",
    apart.iloc[-1] / apart.iloc[0],
    least=0.98,
    most=1.02,
    unit="times",
)

# %% [markdown] id="begin-explain"
# **Explain.** It learns, which is the treacherous part, and it learns less. The mean of two gradients belongs to one
# common model. Here there are two: half of each rank's step is meant for other weights. And no step makes the
# copies more alike, since both add the same: their difference stays what it was at the beginning.
# An equal seed on all ranks would do as well as the broadcast, until some layer draws one number more on one of them.
#
# The second habit: **one process per device**. One process could hold a replica on each of its devices, with a thread
# for each; PyTorch's old `DataParallel` did.
#
# **Predict.** Two small models are trained at once: by two threads of a process, then by two processes. How many
# times the steps of a single one do the two *threads* make together?

# %% id="process-guess"
### BEGIN SOLUTION
### GAP guess_threads = ...  # times the steps of one
guess_threads = 2
### END SOLUTION

# %% id="process-run"
of_threads = predict("12: steps of two threads", guess_threads, unit="times")
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
    title="Two workers, in one process and in two",
)

# %% id="process-see"
speed = shared.log.iterations[["one_worker", "threads", "processes"]].max()  # least disturbed
of_threads.compare(speed["threads"] / speed["one_worker"])
(speed / speed["one_worker"]).rename("times the steps of one worker").round(2).to_frame()

# %% id="process-claim" tags=["claim"]
claim(
    "two processes make more steps than two threads",
    speed["processes"] / speed["threads"],
    least=1.1,
    unit="times",
)
claim("and two threads hardly more than one", speed["threads"] / speed["one_worker"], most=1.5)

# %% [markdown] id="process-explain"
# **Explain.** Python lets one thread of a process run at a time (but for builds without this lock, the GIL, which are
# not the usual ones yet). What a thread asks of a device in forward and in the
# optimizer, it asks in Python (backward runs without it, in C++). So the threads take turns in asking, and handing over costs time
# as well: two may even make fewer steps than one. Processes each have a Python of their own. The larger a kernel
# is, the less that matters; but devices get faster, and Python does not. A process also is what a scheduler can place, bind to the
# cores beside its device, and limit; and one that dies says by its exit code that it did. So the launchers start a
# process for each device, on one node as on a thousand.

# %% [markdown] id="over-idea"
# ## When the samples run out
#
# All this counted samples as if there were no end of them. **Predict.** A training with batches of 64 learns from the
# first 6,000 letters alone, so that it sees each about ten times. How does its *validation* loss go?

# %% id="over-guess"
### BEGIN SOLUTION
### GAP guess_course = ...  # "it falls", "it falls, then stays" or "it falls, then rises"
guess_course = "it falls, then stays"
### END SOLUTION

# %% id="over-run"
COURSES = ("it falls", "it falls, then stays", "it falls, then rises")
course = predict("12: validation loss with few letters", guess_course, choices=COURSES)
few = lab.submit(training("few-letters", 4, train_letters=6000)).require()
seen = few.log.iterations
show.lines(
    {
        "learned from": seen.assign(loss=seen["lm_loss"]),
        "judged by": seen.assign(loss=seen["validation_loss"]),
    },
    x="consumed_samples",
    y="loss",
    title="6,000 letters, seen again and again",
)

# %% id="over-see"
lowest_at = seen["validation_loss"].idxmin()
rose = seen["validation_loss"].iloc[-1] - seen["validation_loss"][lowest_at]
course.compare(COURSES[2] if rose > 0.1 else COURSES[1] if lowest_at < 28 else COURSES[0])
print(
    f"lowest after {seen['consumed_samples'][lowest_at]:,.0f} samples; it rose by {rose:.2f} since"
)

# %% id="over-claim" tags=["claim"]
claim("validation rises again by", rose, least=0.3, unit="nats")
fell = seen["lm_loss"][lowest_at] - seen["lm_loss"].iloc[-1]
claim("while the training loss goes on falling, by", fell, least=0.5, unit="nats")

# %% [markdown] id="over-explain"
# **Explain.** The model learns these 6,000 letters by heart: **overfitting**. The training loss, the only one that many
# logs have, looks better than ever. The cure is more text, or to stop at the lowest point.
#
# A table of final validation losses says of a rate that is too high and of a text that is too short the same: the loss is high. Put
# the training loss beside it: with the rate both are high, with the text they part.

# %% [markdown] id="ex1" tags=["exercise"]
# ## Exercises
#
# > **Exercise 12.1** — Eight ranks, **32 samples** each, note the squared length of their gradient before the
# > all-reduce, **2.50** in the mean, and of the averaged one after it, **0.75**. How large is the critical batch, in
# > samples?

# %% id="ex1-gap" tags=["exercise"]
### BEGIN SOLUTION
### GAP critical_batch = ...
noise_of_one = (2.50 - 0.75) / (1 / 32 - 1 / 256)
true_gradient = (256 * 0.75 - 32 * 2.50) / (256 - 32)
critical_batch = noise_of_one / true_gradient
### END SOLUTION

# %% id="ex1-check" tags=["check"]
check.ex12_noise(critical_batch)

# %% [markdown] id="ex1-why" tags=["solution"]
# tr(Σ) = 64, |*G*|² = 0.5. The batch of 256 is twice the critical one. Even after eight ranks a third of 0.75 is noise.

# %% [markdown] id="ex2" tags=["exercise"]
# > **Exercise 12.2** — A language model has a critical batch of **2 million** tokens. With batches of **0.5 million** it
# > reaches its loss after **100,000 steps**. How many steps does it need with batches of **4 million**, and how many
# > times as many tokens does that take?

# %% id="ex2-gap" tags=["exercise"]
### BEGIN SOLUTION
### GAP steps_needed, times_the_tokens = ..., ...
steps_needed = 100_000 / (1 + 2 / 0.5) * (1 + 2 / 4)
times_the_tokens = steps_needed * 4 / (100_000 * 0.5)
### END SOLUTION

# %% id="ex2-check" tags=["check"]
check.ex12_cost(steps_needed, times_the_tokens)

# %% [markdown] id="ex2-why" tags=["solution"]
# *S*<sub>min</sub> is 20,000. Eight times the devices are 3.3 times as fast, and the bill is 2.4 times as high.
# Whether that is a good bargain is not a question of learning: it depends on what waiting costs.

# %% [markdown] id="ex3" tags=["exercise"]
# > **Exercise 12.3** — Train with **16 times** the batch of the first run, on all **four** devices of both nodes, to
# > as many samples, with the rate that suits Adam. Fill the gaps.

# %% id="ex3-gap" tags=["exercise"]
sixteen = program.recipe(
    "sixteen-times",
    "scale_batch.py",
    text=str(text),
    samples=SAMPLES,
    width=64,
    lr=RATE,
    warmup_samples=4096,
    ### BEGIN SOLUTION
    ### GAP nodes=...,
    ### GAP gpus_per_node=...,
    ### GAP batch_size=...,
    ### GAP lr_scaling=...,  # "none", "sqrt" or "linear"
    nodes=2,
    gpus_per_node=2,
    batch_size=256,
    lr_scaling="sqrt",
    ### END SOLUTION
)
sixteen_run = lab.submit(sixteen)
sixteen_run.watch()

# %% id="ex3-check" tags=["check"]
check.ex12_sixteen(sixteen_run, small["batch 16"])

# %% [markdown] id="ex3-why" tags=["solution"]
# The flag counts the samples of all ranks, 64 on each. The devices change nothing in what is learned: the loss is that
# of one device with batches of 256, but for rounding. And its log has what the noise scale needs: gradients of 64
# samples before the all-reduce, and of 256 after it.

# %% [markdown] id="challenge" tags=["exercise"]
# > **Going further** — `noise_scale(sixteen_run.log.iterations, 64, 256)` measures the noise over four devices. Could
# > a training begin with small batches and let them grow with the noise? Sketch a schedule from the figure, and say
# > how many samples it saves.

# %% [markdown] id="home"
# ## To take home
#
# - A batch that is *k* times as large wants √*k* times the rate with Adam, *k* times with SGD, and a warm-up.
# - That holds up to the critical batch, about tr(Σ)/|*G*|². Beyond it a larger batch costs samples and saves few steps.
# - The noise scale is measured in passing: squared gradient lengths of two batch sizes, averaged before they are divided. It
#   grows steeply while the model learns what is easy; so does the batch that pays.
# - *S* = *S*<sub>min</sub> (1 + *B*<sub>c</sub>/*B*): time and cost cannot both be least.
# - One process per device, one beginning for all of them. And look at validation: the training loss falls to the last.

# %% [markdown] id="clean-idea"
# ## Cleaning up
#
# The runs that the exercises look at stay, so that their checks can be run again.

# %% id="clean"
done = {**by_rate, **starts, **only_rate, **beginnings, 64: by_batch[64], 1024: by_batch[1024]}
lab.clean(*done.values(), diverged, shared, few, yes=True)
