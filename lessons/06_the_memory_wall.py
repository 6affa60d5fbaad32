# %% [markdown] id="title"
# # 06 The memory wall
#
# A device that is too slow makes you wait. A device whose memory is full makes you stop, and most of the lessons
# after this one exist to get round it. Here you run into the wall on purpose, read what is left of the run, and then
# work out where the wall stood all the time.
#
# | | |
# |---|---|
# | You will be able to | say what fills a device's memory and when; find an out-of-memory error in the log of a job and tell which tensor caused it; predict the largest batch that fits from two cheap runs; say what a larger batch does for speed; say what ZeRO shares among the copies, and which way of sharing suits which problem |
# | Minutes | 45 |
# | Devices | 2 nodes with 2 devices each |
# | Before | lesson 03 |

# %% id="begin"
import math

import pandas as pd

from course_lib import Lab, check, claim, gpt, plan, predict, show

lab = Lab()
MIB = 2**20

# %% [markdown] id="parts-idea"
# ## What lies in the memory
#
# While a model trains, five kinds of things share the memory of its device:
#
# | kind | how much | how long it stays |
# |---|---|---|
# | parameters | one number each, 4 bytes in `float32` | the whole run |
# | gradients | one number for every parameter | here the whole run, in one buffer that is filled anew in each step; plain PyTorch frees them after a step (`zero_grad`) and makes them again |
# | optimizer state | Adam keeps two running means for every parameter: 8 bytes | the whole run, **from the end of the first step on** |
# | activations | what the forward pass leaves behind because the backward pass will need it | from a sample's forward pass to its backward pass |
# | temporary | scratch space of single operations | an instant |
#
# The first three depend on the model alone: 4 + 4 + 8 = 16 bytes for every parameter. The model of lesson
# 03 has 1.86 million parameters, so they come to 28 MiB (1 MiB is 2²⁰ bytes). Activations depend on how
# many samples are on their way at once.
#
# **Predict.** A device takes a micro-batch of 4 samples, 128 tokens each. At the moment when its memory is
# fullest, which share of it is *not* parameters, gradients and optimizer state? And where in a step is
# that moment?

# %% id="parts-guess"
### BEGIN SOLUTION
### GAP guess_percent = ...  # your number in place of the dots
guess_percent = 10
### END SOLUTION

# %% [markdown] id="parts-run"
# `memory=(3, 5)` records every allocation of two steps, on every rank: of steps 3 and 4 counted from 0, which the
# log calls iterations 4 and 5.

# %% id="parts-submit"
rest = predict("06: share of the peak that does not stay", guess_percent, unit="%")
inside = lab.submit(gpt.recipe("inside", micro_batch=4, iterations=5, memory=(3, 5)))
inside.require()
show.memory(inside.memory[0])

# %% [markdown] id="parts-caption"
# *Memory of one device over two steps of training, by kind. The bands behind are the phases of a step. (Where nothing
# moves at the end of one, a slot of the box sleeps, to keep its pace.)*

# %% id="parts-see"
parts = pd.Series(inside.memory[0].peak_composition) / MIB
fixed = parts[["parameters", "gradients", "optimizer"]].sum()
print(parts.round(1).to_string(), "\n")
print(f"together {parts.sum():.1f} MiB, of which {fixed:.1f} MiB stay for the whole run")
rest.compare(100 * (1 - fixed / parts.sum()))

# %% id="parts-claim" tags=["claim"]
claim("activations are the largest part of the peak", parts["activations"] == parts.max())

# %% [markdown] id="parts-explain"
# **Explain.** The likely wrong thought is that the *model* fills the memory: "it has 7 MiB of parameters, so
# it fits anywhere". The flat floor of the picture is the model, with its gradients and its optimizer
# state. What stands on it grows during the forward pass, layer by layer, because every layer leaves
# something for later. It is highest at the turn from forward to backward, and melts away while the
# backward pass uses up what was left. Two steps, two humps. (In other programs the highest point may be elsewhere:
# an optimizer that works on all parameters at once makes copies of them, and so does a library that packs gradients
# into buckets.)
#
# Only the floor stays the same when the batch grows. The hump grows with it. So there is a batch that does
# not fit, on every device in the world.

# %% [markdown] id="gpu-idea"
# ## The same on a GPU?
#
# This very job was recorded on an NVIDIA H100, with 80 GB of memory and a rate of products that no laptop comes near.
#
# **Predict.** How many MiB does the peak have there?

