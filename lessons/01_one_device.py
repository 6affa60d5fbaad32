# %% [markdown] id="title"
# # 01 One device, fast
#
# On a hundred devices, each device works as a single device does, and also exchanges data. If each device waits for
# data half of the time, you pay for fifty devices that do nothing. This lesson therefore makes one device fast. You
# measure a step, close its largest gap, and measure again.
#
# | | |
# |---|---|
# | You will be able to | say where the time of a step goes; compute how many loading processes you need; pack files for fast reading; predict whether an operation is memory-bound; use TF32, `autocast` and fused optimizers; decide whether `torch.compile` or a CUDA graph pays |
# | Minutes | 65 |
# | Devices | 1 |
# | Before | lesson 00; you have trained a model with PyTorch |

# %% id="begin"
import math
import shutil
from types import SimpleNamespace

import h5py
import pandas as pd
import torch

from course_lib import Lab, check, claim, predict, program, show, trial

lab = Lab()
BATCH, STEPS, FIELDS, HEIGHT, WIDTH = 4, 12, 20, 32, 64


def training(name, data, **more):
    """Return the recipe of a small forecaster: three epochs of twelve steps."""
    sizes = {"train_samples": BATCH * STEPS, "valid_samples": BATCH, "embed_dim": 64, "depth": 2}
    more = {"global_batch_size": BATCH, "epochs": 3, "warmup_iters": 2} | sizes | more
    return program.recipe(name, "train_vit.py", data=data, **more)


RECORD = {"profile": True, "profile_step_start": 3, "profile_step_end": 7}

# %% [markdown] id="data-idea"
# ## What does a step spend its time on?
#
# `code/train_vit.py` trains a model that forecasts the weather. The model sees twenty fields on a map, such as wind
# and temperature, and predicts the same fields six hours later. It is a **vision transformer**: it cuts the map into
# patches and treats them as a language model treats tokens.
#
# The next cell computes the weather of a simulated planet and stores it in plain files. It also makes a compressed
# copy, the **archive**. As in many archives, each **chunk** of it holds one field at 16 times.


# %% id="data"
def packed(weather, chunks):
    """Copy the files, compressed in chunks of this shape: times, fields, rows, columns."""
    if ... in chunks:
        return ...  # a gap
    copy = weather.with_name(f"weather-{'x'.join(map(str, chunks))}")
    if copy.exists() or not weather.exists():  # recorded runs read their files elsewhere
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
# The program reads a batch, trains on it, and reads the next batch. A batch has four samples, a sample has two states,
# and a state has twenty fields. So each step unpacks 160 chunks. The model is small, so the device computes quickly.
#
# **Predict.** For what percentage of a step does the device wait for its batch?

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
# This lesson measures samples per second. Ignore the first epoch, which includes the work of the profiler and, on a
# GPU, of allocation.
#
# The program names the **ranges** of a step with `record_function`, and the profiler recorded four steps. In the
# figure, *rank 0* is the program's only process.

# %% id="first-see"
step = int(first.profile.overlap["step"].iloc[1])
show.timeline(first.profile, step=step)


# %% id="first-parts"
def medians(run):
    """Return the median ms of each range, and of a whole recorded step."""
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
# **Explain.** Most of the step goes to reading. During the range `data` the device does nothing. However fast the
# model becomes, a step cannot take less time than `data`, so this gap comes first.
#
# The lesson compares your run with a run that NERSC published in November 2024 ([SC24
# tutorial](https://github.com/NERSC/sc24-dl-tutorial)). On one A100, with real weather (ERA5), 20 fields of 360 × 720
# points, and 16 samples per step, the published run began at **8.8** samples per second. Each section prints both
# speeds.


# %% id="first-table"
def speed(run):
    """Return samples per second of the fastest epoch after the first."""
    return float(run.log.epochs["samples_per_second"].iloc[1:].max())


results = {}


def add(change, run=None, published=math.nan):
    """Print your speed after this change and the published speed, and keep both for the figure."""
    here = speed(run) if run else math.nan
    results[change] = {"measured here": here, "published, A100": published}
    speeds = {"here": here, "on the A100": published}
    known = ", ".join(f"{value:.1f} {where}" for where, value in speeds.items() if value > 0)
    print(f"{change} (samples per second): {known or 'not measured'}")


add("as written", first, 8.8)

