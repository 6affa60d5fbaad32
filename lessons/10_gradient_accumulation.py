# %% [markdown] id="title"
# # 10 Gradient accumulation
#
# Large models like large batches, and large batches do not fit. The way out is older than any cluster: look
# at the batch in small portions, add up what each of them says about the gradients, and take one step at the
# end. It costs no new mathematics, very little memory, and it saves communication, if one line is in the
# right place. If that line is in the wrong place nothing crashes, and that is the second half of this lesson.
#
# | | |
# |---|---|
# | You will be able to | choose micro-batches for a batch that does not fit; find them in a log and in a memory trace; say what accumulation saves on a slow link; recognise three wrong uses of `no_sync` by what they send |
# | Minutes | 35 |
# | Devices | 2 nodes with 2 devices each |
# | Before | lessons 03 and 05; lesson 06 for the memory wall |

# %% id="begin"
import numpy as np
import pandas as pd

from course_lib import Lab, check, claim, gpt, program, show

lab = Lab()

# %% [markdown] id="two-idea"
# ## One batch, two ways
#
# Sixteen samples, four devices: four samples for each. A device may pass all four through the model at once. Or it
# may take them one after the other: forward, backward, forward, backward … and let every backward pass *add* its
# gradients to those that are there already. (PyTorch does that by itself; it is why every training loop
# begins with `zero_grad`.) A portion that passes at once is a **micro-batch**, and
#
# **global batch = micro batch × number of micro-batches × data-parallel size.**
#
# (The *micro batch* of lesson 03 is the size of such a portion.)


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


lab.script(sixteen("four-by-one", micro_batch=1))

# %% [markdown] id="two-predict"
# Nothing in the script says how many micro-batches there are. The program divides: 16 / (1 × 4) = 4.
#
# **Predict.** Compared with four samples at once, how many times smaller will these be on each device: (a)
# the memory for activations, (b) the memory for gradients?

# %% id="two-guess"
guess_activations, guess_gradients = 2, 4  # change them to your own guesses

# %% id="two-run"
at_once = lab.submit(sixteen("all-at-once", micro_batch=4)).require()
in_four = lab.submit(sixteen("four-by-one", micro_batch=1)).require()

# %% [markdown] id="two-log"
# The log says it in one line, which is worth looking for in every run whose batch surprises you:

# %% id="two-grep"
# !grep "number of microbatches" {at_once.log_file} {in_four.log_file} | sed "s/.*out.log://"

# %% [markdown] id="humps-idea"
# ## Four humps
#
# In lesson 05 every step made one hump in the memory trace: activations pile up in forward and go in backward.

# %% id="humps-once"
show.memory(at_once.memory[0])

# %% id="humps-four"
show.memory(in_four.memory[0])

# %% [markdown] id="humps-caption"
# *The two recorded steps of rank 0. Above: four samples at once. Below: the same four samples, one by one.
# Pale blue background: forward; pale orange: backward; pink: gradients travel; green: the optimizer. The
# scales differ.*

# %% id="humps-see"
peak_once, peak_four = (run.memory[0].peak_composition for run in (at_once, in_four))
parts = pd.DataFrame({"at once (MB)": peak_once, "in four (MB)": peak_four}) / 1e6
for name, guess in (("activations", guess_activations), ("gradients", guess_gradients)):
    ratio = parts.loc[name, "at once (MB)"] / parts.loc[name, "in four (MB)"]
    print(f"{name}: you guessed {guess} times smaller, measured {ratio:.1f}")
parts.round(1)

# %% id="humps-claim" tags=["claim"]
fewer = parts.loc["activations", "at once (MB)"] / parts.loc["activations", "in four (MB)"]
claim(
    "a quarter of the samples keeps a quarter of the activations",
    fewer,
    least=3.5,
    most=4.5,
    unit="times",
)

# %% [markdown] id="humps-explain"
# **Explain.** Four humps in each step, each about a quarter as high. What does *not* change is the flat part
# below: parameters, optimizer state, and gradients. Gradients are as many as parameters, whether they come
# from one sample or from a thousand, and they stay until the optimizer has used them. If your guess for (b)
# was not 1, you thought that a quarter of the samples has a quarter of the gradients; but each micro-batch
# has all of them, and they are added up in place.
#
# After the fourth hump comes the only communication of the step, and then the optimizer. Both happen once per
# step, not once per micro-batch.

