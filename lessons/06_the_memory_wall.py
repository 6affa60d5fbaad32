# %% [markdown] id="title"
# # 06 The memory wall
#
# A slow device costs time, but a device that runs out of memory ends the run. In this lesson you make a run fail on
# purpose, read its log, and find the tensor that did not fit. Then you predict the largest batch from two small runs,
# and see how ZeRO removes copies of the model's data.
#
# | | |
# |---|---|
# | You will be able to | say what fills the memory of a device, and when; find an out-of-memory error in a log and name the tensor; predict the largest batch from two runs; decide whether a larger batch is faster; say what each stage of ZeRO shards |
# | Minutes | 50 |
# | Devices | 2 nodes with 2 devices each |
# | Before | lesson 03 |

# %% id="begin"
import math

import pandas as pd

from course_lib import Lab, check, claim, gpt, plan, predict, show

lab = Lab()
MIB = 2**20

# %% [markdown] id="parts-idea"
# ## What fills the memory during training
#
# Which tensors does a device hold while it trains? There are five kinds:
#
# | kind | size | lifetime |
# |---|---|---|
# | parameters | one number each, 4 bytes in `float32` | the whole run |
# | gradients | one number per parameter, 4 bytes | here the whole run, in one buffer; plain PyTorch frees them after each step (`zero_grad`) |
# | optimizer state | Adam keeps two running means per parameter, 8 bytes | the whole run, **from the end of the first step on** |
# | activations | results of the forward pass that the backward pass needs | from a sample's forward pass to its backward pass |
# | temporary | scratch space of single operations | a moment |
#
# The first three kinds form the **model state**. It depends on the model alone, and takes 4 + 4 + 8 = 16 bytes per
# parameter. The model of lesson 03 has 1.86 million parameters, so its model state takes 28 MiB (1 MiB is 2²⁰ bytes).
# Activations depend on the number of samples in progress. In this model one sample of 128 tokens needs about 8 MiB of
# activations.
#
# **Predict.** A device trains on a micro-batch of 4 samples. Its memory use has a peak at one moment of the step.
# When is this moment, and what percentage of the memory is then *not* model state?

# %% id="parts-guess"
### BEGIN SOLUTION
### GAP guess_percent = ...  # your number in place of the dots
guess_percent = 10
### END SOLUTION

# %% [markdown] id="parts-run"
# `memory=(3, 5)` records every allocation of two steps on every rank. They are steps 3 and 4 counted from 0, which
# the log calls iterations 4 and 5.

# %% id="parts-submit"
rest = predict("06: percentage of the peak that is not model state", guess_percent, unit="%")
inside = lab.submit(gpt.recipe("inside", micro_batch=4, iterations=5, memory=(3, 5))).require()
show.memory(inside.memory[0])

# %% [markdown] id="parts-caption"
# *Memory of one device over two training steps, by kind. The bands in the background are the phases of a step. At the
# end of a phase the box may sleep to keep its pace, and memory does not change.*

# %% id="parts-see"
parts = pd.Series(inside.memory[0].peak_composition) / MIB
fixed = parts[["parameters", "gradients", "optimizer"]].sum()
print(parts.round(1).to_string(), "\n")
print(f"together {parts.sum():.1f} MiB, of which {fixed:.1f} MiB are model state")
rest.compare(100 * (1 - fixed / parts.sum()))

# %% id="parts-claim" tags=["claim"]
claim(
    "activations at the peak, relative to the model state",
    parts["activations"] / fixed,
    least=1.05,
    unit="times",
)

# %% [markdown] id="parts-explain"
# **Explain.** At the peak, activations take more memory than the whole model state. If you expected the model state
# to dominate, you probably forgot that 4 samples need 32 MiB.
#
# The flat lower part of the figure is the model state. We call it the **floor**. Activations add to it during the
# forward pass, because every layer keeps some tensors for its backward pass. The peak comes when forward turns into
# backward. The backward pass then uses the activations up, layer by layer. In other programs the peak can come at
# another moment, for example if the optimizer copies all parameters at once.
#
# Only the activations grow with the batch, so every device has a batch size that does not fit.

# %% [markdown] id="gpu-idea"
# ## Does a GPU need more memory?
#
# The job `inside` was also recorded on an NVIDIA H100, with the same model, batch and `float32` numbers.
#
# **Predict.** How many MiB do the tensors take on the H100 at the peak?

# %% id="gpu-guess"
### BEGIN SOLUTION
### GAP guess_gpu_mib = ...  # your number in place of the dots
guess_gpu_mib = 500
### END SOLUTION