# %% [markdown] id="workers-idea"
# ## How many loading processes do you need?
#
# The processor could read the next batch while the device computes. Threads help little, because Python and HDF5 run
# only one thread at a time (lesson 02). So PyTorch's `DataLoader` starts processes, the **workers**. With
# `num_workers=2`, two workers read, each a whole batch.
#
# Reading a batch takes a time *R*, and computing with it takes *C*. Without workers a step takes *R* + *C*.
# **Predict.** By what factor do two workers speed up the training?

# %% id="workers-guess"
### BEGIN SOLUTION
### GAP guess_workers = ...  # by what factor
guess_workers = 3
### END SOLUTION

# %% id="workers-run"
times_as_fast = predict("01: speed with two workers, relative to none", guess_workers, unit="times")
ahead = training("workers-2", archive, num_workers=2, epochs=6)
by_workers = {0: first, 2: lab.submit(ahead).require()}
measured = {n: speed(run) for n, run in by_workers.items()}
usual_ms = 1e3 * BATCH / speed(first)  # a step without the profiler
read_ms = usual_ms * parts["data"] / whole
compute_ms = usual_ms - read_ms


def law(n):
    """Return samples per second; the first batch of each epoch is late."""
    if n == 0:
        return 1e3 * BATCH / (read_ms + compute_ms)
    step_ms = max(compute_ms, read_ms / n)
    return 1e3 * BATCH * STEPS / (read_ms + (STEPS - 1) * step_ms + compute_ms)


def as_lines(speeds):
    """Return a table with speeds relative to the speed without workers."""
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
    title="Speed relative to no workers, by number of workers",
)

# %% id="workers-see"
times_as_fast.compare(measured[2] / measured[0])
print(f"reading a batch takes R = {read_ms:.0f} ms, computing C = {compute_ms:.0f} ms")
enough = max(1, math.ceil(read_ms / compute_ms - 0.05))  # ignore a twentieth of a worker
print(f"by the law {enough} worker{'s' * (enough > 1)} would keep this device busy")
add("workers (2 here, 4 there)", by_workers[2], 12.6)
add("DALI, on a GPU", published=13.2)

# %% id="workers-claim" tags=["claim"]
claim("by the law, two workers are faster than none", law(2) / law(0), least=1.2, unit="times")

# %% [markdown] id="workers-explain"
# **Explain.** With *n* workers, a new batch arrives every *R*/*n*, and the device uses one batch every *C*. A step
# takes the longer of the two times. This is the law in the figure:
#
# $$\text{step} = \max(C,\; R / n)$$
#
# You need at least *R*/*C* workers. More workers gain nothing and compete for memory and cores. The published run was
# slower with 8 and 16 workers than with 4.
#
# By the law, two workers are (*R* + *C*) / max(*C*, *R*/2) times as fast as none. If you guessed 2, you probably
# forgot that reading and computing overlap. If you guessed more than 3, you guessed too much, because the factor is
# largest if *R* = 2 *C*, and then it is 3.
#
# Your measurement is lower than this law predicts if reading and computing compete for few cores. On a busy machine,
# workers may even gain nothing. No worker reads ahead across epochs, so the first batch of each epoch is late.
#
# `code/weather/samples.py` uses three more options:
#
# - `persistent_workers=True` keeps the workers alive between epochs.
# - `prefetch_factor=2` lets each worker keep two batches ready (**prefetch**). This evens out slow batches but adds
#   no speed.
# - `pin_memory=True` is for GPUs. The system never moves **pinned memory**, so the GPU can copy a batch *while* it
#   computes (`non_blocking=True`). Ordinary memory must be copied first.
#
# NVIDIA's loader DALI (`--loader dali`, on a GPU only) reads in C++ threads and can crop and scale on the GPU. The
# published run reached **13.2** with it.

# %% [markdown] id="file-idea"
# ## Why is reading slow?
#
# A sample needs two states, and a state is all 20 fields at one time. But a chunk of the archive holds one field at
# 16 times, and it can only be unpacked whole:
#
# ![Two files as grids of fields and times. In the left one a chunk is one field at many times, and to read one time every chunk is unpacked. In the right one a chunk is one time, and only that is unpacked.](../images/file_in_pieces.svg)
#
# So the program unpacks 16 numbers for each number that it uses. For ERA5 with its full 721 × 1440 points, one such
# chunk has 66 MB. The plain files have neither compression nor chunks, but they take more disk space.
#
# **Predict.** You train on the plain files without workers. Compared with two workers on the archive, is training
# `"slower"`, `"about as fast"` (within a tenth), or `"faster"`?