# %% id="gpu-guess"
### BEGIN SOLUTION
### GAP guess_gpu_mib = ...  # your number in place of the dots
guess_gpu_mib = 500
### END SOLUTION

# %% id="gpu-see"
gpu_mib = predict("06: peak of the same job on a GPU", guess_gpu_mib, unit="MiB")
recorded = [run for run in lab.elsewhere(inside.recipe) if run.memory[0].device != "cpu"]
peaks = {"yours": inside.memory[0].peak_composition}
for run in recorded:
    peaks["on the GPU"] = run.memory[0].peak_composition
    gpu_mib.compare(run.memory[0].peak_bytes / MIB)
    steps_ms = [one.log.iterations["elapsed_ms"].min() for one in (inside, run)]
    print(f"{run.origin}\na step: {steps_ms[0]:.0f} ms where you are, {steps_ms[1]:.0f} ms there")
show.memory_kinds(peaks)

# %% id="gpu-claim" tags=["claim"]
for run in recorded:
    claim(
        "the peak on a GPU, over the peak here",
        run.memory[0].peak_bytes / inside.memory[0].peak_bytes,
        least=0.95,
        most=1.05,
        unit="times",
    )

# %% [markdown] id="gpu-explain"
# *What the peak of one job is made of, where you are and on an H100.*
#
# **Explain.** Memory is arithmetic. The shapes of the tensors and the bytes of a number decide, not who computes with them, and so
# a plan for a thousand GPUs can be checked on a laptop. Whoever guessed much more has seen what `nvidia-smi` says of a
# GPU, and was right about that. On the H100 the recorded tensors had 62 MiB at the peak, and the allocator counted
# 128: nearly all of the rest was working room of its library for products, 32 MiB for forward and 32 for backward. After a step, with
# the activations gone, the log still said 94 MiB allocated: the floor, that room, and a MiB or two besides. And one of two
# processes that talked by NCCL held 1 GiB of that card in all, since kernels and NCCL's buffers lie in the GPU's memory as
# well. Working room and kernels do not grow with the model, and beside 80 GB they are little. On a small GPU they are not.
# (Nor does the time of a step say much about that GPU: a model as small as this one leaves it idle most of the time,
# waiting for the program to start the next operator.)

# %% [markdown] id="double-idea"
# ## Double it until it breaks
#
# A device with 80 GB would let you double for a long time. The recipe's `device_memory_gib` makes a device behave as
# if it had less: on a GPU the allocator refuses to go further, else the operating system does. Both are real refusals.
# The rest is as in lesson 03, with one device on each node, since all are filled alike.

# %% id="double-recipe"
MEMORY_MIB = 160


def wall(name, micro_batch, **more):
    return gpt.recipe(
        name,
        nodes=2,
        gpus_per_node=1,
        micro_batch=micro_batch,
        iterations=3,
        log_memory_interval=1,  # report memory after every step
        device_memory_gib=MEMORY_MIB / 1024,
        **more,
    )


print(*[line for line in str(lab.script(wall("wall-2", 2))).splitlines() if "MEMORY" in line])

# %% [markdown] id="double-script"
# **Predict.** Doubling from 2 samples per device: at which micro-batch does a device with 160 MiB give up?
# The measurement above contains what you need.

# %% id="double-guess"
### BEGIN SOLUTION
### GAP guess_breaks_at = ...  # your number in place of the dots
guess_breaks_at = 64
### END SOLUTION

# %% id="double-run"
breaks_at = predict("06: micro-batch that 160 MiB cannot hold", guess_breaks_at, unit="samples")


def up_to_the_wall(sizes):
    """The runs up to the first that breaks."""
    runs = {}
    for micro_batch in sizes:
        run = runs[micro_batch] = lab.submit(wall(f"wall-{micro_batch}", micro_batch))
        run.wait()
        print(f"micro-batch {micro_batch}: {run.reason}")
        if run.failure or not run.ok:
            break
    return runs


