# %% [markdown] id="title"
# # 10 Gradient accumulation
#
# A large batch often does not fit into the memory of a device. With **gradient accumulation**, you pass the batch
# through the model in portions, add up their gradients, and take one optimizer step. This needs little extra memory
# and saves communication. The lines that divide the loss, add the gradients and send them must be right, and a
# mistake causes no error message. In this lesson you make each mistake and learn to notice it.
#
# | | |
# |---|---|
# | You will be able to | choose micro-batches for a batch that does not fit; find them in a log and in a memory trace; divide the loss by the right number when sequences differ in length; say what accumulation saves on a slow link; recognise wrong uses of `no_sync` |
# | Minutes | 50 |
# | Devices | 2 nodes with 2 devices each |
# | Before | lessons 03 and 05; lesson 06 for the memory wall |

# %% id="begin"
import numpy as np
import pandas as pd

from course_lib import Lab, check, claim, gpt, predict, program, show, trial

lab = Lab()

# %% [markdown] id="two-idea"
# ## Two ways to pass a batch through a model
#
# If four devices share sixteen samples, each device has four. It can pass all four through the model at once, or one
# at a time: forward, backward, forward, backward. Then each backward pass *adds* its gradients to the stored
# gradients. PyTorch adds by default, so every training loop begins with `zero_grad`.
#
# Samples that pass through the model together form a **micro-batch**. Their number is the *micro batch* of lesson
# 03, and
#
# **global batch = micro batch × number of micro-batches × data-parallel size.**


# %% id="two-recipes"
def sixteen(name, micro_batch):
    """16 samples per step on four devices; the last two of five steps are recorded."""
    return gpt.recipe(
        name,
        nodes=2,
        gpus_per_node=2,
        micro_batch=micro_batch,
        global_batch=16,
        iterations=5,
        memory=(3, 5),
    )


script = str(lab.script(sixteen("four-by-one", micro_batch=1)))
print(*[line for line in script.splitlines() if "batch-size" in line], sep="\n")

# %% [markdown] id="two-predict"
# From these flags, the program computes the number of micro-batches: 16 / (1 × 4) = 4.
#
# **Predict.** Compare four micro-batches of one sample with one pass of four samples. By what factor does the memory
# per device shrink for (a) activations and (b) gradients? A factor of 1 means no change.

# %% id="two-guess"
### BEGIN SOLUTION
### GAP guess_activations, guess_gradients = ..., ...  # by what factor smaller?
guess_activations, guess_gradients = 2, 4
### END SOLUTION

# %% id="two-run"
smaller = {
    "activations": predict(
        "10: factor by which activations shrink", guess_activations, unit="times"
    ),
    "gradients": predict("10: factor by which gradients shrink", guess_gradients, unit="times"),
}
submitted = (
    lab.submit(sixteen("all-at-once", micro_batch=4)),
    lab.submit(sixteen("four-by-one", micro_batch=1)),
)
at_once, in_four = (run.require() for run in submitted)

# %% [markdown] id="two-log"
# The log states the number of micro-batches:

# %% id="two-grep"
# !grep "number of microbatches" "{at_once.log_file}" "{in_four.log_file}" | sed "s/.*out.log://"

# %% [markdown] id="humps-idea"
# ## Four micro-batches make four small humps in memory
#
# In lesson 05, every step made one hump in the memory trace. How does the trace look with four micro-batches?

# %% id="humps-once"
show.memory(at_once.memory[0])

# %% id="humps-four"
show.memory(in_four.memory[0])

# %% [markdown] id="humps-caption"
# *The two recorded steps of rank 0. Above: four samples at once. Below: the same samples, one by one. The
# communication phase sends the gradients. The scales differ.*

# %% id="humps-see"
peak_once, peak_four = (run.memory[0].peak_composition for run in (at_once, in_four))
parts = pd.DataFrame({"at once (MB)": peak_once, "in four (MB)": peak_four}) / 1e6
ratios = parts["at once (MB)"] / parts["in four (MB)"]
for name, guessed in smaller.items():
    guessed.compare(ratios[name])
