# %% [markdown] id="title"
# # 07 Tensor and pipeline parallelism, and both together
#
# In lesson 03 every device held the whole model. That ends on the day when the model no longer fits (lesson 06).
# Then the model itself has to be cut, and there are two ways to do it: across every layer, or between the
# layers. Large training runs use both together, which is what *hybrid* means. Each has a price, and this lesson
# makes you measure it.
#
# | | |
# |---|---|
# | You will be able to | say what tensor and pipeline parallelism send, and how often; predict, draw and measure the bubble of a pipeline; lay ranks out on a grid; choose the layout that suits a link |
# | Minutes | 45 |
# | Devices | 2 nodes with 2 devices each |
# | Before | lessons 03 and 06 |

# %% id="begin"
import numpy as np
import pandas as pd

from course_lib import Lab, check, gpt, plan, shell, show

lab = Lab()

# %% [markdown] id="tensor-idea"
# ## Cut every matrix: tensor parallelism
#
# Most of a transformer's arithmetic is matrix products, two in a row in every MLP: the input `X` is
# multiplied by `A`, an activation function acts on each number of the result, and that is multiplied by
# `B`. Two devices want to share the work, so that each holds half of `A` and half of `B`. Along which
# side do you cut?
#
# **Predict.** Cut `A` by columns and `B` by rows. How many times must the two devices exchange
# something on the way from `X` to the result?

# %% id="tensor-guess"
guess_exchanges = 2  # change it to your own guess

# %% id="tensor-story"
print(f"you guessed {guess_exchanges} exchanges forward; count the frames with arrows")
show.moving.tensor_parallel_mlp(ranks=2)

# %% [markdown] id="tensor-caption"
# *Such an MLP on two ranks, step by step. Upper row of each rank: forward. Lower row: backward.
# Arrows are the only moments at which data travel.*
#
# **Once** forward, and once backward. Is the sum of the two halves really the whole result? Try it with numbers,
# forward, for both ways of cutting `A`:

# %% id="tensor-check"
random = np.random.default_rng(0)
x, a, b = random.normal(size=(4, 6)), random.normal(size=(6, 8)), random.normal(size=(8, 6))


def activation(z):
    return np.maximum(z, 0)


whole = activation(x @ a) @ b
rank_0 = activation(x @ a[:, :4]) @ b[:4]  # columns of A, the same rows of B
rank_1 = activation(x @ a[:, 4:]) @ b[4:]
print("A by columns, B by rows:", np.allclose(rank_0 + rank_1, whole))

summand_0, summand_1 = x[:, :3] @ a[:3], x[:, 3:] @ a[3:]  # rows of A instead
print(
    "A by rows, no exchange: ",
    np.allclose((activation(summand_0) + activation(summand_1)) @ b, whole),
)

# %% [markdown] id="tensor-explain"
# **Explain.** Guessing two is natural: two products, two exchanges. But an activation function acts on
# every number alone, so *columns* may stay apart until the very end. Cut `A` the other way, and each device has
# only a summand of every number, and the activation of a sum is not the sum of the activations: the
# summands would have to be added before it, and once more after `B`.
#
# Attention is cut in the same manner, by heads: every device computes some of the heads, and one sum
# follows. So a transformer layer costs **four all-reduces**: two forward, two backward. Each is as large
# as what one layer hands to the next, and the next product cannot begin before it has ended. That is
# tensor parallelism in one sentence: *everybody works on everything, and everybody waits for everybody,
# four times in every layer.*

# %% [markdown] id="pipeline-idea"
# ## Deal out the layers: pipeline parallelism
#
# The other way needs no new arithmetic. The first device takes the first half of the layers, the second
# device the rest. Each part is a **stage**; a stage sends its output to the next, and gets back the
# gradient of it. Very little travels. But look at who works when:

# %% id="pipeline-naive"
show.schedule("naive", stages=4, micro_batches=1)