# %% [markdown] id="same-idea"
# ## The same steps?
#
# **Predict.** The two runs saw the same samples in each step. How far apart are their losses, in five steps,
# at most?

# %% id="same-guess"
guess_difference = 0.01  # change it to your own guess

# %% id="same-see"
show.loss(at_once, in_four)

# %% id="same-numbers"
losses = [run.log.iterations["lm_loss"] for run in (at_once, in_four)]
print(
    f"you guessed {guess_difference}; the largest difference is {(losses[0] - losses[1]).abs().max():.0e}"
)

# %% id="same-claim" tags=["claim"]
claim("both train the same model", (losses[0] - losses[1]).abs().max(), most=1e-3)

# %% [markdown] id="same-explain"
# *Two curves, of which the second covers the first.*
#
# **Explain.** As in lesson 03: the mean over four samples is the mean of four single values, so the gradients
# are the same but for rounding. There is one way to spoil this: to forget that mean. A loop that calls
# `backward` on four losses without dividing each by four gets gradients that are four times too large. Adam
# hides it, because it divides by the gradients' own size; clipping hides it as well. What changes silently is
# when clipping begins, and how much a weight decay counts that is added to the gradients. Only plain SGD shows
# it: its steps become four times as long.
#
# (The model must not look across samples, of course. Batch normalisation does, and then micro-batches are not the
# same as a batch. Transformers use layer normalisation, which looks at one token at a time.)

# %% [markdown] id="precision-idea"
# ## What the sum is kept in
#
# Models are often trained with numbers of 16 bits (lesson 08), and then there is one more thing to get right.
# A float16 has 11 significant bits, so its next larger neighbour is some way off. Add less than half of this
# way, and nothing happens.
#
# **Predict.** 8192 times 0.001, added one by one in 16 bits. What comes out?

# %% id="precision-guess"
guess_sum = 8.2  # change it to your own guess

# %% id="precision-see"
print(f"you guessed {guess_sum}")
for kind in (np.float16, np.float32):
    total = kind(0)
    for _ in range(8192):
        total = kind(total + kind(0.001))
    print(f"{kind.__name__}: {float(total):.3f}")

# %% [markdown] id="precision-explain"
# **Explain.** 8192 × 0.001 is 8.192, as float32 says. In float16 the sum gets stuck at 4, where the
# neighbours are 0.004 apart and 0.001 is lost every time. bfloat16 has even fewer significant bits (8) and
# stops sooner. Gradients of many micro-batches are just such a sum. Therefore each part of a step has its own
# precision:
#
# | part of the step | precision with `--bf16` |
# |---|---|
# | forward and backward of each micro-batch | bfloat16 |
# | the sum over the micro-batches | float32 (`--accumulate-allreduce-grads-in-fp32`, which `--bf16` implies) |
# | the all-reduce over the copies | float32, the same sum |
# | the step of the optimizer | float32 weights, from which the bfloat16 copy is made anew |

# %% [markdown] id="link-idea"
# ## What it saves on a slow link
#
# The gradients travel once per step. With four micro-batches per step a device computes four times as long in
# between. On the box the link between the nodes can be given any bandwidth, so here are two: 1 Gbit/s, as so
# far, and a fifth of it.
#
# **Predict.** Every device takes one sample per micro-batch. On the slowest link, how many times more samples
# per second will the four devices see with four micro-batches per step than with one?

# %% id="link-guess"
guess_factor = 4.0  # change it to your own guess

# %% id="link-run"
if lab.site.box:
    labs = {"1 Gbit/s": lab.but(link_gbit=1.0), "0.2 Gbit/s": lab.but(link_gbit=0.2)}
else:
    labs = {"real link": lab}
    print("The link of a real cluster is what it is; the table below has one row less.")


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


runs = {
    (speed, count): its_lab.submit(per_step(count, speed)).require()
    for speed, its_lab in labs.items()
    for count in (1, 4)
}


# %% id="link-see"
def step_ms(run):
    """Median over the iterations after the first, which sets things up."""
    return float(run.log.iterations["elapsed_ms"].iloc[1:].median())


