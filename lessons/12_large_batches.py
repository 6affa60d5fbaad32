# %% [markdown] id="title"
# # 12 Large batches
#
# With sixteen times the devices, a batch is sixteen times as large, and the same samples make a sixteenth of the
# steps. The model can be as good afterwards if the learning rate changes with the batch, but not beyond the **critical
# batch size**. In this lesson you find a suitable rate and the critical batch of a model that trains in seconds. Then
# you predict from two gradients what a larger batch saves.
#
# | | |
# |---|---|
# | You will be able to | choose learning rate and warm-up for a larger batch; tell a rate that is too high from a batch that is too large; estimate the critical batch size from gradients; say how much time and how many samples a training run needs with any batch; recognise overfitting in two curves |
# | Minutes | 60 |
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

from course_lib import Lab, check, claim, predict, program, show, trial

lab = Lab()
text = lab.work / "library.txt"
text.write_text("".join(map(inspect.getsource, (argparse, ast, difflib, inspect, typing))))
SAMPLES, BATCH, RATE = 65_536, 16, 4e-3
SEEDS = 3


def training(name, times=1, **more):
    """Three models with `times` the batch of 16 and 65,536 samples, unless `more` differs."""
    more = {"samples": SAMPLES, "warmup_samples": 4096, "lr": RATE, "width": 64} | more
    more |= {"text": str(text), "batch_size": times * BATCH, "seeds": SEEDS}
    return program.recipe(name, "scale_batch.py", **more)


def constant(name, times=1, **more):
    """A run whose rate stays constant after the warm-up and grows as the root of the batch."""
    return training(
        name, times, **{"lr": 2e-3, "lr_scaling": "sqrt", "lr_decay_style": "constant"} | more
    )


def finished(recipes):
    """Submit all recipes, then wait for each run."""
    submitted = {name: lab.submit(recipe) for name, recipe in recipes.items()}
    return {name: run.require() for name, run in submitted.items()}


def lines(runs):
    """The table of each log, with one row per validation."""
    return {name: run.log.iterations for name, run in runs.items()}


# %% [markdown] id="rate-idea"
# ## Which learning rate suits 16 times the batch?
#
# `code/scale_batch.py` trains the model of lesson 02 with Adam. It sees sixteen letters of a Python program and
# guesses the next. A run takes 65,536 samples. The rate grows from 0 during the first 4,096 samples (the **warm-up**)
# and then decays linearly to 0, as [Bergsma and others (2025)](https://arxiv.org/abs/2502.15938) recommend. The
# **validation loss** is the loss on 2,048 samples that are not used for training. A loss of *x* **nats** equals
# guessing among e<sup>*x*</sup> equally likely letters. Each run of this lesson trains **three seeds** at
# once, which differ in their first weights and in the order of their samples. Losses are means over these seeds.
#
# With batches of 16, a run makes 4,096 steps. A rate of 0.004 suits this batch: half of this rate is about as good,
# and twice this rate is worse. With batches of 256, a run makes only 256 steps, so each should go 16 times as far. But
# the mean of 16 times as many samples has only √16 = 4 times less noise.
#
# **Predict.** For batches of 256, which rate leads to the lowest validation loss at the end: `"the same"` rate of
# 0.004, `"4 times"` this rate, or `"16 times"`?

# %% id="rate-guess"
### BEGIN SOLUTION
### GAP guess_rate = ...  # "the same", "4 times" or "16 times"
guess_rate = "16 times"
### END SOLUTION

