# %% [markdown] id="title"
# # 14b How large, how long
#
# Lesson 14 computes how long a training run takes if you know the model and the number of tokens. But how do you
# choose the two? You cannot try out a run of a month, so experiments of a day must guide the choice. In this lesson
# you find a learning rate on a narrow model and use it for a wide model. You fit a **scaling law** to five small
# budgets and predict the loss of a sixth. Then you learn what to do if there are too few tokens, and how to pack
# short documents into rows.
#
# | | |
# |---|---|
# | You will be able to | choose size and tokens for a budget of FLOPs; predict a loss, and the error of the prediction, from smaller runs; transfer a learning rate to a wider model; say how often a run sees each token; pack documents with the right positions, mask and loss |
# | Minutes | 55 |
# | Devices | 2 nodes with 2 devices each |
# | Before | lessons 12 and 14 |

# %% id="begin"
import os
import random
import re
from pathlib import Path

import numpy as np
import pandas as pd

from course_lib import Lab, check, claim, predict, program, show, trial

lab = Lab()
sources = sorted(Path(os.__file__).parent.glob("*.py"))
code = "\n\n".join(file.read_text(encoding="utf-8", errors="replace") for file in sources)
documents = [part.strip("\n") for part in re.split(r"\n\n+", code) if part.strip("\n")]
random.Random(0).shuffle(documents)
text = lab.work / "documents.txt"
text.write_text("\n\n".join(documents), encoding="utf-8")
LINE = re.compile(
    r"width (\d+): (\d+) parameters, (\d+) tokens, rate (\S+), seed (\d+): validation loss (\S+)"
)


def training(name, width, tokens, lr=0.032, seeds=3, parametrization="mup", **more):
    """A job that trains models of one width, for each of these numbers of tokens."""
    more = {"tokens": tokens, "lr": lr, "seeds": seeds, "parametrization": parametrization} | more
    more |= {"text": str(text), "width": width, "time_limit_minutes": 30}
    return program.recipe(name, "train_sizes.py", **more)


def finished(recipes):
    """Submit all recipes, wait, and return the runs and one table of what they printed."""
    runs = {key: lab.submit(recipe) for key, recipe in recipes.items()}
    columns = ["width", "parameters", "tokens", "rate", "seed", "loss"]
    tables = {
        key: pd.DataFrame(LINE.findall(run.require().text), columns=columns).apply(pd.to_numeric)
        for key, run in runs.items()
    }
    return list(runs.values()), pd.concat(tables, names=["run", "line"]).reset_index(level=0)


# %% [markdown] id="rate-idea"
# ## Which learning rate suits a model 16 times as wide?
#
# The program `code/train_sizes.py` trains the smallest language model of this course. It reads eight letters of
# Python code and predicts the next letter, so **a token is a letter** here. A matmul turns the eight letters into *w*
# numbers, the **width**. Three layers change these numbers, each with a *w* × *w* matrix. A last matmul gives each
# letter a score.
#
# With Adam, each weight changes by about the learning rate in a step. An output of a *w* × *w* matrix is a sum over
# *w* weights. If all *w* changes have the same sign, a step changes the output by *w* times the rate.
#
# **Predict.** You know the best rate for width 16. By what factor is the best rate for width 256 smaller?

# %% id="rate-guess"
### BEGIN SOLUTION
### GAP guess_smaller = ...  # times smaller; 1 if it is the same
guess_smaller = 1
### END SOLUTION

# %% id="rate-run"
smaller = predict(
    "14b: factor by which the best rate shrinks for 16 times the width", guess_smaller, unit="times"
)
RATES = [0.004, 0.008, 0.016, 0.032, 0.064, 0.128]
rate_runs, by_rate = finished(
    {
        f"{kind}-{width}": training(
            f"{kind}-{width}", width, [12_800], RATES, 1, kind, batch_size=64
        )
        for kind in ("standard", "mup")
        for width in (16, 64, 256)
    }
)

