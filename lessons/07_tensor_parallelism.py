# %% [markdown] id="title"
# # 07 Tensor parallelism
#
# In lesson 03 every device held the whole model. If the model does not fit, there are three ways to divide it. ZeRO
# and FSDP shard what the devices hold (lesson 11). A pipeline gives each device some of the layers (lesson 07b). In
# **tensor parallelism**, several devices compute each matmul together. In this lesson you split a layer, count its
# messages, and measure the time of a split step.
#
# | | |
# |---|---|
# | You will be able to | split the matrices of a layer so that one all-reduce is enough; count the messages and bytes of tensor parallelism; separate transfer, waiting and slower arithmetic; say why tensor parallelism stays on the fastest links |
# | Minutes | 60 |
# | Devices | 2 nodes with 2 devices each |
# | Before | lessons 03, 04 and 06 |

# %% id="begin"
import numpy as np
import pandas as pd

from course_lib import Lab, check, claim, gpt, links, plan, predict, show, trial

lab = Lab()

# %% [markdown] id="tensor-idea"
# ## Split two matrices and exchange once
#
# How can two devices share one matmul? Most of a transformer's arithmetic is matmuls, and every MLP has two of them
# in a row. The input `X` is multiplied by `A`, an activation function is applied to each number, and the result is
# multiplied by `B`. Each device holds half of `A` and half of `B`.
#
# **Predict.** Split `A` by columns and `B` by rows. How often must the two devices exchange data between `X` and the
# result?

# %% id="tensor-guess"
### BEGIN SOLUTION
### GAP guess_exchanges = ...  # your number in place of the dots
guess_exchanges = 2
### END SOLUTION

# %% id="tensor-story"
exchanges = predict("07: exchanges in the forward pass of an MLP", guess_exchanges)
show.moving.tensor_parallel_mlp(ranks=2)

# %% [markdown] id="tensor-caption"
# *The MLP on two ranks, step by step. The upper row of each rank is forward, the lower row is backward. A rank holds
# only the coloured half of a split matrix. Arrows mark the exchanges.*

# %% id="tensor-see"
exchanges.compare(1)

# %% [markdown] id="tensor-check-idea"
# The devices also exchange **once** in backward. The next cell splits `A` by columns and then by rows, and compares
# the sum of the two halves with the whole result:

# %% id="tensor-check"
random = np.random.default_rng(0)
x, a, b = random.normal(size=(4, 6)), random.normal(size=(6, 8)), random.normal(size=(8, 6))


def activation(z):
    return np.maximum(z, 0)


whole = activation(x @ a) @ b
rank_0 = activation(x @ a[:, :4]) @ b[:4]  # columns of A, and the same rows of B
rank_1 = activation(x @ a[:, 4:]) @ b[4:]
print("A by columns, B by rows:", np.allclose(rank_0 + rank_1, whole))

partial_0, partial_1 = x[:, :3] @ a[:3], x[:, 3:] @ a[3:]  # rows of A instead
print(
    "A by rows, no exchange: ",
    np.allclose((activation(partial_0) + activation(partial_1)) @ b, whole),
)

# %% [markdown] id="tensor-explain"
# **Explain.** If you guessed two, you probably counted one exchange per matmul. With `A` split by *columns*, each
# device has complete numbers for its half of the columns. It can apply the activation function to these numbers and
# multiply them by its rows of `B`. Only the final sum needs an exchange.
#
# With `A` split by *rows*, each device has only a partial sum of every number, and the activation of a sum is not the
# sum of the activations. The devices would have to add before the activation function, and once more after `B`.
#
# Attention is split by heads. Each device computes some of the heads, and one sum follows. So a transformer layer
# needs **four all-reduces**, two in forward and two in backward. Each has the size of the layer's output.
#
# In forward the next matmul must wait for the sum. In backward a program can hide a part of the exchange, because the
# gradient of a layer's *weights* does not need the sum and can be computed during the all-reduce. The course's
# program does not hide it. **Sequence parallelism** splits each all-reduce into a reduce-scatter and an all-gather.
# It sends the same bytes, but each device of a group stores only its share of the activations of norms and residuals.

