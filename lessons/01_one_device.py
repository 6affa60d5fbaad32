# %% [markdown] id="title"
# # 01 One device, fast
#
# A training on a hundred devices is a hundred trainings on one that also talk to each other. If the one waits half
# of its time for data, you rent fifty devices for nothing. So before this course goes to many, it makes one fast:
# you measure, find the largest gap, close it, and measure again, until what is left is arithmetic.
#
# | | |
# |---|---|
# | You will be able to | say what one device does with each millisecond of a step; choose the number of loading processes by arithmetic; pack files so that they are read once; use TF32, `autocast` and fused optimizers, and say what they change; decide whether compiling pays; say what a CUDA graph may hold |
# | Minutes | 45 |
# | Devices | 1 |
# | Before | lesson 00; you have trained a model with PyTorch |

# %% id="begin"
import math
import shutil
from types import SimpleNamespace

import h5py
import pandas as pd
import torch

from course_lib import Lab, check, claim, predict, program, show

lab = Lab()
BATCH, STEPS, FIELDS, HEIGHT, WIDTH = 4, 12, 20, 32, 64


def training(name, data, **more):
    """A small forecaster: three epochs of twelve steps."""
    sizes = {"train_samples": BATCH * STEPS, "valid_samples": BATCH, "embed_dim": 64, "depth": 2}
    more = {"global_batch_size": BATCH, "epochs": 3, "warmup_iters": 2} | sizes | more
    return program.recipe(name, "train_vit.py", data=data, **more)


RECORD = {"profile": True, "profile_step_start": 3, "profile_step_end": 7}

# %% [markdown] id="data-idea"
# ## Measure first
#
# `code/train_vit.py` learns to forecast the weather: twenty fields (winds, temperatures, pressures, humidity) on a map,
# and the same fields six hours later. The model is a *vision transformer*, which cuts the map into patches and treats
# them as a language model treats words. The weather is made by a small planet that the next cell computes.
#
# The cell then packs a copy of the files as archives like to: compressed, in pieces (*chunks*) of one field at 16 times. The
# history of one place is quickly read from those.


# %% id="data"
def packed(weather, chunks):
    """A copy of the files, compressed in chunks of this shape: times, fields, rows, columns."""
    if ... in chunks:
        return ...  # a gap
    copy = weather.with_name(f"weather-{'x'.join(map(str, chunks))}")
    if copy.exists() or not weather.exists():  # recorded runs have read theirs elsewhere
        return str(copy)
    no_years = shutil.ignore_patterns("*.h5")
    unfinished = shutil.copytree(
        weather, copy.with_suffix(".unfinished"), ignore=no_years, dirs_exist_ok=True
    )
    for path in weather.glob("*/*.h5"):
        with (
            h5py.File(path) as year,
            h5py.File(unfinished / path.relative_to(weather), "w") as file,
        ):
            fields = year["fields"][:]
            file.create_dataset("fields", data=fields, chunks=chunks, compression="gzip")
            file["latitude"] = year["latitude"][:]
    return str(unfinished.rename(copy))


files = lab.work / "one-device"
weather = files / "weather"
made = lab.submit(
    program.recipe("weather", "make_weather.py", out=str(weather), train_years=1, times=50)
).require()
archive = packed(weather, chunks=(16, 1, HEIGHT, WIDTH))

# %% [markdown] id="first-idea"
# The program is written as most begin: read a batch, train on it, read the next. **Predict.** Which share of a step does the
# device spend waiting for its batch, in percent?

# %% id="first-guess"
### BEGIN SOLUTION
### GAP guess_waiting = ...  # percent of a step
guess_waiting = 10
### END SOLUTION

# %% id="first-run"
waiting = predict("01: share of a step in which the device waits for data", guess_waiting, unit="%")
first = lab.submit(training("as-written", archive, **RECORD))
first.watch()

# %% id="first-lines"
# !grep -E "Memory|Time taken" "{first.log_file}" | grep -o "INFO.*"
first.log.epochs[["epoch", "elapsed_s", "samples_per_second", "train_loss", "validation_loss"]]