# %% id="rate-see"
by_rate["kind"] = by_rate["run"].str.partition("-")[0]
losses = by_rate.pivot(index="rate", columns=["kind", "width"], values="loss")
best = losses.idxmin()
smaller.compare(best["standard", 16] / best["standard", 256])
print(losses.round(3).to_string())
show.lines(
    {
        f"width {width}, {kind}": losses[kind, width].rename("loss").reset_index()
        for kind, width in losses
        if width != 64
    },
    x="rate",
    y="loss",
    log="x",
    title="The same training with six rates",
)

# %% id="rate-claim" tags=["claim"]
at_16 = best["standard", 16]
claim(
    "standard: best rate of width 16, relative to width 256",
    at_16 / best["standard", 256],
    least=2,
    most=16,
    unit="times",
)
claim(
    "muP: best rate of width 16, relative to width 256",
    best["mup", 16] / best["mup", 256],
    least=0.5,
    most=2,
    unit="times",
)
claim(
    "loss at width 256 with the best rate of width 16: standard minus muP",
    losses["standard", 256][at_16] - losses["mup", 256][at_16],
    least=0.05,
    unit="nats",
)

# %% [markdown] id="rate-explain"
# **Explain.** In the **standard** parametrisation, the best rate falls with the width. It may fall by less than 16,
# because the first matmul has the same number of inputs at every width. If you guessed 1, you assumed that the best
# rate does not depend on the model.
#
# The **maximal update parametrisation**, muP or µP ([Yang and others, 2022](https://arxiv.org/abs/2203.03466)), builds
# this dependence into the model. The class `Copies` of the program makes these choices:
#
# | what | standard | muP |
# |---|---|---|
# | initial weights of a hidden matrix | variance 2 / *w* | variance 2 / *w* |
# | rate of a hidden matrix | rate | rate × 16 / *w* |
# | initial weights of the last matrix | variance 1 / *w* | variance 1 / 16 |
# | scores | sum over *w* | sum over *w*, times 16 / *w* |
#
# With muP a step changes every output by about the same amount at any width, so the best rate stays the same. You can
# find it on a narrow model, at a fraction of the cost. The authors tuned a model of 40 million parameters and used the
# result for 6.7 billion. muP covers only the *width*. Depth, batch size (lesson 12) and the number of steps need other
# rules.

# %% [markdown] id="size-idea"
# ## How much larger is the best model if the budget is 16 times larger?
#
# From here on, all models use muP and one rate of 0.032. This rate is lower than the best rate above, because longer
# runs need lower rates. By lesson 14, training *N* parameters on *D* tokens costs
#
# $$C = 6\,N\,D$$
#
# A budget of *C* FLOPs is enough for a large model that sees few tokens or for a small model that sees many. Here *N*
# counts the weights of the matmuls, 256 *w* + 3 *w*². The next cell tries several widths for each of five budgets,
# each with three seeds and its own warm-up and decay.
#
# **Predict.** The largest budget is 16 times the smallest. By what factor is its best model larger?

# %% id="size-guess"
### BEGIN SOLUTION
### GAP guess_larger = ...  # times the parameters
guess_larger = 16
### END SOLUTION

# %% id="size-run"
larger = predict(
    "14b: factor of the best size with 16 times the budget", guess_larger, unit="times"
)
BUDGETS = [2.5e8 * 2**power for power in range(5)]


def parameters_of(width):
    return 256 * width + 3 * width**2


def tokens_of(width, budget):
    return round(budget / (6 * parameters_of(width)))


def budgets_of(width):
    """The budgets that are worth a try with this width."""
    return [one for one in BUDGETS if 3 < tokens_of(width, one) / parameters_of(width) < 140]


WIDTHS = (4, 8, 12, 16, 24, 32)
size_runs, by_size = finished(
    {
        width: training(
            f"width-{width}", width, [tokens_of(width, one) for one in budgets_of(width)]
        )
        for width in WIDTHS
    }
)

# %% id="size-see"
spent = 6 * by_size["parameters"] * by_size["tokens"]
by_size["budget"] = [min(BUDGETS, key=lambda one: abs(np.log(one / flops))) for flops in spent]
sizes = by_size.groupby(["budget", "parameters"])["loss"].mean()


def optimum(losses):
    """The best size and its loss: the bottom of a parabola through the losses over log N."""
    log_size = np.log(losses.index.to_numpy())
    bend, slope, start = np.polyfit(log_size, losses.to_numpy(), 2)
    bottom = np.clip(-slope / (2 * bend), log_size.min(), log_size.max())
    return float(np.exp(bottom)), float(np.polyval([bend, slope, start], bottom))


