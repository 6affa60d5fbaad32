# %% [markdown] id="title"
# # 07 Tensor parallelism
#
# In lesson 03 every device held the whole model. That ends on the day when the model no longer fits (lesson 06).
# There are three ways out. *Shard* what the copies hold and gather each layer just before it is needed: ZeRO and
# FSDP, at the end of lesson 06 and in lesson 11. Cut *between* the layers: a pipeline, lesson 07b. Or cut *across*
# every layer, so that several devices compute each matrix product together. That is this lesson. Its messages are
# many, and you will measure what a message costs even when it is small and the road is fast.
#
# | | |
# |---|---|
# | You will be able to | cut the matrices of a layer so that few sums are needed; count what tensor parallelism sends, and how often; tell the price of a message from the price of its bytes; say where tensor parallelism belongs |
# | Minutes | 30 |
# | Devices | 2 nodes with 2 devices each |
# | Before | lessons 03, 04 and 06 |

# %% id="begin"
import numpy as np
import pandas as pd

from course_lib import Lab, check, claim, gpt, links, plan, predict, show

lab = Lab()

# %% [markdown] id="tensor-idea"
# ## Cut every matrix
#
# Most of a transformer's arithmetic is matrix products, two in a row in every MLP: the input `X` is
# multiplied by `A`, an activation function acts on each number of the result, and that is multiplied by
# `B`. Two devices want to share the work, so that each holds half of `A` and half of `B`. Along which
# side do you cut?
#
# **Predict.** Cut `A` by columns and `B` by rows. How many times must the two devices exchange
# something on the way from `X` to the result?

# %% id="tensor-guess"
### BEGIN SOLUTION
### GAP guess_exchanges = ...  # your number in place of the dots
guess_exchanges = 2
### END SOLUTION

# %% id="tensor-story"
exchanges = predict("07: exchanges on the way forward", guess_exchanges)
show.moving.tensor_parallel_mlp(ranks=2)

# %% [markdown] id="tensor-caption"
# *Such an MLP on two ranks, step by step. Upper row of each rank: forward. Lower row: backward. Of a matrix that is
# cut, a rank has only the coloured half. Arrows are the only moments at which data travel.*

# %% id="tensor-see"
exchanges.compare(1)

# %% [markdown] id="tensor-check-idea"
# And **once** backward. Is the sum of the two halves really the whole result? Try it with numbers, forward, for both
# ways of cutting `A`:

# %% id="tensor-check"
random = np.random.default_rng(0)
x, a, b = random.normal(size=(4, 6)), random.normal(size=(6, 8)), random.normal(size=(8, 6))


def activation(z):
    return np.maximum(z, 0)


whole = activation(x @ a) @ b
rank_0 = activation(x @ a[:, :4]) @ b[:4]  # columns of A, those rows of B
rank_1 = activation(x @ a[:, 4:]) @ b[4:]
print("A by columns, B by rows:", np.allclose(rank_0 + rank_1, whole))

partial_0, partial_1 = x[:, :3] @ a[:3], x[:, 3:] @ a[3:]  # rows of A instead
print(
    "A by rows, no exchange: ",
    np.allclose((activation(partial_0) + activation(partial_1)) @ b, whole),
)

# %% [markdown] id="tensor-explain"
# **Explain.** Guessing two is natural: two products, two exchanges. But an activation function acts on
# every number alone, so *columns* may stay apart until the very end. Cut `A` the other way, and each device has
# only a partial sum of every number, and the activation of a sum is not the sum of the activations: the
# partial sums would have to be added before it, and once more after `B`.
#
# Attention is cut in the same manner, by heads: every device computes some of the heads, and one sum
# follows. So a transformer layer costs **four all-reduces**: two forward, two backward. Each is as large
# as what one layer hands to the next.
#
# Forward, the next product has to wait for the sum. Backward there is something to do meanwhile: the gradient of a
# layer's *weights* needs no sum, and good programs compute it while the sum of the inputs' gradient travels. (The
# program of this course does not.) A further trick, **sequence parallelism**, splits each all-reduce
# into a reduce-scatter and an all-gather. No fewer bytes travel, but what lies between the products (norms,
# residuals) is then kept once per group and not once per device.

# %% [markdown] id="count-idea"
# ## Count the messages
#
# Tensor and data parallelism can be compared on the same two devices, with the same four samples per step and the
# same arithmetic: either each device computes half of every product, or each computes two of the samples. What one
# layer hands to the next is *R* bytes for each sample.
#
# - **data 2**: one all-reduce of all gradients per step.
# - **tensor 2**: four all-reduces in each layer, one for the embedding (forward), one for the output matrix
#   (backward), and all that for **each micro-batch**. (Three more for the loss are tiny: a number for each token.)