# %% id="file-guess"
### BEGIN SOLUTION
### GAP guess_plain = ...  # one of the three
guess_plain = "slower"
### END SOLUTION

# %% id="file-run"
ENDS = ("slower", "about as fast", "faster")
plain_files = predict("01: speed of plain files without workers", guess_plain, choices=ENDS)
plain = lab.submit(training("plain", str(weather), **RECORD)).require()
both = lab.submit(training("plain-2", str(weather), num_workers=2, **RECORD)).require()
against = speed(plain) / measured[2]
plain_files.compare(ENDS[0] if against < 0.9 else ENDS[1] if against <= 1.1 else ENDS[2])
add("plain files", plain)
add("plain files, 2 workers", both)


def tensors_read(run):
    """Return how many tensors the main process itself makes of what it has read, per step."""
    calls = run.profile.operators.set_index("name")["calls"]
    return calls.get("aten::lift_fresh", 0) / run.profile.overlap["step"].nunique()


by_itself = [tensors_read(run) for run in (plain, both)]
print(
    "tensors that the main process reads in a step: {:.0f}, with workers {:.0f}".format(*by_itself)
)

# %% id="file-claim" tags=["claim"]
claim(
    "without workers, plain files are faster than the archive",
    speed(plain) / speed(first),
    least=1.4,
    unit="times",
)
claim("tensors that the main process reads in a step, without workers", by_itself[0], least=8)
claim("tensors that the main process reads in a step, with two workers", by_itself[1], most=0)
still, step_ms = medians(both)
claim("with two workers, a step hardly waits", 100 * still["data"] / step_ms, most=20, unit="%")

# %% [markdown] id="file-explain"
# **Explain.** Two workers on the archive still unpack 16 times too much. The plain files need none of this work,
# which took a large part of each step.
#
# With two workers on the plain files, the step hardly waits for data. Is it faster as well?

# %% id="file-kept"
kept = {"num_workers": 2} if speed(both) > speed(plain) else {}
read = both if kept else plain  # what does not help here is taken back
print(f"on plain files, two workers change the speed by a factor {speed(both) / speed(plain):.2f}")
print(f"from here on, training uses {kept.get('num_workers', 0)} workers")

# %% [markdown] id="file-rule"
# If reading is cheap, workers hide little, and they need cores and time to hand over batches. A GPU needs no core to
# compute, so on a GPU workers usually remain useful.
#
# > **Exercise 01.1** — The disk is full. Pack the files again with compression, so that this training hardly waits
# > even without workers. Fill in the shape of a chunk: times, fields, rows, columns.

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
# A chunk should hold what is read together, here one time, all fields, and the whole map. For crops of a large map,
# also divide rows and columns, down to about the size of a crop. Chunks of a few kilobytes are too small, because
# each must be found separately and compresses badly.

# %% [markdown] id="ex2" tags=["exercise"]
# > **Exercise 01.2** — Hide reading behind computing without a `DataLoader`. Write a generator `ahead(batches, depth)`
# > for a loop such as `for batch in ahead(batches, depth=2):`.
#
# - `batches` takes long to give a batch. `ahead` gives the same batches in the same order.
# - While the loop's body computes, a **thread** reads `depth` batches ahead. It may hold one more, for which the queue
#   has no room yet. A thread is enough if reading waits for a disk, because Python lets other threads run meanwhile.
# - If reading fails, the loop gets the error after the batches before it.
# - If the loop is left early, the thread ends too. Python then closes the generator, and its `finally` runs.
#
# `queue.Queue(size)` and `threading` are useful. The trial measures no time. Its loop waits until the thread has read
# ahead, and then counts the batches.

# %% id="ex2-own" tags=["exercise"]
# %%writefile "{lab.work}/my_prefetch.py"
import queue
import threading


### BEGIN SOLUTION
### GAP def ahead(batches, depth):
### GAP     ...  # a thread reads into a queue; yield what comes out of the queue
def ahead(batches, depth):
    ready, left = queue.Queue(depth), threading.Event()

    def hand_over(kind, value=None):
        while not left.is_set():
            try:
                ready.put((kind, value), timeout=0.1)
                return
            except queue.Full:
                continue  # has the loop been left meanwhile?

    def read():
        try:
            for batch in batches:
                hand_over("batch", batch)
                if left.is_set():
                    return
            hand_over("end")
        except Exception as error:
            hand_over("error", error)

    threading.Thread(target=read, daemon=True).start()
    try:
        while True:
            kind, value = ready.get()
            if kind == "error":
                raise value
            if kind == "end":
                return
            yield value
    finally:
        left.set()