# %% id="gpu-see"
gpu_mib = predict("06: peak of the same job on a GPU", guess_gpu_mib, unit="MiB")
recorded = [run for run in lab.elsewhere(inside.recipe) if run.memory[0].device != "cpu"]
peaks = {"your run": inside.memory[0].peak_composition}
for run in recorded:
    peaks["on the GPU"] = run.memory[0].peak_composition
    gpu_mib.compare(run.memory[0].peak_bytes / MIB)
    steps_ms = [one.log.iterations["elapsed_ms"].min() for one in (inside, run)]
    print(f"{run.origin}\nfastest step: {steps_ms[0]:.0f} ms here, {steps_ms[1]:.0f} ms there")
show.memory_kinds(peaks)

# %% id="gpu-claim" tags=["claim"]
for run in recorded:
    claim(
        "the peak on a GPU, relative to the peak here",
        run.memory[0].peak_bytes / inside.memory[0].peak_bytes,
        least=0.95,
        most=1.05,
        unit="times",
    )

# %% [markdown] id="gpu-explain"
# *The peak of the same job on your machine and on an H100, by kind.*
#
# **Explain.** The two peaks are almost equal. The shapes of the tensors and the bytes per number decide the memory,
# not the processor. You can therefore check the memory plan of a thousand GPUs on a laptop.
#
# If you guessed several hundred MiB, you may have thought of `nvidia-smi`, which counts more than tensors. On the H100
# the tensors took 62 MiB, but the allocator counted 128 MiB. Nearly all of the difference was workspace of the matmul
# library, 32 MiB each for forward and backward. The library keeps it, so the log reported 94 MiB even between two
# steps. Including kernels and NCCL's buffers, a process occupied 1 GiB of the card. These parts do not grow with the
# model, so they matter only on small GPUs.
#
# The step times say little about the H100. A model this small leaves a GPU idle most of the time, waiting for the
# next operator.

# %% [markdown] id="double-idea"
# ## Double the batch until a run fails
#
# At which batch size does a device run out of memory? The recipe's `device_memory_gib` makes a device behave as if it
# had little memory. The allocator enforces the limit on a GPU, and otherwise the operating system enforces it, so the
# failure is real. Everything else is as in lesson 03, with one device per node.

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
# **Predict.** You start with 2 samples per device and double. Which micro-batch is the first that does not fit into
# 160 MiB? Use the measurement above: the MiB that stay for the whole run, and the MiB that 4 samples add.

# %% id="double-guess"
### BEGIN SOLUTION
### GAP guess_breaks_at = ...  # your number in place of the dots
guess_breaks_at = 64
### END SOLUTION

# %% id="double-run"
breaks_at = predict("06: micro-batch that 160 MiB cannot hold", guess_breaks_at, unit="samples")


def up_to_the_wall(sizes):
    """Submit one run after the other, up to the first that fails."""
    runs = {}
    for micro_batch in sizes:
        run = runs[micro_batch] = lab.submit(wall(f"wall-{micro_batch}", micro_batch))
        run.wait()
        print(f"micro-batch {micro_batch}: {run.reason}")
        if not run.fits:
            break
    return runs


runs = up_to_the_wall((2, 4, 8, 16, 32, 64))
completed = {batch: run for batch, run in runs.items() if run.ok}
broken_at = max(runs)
broken = None if broken_at in completed else runs[broken_at]
per_sample = (parts.sum() - fixed) / 4
print(f"\nThe trace gives {fixed:.0f} MiB + {per_sample:.1f} MiB per sample.")
print(f"Counting tensors only, {(MEMORY_MIB - fixed) / per_sample:.1f} samples would fit.")
if broken:
    breaks_at.compare(broken_at)
else:
    print(f"Even {broken_at} samples completed.")
broken_log = broken.log_file if broken else "/dev/null"  # an empty log if no run failed

# %% id="double-words" tags=["plumbing"]
if not broken:
    print("The logits of 64 samples alone take 256 MiB, so the limit was not enforced.")
    print("Some systems, such as macOS, cannot limit the memory of a process.")
    print("The next sections then show little output. Read them anyway.")
