# %% [markdown] id="title"
# # 10 Gradient accumulation
#
# Large models like large batches, and large batches do not fit. The way out is older than any cluster: look
# at the batch in small portions, add up what each of them says about the gradients, and take one step at the
# end. It costs very little memory and saves communication, if three lines are right: the one that divides, the
# one that adds, and the one that sends. Where they are wrong nothing crashes. This lesson gets each of them wrong.
#
# | | |
# |---|---|
# | You will be able to | choose micro-batches for a batch that does not fit; find them in a log and in a memory trace; divide the loss by the right number, also where sequences differ in length; say what accumulation saves on a slow link; recognise three wrong uses of `no_sync` by what they send |
# | Minutes | 45 |
# | Devices | 2 nodes with 2 devices each |
# | Before | lessons 03 and 05; lesson 06 for the memory wall |

# %% id="begin"
import numpy as np
import pandas as pd

from course_lib import Lab, check, claim, gpt, predict, program, show

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
### BEGIN SOLUTION
### GAP guess_activations, guess_gradients = ..., ...  # how many times smaller?
guess_activations, guess_gradients = 2, 4
### END SOLUTION

# %% id="two-run"
smaller = {
    "activations": predict("10: activations, times smaller", guess_activations, unit="times"),
    "gradients": predict("10: gradients, times smaller", guess_gradients, unit="times"),
}
at_once = lab.submit(sixteen("all-at-once", micro_batch=4))
in_four = lab.submit(sixteen("four-by-one", micro_batch=1))
for run in (at_once, in_four):
    run.require()

# %% [markdown] id="two-log"
# The log says it in one line, which is worth looking for in every run whose batch surprises you:

# %% id="two-grep"
# !grep "number of microbatches" "{at_once.log_file}" "{in_four.log_file}" | sed "s/.*out.log://"

# %% [markdown] id="humps-idea"
# ## Four humps
#
# In lesson 05 every step made one hump in the memory trace: activations pile up in forward and go in backward.

# %% id="humps-once"
show.memory(at_once.memory[0])

# %% id="humps-four"
show.memory(in_four.memory[0])

# %% [markdown] id="humps-caption"
# *The two recorded steps of rank 0. Above: four samples at once. Below: the same four samples, one by one. In the
# communication phase gradients travel. The scales differ.*

# %% id="humps-see"
peak_once, peak_four = (run.memory[0].peak_composition for run in (at_once, in_four))
parts = pd.DataFrame({"at once (MB)": peak_once, "in four (MB)": peak_four}) / 1e6
ratios = parts["at once (MB)"] / parts["in four (MB)"]
for name, guessed in smaller.items():
    guessed.compare(ratios[name])
parts.round(1)

# %% id="humps-claim" tags=["claim"]
claim(
    "a quarter of the samples keeps a quarter of the activations",
    ratios["activations"],
    least=3.8,
    most=4.2,
    unit="times",
)
claim("but gradients as large as before", ratios["gradients"], least=0.99, most=1.01, unit="times")

# %% [markdown] id="humps-explain"
# **Explain.** Four humps in each step, each about a quarter as high. What does *not* change is the flat part
# below: parameters, optimizer state, and gradients. Gradients are as many as parameters, whether they come
# from one sample or from a thousand. If your guess for (b) was not 1, you thought that a quarter of the samples
# has a quarter of the gradients; but each micro-batch has all of them, and they are added up in place.
#
# After the fourth hump the gradients travel, and then comes the optimizer: both once per step, not once per
# micro-batch.

# %% [markdown] id="same-idea"
# ## The same steps?
#
# **Predict.** The two runs saw the same samples in each step. Look at the losses of five steps, printed with seven
# digits. Are they `"the same to the last digit"`, `"the same but for rounding"`, or `"different"`?

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
print(f"the largest difference is {apart:.0e}")
losses_are.compare(SAME[0] if apart == 0 else SAME[1] if apart < 1e-3 else SAME[2])

# %% id="same-claim" tags=["claim"]
claim("both train the same model: losses apart by", apart, most=1e-3)