# %% id="rate-run"
RATES = {"the same": 1, "4 times": 4, "16 times": 16}
best_rate = predict("12: best learning rate for 16 times the batch", guess_rate, choices=[*RATES])
TRIED = {16: (0.5, 1, 2), 256: (1, 2, 4, 8, 16)}  # batch: factors of the rate
by_rate = finished(
    {
        (batch, times): training(f"b{batch}-{times:g}", batch // BATCH, lr=times * RATE)
        for batch, factors in TRIED.items()
        for times in factors
    }
)
show.lines(
    lines(
        {"batch 16": by_rate[16, 1]}
        | {f"batch 256, rate {name}": by_rate[256, times] for name, times in RATES.items()}
    ),
    x="consumed_samples",
    y="validation_loss",
    title="Sixteen times the batch, three rates",
)

# %% id="rate-see"
losses = {run: table["validation_loss"].iloc[-1] for run, table in lines(by_rate).items()}
ends = pd.Series(losses).rename_axis(["batch", "times the rate"])
best_rate.compare(min(RATES, key=lambda name: ends[256, RATES[name]]))
ends.unstack("batch").rename(columns="batch {}".format).round(3)

# %% id="rate-claim" tags=["claim"]
best = ends[256, 4]
claim(
    "loss with the same rate, minus loss with 4 times the rate",
    ends[256, 1] - best,
    least=0.05,
    unit="nats",
)
claim(
    "loss with 16 times the rate, minus loss with 4 times the rate",
    ends[256, 16] - best,
    least=0.1,
    unit="nats",
)
claim(
    "best rate of batches of 256, relative to batches of 16",
    ends[256].idxmin() / ends[16].idxmin(),
    least=2,
    most=8,
    unit="times",
)
claim(
    "loss of batches of 256 minus loss of batches of 16, each at its best rate",
    ends[256].min() - ends[16].min(),
    least=0.03,
    most=0.2,
    unit="nats",
)

# %% [markdown] id="rate-explain"
# *Validation loss at the end, mean of three seeds.*
#
# **Explain.** The best of the three is 4 times the rate. Adam divides each step by the size of past gradients. If
# gradients are mostly noise, the larger batch has 4 times smaller gradients. So this division alone moves the weights
# 4 times as far along the true gradient. The steps must go 16 times as far, so a factor of 4 is left for the rate.
#
# So the rule for Adam is the **square-root rule**, rate ∝ √batch, which [Malladi and others
# (2022)](https://arxiv.org/abs/2205.10287) derive and test. Plain SGD does not divide, so its rule is *linear*. The
# row with 16 times the rate shows what the linear rule does with Adam.
#
# **Tune the small batch first.** The rule relates the *best* rates of two batches. If the small batch trains with half
# its best rate, the linear rule leads to 8 times the rate and the square-root rule to 2 times. In the table, 8 times
# the rate ends about as low as 2 times, so the wrong rule seems as good as the right rule.
#
# The square-root rule is disputed, too. [Li and others (2024)](https://arxiv.org/abs/2405.14578) find that Adam's best
# rate first rises with the batch and then falls. So begin with a rule, then tune the rate for your batch and schedule.
#
# At the beginning, Adam has seen few gradients and divides by a poor estimate. What does it cost to leave out the
# warm-up, at 8 times the rate?

# %% id="warm-run"
without = training("b256-cold", 16, lr=8 * RATE, warmup_samples=0)
started = {"warm-up": by_rate[256, 8], "no warm-up": lab.submit(without).require()}
last_lines = {name: table.iloc[-1] for name, table in lines(started).items()}
by_seed = pd.DataFrame(
    {
        name: {seed: line[f"validation_loss_of_seed_{seed}"] for seed in range(1, SEEDS + 1)}
        for name, line in last_lines.items()
    }
).rename_axis("seed")
by_seed.round(3)

# %% id="warm-claim" tags=["claim"]
cold = by_seed["no warm-up"].mean() - by_seed["warm-up"].mean()
claim(
    "loss without warm-up minus loss with warm-up, mean of three seeds",
    cold,
    least=0.03,
    unit="nats",
)

# %% [markdown] id="warm-explain"
# Without a warm-up the mean loss is higher, but the difference varies much between seeds. To compare two training
# runs, one seed for each is not enough.
#
# Even with their best rate, batches of 256 end higher than batches of 16. Both rules assume gradients that are mostly
# noise, so they fail when the batch has averaged the noise away.

# %% [markdown] id="only-idea"
# ## Does a larger rate help without a larger batch?
#
# From here on, the rate stays constant after the warm-up, so any two moments of two runs can be compared. The best
# constant rate for batches of 16 is about 0.002.
#
# **Predict.** You train with batches of 16 again, but with 16 times this rate. After 65,536 samples, has the model
# learned `"more"` than with the rate of 0.002, `"less"`, or only how often each letter occurs,
# `"nothing but frequencies"`?

# %% id="only-guess"
### BEGIN SOLUTION
### GAP guess_only = ...  # one of the three
guess_only = "more"
### END SOLUTION

# %% id="only-run"
LEARNED = ("more", "less", "nothing but frequencies")
only = predict("12: what 16 times the rate learns with the same batch", guess_only, choices=LEARNED)
only_rate = finished(
    {"batch 16": constant("b16")}
    | {
        f"batch 16, rate {times} times": constant(f"b16-{times}", lr=times * 2e-3)
        for times in (4, 16)
    }
)
show.lines(
    lines(only_rate),
    x="consumed_samples",
    y="validation_loss",
    title="The same batch, larger rates",
    log="y",
)

# %% id="only-see"
shares = pd.Series(list(text.read_text())).value_counts(normalize=True)
frequencies = float(-(shares * np.log(shares)).sum())
learned = {name: table["validation_loss"] for name, table in lines(only_rate).items()}
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
    "4 times the rate alone raises the loss by",
    last["batch 16, rate 4 times"] - last["batch 16"],
    least=0.15,
    unit="nats",
)
claim(
    "loss with 16 times the rate, minus loss of knowing only frequencies",
    sixteen_times - frequencies,
    least=-0.15,
    most=0.3,
    unit="nats",
)

