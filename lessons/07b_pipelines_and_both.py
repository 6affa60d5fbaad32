# %% [markdown] id="title"
# # 07b Pipelines, and both together
#
# A model that does not fit on one device can also be cut between its layers. Every device gets some of the layers, and
# the samples pass from one device to the next. Such a **pipeline** needs few messages, but its devices wait for each
# other. How long they wait depends on the order of the work. You measure this waiting. Then you combine pipelines with
# the tensor parallelism of lesson 07, and choose which of the two crosses the slow link.
#
# | | |
# |---|---|
# | You will be able to | predict and measure the bubble of a pipeline; say what each schedule gains and costs; read a schedule in a memory curve; place ranks on a grid that suits the links |
# | Minutes | 65 |
# | Devices | 2 nodes with 2 devices each |
# | Before | lessons 06 and 07 |

# %% id="begin"
import numpy as np
import pandas as pd

from course_lib import Lab, check, claim, gpt, plan, predict, shell, show

lab = Lab()

# %% [markdown] id="pipeline-idea"
# ## Cut the model between its layers
#
# Each device holds a group of neighbouring layers, a **stage**. A stage sends its output to the next stage and later
# receives the gradient of this output. The figure shows when each stage works:

# %% id="pipeline-naive"
show.schedule("naive", stages=4, micro_batches=1)

# %% [markdown] id="pipeline-naive-explain"
# *Four stages, one batch. A backward pass is drawn twice as long as a forward pass, because it needs twice the
# arithmetic.*
#
# Only one stage works at a time, so four devices are as fast as one, and the only gain is memory. The hatched waiting
# time is called the **bubble**. To make it smaller, cut the batch into **micro-batches** and send one after the
# other. Stage 1 then works on the first micro-batch while stage 0 works on the second.
#
# **Predict.** A batch is cut into eight micro-batches and passes through four stages. At best, by what factor are the
# four devices faster than **one** device with enough memory? Count how long the last stage must wait before it can
# start.

# %% id="bubble-guess"
### BEGIN SOLUTION
### GAP guess_times_faster = ...  # your number in place of the dots
guess_times_faster = 3.7
### END SOLUTION

# %% id="pipeline-story"
times_faster = predict(
    "07b: speed of four stages with eight micro-batches, in devices", guess_times_faster
)
show.moving.pipeline(stages=4, micro_batches=4, schedule="gpipe")

# %% [markdown] id="bubble-formula"
# *A pipeline with four micro-batches. One unit of time is a forward pass. The left side shows what every stage does
# now and how much it stores. The right side shows what it has done so far.*
#
# A stage stores the activations of each micro-batch from its forward pass to its backward pass. The figure counts
# these activations in micro-batches.
#
# How large is the bubble? Let one unit be the time of a stage for one micro-batch, forward and backward. With *p*
# stages and *m* micro-batches, each stage works for *m* units. The last stage starts late, after the first
# micro-batch has passed *p* − 1 stages. The first stage ends late, after the last gradient has come back through
# them. Together these delays are *p* − 1 units, so a step lasts *m* + *p* − 1 units:
#
# - idle share of the **whole time**: (*p* − 1) / (*m* + *p* − 1)
# - idle time **relative to the work**: (*p* − 1) / *m*
#
# Both are called "the bubble". Papers mostly quote the second number. With *m* = *p* − 1, the first is 50 % and the
# second is 100 %. This lesson always uses the share of the whole time.

# %% id="bubble-see"
times_faster.compare(4 * 8 / (8 + 4 - 1))

# %% [markdown] id="schedule-idea"
# ## Four schedules for the same work
#
# If all *m* micro-batches go forward before the first one comes back, stage 0 stores *m* sets of activations. Other
# orders of the same work store less or wait less:
#
# - **GPipe** runs all forward passes and then all backward passes.
# - **1F1B** runs a backward pass as soon as it can, so forward and backward passes alternate. The bubble is as long
#   as before. But a stage stores at most as many micro-batches as there are stages from this stage to the last.
# - **Interleaved** gives every device two or more thin **chunks** of layers. With eight layers on four devices, the
#   first device has layers 0 and 4. The pipeline fills in half the time, so the bubble is half as long. The number of
#   messages more than doubles.
# - **Zero-bubble** cuts the backward pass in two ([Qi and others, 2023](https://arxiv.org/abs/2401.10241)). The
#   previous stage waits only for the gradient of the *inputs*. The gradient of the *weights* is computed later, in
#   the gaps.
#
# For one micro-batch, let *F* be the time of the forward pass. The gradient of the inputs takes the time *B*, and the
# gradient of the weights takes *W*. The zero-bubble schedule here leaves a bubble of (*p* − 1)(*F* + *B* − *W*). If
# the three times are equal, this is a third of the old bubble. Other variants leave a smaller bubble, and some of
# them store more activations. DualPipe of DeepSeek-V3 feeds micro-batches from both ends of the pipeline
# ([2024](https://arxiv.org/abs/2412.19437)).