runs = up_to_the_wall((2, 4, 8, 16, 32, 64))
completed = {batch: run for batch, run in runs.items() if run.ok}
broken_at = max(runs)
broken = None if broken_at in completed else runs[broken_at]
per_sample = (parts.sum() - fixed) / 4
print(f"\nby the trace: {fixed:.0f} MiB + {per_sample:.1f} MiB per sample, so")
print(f"{(MEMORY_MIB - fixed) / per_sample:.1f} samples would fit if tensors were all")
if broken:
    breaks_at.compare(broken_at)
else:
    print(f"even {broken_at} completed")
broken_log = broken.log_file if broken else "/dev/null"  # an empty log, if none broke

# %% id="double-words"
if not broken:
    print(
        "The logits of 64 samples alone are 256 MiB: the limit was not kept. Some machines cannot hold"
    )
    print(
        "a process to a limit (macOS). The next sections have little to show then; read them all the same."
    )
else:
    in_first = "elapsed time per iteration" not in broken.text
    at_start = fixed - parts["optimizer"]  # its state is made at the end of the first step
    tensors_mib = (at_start if in_first else fixed) + broken_at * per_sample
    where = "in the first step" if in_first else "in a later step"
    # A GPU's limit is that of its allocator, which knows nothing of the process.
    of_process = ", and the process itself." if inside.memory[0].device == "cpu" else "."
    print(f"{broken_at} samples, {where}: {tensors_mib:.0f} MiB of tensors for {MEMORY_MIB} MiB.")
    if tensors_mib < 0.95 * MEMORY_MIB:
        print("Something else took room as well:")
        if in_first:
            print("pieces between tensors that no other fits into" + of_process)
        else:
            print("see 'Where the wall stands'.")
    elif tensors_mib < 1.05 * MEMORY_MIB:
        print("So close that the smallest other thing decides.")
    else:
        print("They cannot fit.")

# %% [markdown] id="log-idea"
# ## What is left of a run that broke
#
# Nobody was watching. There is a state, an exit code, and a log. First question: how far did it get?

# %% id="log-lines"
# !grep -c "elapsed time per iteration" "{broken_log}"

# %% [markdown] id="log-first"
# That is the number of finished steps. A run that is too large usually has none: a world line, but no iteration line.
# (One that is *nearly* too large may finish a step and break in the second. Look at the table at the top: which kind
# of memory is not there yet during the first?)
#
# Second question: what did it say?

# %% id="log-grep"
# !grep -n -i "out of memory" "{broken_log}"

# %% [markdown] id="log-explain"
# Read this line slowly, it says nearly everything:
#
# | words | mean |
# |---|---|
# | `[rank…]` | which process; several may break at once, in any order |
# | `Tried to allocate …` | the size of **one** tensor that was wanted at this moment: not how much is missing. (On a GPU, of the block for it: 2 MiB for up to 1 MiB, 20 MiB for less than 10, else the next multiple of 2.) |
# | `total capacity … of which … is free` | the free rest was smaller than that tensor, or too scattered for it |
# | `is in use`, `allocated` | what the process held already |
# | `… allowed` (on a GPU) | the limit that we set, which counts here instead of the capacity |
#
# Now look at the end of the log, which is what most people look at first:

# %% id="log-tail"
print(broken.tail(12) if broken else "no run broke on this machine")

# %% [markdown] id="log-tail-explain"
# Usually there is not a word about memory here. Launchers report that a process has ended with an error, Slurm that
# launchers failed. These are echoes. The cause is the *first* error, far above. This search is worth automating:

# %% id="log-failure"
print(broken.failure if broken else "no run broke on this machine")

# %% [markdown] id="tensor-idea"
# ### Which tensor was it?
#
# The message gives a size and no name. But sizes are products of a few numbers that you know. Here a sample has
# 128 tokens, the model is 128 wide, its MLPs are four times as wide inside, it has 4 attention heads and a vocabulary
# of 8192 tokens. The **logits** are the scores for the next token: a number for every token of the vocabulary, at every
# place of every sample. So compute the sizes of the usual suspects and compare.

# %% id="tensor-see"
tokens = broken_at * 128  # each sample has 128 tokens
suspects = {
    "input of a layer: tokens × width": tokens * 128,
    "inside an MLP: tokens × 4 × width": tokens * 4 * 128,
    "attention weights: heads × tokens × 128": 4 * tokens * 128,
    "logits: tokens × vocabulary": tokens * 8192,
}
asked = broken.failure.details.get("tried_bytes") if broken else None
tried_mib = asked / MIB if asked else float("nan")  # what is refused may be no tensor, and unnamed
on_gpu = inside.memory[0].device != "cpu"


