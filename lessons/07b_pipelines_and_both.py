# %% [markdown] id="title"
# # 07b Pipelines, and both together
#
# The other way to cut a model that does not fit is between its layers: every device gets some of them, and
# the samples pass from one to the next. Very little travels. But somebody always waits, and how long depends on the
# order in which the work is done. Then you combine pipelines with the tensor parallelism of lesson 07, which is
# what *hybrid* means, and choose which of the two crosses the slow link.
#
# | | |
# |---|---|
# | You will be able to | predict, draw and measure the bubble of a pipeline; say what each schedule wins and what it costs; read a schedule in a memory curve; lay ranks out on a grid that suits the links |
# | Minutes | 35 |
# | Devices | 2 nodes with 2 devices each |
# | Before | lessons 06 and 07 |

# %% id="begin"
import numpy as np
import pandas as pd

from course_lib import Lab, check, claim, gpt, plan, predict, shell, show

lab = Lab()

# %% [markdown] id="pipeline-idea"
# ## Deal out the layers
#
# The first device takes the first layers, the next device those after them, and so on. Each part is a **stage**. A
# stage sends its output to the next, and gets back the gradient of it. But look at who works when:

# %% id="pipeline-naive"
show.schedule("naive", stages=4, micro_batches=1)

# %% [markdown] id="pipeline-naive-explain"
# *Four stages, one batch. A backward pass is drawn twice as long as a forward pass, which is what its
# arithmetic asks for.*
#
# One stage works, the others wait. The hatched waiting is called the **bubble**. Four devices are as fast as one
# here; all that was won is room. The remedy is to cut the batch into **micro-batches** and to send one after the
# other, so that stage 1 works on the first while stage 0 works on the second.
#
# **Predict.** Four stages, and a batch cut into eight micro-batches. How many times as fast as **one** device (that
# had room for everything) are the four, at best?

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
# *Here with four micro-batches, the time in forward passes. Left in each frame: what every stage does at that moment, and how much it holds.
# Right: what it has done so far.*
#
# What a stage holds is counted in micro-batches: everything that the forward pass of *one* of them leaves in the
# layers of this stage, until its backward pass has used it.
#
# Now count the bubble. Take the time that one stage needs for one micro-batch, forward and backward, as the unit.
# With *p* stages and *m* micro-batches each stage works for *m* units. The last stage cannot begin before the first
# micro-batch has passed the *p* − 1 stages before it, and the first cannot end before the last gradient has come back
# through them. Together these delays are *p* − 1 units, so a step lasts *m* + *p* − 1 units:
#
# - idle share of the **whole time**: (*p* − 1) / (*m* + *p* − 1)
# - idle time **relative to the work**: (*p* − 1) / *m*
#
# Both are called "the bubble". Figures mostly show the first, papers mostly write the second, and a
# number without this remark is worth little: with *m* = *p* − 1 the one says 50 %, the other 100 %. Here it is
# always the share of the whole time.

# %% id="bubble-see"
times_faster.compare(4 * 8 / (8 + 4 - 1))

# %% [markdown] id="schedule-idea"
# ## Four ways to order the same work
#
# If all *m* micro-batches go forward before the first comes back, stage 0 keeps *m* times those activations. That
# is the price of a small bubble, unless the order of work changes.
#
# - **GPipe**: all forward passes, then all backward passes.
# - **1F1B**: as soon as a backward pass can run, it does; one forward, one backward, in turn. The bubble is as long
#   as before, but a stage keeps at most as many micro-batches as there are stages from it to the end.
# - **Interleaved**: every device holds two (or more) thin *chunks* of layers: of eight layers on four devices, the
#   first one has 0 and 4. The pipeline fills in half the time, so the bubble is half as long. Messages are more than twice as many.
# - **Zero-bubble**: the backward pass is cut in two. The stage before waits for the gradient of the *inputs* only; that
#   of the *weights* can be made later, in the gaps. (This one leaves a bubble of (*p* − 1)(*F* + *B* − *W*), where *F*, *B* and *W* are forward, inputs and weights of one
#   micro-batch: a third of the bubble before if the three take equally long. Others leave less, and some of them keep more.)

# %% id="schedule-1f1b"
show.schedule("1f1b", stages=4, micro_batches=8)

# %% id="schedule-interleaved"
show.schedule("interleaved", stages=4, micro_batches=8)