# %% [markdown] id="first-words"
# One number per epoch, samples per second, is the measure of this lesson. The first epoch is not the one to judge
# by: here the profiler watches and writes in it; on a GPU memory is taken and libraries choose their kernels as well. What does
# a second consist of? The program gives **ranges** a name (`with record_function("data"):` in PyTorch), and the profiler
# records four steps. (*Rank 0* in the figure is the program's one process.)

# %% id="first-see"
step = int(first.profile.overlap["step"].iloc[1])
show.timeline(first.profile, step=step)


# %% id="first-parts"
def medians(run):
    """Of the recorded steps of a run, in ms: each range, and the whole step."""
    spans = run.profile.spans
    spans = spans.assign(ms=(spans["end_us"] - spans["begin_us"]) / 1e3)
    ranges = spans[spans["name"].isin(["data", "forward", "backward", "optimizer"])]
    whole = spans.loc[spans["category"] == "step", "ms"].median()
    return ranges.groupby("name")["ms"].median(), whole


parts, whole = medians(first)
on_gpu = first.profile.device_kind != "cpu"
waiting.compare(100 * parts["data"] / whole)
parts.round(1).to_frame("ms of a step, median")

# %% id="first-claim" tags=["claim"]
claim("the device waits for data", 100 * parts["data"] / whole, least=40, most=97, unit="%")

# %% [markdown] id="first-explain"
# **Explain.** Reading looks like nothing in the source, `for batch in loader`, and it is the longest range of all. Between
# `data` and the next `data` the device works; within `data` it stands still, and on a cluster that costs as much as working.
# No change of the model, of its precision or its kernels can give more than the other ranges take. So begin with the largest gap.
#
# The same kind of model on the real planet (ERA5, 20 fields of 360 × 720 points, 16 samples a step), on one A100 of NERSC's
# Perlmutter, as published with a tutorial on deep learning at scale: **8.8** samples per second to begin with. Your steps, and
# theirs, go into one picture, which will grow:


# %% id="first-table"
def speed(run):
    """Samples per second: the better of the epochs after the first."""
    return float(run.log.epochs["samples_per_second"].iloc[1:].max())


results = {"as written": {"measured here": speed(first), "published, A100": 8.8}}


def add(change, run=None, published=None):
    """One more row, where there is one: your speed after this change, and the published one."""
    if run or published:
        here = speed(run) if run else None
        results[change] = {"measured here": here, "published, A100": published}
    return show.gains(pd.DataFrame(results, dtype=float).T)


add("as written")

# %% [markdown] id="workers-idea"
# ## Read ahead
#
# The processor could read the next batch while the device computes. Threads of one Python mostly take turns
# (lesson 12), and HDF5 lets one of them in at a time. So PyTorch's `DataLoader` starts processes: `num_workers=2` is two of them, each reading whole batches.
#
# Reading a batch takes some time *R*, computing with it *C*; you have just seen both. Until now a step took *R* + *C*.
#
# **Predict.** With 2 workers, how many times as fast as without?

# %% id="workers-guess"
### BEGIN SOLUTION
### GAP guess_workers = ...  # times as fast
guess_workers = 3
### END SOLUTION

# %% id="workers-run"
times_as_fast = predict("01: two workers against none", guess_workers, unit="times")
ahead = training("workers-2", archive, num_workers=2, epochs=6)
by_workers = {0: first, 2: lab.submit(ahead).require()}
measured = {n: speed(run) for n, run in by_workers.items()}
usual_ms = 1e3 * BATCH / speed(first)  # a step of a later epoch, without the profiler
read_ms = usual_ms * parts["data"] / whole
compute_ms = usual_ms - read_ms


def law(n):
    """Samples per second. Nobody reads ahead over the end of an epoch: its first batch is late."""
    if n == 0:
        return 1e3 * BATCH / (read_ms + compute_ms)
    step_ms = max(compute_ms, read_ms / n)
    return 1e3 * BATCH * STEPS / (read_ms + (STEPS - 1) * step_ms + compute_ms)


def as_lines(speeds):
    """Times the speed without workers."""
    table = pd.DataFrame({"workers": list(speeds), "speed": list(speeds.values())})
    return table.assign(times_as_fast=table["speed"] / speeds[0])