# %% [markdown] id="pipeline-naive-explain"
# *Four stages, one batch. A backward pass is drawn twice as long as a forward pass, which is what its
# arithmetic asks for.*
#
# One stage works, the others wait. The hatched waiting is called the **bubble**. With four devices this
# is as fast as one device; all that was won is room. The remedy is to cut the batch into **micro-batches**
# and to send one after the other, so that stage 1 works on the first while stage 0 works on the second:

# %% id="pipeline-story"
show.moving.pipeline(stages=4, micro_batches=4, schedule="gpipe")

# %% [markdown] id="bubble-formula"
# *Left in each frame: what every stage does at that moment, and how much it holds. Right: what it has done so far.*
#
# What a stage holds is counted **in micro-batches**. The unit is everything that the forward pass of *one*
# micro-batch leaves in the layers of this stage for the backward pass to use. A forward pass adds one unit, the
# backward pass of the same micro-batch takes it away again. `holds 3` means that three of them lie in the stage's
# memory at that moment. How many bytes a unit has depends on the model, on how many layers the stage has, and on
# the samples in a micro-batch; you will see it in MB further down.
#
# Now the bubble can be counted. Take the time that one stage needs for one micro-batch, forward and backward, as
# the unit. With *p* stages and *m* micro-batches each stage works for *m* units. The last stage cannot begin
# before the first micro-batch has passed the *p* − 1 stages before it, and the first cannot end before the last
# gradient has come back through the same stages. Both delays together are *p* − 1 units, so a step lasts *m* +
# *p* − 1 units:
#
# - idle share of the **whole time**: (*p* − 1) / (*m* + *p* − 1)
# - idle time **relative to the work**: (*p* − 1) / *m*
#
# Both are called "the bubble". Figures mostly show the first, papers mostly write the second, and a
# number without this remark is worth little: with *m* = *p* − 1 the one says 50 %, the other 100 %.
#
# **Predict.** Two stages. Which share of the whole time is idle with 1, 2 and 8 micro-batches?

# %% id="bubble-guess"
guess_percent = {1: 50, 2: 25, 8: 10}  # change them to your own guesses


def bubble_percent(stages, micro_batches, chunks=1):
    """Idle share of the whole time; `chunks` is explained further down."""
    return 100 * (stages - 1) / (chunks * micro_batches + stages - 1)


# %% [markdown] id="bubble-run-idea"
# Three jobs measure it: two stages on the two devices of one node. The model is made for this
# measurement: eight layers, and a vocabulary of only 512 tokens, so that both stages take about equally long. (The
# matrix that turns the last layer's output into a guess for every token of the vocabulary belongs to the last
# stage; with a large vocabulary and few layers it would make that stage much longer. The data are random
# tokens: nothing can be learned from them, but the arithmetic takes as long.) The program orders
# its passes a little differently from the last diagram, as you will see further down; the bubble is the same.

# %% id="bubble-run"
deep = plan.Model("deep", layers=8, hidden=128, heads=4, sequence=128, vocabulary=512, tied=False)


def two_stages(name, **changes):
    """A pipeline of two stages on one node, micro-batches of one sample, the last steps recorded."""
    return gpt.recipe(
        name,
        nodes=1,
        gpus_per_node=2,
        model=deep,
        mock_data=True,
        pipeline=2,
        micro_batch=1,
        iterations=8,
        memory=(5, 8),
        **changes,
    )


pipes = {}
for micro_batches in (1, 2, 8):
    recipe = two_stages(f"pipe-m{micro_batches}", global_batch=micro_batches)
    pipes[micro_batches] = lab.submit(recipe).require()

# %% [markdown] id="bubble-see-idea"
# The recorded steps are in the run's memory traces, which also note when each forward and backward pass
# began and ended. The first stage begins first and ends last, so its own record tells how long a step took:


# %% id="bubble-see"
def quickest_step(run):
    """Number and idle share, in percent, of the recorded step that was disturbed least."""
    phases = run.memory[0].phases
    work = phases[phases["phase"].isin(["forward", "backward"])]
    steps = []
    for step, part in work.groupby("step"):
        whole_us = part["end_us"].max() - part["begin_us"].min()
        busy_us = (part["end_us"] - part["begin_us"]).sum()
        steps.append((whole_us, int(step), 100 * (1 - busy_us / whole_us)))
    _, step, idle_percent = min(steps)
    return step, idle_percent


quickest = {m: quickest_step(run) for m, run in pipes.items()}
for m, (_, idle_percent) in quickest.items():
    print(f"m = {m}: you guessed {guess_percent[m]} %, measured {idle_percent:.0f} %")
show.predicted(
    {f"m = {m}": bubble_percent(2, m) for m in pipes},
    {f"m = {m}": idle_percent for m, (_, idle_percent) in quickest.items()},
    unit="% of the time",
    what="bubble",
)

# %% id="bubble-drawn"
show.pipeline_measured(pipes[8].memory, step=quickest[8][0])

# %% [markdown] id="bubble-explain"
# *The quickest recorded step with eight micro-batches, as it really was. Numbers are micro-batches.*
#
# **Explain.** If you guessed 25 % for two micro-batches, you halved the 50 %. But micro-batches do not share the
# bubble. It keeps its length, and the work around it grows: 1/2, 1/3, … 1/9.
#
# The measurement will not agree to the last digit, and each difference has a cause that you can look for in
# the second figure. Messages take time, so a stage may wait a little before *every* micro-batch, and the
# bubble comes out larger. The formula assumes stages of equal length; where one is longer, the other
# waits for it. And if other programs want the same processors, pauses fall anywhere, also into the passes, which
# then look longer than they are and make the bubble look smaller.

# %% [markdown] id="flat-idea"
# ## What the waiting looks like in memory
#
# Memory has a shape, too. On one device the **activations** make a hump, up in forward and straight down in
# backward (lesson 06).
#
# **Predict.** Two stages, *one* micro-batch. One of the two stages has a flat part in its curve, between
# rising and falling. Which?

# %% id="flat-guess"
guess_flat = "stage 1"  # or "stage 0"

# %% id="flat-see"
print(f"you guessed {guess_flat}; rank 0 is stage 0, rank 1 is stage 1")
show.memory_ranks(pipes[1].memory)

# %% [markdown] id="flat-explain"
# *Memory of the two stages over the recorded steps of the run with one micro-batch. Pale blue background: forward;
# pale orange: backward; pink: waiting for a message.*
#
# **Explain.** It is **stage 0**. It has done its forward pass, keeps what that left behind, and can do nothing
# until the gradient comes back from stage 1, which meanwhile does its own forward *and* backward. The flat part
# is the bubble, seen from the side: as long as the work of all later stages, and full of activations that nobody
# may throw away. Stage 1 turns round at once. It does wait, but before its forward pass, with empty hands.
#
# So the *first* stage holds its activations longest. With several micro-batches on their way it also holds the
# most of them, as the next section shows.

# %% [markdown] id="schedule-idea"
# ## Three ways to order the same work
#
# If all *m* micro-batches go forward before the first comes back, stage 0 keeps *m* times those activations. That
# is the price of a small bubble, unless the order of work changes.
#
# - **GPipe**: all forward passes, then all backward passes. Stage 0 keeps all *m* micro-batches. (In the paper's
#   figure the last micro-batch comes back first. This program starts with the first; time and memory are the same.)
# - **1F1B** (yours so far): as soon as a backward pass can run, it does; one forward, one backward, in turn. The
#   bubble is as long as before, but a stage keeps at most as many micro-batches as there are stages from it to
#   the end.
# - **Interleaved**: every device holds two (or more) thin *chunks* of layers, here layers 0–1 and 4–5 on the
#   first one. The pipeline fills in half the time, so the bubble is halved, and twice as many messages travel.