# %% id="schedule-1f1b"
show.schedule("1f1b", stages=4, micro_batches=8)

# %% id="schedule-interleaved"
show.schedule("interleaved", stages=4, micro_batches=8)

# %% id="schedule-zero"
show.schedule("zero-bubble", stages=4, micro_batches=8)

# %% [markdown] id="schedule-predict"
# *Three of the schedules for four stages and eight micro-batches. In the second figure, paler colours mark the second
# chunk.*
#
# **Predict.** The same four stages and eight micro-batches now run in all four orders. By what factor are the
# **activations at the peak** of stage 0 larger with GPipe than with 1F1B? In the figure of 1F1B, count the forward
# passes of stage 0 before its first backward pass.

# %% id="schedule-guess"
### BEGIN SOLUTION
### GAP guess_memory_factor = ...  # your number in place of the dots
guess_memory_factor = 4
### END SOLUTION

# %% [markdown] id="schedule-run-idea"
# The model for this measurement has eight equal layers and a vocabulary of only 128 tokens. A large vocabulary would
# make the last stage much slower than the others, because this stage computes the logits.

# %% id="schedule-run"
memory_factor = predict(
    "07b: activations on stage 0 with GPipe, relative to 1F1B", guess_memory_factor
)
even = plan.Model("even", layers=8, hidden=768, heads=12, sequence=64, vocabulary=128, tied=False)
STAGES, MICRO_BATCHES = 4, 8


def four_stages(name, micro_batches=MICRO_BATCHES, **changes):
    """Return a pipeline over both nodes with micro-batches of one sample and two recorded steps."""
    return gpt.recipe(
        name,
        nodes=2,
        gpus_per_node=2,
        model=even,
        mock_data=True,
        pipeline=STAGES,
        micro_batch=1,
        global_batch=micro_batches,
        iterations=3,
        memory=(1, 3),
        **changes,
    )


submitted = {
    "GPipe": lab.submit(four_stages("pipe-gpipe", schedule="gpipe")),
    "1F1B": lab.submit(four_stages("pipe-1f1b")),
    "interleaved": lab.submit(four_stages("pipe-interleaved", virtual=2)),
    "zero-bubble": lab.submit(four_stages("pipe-zero", schedule="zero-bubble")),
}
orders = {name: run.require() for name, run in submitted.items()}

# %% [markdown] id="measure-idea"
# The memory traces also record when each pass began and ended. The next cell computes the measured bubble, the share
# of the stages' time outside passes. It uses the faster of the two recorded steps, because other work disturbed this
# step less. *F*, *B* and *W* come from the zero-bubble run.


# %% id="measure"
def quickest_step(run):
    """Return the fastest of the recorded steps."""
    return plan.bubbles(run.memory).sort_values("whole_ms").iloc[0]


def thirds_ms(run):
    """Return the median times for forward, inputs and weights of one micro-batch."""
    passes = pd.concat([rank.phases.assign(rank=rank.rank) for rank in run.memory])
    passes["ms"] = (passes["end_us"] - passes["begin_us"]) / 1000
    ms = passes.sort_values("begin_us").groupby(["phase", "rank", "step", "micro_batch"])["ms"]
    halves = ms.agg(["first", "last"]).groupby("phase").median()
    return halves.loc["forward", "first"], *halves.loc["backward"]


F, B, W = thirds_ms(orders["zero-bubble"])
left = (F + B - W) / (F + B + W)
print(
    f"forward {F:.0f} ms, inputs {B:.0f}, weights {W:.0f}: zero-bubble leaves {left:.2f} of the bubble"
)

waiting = STAGES - 1
theory = {
    "GPipe": 100 * waiting / (MICRO_BATCHES + waiting),
    "1F1B": 100 * waiting / (MICRO_BATCHES + waiting),
    "interleaved": 100 * waiting / 2 / (MICRO_BATCHES + waiting / 2),
    "zero-bubble": 100 * waiting * left / (MICRO_BATCHES + waiting * left),
}
steps = {name: quickest_step(run) for name, run in orders.items()}
measured = {name: step["bubble_percent"] for name, step in steps.items()}
show.predicted(theory, measured, unit="% of the time", what="bubble")

# %% id="measure-drawn"
show.pipeline_measured(orders["1F1B"].memory, step=int(steps["1F1B"]["step"]))