show.lines(
    {
        "law, here": as_lines({n: law(n) for n in range(9)}),
        "measured here": as_lines(measured),
        "published, A100": as_lines({0: 8.8, 4: 12.6, 8: 12.1, 16: 10.6}),
    },
    x="workers",
    y="times_as_fast",
    points=["measured here", "published, A100"],
    title="Times as fast as without workers, by loading processes",
)

# %% id="workers-see"
times_as_fast.compare(measured[2] / measured[0])
print(f"of a batch: R = {read_ms:.0f} ms, C = {compute_ms:.0f} ms")
enough = max(1, math.ceil(read_ms / compute_ms - 0.05))  # a twentieth of a worker is none
print(f"by the law {enough} worker{'s' * (enough > 1)} would keep this device busy")
add("workers (2 here, 4 there)", by_workers[2], 12.6)
add("DALI, on a GPU", published=13.2)

# %% id="workers-claim" tags=["claim"]
claim("two workers are faster than none", measured[2] / measured[0], least=1.2, unit="times")
claim("the law tells their speed", measured[2] / law(2), least=0.5, most=1.5, unit="times")

# %% [markdown] id="workers-explain"
# **Explain.** Who guessed 2 thought of twice as many hands, who guessed 3 counted the main process as well: either can come
# out, but not for that reason. *n* workers bring a batch every *R*/*n*, and the device takes one every *C*, so the slower of
# the two sets the pace:
#
# $$\text{step} = \max(C,\; R / n)$$
#
# (The first batch of an epoch is late all the same: nobody reads ahead over its end. And the profiler, from which the shares of
# *R* and *C* come, takes time for each operator: *C* is less than it says, so your point may lie above the law. Below it lies a
# machine with few cores, where reading and computing slow each other down.) Once *R*/*n* is below *C*, further workers have nothing to give, and still take memory, and cores from each other. The published run shows it:
# 8 and 16 are slower than 4.
#
# Three more options, all in `code/weather/samples.py`:
#
# - `persistent_workers=True` keeps them from one epoch to the next. Otherwise each epoch starts them anew, and where a worker
#   first has to import libraries, that takes seconds.
# - `prefetch_factor=2`: so many batches each worker holds ready. It smooths reading that is uneven; it adds no speed.
# - `pin_memory=True`, with a GPU alone: batches lie where the operating system moves nothing, so that the GPU
#   fetches them *while* it computes (`non_blocking=True`). From other memory a copy first has to be made.
#
# There are loaders made for GPUs, too. NVIDIA's DALI reads in C++ threads of its own (HDF5 files, for which it has no reader, in
# processes of its own), and its pipeline ends in the GPU's memory, where
# it can also scale or crop: **13.2** published, here `--loader dali`, which needs a GPU.

# %% [markdown] id="file-idea"
# ## Why is reading slow?
#
# More hands are one answer. The better question is what they do. A sample needs two states, of 20 fields each at one time.
# The files hold each field in chunks of 16 times, and nobody can unpack part of a chunk:
#
# ![Two files as grids of fields and times. In the left one a chunk is one field at many times, and to read one time every chunk is unpacked. In the right one a chunk is one time, and only that is unpacked.](../images/file_in_pieces.svg)
#
# So for each number that is used, 16 are unpacked. (HDF5 keeps some MiB of what it unpacked while a dataset is open. This
# program opens it for each state; and of ERA5 at its full 721 × 1440 points one such chunk alone would be 66 MB.) The files as they were made, neither
# compressed nor in chunks, are there too. They take more of the disk.
#
# **Predict.** With those and *no* worker, will training be `"slower"` than with the archive and two workers, `"about as fast"`
# (within a tenth), or `"faster"`?

# %% id="file-guess"
### BEGIN SOLUTION
### GAP guess_plain = ...  # one of the three
guess_plain = "slower"
### END SOLUTION