### END SOLUTION

# %% id="ex2-trial" tags=["exercise"]
prefetch_trial = lab.submit(
    trial.recipe("prefetch-trial", "work/my_prefetch.py", "prefetch", nodes=1, gpus_per_node=1)
)
prefetch_trial.watch()

# %% id="ex2-check" tags=["check"]
check.ex01_prefetch(prefetch_trial)

# %% [markdown] id="ex2-why" tags=["solution"]
# The bounded queue is the limit. `put` waits if the queue is full, and `get` waits if it is empty. The end and an
# error travel through the same queue, so they arrive after the batches before them. Without the time-out, a thread
# that waits in `put` would wait forever after the loop is left.

# %% [markdown] id="roof-idea"
# ## Which operations wait for memory?
#
# Now the device computes nearly all the time. Its **peak** is the largest number of FLOP (multiplications and
# additions) that it can do per second. The share of the peak that the model's FLOPs reach is the **MFU** (model FLOPs
# utilisation), which lesson 14 computes.
#
# A device also has to fetch its numbers. A GPU keeps them in **HBM** (high-bandwidth memory). The **arithmetic
# intensity** of an operation is its FLOPs divided by the bytes that it moves to and from memory. It limits the speed:
#
# $$\text{attainable FLOP/s} = \min(\text{peak},\; \text{intensity} \times \text{bandwidth})$$
#
# Drawn over the intensity, this limit rises and then becomes flat, so it is called the **roofline**. An A100 with 40
# GB has a bandwidth of 1.555 TB/s. For matrix multiplications (**matmuls**) in the format TF32, its peak is 156
# TFLOP/s ([NVIDIA,
# 2020](https://images.nvidia.com/aem-dam/en-zz/Solutions/data-center/nvidia-ampere-architecture-whitepaper.pdf)). The
# roofline becomes flat at 156 / 1.555 = 100 FLOP per byte. An operation with a lower intensity is **memory-bound**.
#
# Here are two operations of each layer, for 16 maps of 4,050 patches, with 4 bytes per number:
#
# - a **matmul** from *k* = 384 to *n* = 1,536 features, for *r* = 16 × 4,050 rows. It does 2 *r k n* FLOPs and moves
#   *r k* + *k n* + *r n* numbers.
# - an **element-wise** operation, GELU, on the *r n* results. It does about 10 FLOPs per number, reads one number and
#   writes one.
#
# **Predict.** Which of the two is memory-bound on this A100: `"the matmul"`, `"GELU"`, `"both"` or `"neither"`?

# %% id="roof-guess"
### BEGIN SOLUTION
### GAP guess_bound = ...  # one of the four
guess_bound = "neither"
### END SOLUTION

# %% id="roof-see"
BOUND = ("the matmul", "GELU", "both", "neither")
bound = predict("01: which operation is memory-bound on an A100", guess_bound, choices=BOUND)
PEAK, BANDWIDTH, GELU_FLOPS = 156e12, 1.555e12, 10


def work(rows, k, n):
    """Return FLOPs and bytes of the matmul, and of GELU on its results."""
    matmul = (2 * rows * k * n, 4 * (rows * k + k * n + rows * n))
    return pd.DataFrame(
        {"matmul": matmul, "GELU": (GELU_FLOPS * rows * n, 8 * rows * n)}, index=["FLOPs", "bytes"]
    ).T


roof = work(16 * 4050, 384, 1536)
roof["FLOP per byte"] = roof["FLOPs"] / roof["bytes"]
roof["attainable TFLOP/s"] = (roof["FLOP per byte"] * BANDWIDTH).clip(upper=PEAK) / 1e12
roof["ms"] = roof["FLOPs"] / roof["attainable TFLOP/s"] / 1e9
slow = roof["FLOP per byte"] < PEAK / BANDWIDTH
bound.compare(BOUND[{(1, 0): 0, (0, 1): 1, (1, 1): 2, (0, 0): 3}[tuple(slow.astype(int))]])
roof[["FLOP per byte", "attainable TFLOP/s", "ms"]].round(2)