# %% [markdown] id="count-idea"
# ## Count the messages
#
# What does tensor parallelism send, compared with data parallelism? Both use two devices, four samples per step and
# the same arithmetic. With tensor parallelism each device computes half of every matmul, and with data parallelism it
# computes two of the samples. The output of a layer takes *R* bytes for each sample.
#
# - **data 2**: one all-reduce of all gradients per step.
# - **tensor 2**: four all-reduces in each layer, one for the embedding in forward, and one for the output matrix in
#   backward. All of them occur in **each micro-batch**. Three more all-reduces for the loss are tiny.

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

# %% [markdown] id="message-idea"
# *Per step: all-reduces that a device takes part in, and megabytes that it sends for them. In an all-reduce of two
# devices, each device sends the whole size once.*
#
# **Singly** means four micro-batches of one sample, and **at once** means one micro-batch of four samples. Both send
# the same bytes, but *singly* needs four times as many messages.
#
# How long does one message take? The next job measures an all-reduce of *R* bytes between two devices of one node
# that do nothing else:

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
message_ms = float(np.quantile(one.links.all_reduce_ms, 0.25))  # one that nothing disturbs
print(f"one all-reduce of {1000 * rows_mb:.0f} kB: {message_ms:.2f} ms")

# %% [markdown] id="count-predict"
# ## Inside a node, tensor parallelism is slower
#
# How much slower is tensor parallelism if both devices are on **one node**, with the fastest link between them? When
# the runs of this course were recorded on the box, a step of *data 2* took about 0.4 s. Add the time of the messages
# of *singly*.
#
# **Predict.** By what factor is a step of *tensor 2, singly* longer than a step of *data 2*?

# %% id="inside-guess"
### BEGIN SOLUTION
### GAP guess_times_as_long = ...  # your number in place of the dots
guess_times_as_long = 1.0
### END SOLUTION

# %% id="inside-run"
times_as_long = predict(
    "07: step of tensor parallelism inside a node, relative to data parallelism",
    guess_times_as_long,
    unit="times",
)


def two_devices(name, nodes=1, **layout):
    """Return a recipe that records the last two steps, as in lesson 06."""
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


# Each run ends before the next begins, so that none waits for a core that another one uses.
inside = {
    "data 2": lab.submit(two_devices("data-inside", micro_batch=2)).require(),
    "tensor 2, singly": lab.submit(
        two_devices("tensor-inside-1", tensor=2, micro_batch=1)
    ).require(),
    "tensor 2, at once": lab.submit(
        two_devices("tensor-inside-4", tensor=2, micro_batch=4)
    ).require(),
}


# %% id="inside-see"
def step_ms(run):
    """Return the fastest step: a disturbance makes a step longer, never shorter."""
    return float(run.log.iterations["elapsed_ms"].min())


def lengths_ms(run):
    """Return how long each recorded step took, without writing the record."""
    steps = run.memory[0].phases.groupby("step")
    return (steps["end_us"].max() - steps["begin_us"].min()) / 1000


def exchanges_ms(run):
    """Return the duration of each exchange: a row per step and exchange, a column per rank."""
    lasted = {}
    for trace in run.memory:
        exchange = trace.phases[trace.phases["phase"] == "communication"]
        number = exchange.groupby("step").cumcount()
        duration = (exchange["end_us"] - exchange["begin_us"]) / 1000
        lasted[trace.rank] = duration.set_axis([exchange["step"], number])
    return pd.DataFrame(lasted)