# %% id="file-run"
ENDS = ("slower", "about as fast", "faster")
plain_files = predict("01: plain files without a worker", guess_plain, choices=ENDS)
plain = lab.submit(training("plain", str(weather), **RECORD)).require()
both = lab.submit(training("plain-2", str(weather), num_workers=2, **RECORD)).require()
against = speed(plain) / measured[2]
plain_files.compare(ENDS[0] if against < 0.9 else ENDS[1] if against <= 1.1 else ENDS[2])
add("plain files", plain)
add("plain files, 2 workers", both)

# %% id="file-claim" tags=["claim"]
claim(
    "plain files beat packed ones, without workers",
    speed(plain) / speed(first),
    least=1.4,
    unit="times",
)
still, step_ms = medians(both)
claim("with two workers on them it hardly waits", 100 * still["data"] / step_ms, most=20, unit="%")

# %% [markdown] id="file-explain"
# **Explain.** Two processes that unpack 16 times too much are two busy processes. It is cheaper not to do the work. Here unpacking
# cost a large part of a step, in processor time. On a shared file system it costs the others, too: there a thousand
# processes ask for bytes that they throw away.
#
# And two workers on top of that? The step hardly waits any more. Whether it got *faster* is another question, and the picture
# above has the answer:

# %% id="file-kept"
kept = {"num_workers": 2} if speed(both) > speed(plain) else {}
read = both if kept else plain  # what does not help here is taken back
print(f"plain files: two workers make it {speed(both) / speed(plain):.2f} times as fast as none")
print(f"from here on training reads with {kept.get('num_workers', 0)} workers")

# %% [markdown] id="file-rule"
# Where reading is cheap, workers have little to hide, and they take cores and time for handing over. Measure the step, not the
# waiting. (On a GPU, which needs no core to compute, they mostly stay worth it.)
#
# > **Exercise 01.1** — The disk is full: pack the files again, compressed, but so that this training hardly
# > waits, without any worker. Fill in the shape of a chunk: times, fields, rows, columns.

# %% id="ex1-gap" tags=["exercise"]
### BEGIN SOLUTION
### GAP fitting = packed(weather, chunks=(..., ..., ..., ...))
fitting = packed(weather, chunks=(1, FIELDS, HEIGHT, WIDTH))
### END SOLUTION
fitted = lab.submit(training("fitted", fitting))
fitted.watch()

# %% id="ex1-check" tags=["check"]
check.ex01_chunks(fitted, first)

# %% [markdown] id="ex1-why" tags=["solution"]
# A chunk is what is read at once: one time, all fields, the whole map. With crops of a large map one would cut rows and
# columns too, to about the size of a crop. Chunks of some kilobytes are too small: each has to be looked up, and
# compresses badly.

# %% [markdown] id="half-idea"
# ## Fewer bits
#
# Now the device computes nearly all the time, and the rest of the lesson makes its work less. First: products of matrices with
# fewer digits.
#
# **TF32** is `float32` outside, with 10 bits for the digits inside of a product (which is added up in `float32`). An A100 does 156
# TFLOP/s that way instead of 19.5. PyTorch wants to be asked: `torch.set_float32_matmul_precision("high")`.
#
# **`autocast`** goes further: each product gets copies of its inputs with 16 bits. All it takes is one `with`:

# %% id="half-code"
lab.code("train_vit.py", "Learning.halves", "compute")

# %% id="half-formats"
FORMATS = {
    "float32": torch.finfo(torch.float32),
    "TF32": SimpleNamespace(max=torch.finfo().max, smallest_normal=2.0**-126, eps=2.0**-10),
    "bfloat16": torch.finfo(torch.bfloat16),
    "float16": torch.finfo(torch.float16),
}
show.number_formats(FORMATS)

# %% [markdown] id="half-words"
# *How far each format may move a number by rounding, over its size.*
#
# TF32 has the digits of `float16` and the range of `float32`. `bfloat16` has that range as well; `float16` has not,
# so small gradients become 0. That is what `scaler`, a `GradScaler`, is for: it multiplies the loss by 65,536 before backward,
# divides the gradients again, and where one is not finite it passes over the step and halves the factor (2,000 good steps
# double it). For bf16 it is not needed: there `train_vit.py` makes one that does nothing. (Lesson 08 watches it work.)
#
# There are two ways to train with 16 bits, and papers rarely say which they mean:
#
# ![Two chains. With autocast the weight has 32 bits, a rounded copy goes into each product, gradient and Adam have 32 bits. In Megatron-LM the weight has 16 bits, gradients are summed in 32, and Adam has its own copy with 32 bits, from which the weight is rounded after each step.](../images/two_ways_to_halves.svg)
#
# **Predict.** bf16 by `autocast`: how many times as fast does this small model train here? And the published one, whose products
# could at best become twice as fast (312 TFLOP/s against 156)?