# %% [markdown] id="measure-explain"
# *The recorded step of 1F1B. Numbers are micro-batches. On the box, the dotted end of a pass is the sleep that keeps
# the slot's pace (lesson 00).*
#
# **Explain.** If you guessed a factor of nearly 4, you expected eight micro-batches to hide the waiting. But the
# bubble lasts as long as *p* − 1 = 3 micro-batches. Three units of eleven are lost, so four devices are only 4 · 8/11
# = 2.9 times as fast as one.
#
# The measured bubbles are mostly larger than in theory, for two reasons. The formulas assume that all passes of a
# kind take equally long, and they ignore the messages between passes. To separate the two reasons, the next cell
# rearranges the recorded passes. It keeps their order and their lengths, but each pass begins as soon as its input is
# ready:

# %% id="measure-why"
undelayed = {name: step["undelayed_percent"] for name, step in steps.items()}
pd.DataFrame({"theory": theory, "unequal passes": undelayed, "measured": measured}).round(1)

# %% id="measure-claim" tags=["claim"]
for name in orders:
    claim(
        f"{name}: the delays between passes add to the bubble",
        measured[name] - undelayed[name],
        least=-0.5,
        most=6,
        unit="points",
    )
    claim(
        f"{name}: the measured bubble exceeds theory by",
        measured[name] - theory[name],
        least=-1,
        most=8,
        unit="points",
    )
claim(
    "the interleaved bubble is smaller than the 1F1B bubble by",
    measured["1F1B"] - measured["interleaved"],
    least=3,
    unit="points",
)
claim(
    "the zero-bubble bubble is smaller than the 1F1B bubble by",
    measured["1F1B"] - measured["zero-bubble"],
    least=5,
    unit="points",
)

# %% [markdown] id="measure-rest"
# *Bubbles as a percentage of the time.* The last column minus the middle column is the cost of messages and of other
# delays between passes. The interleaved schedule sends more than twice as many messages as 1F1B, so it can lose a
# part of its gain. Compare this cost for the two schedules.

# %% id="schedule-table"
activations_mb = {
    name: run.memory[0].peak_composition["activations"] / 1e6 for name, run in orders.items()
}
memory_factor.compare(activations_mb["GPipe"] / activations_mb["1F1B"])
show.memory_compare({name: run.memory.only("activations") for name, run in orders.items()})

# %% id="schedule-claim" tags=["claim"]
claim(
    "activations on stage 0 with GPipe, relative to 1F1B",
    activations_mb["GPipe"] / activations_mb["1F1B"],
    least=1.6,
    most=2.1,
    unit="times",
)

# %% [markdown] id="schedule-explain"
# *Activations of stage 0 under the four schedules. The model state is the same in all four and is not drawn.*
#
# **Explain.** GPipe stores eight micro-batches. With 1F1B, stage 0 of four stages never stores more than *four*. With
# 64 micro-batches the factor would be 16. 1F1B has the same bubble, so it has replaced GPipe's order in practice. The
# interleaved schedule stores more than 1F1B, because it runs more forward passes before the first backward pass.

# %% [markdown] id="flat-idea"
# ## What the waiting looks like in memory
#
# On one device the activations rise and fall (lesson 06). In a pipeline, a stage keeps its activations while it waits
# for a message. In the next figure this waiting is a flat part of the curve in a *pink* phase. On the box, other flat
# parts are artificial, because the slot sleeps to simulate a slower device.
#
# **Predict.** With four stages and *one* micro-batch, which stage has the **longest** flat part between its forward
# and its backward pass?

# %% id="flat-guess"
### BEGIN SOLUTION
### GAP guess_flat = ...  # "stage 0", "stage 1", "stage 2" or "stage 3", in place of the dots
guess_flat = "stage 3"
### END SOLUTION

# %% id="flat-run"
flat = predict(
    "07b: the stage with the longest flat part",
    guess_flat,
    choices=("stage 0", "stage 1", "stage 2", "stage 3"),
)
single = lab.submit(four_stages("pipe-single", micro_batches=1)).require()
show.memory_ranks(single.memory.only("activations"))


# %% id="flat-see"
def flat_ms(rank):
    """Return the time from the end of the forward pass to the start of the backward pass."""
    phases = single.memory[rank].phases
    ends = phases[phases["phase"] == "forward"]["end_us"].to_numpy()
    begins = phases[phases["phase"] == "backward"]["begin_us"].to_numpy()
    return float(np.median(begins - ends)) / 1000