# %% [markdown] id="only-explain"
# **Explain.** A small batch has as much noise as before, and each step now follows the noise further. With 4 times the
# rate, the weights stay further from the optimum. With 16 times the rate, they move so far that unit after unit dies:
# its `ReLU` outputs zero for every text, so it gets no gradient and never recovers. In the end a whole layer is dead,
# and only the biases behind it still learn.
#
# Adam changes a weight by hardly more than the rate, so the loss stays finite. A step of plain SGD is the rate times
# the gradient, and the gradient grows with the weights. If the rate is too high, SGD **diverges**:

# %% id="only-sgd"
diverged = lab.submit(constant("sgd", optimizer="sgd", lr=64))
diverged.wait()
print(diverged.tail(1) if diverged.ok else diverged.cause)
completed = diverged.log.iterations["iteration"].max() / (SAMPLES / BATCH)

# %% id="only-sgd-claim" tags=["claim"]
claim("steps that SGD completes before it diverges", 100 * completed, most=50, unit="%")

# %% [markdown] id="only-end"
# The rate may grow only *with* the batch, because the larger batch removes the noise that the larger rate amplifies.

# %% [markdown] id="same-idea"
# ## How many samples does a larger batch need for the same loss?
#
# You compare batches of 16, 64, 256 and 1,024, with rates that grow as the square root of the batch. The target is
# the loss that batches of 16 reach after half of their samples. The run with 1,024 takes twice as many samples to
# reach it.
#
# **Predict.** By what factor does the batch of 1,024 need more **samples** than the batch of 16? The factor is 1 if
# each sample is worth the same in both.

# %% id="same-guess"
### BEGIN SOLUTION
### GAP guess_samples = ...  # times the samples
guess_samples = 1
### END SOLUTION