parts.round(1)

# %% id="humps-claim" tags=["claim"]
claim(
    "with a quarter of the samples at once, the activations shrink by",
    ratios["activations"],
    least=3.8,
    most=4.2,
    unit="times",
)
claim(
    "with a quarter of the samples at once, the gradients shrink by",
    ratios["gradients"],
    least=0.99,
    most=1.01,
    unit="times",
)

# %% [markdown] id="humps-explain"
# **Explain.** Each step has four humps, each about a quarter as high, so the factor for activations is 4. The flat
# part below contains parameters, optimizer state and gradients, and it does not change. Each micro-batch has one
# gradient for every parameter, and they are added in place, so the factor for gradients is 1. If you guessed 4, you
# assumed that a quarter of the samples has a quarter of the gradients.
#
# The gradients are sent and the optimizer runs after the fourth hump, once per step.

# %% [markdown] id="same-idea"
# ## Do both ways train the same model?
#
# **Predict.** Both runs take the same samples in each step and print their losses with seven digits. Are the losses
# of five steps `"the same to the last digit"`, `"the same but for rounding"` or `"different"`?

# %% id="same-guess"
### BEGIN SOLUTION
### GAP guess_losses = ...  # one of the three
guess_losses = "different"
### END SOLUTION

# %% id="same-see"
SAME = ("the same to the last digit", "the same but for rounding", "different")
losses_are = predict("10: losses in one pass and in four", guess_losses, choices=SAME)
show.loss(at_once, in_four)

# %% id="same-numbers"
losses = [run.log.iterations["lm_loss"] for run in (at_once, in_four)]
apart = (losses[0] - losses[1]).abs().max()
print(f"The largest difference between the losses is {apart:.0e}.")
losses_are.compare(SAME[0] if apart == 0 else SAME[1] if apart < 1e-3 else SAME[2])

# %% id="same-claim" tags=["claim"]
claim("the losses of the two runs differ at most by", apart, most=1e-4)

# %% [markdown] id="same-explain"
# *The second curve covers the first.*
#
# **Explain.** The losses are the same but for rounding. To get the mean over four samples, the program divides each
# loss by four before `backward`, as lesson 03 did for ranks.
#
# If you forget to divide, the gradients become four times too large. Adam hides the error, because it divides by the
# size of the gradients. Clipping hides it too, but its limit then acts on gradients that are four times too large, so
# it clips more often. Only plain SGD shows the error, with steps four times as long.
#
# Two conditions must hold. First, the model must not look across samples. Transformers do not, because they normalise
# one token at a time. Batch normalisation looks across samples, and the loss that balances a mixture of experts does
# too. Second, *all four losses must be means over the same number of tokens*. Here every sample is filled with text to
# its end.

# %% [markdown] id="tokens-idea"
# ## Which divisor makes every token count equally?
#
# Real samples differ in length. A dialogue of eight tokens is filled up to the length of a long document, and this
# **padding** has no loss. In instruction data the question is **masked**, so only the answer has a loss. The summed
# loss of a micro-batch can then be divided in three ways. All of them count only tokens with a loss:
#
# | divisor | name |
# |---|---|
# | its own tokens, times the number of micro-batches | `micro-batch`: a mean of means |
# | the tokens of all micro-batches of this rank | `rank` |
# | the tokens of the global batch, over all micro-batches **and ranks** | `batch` |
#
# For the third way, the program all-reduces the number of tokens *before* the first backward pass. DDP averages over
# the ranks, so the loss is also multiplied by the number of ranks. The first way is PyTorch's default, because
# `cross_entropy` returns a mean. Widely used libraries divided this way until October 2024, when [users
# compared](https://huggingface.co/blog/gradient_accumulation) loss curves with and without accumulation.
#
# `code/weigh_tokens.py` shows the effect. Short sequences have 8 tokens and long sequences 64. Each sequence is a
# micro-batch:
#
# | tokens of | micro-batch 1 | 2 | 3 | 4 | all four |
# |---|---|---|---|---|---|
# | rank 0 | 64 | 8 | 8 | 8 | 88 |
# | rank 1 | 8 | 64 | 64 | 64 | 200 |
#
# Short sequences count up by one (5, 6, 7 …), long sequences by three (5, 8, 11 …). The model sees one token at a
# time, so it can only learn how often "one more" and "three more" follow.
#
# **Predict.** What probability, in percent, will the trained model give to "one more" with a mean over the batch, and
# with a mean of means? First decide whether all tokens or all sequences count equally.