rows = []
for speed in labs:
    one, four = step_ms(runs[speed, 1]), step_ms(runs[speed, 4])
    rows.append(
        {
            "link": speed,
            "ms per step, 1 micro-batch": round(one),
            "ms per step, 4": round(four),
            "samples/s, 1": round(4 / one * 1000, 1),
            "samples/s, 4": round(16 / four * 1000, 1),
            "factor": round(4 * one / four, 2),
        }
    )
print(f"you guessed a factor of {guess_factor} on the slowest link")
pd.DataFrame(rows)

# %% id="link-figure"
show.throughput(*runs.values())

# %% id="link-claim" tags=["claim"]
slow = rows[-1]["factor"]
claim("four micro-batches per step pay the slow link once", slow, least=1.2, most=4, unit="times")

# %% [markdown] id="link-explain"
# *Samples per second in every step; m4 are the runs with four micro-batches.*
#
# **Explain.** A step takes *m · c + s*: *m* micro-batches of *c* milliseconds, and one exchange of *s*. One
# step with four micro-batches sees as many samples as four steps with one, and takes 3 *s* less. The factor
# would be 4 only if computing took no time at all; it is near 1 if sending takes none. So accumulation pays
# where the link is slow compared with the device, and it cannot do more than remove the waiting: once *m · c*
# is much larger than *s*, more micro-batches bring nothing. (In flat mode the box cannot slow its link. Then
# both rows show the same road.)
#
# It is not free in another respect: fewer steps are made with the same samples. Whether a step with four
# times the batch brings you as far as four steps is a question of learning, not of links, and for every model
# there is a batch size from which on it does not. Published for comparison: a benchmark of a GPT with 13
# billion parameters on 8 nodes with 4 A100 each takes 256 micro-batches per step; there they also fill a
# pipeline (lesson 07).

# %% [markdown] id="sync-idea"
# ## Where a wrong `no_sync` hurts
#
# `pretrain_gpt.py` sends all gradients after the last micro-batch. PyTorch's own `DistributedDataParallel` is
# built otherwise: to hide the sending behind the arithmetic, it starts to send *while backward runs*. It
# cannot know that more micro-batches will follow. You have to tell it, with a context called `no_sync`:
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
# (A micro-batch that is not the last runs inside `no_sync`; `nullcontext()` does nothing.)
# `code/accumulate_ddp.py` has this loop and three other ones, for a small perceptron on two nodes with one
# device each:
#
# | `--sync` | what is written |
# |---|---|
# | `last` | as above |
# | `every` | `no_sync` was forgotten |
# | `backward` | only `loss.backward()` stands inside `no_sync`, the forward pass outside |
# | `never` | `no_sync` around *all* micro-batches, the last one too |
#
# **Predict.** Four micro-batches per step. How many times does each variant send its gradients in a step? And
# which of them trains something else than the first?

# %% id="sync-guess"
guess_sent = {"last": 1, "every": 4, "backward": 1, "never": 0}  # change it to your own guess

# %% id="sync-run"
slowest = list(labs.values())[-1]
variants = {
    sync: slowest.submit(
        program.recipe(
            f"sync-{sync}",
            "accumulate_ddp.py",
            nodes=2,
            gpus_per_node=1,
            sync=sync,
            micro_batches=4,
            train_iters=4,
        )
    ).require()
    for sync in guess_sent
}

# %% id="sync-see"
steps = {sync: run.log.iterations.iloc[1:] for sync, run in variants.items()}
once_mb = steps["last"]["all_reduced_mb"].median()
pd.DataFrame(
    {
        "you guessed": guess_sent,
        "gradients sent": {
            s: round(t["all_reduced_mb"].median() / once_mb, 1) for s, t in steps.items()
        },
        "ms per step": {s: round(t["elapsed_ms"].median()) for s, t in steps.items()},
        "last loss": {s: t["lm_loss"].iloc[-1] for s, t in steps.items()},
        "copies differ by": {s: t["copies_differ_by"].iloc[-1] for s, t in steps.items()},
    }
)

# %% id="sync-claim" tags=["claim"]
sent = steps["every"]["all_reduced_mb"].median() / once_mb
claim(
    "without no_sync every micro-batch sends the gradients", sent, least=3.9, most=4.1, unit="times"
)
claim("who never sums trains other models", steps["never"]["copies_differ_by"].iloc[-1], least=1e-9)