flat_parts = pd.Series({f"stage {rank}": flat_ms(rank) for rank in range(STAGES)})
print("flat part in ms:")
print(flat_parts.round(1).to_string())
flat.compare(flat_parts.idxmax())

# %% id="flat-claim" tags=["claim"]
others_ms = flat_parts.drop("stage 0").max()
claim(
    "flat part of stage 0, relative to the longest of the other stages",
    flat_parts["stage 0"] / others_ms,
    least=1.1,
    unit="times",
)

# %% [markdown] id="flat-explain"
# *Activations of the stages with one micro-batch. Rank 0 is stage 0. In the pink phases a stage waits for a message.*
#
# **Explain.** **Stage 0** has the longest flat part. After its forward pass, it stores its activations until the
# gradient has come back through all later stages. The last stage starts its backward pass at once. It waits before
# its forward pass and after its backward pass, when it stores no activations.

# %% [markdown] id="grid-idea"
# ## Both at once: the grid of ranks
#
# The sizes of tensor, pipeline and data parallelism multiply, so 2 × 2 × 2 needs eight devices. Each rank then
# belongs to three groups. The ranks of a tensor group share every matrix, and the ranks of a pipeline group hold all
# stages of one copy of the model. The ranks of a data group hold the same part of the model and see different
# samples. An order such as `tp-dp-pp` states how the ranks are numbered. Its first axis varies fastest.
#
# **Predict.** Eight ranks run on two nodes with four devices each, in the order `tp-dp-pp`. To which rank does rank 3
# send its activations?

# %% id="grid-guess"
### BEGIN SOLUTION
### GAP guess_next_stage = ...  # "rank 0" to "rank 7", in place of the dots
guess_next_stage = "rank 5"
### END SOLUTION

# %% id="grid-see"
next_stage = predict(
    "07b: the rank after rank 3 in the pipeline",
    guess_next_stage,
    choices=[f"rank {rank}" for rank in range(8)],
)
eight = plan.Layout(tensor=2, data=2, pipeline=2, order="tp-dp-pp")
show.ranks(
    {
        "tensor": plan.groups(eight, "tp"),
        "data": plan.groups(eight, "dp"),
        "pipeline": plan.groups(eight, "pp"),
    },
    devices_per_node=4,
)

# %% id="grid-answer"
after = next(group for group in plan.groups(eight, "pp") if 3 in group)[1]
next_stage.compare(f"rank {after}")

# %% [markdown] id="grid-explain"
# *Each panel shows all ranks, one row per node. Ranks of one colour form a group. (4 × 2) means four groups of two.*
#
# **Explain.** Rank 3 shares its matrices with rank 2 and sends its activations to rank 7. Neighbours in the first
# axis have neighbouring numbers, so they are on the same node. The numbers of neighbours in the last axis are
# furthest apart, so they are on different nodes. If you expected rank 5, you forgot the data axis, which lies between
# the two.
#
# ![The eight ranks as corners of a box. Node 1 is the upper floor with ranks 0 to 3, and node 2 is the lower floor with ranks 4 to 7. Hatched bands connect rank 3 with the other rank of each of its groups. In the tensor group it is rank 2, in the data group rank 1, and in the pipeline group rank 7 on the other floor.](../images/rank_grid.svg)
#
# In practice every order has tensor parallelism first, but programs differ in the order of pipeline and data.
# Megatron-LM uses `tp-…-dp-pp`, so that the few messages of the pipeline cross the slowest links. The run of Llama 3
# with 405 billion parameters put data last ([2024](https://arxiv.org/abs/2407.21783)). Its copies can exchange their
# data ahead of time, while a late micro-batch would delay every stage.
#
# Your four devices can combine tensor 2 with pipeline 2 in two ways. The axes `cp` (context parallelism) and `dp`
# have size 1 here.

# %% id="grid-four"
inside = plan.Layout(tensor=2, pipeline=2, order="tp-cp-dp-pp")
across = plan.Layout(tensor=2, pipeline=2, order="pp-cp-dp-tp")
show.ranks(
    {
        "tensor, order tp-…-pp": plan.groups(inside, "tp"),
        "tensor, order pp-…-tp": plan.groups(across, "tp"),
    },
    devices_per_node=2,
)

# %% [markdown] id="link-idea"
# *On the left, the two ranks of a tensor group are on one node, and the pipeline crosses the link. On the right, the
# pipeline stays on one node.*
#
# ## Which layout suits a slow link?
#
# Both layouts do the same arithmetic and send the same number of messages. They differ in *which* messages cross the
# link between the nodes. The output of a layer has *R* bytes per sample. Count the bytes that cross the link in one
# direction for a step of eight samples. The other direction carries as many.
#
# - **tensor inside** the nodes, pipeline between them: both tensor ranks of stage 0 send *R* bytes once per sample.
# - **tensor between** the nodes, pipeline inside them: each of eight layers needs four all-reduces, and the embedding
#   and the output need one each. In an all-reduce of two ranks, each rank sends the whole size once.
# - **data only**, for comparison: a ring of four averages all gradients once per step. Each rank sends 1.5 times the
#   size of the gradients (lesson 03), for any number of samples.