else:
    in_first = "elapsed time per iteration" not in broken.text
    at_start = fixed - parts["optimizer"]  # its state is made at the end of the first step
    tensors_mib = (at_start if in_first else fixed) + broken_at * per_sample
    where = "in the first step" if in_first else "in a later step"
    # A GPU's limit is that of its allocator, which knows nothing of the process.
    of_process = " and the process itself." if inside.memory[0].device == "cpu" else "."
    print(f"{broken_at} samples failed {where}. Their tensors need {tensors_mib:.0f} MiB", end=" ")
    print(f"of {MEMORY_MIB} MiB.")
    if tensors_mib < 0.95 * MEMORY_MIB:
        print("Something else took memory as well:", end=" ")
        if in_first:
            print("gaps between tensors" + of_process)
        else:
            print("the section 'Predict the largest batch from two runs' explains it.")
    elif tensors_mib < 1.05 * MEMORY_MIB:
        print("That is so close to the limit that a small additional need decides.")
    else:
        print("They cannot fit.")

# %% [markdown] id="log-idea"
# ## Read the log of a failed run
#
# A failed run leaves a state, an exit code and a log. The first question is how far the run got:

# %% id="log-lines"
# !grep -c "elapsed time per iteration" "{broken_log}"

# %% [markdown] id="log-first"
# This is the number of finished steps. A run that is much too large has none. A run that is slightly too large may
# fail in the second step, because the optimizer state does not exist yet during the first.
#
# The second question is what the run reported:

# %% id="log-grep"
# !grep -n -i "out of memory" "{broken_log}"

# %% [markdown] id="log-explain"
# This line contains almost everything you need:
#
# | part of the message | meaning |
# |---|---|
# | `[rank…]` | the process that failed; several may fail at once |
# | `Tried to allocate …` | the size of the **one** tensor that was requested, not the amount that is missing. A GPU reports the size of its block: 2 MiB for up to 1 MiB, 20 MiB for less than 10 MiB, otherwise the next multiple of 2 MiB |
# | `total capacity … of which … is free` | the rest was smaller than the tensor, or split into pieces that were too small |
# | `is in use`, `allocated` | what the process already held |
# | `… allowed` (on a GPU) | the limit that we set, which replaces the capacity |
#
# Most people look at the end of the log first:

# %% id="log-tail"
print(broken.tail(12) if broken else "no run failed on this machine")

# %% [markdown] id="log-tail-explain"
# The end of the log usually does not mention memory. The launcher reports that a process failed, and Slurm reports
# that the launcher failed. The cause is the *first* error, far above. The course's reader finds it for you:

# %% id="log-failure"
print(broken.failure if broken else "no run failed on this machine")

# %% [markdown] id="tensor-idea"
# ### Find the tensor that did not fit
#
# The message gives the size of the tensor but not its name. The size is a product of a few numbers that you know. A
# sample has 128 tokens. The model has width 128, its MLPs are four times as wide inside, and it has 4 attention heads
# and a vocabulary of 8192 tokens. Its last layer produces the **logits**, one score per token of the vocabulary for
# every position of every sample. Compare the sizes:

# %% id="tensor-see"
tokens = broken_at * 128  # each sample has 128 tokens
suspects = {
    "input of a layer: tokens × width": tokens * 128,
    "inside an MLP: tokens × 4 × width": tokens * 4 * 128,
    "attention weights (not stored by this program): heads × tokens × 128": 4 * tokens * 128,
    "logits: tokens × vocabulary": tokens * 8192,
}
asked = broken.failure.details.get("tried_bytes") if broken else None
tried_mib = asked / MIB if asked else float("nan")  # the log may contain no size
on_gpu = inside.memory[0].device != "cpu"


def is_refused(numbers):
    """Return whether so many 4-byte numbers, or their block on a GPU, have the refused size."""
    mib = 4 * numbers / MIB
    block_mib = 2 if mib <= 1 else 20 if mib < 10 else 2 * math.ceil(mib / 2)
    return abs((block_mib if on_gpu else mib) - tried_mib) < 0.01


print(f"refused: {tried_mib:.2f} MiB" if asked else f"the log of {broken_at} samples has no size")
for name, numbers in suspects.items():
    same = "   <-- this size" if is_refused(numbers) else ""
    print(f"{4 * numbers / MIB:8.2f} MiB  {name}{same}")

# %% id="tensor-words"
found = [name for name, numbers in suspects.items() if is_refused(numbers)]
if any(name.startswith("logits") for name in found):
    print("The refused tensor has the size of the logits, the largest tensor of this model.")
elif found:
    print(f"The refused tensor has the size of: {'; '.join(found)}. It is not the logits.")
elif asked:
    print("No tensor of the list has this size. It may be a buffer of the allocator,")
    print("of the optimizer or of the network.")