# %% [markdown] id="roof-words"
# Your profile contains both operations in a smaller size. It calls the matmuls `aten::addmm`. How many FLOPs per
# second do they reach here?

# %% id="roof-run"
ROWS, WIDE, POINTS = BATCH * (HEIGHT // 4) * (WIDTH // 4), 64, FIELDS * 4 * 4  # patches of 4 × 4
layer = 2 * ROWS * WIDE * (3 * WIDE + WIDE + 2 * 4 * WIDE)  # attention's matmuls, then the MLP's
flops = {
    "aten::addmm": 2 * layer + 2 * 2 * ROWS * WIDE * POINTS,  # two layers; patches in and out
    "aten::gelu": 2 * GELU_FLOPS * ROWS * 4 * WIDE,
}
times = {
    run.name: run.profile.operators.set_index("name")[
        "device_self_us" if on_gpu else "host_self_us"
    ].div(1e6 * run.profile.overlap["step"].nunique())
    for run in (first, plain, both)
}
seconds = pd.DataFrame(times).min(axis=1)  # other work only makes operators longer
gflops = {name: count / seconds[name] / 1e9 for name, count in flops.items()}
print({name: f"{rate:.1f} GFLOP/s" for name, rate in gflops.items()})

# %% id="roof-claim" tags=["claim"]
claim(
    "time of GELU relative to the matmul, by the roofline of the A100",
    roof.loc["GELU", "ms"] / roof.loc["matmul", "ms"],
    least=0.9,
    most=1.2,
    unit="times",
)
claim(
    "FLOP/s of the matmuls, relative to GELU",
    gflops["aten::addmm"] / gflops["aten::gelu"],
    least=2,
    unit="times",
)

# %% [markdown] id="roof-explain"
# **Explain.** GELU is memory-bound. It does 1.25 FLOPs per byte, so it reaches at most 1.9 TFLOP/s, about 1 % of the
# peak. The matmul uses each number many times. It does 153 FLOPs per byte, so it can reach the peak. GELU takes as
# long as the matmul with 77 times fewer FLOPs, so FLOPs alone do not tell how long a step takes.
#
# Here, too, GELU does far fewer FLOPs per second than the matmuls. The exact factor depends on the processor's
# caches, which hold these small tensors.

# %% [markdown] id="half-idea"
# ## How much faster is training with fewer bits?
#
# A number has an **exponent** for its range and a **mantissa** for its digits. With fewer bits, the peak is higher
# and fewer bytes are moved.
#
# **TF32** stores numbers as `float32`, multiplies them with a 10-bit mantissa, and adds in `float32`. An A100 then
# does 156 TFLOP/s instead of 19.5. You switch it on with `torch.set_float32_matmul_precision("high")`.
#
# **`autocast`** gives each matmul 16-bit copies of its inputs. It needs one `with`:

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
# *The figure shows the largest relative rounding error of each format.*
#
# `float16` has the mantissa of TF32 but a smaller range, so small gradients **underflow** to 0. A `GradScaler`
# prevents this. It multiplies the loss by a large factor before backward and divides the gradients afterwards (lesson
# 08). `bfloat16` has the range of `float32` and needs no scaler.
#
# There are two ways to train with 16 bits:
#
# ![Two chains. With autocast the weight has 32 bits, a rounded copy goes into each matmul, gradient and Adam have 32 bits. In Megatron-LM the weight has 16 bits, gradients are summed in 32, and Adam has its own copy with 32 bits, from which the weight is rounded after each step.](../images/two_ways_to_halves.svg)
#
# **Predict.** By what factor does bf16 with `autocast` speed up this small model here? A processor without units for
# bf16 converts the numbers for each matmul. By what factor did bf16 speed up the published model? With bf16, the peak
# of the A100 rises from 156 to 312 TFLOP/s.

# %% id="half-guess"
### BEGIN SOLUTION
### GAP guess_here, guess_a100 = ..., ...  # by what factors
guess_here, guess_a100 = 2, 1.8
### END SOLUTION

# %% id="half-run"
here = predict("01: speed-up by bf16 here", guess_here, unit="times")
there = predict("01: speed-up by bf16 on an A100", guess_a100, unit="times")
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
print("from here on, training uses", "bf16" if best is bf16 else "float32 again")

# %% id="half-claim" tags=["claim"]
claim("the losses of bf16 and fp32 differ by", 100 * apart, most=0.2, unit="%")

# %% [markdown] id="half-explain"
# **Explain.** Processors with units for `bfloat16` (AMX, AVX-512 with bf16) gain in large matmuls. On other
# processors the conversion only costs time, so a factor below 1 is no error.
#
# On the A100 the factor is *four*. The roofline explains only a factor of two: the peak is twice as high, and
# memory-bound operations move half as many bytes. The rest needs other kernels. FlashAttention, an attention kernel
# that does not write its scores to memory, is likely to be a large part of it, because it needs 16-bit numbers.
#
# The published run reached 53.4 with fp16 and its scaler, and 53.2–54.0 with bf16. With TF32 switched off, the 32-bit
# program fell from about 13 to **10.1**.

# %% [markdown] id="kernels-idea"
# ## Do fewer kernels make a step faster?
#
# Python starts each operator, and on a GPU each operator starts one or more **kernels**. A start takes a few
# microseconds, even for a small tensor. For each parameter tensor, Adam computes running means, corrections, a square
# root, a quotient and a step with separate operators. A **fused** optimizer (`fused=True`) does all of this in one
# operator.
#
# **Predict.** This model has 31 parameter tensors. How many operators does a fused Adam save in a step? Operators
# that another operator calls count as well.

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
    """Return the number of operators that a step starts."""
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
# **Explain.** The fused Adam saves about twenty operators per tensor. If you guessed 31, you counted one per tensor.
# On a GPU it saves only dozens of starts, because PyTorch's Adam already uses `foreach` kernels there, each for many
# tensors.
#
# The speed hardly changed on the A100, from 53.2 to 53.3. Here the gain may be smaller than the difference between
# two equal runs. Python runs ahead of the device, so starts stay hidden as long as kernels are long. If kernels are
# shorter than their starts, the device waits for Python, and the step is **launch-bound**:
#
# ![Three pairs of bars over time. Kernel by kernel, the device runs short kernels with gaps, waiting for Python. Compiled, there are fewer and longer kernels. With a CUDA graph one start is followed by all kernels without a gap.](../images/kernel_starts.svg)
#
# `torch.compile` also reduces the number of kernels. When the model is first called, it reads the Python code and
# writes kernels that do several operations at once, such as bias, GELU and rounding. The program compiles each layer
# by itself. Equal layers share their kernels, so more layers hardly take longer to compile.
#
# **Predict.** Suppose that compiling takes 20 seconds, and that a compiled step is a quarter shorter. An epoch has 48
# samples, and the line above shows your speed. After how many epochs has compiling paid off?

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
tables = {"fused, without the profiled epoch": fused.log.epochs.iloc[1:]}
if compiled.ok:
    tables["fused and compiled"] = compiled.log.epochs
show.lines(tables, x="epoch", y="elapsed_s", title="Seconds of each epoch", log="y")

# %% id="compile-see"
if not compiled.failure:  # a missing compiler is no reason to stop
    compiled.require()
if compiled.ok:
    seconds = compiled.log.epochs["elapsed_s"]
    invested = seconds.iloc[0] - seconds.iloc[1:].min()
    saved = fused.log.epochs["elapsed_s"].iloc[1:].min() - seconds.iloc[1:].min()
    paid.compare(invested / saved if saved > 0 else math.nan)
    later = f"each later epoch saves {saved:.2f} s" if saved > 0 else "no later epoch saves time"
    print(f"the first epoch took {invested:.1f} s longer, and {later}")
else:
    print("compiling failed; it needs a C++ compiler on the nodes:", compiled.failure)
add("compiled", compiled if compiled.ok else None, 55.0)

# %% id="compile-claim" tags=["claim"]
if compiled.ok:
    slower = seconds.iloc[0] / fused.log.epochs["elapsed_s"].iloc[1:].min()
    claim("the first epoch with compiling is longer by a factor", slower, least=1.5, unit="times")

# %% [markdown] id="compile-explain"
# **Explain.** Compiling costs seconds to minutes in the first epoch and saves a fraction of a second in each later
# epoch. With twelve steps per epoch, compiling pays off late or never. It pays off if the training takes days.
#
# On the A100 compiling gained 3 %, from 53.3 to **55.0**. Large matmuls fill most of that step, and they already run
# in fast libraries. Compiling gains more if there is much element-wise work, because one kernel then reads and writes
# each number once. Keep shapes fixed, because a batch of a new shape is compiled again.

# %% [markdown] id="graph-idea"
# ## Can a step run without Python?
#
# A **CUDA graph** records all kernels of a step once. Then one call repeats them without Python. The kernels use the
# recorded addresses and the recorded numbers.

# %% id="graph-code"
lab.code("weather/recorded_step.py", "RecordedStep.__call__", "RecordedStep._record")

# %% [markdown] id="graph-words"
# The code has four parts:
#
# - **Warm-up.** The first steps run as usual, but not on the default stream. Adam creates its state.
# - **Static inputs.** Each new batch is copied into the same tensors.
# - **Capture** records the kernels and computes nothing.
# - **Replay** starts the kernels without Python.
#
# The recorded part can start kernels and copies on the device, but it cannot look at a result. So reading a batch,
# computing a learning rate in Python, `print(loss.item())` and `if loss.isfinite()` stay outside.

# %% id="graph-run"
graph = lab.submit(
    training("graph", str(weather), cuda_graphs="true", fused_optimizer="true", **kept)
)
graph.wait()
print(graph.tail(1) if graph.ok else graph.failure)
add("CUDA graph", graph if graph.ok else None)

# %% [markdown] id="graph-explain"
# **Explain.** Without a GPU there is nothing to record, so the program refuses. On a GPU this small model gains a
# lot, because its step is launch-bound. A model with long kernels gains little.

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
print(f"the largest gain here comes from {max(gains, key=gains.get)}, on the A100 from bf16")
claim(
    "all changes speed this device up by a factor", fastest / speed(first), least=1.8, unit="times"
)
show.gains(pd.DataFrame(results, dtype=float).T)

# %% [markdown] id="all-idea"
# ## Which change gained most?
#
# *Published rows keep all earlier changes. Your rows drop a change that did not help.*
#
# The largest gain differs between your machine and the A100, so measure before you choose. Some gains appear only on
# some machines:
#
# - **Everywhere**: reading ahead, chunks that suit the reader, and fewer operators.
# - **On some processors**: bf16.
# - **Only on a GPU**: TF32, pinned memory, DALI, faster attention with 16 bits, and CUDA graphs.
#
# > **Exercise 01.3** — Use the published numbers. With TF32: **8.8** samples per second without workers, **12.6**
# > with enough workers. With bf16: **53.2**, because DALI hides the reading. Suppose that enough workers hide it as
# > well. How fast would bf16 have been **without workers**? And how many workers does bf16 need **at least**, by the
# > law, so that the GPU does not wait?

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
# A sample took 114 ms: 79 ms of computing and 34 ms of reading. bf16 reduces the 79 ms to 19 ms and leaves the 34 ms.
# Computing becomes four times as fast, but the training only twice as fast. The part that you do not speed up limits
# the total. This is **Amdahl's law**.

# %% [markdown] id="challenge" tags=["exercise"]
# > **Going further** — Submit `training("crops", str(weather), crop_width=16, num_workers=2)`, and the same run with
# > `fitting`. Which chunks would suit crops? On a GPU, add `tf32="false"` to a run, and enlarge the model until TF32
# > makes a difference.

# %% [markdown] id="home"
# ## To take home
#
# - Measure samples per second in a later epoch, find the largest gap in a profile, close it, and repeat.
# - More workers help until *R*/*n* falls below *C*. Reading less is better than reading with more workers.
# - Attainable speed is the smaller of peak and intensity × bandwidth. Element-wise operations are memory-bound.
# - TF32 is a switch, bf16 is one `with`, and fp16 also needs a scaler. All need suitable hardware.
# - Fused optimizers, compiling and CUDA graphs start fewer kernels. This helps if kernels are short.
# - A change can gain no more than the share of the step that it touches.
#
# **References.** [NERSC, SC24 tutorial](https://github.com/NERSC/sc24-dl-tutorial), 2024 (A100, Perlmutter). [NVIDIA, A100
# white paper](https://images.nvidia.com/aem-dam/en-zz/Solutions/data-center/nvidia-ampere-architecture-whitepaper.pdf), 2020.

# %% [markdown] id="clean-idea"
# ## Cleaning up
#
# The runs of the exercises stay. The next cell removes all other runs and the weather files.

# %% id="clean"
lab.clean(made, plain, both, bf16, fused, compiled, graph, by_workers[2], yes=True)
shutil.rmtree(files, ignore_errors=True)  # recorded runs had theirs elsewhere