# %% id="schedule-zero"
show.schedule("zero-bubble", stages=4, micro_batches=8)

# %% [markdown] id="schedule-predict"
# *Three of them for four stages and eight micro-batches. In the second picture, paler colours are the second chunk.*
#
# **Predict.** The same four stages and eight micro-batches will now run in all four orders. By which factor do the
# **activations at the peak** of stage 0 differ between GPipe and 1F1B? (Look at who works on what in the first picture.)

# %% id="schedule-guess"
### BEGIN SOLUTION
### GAP guess_memory_factor = ...  # your number in place of the dots
guess_memory_factor = 4
### END SOLUTION

# %% [markdown] id="schedule-run-idea"
# The model is made for this measurement: eight equal layers, and a vocabulary of only 128 tokens. With a large one the
# last stage, which turns the output into a guess for every token, would be much longer than the others. (The data are
# random tokens: nothing can be learned from them, but the arithmetic takes as long.)

# %% id="schedule-run"
memory_factor = predict(
    "07b: activations of GPipe over those of 1F1B on stage 0", guess_memory_factor
)
even = plan.Model("even", layers=8, hidden=768, heads=12, sequence=64, vocabulary=128, tied=False)
STAGES, MICRO_BATCHES = 4, 8


def four_stages(name, micro_batches=MICRO_BATCHES, **changes):
    """A pipeline over both nodes, micro-batches of one sample, two steps recorded."""
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


orders = {
    "GPipe": lab.submit(four_stages("pipe-gpipe", schedule="gpipe")),
    "1F1B": lab.submit(four_stages("pipe-1f1b")),
    "interleaved": lab.submit(four_stages("pipe-interleaved", virtual=2)),
    "zero-bubble": lab.submit(four_stages("pipe-zero", schedule="zero-bubble")),
}
for run in orders.values():
    run.require()

# %% [markdown] id="measure-idea"
# The memory traces of the runs also note when each forward and backward pass began and ended. From the first pass of
# any stage to the last one, which share of the stages' time was no pass? Of the recorded steps the quicker one counts,
# which was disturbed less. (The formula of zero-bubble needs *F*, *B* and *W*: they are taken from its own record.)


# %% id="measure"
def quickest_step(run):
    """Of the recorded steps the one that took least time."""
    return plan.bubbles(run.memory).sort_values("whole_ms").iloc[0]


def thirds_ms(run):
    """Forward, inputs and weights of one micro-batch, as the median stage takes them."""
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
# *The same step of 1F1B as it really was. Numbers are micro-batches.*
#
# **Explain.** If you guessed nearly 4 times as fast, you thought that eight micro-batches hide the waiting. They do not:
# the bubble is as long as *p* − 1 of them. Three units of eleven are lost, and 2.9 devices remain.
#
# The measured bubbles mostly lie above theory. The figure shows two causes: passes are not equally long, though the formulas
# suppose that all of a kind are, and between them are gaps in which a message is on its way. Whoever is late makes the next
# stage late. How much of it is the first cause? Put the recorded passes together once more, in the same order and each as
# long as it was, but let every one begin as soon as its input is made:

# %% id="measure-why"
undelayed = {name: step["undelayed_percent"] for name, step in steps.items()}
pd.DataFrame({"theory": theory, "unequal passes": undelayed, "measured": measured}).round(1)

# %% id="measure-claim" tags=["claim"]
for name in orders:
    claim(
        f"{name}: the measured bubble less that of its unequal passes",
        measured[name] - undelayed[name],
        least=-0.5,
        most=6,
        unit="points",
    )
    claim(
        f"{name}: its bubble lies above theory by so many points",
        measured[name] - theory[name],
        least=-1,
        most=8,
        unit="points",
    )
claim(
    "messages cost the interleaved order more than 1F1B by",
    (measured["interleaved"] - undelayed["interleaved"]) - (measured["1F1B"] - undelayed["1F1B"]),
    least=0,
    unit="points",
)
claim(
    "the interleaved bubble is smaller than 1F1B's by",
    measured["1F1B"] - measured["interleaved"],
    least=3,
    unit="points",
)
claim(
    "the zero-bubble schedule's is smaller than 1F1B's by",
    measured["1F1B"] - measured["zero-bubble"],
    least=5,
    unit="points",
)