# %% id="half-guess"
### BEGIN SOLUTION
### GAP guess_here, guess_a100 = ..., ...  # times as fast
guess_here, guess_a100 = 2, 1.8
### END SOLUTION

# %% id="half-run"
here = predict("01: bf16 here", guess_here, unit="times")
there = predict("01: bf16 on an A100", guess_a100, unit="times")
bf16 = lab.submit(training("bf16", str(weather), amp_mode="bf16", **RECORD, **kept)).require()
gain = speed(bf16) / speed(read)
best = bf16 if gain > 1 else read
if best is bf16:
    kept["amp_mode"] = "bf16"
add("bf16", bf16, 53.2)

# %% id="half-see"
here.compare(gain)
there.compare(53.2 / 13.2)
apart = abs(bf16.log.epochs["train_loss"].iloc[-1] / read.log.epochs["train_loss"].iloc[-1] - 1)
print(f"the losses of fp32 and bf16 are {100 * apart:.2g} % apart")
print("bf16 is kept from here on" if best is bf16 else "bf16 is taken back from here on")

# %% id="half-claim" tags=["claim"]
claim("bf16 learns what fp32 learns: losses apart by", 100 * apart, most=1, unit="%")

# %% [markdown] id="half-explain"
# **Explain.** A processor gains where it has units for `bfloat16` (AMX, or AVX-512 with bf16), and then only in large products. All others
# pay for the copies. Where it is slower, nothing is wrong: you are looking at the price without the goods.
#
# On the A100 the gain is *fourfold*, twice what the peak rates explain. The rest must come from what is no product: half
# as many bytes go to memory and back, and FlashAttention, the fastest kernel for attention, takes no numbers of 32 bits. fp16 with its
# scaler came to 53.4, bf16 to 53.2–54.0. Without TF32 the same program fell from some 13 to **10.1**.
#
# The gain has a precondition. At 53 samples per second the batches have to be read as fast; this is why reading came first.

# %% [markdown] id="kernels-idea"
# ## Fewer, larger kernels
#
# Python starts each operator, and that starts a *kernel* on a GPU, or several. It takes some microseconds, however small
# the tensor is. Adam, written plainly, is some lines of arithmetic for each parameter tensor: two running means, their
# corrections, a root, a quotient, a step. A **fused** optimizer does all of it in one go (`fused=True`).
#
# **Predict.** This model has 31 parameter tensors. How many operators fewer does a step start when Adam is fused?

# %% id="fused-guess"
### BEGIN SOLUTION
### GAP guess_fewer = ...  # operators of one step
guess_fewer = 31
### END SOLUTION

# %% id="fused-run"
fewer = predict("01: operators saved by a fused Adam", guess_fewer, unit="operators")
fused = lab.submit(
    training("fused", str(weather), fused_optimizer="true", **RECORD, **kept)
).require()


def started(run):
    """Operators of a step of rank 0."""
    steps = run.profile.overlap["step"].nunique()
    return run.profile.operators["calls"].sum() / steps


fewer.compare(started(best) - started(fused))
add("fused Adam", fused, 53.3)

# %% id="fused-claim" tags=["claim"]
claim(
    "a fused Adam starts fewer operators",
    started(best) - started(fused),
    least=1 if on_gpu else 100,
    unit="operators",
)