def is_refused(numbers):
    """Numbers of 4 bytes, or on a GPU the block for them, are as large as what was refused."""
    mib = 4 * numbers / MIB
    block_mib = 2 if mib <= 1 else 20 if mib < 10 else 2 * math.ceil(mib / 2)
    return abs((block_mib if on_gpu else mib) - tried_mib) < 0.01


print(f"refused: {tried_mib:.2f} MiB" if asked else f"no size was told, with {broken_at} samples")
for name, numbers in suspects.items():
    same = "   <-- this size" if is_refused(numbers) else ""
    print(f"{4 * numbers / MIB:8.2f} MiB  {name}{same}")

# %% id="tensor-words"
found = [name for name, numbers in suspects.items() if is_refused(numbers)]
if any(name.startswith("logits") for name in found):
    print("It was the logits, by far the largest tensor of a model as narrow as this one.")
elif found:
    print(f"It was no logits, but something of the size of: {', '.join(found)}.")
elif asked:
    print(
        "It was none of them, perhaps a buffer of the allocator, of the optimizer or of the network."
    )

# %% [markdown] id="tensor-explain"
# **Explain.** The tensor that breaks a run is the drop that makes the bucket overflow, not the water in it. Where it
# is large itself, as logits are, making it smaller helps. Often it is small, and the memory was filled by others long
# before. (Ranks that do the same may be refused different tensors, where one came further than the other: if the log above has
# several such lines, compare them.) So the size tells *where* the program was when it broke, and the table of kinds above tells *what* to save.

# %% [markdown] id="line-idea"
# ## Where the wall stands
#
# Trying sizes until one breaks is expensive where each try waits in a queue for hours. But memory has only two terms,
# a floor and so much for each sample, and two points make a line. The runs above reported their memory after every
# step. Here are the reports of rank 0, from the largest that completed:

# %% id="line-report"
largest_done = max(completed)
reports = completed[largest_done].log.memory.query("rank == 0")
columns = ["allocated_mib", "max_allocated_mib"] if on_gpu else []
reports[["iteration", *columns, "reserved_mib", "max_reserved_mib"]]

# %% [markdown] id="line-report-explain"
# *Allocated* is what tensors occupy. *Reserved* is what the allocator has taken from the device; freed pieces it
# keeps for later, because asking the device is slow. The device's limit applies to what is reserved. (Without a GPU
# nobody counts what is allocated. What is reserved is then the memory that the process may write to, above what it
# had before the model was built.)
#
# The first report is usually lower than the next ones. Of course: when the first step was at its fullest, the
# optimizer's state did not exist yet. But is that all?

# %% id="growth"
growth_mib = reports["reserved_mib"].diff().iloc[1]
state_mib = 8 * inside.log.parameter_count / MIB
logits_mib = 4 * largest_done * 128 * 8192 / MIB
print(f"reserved grew by {growth_mib:.1f} MiB from the first report to the second")
print(f"the optimizer's state has {state_mib:.1f} MiB, the logits have {logits_mib:.1f} MiB")

# %% id="growth-words"
if abs(growth_mib - logits_mib) < 0.25 * logits_mib:
    print("So it was not the optimizer's state that needed new memory, but the logits.")
elif abs(growth_mib - state_mib) < 0.25 * state_mib:
    print("So it was the optimizer's state, and nothing else.")
else:
    print("So it was neither of the two alone.")

# %% [markdown] id="growth-explain"
# Where it was the **logits**, the story is this. At the end of the first step the place where the logits had been
# was free, and the new optimizer state moved in there. In the second step the logits came back, found their hole too
# small, and the allocator had to take a fresh piece from the device. Free memory that is cut into pieces too small to
# be of use is called **fragmentation**. It is one reason why reserved is more than allocated, and why a run may die
# in step 2 after a perfect step 1.
#
# So take the **last** report, not the first:


# %% id="line-peaks"
def peak_mib(run):
    """The most that rank 0 had reserved; None for a run that broke."""
    return float(run.log.memory["max_reserved_mib"].max()) if run.ok else None


for batch, run in completed.items():
    print(f"micro-batch {batch}: {peak_mib(run):.1f} MiB reserved")