found = pd.DataFrame(
    {budget: optimum(sizes[budget]) for budget in BUDGETS}, index=["parameters", "loss"]
).T.rename_axis("FLOPs")
larger.compare(found["parameters"].iloc[-1] / found["parameters"].iloc[0])
best_sizes = found.assign(tokens=found.index / 6 / found["parameters"])
print(best_sizes.round({"parameters": 0, "loss": 3, "tokens": 0}).to_string())
show.lines(
    {f"{budget:.2g} FLOPs": sizes[budget].reset_index() for budget in BUDGETS},
    x="parameters",
    y="loss",
    log="x",
    title="Five budgets: loss over the size of the model",
)

# %% id="size-claim" tags=["claim"]
times_the_size = found["parameters"].iloc[-1] / found["parameters"].iloc[0]
claim(
    "factor of the best size with 16 times the budget",
    times_the_size,
    least=1.6,
    most=10,
    unit="times",
)

# %% [markdown] id="size-explain"
# *Each curve is one budget. The left end of a curve is a small model that sees many tokens.*
#
# **Explain.** If you guessed 16, you spent the whole budget on size, and the model sees no more tokens than before. If
# you guessed 1, you spent everything on tokens. The loss is high at both ends of a curve, because a small model cannot
# store more, and a large model has not seen enough tokens. Size and tokens grow together, and the product of their
# factors is 16. No size is best at every budget, so a comparison of two models holds for one budget only.
#
# Hoffmann and others trained over 400 models of up to 16 billion parameters ([2022,
# Chinchilla](https://arxiv.org/abs/2203.15556)). They found that the best size and the best number of tokens both grow
# as the square root of the budget. For their text and tokens, the best training has about **20 tokens per parameter**.
# Their model had 70 billion parameters and saw 1.4 trillion tokens. It beat models four times as large that had seen
# fewer tokens. Your tokens are letters and your models are tiny, so your factors differ.

# %% [markdown] id="loss-idea"
# ## Which loss will four times the largest budget reach?
#
# The best losses fall with every doubling of the budget, but by less and less. A **scaling law** describes this curve.
# It is a **power law** above a floor *E*, and no model of this kind can reach a loss below *E*:
#
# $$L(C) = E + A\,C^{-\alpha}$$
#
# **Predict.** The sixth budget is 16 × 10<sup>9</sup> FLOPs, four times the largest. Which loss will its best model
# reach? The next cell prints the best losses and the gain of each doubling.

# %% id="loss-table"
pd.DataFrame({"best loss": found["loss"], "gain": -found["loss"].diff()}).round(3)

# %% id="loss-guess"
### BEGIN SOLUTION
### GAP guess_loss = ...  # nats
guess_loss = 2.0
### END SOLUTION

# %% id="loss-fit"
reached = predict("14b: loss of the sixth budget", guess_loss, unit="nats")
SIXTH = 16e9


def law_of(losses):
    """E, A and alpha with the least squared error; E is tried in small steps."""
    log_budget, tried = np.log(losses.index.to_numpy() / 1e9), []
    for floor in np.arange(0, losses.min() - 0.01, 0.01):
        above = np.log(losses.to_numpy() - floor)
        slope, start = np.polyfit(log_budget, above, 1)
        off = floor + np.exp(start + slope * log_budget) - losses.to_numpy()
        tried.append(((off**2).sum(), floor, np.exp(start), -slope))
    return min(tried)[1:]


def loss_at(budget, law):
    floor, above, alpha = law
    return floor + above * (budget / 1e9) ** -alpha


law = law_of(found["loss"])
gains = -found["loss"].diff().dropna()
print(f"power law: L = {law[0]:.2f} + {law[1]:.2f} (C / 1e9)^-{law[2]:.2f}")
line = np.polyfit(found.index[-2:], found["loss"].iloc[-2:], 1)  # through the last two
equal_gains = np.polyfit(np.log(found.index), found["loss"], 1)
by_rule = {
    "power law": loss_at(SIXTH, law),
    "equal gain of each FLOP": np.polyval(line, SIXTH),
    "equal gain of each doubling": np.polyval(equal_gains, np.log(SIXTH)),
    "two more times the last gain": found["loss"].iloc[-1] - 2 * gains.iloc[-1],
}
pd.Series(by_rule, name="loss of the sixth budget").round(3).to_frame()