# %% [markdown] id="tensor-explain"
# **Explain.** The size tells you *where* the program failed. It does not tell you what filled the memory, because a
# run often fails on a small tensor after large tensors have used up the memory. To decide *what* to save, look at the
# table of kinds at the beginning of this lesson.
#
# If the log has several such lines, compare them, because each rank can fail on a different tensor. If the refused
# tensor is large itself, making it smaller helps. For the logits, this is **chunked cross entropy**. The program
# multiplies a chunk of the tokens by the output matrix, computes its loss and the gradient of its logits at once, and
# frees both before the next chunk. The result is the same, because the loss is a sum over tokens. Backward then needs
# no logits. The next cell computes the memory for one sequence of a large model:

# %% id="chunk-see"
llama = plan.preset("llama-8b")
chunks = {
    f"{count:,} tokens at once": 2 * 4 * count * llama.vocabulary / 2**30  # logits and gradient
    for count in (llama.sequence, 1024, 128)
}
layer_gib = 2 * llama.sequence * llama.hidden / 2**30  # the output of a layer in bf16
pd.Series(chunks | {"the output of one layer": layer_gib}, name="GiB").round(2).to_frame()

# %% [markdown] id="chunk-explain"
# *Logits in `float32` and their gradient, for Llama 3 with 8 billion parameters and a sequence of 8,192 tokens.*
#
# With a large vocabulary the logits need more memory than several layers together. Apple's *Cut Cross-Entropy* keeps
# the chunks inside one GPU kernel. For Gemma 2 with 2 billion parameters, it reduced the memory of the loss from 24 GB
# to 1 MB ([2024](https://arxiv.org/abs/2411.09009)). PyTorch programs can also use the loss of Liger Kernel
# ([2024](https://arxiv.org/abs/2410.10989)). Tensor parallelism splits the logits by vocabulary over the ranks.

# %% [markdown] id="line-idea"
# ## Predict the largest batch from two runs
#
# If every job waits in a queue for hours, it is expensive to try batch sizes until one fails. But memory is the sum of
# a floor and an amount per sample, so two runs determine a line. Rank 0 of the largest completed run reported this
# after every step:

# %% id="line-report"
largest_done = max(completed)
reports = completed[largest_done].log.memory.query("rank == 0")
columns = ["allocated_mib", "max_allocated_mib"] if on_gpu else []
reports[["iteration", *columns, "reserved_mib", "max_reserved_mib"]]

# %% [markdown] id="line-report-explain"
# **Allocated** memory is what tensors occupy. **Reserved** memory is what the allocator has taken from the device,
# including freed blocks that it keeps for later. The device's limit applies to reserved memory. Without a GPU,
# reserved means the memory that the process may write to, minus the amount before it built the model.
#
# The first report is usually lower than the later reports. At the peak of the first step the optimizer state did not
# exist yet. Does this explain the whole difference?

# %% id="growth"
growth_mib = reports["reserved_mib"].diff().iloc[1]
state_mib = 8 * inside.log.parameter_count / MIB
logits_mib = 4 * largest_done * 128 * 8192 / MIB
print(f"reserved memory grew by {growth_mib:.1f} MiB from the first report to the second")
print(f"the optimizer state takes {state_mib:.1f} MiB, the logits take {logits_mib:.1f} MiB")

# %% id="growth-words"
if abs(growth_mib - logits_mib) < 0.25 * logits_mib:
    print("The growth matches the logits, not the optimizer state.")
elif abs(growth_mib - state_mib) < 0.25 * state_mib:
    print("The growth matches the optimizer state.")
else:
    print("The growth matches neither of the two alone.")

# %% [markdown] id="growth-explain"
# If the growth equals the **logits**, this is what happened. At the end of the first step the block of the logits was
# free, and the new optimizer state moved into it. In the second step the logits no longer fitted there, so the
# allocator took a new block from the device.
#
# Free memory in pieces that are too small to use is called **fragmentation**. Because of it, reserved memory exceeds
# allocated memory, and a run can fail in step 2 after a normal step 1. So use the **last** report, not the first:


# %% id="line-peaks"
def peak_mib(run):
    """Return the largest reserved memory of rank 0, or None for a run that failed."""
    return float(run.log.memory["max_reserved_mib"].max()) if run.ok else None


for batch, run in completed.items():
    print(f"micro-batch {batch}: {peak_mib(run):.1f} MiB reserved")