# %% id="schedule-gpipe"
show.schedule("gpipe", stages=4, micro_batches=8)

# %% id="schedule-1f1b"
show.schedule("1f1b", stages=4, micro_batches=8)

# %% id="schedule-interleaved"
show.schedule("interleaved", stages=4, micro_batches=8)

# %% [markdown] id="schedule-predict"
# *The three orders for four stages and eight micro-batches. In the third, paler colours are the second chunk.*
#
# **Predict.** Two stages, eight micro-batches: how many times the activation memory of 1F1B does GPipe need on
# stage 0?

# %% id="schedule-guess"
guess_memory_factor = 2  # change it to your own guess

# %% id="schedule-run"
orders = {
    "GPipe": lab.submit(two_stages("pipe-gpipe", global_batch=8, schedule="gpipe")).require(),
    "1F1B": pipes[8],
    "interleaved": lab.submit(two_stages("pipe-interleaved", global_batch=8, virtual=2)).require(),
}
show.memory_compare({name: run.memory for name, run in orders.items()}, rank=0)

# %% id="schedule-table"
rows = []
for name, run in orders.items():
    chunks = 2 if name == "interleaved" else 1
    rows.append(
        {
            "order": name,
            "bubble predicted (%)": round(bubble_percent(2, 8, chunks), 1),
            "bubble measured (%)": round(quickest_step(run)[1], 1),
            "activations at the peak (MB)": round(
                run.memory[0].peak_composition["activations"] / 1e6, 1
            ),
        }
    )
factor = rows[0]["activations at the peak (MB)"] / rows[1]["activations at the peak (MB)"]
print(f"you guessed that GPipe keeps {guess_memory_factor} times as much; measured {factor:.1f}")
pd.DataFrame(rows)

# %% [markdown] id="schedule-explain"
# **Explain.** Stage 0 of two keeps two micro-batches under 1F1B, whatever *m* is, and all eight under GPipe: a
# factor of about four, a little less because not everything at the peak belongs to a micro-batch. And 1F1B pays
# nothing for it: on paper both have the same bubble. (If your two measurements differ, your processors had
# something else to do in those milliseconds.) That is why hardly anybody uses GPipe's order any more. Its
# picture is in every textbook because it is the easier one to understand.
#
# The interleaved order keeps somewhat more than 1F1B, since more chunks are filled before the first backward pass.
#
# Whether the interleaved order is faster *here* depends on your machine. Its bubble is smaller on paper; its
# passes are half as long, and each one waits for a message. Where messages are cheap compared to the work of a
# chunk, it wins. Where stages take a few milliseconds, as with this model, the waiting may eat up what the
# shorter bubble saved.

# %% [markdown] id="grid-idea"
# ## Both at once: the grid of ranks
#
# Tensor, pipeline and data parallelism multiply: 2 × 2 × 2 needs eight devices. Each rank then has a place on a
# grid with three axes, and belongs to three groups: those with whom it shares every matrix, those before and
# after it in the pipeline, and those who hold the same part of the model and see other samples. Which ranks
# these are follows from an order such as `tp-dp-pp`: the first axis varies fastest as ranks are counted.
#
# **Predict.** Eight ranks on two nodes with four devices each, order `tp-dp-pp`. With which rank does rank 3
# share its matrices, and to which does it send its activations?

# %% id="grid-guess"
guess_tensor, guess_next_stage = 2, 5  # change them to your own guesses

# %% id="grid-see"
eight = plan.Layout(tensor=2, data=2, pipeline=2, order="tp-dp-pp")
print(f"you guessed that rank 3 shares with {guess_tensor} and sends to {guess_next_stage}")
show.ranks(
    {
        "tensor": plan.groups(eight, "tp"),
        "data": plan.groups(eight, "dp"),
        "pipeline": plan.groups(eight, "pp"),
    },
    devices_per_node=4,
)