# %% id="tokens-guess"
### BEGIN SOLUTION
### GAP guess_batch, guess_means = ..., ...  # percent
guess_batch, guess_means = 50, 50
### END SOLUTION

# %% id="tokens-run"
believed = {
    "batch": predict(
        "10: probability of 'one more' with a mean over the batch", guess_batch, unit="%"
    ),
    "micro-batch": predict(
        "10: probability of 'one more' with a mean of means", guess_means, unit="%"
    ),
}


def weighed(mean_over):
    """The same sequences and the same initial weights; only the divisor differs."""
    return program.recipe(
        f"mean-over-{mean_over}",
        "weigh_tokens.py",
        nodes=2,
        mean_over=mean_over,
        train_iters=60,
    )


submitted = {way: lab.submit(weighed(way)) for way in ("batch", "rank", "micro-batch")}
means = {way: run.require() for way, run in submitted.items()}
show.loss(*means.values())

# %% id="tokens-see"
told = {way: run.log.iterations for way, run in means.items()}
belief = {way: lines["belief_in_the_short"].tail(20).median() for way, lines in told.items()}
for way, guessed in believed.items():
    guessed.compare(belief[way])
pd.DataFrame(
    {
        way: {
            "gradient error in step 1 (%)": 100 * lines["gradient_off_by"].iloc[0],
            "probability of 'one more' (%)": belief[way],
            "loss per token": lines["lm_loss"].tail(20).median(),
        }
        for way, lines in told.items()
    }
).T.round(3)

# %% id="tokens-claim" tags=["claim"]
off = {way: 100 * lines["gradient_off_by"] for way, lines in told.items()}
claim("largest gradient error with a mean over the batch", off["batch"].max(), most=0.001, unit="%")
claim("gradient error with a mean of means", off["micro-batch"].iloc[0], least=20, unit="%")
claim("gradient error with the rank's tokens", off["rank"].iloc[0], least=1, most=20, unit="%")
claim(
    "with a mean of means, the probability of 'one more' is",
    belief["micro-batch"],
    least=40,
    most=60,
    unit="%",
)
claim(
    "with a mean over the batch, the probability of 'one more' is",
    belief["batch"],
    least=8,
    most=14,
    unit="%",
)

# %% [markdown] id="tokens-explain"
# *All runs measure the loss per token in the same way, but train different losses. Gradient error: the distance from
# the gradient of one device that sees the whole batch at once.*
#
# **Explain.** With a mean over the batch, each *token* has one vote. Short sequences hold 32 of the 288 tokens, one
# ninth, so the model gives "one more" 11 %. With a mean of means, each *sequence* has one vote. Half of the sequences
# are short, so the probability is 50 %, and a token of a short sequence counts eight times as much. The log shows no
# problem, because its loss, also a mean of means, falls as expected. But training concentrates on short answers such
# as "yes" and "no".
#
# ![Eight micro-batches as boxes: 64, 8, 8 and 8 tokens on rank 0, and 8, 64, 64 and 64 on rank 1. In a mean over the batch each token has one vote, and the four short sequences have 32 of 288 votes, 11 %. In a mean of means each micro-batch has one vote, and the short sequences have 4 of 8 votes, 50 %.](../images/token_votes.svg)
#
# Dividing by the tokens of the *rank* is correct on one device. But DDP averages over ranks with different numbers of
# tokens. Short sequences have 24 of 88 tokens on rank 0 and 8 of 200 on rank 1, on average 16 %. The error usually
# shrinks with more sequences per rank.
#
# You may *want* all sequences to count equally. Even then the result must not depend on how the batch is divided. To
# test a training loop, keep the batch, change micro-batch and ranks, and compare the gradients.