# %% id="link-bytes"
deep = plan.Model("deep", layers=8, hidden=128, heads=4, sequence=128, vocabulary=512, tied=False)
samples = 8
rows_mb = deep.sequence * deep.hidden * 4 / 1e6  # R: one number of 4 bytes per token and channel
gradients_mb = 4 * plan.parameters(deep).total / 1e6
over_the_link_mb = {
    "tensor inside": 2 * rows_mb * samples,
    "tensor between": (4 * deep.layers + 2) * rows_mb * samples,
    "data only": 1.5 * gradients_mb,
}
for name, megabytes in over_the_link_mb.items():
    print(f"{name:15} {megabytes:5.1f} MB")

# %% [markdown] id="link-predict"
# **Predict.** On the box each layout runs over a slow link of 0.1 Gbit/s, so a megabyte takes 80 ms. The arithmetic of
# a step takes a few hundred milliseconds. A real cluster keeps its link. By what factor is a step slower with *tensor
# between* than with *tensor inside*?

# %% id="link-guess"
### BEGIN SOLUTION
### GAP guess_between = ...  # your number in place of the dots
guess_between = 1.2
### END SOLUTION

# %% id="link-run"
between = predict(
    "07b: step with tensor between nodes, relative to tensor inside", guess_between, unit="times"
)
LINK_GBIT_PER_S = 0.1
far = lab.but(link_gbit=LINK_GBIT_PER_S) if lab.site.box else lab
layouts = {
    "tensor inside": {"tensor": 2, "pipeline": 2},
    "tensor between": {"tensor": 2, "pipeline": 2, "rank_order": "pp-cp-dp-tp"},
    "data only": {},
}


def four_devices(name, layout):
    return gpt.recipe(
        name,
        nodes=2,
        gpus_per_node=2,
        model=deep,
        mock_data=True,
        micro_batch=2,
        global_batch=samples,
        iterations=4,
        **layout,
    )


submitted = {
    name: far.submit(four_devices(name.replace(" ", "-"), layout))
    for name, layout in layouts.items()
}
runs = {name: run.require() for name, run in submitted.items()}


# %% id="link-see"
def step_ms(run):
    """Return the median over all iterations but the first, which sets things up."""
    return float(run.log.iterations["elapsed_ms"].iloc[1:].median())


measured_ms = {name: step_ms(run) for name, run in runs.items()}
times = measured_ms["tensor between"] / measured_ms["tensor inside"]
between.compare(times)
# A megabyte is 8 Mbit, and 1 Gbit/s is 1 Mbit per ms.
link_alone_ms = {name: 8 * mb / LINK_GBIT_PER_S for name, mb in over_the_link_mb.items()}
for name, ms in measured_ms.items():
    alone = f"; the slow link alone needs {link_alone_ms[name]:.0f} ms" if lab.site.box else ""
    print(f"{name:15} {ms:5.0f} ms per step{alone}")
show.throughput(*runs.values(), unit="ms")

# %% id="link-claim" tags=["claim"]
if lab.nodes_are_separate:
    claim(
        "step with tensor between nodes, relative to tensor inside", times, least=1.2, unit="times"
    )

# %% [markdown] id="link-explain"
# *Time of each iteration of the three layouts. The first iteration also includes the set-up.*
#
# The printed time of the link alone leaves out arithmetic, latency and bubble. On the box it is therefore a **lower
# bound**, except in flat mode, which cannot slow the link. After a pause, the link of the box also sends the first
# 128 KiB at full speed.

# %% id="link-words"
if times > 1.2:
    print("The same model and the same arithmetic, but a different numbering of the ranks:")
    print(f"{measured_ms['tensor between'] - measured_ms['tensor inside']:.0f} ms more per step.")
else:
    print("Here the numbering of the ranks makes little difference: the link between your nodes")
    print("is nearly as fast as the links inside. (On the box, `sinfo` says if it is not slowed.)")