# %% [markdown] id="grid-explain"
# *Each panel shows all ranks, one row for each node; ranks of one colour belong to the same group.*
#
# **Explain.** Rank 3 shares its matrices with rank 2 and sends to rank 7. Neighbours in the first axis are
# neighbours in number, and so they sit on the same node. The last axis jumps furthest: here its groups cross from
# node to node. (If you expected 4, you took the next number for the next stage; if 5, you left out the data axis,
# which lies between.)
#
# On your four devices there are two ways to combine tensor 2 with pipeline 2. (The program's orders name a fourth
# axis, `cp`, context parallelism, which lesson 13 is about. Its size is 1 here, as is that of `dp`.)

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
# *Left, the two ranks that share every matrix sit on one node and the pipeline crosses the link. Right, the
# opposite.*
#
# ## Which layout suits which link
#
# The arithmetic is the same in both, and so is the number of messages. What differs is *which* of them
# cross the link between the nodes. What one layer hands to the next is *R* bytes for each sample. Count what
# crosses the link in one direction (as much again goes the other way), per step of eight samples:
#
# - **tensor inside** the nodes, pipeline between them: both tensor ranks of stage 0 send their *R* bytes once
#   per sample.
# - **tensor between** the nodes, pipeline inside them: four all-reduces in each of eight layers, one more for
#   the embedding and one for the loss. In an all-reduce of two, each sends the whole size once.
# - **data only**, for comparison: one all-reduce of all gradients in a ring of four. Each sends 1.5 times
#   their size (lesson 03), once per step, however many samples there were.

# %% id="link-bytes"
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
# **Predict.** Each layout runs twice, over a link of 1 Gbit/s and over one of 0.1 Gbit/s. (On a real cluster once,
# over the link that is there.) A link of 0.1 Gbit/s needs 80 ms for a megabyte. How long will a step take there, at
# least, with tensor parallelism between the nodes?

# %% id="link-guess"
guess_slow_ms = 200  # change it to your own guess

# %% id="link-labs"
SLOW_GBIT_PER_S = 0.1
if lab.site.box:
    labs = {"fast": lab.but(link_gbit=1.0), "slow": lab.but(link_gbit=SLOW_GBIT_PER_S)}
    link_names = {"fast": "1 Gbit/s", "slow": f"{SLOW_GBIT_PER_S} Gbit/s"}
else:
    labs, link_names = {"fast": lab}, {"fast": "your link"}
    print("The link of a real cluster is what it is. Each layout runs once, over that link;")
    print("what a slow link would make of it is computed below, not measured.")

# %% id="link-run"
layouts = {
    "tensor inside": {"tensor": 2, "pipeline": 2},
    "tensor between": {
        "tensor": 2,
        "pipeline": 2,
        "rank_order": "pp-cp-dp-tp",
    },
    "data only": {},
}


def four_devices(name, layout):
    return gpt.recipe(
        name,
        nodes=2,
        gpus_per_node=2,
        model=deep,
        mock_data=True,
        micro_batch=1,
        global_batch=samples,
        iterations=3,
        **layout,
    )


runs = {}
for speed, its_lab in labs.items():
    for name, layout in layouts.items():
        recipe = four_devices(f"{name.replace(' ', '-')}-{speed}", layout)
        runs[name, speed] = its_lab.submit(recipe).require()


# %% id="link-see"
def step_ms(run):
    """Median over the iterations after the first, which sets things up."""
    return float(run.log.iterations["elapsed_ms"].iloc[1:].median())