# %% [markdown] id="ex1" tags=["exercise"]
# > **Exercise 14b.1** — Choose the width and the number of tokens for the sixth budget. The best sizes lie near a
# > straight line if both axes are logarithmic, so continue this line. Use `found["parameters"]` and `np.polyfit`,
# > round the width to a whole number, and spend the whole budget.

# %% id="ex1-gap" tags=["exercise"]
### BEGIN SOLUTION
### GAP width, tokens = ..., ...
slope, start = np.polyfit(np.log(found.index), np.log(found["parameters"]), 1)
size = np.exp(start + slope * np.log(SIXTH))
width = min(range(1, 500), key=lambda one: abs(parameters_of(one) - size))
tokens = tokens_of(width, SIXTH)
### END SOLUTION

# %% id="ex1-check" tags=["check"]
check.ex14b_budget(width, tokens, dict(found["parameters"]), SIXTH)

# %% [markdown] id="ex1-why"
# Three runs with the sixth budget start now: your width, a narrower width and a wider width.

# %% id="loss-run"
sixth_runs, by_width = finished(
    {
        one: training(f"sixth-{one}", one, [tokens_of(one, SIXTH)])
        for one in (round(width / 1.8), width, round(width * 1.8))
    }
)

# %% id="loss-see"
of_sixth = by_width.groupby("parameters")["loss"].mean()
_, measured = optimum(of_sixth)
reached.compare(measured)
errors = {rule: abs(measured - predicted) for rule, predicted in by_rule.items()}
print(of_sixth.round(3).to_string())
print(pd.Series(errors).round(3).to_string())
show.lines(
    {
        "five budgets": found["loss"].reset_index(),
        "power law": pd.DataFrame(
            {"FLOPs": [*BUDGETS, SIXTH], "loss": [loss_at(one, law) for one in (*BUDGETS, SIXTH)]}
        ),
        "sixth, measured": pd.DataFrame({"FLOPs": [SIXTH], "loss": [measured]}),
    },
    x="FLOPs",
    y="loss",
    log="x",
    points=["five budgets", "sixth, measured"],
    title="The sixth budget, predicted and measured",
)

# %% id="loss-claim" tags=["claim"]
claim(
    "gain of the first two doublings, relative to the last two",
    gains.iloc[:2].sum() / gains.iloc[-2:].sum(),
    least=1.4,
    unit="times",
)
claim(
    "error of the power law, relative to equal gains of each doubling",
    errors["power law"] / errors["equal gain of each doubling"],
    most=0.7,
    unit="times",
)
claim(
    "loss of the sixth budget: measured minus equal gains of each FLOP",
    measured - by_rule["equal gain of each FLOP"],
    least=0.2,
    unit="nats",
)

# %% [markdown] id="loss-explain"
# **Explain.** The power law comes close to the sixth loss. If every FLOP gained as much as the last, the loss would be
# far lower. But each doubling adds twice as many FLOPs as the previous doubling, and gains less. Equal gains of each
# doubling also lead to too low a loss, because the first doublings gain more than the last. So an improvement at a
# small budget proves little until you know how it changes with the budget.
#
# Two more doublings with the *last* gain come close, too, so a budget only four times as large cannot decide between
# this guess and the power law. Far away the guess fails: at the last gain, about twenty doublings would lower the loss
# to zero, and no model can predict a text without any error.

# %% [markdown] id="day-idea"
# ## What does an experiment of a day say about a run of a month?
#
# The sixth budget is only 4 times the largest of the five. Two things make a prediction uncertain. **Seeds** are
# noise: with different initial weights or a different order of samples, a run ends at a different loss. And the
# **law** is fitted to few points. The next cell leaves out each of the five budgets in turn and fits again. It
# predicts the loss for the sixth budget, and for budgets 1000 and 1,000,000 times as large.