# %% [markdown] id="line-predict"
# **Predict.** Draw a line through the two largest of these in your head: what is the largest micro-batch for
# 160 MiB, if 5 % are kept free?

# %% id="line-guess"
### BEGIN SOLUTION
### GAP guess_largest = ...  # your number in place of the dots
guess_largest = 12
### END SOLUTION


# %% id="line-table"
def samples_per_second(run):
    iterations = run.log.iterations
    last = iterations.iloc[1:]  # the first step also makes the optimizer's state
    return float((last["global_batch_size"] / last["elapsed_ms"] * 1000).median())


table = pd.DataFrame(
    {
        "micro_batch": list(runs),
        "peak_mib": [peak_mib(run) for run in runs.values()],
        "samples_per_second": [
            samples_per_second(run) if run.ok else None for run in runs.values()
        ],
    }
)
table.round(1)


# %% id="line-fit"
def line_through(batches, peaks):
    """MiB at batch 0, and MiB per sample."""
    per_sample = (peaks[1] - peaks[0]) / (batches[1] - batches[0])
    return peaks[0] - per_sample * batches[0], per_sample


fits_best = predict("06: largest micro-batch for 160 MiB", guess_largest, unit="samples")
two = table.dropna().tail(2)
measured = line_through(list(two["micro_batch"]), list(two["peak_mib"]))
MARGIN = 0.95  # allocators are not exact: plan with 95 % of the memory
largest = int((MARGIN * MEMORY_MIB - measured[0]) / measured[1])
print(f"floor {measured[0]:.1f} MiB, and {measured[1]:.2f} MiB for each sample")
fits_best.compare(largest)

# %% [markdown] id="plan-idea"
# ### The same without any run
#
# The planner adds up the same parts from the shape of the model alone. First beside the trace from the beginning of
# this lesson:


# %% id="plan-parts"
def planned_parts(recipe):
    estimate = plan.predict(gpt.model(recipe), gpt.layout(recipe), plan.box(), "course")
    parts = estimate.fullest.parts
    parts["activations"] += parts.pop("logits")  # the trace does not tell them apart
    return parts


show.memory_parts(planned_parts(inside.recipe), inside.memory[0].peak_composition)

# %% [markdown] id="plan-parts-caption"
# *What the planner expects at the peak of the run `inside`, and what was traced there.*
#
# So memory can be computed, tensor by tensor. Now the two lines, the planner's and the measured one, and the wall:


# %% id="plan-see"
def planned_mib(micro_batch):
    return sum(planned_parts(wall("planned", micro_batch)).values()) / MIB


planned = line_through([4, 8], [planned_mib(4), planned_mib(8)])
print(f"planned: floor {planned[0]:.1f} MiB, and {planned[1]:.2f} MiB for each sample")
show.batches(table, MEMORY_MIB, {"line through two runs": measured, "planned": planned})

# %% id="plan-claim" tags=["claim"]
traced = sum(inside.memory[0].peak_composition.values())
claim(
    "tensors planned at the peak, over those traced",
    sum(planned_parts(inside.recipe).values()) / traced,
    least=0.9,
    most=1.1,
    unit="times",
)
claim("a sample reserves no less than its tensors need", measured[1] >= planned[1])

# %% [markdown] id="plan-explain"
# *Left: what a device had reserved at most, against the micro-batch, with the memory that it has. Right: how
# fast the same runs were.*
#
# The planner counts tensors, and you have just seen how well. Why is the measured line another one?

# %% id="plan-words"
more_mib, logits_mib = measured[1] - planned[1], 4 * 128 * 8192 / MIB
print(f"each sample reserves {more_mib:.1f} MiB more than its tensors need;")
print(f"its logits have {logits_mib:.1f} MiB", end=", ")
if abs(more_mib - logits_mib) < 0.25 * logits_mib:
    print("and the hole that they do not fit into grows by as much")
else:
    print("so what else the allocator keeps in reserve decides here")
if measured[0] < fixed:
    print(
        f"the line begins at {measured[0]:.0f} MiB, below the {fixed:.0f} MiB that stay for the whole run:"
    )
    print("no run can need so little, so the line is no law for small batches")