# %% [markdown] id="same-explain"
# *Two curves, of which the second covers the first.*
#
# **Explain.** As in lesson 03: the mean over four samples is the mean of four single values. So each loss is
# divided by four before its `backward`, and the gradients are the same but for rounding. Whoever forgets to divide gets
# gradients that are four times too large. Adam hides it, because it divides by the gradients' own size; clipping
# hides it as well. What changes silently is when clipping begins. Only plain SGD shows it: its steps
# become four times as long.
#
# (The model must not look across samples, of course. Batch normalisation does, and then micro-batches are not the
# same as a batch. Transformers normalise one token at a time. Of a mixture of experts, the loss that balances the
# experts looks across samples too.)
#
# There was a condition in this, and nobody said it aloud: *each of the four losses is itself a mean, and all of
# them are means over equally many tokens.* Here they are, since every sample is filled with text up to its end.

# %% [markdown] id="tokens-idea"
# ## How much does a token count?
#
# Elsewhere samples differ. A dialogue of eight tokens stands beside a document of a thousand, both padded to the
# same length, and padding has no loss. Of an instruction only the answer counts: the question is *masked*. Then there
# are three ways to divide:
#
# | a micro-batch's summed loss is divided by | |
# |---|---|
# | its own tokens, and by the number of micro-batches | `micro-batch`: a mean of means |
# | the tokens of all micro-batches of this rank | `rank` |
# | the tokens of the global batch, over all micro-batches **and ranks** | `batch` |
#
# (Only tokens with a loss are counted. DDP takes the mean over the ranks by itself, so the third way multiplies by
# their number. And the number of tokens is needed *before* the first backward pass: so it is counted first, and
# all-reduced.) PyTorch's `cross_entropy` gives a mean by default, so the first way is what one gets by writing
# nothing. It was in widely used libraries until the autumn of 2024, when somebody laid loss curves with and without
# accumulation over each other.
#
# `code/weigh_tokens.py` is small enough to show it. In every step there are as many short sequences as long ones, of
# 8 and of 64 tokens. Each is a micro-batch of its own. Two ranks have four each, the first three short ones and a long
# one, the second three long ones and a short one. Short ones count up by one (5, 6, 7 …), long ones by three (5, 8, 11 …). Its model sees one
# token at a time, so it cannot know in which kind of sequence it is. All that it can learn is how often either
# continuation comes.
#
# **Predict.** What probability will the model give to "one more" after training, in percent: with a mean over the
# batch, and with a mean of means?

# %% id="tokens-guess"
### BEGIN SOLUTION
### GAP guess_batch, guess_means = ..., ...  # percent
guess_batch, guess_means = 50, 50
### END SOLUTION

# %% id="tokens-run"
believed = {
    "batch": predict("10: belief with a mean over the batch", guess_batch, unit="%"),
    "micro-batch": predict("10: belief with a mean of means", guess_means, unit="%"),
}


def weighed(mean_over):
    """The same sequences and the same first weights; only the divisor differs."""
    return program.recipe(
        f"mean-over-{mean_over}",
        "weigh_tokens.py",
        nodes=2,
        mean_over=mean_over,
        train_iters=60,
    )


means = {way: lab.submit(weighed(way)) for way in ("batch", "rank", "micro-batch")}
for run in means.values():
    run.require()
show.loss(*means.values())

# %% id="tokens-see"
told = {way: run.log.iterations for way, run in means.items()}
belief = {way: lines["belief_in_the_short"].tail(20).median() for way, lines in told.items()}
for way, guessed in believed.items():
    guessed.compare(belief[way])
pd.DataFrame(
    {
        way: {
            "gradient off by (%), step 1": 100 * lines["gradient_off_by"].iloc[0],
            "belief in the short (%)": belief[way],
            "loss per token": lines["lm_loss"].tail(20).median(),
        }
        for way, lines in told.items()
    }
).T.round(3)