# %% [markdown] id="precision-idea"
# ## Why are the gradients added up in float32?
#
# Models are often trained with 16-bit numbers (lesson 08). The **mantissa** of a float16 has 11 significant bits, of
# which 10 are stored. The gap between neighbouring numbers is 0.00195 between 2 and 4, and 0.0039 between 4 and 8. If
# you add less than half of the gap, the sum does not change.
#
# **Predict.** You add 0.001 to a float16 sum 8192 times, starting at 0. What is the result?

# %% id="precision-guess"
### BEGIN SOLUTION
### GAP guess_sum = ...  # your number in place of the dots
guess_sum = 8.2
### END SOLUTION

# %% id="precision-see"
in_float16 = predict("10: 8192 × 0.001 in float16", guess_sum)
total = {}
for kind in (np.float16, np.float32):
    total[kind] = kind(0)
    for _ in range(8192):
        total[kind] = kind(total[kind] + kind(0.001))
    print(f"{kind.__name__}: {float(total[kind]):.3f}")
in_float16.compare(total[np.float16])

# %% id="precision-claim" tags=["claim"]
lost = 100 * (1 - float(total[np.float16]) / 8.192)
claim("the float16 sum loses", lost, least=45, most=55, unit="%")

# %% [markdown] id="precision-explain"
# **Explain.** The exact result is 8.192, as float32 shows. The float16 sum stops at 4, because 0.001 is less than
# half of the gap above 4. bfloat16 has only 8 significant bits and stops earlier. The gradients of many micro-batches
# are such a sum, so each part of a step has its own precision:
#
# | part of the step | precision with `--bf16` |
# |---|---|
# | forward and backward of each micro-batch | bfloat16 (inside a matmul, sums are float32) |
# | the sum over the micro-batches | float32 (`--accumulate-allreduce-grads-in-fp32`, which `--bf16` implies) |
# | the all-reduce over the ranks | float32, the same sum |
# | the optimizer step | float32 weights, from which the bfloat16 copy is made again |

# %% [markdown] id="link-idea"
# ## How much time does accumulation save on a slow link?
#
# A step with *m* micro-batches takes *m · c + s*: *c* for each micro-batch and *s* for the exchange. You compare
# links of 1 and 0.2 Gbit/s between the nodes, which the box can simulate.
#
# You can estimate both times. A ring of four devices sends 1.5 times the 7.4 MB of gradients over the link. These 11
# MB take about 450 ms at 0.2 Gbit/s. One micro-batch takes roughly 100 ms on the box.
#
# **Predict.** A micro-batch has one sample per device. On the slow link, by what factor do the samples per second
# grow with four micro-batches per step instead of one?

# %% id="link-guess"
### BEGIN SOLUTION
### GAP guess_factor = ...  # times more samples per second
guess_factor = 4.0
### END SOLUTION

# %% id="link-run"
gained = predict(
    "10: speed-up by four micro-batches on the slowest link", guess_factor, unit="times"
)
labs = {"1 Gbit/s": lab.but(link_gbit=1.0), "0.2 Gbit/s": lab.but(link_gbit=0.2)}
if not lab.site.box:
    labs = {"real link": lab}
    print("You cannot change the link of a real cluster, so the table below has only one row.")


def per_step(micro_batches, speed):
    """One sample per micro-batch on each of four devices."""
    return gpt.recipe(
        f"m{micro_batches}-{speed.replace(' ', '-').replace('/', '-per-')}",
        nodes=2,
        gpus_per_node=2,
        micro_batch=1,
        global_batch=4 * micro_batches,
        iterations=4,
    )


submitted = {
    (speed, count): its_lab.submit(per_step(count, speed))
    for speed, its_lab in labs.items()
    for count in (1, 4)
}
runs = {key: run.require() for key, run in submitted.items()}