# %% [markdown] id="link-rule"
# **Explain.** Tensor parallelism between the nodes sends the most bytes, and the ranks of a stage wait for each
# message. While one stage computes, the other stage uses the link, so a slow link is hardly ever idle. The pipeline
# sends the fewest bytes, and sends some of them while another micro-batch is computed. *Data only* lies between the
# two layouts. It has no bubble, and its volume does not grow with the batch. Tensor parallelism *inside* a node has a
# cost too, 68 all-reduces per rank and step, as lesson 07 measured.
#
# This leads to the usual rule: **tensor parallelism inside a node, pipeline parallelism between nodes, and data
# parallelism for all other devices**. If the copies shard the model state (lesson 11), fewer stages are enough. In
# 2021, a model of one trillion parameters ran on 3072 A100 GPUs, eight per node, with tensor 8, pipeline 64 and
# data 6. It reached 52 % of the peak of the GPUs ([Narayanan and others](https://arxiv.org/abs/2104.04473)).

# %% id="link-same"
losses = pd.DataFrame({name: run.log.iterations["lm_loss"] for name, run in runs.items()})
spread = float((losses.max(axis=1) - losses.min(axis=1)).max())
print(f"the {len(runs)} runs train the same model: their losses differ by at most {spread:.6f}")

# %% id="link-same-claim" tags=["claim"]
claim("the losses of the three layouts differ by", spread, most=1e-3)

# %% [markdown] id="message-idea"
# ## A pipeline needs micro-batches, not tokens
#
# Why does a pipeline work well over a slow link? Take a stage with *l* layers of width *h*, and a micro-batch of *t*
# tokens.
#
# - **Compute.** A layer has 12 *h*² parameters, and forward needs 2 FLOPs for each parameter and token. A stage with
#   *C* FLOP/s needs 24 *h*² *l t* / *C* seconds.
# - **Message.** The stage sends *b h t* bytes to the next one, and a link with *W* bytes/s needs *b h t* / *W*
#   seconds.
#
# The tokens cancel, as with tensor parallelism. But now all layers of a stage share *one* message. It takes no longer
# than the forward pass if
#
# $$h \cdot l \geq \frac{b}{24} \cdot \frac{C}{W}$$
#
# Backward does twice the arithmetic and sends the same bytes. A message can also travel while the stage computes the
# next micro-batch.
#
# The next run sends one micro-batch of four samples through the stages. Only the messages between stages 1 and 2 cross
# the link between the nodes, which is slowed as in the last section. The model is `even`: *l* = 2, *h* = 768, *b* = 4,
# and 64 tokens per sample.
#
# **Predict.** What percentage of a forward pass does one message between the nodes take? On the box a forward pass of
# these four samples takes about 0.25 s, and a megabyte takes 80 ms on this link.

# %% id="message-guess"
### BEGIN SOLUTION
### GAP guess_message = ...  # percent
guess_message = 100
### END SOLUTION

# %% id="message-run"
message_share = predict("07b: message, relative to a forward pass", guess_message, unit="%")
slow = far.submit(
    four_stages("pipe-slow", micro_batches=4).but(
        name="pipe-slow", micro_batch=4, iterations=2, memory=(1, 2)
    )
).require()


# %% id="message-see"
def between_ms(rank, begin, end):
    """Return the time from `begin` of the forward pass to `end` of the backward pass."""
    phases = slow.memory[rank].phases.set_index("phase")
    return float(phases.loc["backward", end] - phases.loc["forward", begin]) / 1000


# Stage 1 waits for the passes of stages 2 and 3 and for two messages.
message_ms = (between_ms(1, "end_us", "begin_us") - between_ms(2, "begin_us", "end_us")) / 2
passes = pd.concat([rank.phases for rank in slow.memory])
forward = passes[passes["phase"] == "forward"]
forward_ms = float((forward["end_us"] - forward["begin_us"]).median()) / 1000
message_share.compare(100 * message_ms / forward_ms)

layers, tokens = even.layers / STAGES, 4 * even.sequence
flop_per_s = 24 * even.hidden**2 * layers * tokens / (forward_ms / 1000)
link_gbit_per_s = LINK_GBIT_PER_S if lab.site.box else lab.site.link_gbit or 1.0
by_rule = 4 / 24 * flop_per_s / (link_gbit_per_s * 1e9 / 8)
by_run = even.hidden * layers * message_ms / forward_ms
print(f"C = {flop_per_s / 1e9:.1f} GFLOP/s; h · l is {even.hidden * layers:.0f}")
print(f"least h · l by the rule {by_rule:.0f}, by the run {by_run:.0f}")

# %% id="message-claim" tags=["claim"]
if lab.site.box and lab.nodes_are_separate:
    claim(
        "width × layers that hide a message, by the rule relative to the run",
        by_rule / by_run,
        least=0.5,
        most=1.8,
        unit="times",
    )