# %% [markdown] id="measure-rest"
# *Bubbles in percent of the time.* The difference between the last two columns is messages, and whatever else delays a
# pass: little for each, but there are many, and more than twice as many with chunks. So messages take back a part of what the
# interleaved order wins: compare its last two columns with those of 1F1B.

# %% id="schedule-table"
activations_mb = {
    name: run.memory[0].peak_composition["activations"] / 1e6 for name, run in orders.items()
}
memory_factor.compare(activations_mb["GPipe"] / activations_mb["1F1B"])
show.memory_compare({name: run.memory.only("activations") for name, run in orders.items()})

# %% id="schedule-claim" tags=["claim"]
claim(
    "activations of GPipe on stage 0, over those of 1F1B",
    activations_mb["GPipe"] / activations_mb["1F1B"],
    least=1.6,
    most=2.1,
    unit="times",
)

# %% [markdown] id="schedule-explain"
# *Activations of stage 0 under the four orders. Parameters, gradients and the optimizer's numbers lie under them, the
# same in all four.*
#
# **Explain.** Eight against *four*: stage 0 of four stages keeps four micro-batches under 1F1B, whatever *m* is. With
# 64 micro-batches the factor would be 16, and 1F1B pays nothing for it: hardly anybody uses GPipe's order any more.
# The interleaved order keeps more, since more chunks are filled before the first backward pass.

# %% [markdown] id="flat-idea"
# ## What the waiting looks like in memory
#
# On one device the activations make a hump (lesson 06). Where its top is flat on the box, the slot sleeps to keep its pace. Here
# look for flat parts in the *pink* phases, in which a stage waits for a message.
#
# **Predict.** Four stages, *one* micro-batch. Which stage has the **longest** flat part between rising and falling?

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
    """From the end of a forward pass to the beginning of the backward pass."""
    phases = single.memory[rank].phases
    ends = phases[phases["phase"] == "forward"]["end_us"].to_numpy()
    begins = phases[phases["phase"] == "backward"]["begin_us"].to_numpy()
    return float(np.median(begins - ends)) / 1000


flat_parts = pd.Series({f"stage {rank}": flat_ms(rank) for rank in range(STAGES)})
print("flat part in ms:")
print(flat_parts.round(1).to_string())
flat.compare(flat_parts.idxmax())

# %% id="flat-claim" tags=["claim"]
claim("stage 0 holds its activations longest", flat_parts.idxmax() == "stage 0")

# %% [markdown] id="flat-explain"
# *Activations of the stages (rank 0 is stage 0) with one micro-batch. In the pink phases a stage waits for a message.*
#
# **Explain.** It is **stage 0**. It keeps what its forward pass left behind, and can do nothing until the gradient
# comes back through all later stages: the bubble, seen from the side, with full hands. The last stage turns round at
# once. It does wait, but before its forward pass and after its backward pass, with empty ones.

# %% [markdown] id="grid-idea"
# ## Both at once: the grid of ranks
#
# Tensor, pipeline and data parallelism multiply: 2 × 2 × 2 needs eight devices. Each rank then belongs to three
# groups: those with whom it shares every matrix, those before and after it in the pipeline, and those who hold the
# same part of the model and see other samples. Which ranks these are follows from an order such as `tp-dp-pp`: the
# first axis varies fastest as ranks are counted.
#
# **Predict.** Eight ranks on two nodes with four devices each, order `tp-dp-pp`. To which rank does rank 3 send its
# activations?

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
# *Each panel shows all ranks, one row for each node; ranks of one colour belong to the same group. (4 × 2): four groups of
# two.*
#
# **Explain.** Rank 3 shares its matrices with rank 2 and sends to rank 7. Neighbours in the first axis are neighbours
# in number, so they sit on the same node. The last axis jumps furthest. (If you expected 5, you left out the data axis,
# which lies between.)
#
# Tensor parallelism comes first in every order that people use. About the other two they differ. `tp-…-dp-pp`, the
# habit of Megatron-LM, sends the pipeline's few messages over the longest roads; a published run of 405 billion
# parameters (arXiv 2407.21783) put data outermost and the pipeline before it, because what the copies of a sharded
# model exchange can be sent ahead of time, while a late micro-batch delays everybody.
#
# On your four devices there are two ways to combine tensor 2 with pipeline 2. (`cp` is context parallelism; its size is
# 1 here, as is that of `dp`.)

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
# The arithmetic is the same in both, and so is the number of messages. What differs is *which* of them cross the link.
# What one layer hands to the next is *R* bytes for each sample. Count what crosses in one direction (as much again goes
# the other way), per step of eight samples:
#
# - **tensor inside** the nodes, pipeline between them: both tensor ranks of stage 0 send their *R* bytes once
#   per sample.
# - **tensor between** the nodes, pipeline inside them: four all-reduces in each of eight layers, one more for
#   the embedding and one for the output. In an all-reduce of two, each sends the whole size once.
# - **data only**, for comparison: one all-reduce of all gradients in a ring of four. Each sends 1.5 times
#   their size (lesson 03), once per step, however many samples there were.

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
# **Predict.** On the box each layout runs over a slow link of 0.1 Gbit/s, on a real cluster over its own. How many times
# as long as with *tensor inside* will a step take with *tensor between*?