# %% id="tokens-claim" tags=["claim"]
off = {way: 100 * lines["gradient_off_by"] for way, lines in told.items()}
claim(
    "divided by the batch's tokens: the serial gradient", off["batch"].max(), most=0.001, unit="%"
)
claim("a mean of means has another one", off["micro-batch"].iloc[0], least=20, unit="%")
claim("over each rank's tokens it is less wrong", off["rank"].iloc[0], least=1, most=20, unit="%")
claim("and gives short sequences too much", belief["micro-batch"], least=35, most=65, unit="%")
claim("where their share of the tokens is 11 %", belief["batch"], least=5, most=17, unit="%")

# %% [markdown] id="tokens-explain"
# *Loss per token over the steps: what is measured is the same for all three, what they train is not. "Off by": how far
# the gradient lies from that of a plain model on one device that saw the whole batch at once.*
#
# **Explain.** Of every 72 tokens 8 are in short sequences, a ninth. Where each token has one vote, the model believes
# in "one more" to 11 %. In a mean of means each *sequence* has one vote, so that a token of a short one counts eight
# times as much, and the belief is 50 %. Nothing in the log of such a training would look wrong: its own loss, a mean
# of means too, falls as it should. In real data the short ones are the answers "yes" and "no", and a model trained
# this way is trained on them above all.
#
# The way over the tokens of the *rank* is the half cure: right on one device, and less wrong here. What is left is
# the last mean, that over ranks with different numbers of tokens. As a rule it is smaller the more sequences a rank sees
# per step.
#
# You may *want* to give every sequence one vote; that is a decision. But then it must not depend on how the batch was
# cut. That is the test for any loop: change micro-batch and ranks, keep the batch, and compare gradients.

# %% [markdown] id="precision-idea"
# ## What the sum is kept in
#
# Models are often trained with numbers of 16 bits (lesson 08), and then there is one more thing to get right.
# A float16 has 11 significant bits (the 10 of lesson 08, and a leading one that need not be stored), so its next larger
# neighbour is some way off. Add less than half of this way, and nothing happens.
#
# **Predict.** 8192 times 0.001, added one by one in float16. What comes out?

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
claim("a sum in float16 loses half of what was added", lost, least=45, most=55, unit="%")

# %% [markdown] id="precision-explain"
# **Explain.** 8192 × 0.001 is 8.192, as float32 says. In float16 the sum gets stuck at 4, where the
# neighbours are 0.004 apart and 0.001 is lost every time. bfloat16 has even fewer significant bits (8) and
# stops sooner. Gradients of many micro-batches are just such a sum. Therefore each part of a step has its own
# precision:
#
# | part of the step | precision with `--bf16` |
# |---|---|
# | forward and backward of each micro-batch | bfloat16 (inside one matrix product sums are float32) |
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
### BEGIN SOLUTION
### GAP guess_factor = ...  # times more samples per second
guess_factor = 4.0
### END SOLUTION

# %% id="link-run"
gained = predict("10: four micro-batches on the slowest link", guess_factor, unit="times")
labs = {"1 Gbit/s": lab.but(link_gbit=1.0), "0.2 Gbit/s": lab.but(link_gbit=0.2)}
if not lab.site.box:
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
    (speed, count): its_lab.submit(per_step(count, speed))
    for speed, its_lab in labs.items()
    for count in (1, 4)
}
for run in runs.values():
    run.require()


# %% id="link-see"
def step_ms(run):
    """Median over the iterations after the first, which sets things up."""
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
    "four micro-batches per step pay the slow link once",
    rows[-1]["factor"],
    least=1.3,
    most=4,
    unit="times",
)

# %% [markdown] id="link-explain"
# *Samples per second in every step; m4 are the runs with four micro-batches.*
#
# **Explain.** A step takes *m · c + s*: *m* micro-batches of *c* milliseconds, and one exchange of *s* (with what else
# happens once per step, such as the optimizer). In the table *c* is a third of what three more micro-batches add (the mean of
# its rows: the devices are the same), and *s* is what is left of a step with one. One step with four
# micro-batches sees as many samples as four steps with one, and takes 3 *s* less. The factor would be 4 only if
# computing took no time at all; it is near 1 if sending takes none. So accumulation pays where the link is slow
# compared with the device, and once *m · c* is much larger than *s*, more micro-batches bring nothing.