# %% [markdown] id="fused-explain"
# **Explain.** Nearly twenty for each tensor, if those are counted that an operator calls. (On a GPU PyTorch's Adam is not that plain: by itself it takes `foreach` kernels, each over
# many tensors. There the fused one saves dozens of starts, not hundreds.) And the speed? On the A100 hardly another (53.2 and 53.3),
# here some percent, up to a tenth. Adam is about an eighth of what this device computes, the fused one takes a third of that time, and
# two equal runs differ by some percent as well. Starts are hidden as long as kernels are long: the program
# runs ahead of the device. Where kernels are shorter than their start, the device waits for Python, and the step is **launch-bound**:
#
# ![Three pairs of bars over time. Kernel by kernel, the device runs short kernels with gaps, waiting for Python. Compiled, there are fewer and longer kernels. With a CUDA graph one start is followed by all kernels without a gap.](../images/kernel_starts.svg)
#
# `torch.compile` attacks the same from another side: it reads the Python of the model, and writes kernels that do several
# operations at once (say bias, GELU and rounding). It does so when the model is first called. The program compiles
# its layers rather than the whole model. They are alike, so the kernels of the first serve all, and a deep model
# compiles as quickly as a shallow one.
#
# **Predict.** After how many epochs of *this* length has compiling paid?

# %% id="compile-guess"
### BEGIN SOLUTION
### GAP guess_paid = ...  # epochs
guess_paid = 5
### END SOLUTION

# %% id="compile-run"
paid = predict("01: epochs until compiling has paid", guess_paid, unit="epochs")
compiled = lab.submit(
    training("compiled", str(weather), fused_optimizer="true", torch_compile="true", **kept)
)
compiled.wait()
tables = {"fused, but for the recorded epoch": fused.log.epochs.iloc[1:]}
if compiled.ok:
    tables["fused and compiled"] = compiled.log.epochs
show.lines(tables, x="epoch", y="elapsed_s", title="Seconds of each epoch", log="y")

# %% id="compile-see"
if compiled.ok:
    seconds = compiled.log.epochs["elapsed_s"]
    invested = seconds.iloc[0] - seconds.iloc[1:].min()
    saved = fused.log.epochs["elapsed_s"].iloc[1:].min() - seconds.iloc[1:].min()
    paid.compare(invested / saved if saved > 0 else math.nan)
    later = f"each further one saves {saved:.2f} s" if saved > 0 else "no further one saves any"
    print(f"the first epoch took {invested:.1f} s more, {later}")
else:
    print("it needs a C++ compiler on the nodes:", compiled.failure)
add("compiled", compiled if compiled.ok else None, 55.0)

# %% id="compile-claim" tags=["claim"]
if compiled.ok:
    slower = seconds.iloc[0] / fused.log.epochs["elapsed_s"].iloc[1:].min()
    claim("the first epoch with compiling, over one without", slower, least=1.5, unit="times")

# %% [markdown] id="compile-explain"
# **Explain.** The bill comes first, the gain in small coins: twelve steps an epoch pay back slowly, a training of days
# at once. On the A100 it was a coin as well, from 53.3 to **55.0**: with large products most of a step is
# inside libraries that are as fast as they get. Compiling pays where much small work lies between the products. The first
# batch of another shape compiles again, then for any shape, which is often slower; so keep shapes fixed.

# %% [markdown] id="graph-idea"
# ## One start for a whole step
#
# If Python is what the device waits for, leave it out. A **CUDA graph** records all kernels of a step once; after that, one call
# repeats them. It repeats the *same* kernels: with the same addresses, and with every number that Python had put in.

# %% id="graph-code"
lab.code("weather/recorded_step.py", "RecordedStep.__call__", "RecordedStep._record")

# %% [markdown] id="graph-words"
# Look for the four rules: the first steps run as usual, on another stream than the default one (**warm-up**: libraries choose
# their kernels, Adam makes its state); inputs are **static**, and new batches are copied into them; **capture** computes
# nothing; **replay** asks nothing of Python. So the recorded part may not look at a result, nor do
# anything but start kernels and copies on the device.
#
# > **Exercise 01.2** — Which of these must stay *outside* of the recorded step?

# %% id="ex2-gap" tags=["exercise"]
candidates = [
    "read the next batch",
    "forward",
    "backward",
    "Adam's step, its rate in a tensor on the GPU",
    "compute the next learning rate in Python",
    "print(loss.item())",
    "if not loss.isfinite(): break",
]
### BEGIN SOLUTION
### GAP outside = [...]  # some of the candidates
outside = [candidates[0], *candidates[4:]]
### END SOLUTION