# A megabyte is 8 Mbit, and 1 Gbit/s is 1 Mbit per ms.
slow_link_ms = {name: 8 * mb / SLOW_GBIT_PER_S for name, mb in over_the_link_mb.items()}
measured_ms = {
    speed: {name: step_ms(runs[name, speed]) for name in layouts} for speed in link_names
}
at_least_ms = slow_link_ms["tensor between"]
print(f"tensor parallelism over a slow link: you guessed {guess_slow_ms} ms;")
print(f"its megabytes alone need {at_least_ms:.0f} ms at {SLOW_GBIT_PER_S} Gbit/s")
columns = {f"{link_names[speed]}: step (ms)": steps for speed, steps in measured_ms.items()}
pd.DataFrame(
    {
        "over the link (MB)": over_the_link_mb,
        **columns,
        f"{SLOW_GBIT_PER_S} Gbit/s: link alone (ms)": slow_link_ms,
    }
).round(1)

# %% id="link-figure"
if "slow" in labs:
    figure = show.predicted(slow_link_ms, measured_ms["slow"], unit="ms", what="one step")
else:
    figure = show.throughput(*runs.values(), unit="ms")
figure

# %% [markdown] id="link-explain"
# *For each layout: the time that its megabytes need on the slow link if nothing else took any, and the step as
# it was. (On a real cluster: the time of each iteration of the three runs.)*
#
# **Explain.** The likely wrong thought is that a layout is fast or slow by itself. On the fast link the three
# may come out in any order, because there the arithmetic decides, and how busy your processors are. On the slow
# link no step can be shorter than its megabytes need. Where the two bars are about equal, the devices do little
# but wait for the link; where the measured bar is much longer, the link has time to spare. (If a measured bar is
# the *shorter* one, your nodes share one network that nobody could slow down; `sinfo` then says so in a note.)
#
# On a real cluster there is one measured column. Its link is most likely a fast one, so read it as above: any order.
# The last column says what the same steps would take at the least if the link were slow. For your own link, divide
# the megabytes by the bandwidth that you measured in lesson 04.
#
# Tensor parallelism between the nodes sends the most, and the next product cannot begin before each message has
# arrived. The pipeline's few messages travel while the next micro-batch is computed. In megabytes *data only*
# lies between the two, and its volume is the only one that does not grow with the batch.
#
# Hence the rule that most large runs follow: **tensor parallelism inside a node, where links are fastest;
# pipeline parallelism between nodes; data parallelism outermost**, with as many samples per step as learning can
# stand. Published for comparison: a model of one trillion parameters on 3072 A100 devices, eight in a node, was
# trained with tensor 8, pipeline 64 and data 6, and reached 52 % of the devices' peak (Narayanan and others,
# 2021, arXiv 2104.04473).
#
# And all these runs trained the *same* model. How it is cut changes where a number is computed, not what comes out:

# %% id="link-same"
losses = pd.DataFrame({key: run.log.iterations["lm_loss"] for key, run in runs.items()})
spread = (losses.max(axis=1) - losses.min(axis=1)).max()
print(f"losses of the first run: {', '.join(f'{loss:.4f}' for loss in losses.iloc[:, 0])}")
print(f"the {len(runs)} runs differ from each other by {spread:.6f} at most")

# %% [markdown] id="ex1" tags=["exercise"]
# ## Exercises
#
# > **Exercise 07.1** — Below is what a batch script starts, with gaps. Fill them so that the model is trained
# > with tensor 2 × pipeline 2 on the four devices of **both** nodes, tensor parallelism **inside** the nodes,
# > and so that every step sends **four** micro-batches of 2 samples through the pipeline. (The heading and the
# > set-up lines are added by the library, as `lab.script(hybrid)` shows once the gaps are filled.)

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
    --record-memory-history --profile-step-start 8 --profile-step-end 10
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
check.ex07_hybrid(hybrid_run)

# %% [markdown] id="ex1-why" tags=["solution"]
# Two processes on each of two nodes make a world of four, and 2 × 2 uses it up: the data-parallel size is 1. So
# the global batch is the micro-batch times the number of micro-batches, 2 × 4 = 8; four devices do *not* mean
# four times as many samples here. The order `tp-cp-dp-pp` puts tensor first, so that ranks 0 and 1, which share
# a node, share every matrix. The log says what became of it:

# %% id="ex1-world" tags=["solution"]
# !grep -E "using world size|number of microbatches" {hybrid_run.log_file}
show.memory_ranks(hybrid_run.memory)

# %% [markdown] id="ex1-memory" tags=["solution"]
# *Memory of the four ranks.* Ranks 0 and 1 are the two halves of stage 0 and have the same curve, and so have 2
# and 3. Up to two micro-batches pile up on stage 0, one on stage 1: that is 1F1B. How much of the background is
# pink tells how much of the time goes into exchanging and waiting.

# %% [markdown] id="ex2" tags=["exercise"]
# > **Exercise 07.2** — A pipeline of **eight** stages runs with 1F1B. What is the smallest number of
# > micro-batches with which at most 10 % of the whole time is bubble?

# %% id="ex2-gap" tags=["exercise"]
### BEGIN SOLUTION
### GAP micro_batches_needed = ...
micro_batches_needed = 63
### END SOLUTION

# %% id="ex2-check" tags=["check"]
check.ex07_bubble(micro_batches_needed)

# %% [markdown] id="ex2-why" tags=["solution"]
# 7 / (*m* + 7) is to be at most 1/10, so *m* + 7 is at least 70: 63 micro-batches. The other bubble, relative to
# the work, would ask for 7 / *m* ≤ 1/10, which is 70. Interleaved with two chunks needs half as many, 32. This
# is why deep pipelines need large batches, and why they are the last kind of parallelism that one reaches for.

# %% [markdown] id="ex3" tags=["exercise"]
# > **Exercise 07.3** — Look at the table of megabytes once more. With eight samples per step, *tensor inside*
# > sends least over the link. From which global batch on does *data only* send no more than that? (Both keep
# > their layout; the batch must be one that four copies can share evenly.)

# %% id="ex3-gap" tags=["exercise"]
data_only = runs["data only", "fast"]
### BEGIN SOLUTION
### GAP crossing_batch = ...
crossing_batch = 4 * int(np.ceil(1.5 * gradients_mb / (2 * rows_mb) / 4))
### END SOLUTION

# %% id="ex3-check" tags=["check"]
check.ex07_crossing(crossing_batch, data_only)

# %% [markdown] id="ex3-why" tags=["solution"]
# The pipeline sends 2 *R* for every sample, data parallelism 1.5 times the gradients once per step. The two are
# equal where the number of samples is 1.5 × gradients / (2 *R*); rounded up to a multiple of four. Beyond it,
# copying the whole model is the cheapest way to use a slow link, provided that it fits into one device.

# %% [markdown] id="challenge" tags=["exercise"]
# > **For the quick** — There is an order of work with a much shorter bubble, `schedule="zero-bubble"` (some is
# > left in spite of the name): it cuts the backward pass in two, and moves the half that nobody waits for into
# > the gaps. Draw it with `show.schedule`, run it like the others in the table, and find out what it costs. Then
# > give the model its real vocabulary back (`model="tiny"`): which stage becomes the long one, and which bubble
# > does the formula not know of?

# %% [markdown] id="home"
# ## To take home
#
# - Tensor parallelism cuts every matrix: four all-reduces per layer, each of them waited for. Keep it inside a
#   node.
# - Pipeline parallelism deals out layers: few messages, but a bubble of (*p* − 1) / (*m* + *p* − 1) of the time.
#   Ask which of the two bubbles a number means.
# - 1F1B has GPipe's bubble with far less memory; interleaving shortens the bubble and sends more.
# - The flat part in a memory curve is a stage that waits with its hands full.
# - World size = tensor × pipeline × data (× context), and ranks that exchange most get neighbouring numbers.

# %% [markdown] id="clean-idea"
# ## Cleaning up
#
# The runs that the exercises look at stay, so that their checks can be run again.

# %% id="clean"
others = [run for run in runs.values() if run.name != data_only.name]
lab.clean(*pipes.values(), *orders.values(), *others, yes=True)