# %% id="link-see"
def step_ms(run):
    """Median over the iterations after the first, which includes the set-up."""
    return float(run.log.iterations["elapsed_ms"].iloc[1:].median())


steps_ms = {speed: [step_ms(runs[speed, count]) for count in (1, 4)] for speed in labs}
c = float(np.mean([(four - one) / 3 for one, four in steps_ms.values()]))
rows = [
    {
        "link": speed,
        "ms per step, 1 micro-batch": round(one),
        "ms per step, 4": round(four),
        "c: one micro-batch (ms)": round(c),
        "s: the exchange (ms)": round(one - c),
        "factor": round(4 * one / four, 2),
    }
    for speed, (one, four) in steps_ms.items()
]
gained.compare(rows[-1]["factor"])
pd.DataFrame(rows)

# %% id="link-figure"
show.throughput(*runs.values())

# %% id="link-claim" tags=["claim"]
claim(
    "four micro-batches per step raise the samples per second by",
    rows[-1]["factor"],
    least=1.3,
    most=3.7,
    unit="times",
)

# %% [markdown] id="link-explain"
# *Samples per second in every step. The runs named m4 have four micro-batches.*
#
# **Explain.** One step with four micro-batches takes as many samples as four steps with one, and it saves 3 *s*. If
# you guessed 4, you assumed that computing takes no time. If sending took no time, the factor would be 1. So
# accumulation pays if the link is slow compared with the device. Once *m · c* is much larger than *s*, more
# micro-batches save almost nothing.
#
# In the table, *c* is a third of what three more micro-batches add, averaged over the rows. In a step with one
# micro-batch, the rest is *s*, which includes the optimizer.

# %% id="link-said"
if len(rows) < 2:
    print("The ratio s / c says how slow your link is for this model.")
elif rows[1]["s: the exchange (ms)"] < 1.5 * max(rows[0]["s: the exchange (ms)"], 20):
    print(
        "The exchange takes about as long in both rows, so the smaller bandwidth had no effect. In"
    )
    print("flat mode both nodes are one machine, and the link between them cannot be slowed.")
else:
    print(f"A fifth of the bandwidth raises s from {rows[0]['s: the exchange (ms)']} ms to")
    print(f"{rows[1]['s: the exchange (ms)']} ms, so accumulation saves more on the slow link.")

# %% [markdown] id="link-price"
# The price of accumulation is that the same samples make fewer steps. Above some batch size, one step with four times
# the batch no longer replaces four steps (lesson 12). [Marek and others (2025)](https://arxiv.org/abs/2507.07101)
# therefore recommend accumulation only if several replicas are limited by the bandwidth between devices. The benchmark
# of lesson 15 takes 256 micro-batches per step for 13 billion parameters on 32 A100. Many micro-batches also keep the
# bubble of a pipeline small (lesson 07b).

# %% [markdown] id="sync-idea"
# ## What happens if `no_sync` is in the wrong place?
#
# `pretrain_gpt.py` sends all gradients after the last micro-batch. PyTorch's `DistributedDataParallel` (DDP) sends
# *while backward runs*, to overlap sending with computing, and prepares this in the forward pass. DDP cannot know
# that more micro-batches will follow. You tell it with the context `no_sync`:
#
# ```python
# for number, (x, y) in enumerate(micro_batches):
#     last = number == len(micro_batches) - 1
#     with nullcontext() if last else model.no_sync():
#         loss = loss_of(model(x), y) / len(micro_batches)
#         loss.backward()
# optimizer.step()
# ```
#
# All micro-batches except the last run inside `no_sync`. `code/accumulate_ddp.py` has this loop and three variants,
# for a small perceptron on two nodes with one device each:
#
# | `--sync` | the loop |
# |---|---|
# | `last` | as above |
# | `every` | without `no_sync` |
# | `backward` | only `loss.backward()` inside `no_sync`, the forward pass outside |
# | `never` | `no_sync` around *all* micro-batches, including the last |
#
# **Predict.** A step has four micro-batches. How many times per step does each variant send its gradients? Which
# variant trains a different model from `last`?