# %% [markdown] id="line-predict"
# **Predict.** Draw a line through the two largest of these peaks. What is the largest micro-batch for 160 MiB if 5 %
# of the memory stays free?

# %% id="line-guess"
### BEGIN SOLUTION
### GAP guess_largest = ...  # your number in place of the dots
guess_largest = 12
### END SOLUTION


# %% id="line-table"
def samples_per_second(run):
    iterations = run.log.iterations
    last = iterations.iloc[1:]  # the first step also creates the optimizer state
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
    """Return the MiB at batch 0 and the MiB per sample."""
    per_sample = (peaks[1] - peaks[0]) / (batches[1] - batches[0])
    return peaks[0] - per_sample * batches[0], per_sample


fits_best = predict("06: largest micro-batch for 160 MiB", guess_largest, unit="samples")
two = table.dropna().tail(2)
measured = line_through(list(two["micro_batch"]), list(two["peak_mib"]))
MARGIN = 0.95  # plan with 95 % of the memory, because allocators are not exact
largest = int((MARGIN * MEMORY_MIB - measured[0]) / measured[1])
print(f"measured line: {measured[0]:.1f} MiB + {measured[1]:.2f} MiB per sample")
fits_best.compare(largest)

# %% [markdown] id="plan-idea"
# ### The planner needs no run at all
#
# The planner computes the same line from the shape of the model alone. It adds up the kinds of memory in the table
# above. Compare its result with the first trace of this lesson:


# %% id="plan-parts"
def planned_parts(recipe):
    estimate = plan.predict(gpt.model(recipe), gpt.layout(recipe), plan.box(), "course")
    parts = estimate.fullest.parts
    parts["activations"] += parts.pop("logits")  # the trace counts logits as activations
    return parts


show.memory_parts(planned_parts(inside.recipe), inside.memory[0].peak_composition)

# %% [markdown] id="plan-parts-caption"
# *Memory at the peak of the run `inside`, planned and recorded.*
#
# The next figure compares the planner's line with the measured line and with the limit:


# %% id="plan-see"
def planned_mib(micro_batch):
    return sum(planned_parts(wall("planned", micro_batch)).values()) / MIB


planned = line_through([4, 8], [planned_mib(4), planned_mib(8)])
print(f"planned line: {planned[0]:.1f} MiB + {planned[1]:.2f} MiB per sample")
show.batches(table, MEMORY_MIB, {"line through two runs": measured, "planned": planned})

# %% id="plan-claim" tags=["claim"]
traced = sum(inside.memory[0].peak_composition.values())
claim(
    "planned tensors at the peak, relative to the trace",
    sum(planned_parts(inside.recipe).values()) / traced,
    least=0.9,
    most=1.1,
    unit="times",
)
claim(
    "reserved memory per sample, relative to the tensors",
    measured[1] / planned[1],
    least=1 if on_gpu else 1.1,
    unit="times",
)

# %% [markdown] id="plan-explain"
# *Left: the largest reserved memory against the micro-batch, with the limit of the device. Right: the speed of the
# same runs.*
#
# The planned line counts tensors. The first trace has shown that this count is accurate. The measured line counts what
# the allocator reserves. Why do the two lines differ?

# %% id="plan-words"
more_mib, logits_mib = measured[1] - planned[1], 4 * 128 * 8192 / MIB
print(f"Each sample reserves {more_mib:.1f} MiB more than its tensors need.")
if abs(more_mib - logits_mib) < 0.25 * logits_mib:
    print(f"That is about the size of its logits, {logits_mib:.1f} MiB.")
else:
    print(f"Its logits have {logits_mib:.1f} MiB, so they do not explain this difference alone.")
if measured[0] < fixed:
    print(f"The line starts at {measured[0]:.0f} MiB, below the floor of {fixed:.0f} MiB.")
    print("No run can need so little, so the line does not hold for small batches.")

# %% [markdown] id="plan-line"
# **Explain.** If each sample reserves about one sample's logits more than its tensors need, fragmentation is the
# reason. The logits of step 1 left a free block, and the optimizer state took a part of it. The rest is too small for
# the logits of step 2 and stays unused. It grows with every sample, so the measured line is steeper than the planned
# line.
#
# The measured line may also start below the floor. With a large batch the optimizer state lies in the block of the
# logits and needs no memory of its own. With a small batch that block is too small. So trust the line only between
# its two points and a little beyond.
#
# The planner ignores fragmentation, so here it predicts too large a batch. On a large device fragmentation usually
# takes a few percent, and a margin covers it.