# %% id="count"
deep = plan.Model("deep", layers=8, hidden=128, heads=4, sequence=256, vocabulary=512, tied=False)
samples = 4
rows_mb = deep.sequence * deep.hidden * 4 / 1e6  # R: one number of 4 bytes per token and channel
gradients_mb = 4 * plan.parameters(deep).total / 1e6
all_reduces = 4 * deep.layers + 2  # of tensor parallelism, for one micro-batch
ways = {
    "data 2": {"messages": 1, "megabytes": gradients_mb},
    "tensor 2, singly": {
        "messages": all_reduces * samples,
        "megabytes": all_reduces * samples * rows_mb,
    },
    "tensor 2, at once": {
        "messages": all_reduces,
        "megabytes": all_reduces * samples * rows_mb,
    },
}
pd.DataFrame(ways).T.round(1)

# %% [markdown] id="count-predict"
# *Per step: all-reduces that a device takes part in, and megabytes that it sends for them. (In an all-reduce of two,
# each sends the whole size once.)*
#
# *Singly*: four micro-batches of one sample; *at once*: one of four. Both send the same bytes and do the same
# arithmetic, one of them in four times as many messages.
#
# **Predict.** Both devices are on **one node**, where bytes are nearly free. How many times as long as with *data 2*
# will a step of *tensor 2, singly* take?

# %% id="inside-guess"
### BEGIN SOLUTION
### GAP guess_times_as_long = ...  # your number in place of the dots
guess_times_as_long = 1.0
### END SOLUTION

# %% id="inside-run"
times_as_long = predict(
    "07: a step of tensor parallelism inside a node, over one of data parallelism",
    guess_times_as_long,
    unit="times",
)


def two_devices(name, nodes=1, **layout):
    """Two steps near the end are recorded, as in lesson 06."""
    return gpt.recipe(
        name,
        nodes=nodes,
        gpus_per_node=2 // nodes,
        model=deep,
        mock_data=True,
        global_batch=samples,
        iterations=6,
        memory=(4, 6),
        **layout,
    )


inside = {
    "data 2": lab.submit(two_devices("data-inside", micro_batch=2)),
    "tensor 2, singly": lab.submit(two_devices("tensor-inside-1", tensor=2, micro_batch=1)),
    "tensor 2, at once": lab.submit(two_devices("tensor-inside-4", tensor=2, micro_batch=4)),
}
for run in inside.values():  # two of them run at the same time, each on a node of its own
    run.require()

# %% [markdown] id="message-idea"
# How long does one such message take? Here the all-reduce is alone: the size of *R*, two devices of one node.

# %% id="message-run"
one = lab.submit(
    links.recipe(
        "one-message",
        nodes=1,
        gpus_per_node=2,
        bytes=round(rows_mb * 1e6),
        repeat=100,
        algorithm="library",
    )
).require()
message_ms = float(np.median(one.links.all_reduce_ms))
print(f"one all-reduce of {1000 * rows_mb:.0f} kB: {message_ms:.2f} ms")


# %% id="inside-see"
def step_ms(run):
    """Median over the iterations between the first and those that are recorded."""
    return float(run.log.iterations["elapsed_ms"].iloc[1:4].median())


def exchange_ms(run):
    """Per recorded step: how long rank 0 sent, received or waited."""
    phases = run.memory[0].phases
    exchange = phases[phases["phase"] == "communication"]
    lasted_us = exchange["end_us"] - exchange["begin_us"]
    return float(lasted_us.groupby(exchange["step"]).sum().median()) / 1000


steps_ms = {name: step_ms(run) for name, run in inside.items()}
factor = steps_ms["tensor 2, singly"] / steps_ms["data 2"]
times_as_long.compare(factor)
table = pd.DataFrame(ways).T
table["messages × one (ms)"] = [np.nan, *(table["messages"].iloc[1:] * message_ms)]
table["exchange (ms)"] = {name: exchange_ms(run) for name, run in inside.items()}
table["step (ms)"] = steps_ms
table.round(1)

# %% id="inside-claim" tags=["claim"]
claim(
    "tensor parallelism costs time even inside a node: a step, over one of data parallelism",
    factor,
    least=1.3,
    unit="times",
)
claim(
    "the same bytes in a quarter of the messages are faster by",
    steps_ms["tensor 2, singly"] / steps_ms["tensor 2, at once"],
    least=1.15,
    unit="times",
)