# %% id="sync-guess"
### BEGIN SOLUTION
### GAP guess_sent = {"last": ..., "every": ..., "backward": ..., "never": ...}  # times per step
### GAP guess_other = ...  # "last", "every", "backward", "never" or "none of them"
guess_sent = {"last": 1, "every": 4, "backward": 1, "never": 0}
guess_other = "every"
### END SOLUTION

# %% id="sync-run"
sendings = {
    sync: predict(f"10: {sync}: gradients sent per step", times, unit="times")
    for sync, times in guess_sent.items()
}
NAMES = (*sendings, "none of them")
another = predict("10: use of no_sync that trains a different model", guess_other, choices=NAMES)
slowest = list(labs.values())[-1]
submitted = {
    sync: slowest.submit(
        program.recipe(
            f"sync-{sync}",
            "accumulate_ddp.py",
            nodes=2,
            gpus_per_node=1,
            sync=sync,
            micro_batches=4,
            train_iters=3,
        )
    )
    for sync in sendings
}
variants = {sync: run.require() for sync, run in submitted.items()}

# %% id="sync-see"
steps = {sync: run.log.iterations.iloc[1:] for sync, run in variants.items()}
once_mb = steps["last"]["all_reduced_mb"].median()
sent = {sync: lines["all_reduced_mb"].median() / once_mb for sync, lines in steps.items()}
parted = {sync: lines["copies_differ_by"].iloc[-1] for sync, lines in steps.items()}
for sync, guessed in sendings.items():
    guessed.compare(sent[sync])
another.compare(max(parted, key=parted.get))
pd.DataFrame(
    {
        "gradients sent": {sync: round(times, 1) for sync, times in sent.items()},
        "ms per step": {s: round(lines["elapsed_ms"].median()) for s, lines in steps.items()},
        "last loss": {s: lines["lm_loss"].iloc[-1] for s, lines in steps.items()},
        "copies differ by": parted,
    }
)

# %% id="sync-claim" tags=["claim"]
claim("without no_sync, gradients are sent", sent["every"], least=3.9, most=4.1, unit="times")
claim(
    "with backward alone inside no_sync, gradients are sent",
    sent["backward"],
    least=3.9,
    most=4.1,
    unit="times",
)
claim("with no_sync around all micro-batches, the copies differ by", parted["never"], least=1e-9)

# %% [markdown] id="sync-explain"
# *Gradients sent: how many times per step all gradients are sent. Copies differ by: the largest difference between
# the compared parameters of the two ranks.*
#
# **Explain.** Only `never` trains a different model. `last`, `every` and `backward` have the same loss but for
# rounding, and their copies of the model stay equal. They differ only in what they send.
#
# - **every** averages the stored gradients after each micro-batch. A second average does not change the first, so the
#   result is the same, but the gradients are sent four times.
# - **backward** saves nothing, because DDP decides in the *forward* pass whether the next backward pass will send. If
#   you guessed 1, you trusted the name of the context. Its
#   [documentation](https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html)
#   says that the forward pass belongs inside.
# - **never** sends nothing, and its loss falls as well. But it trains two models, each on half of the samples, and a
#   program would save only the model of rank 0. Only the last column shows the mistake.
#
# In your own program, compare step times on a slow link. If a step with four micro-batches takes four times as long,
# the program sends every time. From time to time, also compare one parameter over the ranks.
#
# **FSDP and ZeRO-2/3 send more.** With these methods (lesson 11), a rank keeps only its share of the summed
# gradients. So a **reduce-scatter** sums and distributes the gradients of each micro-batch, and FSDP and ZeRO-3 also
# gather the parameters. With `set_requires_gradient_sync(False)` in FSDP2, or `no_sync` in FSDP1, the gradients are
# sent once. But then each rank keeps whole gradients until the end.