# %% id="link-said"
if len(rows) < 2:
    print("One link, one factor: how slow your link is for this model is what s over c says.")
elif rows[1]["s: the exchange (ms)"] < 1.5 * max(rows[0]["s: the exchange (ms)"], 20):
    print(
        "The exchange takes about as long in both rows, so the link was not the slower for it: in flat"
    )
    print("mode both nodes are one, and the road between them cannot be slowed.")
else:
    print(f"The fifth of the bandwidth made s {rows[1]['s: the exchange (ms)']} ms instead of")
    print(f"{rows[0]['s: the exchange (ms)']} ms, so the slow link gains more.")

# %% [markdown] id="link-price"
# It is not free: fewer steps are made with the same samples. Whether a step with four times the batch brings you as
# far as four steps is a question of learning, not of links, and for every model there is a batch size from which on
# it does not (lesson 12). Published for comparison: a benchmark of a GPT with 13 billion parameters on 8 nodes with 4 A100 each
# takes 256 micro-batches per step; there they also fill a pipeline (lesson 07b).

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
# which of them trains something other than what the first trains?

# %% id="sync-guess"
### BEGIN SOLUTION
### GAP guess_sent = {"last": ..., "every": ..., "backward": ..., "never": ...}  # times per step
### GAP guess_other = ...  # "last", "every", "backward", "never" or "none of them"
guess_sent = {"last": 1, "every": 4, "backward": 1, "never": 0}
guess_other = "every"
### END SOLUTION

# %% id="sync-run"
sendings = {
    sync: predict(f"10: gradients sent per step, {sync}", times, unit="times")
    for sync, times in guess_sent.items()
}
NAMES = (*sendings, "none of them")
another = predict("10: which use of no_sync trains another model", guess_other, choices=NAMES)
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
            train_iters=3,
        )
    ).require()
    for sync in sendings
}

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
claim("without no_sync every micro-batch sends", sent["every"], least=3.9, most=4.1, unit="times")
claim("and so where only backward is inside", sent["backward"], least=3.9, most=4.1, unit="times")
claim("whoever never sums trains other models", parted["never"], least=1e-9)

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
#
# **Where it is no free lunch.** All this holds where every rank keeps whole gradients. With FSDP and ZeRO-2/3 (lesson 11)
# a rank keeps only its share of the sum, so each micro-batch's gradients are summed and handed out (*reduce-scattered*)
# before they can go; and FSDP and ZeRO-3 gather the parameters for each micro-batch besides. FSDP can be told to wait
# (`set_requires_gradient_sync(False)` of FSDP2, `no_sync` of the first). Then it sends once, and keeps whole gradients
# meanwhile: the memory that it was there to save.

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
# > **Going further** — With *c* and *s* of your slowest link: from how many micro-batches on is less than a tenth of
# > a step spent on the exchange? Submit that run, and see whether you were right.

# %% [markdown] id="home"
# ## To take home
#
# - Global batch = micro batch × micro-batches × data-parallel size. The log says how many there are.
# - Accumulation makes the activations smaller, and what is temporary. Gradients, parameters and optimizer state stay.
# - The result is the same as with one large batch if the *sum* of the losses is divided by the tokens of the global
#   batch, over all ranks. A mean of means is the same only where all are means over equally many tokens.
# - The sum is kept in float32.
# - With whole gradients on every rank they need to travel once per step, and with DDP `no_sync` goes around forward
#   *and* backward of all micro-batches but the last. FSDP and ZeRO-2/3 send for every micro-batch, or give up what
#   they save.

# %% [markdown] id="clean-idea"
# ## Cleaning up
#
# The runs that the exercises look at stay, so that their checks can be run again.

# %% id="clean"
lab.clean(in_four, *means.values(), *runs.values(), *variants.values(), yes=True)