# %% [markdown] id="sync-explain"
# *Gradients sent: how many times all gradients, in each step. Copies differ by: the largest difference
# between the two ranks' parameters, of those that were compared.*
#
# **Explain.** Three variants have the same loss but for rounding, and their copies of the model stay equal:
# they are *right*. They only differ in what they send.
#
# - **every** averages sums that were averaged already; the result is the same, and the gradients travelled
#   four times.
# - **backward** is the treacherous one. It looks right, its result *is* right, and it saves nothing: DDP
#   decides in the *forward* pass whether the coming backward pass will send. Whoever guesses 1 here has read
#   the name of the context, not its documentation.
# - **never** sends nothing at all, so its steps wait for nobody, and its loss falls as well. But it trains two
#   models, each on half of the samples, and a program would save the one of rank 0 at the end. No error, no
#   warning; only the last column gives it away. It is the mistake of lesson 03, world
#   size 1 where you expected 4, in another dress.
#
# How would you notice in a program of your own? Time one step with and without accumulation: if the step with
# four micro-batches takes four times as long on a slow link, you send each time. And compare one parameter
# over the ranks now and then: that costs a few bytes.

# %% [markdown] id="ex1" tags=["exercise"]
# ## Exercises
#
# > **Exercise 10.1** — Suppose that only **2** samples fit into a device at once. Train the model with a
# > global batch of **32** on all four devices of both nodes, for 3 iterations. Fill the gaps.

# %% id="ex1-gap" tags=["exercise"]
fits = gpt.recipe(
    "fits",
    ### BEGIN SOLUTION
    ### GAP nodes=...,
    nodes=2,
    ### END SOLUTION
    gpus_per_node=2,
    ### BEGIN SOLUTION
    ### GAP micro_batch=...,
    ### GAP global_batch=...,
    micro_batch=2,
    global_batch=32,
    ### END SOLUTION
    iterations=3,
)
fits_run = lab.submit(fits)
fits_run.watch()

# %% id="ex1-check" tags=["check"]
check.ex10_fits(fits_run)

# %% [markdown] id="ex1-why" tags=["solution"]
# 32 = 2 × 4 × 4: two samples per micro-batch, four devices, hence four micro-batches. The number of
# micro-batches is never asked for; it follows. A global batch of 30 would be refused, because 30 is not a
# multiple of 2 × 4.

# %% [markdown] id="ex2" tags=["exercise"]
# > **Exercise 10.2** — A colleague trains the model of `all-at-once` with DDP on **16** devices, accumulates
# > **8** micro-batches per step, and has forgotten `no_sync`. How many **megabytes** (10⁶ bytes) does each
# > device send *needlessly* in every step? (Gradients are float32; the ring of lesson 03 sends 2 (*d* − 1) /
# > *d* times what it reduces.)

# %% id="ex2-gap" tags=["exercise"]
### BEGIN SOLUTION
### GAP needless_mb = ...
needless_mb = (8 - 1) * 2 * (16 - 1) / 16 * 4 * at_once.log.parameter_count / 1e6
### END SOLUTION

# %% id="ex2-check" tags=["check"]
check.ex10_needless(needless_mb, at_once)

# %% [markdown] id="ex2-why" tags=["solution"]
# Eight times it sends 1.875 times its gradients; once would have been enough, so seven are needless. The
# number does not depend on the micro-batch: there are as many gradients after one sample as after a hundred.

# %% [markdown] id="challenge" tags=["exercise"]
# > **For the quick** — From your table: how long does one micro-batch take (*c*), and how long the exchange
# > (*s*), on the slowest link? From how many micro-batches on is less than a tenth of a step spent on the
# > exchange? Submit that run, and see whether you were right.

# %% [markdown] id="home"
# ## To take home
#
# - Global batch = micro batch × micro-batches × data-parallel size. The log says how many there are.
# - Accumulation makes the activations smaller, and nothing else. Gradients, parameters and optimizer state stay.
# - The result is the same as with one large batch, if each loss is divided by the number of micro-batches.
# - The sum is kept in float32.
# - Gradients need to travel once per step. With DDP, `no_sync` goes around forward *and* backward of all
#   micro-batches but the last.

# %% [markdown] id="clean-idea"
# ## Cleaning up
#
# The runs that the exercises look at stay, so that their checks can be run again.

# %% id="clean"
lab.clean(in_four, *runs.values(), *variants.values(), yes=True)