# %% id="day-see"
seeds = by_size.groupby(["budget", "parameters"])["loss"].agg(np.ptp)
laws = [law] + [law_of(found["loss"].drop(budget)) for budget in BUDGETS]
FAR = {"the sixth": SIXTH, "1,000 times": 1e3 * SIXTH, "1,000,000 times": 1e6 * SIXTH}
spread = pd.DataFrame(
    {name: [loss_at(budget, one) for one in laws] for name, budget in FAR.items()}
)
print(f"three seeds of the same training differ by {seeds.median():.3f} nats (median)")
print(f"exponents of the laws: {', '.join(f'{one[2]:.2f}' for one in laws)}")
spread.agg(["min", "max", np.ptp]).round(2)

# %% id="day-claim" tags=["claim"]
ranges = spread.max() - spread.min()
claim(
    "spread of the predictions at 1,000,000 times the budget, relative to the sixth",
    ranges["1,000,000 times"] / ranges["the sixth"],
    least=2,
    unit="times",
)

# %% [markdown] id="day-explain"
# All these fits match the measured points, and they nearly agree about the sixth budget. This spread is not the whole
# error: compare it with the measured loss. All fits share the same seeds, widths and rate. For larger budgets the fits
# disagree more, because the loss then depends mostly on the floor *E*, which the five points hardly determine.
#
# Large projects extrapolate far, too. For Llama 3, Meta trained models with budgets up to 10<sup>22</sup> FLOPs and
# extrapolated to 3.8 × 10<sup>25</sup>, 3,800 times as far. The law proposed 402 billion parameters and 16.55 trillion
# tokens ([2024, section 3.2](https://arxiv.org/abs/2407.21783)). To reduce the error, use budgets that are far apart,
# several seeds, the same tokenizer, and the best rate at every width. If two recipes differ by less than the seeds of
# one recipe, you cannot say which recipe is better.
#
# **Why are today's models trained on more tokens?** You pay for training once, but you pay for **inference** with
# every answer: 2 *N* FLOPs for each token that is read or written. A smaller model that sees more tokens than the
# optimum costs more to train and less to use. [Llama 3 8B](https://arxiv.org/abs/2407.21783) (Meta, 2024) saw 15
# trillion tokens, about 1,900 for each parameter. By 6 *N D* its training cost 7.2 × 10<sup>23</sup> FLOPs, slightly
# more than the 5.9 × 10<sup>23</sup> of Chinchilla. But every token that it reads or writes costs about a ninth of
# what Chinchilla needs.

# %% [markdown] id="again-idea"
# ## What happens if the tokens run out?
#
# If you have fewer tokens than the budget allows, the training reads them several times, and each time is an
# **epoch**. The next cell trains the same model four times with the same number of tokens. Only the length of the text
# differs, so the runs read it 1, 4, 16 or 64 times.
#
# A model that knew only how frequent each letter is would reach a loss of about 3.2 nats here.
#
# **Predict.** With 64 epochs, is the validation loss `"much the same"` as with one epoch, `"higher"`, or `"above 3.2"`?

# %% id="again-guess"
### BEGIN SOLUTION
### GAP guess_again = ...  # one of the three
guess_again = "much the same"
### END SOLUTION