# %% id="ex2-check" tags=["check"]
check.ex01_outside(outside)

# %% id="graph-run"
graph = lab.submit(
    training("graph", str(weather), cuda_graphs="true", fused_optimizer="true", **kept)
)
graph.wait()
print(graph.tail(1) if graph.ok else graph.failure)
add("CUDA graph", graph if graph.ok else None)

# %% [markdown] id="graph-explain"
# **Explain.** Without a GPU the program refuses, and says why: there is nothing to record. With one, this small model gains a lot: it is
# launch-bound from end to end. A large one, whose kernels are long, gains little. For several devices, and for fp16 with
# its scaler, which must look at gradients, recording takes more care than this program takes.

# %% id="all-claim" tags=["claim"]
runs = [
    by_workers[2],
    plain,
    both,
    bf16,
    fused,
    *(run for run in (compiled, graph) if not run.failure and run.ok),
]
fastest = max(map(speed, runs))
gains = {"reading": speed(read) / speed(first), "bf16": gain, "the rest": fastest / speed(best)}
print(f"the most was gained here by {max(gains, key=gains.get)}, on the A100 by bf16")
claim("all in all this device trains", fastest / speed(first), least=1.5, unit="times as fast")

# %% [markdown] id="all-idea"
# ## What each step gave
#
# The picture above is the balance of this lesson. Read it by what can be seen where:
#
# - **Everywhere**: reading ahead, files that fit, fewer operators (which is not always more speed), a first epoch that compiles.
#   Those are the work of processors and disks.
# - **On some processors**: bf16.
# - **Only on a GPU**: TF32, pinned memory, DALI, the faster attention of 16 bits, CUDA graphs; and that a start of
#   a kernel can cost more than the kernel.
#
# What gave most is not the same here and there. Nobody could have known before measuring.
#
# > **Exercise 01.3** — Back to the published numbers. With TF32: **8.8** samples per second without workers, **12.6** with
# > enough of them. With bf16: **53.2**, where DALI hid the reading; suppose that enough workers had hidden it as well. How fast
# > would bf16 have been **without workers**? And how many workers does bf16 need **at least**, by the law, so that the GPU does
# > not wait?

# %% id="ex3-gap" tags=["exercise"]
### BEGIN SOLUTION
### GAP without_workers, workers_needed = ..., ...
read_s = 1 / 8.8 - 1 / 12.6  # of one sample
without_workers = 1 / (read_s + 1 / 53.2)
workers_needed = 2  # the first whole number above read_s * 53.2
### END SOLUTION

# %% id="ex3-check" tags=["check"]
check.ex01_balance(without_workers, workers_needed)

# %% [markdown] id="ex3-why" tags=["solution"]
# A sample took 114 ms, of which 79 were computing and 34 reading. bf16 makes 19 of the 79, and leaves the 34: twice as fast in all, where
# four times had been paid for. What is not made faster becomes the larger part of what is left: **Amdahl's law**.

# %% [markdown] id="challenge" tags=["exercise"]
# > **Going further** — Submit `training("crops", str(weather), crop_width=16, num_workers=2)`, and the same with `fitting`. Which
# > chunks would suit crops? On a GPU: add `tf32="false"` to a run, and make the model larger until TF32 shows.

# %% [markdown] id="home"
# ## To take home
#
# - Samples per second of a later epoch, then ranges in a profile, then the largest gap. In that order, again and again.
# - Workers hide reading until *R*/*n* falls below *C*. Reading less beats reading with more hands.
# - TF32 is a switch, bf16 one `with`, fp16 also wants a scaler. They speed up what hardware has units for.
# - Fused, compiled, recorded: three ways to start fewer kernels. They help where kernels are short.
# - A gain is only as large as the share of the step that it touches.

# %% [markdown] id="clean-idea"
# ## Cleaning up
#
# The two runs of exercise 01.1 stay. The weather goes, with all its copies.

# %% id="clean"
lab.clean(made, plain, both, bf16, fused, compiled, graph, by_workers[2], yes=True)
shutil.rmtree(files, ignore_errors=True)  # recorded runs had theirs elsewhere