# %% [markdown] id="plan-line"
# **Explain.** Where it is the logits: those of step 1 left a hole, the optimizer's
# state took its share of it, and what remains is too small for the logits of step 2; with every
# sample this useless rest grows by the logits of one. So the line is steeper than the planned one. And it may begin below the floor, since the state lies in
# the hole and asks for no room of its own. With a small batch there is hardly a hole, and the line does not hold: it does
# between the two points that it was drawn through and a little beyond, which is where you use it. The planner's line knows
# no holes and promises too much here; on a large device they are some per cent, for which people leave a margin.

# %% [markdown] id="check-idea"
# ### Is it true?
#
# A prediction is worth something if it could be wrong. One more job, with the batch that should just fit:

# %% id="check-run"
at_the_wall = lab.submit(wall(f"wall-{largest}", largest))
print(f"\nmicro-batch {largest}: {at_the_wall.wait()}")

# %% id="check-claim" tags=["claim"]
claim("the batch that the line promises fits", at_the_wall.failure is None and at_the_wall.ok)

# %% [markdown] id="check-explain"
# In real life one goes further below the wall than here: a single longer document, or an evaluation in between, would
# end a run of three weeks.

# %% [markdown] id="speed-idea"
# ## Is a larger batch faster?
#
# So far, "fill the memory" sounded like good advice.
#
# **Predict.** From the smallest to the largest batch that completed, by what factor do the samples per second grow? (From 2
# to 8 samples, say, the batch grows fourfold. Cover the figure, and the last column of the table above it.)

# %% id="speed-guess"
### BEGIN SOLUTION
### GAP guess_faster = ...  # your number in place of the dots
guess_faster = 4.0
### END SOLUTION

# %% id="speed-see"
faster = predict("06: speed with the largest batch over the smallest", guess_faster, unit="times")
done = table.dropna()
first, last = done.iloc[0], done.iloc[-1]
for name in ("micro_batch", "peak_mib", "samples_per_second"):
    print(f"{name:20} {first[name]:8.1f} -> {last[name]:8.1f}   × {last[name] / first[name]:.2f}")
faster.compare(last["samples_per_second"] / first["samples_per_second"])
gained = 100 * (last["samples_per_second"] / done.iloc[-2]["samples_per_second"] - 1)
print(f"the last doubling changed the speed by {gained:+.0f} %:", end=" ")
verdicts = {
    -5: "it no longer pays",
    5: "the curve is nearly flat here",
    15: "it pays less and less",
}
print(next((said for most, said in verdicts.items() if gained < most), "it still pays"))

# %% id="speed-claim" tags=["claim"]
claim(
    "speed grows by less than the batch does",
    (last["samples_per_second"] / first["samples_per_second"])
    / (last["micro_batch"] / first["micro_batch"]),
    most=0.9,
    unit="times",
)

# %% [markdown] id="speed-explain"
# **Explain.** Some costs of a step do not depend on the batch: sending the gradients, the optimizer, starting
# every operation. A larger batch spreads them over more samples, so speed rises at first. Once the arithmetic makes up
# most of the step, it hardly changes any more. A GPU gets there late: a small batch leaves most of it idle.
#
# On a device as small as this one the wall may come before the flat part. Then the largest batch that fits, less a margin, is the
# fastest. Where memory reaches further, the right batch is the smallest one on the flat part: more only takes memory. Whether a larger batch also *learns* as well per sample is another question.

# %% [markdown] id="zero-idea"
# ## Four copies of the same floor
#
# Data parallelism keeps the whole floor on **every** device: the same parameters, the same averaged gradients, the
# same optimizer state. That is a waste, and **ZeRO** ends it in three steps. With *d* copies, each device keeps
#
# | | parameters | gradients | optimizer state | what it costs |
# |---|---|---|---|---|
# | plain | 4 | 4 | 8 | an all-reduce of the gradients |
# | ZeRO-1 | 4 | 4 | 8 / *d* | each device gets the sums of *its* share of the gradients (reduce-scatter), updates its share of the parameters, and all collect the rest (all-gather). Together these send as much as the all-reduce. |
# | ZeRO-2 | 4 | 4 / *d* | 8 / *d* | the same; gradients must go as soon as they are made |
# | ZeRO-3, "FSDP" | 4 / *d* | 4 / *d* | 8 / *d* | every layer's parameters are collected when they are needed, in forward and once more in backward: half as much again |
#
# (Bytes for each parameter, in `float32`.) ZeRO does not cut the arithmetic: each device still computes whole layers
# for its own samples. And it does nothing about the hump.
#
# **Predict.** Four devices. The floor had 28 MiB. How many MiB of it does each device keep with ZeRO-1?