def exchange_ms(run):
    """Return how long rank 0 sent, received or waited in the fastest recorded step."""
    return float(exchanges_ms(run)[0][lengths_ms(run).idxmin()].sum())


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
    "inside a node: step of tensor parallelism, relative to data parallelism",
    factor,
    least=1.3,
    unit="times",
)
claim(
    "with the same bytes: step with four times as many messages, relative to fewer",
    steps_ms["tensor 2, singly"] / steps_ms["tensor 2, at once"],
    least=1.1,
    unit="times",
)

# %% [markdown] id="inside-explain"
# *Times in milliseconds. "Messages × one" multiplies the number of messages by the time of the single message. The
# single message is as large as a message of "singly". The messages of "at once" are four times as large. "Exchange"
# is the time that rank 0 spent inside exchanges in the fastest recorded step.*
#
# On the box, the messages alone give a factor well below the measured factor. To find what else takes time, split a
# step as in lesson 05. The memory trace of each rank records when the rank entered and left every exchange. The rank
# that joins an exchange last does not wait, so its time is the **transfer**. The additional time of the other rank is
# **waiting**, averaged over both ranks. All other time is **outside** the exchanges, mostly arithmetic:


# %% id="inside-split"
def split_ms(run):
    """Split the fastest recorded step: transfer, waiting for the other rank, and the rest."""
    per_rank = exchanges_ms(run).loc[lengths_ms(run).idxmin()]
    transfer_ms = per_rank.min(axis=1).sum()  # the last rank does not wait
    waiting_ms = per_rank.mean(axis=1).sum() - transfer_ms
    outside_ms = lengths_ms(run).min() - transfer_ms - waiting_ms
    return {"transfer": transfer_ms, "waiting": waiting_ms, "outside": outside_ms}


split = pd.DataFrame({name: split_ms(run) for name, run in inside.items()}).T
more = split.loc["tensor 2, singly"] - split.loc["data 2"]
alone_ms = (all_reduces * samples) * message_ms
print(f"a step of 'singly' is {more.sum():.0f} ms longer than a step of 'data 2':")
for name, added_ms in more.items():
    print(f"- {name}: {added_ms:.0f} ms, {100 * added_ms / more.sum():.0f} %")
print(f"its {all_reduces * samples} messages, measured alone, take {alone_ms:.0f} ms")
split.add_suffix(" (ms)").round(1)

# %% id="split-claim" tags=["claim"]
if lab.site.box:  # whose devices share the cores of one computer
    claim(
        "share of the additional time that the messages measured alone explain",
        100 * alone_ms / more.sum(),
        most=70,
        unit="%",
    )

# %% [markdown] id="inside-why"
# **Explain.** On the box, the time of messages that are sent alone explains only a small part of the additional time.
# If you added only these messages, you left out three things:
#
# - A **transfer** inside a step takes longer than a transfer alone. On the box all devices share the cores of one
#   computer, so a process may wait for a core while it sends.
# - The ranks **wait** for each other. An exchange ends only when the later rank has joined, and a step of *singly*
#   has more than a hundred exchanges.
# - The work **outside** the exchanges takes longer, although the arithmetic is the same. Half a matrix uses a device
#   less well than a whole matrix, and *singly* starts four times as many operations.
#
# Larger micro-batches lead to fewer messages and larger matmuls, so they reduce all three times, as *at once* shows.

# %% [markdown] id="real-idea"
# ## On real hardware the bytes decide
#
# Does a large model on GPUs also lose time to many small messages? The next cell uses published numbers to estimate
# one layer of a large model, first on eight H100s of one node and then on eight nodes:

# %% id="real"
# One sample, the width of GPT-3 with 175 billion parameters, and numbers of 2 bytes.
tokens, width, devices = 2048, 12288, 8
sent_gb = 2 * (devices - 1) / devices * (tokens * width * 2) / 1e9  # in one all-reduce
flop = 6 * (12 * width**2) * tokens / devices  # forward and backward of one layer
real_ms = {
    "arithmetic, at half the peak of 989 TFLOP/s": 1e3 * flop / (0.5 * 989e12),
    "bytes of four all-reduces on NVLink, 370 GB/s": 1e3 * 4 * sent_gb / 370,
    "the same between nodes, 50 GB/s per device": 1e3 * 4 * sent_gb / 50,
    "latency of four messages, 20 µs each": 4 * 0.020,
}
pd.Series(real_ms, name="ms per layer and sample").round(2).to_frame()