# %% id="link-guess"
### BEGIN SOLUTION
### GAP guess_between = ...  # your number in place of the dots
guess_between = 1.2
### END SOLUTION

# %% id="link-run"
between = predict(
    "07b: a step with tensor between nodes, over tensor inside", guess_between, unit="times"
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


runs = {
    name: far.submit(four_devices(name.replace(" ", "-"), layout))
    for name, layout in layouts.items()
}
for run in runs.values():
    run.require()


# %% id="link-see"
def step_ms(run):
    """Median over the iterations after the first, which sets things up."""
    return float(run.log.iterations["elapsed_ms"].iloc[1:].median())


measured_ms = {name: step_ms(run) for name, run in runs.items()}
times = measured_ms["tensor between"] / measured_ms["tensor inside"]
between.compare(times)
# A megabyte is 8 Mbit, and 1 Gbit/s is 1 Mbit per ms.
link_alone_ms = {name: 8 * mb / LINK_GBIT_PER_S for name, mb in over_the_link_mb.items()}
if lab.site.box:
    figure = show.predicted(link_alone_ms, measured_ms, unit="ms", what="one step")
else:
    figure = show.throughput(*runs.values(), unit="ms")
figure

# %% id="link-claim" tags=["claim"]
claim("a step with tensor between nodes, over tensor inside", times, least=1.2, unit="times")

# %% [markdown] id="link-explain"
# *For each layout: the time that its megabytes alone need on the link, and the step as it was. "Predicted" is a
# **lower bound** where the link never rests: there is no arithmetic in it, no latency and no bubble. (Flat mode cannot slow its link, and steps take less there. After a pause the
# box's link lets the first 128 KiB through at once, as in lesson 07. On a real cluster: the time of each iteration.)*

# %% id="link-words"
if times > 1.2:
    print("The same arithmetic, the same model, another numbering of the ranks:")
    print(f"{measured_ms['tensor between'] - measured_ms['tensor inside']:.0f} ms more per step.")
else:
    print("Here the numbering of the ranks makes no difference: the road between your nodes is")
    print(
        "nearly as good as the one inside. (On the box `sinfo` says so if nobody could slow it down.)"
    )

# %% [markdown] id="link-rule"
# **Explain.** Tensor parallelism between the nodes sends the most, and each message is waited for. (The other stage uses
# the link meanwhile: a slow one is hardly ever idle.) The pipeline has the fewest to send, and a part of that travels while
# another micro-batch is computed. *Data only* lies between them in bytes, has no bubble, and its volume is the only one that does not grow with
# the batch. And the tensor ranks *inside* a node pay as well, for 68 all-reduces each in every step: what lesson 07
# measured.
#
# Hence the usual rule: **tensor parallelism inside a node, pipeline parallelism between nodes, and all other devices
# for data parallelism** (sharded, where that lets the pipeline be shorter), with as many samples per step as
# learning can stand. Published for comparison: a model of one trillion parameters on 3072 A100 devices, eight in
# a node, was trained with tensor 8, pipeline 64 and data 6, and reached 52 % of the devices' peak (Narayanan and
# others, 2021, arXiv 2104.04473).

# %% id="link-same"
losses = pd.DataFrame({name: run.log.iterations["lm_loss"] for name, run in runs.items()})
spread = float((losses.max(axis=1) - losses.min(axis=1)).max())
print(f"the {len(runs)} runs train the same model: they differ by {spread:.6f} at most")

# %% id="link-same-claim" tags=["claim"]
claim("however the model is cut, the losses agree", spread, most=1e-3)

# %% [markdown] id="ex1" tags=["exercise"]
# ## Exercises
#
# > **Exercise 07b.1** — Below is what a batch script starts, with gaps. Fill them so that the model is trained
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
# Two processes on each of two nodes make a world of four, and 2 × 2 uses it up: the data-parallel size is 1. So
# the global batch is the micro-batch times the number of micro-batches, 2 × 4 = 8; four devices do *not* mean
# four times as many samples here. The order `tp-cp-dp-pp` puts tensor first, so that ranks 0 and 1, which share
# a node, share every matrix. (`--rank-order` is the course's own flag. Megatron-LM's programs put tensor first in any case;
# with `--use-tp-pp-dp-mapping` pipeline comes before data.) The log says what became of it:

# %% id="ex1-world" tags=["solution"]
# !grep -E "using world size|number of microbatches" "{hybrid_run.log_file}"
show.memory_ranks(hybrid_run.memory, ranks=[0, 2])

# %% [markdown] id="ex1-memory" tags=["solution"]
# *Memory over the last step, of one rank of each stage.* Ranks 0 and 1 are the two halves of stage 0 and have the
# same curve, and so have 2 and 3. Up to two micro-batches pile up on stage 0, one on stage 1: that is 1F1B.

# %% [markdown] id="ex2" tags=["exercise"]
# > **Exercise 07b.2** — A pipeline of **eight** stages runs with 1F1B. What is the smallest number of
# > micro-batches with which at most 10 % of the whole time is bubble?

# %% id="ex2-gap" tags=["exercise"]
### BEGIN SOLUTION
### GAP micro_batches_needed = ...
micro_batches_needed = 63
### END SOLUTION

# %% id="ex2-check" tags=["check"]
check.ex07b_bubble(micro_batches_needed)

# %% [markdown] id="ex2-why" tags=["solution"]
# 7 / (*m* + 7) is to be at most 1/10, so *m* + 7 is at least 70: 63 micro-batches. The other bubble, relative to
# the work, would ask for 7 / *m* ≤ 1/10, which is 70. Interleaved with two chunks needs half as many, 32. This
# is why deep pipelines need large batches, and why they are the last kind of parallelism that one reaches for.

# %% [markdown] id="ex3" tags=["exercise"]
# > **Exercise 07b.3** — Look at the table of megabytes once more. With eight samples per step, *tensor inside*
# > sends least over the link. From which global batch on does *data only* send no more than that? (Both keep
# > their layout; the batch must be one that four copies can share evenly.)

# %% id="ex3-gap" tags=["exercise"]
data_only = runs["data only"]
### BEGIN SOLUTION
### GAP crossing_batch = ...
crossing_batch = 4 * int(np.ceil(1.5 * gradients_mb / (2 * rows_mb) / 4))
### END SOLUTION

# %% id="ex3-check" tags=["check"]
check.ex07b_crossing(crossing_batch, data_only)

# %% [markdown] id="ex3-why" tags=["solution"]
# The pipeline sends 2 *R* for every sample, data parallelism 1.5 times the gradients once per step. The two are
# equal where the number of samples is 1.5 × gradients / (2 *R*); rounded up to a multiple of four. Beyond it,
# copying the whole model is the cheapest way to use a slow link, provided that it fits into one device.

# %% [markdown] id="challenge" tags=["exercise"]
# > **Going further** — Give the model of the schedules a real vocabulary (`even.but(vocabulary=8192)`): which stage
# > becomes the long one, and which bubble does the formula not know of? Then run 1F1B with 16 and 32 micro-batches.
# > The bubble shrinks, but a step has more samples: what would you do if the global batch must stay?

# %% [markdown] id="home"
# ## To take home
#
# - Pipeline parallelism deals out layers: few messages, but a bubble of (*p* − 1) / (*m* + *p* − 1) of the time.
#   Ask which of the two bubbles a number means.
# - 1F1B has GPipe's bubble with far less memory; interleaving shortens it and sends more; splitting the backward pass
#   shortens it too.
# - A flat part in a memory curve, *between* the passes, is a stage that waits with its hands full.
# - World size = tensor × pipeline × data (× context), and ranks that exchange most get neighbouring numbers.

# %% [markdown] id="clean-idea"
# ## Cleaning up
#
# The runs that the exercises look at stay, so that their checks can be run again.

# %% id="clean"
others = [run for run in runs.values() if run.name != data_only.name]
lab.clean(*orders.values(), single, *others, yes=True)