# %% id="zero-guess"
### BEGIN SOLUTION
### GAP guess_zero_1_mib = ...  # your number in place of the dots
guess_zero_1_mib = 7
### END SOLUTION

# %% id="zero-run"
zero_1_mib = predict("06: floor of each of four devices with ZeRO-1", guess_zero_1_mib, unit="MiB")
shared = {
    stage: lab.submit(
        gpt.recipe(
            f"zero-{stage}",
            nodes=2,
            gpus_per_node=2,
            micro_batch=4,
            iterations=5,
            memory=(3, 5),
            zero=stage,
        )
    )
    for stage in (1, 3)
}
for run in shared.values():
    run.require()


# %% id="zero-see"
FLOOR = ("parameters", "gradients", "optimizer")


def floor_of(parts):
    return {kind: parts[kind] for kind in FLOOR}


weights = 4 * inside.log.parameter_count  # bytes
kept = {"plain, measured": floor_of(inside.memory[0].peak_composition)}
for stage, run in shared.items():
    kept |= {
        f"ZeRO-{stage}, planned": floor_of(planned_parts(run.recipe)),
        f"ZeRO-{stage}, measured": floor_of(run.memory[0].peak_composition),
    }
by_the_table = dict(zip(FLOOR, (weights, weights / 4, weights / 2), strict=True))
kept |= {"ZeRO-2, by the table": by_the_table}
bars = dict(sorted(kept.items(), key=lambda bar: bar[0].replace("plain", "A")))
zero_1_mib.compare(sum(bars["ZeRO-1, measured"].values()) / MIB)
show.memory_kinds(bars, at_peak=False)

# %% id="zero-claim" tags=["claim"]
for stage in shared:
    claim(
        f"the floor planned for ZeRO-{stage}, over the measured one",
        sum(bars[f"ZeRO-{stage}, planned"].values())
        / sum(bars[f"ZeRO-{stage}, measured"].values()),
        least=0.9,
        most=1.1,
        unit="times",
    )

# %% [markdown] id="zero-explain"
# *What each of four devices keeps for the whole run. ZeRO-2 is by the table alone: the course's program has no such
# mode.*
#
# **Explain.** Whoever guessed 7 has shared everything. ZeRO-1 shares the optimizer's state only: 4 + 4 + 8/4 = 10 bytes
# for each parameter, 18 MiB. This program keeps a little more, a buffer of its own for the sums of its share, which
# the planner knows. With 16-bit training the state is the larger part, 12 of 16 or more bytes (lesson 08), and ZeRO-1
# alone saves most of the floor.
#
# So which way out for which problem? Ask from the top:
#
# ![A ladder of questions. Do the model, its optimizer and one sample fit into one device? Copy it. Is it the activations? Smaller micro-batches, 16 bits, recomputation. Does it fit if the copies share state and gradients? ZeRO-1 or 2. Is there a sample for every device, and a link that carries the model once more? ZeRO-3. Do the devices sit on a fast road? Tensor parallelism. Otherwise: pipeline parallelism.](../images/which_cut.svg)
#
# *In brackets the lessons. Large runs combine several rungs, and use the devices that are left for more copies.*

# %% [markdown] id="ex1" tags=["exercise"]
# ## Exercises
#
# > **Exercise 06.1** — Sequences become twice as long: 256 tokens instead of 128, on the same devices with 160
# > MiB. Which micro-batch is about the largest that fits now? Show it with two runs: one that completes and one
# > that runs out of memory, with micro-batches that differ by **at most 2**. Predict before you submit; you have
# > the line. (Each `tried(…)` is one job; try again with other numbers as often as you need.)


# %% id="ex1-gap" tags=["exercise"]
attempts = []


def tried(micro_batch):
    recipe = wall(f"long-{micro_batch}", micro_batch, seq_length=256, max_position_embeddings=256)
    run = lab.submit(recipe)
    print(f"micro-batch {micro_batch}: {run.wait()}")
    attempts.append(run)
    return run


### BEGIN SOLUTION
### GAP fits = tried(...)
### GAP breaks = tried(...)
samples = int((MARGIN * MEMORY_MIB - measured[0]) / (2 * measured[1]))
while not (fits := tried(samples)).ok:
    samples -= 1