# %% [markdown] id="real-explain"
# *Published numbers: NCCL reaches about 370 GB/s in an all-reduce of eight H100s, of the 450 GB/s that NVLink 4
# offers per direction (NVIDIA/nccl, [issue 1455](https://github.com/NVIDIA/nccl/issues/1455), 2024). Small
# all-reduces take about 6 µs between two H100s ([issue 1259](https://github.com/NVIDIA/nccl/issues/1259), 2024) and
# 47 µs among 16 H20s on two nodes ([issue 1244](https://github.com/NVIDIA/nccl/issues/1244), 2024), so the cell
# assumes 20 µs. An adapter of 400 Gbit/s carries 50 GB/s. The peak of an H100 in bf16 is 989 TFLOP/s
# ([Bekman](https://github.com/stas00/ml-engineering/blob/master/compute/accelerator/README.md)). A layer has 12 ·
# width² parameters.*
#
# You can measure the first of these numbers on your own cluster. Each program of NVIDIA's
# [**nccl-tests**](https://github.com/NVIDIA/nccl-tests) times one collective. `all_reduce_perf -b 1K -e 4G -f 2 -g 8`
# all-reduces 1 KB to 4 GB among eight GPUs, and each row doubles the size. Small sizes show the latency. At large
# sizes the column `busbw` should approach the bandwidth of the link (lesson 04). Run it before you blame your
# program.
#
# **Explain.** In a large model latency hardly matters, because the messages are hundreds of times larger than in this
# lesson. The time of the messages is bytes divided by bandwidth. On NVLink it is a fraction of the time of the
# arithmetic, and between nodes it is longer. So small messages are costly only in the small model of this lesson, but
# bandwidth matters in both. The next section shows it on your machine.

# %% [markdown] id="between-idea"
# ## Between nodes, bandwidth decides
#
# If the two devices are on two nodes, every message crosses the link between the nodes. On the box this section slows
# the link to 0.2 Gbit/s. The bytes then take as long as the arithmetic or longer, as with the large model above. First
# measure the link:

# %% id="between-road"
far = lab.but(link_gbit=0.2) if lab.site.box else lab
link_run = far.submit(links.recipe("two-roads", nodes=2, gpus_per_node=1)).require()
link = link_run.links.table.set_index("link").loc["between the nodes"]
megabyte_ms = 1 / link["bandwidth_gb_s"]
print(f"a megabyte takes {megabyte_ms:.2f} ms between the nodes")

# %% [markdown] id="between-predict"
# **Predict.** By what factor does a step of *tensor 2, at once* become longer between the nodes than inside a node?
# Take the step inside a node from the table, replace its exchange by the time that its megabytes need on the link,
# and compare.

# %% id="between-guess"
### BEGIN SOLUTION
### GAP guess_between = ...  # your number in place of the dots
guess_between = 1.2
### END SOLUTION