# %% [markdown] id="inside-explain"
# *"Messages × one" takes the message of* singly *for all; those of* at once *are four times as large.*
#
# **Explain.** The likely wrong thought is that inside a node only the arithmetic counts, since the road is fast. But
# a message costs something however short it is. The least of it is the latency of lesson 04. The rest is the library that has
# to be called (on a GPU, a kernel to be started), the adding, and two processes that must both be there. Data parallelism pays it once per step, tensor parallelism once for every sum. Two more costs
# hide in the table. *Exchange* holds more than the messages (if less, something held up the all-reduce that was alone): a sum ends when the **later** device has come, and in each
# of the many short stretches another one may be late. And what is left of a step without its exchange is longer than with
# *data 2*, although the arithmetic is the same: half a matrix uses a device worse than the whole, and *singly* starts four
# times as many operations.
#
# All three shrink with larger micro-batches: fewer, larger messages and products. On GPUs joined by NVLink a small
# all-reduce takes some ten microseconds; but with 80 layers and 16 micro-batches there are more than 5000 of them in
# a step.

# %% [markdown] id="between-idea"
# ## And between the nodes?
#
# Now the two devices sit on two nodes. Messages cross the link, and bytes are no longer free. (On the box the link
# is made slower for this section, 0.2 Gbit/s, so that the bytes of tensor parallelism weigh about as much as its arithmetic, or more, as they would
# between nodes with the large model of exercise 07.2. A real cluster keeps its link.) Measured first: how fast is that
# road here?

# %% id="between-road"
far = lab.but(link_gbit=0.2) if lab.site.box else lab
roads = far.submit(links.recipe("two-roads", nodes=2, gpus_per_node=1)).require()
road = roads.links.roads.set_index("road").loc["between the nodes"]
megabyte_ms = 1 / road["bandwidth_gb_s"]
print(f"a megabyte takes {megabyte_ms:.2f} ms between the nodes")

# %% [markdown] id="between-predict"
# **Predict.** *tensor 2, at once*: the table says how many megabytes each device sends in a step.
# How many times as long as inside a node will the step take between the nodes?

# %% id="between-guess"
### BEGIN SOLUTION
### GAP guess_between = ...  # your number in place of the dots
guess_between = 1.2
### END SOLUTION

# %% id="between-run"
times_between = predict(
    "07: tensor parallelism between nodes over inside", guess_between, unit="times"
)
between = {
    "data 2": far.submit(two_devices("data-between", nodes=2, micro_batch=2)).require(),
    "tensor 2, at once": far.submit(
        two_devices("tensor-between-4", nodes=2, tensor=2, micro_batch=4)
    ).require(),
}

# %% id="between-see"
between_ms = {name: step_ms(run) for name, run in between.items()}
by_tensor = "tensor 2, at once"
times_between.compare(between_ms[by_tensor] / steps_ms[by_tensor])
links_alone_ms = {name: ways[name]["megabytes"] * megabyte_ms for name in between}
show.predicted(
    {name: links_alone_ms[name] for name in between}, between_ms, unit="ms", what="one step"
)

# %% id="between-claim" tags=["claim"]
claim(
    "tensor parallelism between nodes, over inside",
    between_ms[by_tensor] / steps_ms[by_tensor],
    least=1.25,
    unit="times",
)
claim(
    "a step of tensor parallelism between nodes is no shorter than its bytes need on the link",
    between_ms[by_tensor] / links_alone_ms[by_tensor],
    least=0.95,
    unit="times",
)

# %% [markdown] id="between-explain"
# *For each layout: the time that its megabytes alone need on the link, and the step as it was. "Predicted" has no
# arithmetic in it and no latency. (For short messages it is a little too long on the box: after a pause its link lets the first
# 128 KiB through at once.)*

# %% id="between-words"
lost_ms = {name: between_ms[name] - steps_ms[name] for name in between}
print(f"crossing the link costs data parallelism {max(0, lost_ms['data 2']):.0f} ms per step,")
print(f"and tensor parallelism {max(0, lost_ms[by_tensor]):.0f} ms.")
if lost_ms[by_tensor] - max(0, lost_ms["data 2"]) > 0.05 * steps_ms["data 2"]:
    print("Activations cross it in every layer, gradients once per step.")
else:
    print(
        "Here crossing it costs tensor parallelism no more: your nodes share a road, the inner one"
    )
    print("is as slow, or so few bytes do not show on a fast one. Compare the two in lesson 04.")

# %% [markdown] id="rule"
# **Explain.** Data parallelism sends the gradients, whatever the batch. Tensor parallelism sends *R* four times per
# layer *for every sample*, so its traffic grows with the batch, and little of it can be hidden.
# Hence the rule that nearly all large runs follow: **tensor parallelism stays where links are fastest**, inside a
# node (or a rack, where the fast links reach so far: 72 devices in recent machines). Eight-fold is common, because
# many nodes have eight devices. And it cannot be cut finer than there are heads.
#
# And all these runs trained the same model. How it is cut changes where a number is computed, not what comes out:

# %% id="same"
every = [*inside.values(), *between.values()]
losses = pd.DataFrame({run.name: run.log.iterations["lm_loss"] for run in every})
spread = float((losses.max(axis=1) - losses.min(axis=1)).max())
print(f"the {losses.shape[1]} runs differ from each other by {spread:.6f} at most")

# %% id="same-claim" tags=["claim"]
claim("however the model is cut, the losses agree", spread, most=1e-3)

# %% [markdown] id="ex1" tags=["exercise"]
# ## Exercises
#
# > **Exercise 07.1** — The MLPs of today's models have a gate, and three matrices: (silu(`X W1`) · (`X W3`)) `W2`,
# > where · multiplies number by number. Write what **one rank** computes, without any exchange, so that the results
# > of all ranks add up to the whole. Each column of `W1` and `W3` must be used by one rank only.


# %% id="ex1-gap" tags=["exercise"]
def silu(z):
    return z / (1 + np.exp(-z))


def partial_sum(x, w1, w3, w2, rank, ranks):
    """x: [tokens, width]; w1, w3: [width, inner]; w2: [inner, width]."""
    ### BEGIN SOLUTION
    ### GAP mine = ...  # a slice(…, …)
    ### GAP return ...
    inner = w1.shape[1] // ranks
    mine = slice(rank * inner, (rank + 1) * inner)
    return (silu(x @ w1[:, mine]) * (x @ w3[:, mine])) @ w2[mine]
    ### END SOLUTION


# %% id="ex1-check" tags=["check"]
check.ex07_gated(partial_sum)

# %% [markdown] id="ex1-why" tags=["solution"]
# The gate multiplies number by number, so a column of `X W1` needs the *same* column of `X W3` and no other: both
# are cut alike, by columns, and `W2` by the rows that belong to them. Still one exchange. A program that keeps `W1`
# and `W3` side by side in one matrix must take care here: its first half of the columns would be all of `W1`.

# %% [markdown] id="ex2" tags=["exercise"]
# > **Exercise 07.2** — A model has 80 layers of width 8192. It is trained with tensor parallelism on **8** devices,
# > sequences of 4096 tokens and activations of 2 bytes. A ring of *d* devices sends 2 (*d* − 1) / *d* times the size
# > of what is reduced (lesson 03). How many **gigabytes** (10⁹ bytes) does each device send for **one sample**,
# > forward and backward, in the all-reduces of the layers?

# %% id="ex2-gap" tags=["exercise"]
### BEGIN SOLUTION
### GAP gigabytes_sent = ...
gigabytes_sent = 80 * 4 * (4096 * 8192 * 2) * 2 * 7 / 8 / 1e9
### END SOLUTION

# %% id="ex2-check" tags=["check"]
check.ex07_sent(gigabytes_sent)

# %% [markdown] id="ex2-why" tags=["solution"]
# *R* is 4096 × 8192 × 2 bytes, 67 MB. Four all-reduces in each of 80 layers make 320 of them, and the ring sends 1.75
# times each: 37.6 GB for a single sample. Over NVLink with 300 GB/s in each direction (A100) that is an eighth of a
# second, over one network adapter of 25 GB/s one and a half. The arithmetic of this sample, 6 × 70 billion parameters
# × 4096 tokens, takes eight devices with 150 TFLOP/s each about 1.4 s. Inside the node communication is a tenth of
# it, between nodes more than the whole.

# %% [markdown] id="challenge" tags=["exercise"]
# > **Going further** — Run `two_devices("sp", tensor=2, micro_batch=4, sequence_parallel=True)`, and compare it with
# > `inside["tensor 2, at once"]`. Does the step change, and by how much do the activations at the peak
# > (`run.memory[0].peak_composition`) shrink? Then write a `gpt.recipe` for `tensor=4` on both nodes
# > (`nodes=2, gpus_per_node=2`). What would `tensor=8` need, and why does the program refuse it for this model?

# %% [markdown] id="home"
# ## To take home
#
# - Cut the first matrix by columns and the second by rows: one sum forward, one backward. With attention that makes
#   four all-reduces in a layer, for every micro-batch.
# - A message has a price of its own, even on the fastest road. Count messages *and* bytes.
# - The traffic of tensor parallelism grows with the samples, that of data parallelism does not.
# - Tensor parallelism belongs inside a node.

# %% [markdown] id="clean-idea"
# ## Cleaning up

# %% id="clean"
lab.clean(*every, one, roads, yes=True)