breaks = tried(samples + 1)
while breaks.ok and broken:  # where nothing is refused, larger batches would be tried for ever
    samples, fits, breaks = samples + 1, breaks, tried(samples + 2)
### END SOLUTION

# %% id="ex1-check" tags=["check"]
check.ex06_longer(fits, breaks)

# %% [markdown] id="ex1-why" tags=["solution"]
# The prediction comes first, and the loops only go on where it was wrong. A sample with twice as many tokens
# leaves twice as much behind: nearly everything in the memory of a layer, and the logits, has one row per token.
# So the slope of the line doubles and the floor stays, and half as many samples fit. (Nearly: programs that
# store the weights of attention keep tokens × tokens of them. This program's attention works on small blocks and
# never stores them.)

# %% [markdown] id="ex2" tags=["exercise"]
# > **Exercise 06.2** — A piece of detective work. The lab after which this course is modelled trained a GPT with
# > 32 attention heads, width 768, sequences of 1024 tokens and a vocabulary of 50257 on V100 GPUs with 16 GB,
# > all in `float32`, with a program that does store the attention weights (heads × tokens × tokens for each
# > sample, one tensor in each layer). Its published log ends with
# >
# > `CUDA out of memory. Tried to allocate 512.00 MiB (GPU 0; 15.78 GiB total capacity; …)`
# >
# > Its text says that the micro-batch was 4, its job script says 32. With which micro-batch was this line
# > printed?

# %% id="ex2-gap" tags=["exercise"]
### BEGIN SOLUTION
### GAP published_micro_batch = ...
weights_of_one_sample = 32 * 1024 * 1024 * 4  # heads × tokens × tokens × bytes
published_micro_batch = 512 * MIB // weights_of_one_sample
### END SOLUTION

# %% id="ex2-check" tags=["check"]
check.ex06_published(published_micro_batch)

# %% [markdown] id="ex2-why" tags=["solution"]
# The attention weights of one sample are 32 × 1024 × 1024 numbers of 4 bytes: exactly 128 MiB. The refused
# tensor is four times that. With micro-batch 32 one such tensor would have 4 GiB, and the message would say so.
# The logits are no candidate: they have 50257 columns (50304 after padding), and no whole number of samples
# makes 512 MiB of them. So this line came from a run with micro-batch 4, as the text says. What became of the script
# the number does not tell: it may have been changed later, or belong to another run. (And other tensors of other
# shapes might have 512 MiB by chance. The fit of a size is strong evidence, not proof.)

# %% [markdown] id="challenge" tags=["exercise"]
# > **Going further** — `wall("…", micro_batch, zero=1)` shares the optimizer's state between the two devices. By how
# > many MiB does the floor sink, and how many more samples fit? Work it out, then find out whether the allocator agrees.
# >
# > On a GPU three more things take room that no tensor shows. The **CUDA context**, some hundred MiB for each process,
# > lies outside of what PyTorch counts: `nvidia-smi` shows more than "reserved". **NCCL's buffers**, a few MiB for
# > each channel and communicator, lie outside too. And **fragmentation** can often be cured: run once with
# > `PYTORCH_ALLOC_CONF=expandable_segments:True` (a recipe's `environment=`; before PyTorch 2.9 the name was
# > `PYTORCH_CUDA_ALLOC_CONF`), where pieces can grow instead of being cut. To see who holds what, `memory=True` also writes a snapshot on GPUs (`snapshots/` in the run folder);
# > PyTorch's memory viewer draws it, block by block, with the line of code that asked for each.

# %% [markdown] id="home"
# ## To take home
#
# - Memory = a floor of 16 bytes per parameter (in `float32` with Adam) + so much for every sample that is on its
#   way.
# - It is fullest at the turn from forward to backward, and the first step is not yet the fullest.
# - No iteration line, and `out of memory` far above the end of the log: that is what the wall looks like.
# - Two small runs give a line, and the line gives the largest batch. Take a little less.
# - A larger batch pays until speed stops rising or memory ends, whichever comes first.
# - ZeRO shares the floor among copies: first the optimizer's state, then gradients, then parameters. The hump stays.

# %% [markdown] id="clean-idea"
# ## Cleaning up

# %% id="clean"
lab.clean(inside, *runs.values(), *shared.values(), at_the_wall, *attempts, yes=True)