# %% [markdown] id="check-idea"
# ### Test the prediction
#
# Does the predicted batch fit? One more job tests it:

# %% id="check-run"
at_the_wall = lab.submit(wall(f"wall-{largest}", largest))
print(f"\nmicro-batch {largest}: {at_the_wall.wait()}")
cause = "" if at_the_wall.fits else at_the_wall.failure
line_mib = measured[0] + largest * measured[1]
print(f"reserved at most: predicted {line_mib:.0f} MiB", end="")
print(f", measured {peak_mib(at_the_wall):.0f} MiB" if at_the_wall.ok else f"\n{cause}")

# %% id="check-claim" tags=["claim"]
claim(
    "peak of the predicted batch, predicted relative to measured",
    line_mib / peak_mib(at_the_wall) if at_the_wall.ok else math.nan,
    least=0.9,
    most=1.1,
    unit="times",
)

# %% [markdown] id="check-explain"
# In practice, leave a larger margin. Otherwise a longer document, or an evaluation between two steps, could end a run
# after three weeks.

# %% [markdown] id="speed-idea"
# ## A larger batch is faster only up to a point
#
# Should you always fill the memory? A larger batch helps only if it is faster. A step takes a fixed time plus a time
# per sample, which is again a line. To get the time of a step, divide the number of samples on *both* devices by the
# samples per second.
#
# **Predict.** Compute this line from the first two rows of the table above, and cover the other rows. By what factor
# do the samples per second grow from the smallest to the largest batch that completed?

# %% id="speed-guess"
### BEGIN SOLUTION
### GAP guess_faster = ...  # your number in place of the dots
guess_faster = 4.0
### END SOLUTION

# %% id="speed-see"
faster = predict(
    "06: speed with the largest batch, relative to the smallest", guess_faster, unit="times"
)
done = table.dropna()
first, last = done.iloc[0], done.iloc[-1]
for name in ("micro_batch", "peak_mib", "samples_per_second"):
    print(f"{name:20} {first[name]:8.1f} -> {last[name]:8.1f}   × {last[name] / first[name]:.2f}")
faster.compare(last["samples_per_second"] / first["samples_per_second"])
gained = 100 * (last["samples_per_second"] / done.iloc[-2]["samples_per_second"] - 1)
print(f"the last doubling changed the speed by {gained:+.0f} %:", end=" ")
verdicts = {
    -5: "a larger batch is slower",
    5: "the curve is nearly flat here",
    15: "the gain is becoming small",
}
print(next((said for most, said in verdicts.items() if gained < most), "it is still worth it"))

# %% id="speed-claim" tags=["claim"]
claim(
    "growth of the speed, relative to the growth of the batch",
    (last["samples_per_second"] / first["samples_per_second"])
    / (last["micro_batch"] / first["micro_batch"]),
    most=0.9,
    unit="times",
)

# %% [markdown] id="speed-explain"
# **Explain.** If you guessed the factor of the batch, you assumed that a step always takes the same time. Only a part
# of the step takes a constant time: the all-reduce, the optimizer step, and the start of every operation. A larger
# batch spreads this part over more samples. When arithmetic takes most of the step, a larger batch hardly raises the
# speed. A GPU needs a large batch to reach this point, because a small batch leaves most of it idle.
#
# So fill the memory only while the speed still rises. If memory runs out first, the largest batch that fits, less a
# margin, is the fastest. If memory is left, choose the smallest batch on the flat part of the curve. Whether a larger
# batch also *learns* as well per sample is the subject of lesson 12.

# %% [markdown] id="zero-idea"
# ## ZeRO shards the model state over the devices
#
# In plain data parallelism **every** device keeps the whole floor. **ZeRO** removes these copies in three stages. It
# **shards** the model state, so that each device keeps only its part. The table gives bytes per parameter in
# `float32` on each of *d* devices:
#
# | | parameters | gradients | optimizer state | communication |
# |---|---|---|---|---|
# | plain | 4 | 4 | 8 | an all-reduce of the gradients |
# | ZeRO-1 | 4 | 4 | 8 / *d* | as many bytes as plain: a reduce-scatter gives each device the sums for its share; after the update an all-gather collects the parameters |
# | ZeRO-2 | 4 | 4 / *d* | 8 / *d* | as many bytes as plain; gradients are sent as soon as they are computed |
# | ZeRO-3, "FSDP" | 4 / *d* | 4 / *d* | 8 / *d* | 1.5 times as many bytes as plain; each layer's parameters are gathered in forward and again in backward |
#
# ZeRO reduces neither the arithmetic nor the activations. Each device still computes whole layers for its own
# samples.
#
# **Predict.** The floor takes 28 MiB on one device. How many MiB of it does each of four devices keep with ZeRO-1?