# %% id="same-run"
more_samples = predict(
    "12: factor of the samples with 64 times the batch", guess_samples, unit="times"
)
by_batch = {16: only_rate["batch 16"]} | finished(
    {
        64: constant("b64", 4),
        256: constant("b256", 16, micro_batch_size=64),
        1024: constant("b1024", 64, samples=2 * SAMPLES, lines=64),
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
    """Samples until the validation loss, smoothed over three lines, falls below `loss`."""
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
claim(
    "factor by which 4 times the batch reduces the steps",
    steps_saved[64],
    least=2.8,
    most=4.5,
    unit="times",
)
claim(
    "factor by which 16 times the batch reduces the steps",
    steps_saved[256],
    least=6,
    most=14,
    unit="times",
)
claim(
    "factor by which 64 times the batch reduces the steps",
    steps_saved[1024],
    least=12,
    most=32,
    unit="times",
)

# %% [markdown] id="same-explain"
# **Explain.** With 4 times the batch, the training needs nearly 4 times fewer steps and hardly more samples, so on 4
# times the devices it costs about the same. With 16 times the batch, it needs fewer steps again, but clearly more
# samples. With 64 times the batch, most added devices repeat what other devices have already learned.

# %% [markdown] id="noise-idea"
# ## How do you measure the noise of a gradient?
#
# Let *G* be the true gradient, over all possible samples. The gradient *g* of a batch is a mean over *B* random
# samples, so it is *G* plus noise. The variance of a single sample, summed over all parameters, is tr(Σ), and the
# variance of *g* is tr(Σ)/*B*. Noise has random directions, so on average it makes the gradient *longer*:
#
# $$\text{mean of } |g_B|^2 = |G|^2 + \frac{\operatorname{tr}\Sigma}{B}$$
#
# With two unknowns, you need a small batch *b* and a large batch *B*:
#
# $$\operatorname{tr}\Sigma = \frac{|g_b|^2 - |g_B|^2}{1/b - 1/B} \qquad\qquad |G|^2 = \frac{B\,|g_B|^2 - b\,|g_b|^2}{B - b}$$
#
# With several devices, a rank's gradient belongs to a small batch before the all-reduce and to a large batch after it.
# With accumulation, use one micro-batch and the sum of all. The run with batches of 256 had micro-batches of 64, and
# logged both mean squared lengths.
#
# The ratio **tr(Σ) / |G|²** is the **simple noise scale**, a number of samples. In a batch of this size, the noise is
# as long as the gradient.
#
# **Predict.** Is the noise scale larger at the beginning of the training or at the end, and how many samples is it at
# the end? Batches of 256 ended slightly higher than batches of 16.

# %% id="noise-guess"
### BEGIN SOLUTION
### GAP guess_when = ...  # "at the beginning" or "at the end"
### GAP guess_scale = ...  # samples, at the end
guess_when, guess_scale = "at the beginning", 64
### END SOLUTION

# %% id="noise-run"
WHEN = ("at the beginning", "at the end")
when = predict("12: when the noise scale is larger", guess_when, choices=WHEN)
scale_at_end = predict("12: noise scale at the end", guess_scale, unit="samples")


def noise_scale(table, small, large):
    """From the mean squared lengths: average both first, then divide."""
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
    title="Simple noise scale (samples) during the training",
    log="y",
    level=256,
)

# %% id="noise-see"
first, end = measured["noise_scale"].iloc[0], measured["noise_scale"].tail(8).median()
when.compare(WHEN[int(end > first)])
scale_at_end.compare(end)

# %% id="noise-claim" tags=["claim"]
claim("noise scale at the end, relative to the beginning", end / first, least=5, unit="times")

# %% [markdown] id="noise-explain"
# *Dotted: a batch of 256. While the curve is below this line, the true gradient of such a batch is longer than its
# noise.*
#
# **Explain.** The noise scale is larger at the end. In the first steps all samples teach the same thing: spaces and
# `e` are frequent and most characters are rare. Later, the gradients of different samples point in different
# directions. So the length of the true gradient, and with it |*G*|², falls steeply at first, while the noise hardly
# changes. After that, both numbers only fluctuate.
#
# Other tasks have larger noise scales: about a thousand samples for handwritten digits, tens of thousands for
# ImageNet, millions for a game of strategy ([McCandlish and others, 2018](https://arxiv.org/abs/1812.06162)).
#
# Whether the noise scale predicts the critical batch is disputed, so take it as a first estimate. [Merrill and others
# (2025)](https://arxiv.org/abs/2505.23971) criticise its strong assumptions. In their measurements, the critical batch
# of language models is near 0 at first, grows fast and then levels off, alike for 1 and 7 billion parameters. Their
# **batch-size warm-up** begins with small batches and saves 43 % of the steps. [Zhang and others
# (2024)](https://arxiv.org/abs/2410.21676) find that the critical batch grows with the amount of data and hardly with
# the model.

# %% [markdown] id="cost-idea"
# ## How many steps does a larger batch save?
#
# Along *G*, a step of length ε gains in proportion to ε. It loses in proportion to ε² times the squared length of the
# gradient with noise, |*G*|² + tr(Σ)/*B*. With the best ε, a step gains the following share of a step without noise:
#
# $$\frac{|G|^2}{|G|^2 + \operatorname{tr}\Sigma / B} = \frac{1}{1 + B_c / B}, \qquad\text{so}\qquad S = S_{min}\,\left(1 + \frac{B_c}{B}\right)$$
#
# Here *S* is the number of steps to a loss, and *B*<sub>c</sub> = tr(Σ)/|*G*|² is the **critical batch**. The number
# of samples is *S B* = *S*<sub>min</sub> (*B* + *B*<sub>c</sub>). Far below *B*<sub>c</sub>, twice the batch halves
# the steps and costs no more samples. Far above it, twice the batch costs twice the samples and saves hardly any
# steps. At *B*<sub>c</sub>, steps and samples are twice their minimum.
#
# The derivation assumes SGD, equal curvature in all directions, and the best rate for each batch. Measurements with
# Adam have the same shape and a similar *B*<sub>c</sub>.
#
# The next cell takes the noise of the run with batches of 256. For each part of this run, the law gives the steps of
# another batch.
#
# **Predict.** To reach the same loss, by what factor do batches of 16 need more steps than batches of 256? Use the law
# with *B*<sub>c</sub> = 300, roughly the mean of the noise scale over the run.

# %% id="cost-guess"
### BEGIN SOLUTION
### GAP guess_steps = ...  # times the steps
guess_steps = 16
### END SOLUTION

# %% id="cost-run"
steps_of_small = predict(
    "12: factor of the steps with a sixteenth of the batch", guess_steps, unit="times"
)
way = measured[measured["consumed_samples"] <= reached["samples"][256]]
noise = way["noise_scale"].ffill().bfill()


def times_the_steps(batch):
    """Steps by the law, relative to batches of 256."""
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
useful = 1 / (1 + noise / 256)  # the share of a step with 256 samples that is not noise
critical = float((noise * useful).mean() / useful.mean())
print(f"critical batch over the whole run: {critical:.0f} samples")
pd.DataFrame({"by the law": law["steps"], "measured": reached["steps"]}).dropna().round()

# %% id="cost-claim" tags=["claim"]
off = law["steps"] / reached["steps"]
for batch, (least, most) in {16: (0.6, 1.15), 64: (0.65, 1.1), 1024: (0.75, 1.6)}.items():
    claim(
        f"B = {batch}: steps by the law, relative to the measured steps",
        off[batch],
        least=least,
        most=most,
    )

# %% [markdown] id="cost-explain"
# **Explain.** The noise of one run predicted the steps of three other runs to within about 40 %. If you guessed 16,
# you assumed that every sample is worth the same. On the left of the figure, a larger batch saves time, and on the
# right it only costs samples. The bend is at the critical batch, here a few hundred samples. Batches of 256 are near
# it, so not even their best rate makes up for the missing steps.
#
# If you have more devices than the critical batch can use, do not enlarge the batch. Use them to share layers
# (lessons 07 and 07b) or to train another model.

# %% [markdown] id="over-idea"
# ## What happens if the samples run out?
#
# **Predict.** A run with batches of 64 learns only from the first 6,000 letters, so it sees each letter about ten
# times. What happens to its *validation* loss?

# %% id="over-guess"
### BEGIN SOLUTION
### GAP guess_course = ...  # "it falls", "it falls, then stays" or "it falls, then rises"
guess_course = "it falls, then stays"
### END SOLUTION

# %% id="over-run"
COURSES = ("it falls", "it falls, then stays", "it falls, then rises")
course = predict("12: validation loss with few letters", guess_course, choices=COURSES)
few = lab.submit(constant("few-letters", 4, train_letters=6000)).require()
seen = few.log.iterations
show.lines(
    {
        "training loss": seen.assign(loss=seen["lm_loss"]),
        "validation loss": seen.assign(loss=seen["validation_loss"]),
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
    f"lowest after {seen['consumed_samples'][lowest_at]:,.0f} samples; it then rose by {rose:.2f}"
)

# %% id="over-claim" tags=["claim"]
claim("the validation loss rises again by", rose, least=0.3, unit="nats")
fell = seen["lm_loss"][lowest_at] - seen["lm_loss"].iloc[-1]
claim("meanwhile, the training loss falls by", fell, least=0.5, unit="nats")

# %% [markdown] id="over-explain"
# **Explain.** The validation loss falls and then rises, because the model memorises the 6,000 letters
# (**overfitting**). The training loss, the only loss in many logs, keeps falling. The cure is more text, or stopping
# at the lowest validation loss.
#
# A high validation loss has two possible causes, and the training loss tells them apart. If the rate is too high,
# both losses are high. If there is too little text, only the validation loss is high.

# %% [markdown] id="ex1" tags=["exercise"]
# ## Exercises
#
# > **Exercise 12.1** — Write `noise_scale(gradients, samples)`. Each rank calls it with its own gradients, one row for
# > each step, and each row is a mean over `samples` samples. Return tr(Σ), |*G*|² and the **standard error** of tr(Σ).
# > A standard error is the deviation of one step, divided by the square root of the number of steps. The trial draws
# > gradients with a known noise.

# %% id="ex1-own" tags=["exercise"]
# %%writefile "{lab.work}/my_noise.py"
import torch
import torch.distributed as dist


def noise_scale(gradients, samples):
    ### BEGIN SOLUTION
    ### GAP small_squared = ...  # for each step, the mean over all ranks
    ### GAP large_squared = ...  # for each step, of the mean of all ranks
    ### GAP ...
    ### GAP return noise, true, error
    ranks = dist.get_world_size()
    large_samples = ranks * samples
    small_squared = gradients.square().sum(1)
    average = torch.clone(gradients)
    for one in (small_squared, average):
        dist.all_reduce(one)
        one.div_(ranks)
    large_squared = average.square().sum(1)
    noises = (small_squared - large_squared) / (1 / samples - 1 / large_samples)
    trues = (large_samples * large_squared - samples * small_squared) / (large_samples - samples)
    error = noises.std() / len(noises) ** 0.5
    return noises.mean(), trues.mean(), error
    ### END SOLUTION


# %% id="ex1-trial" tags=["exercise"]
noise_trial = lab.submit(trial.recipe("noise-trial", "work/my_noise.py", "noise"))
noise_trial.watch()

# %% id="ex1-check" tags=["check"]
check.ex12_noise(noise_trial)

# %% [markdown] id="ex1-why" tags=["solution"]
# tr(Σ) is a difference of two lengths that contain noise themselves. One step can give a negative |*G*|², so average
# first and divide last. The standard error tells how many steps you need.

# %% [markdown] id="ex2" tags=["exercise"]
# > **Exercise 12.2** — A language model has a critical batch of `given.critical` million tokens. With batches of
# > **0.5 million** it reaches its loss after `given.steps` steps. How many steps does it need with batches of **4
# > million**, and by what factor does it need more tokens?

# %% id="ex2-given" tags=["exercise"]
given = check.drawn("12.2", critical=(2, 3), steps=(60_000, 80_000, 100_000, 140_000))
given

# %% id="ex2-gap" tags=["exercise"]
### BEGIN SOLUTION
### GAP steps_needed, times_the_tokens = ..., ...
fewest = given.steps / (1 + given.critical / 0.5)
steps_needed = fewest * (1 + given.critical / 4)
times_the_tokens = steps_needed * 4 / (given.steps * 0.5)
### END SOLUTION

# %% id="ex2-check" tags=["check"]
check.ex12_cost(steps_needed, times_the_tokens, given)

# %% [markdown] id="ex2-why" tags=["solution"]
# With a critical batch of 2 million, *S*<sub>min</sub> is a fifth of the steps. Eight times the devices are then 3.3
# times as fast and cost 2.4 times as much. Whether this is worth it depends on the cost of waiting.

# %% [markdown] id="ex3" tags=["exercise"]
# > **Exercise 12.3** — Train with **16 times** the batch of the first run, on all **four** devices of both nodes, for
# > the same number of samples and with a decay. Scale Adam's rate by the square-root rule. Fill the gaps.

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
check.ex12_sixteen(sixteen_run, by_rate[16, 1])

# %% [markdown] id="ex3-why" tags=["solution"]
# The batch size counts the samples of all ranks, so each rank has 64. More devices do not change what is learned: one
# device with batches of 256 has the same loss, except for rounding. The log also contains what the noise scale needs,
# gradients of 64 samples before the all-reduce and of 256 samples after it.

# %% [markdown] id="challenge" tags=["exercise"]
# > **Going further** — `noise_scale(sixteen_run.log.iterations, 64, 256)` measures the noise over four devices.
# > Sketch a batch-size warm-up from the figure: the batch grows with the noise. How many samples does it save?

# %% [markdown] id="home"
# ## To take home
#
# - With *k* times the batch, use √*k* times the best rate for Adam and *k* times for SGD, both with a warm-up. Tune
#   the small batch first, and the schedule together with the rate.
# - This holds up to the critical batch, about tr(Σ)/|*G*|². Beyond it, a larger batch saves few steps.
# - To measure the noise scale, average the squared gradient lengths of two batch sizes first, then divide. The noise
#   scale is an estimate of the critical batch, and it grows steeply at first.
# - *S* = *S*<sub>min</sub> (1 + *B*<sub>c</sub>/*B*): steps and samples cannot both be minimal.
# - Watch the validation loss, because the training loss falls even if the model overfits.

# %% [markdown] id="clean-idea"
# ## Cleaning up
#
# The runs of the exercises stay.
#
# **References**
#
# - McCandlish and others (2018), [An Empirical Model of Large-Batch Training](https://arxiv.org/abs/1812.06162).
# - Malladi and others (2022), [On the SDEs and Scaling Rules for Adaptive Gradient
#   Algorithms](https://arxiv.org/abs/2205.10287).
# - Li and others (2024), [Surge Phenomenon in Optimal Learning Rate and Batch Size
#   Scaling](https://arxiv.org/abs/2405.14578).
# - Zhang and others (2024), [How Does Critical Batch Size Scale in
#   Pre-training?](https://arxiv.org/abs/2410.21676)
# - Merrill and others (2025), [Critical Batch Size Revisited](https://arxiv.org/abs/2505.23971).
# - Bergsma and others (2025), [Straight to Zero](https://arxiv.org/abs/2502.15938), on linear decay.

# %% id="clean"
kept = by_rate.pop((16, 1))  # for the check of exercise 12.3
of_all = (by_rate, started, only_rate, by_batch)
lab.clean(*(run for runs in of_all for run in runs.values()), diverged, few, yes=True)