# %% id="again-run"
EPOCHS, SEEN = (1, 4, 16, 64), 60_000
KINDS = ("much the same", "higher", "above 3.2")
again = predict("14b: validation loss with 64 epochs", guess_again, choices=KINDS)
again_runs, by_epochs = finished(
    {epochs: training(f"epochs-{epochs}", 32, [SEEN], letters=SEEN // epochs) for epochs in EPOCHS}
)

# %% id="again-see"
after = by_epochs.groupby("run")["loss"].mean().rename_axis("epochs")
shares = pd.Series(list(text.read_text(encoding="utf-8"))).value_counts(normalize=True)
frequencies = float(-(shares * np.log(shares)).sum())
again.compare(KINDS[int(after[64] > after[1] + 0.05) + int(after[64] > frequencies)])
print(f"frequencies alone: {frequencies:.2f} nats")
after.round(3).to_frame("validation loss")

# %% id="again-claim" tags=["claim"]
claim(
    "loss with 4 epochs minus loss with 1 epoch",
    after[4] - after[1],
    least=0.03,
    most=0.4,
    unit="nats",
)
claim(
    "loss with 64 epochs, minus loss of knowing only frequencies",
    after[64] - frequencies,
    least=0.5,
    unit="nats",
)

# %% [markdown] id="again-explain"
# **Explain.** With 64 epochs the model memorises its 938 letters and predicts other text wrongly with high confidence.
# So its validation loss is higher than the loss of a model that knows only frequencies. Four epochs of 15,000 letters
# already raise the loss by about as much as the last doubling of the budget lowered it. This text is tiny: it has
# hardly more letters than the model has parameters. For models of up to 9 billion parameters, Muennighoff and others
# ([2023](https://arxiv.org/abs/2305.16264)) find that up to four epochs are nearly as good as new tokens. Each further
# repetition is worth less, until repetitions gain nothing.
#
# Tokens are also repeated in a **mixture** of sources. The training draws each sample from one of several sources,
# each with a weight. A small source often has the best text and gets a large weight. The number of epochs of a source
# is its weight, times the tokens of the training, divided by its own tokens. The sources below are invented:

# %% id="mixture"
TRAINING = 2_000e9  # tokens
mixture = pd.DataFrame(
    {"tokens": [3_000e9, 300e9, 5e9], "weight": [0.7, 0.25, 0.05]},
    index=["web pages", "code", "textbooks"],
)
mixture["epochs"] = mixture["weight"] * TRAINING / mixture["tokens"]
mixture["share of all text (%)"] = 100 * mixture["tokens"] / mixture["tokens"].sum()
mixture.round(2)

# %% [markdown] id="mixture-explain"
# Web pages are read less than once and each textbook 20 times, although textbooks are only 5 % of the tokens that the
# model sees.

# %% [markdown] id="pack-idea"
# ## How much attention crosses document boundaries?
#
# Documents differ in length, but the rows of a batch do not. With one document in each row, the rest of the row is
# **padding**. It costs as many FLOPs as tokens and teaches nothing. The next cell counts the padding for this text in
# rows of 512 positions. Longer documents are cut.

# %% id="pack-count"
PLACES = 512
lengths = pd.Series([min(len(document), PLACES) for document in documents])
rows, free = 0, 0
for length in lengths:  # a document that does not fit begins the next row
    rows, free = (rows, free) if length <= free else (rows + 1, PLACES)
    free -= length
padding = {"one document in a row": len(lengths), "packed": rows}
padding = {name: 100 * (1 - lengths.sum() / (count * PLACES)) for name, count in padding.items()}
print(f"{len(lengths):,} documents with {lengths.mean():.0f} of {PLACES} places on average")
pd.Series(padding, name="padding (%)").round(1).to_frame()

# %% [markdown] id="pack-predict"
# **Packing** puts several documents into one row. But with only a causal mask, a query sees *all* earlier keys of the
# row, and many of these keys belong to other documents.
#
# **Predict.** Four documents of equal length fill a row. The causal mask permits some pairs of query and key. In what
# percentage of these pairs are the two from different documents?

# %% id="pack-guess"
### BEGIN SOLUTION
### GAP guess_foreign = ...  # percent
guess_foreign = 25
### END SOLUTION

# %% id="pack-see"
foreign = predict(
    "14b: percentage of pairs across documents in a packed row", guess_foreign, unit="%"
)
owner = np.repeat(np.arange(4), PLACES // 4)
causal = np.tril(np.ones((PLACES, PLACES), dtype=bool))
across = causal & (owner[:, None] != owner[None, :])
share = 100 * across.sum() / causal.sum()
foreign.compare(share)

# %% id="pack-claim" tags=["claim"]
claim("pairs across four equal documents", share, least=70, most=80, unit="%")
claim(
    "padding with one document in each row, minus padding of packed rows",
    padding["one document in a row"] - padding["packed"],
    least=30,
    unit="%",
)

# %% [markdown] id="pack-explain"
# **Explain.** A document of a quarter of the row has a sixteenth of the pairs. Four documents together have a quarter
# of the pairs, so the other three quarters cross from one document to another. A **document mask** forbids these
# pairs. Llama 3 uses one ([Meta, 2024, section 3.2](https://arxiv.org/abs/2407.21783)). It had little effect at
# ordinary lengths, but was important for very long sequences. Kernels such as FlashAttention do not read a mask. They
# receive the positions at which documents begin, often called `cu_seqlens`, and never compute the forbidden pairs.
#
# > **Exercise 14b.2** — Pack documents so that the loss and the gradients are those of each document alone.
# > `documents` are vectors of tokens, none longer than `length`. Put several whole documents into a row, and begin a
# > new row if a document does not fit. The owner of a token is the number of its document in `documents`, from 0.
# > Padding has owner −1 and no target. Four ranks with different documents compare your gradients with a model that
# > sees one document at a time.

# %% id="pack-own" tags=["exercise"]
# %%writefile "{lab.work}/my_packing.py"
import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy

NO_TARGET = -100  # cross_entropy leaves it out


class Packed:
    def __init__(self, documents, length):
        """Fill tokens, targets, positions and owners, each [rows, length]; owners are 0, 1, 2, ..."""
        ### BEGIN SOLUTION
        ### GAP self.tokens = self.targets = self.positions = self.owners = ...
        places, row, end = [], -1, length
        for document in documents:
            if end + len(document) > length:
                row, end = row + 1, 0
            places.append((row, slice(end, end + len(document))))
            end += len(document)
        empty = torch.zeros(row + 1, length, dtype=torch.long)
        self.tokens, self.positions = empty.clone(), empty.clone()
        self.targets, self.owners = empty + NO_TARGET, empty - 1
        for number, (document, here) in enumerate(zip(documents, places, strict=True)):
            self.tokens[here] = document
            self.positions[here] = torch.arange(len(document))
            self.targets[here] = torch.cat([document[1:], torch.tensor([NO_TARGET])])
            self.owners[here] = number
        ### END SOLUTION

    def visible(self):
        """[rows, queries, keys]: True if a query may look at a key."""
        ### BEGIN SOLUTION
        ### GAP return ...
        same = self.owners[:, :, None] == self.owners[:, None, :]
        return same & torch.ones_like(same).tril()
        ### END SOLUTION

    def loss(self, scores):
        """This rank's part of the mean over the targets of all ranks. The parts are added up."""
        ### BEGIN SOLUTION
        ### GAP return ...  # scores are [rows, length, letters]
        count = (self.targets != NO_TARGET).sum()
        dist.all_reduce(count)
        each = cross_entropy(scores.flatten(0, 1), self.targets.flatten(), reduction="sum")
        return each / count
        ### END SOLUTION


# %% id="pack-trial" tags=["exercise"]
packing_trial = lab.submit(trial.recipe("packing-trial", "work/my_packing.py", "packing"))
packing_trial.watch()

# %% id="pack-check" tags=["check"]
check.ex14b_packed(packing_trial)

# %% [markdown] id="home"
# ## To take home
#
# - The best learning rate of a standard model falls with its width. With muP it stays the same, so search for it on a
#   narrow model.
# - A training run costs 6 *N D* FLOPs. With a larger budget, size and tokens both grow.
# - A scaling law is a power law above a floor. Predict a budget before you run it, and compare.
# - Several laws fit the same points, and they disagree far from them. Budgets that are far apart reduce this error.
# - Count the epochs of every source. Four epochs cost large models little, and many epochs cost every model much.
# - Packed documents need positions from 0, a document mask, and a loss that counts targets.

# %% [markdown] id="clean-idea"
# ## Cleaning up
#
# The next cell deletes all runs except the trial of exercise 14b.2.
#
# **References**
#
# - Hoffmann and others, 2022, Chinchilla: [arXiv 2203.15556](https://arxiv.org/abs/2203.15556)
# - Yang and others, 2022, Tensor Programs V: [arXiv 2203.03466](https://arxiv.org/abs/2203.03466)
# - Muennighoff and others, 2023, repeated data: [arXiv 2305.16264](https://arxiv.org/abs/2305.16264)
# - Meta, 2024, Llama 3: [arXiv 2407.21783](https://arxiv.org/abs/2407.21783)

# %% id="clean"
lab.clean(*rate_runs, *size_runs, *sixth_runs, *again_runs, yes=True)