# %% [markdown] id="message-explain"
# **Explain.** Even on this slow link a message takes a fraction of a forward pass. If you guessed 100 % or more, you
# may have counted a message per layer, as in tensor parallelism. With twice as many layers per stage the fraction
# would be half as large.
#
# So a pipeline hardly needs bandwidth. It needs micro-batches: for a bubble of 10 %, *m* must be 9 (*p* − 1), and the
# batch must have *m* times the tokens of a micro-batch. In large training runs this is the limit. Llama 3 with 405
# billion parameters had 16 stages of about 8 layers with width 16,384. An H100 with 400 TFLOP/s and a link of 50 GB/s
# needs *h* · *l* ≥ 667, and Llama 3 had about 131,000. But the batch of 16 million tokens was fixed. From 8,192 to
# 16,384 GPUs, the sequences of a copy fell from 32 to 16, and the rate per GPU fell from 430 to 400 TFLOP/s ([table 4,
# 2024](https://arxiv.org/abs/2407.21783)). The next cell computes how much of this the bubble explains, if each
# micro-batch is one sequence and each interleaved chunk is one layer:

# %% id="message-llama"
work = {
    count: count + (16 - 1) / 8 for count in (32, 16)
}  # micro-batches, and the bubble of 8 chunks
computed = (32 / work[32]) / (16 / work[16])
print(f"rate with 32 micro-batches over 16: computed {computed:.3f}, published {430 / 400:.3f}")

# %% id="message-llama-claim" tags=["claim"]
claim(
    "gain from 32 micro-batches instead of 16, computed relative to published",
    computed / (430 / 400),
    least=0.95,
    most=1.05,
    unit="times",
)

# %% [markdown] id="ex1" tags=["exercise"]
# ## Exercises
#
# > **Exercise 07b.1** — The next cell has the commands of a batch script, with gaps. Fill them so that the model is
# > trained with tensor 2 × pipeline 2 on the four devices of **both** nodes. Tensor parallelism must stay **inside**
# > the nodes. Every step must send **four** micro-batches of 2 samples through the pipeline. The library adds the
# > heading and the set-up lines, as `lab.script(hybrid)` shows.

# %% id="ex1-gap" tags=["exercise"]
commands = r"""
export OMP_NUM_THREADS=1 SRUN_CPUS_PER_TASK="${SLURM_CPUS_PER_TASK:-1}"
mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
srun --kill-on-bad-exit=1 torchrun \
    --nnodes="$SLURM_JOB_NUM_NODES" \
    ### BEGIN SOLUTION
    ### GAP --nproc-per-node=... \
    --nproc-per-node=2 \
    ### END SOLUTION
    --rdzv-backend=c10d --rdzv-id="$SLURM_JOB_ID" \
    --rdzv-endpoint="${nodes[0]}:$((10000 + SLURM_JOB_ID % 20000))" \
    "$PROGRAM" \
    --num-layers 8 --hidden-size 128 --num-attention-heads 4 --seq-length 128 \
    --mock-data --vocab-size 512 --untie-embeddings-and-output-weights \
    ### BEGIN SOLUTION
    ### GAP --tensor-model-parallel-size ... \
    ### GAP --pipeline-model-parallel-size ... \
    ### GAP --rank-order ... \
    --tensor-model-parallel-size 2 \
    --pipeline-model-parallel-size 2 \
    --rank-order tp-cp-dp-pp \
    ### END SOLUTION
    --micro-batch-size 2 \
    ### BEGIN SOLUTION
    ### GAP --global-batch-size ... \
    --global-batch-size 8 \
    ### END SOLUTION
    --train-iters 10 --log-interval 1 \
    --record-memory-history --profile-step-start 9 --profile-step-end 10
"""
hybrid = shell.recipe(
    "hybrid",
    commands,
    ### BEGIN SOLUTION
    ### GAP nodes=...,
    nodes=2,
    ### END SOLUTION
    gpus_per_node=2,
    environment={"PROGRAM": f"{lab.site.programs}/pretrain_gpt.py"},
)
hybrid_run = lab.submit(hybrid)
hybrid_run.watch()

# %% id="ex1-check" tags=["check"]
check.ex07b_hybrid(hybrid_run)

# %% [markdown] id="ex1-why" tags=["solution"]
# Two processes on each of two nodes make a world of four, and 2 × 2 uses all of it. So the data-parallel size is 1,
# and the global batch is 2 × 4 = 8. Here four devices do *not* process four times as many samples. The order
# `tp-cp-dp-pp` puts tensor first, so ranks 0 and 1 on one node share every matrix. `--rank-order` is a flag of the
# course. Megatron-LM always puts tensor first, and `--use-tp-pp-dp-mapping` puts pipeline before data. The log shows
# the result:

# %% id="ex1-world" tags=["solution"]
# !grep -E "using world size|number of microbatches" "{hybrid_run.log_file}"
show.memory_ranks(hybrid_run.memory, ranks=[0, 2])

# %% [markdown] id="ex1-memory" tags=["solution"]
# *Memory over the last step, for one rank of each stage.* Ranks 0 and 1 are the two halves of stage 0 and have the
# same curve, and ranks 2 and 3 are the halves of stage 1. With 1F1B, stage 0 stores up to two micro-batches and stage
# 1 stores one.

# %% [markdown] id="ex2" tags=["exercise"]
# > **Exercise 07b.2** — A pipeline of `given.stages` stages runs with 1F1B. What is the smallest number of
# > micro-batches with which the bubble is at most 10 % of the whole time?

# %% id="ex2-given" tags=["exercise"]
given = check.drawn("07b.2", stages=(6, 8, 12, 16))
given

# %% id="ex2-gap" tags=["exercise"]
### BEGIN SOLUTION
### GAP micro_batches_needed = ...
micro_batches_needed = 9 * (given.stages - 1)
### END SOLUTION

# %% id="ex2-check" tags=["check"]
check.ex07b_bubble(micro_batches_needed, given)

# %% [markdown] id="ex2-why" tags=["solution"]
# (*p* − 1) / (*m* + *p* − 1) must be at most 1/10, so *m* is at least 9 (*p* − 1), which is 63 for eight stages. If you
# used the bubble relative to the work, you got 10 (*p* − 1). The interleaved schedule with two chunks needs half as
# many micro-batches. Pipelines with many stages therefore need large batches.

# %% [markdown] id="ex3" tags=["exercise"]
# > **Exercise 07b.3** — Look at the table of megabytes again. With eight samples per step, *tensor inside* sends the
# > least over the link. What is the smallest global batch with which *data only* sends at most as many bytes? Neither
# > layout changes with the batch. The batch must be a multiple of four, because four copies share it.

# %% id="ex3-gap" tags=["exercise"]
data_only = runs["data only"]
### BEGIN SOLUTION
### GAP crossing_batch = ...
crossing_batch = 4 * int(np.ceil(1.5 * gradients_mb / (2 * rows_mb) / 4))
### END SOLUTION

# %% id="ex3-check" tags=["check"]
check.ex07b_crossing(crossing_batch, data_only)

# %% [markdown] id="ex3-why" tags=["solution"]
# The pipeline sends 2 *R* for every sample. Data parallelism sends 1.5 times the gradients once per step. The two are
# equal if the number of samples is 1.5 × gradients / (2 *R*), rounded up to a multiple of four. For larger batches,
# data parallelism sends the least over a slow link, provided that the model fits on one device.

# %% [markdown] id="challenge" tags=["exercise"]
# > **Going further** — Give the model of the schedules a real vocabulary, with `even.but(vocabulary=8192)`. Which
# > stage becomes the longest, and which part of the bubble does the formula not contain? Then run 1F1B with 16 and 32
# > micro-batches. The bubble shrinks, but a step has more samples. What would you do if the global batch had to stay
# > fixed?

# %% [markdown] id="home"
# ## To take home
#
# - Pipeline parallelism sends few messages, but its bubble takes (*p* − 1) / (*m* + *p* − 1) of the time. Papers
#   often quote the bubble relative to the work instead.
# - 1F1B has the bubble of GPipe with far less memory. Interleaving shortens the bubble but sends more messages.
#   Splitting the backward pass also shortens it.
# - A message takes no longer than a forward pass if width × layers per stage is at least (*b* / 24) · *C* / *W*. A
#   pipeline needs many micro-batches rather than a fast link.
# - A flat part of a memory curve *between* passes shows a stage that waits and keeps its activations.
# - World size = tensor × pipeline × data (× context). Give neighbouring numbers to the ranks that exchange the most.
# - With torch's own tools: `PipelineStage` and a schedule such as `Schedule1F1B`; lesson 11b.
#
# References: arXiv [2104.04473](https://arxiv.org/abs/2104.04473) (Megatron-LM),
# [2401.10241](https://arxiv.org/abs/2401.10241) (zero-bubble), [2407.21783](https://arxiv.org/abs/2407.21783) (Llama
# 3).

# %% [markdown] id="clean-idea"
# ## Cleaning up
#
# The runs that the exercises use stay, so that you can repeat their checks.

# %% id="clean"
others = [run for run in runs.values() if run.name != data_only.name]
lab.clean(*orders.values(), single, slow, *others, yes=True)