# %% [markdown] id="ex1" tags=["exercise"]
# ## Exercises
#
# > **Exercise 10.1** — Write `accumulate(model, micro_batches)`. The gradients must equal the gradients of one device
# > that sees the whole global batch at once. They must be sent once. Return the loss per token of the global batch.
#
# - `model` is in `DistributedDataParallel`. It takes tokens [samples, positions] and gives scores [samples,
#   positions, vocabulary].
# - `micro_batches` is a list of pairs `(tokens, targets)`. A target of -100 has no loss. The ranks have different
#   numbers of micro-batches and of tokens with a loss. A micro-batch may have none.
# - Each micro-batch goes forward and backward before the next one begins.
#
# The trial makes two steps on 1, 2, 3 and 4 ranks. It compares the gradients and the loss with a serial model, in
# float64, and counts what is all-reduced.

# %% id="ex1-own" tags=["exercise"]
# %%writefile "{lab.work}/my_accumulation.py"
import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy


def accumulate(model, micro_batches):
    """Leave the gradients of the global batch in model.parameters(), and return its loss."""
    ### BEGIN SOLUTION
    ### GAP ...  # count the tokens of all ranks, then pass each micro-batch through the model
    ### GAP return ...
    counted = sum((targets != -100).sum() for _, targets in micro_batches)
    dist.all_reduce(counted)
    total = torch.zeros((), dtype=torch.float64)

    def backward(tokens, targets):
        scores = model(tokens).flatten(0, 1)
        summed = cross_entropy(scores, targets.flatten(), reduction="sum")  # -100 is left out
        (summed * dist.get_world_size() / counted).backward()  # DDP divides by the number of ranks
        total.add_(summed.detach())

    *first, last = micro_batches
    with model.no_sync():
        for pair in first:
            backward(*pair)
    backward(*last)
    dist.all_reduce(total)
    return total / counted
    ### END SOLUTION


# %% id="ex1-trial" tags=["exercise"]
accumulate_trial = lab.submit(
    trial.recipe("accumulate-trial", "work/my_accumulation.py", "accumulate")
)
accumulate_trial.watch()

# %% id="ex1-check" tags=["check"]
check.ex10_accumulate(accumulate_trial)

# %% [markdown] id="ex1-why" tags=["solution"]
# Tokens are counted over all ranks before the first backward pass. DDP takes the mean over the ranks, so each loss is
# also multiplied by their number. A mean over a micro-batch without tokens would be 0/0. The loss needs its own
# all-reduce, because a rank knows only its own part.

# %% [markdown] id="challenge" tags=["exercise"]
# > **Going further** — Take *c* and *s* of your slowest link. What is the smallest number of micro-batches with which
# > the exchange takes less than a tenth of a step? Submit this run and check your answer.

# %% [markdown] id="home"
# ## To take home
#
# - Global batch = micro batch × number of micro-batches × data-parallel size. The log states the number of
#   micro-batches.
# - Accumulation saves memory for activations and temporary tensors, not for gradients, parameters and optimizer
#   state.
# - The result equals one large batch if the *summed* loss is divided by the tokens of the global batch. A mean of
#   means gives the same result only if all means are over the same number of tokens.
# - Keep the sum of the gradients in float32.
# - Whole gradients need to be sent only once per step. With DDP, put `no_sync` around forward *and* backward of all
#   micro-batches except the last. FSDP and ZeRO-2/3 send for every micro-batch, or keep whole gradients.
# - For torch's own `no_sync`, and `set_requires_gradient_sync` after `fully_shard`, see lesson 11b.

# %% [markdown] id="clean-idea"
# ## Cleaning up
#
# The runs of the exercises stay.
#
# **References**
#
# - Hugging Face (2024), [Fixing Gradient Accumulation](https://huggingface.co/blog/gradient_accumulation).
# - Marek and others (2025), [Small Batch Size Training for Language Models](https://arxiv.org/abs/2507.07101).
# - PyTorch,
#   [DistributedDataParallel](https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html),
#   `no_sync`.

# %% id="clean"
lab.clean(in_four, *means.values(), *runs.values(), *variants.values(), yes=True)