# %% id="between-run"
times_between = predict(
    "07: step of tensor parallelism between nodes, relative to inside", guess_between, unit="times"
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
predicted_ms = {
    name: steps_ms[name] - exchange_ms(inside[name]) + links_alone_ms[name] for name in between
}
show.predicted(predicted_ms, between_ms, unit="ms", what="one step")


# %% id="between-transfer"
def transfer_ms(run):
    """Add up the exchanges of a step, each on the rank that joins last, in its fastest step."""
    return exchanges_ms(run).min(axis=1).groupby(level=1).min().sum()


transfers_ms = {
    "inside a node": transfer_ms(inside[by_tensor]),
    "between nodes": transfer_ms(between[by_tensor]),
    "its bytes on the link": links_alone_ms[by_tensor],
}
pd.Series(transfers_ms, name="transfer (ms)").round(1).to_frame()

# %% id="between-claim" tags=["claim"]
if lab.nodes_are_separate:
    claim(
        "transfers of tensor parallelism between nodes, relative to inside",
        transfers_ms["between nodes"] / transfers_ms["inside a node"],
        least=1.2,
        unit="times",
    )
claim(
    "step of tensor parallelism between nodes, relative to the time of its bytes",
    between_ms[by_tensor] / links_alone_ms[by_tensor],
    least=0.95,
    unit="times",
)

# %% [markdown] id="between-explain"
# *The figure: predicted is the step inside a node without its exchange, plus the time that the megabytes need on the
# link; measured is the step between the nodes. The table has only the transfers of "tensor 2, at once".*
#
# **Explain.** If you guessed a factor near 1, you counted arithmetic only. On a slow link, bytes divided by bandwidth
# predict the step. The prediction leaves out latency and waiting. On the box it also ignores that the first 128 KiB
# after a pause cross the link without delay.

# %% id="between-words"
lost_ms = {name: between_ms[name] - steps_ms[name] for name in between}
print(f"crossing the link costs data parallelism {max(0, lost_ms['data 2']):.0f} ms per step,")
print(f"and tensor parallelism {max(0, lost_ms[by_tensor]):.0f} ms.")
if lost_ms[by_tensor] - max(0, lost_ms["data 2"]) > 0.05 * steps_ms["data 2"]:
    print("Activations cross the link in every layer, gradients once per step.")
else:
    print("Here tensor parallelism loses no more than data parallelism. Either your nodes share")
    print("one network, or the link is too fast for so few bytes. Compare your links in lesson 04.")

# %% [markdown] id="rule"
# This difference grows with the batch. Data parallelism sends the gradients once per step, however large the batch
# is. Tensor parallelism sends *R* four times per layer *for every sample*, and little of this traffic can be hidden.
#
# This is why nearly all large runs keep **tensor parallelism on the fastest links**, inside a node or inside a rack.
# Eight-fold tensor parallelism is common because many nodes have eight devices. Llama 3 with 405 billion parameters
# was trained this way on H100s (Meta, [2024](https://arxiv.org/abs/2407.21783)). In a GB200 **NVL72** rack, NVLink
# joins 72 devices, each with 900 GB/s per direction ([NVIDIA](https://www.nvidia.com/en-us/data-center/gb200-nvl72/),
# 2024). The number of attention heads also limits the split.
#
# All of these runs trained the same model. Splitting a model changes where a number is computed, but not the result:

# %% id="same"
every = [*inside.values(), *between.values()]
losses = pd.DataFrame({run.name: run.log.iterations["lm_loss"] for run in every})
spread = float((losses.max(axis=1) - losses.min(axis=1)).max())
print(f"the losses of the {losses.shape[1]} runs differ by {spread:.6f} at most")

# %% id="same-claim" tags=["claim"]
claim("largest difference between the losses of all runs", spread, most=1e-3)

# %% [markdown] id="width-idea"
# ## More tokens do not hide these messages, but a wider model does
#
# With data parallelism, more tokens per device hide the all-reduce (lesson 03). Compare the two parts of a layer
# again, now for *t* tokens on *n* tensor ranks. The width is *h*, and an activation has *b* bytes.
#
# - **Compute.** A layer has 12 *h*² parameters, and each costs 6 FLOPs per token. The ranks share this work, so a rank
#   with *C* FLOP/s needs 72 *h*² *t* / (*n C*) seconds.
# - **All-reduces.** Four all-reduces of *b h t* bytes send 8 (*n* − 1) *b h t* / *n* bytes per rank. A link with *W*
#   bytes/s needs 8 (*n* − 1) *b h t* / (*n W*) seconds.
#
# The tokens cancel, but the width does not. The messages take no longer than the computing if
#
# $$h \geq (n - 1) \cdot \frac{b}{9} \cdot \frac{C}{W}$$
#
# *C* / *W* is the number of FLOPs for each byte of the link. It limits a layer as peak over memory bandwidth limits an
# operation in the roofline of lesson 01.
#
# **Predict.** The next run crosses the slow link too, but with eight samples at once instead of four. By what factor
# does the ratio of transfer to time outside the exchanges change?

# %% id="width-guess"
### BEGIN SOLUTION
### GAP guess_ratio = ...  # your number in place of the dots
guess_ratio = 0.5
### END SOLUTION

# %% id="width-run"
ratio_changes = predict(
    "07: transfer / computing with twice the tokens, relative to before", guess_ratio
)
doubled = far.submit(
    two_devices("tensor-between-8", nodes=2, tensor=2, micro_batch=4).but(
        micro_batch=8, global_batch=8, iterations=4, memory=(2, 4)
    )
).require()


# %% id="width-see"
def transfer_over_outside(run):
    return transfer_ms(run) / split_ms(run)["outside"]


ratios = {
    "1,024 tokens at once": transfer_over_outside(between[by_tensor]),
    "2,048 tokens at once": transfer_over_outside(doubled),
}
ratio_changes.compare(ratios["2,048 tokens at once"] / ratios["1,024 tokens at once"])
tokens = 8 * deep.sequence  # each of the two ranks does half of their arithmetic
outside_s = split_ms(doubled)["outside"] / 1000
flop_per_s = 6 * plan.parameters(deep).total * tokens / 2 / outside_s
width_by_rule = (2 - 1) * 4 / 9 * flop_per_s / (link["bandwidth_gb_s"] * 1e9)
width_by_run = deep.hidden * ratios["2,048 tokens at once"]
print(f"C = {flop_per_s / 1e9:.1f} GFLOP/s, W = {link['bandwidth_gb_s']:.3f} GB/s")
print(f"least width by the rule {width_by_rule:.0f}, by the run {width_by_run:.0f}")
pd.Series(ratios, name="transfer / computing").round(2).to_frame()

# %% id="width-claim" tags=["claim"]
if lab.nodes_are_separate:
    claim(
        "transfer / computing with twice the tokens, relative to the smaller run",
        ratios["2,048 tokens at once"] / ratios["1,024 tokens at once"],
        least=0.7,
        most=1.7,
        unit="times",
    )
if lab.site.box and lab.nodes_are_separate:
    claim(
        "width that hides the messages, by the rule relative to the run",
        width_by_rule / width_by_run,
        least=0.6,
        most=1.6,
        unit="times",
    )

# %% [markdown] id="width-explain"
# *"Computing" is the time outside the exchanges.*
#
# **Explain.** The ratio does not halve, because twice the tokens need twice the bytes and twice the FLOPs. If you
# guessed 0.5, you applied the rule of lesson 03. On the box the ratio even grows, by up to a third. The first 128 KiB
# of each message cross its link without delay, so larger messages take longer per byte. This model has a width of
# 128, and if that is below the limit, the transfer takes longer than the computing.
#
# **On real hardware.** Take H100s that do half of 989 TFLOP/s, *n* = 8 and *b* = 2. With 370 GB/s on NVLink, the rule
# requires a width of 2,100. With 50 GB/s between nodes, it requires 15,400. GPT-3 has a width of 12,288 and Llama 3
# with 405 billion parameters has 16,384. So inside a node, the messages of Llama 3 take about 13 % of the computing
# time. Between nodes, they take about as long as the computing.

# %% [markdown] id="ex1" tags=["exercise"]
# ## Exercises
#
# > **Exercise 07.1** — The MLP of most recent models has a gate and three matrices: (silu(`X W1`) · (`X W3`)) `W2`.
# > Here · multiplies number by number. Write what **one rank** computes without any exchange, so that the results of
# > all ranks add up to the whole. Each column of `W1` and `W3` must be used by one rank only.


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
# The gate multiplies number by number, so a column of `X W1` needs the *same* column of `X W3` and no other column.
# Split both matrices in the same way, by columns. Split `W2` by the matching rows. One exchange is still enough. Be
# careful if a program keeps `W1` and `W3` side by side in one matrix, because the first half of its columns is all of
# `W1`.

# %% [markdown] id="ex2" tags=["exercise"]
# > **Exercise 07.2** — A model has `given.layers` layers of width 8192. It is trained with tensor parallelism on
# > **8** devices, with sequences of `given.tokens` tokens and activations of 2 bytes. A ring of *d* devices sends
# > 2 (*d* − 1) / *d* times the size of what is reduced (lesson 03). How many **gigabytes** (10⁹ bytes) does each
# > device send for **one sample**, forward and backward, in the all-reduces of the layers?

# %% id="ex2-given" tags=["exercise"]
given = check.drawn("07.2", layers=(60, 72, 80, 96), tokens=(2048, 4096, 8192))
given

# %% id="ex2-gap" tags=["exercise"]
### BEGIN SOLUTION
### GAP gigabytes_sent = ...
gigabytes_sent = given.layers * 4 * (given.tokens * 8192 * 2) * 2 * 7 / 8 / 1e9
### END SOLUTION

# %% id="ex2-check" tags=["check"]
check.ex07_sent(gigabytes_sent, given)

# %% [markdown] id="ex2-why" tags=["solution"]
# *R* is tokens × 8192 × 2 bytes, which is 67 MB for 4096 tokens. Each layer has four all-reduces, and the ring sends
# 1.75 times *R* for each. With 80 layers and 4096 tokens that is 37.6 GB for a single sample.
#
# On NVLink with 300 GB/s in each direction (A100) this takes 0.13 s. On one network adapter of 25 GB/s it takes 1.5
# s. The arithmetic of the sample is 6 × 70 billion parameters × 4096 tokens, which takes eight devices with 150
# TFLOP/s each about 1.4 s. So communication is a tenth of the arithmetic inside a node, and exceeds it between nodes.
# The latency of 320 messages, 20 µs each, is only 6 ms.

# %% [markdown] id="ex3" tags=["exercise"]
# ## The loss needs three numbers for each token
#
# The last matrix of the model, the **head**, gives a **logit** for each token of the vocabulary. Split by columns,
# each rank has the logits of a part of the vocabulary. Llama 3 8B has a vocabulary of 128,256 tokens and a width of
# 4,096 ([2024, Table 3](https://arxiv.org/abs/2407.21783)). For each token, gathering the logits would send 128,256
# numbers, while a sum of activations sends 4,096. But the loss of a token needs only three numbers from the logits:
# the largest, *m*; the sum *s* of all e^(logit − *m*); and the logit of the target, *t*.
#
# $$\text{loss} = m + \ln s - t$$
#
# The gradient of a logit is its probability, e^(logit − *m*) / *s*, minus 1 in the column of the target.
#
# > **Exercise 07.3** — Write both passes of `VocabularyLoss`. Rank *r* has the columns *r* · *n* to (*r* + 1) · *n* − 1
# > of the logits, and all ranks have all targets. Each of the three numbers takes one `all_reduce`. The trial compares
# > losses and gradients with a serial cross entropy, and counts the numbers that are exchanged. Some logits exceed
# > 1000, and e^1000 overflows.
#
# In a `torch.autograd.Function` you write both passes. PyTorch calls `backward` with the gradients of the results,
# and `backward` returns one gradient for each argument of `forward`.

# %% id="ex3-own" tags=["exercise"]
# %%writefile "{lab.work}/my_vocabulary.py"
import torch
import torch.distributed as dist


class VocabularyLoss(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits, targets):
        """[tokens, columns of this rank] and [tokens] → the loss of each token."""
        ### BEGIN SOLUTION
        ### GAP ...  # m, s and t, each of all ranks
        ### GAP ctx.save_for_backward(...)  # what backward needs
        ### GAP return ...
        largest = logits.amax(1)
        dist.all_reduce(largest, dist.ReduceOp.MAX)
        powers = (logits - largest[:, None]).exp()
        total = powers.sum(1)
        dist.all_reduce(total)
        columns = logits.shape[1]
        column = targets - dist.get_rank() * columns
        is_here = (column >= 0) & (column < columns)
        column = column.clamp(0, columns - 1)[:, None]  # any column, if the target is elsewhere
        wanted = logits.gather(1, column)[:, 0] * is_here
        dist.all_reduce(wanted)
        ctx.save_for_backward(powers / total[:, None], column, is_here)
        return largest + total.log() - wanted
        ### END SOLUTION

    @staticmethod
    def backward(ctx, grad):
        """One number for each token → the gradient of this rank's logits."""
        ### BEGIN SOLUTION
        ### GAP return ..., None
        probabilities, column, is_here = ctx.saved_tensors
        one = is_here.to(grad.dtype)[:, None]
        return probabilities.scatter_add(1, column, -one) * grad[:, None], None
        ### END SOLUTION


# %% id="ex3-trial" tags=["exercise"]
vocabulary_trial = lab.submit(
    trial.recipe("vocabulary-trial", "work/my_vocabulary.py", "vocabulary")
)
vocabulary_trial.watch()

# %% id="ex3-check" tags=["check"]
check.ex07_loss(vocabulary_trial)

# %% [markdown] id="ex3-why" tags=["solution"]
# Each `all_reduce` has one number for each token, so the ranks exchange three numbers in place of a row of the
# vocabulary. The backward pass exchanges nothing, because the gradient of a logit needs only *m* and *s*, which all
# ranks have. Without *m*, e^logit overflows. With each rank's *own* largest logit, the sums of two ranks are scaled
# differently and cannot be added. Megatron-LM computes its loss in the same way.

# %% [markdown] id="challenge" tags=["exercise"]
# > **Going further** — Run `two_devices("sp", tensor=2, micro_batch=4, sequence_parallel=True)` and compare it with
# > `inside["tensor 2, at once"]`. Does the step change? By how much do the activations at the peak shrink
# > (`run.memory[0].peak_composition`)? Then write a `gpt.recipe` for `tensor=4` on both nodes (`nodes=2` and
# > `gpus_per_node=2`). Why does the program refuse `tensor=8` for this model?

# %% [markdown] id="home"
# ## To take home
#
# - Split the first matrix by columns and the second by rows, and one all-reduce in forward and one in backward are
#   enough. With attention, a layer needs four all-reduces per micro-batch.
# - The traffic of tensor parallelism grows with the number of samples, unlike the traffic of data parallelism.
# - The messages take no longer than the computing if the width is at least (*n* − 1) · (*b* / 9) · *C* / *W*. The
#   number of tokens does not matter.
# - On real hardware the bandwidth of the link decides, so tensor parallelism stays inside a node or a rack.
# - In a small model, messages, waiting and small matmuls slow a step down even inside a node. Larger micro-batches
#   reduce all three.
# - With torch's own tools: a plan of `ColwiseParallel` and `RowwiseParallel`; lesson 11b.
#
# References: Shoeybi et al., [Megatron-LM](https://arxiv.org/abs/1909.08053), 2019. Korthikanti et al., [Reducing
# Activation Recomputation](https://arxiv.org/abs/2205.05198), 2022, introduces sequence parallelism. Bekman, [Machine
# Learning Engineering](https://github.com/stas00/ml-engineering/blob/master/network/README.md), lists the bandwidth
# of NVLink by generation.

# %% [markdown] id="clean-idea"
# ## Cleaning up

# %% id="clean"
lab.clean(*every, doubled, one, link_run, yes=True)