# %% id="zero-guess"
### BEGIN SOLUTION
### GAP guess_zero_1_mib = ...  # your number in place of the dots
guess_zero_1_mib = 7
### END SOLUTION

# %% id="zero-run"
zero_1_mib = predict("06: floor of each of four devices with ZeRO-1", guess_zero_1_mib, unit="MiB")
submitted = {
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
shared = {stage: run.require() for stage, run in submitted.items()}


# %% id="zero-see"
FLOOR = ("parameters", "gradients", "optimizer")


def floor_of(parts):
    return {kind: parts[kind] for kind in FLOOR}


def measured_floor(run):
    """Return the floor at the peak, of the rank that holds most: ranks peak at different times."""
    floors = [floor_of(trace.peak_composition) for trace in run.memory]
    return max(floors, key=lambda floor: sum(floor.values()))


weights = 4 * inside.log.parameter_count  # bytes
kept = {"plain, measured": measured_floor(inside)}
for stage, run in shared.items():
    kept |= {
        f"ZeRO-{stage}, planned": floor_of(planned_parts(run.recipe)),
        f"ZeRO-{stage}, measured": measured_floor(run),
    }
by_the_table = dict(zip(FLOOR, (weights, weights / 4, weights / 2), strict=True))
kept |= {"ZeRO-2, by the table": by_the_table}
bars = dict(sorted(kept.items(), key=lambda bar: bar[0].replace("plain", "A")))
zero_1_mib.compare(sum(bars["ZeRO-1, measured"].values()) / MIB)
show.memory_kinds(bars, at_peak=False)

# %% id="zero-claim" tags=["claim"]
for stage in shared:
    claim(
        f"ZeRO-{stage}: planned floor, relative to the measured floor",
        sum(bars[f"ZeRO-{stage}, planned"].values())
        / sum(bars[f"ZeRO-{stage}, measured"].values()),
        least=0.95,
        most=1.1,
        unit="times",
    )

# %% [markdown] id="zero-explain"
# *Model state on each of four devices. The bar of ZeRO-2 comes from the table, because the course's program does not
# implement it.*
#
# **Explain.** If you guessed 7 MiB, you divided the whole floor by four. ZeRO-1 shards only the optimizer state. Each
# device keeps 4 + 4 + 8/4 = 10 bytes per parameter, which is 18 MiB. The program keeps 1.8 MiB more, a buffer for the
# sums of its own shard, and the planner includes this buffer. In 16-bit training, 12 of the 16 to 18 bytes per
# parameter are optimizer state, including a `float32` copy of the parameters (lesson 08). So in 16-bit training,
# ZeRO-1 saves most of the memory that does not depend on the batch.
#
# The next figure helps you choose a method. Ask its questions from the top:
#
# ![A ladder of questions. Do the model, its optimizer and one sample fit into one device? Copy it. Is one sample too long for a device, even with recomputation? Context parallelism. Do the activations take most of the memory? Smaller micro-batches, 16 bits, recomputation. Does the model have experts, which hold most of its parameters? Expert parallelism. Does it fit if the devices shard the optimizer's state and the gradients? ZeRO-1 or 2. Is there a sample for every device, and a link that carries the model once more? ZeRO-3. Are the devices connected by a fast link? Tensor parallelism. Otherwise: pipeline parallelism.](../images/which_cut.svg)
#
# *Numbers in parentheses are lessons. Large runs combine several methods and use the remaining devices for data
# parallelism.*
#
# **Context parallelism** splits long sequences (lesson 13b). **Expert parallelism** distributes the experts of a
# mixture-of-experts model (lesson 13c).

# %% [markdown] id="ex1" tags=["exercise"]
# ## Exercises
#
# > **Exercise 06.1** — Sequences become twice as long: 256 tokens instead of 128, on the same devices with 160 MiB.
# > What is the largest micro-batch that fits now? Show it with two runs, one that completes and one that runs out of
# > memory. Their micro-batches may differ by **at most 2**. Predict the result from the line before you submit. Each
# > `tried(…)` is one job, and you may run as many as you need.


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
while not (fits := tried(samples)).fits:
    samples -= 1
breaks = tried(samples + 1)
while breaks.fits and broken:  # if no run failed above, this loop would never end
    samples, fits, breaks = samples + 1, breaks, tried(samples + 2)
### END SOLUTION

# %% id="ex1-check" tags=["check"]
check.ex06_longer(fits, breaks)

# %% [markdown] id="ex1-why" tags=["solution"]
# The line gives a prediction, and the loops only correct it. A sample with twice as many tokens needs twice as much
# memory, since nearly every tensor has one row per token. So the slope of the line doubles, the floor stays, and
# about half as many samples fit.
#
# Programs that store the attention weights need more, because these weights have tokens × tokens numbers per head.
# The attention of this program works on small blocks and never stores them.

# %% [markdown] id="ex2" tags=["exercise"]
# > **Exercise 06.2** — A published course reports an out-of-memory error of a GPT on V100 GPUs with 16 GB. The
# > model has 32 attention heads, width 768, sequences of 1024 tokens and a vocabulary of 50257, all in `float32`.
# > Its program stores the attention weights in every layer, one tensor of heads × tokens × tokens for each sample.
# > The log ends with
# >
# > `CUDA out of memory. Tried to allocate 512.00 MiB (GPU 0; 15.78 GiB total capacity; …)`
# >
# > The text of that course says that the micro-batch was 4. Its job script says 32. Which micro-batch printed this
# > line?

# %% id="ex2-gap" tags=["exercise"]
### BEGIN SOLUTION
### GAP published_micro_batch = ...
weights_of_one_sample = 32 * 1024 * 1024 * 4  # heads × tokens × tokens × bytes
published_micro_batch = 512 * MIB // weights_of_one_sample
### END SOLUTION

# %% id="ex2-check" tags=["check"]
check.ex06_published(published_micro_batch)

# %% [markdown] id="ex2-why" tags=["solution"]
# The attention weights of one sample are 32 × 1024 × 1024 numbers of 4 bytes, exactly 128 MiB. The refused tensor is
# four times as large, so the micro-batch was 4. With micro-batch 32 it would have 4 GiB. The logits do not have this
# size. They have 50257 columns (50304 after padding), and the logits of no whole number of samples take 512 MiB.
#
# So the text is right about this run. The script may have been changed later or may belong to another run. A matching
# size is strong evidence but not proof, since a different tensor could have 512 MiB by chance.

# %% [markdown] id="challenge" tags=["exercise"]
# > **Going further** — `wall("…", micro_batch, zero=1)` shards the optimizer state over the two devices. By how many
# > MiB does the floor shrink, and how many more samples fit? Compute both numbers, then check them with runs.
# >
# > On a GPU, three things take memory that belongs to no tensor. The **CUDA context** takes a few hundred MiB per
# > process, and **NCCL's buffers** take a few MiB per channel and communicator. PyTorch counts neither, so
# > `nvidia-smi` shows more than "reserved". The third is **fragmentation**, which
# > `PYTORCH_ALLOC_CONF=expandable_segments:True` in a recipe's `environment=` often cures. Before PyTorch 2.9 the
# > name was `PYTORCH_CUDA_ALLOC_CONF`.
# >
# > On a GPU, `memory=True` also writes a snapshot to `snapshots/` in the run folder. PyTorch's [memory
# > viewer](https://pytorch.org/memory_viz) draws it block by block, with the line of code that requested each
# > block.

# %% [markdown] id="home"
# ## To take home
#
# - Memory = a floor of 16 bytes per parameter (in `float32` with Adam) + an amount for every sample in progress.
# - Memory use peaks when forward turns into backward. The peak of the first step is lower than the later peaks.
# - A run that is too large shows no iteration line. Its `out of memory` line is far above the end of the log.
# - Two small runs give a line, and the line gives the largest batch. Use a little less.
# - Increase the batch until the speed stops rising or memory ends, whichever comes first.
# - ZeRO shards the floor over the devices: first the optimizer state, then gradients, then parameters. Activations
#   stay.
#
# References: Rajbhandari et al., [ZeRO](https://arxiv.org/abs/1910.02054), 2020. Wijmans et al., [Cut Your Losses in
# Large-Vocabulary Language Models](https://arxiv.org/abs/2411.09009), 2024. PyTorch, [Understanding CUDA Memory
# Usage](https://docs.pytorch.org/docs/stable/torch_cuda_memory.html). The H100 numbers are runs of this course,
# November 2026.

# %% [markdown] id="clean-idea"
# ## Cleaning up

# %% id="clean"
lab.clean(inside, *runs.values(), *shared.values(), at_the_wall, *attempts, yes=True)
