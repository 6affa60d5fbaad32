# %% [markdown] id="title"
# # 15 The benchmark at scale
#
# Before you buy a machine with thousands of devices, you want to measure one number on it. For large language models
# the number is: *how long does it take to train a model of 175 billion parameters on 20 million tokens?* You can
# prepare this benchmark without such a machine. In this lesson you choose a layout, predict memory and time, write
# the job for 96 nodes, and prepare its data. Then you run a small model on your own devices and fill in the result
# table.
#
# | | |
# |---|---|
# | You will be able to | choose a layout for 13 B and 175 B models on hundreds of devices; say what limits each layout; write the job; turn a rate into the reported result; recognise common failures at this size |
# | Minutes | 65 |
# | Devices | 2 nodes with 2 devices each; for 8 and 96 nodes, a planner |
# | Before | lessons 03, 07, 07b, 08, 09, 10 and 14 |

# %% id="begin"
import difflib
import json
import shlex
from pathlib import Path

import numpy as np
import pandas as pd

from course_lib import Lab, bench, check, claim, plan, predict, shell, show

lab = Lab()

# %% [markdown] id="asked-idea"
# ## What the benchmark asks
#
# The benchmark has two models, with 13 and 175 billion (B) parameters. Only the result for 175 B counts, and 13 B is
# for trying things out. Some settings are **fixed** by the rules. The others are **free**, and your task is to find
# good values for them. The [benchmark](https://github.com/FZJ-JSC/jubench-megatron-lm) is part of the JUPITER
# Benchmark Suite (2024). Its published results come from JUWELS Booster, a cluster with 4 A100 GPUs per node.

# %% id="asked-rules"
bench.rules()

# %% [markdown] id="asked-explain"
# In this table, *accumulation* is the number of micro-batches of each data rank in a step (lesson 10). You train the
# model for a few dozen iterations and read the seconds per iteration from the log. Two divisions give the result:
#
# - tokens per second = global batch × sequence ÷ seconds per iteration,
# - **time to report** = 20,000,000 ÷ tokens per second.
#
# No real model is trained on only 20 million tokens. The number only turns a rate into a time, because the other
# benchmarks of the suite report times. A machine passes if the 175 B model needs 560 s or less.

# %% [markdown] id="state-idea"
# ## How many devices does the model fill?
#
# A layout must fit into memory before its speed matters. Training in 16 bits with Adam keeps 18 bytes for each
# parameter (lesson 08). The parameter takes 2 bytes, and its gradient takes 4 if it is summed in float32. The master
# copy and two moments in float32 take 12. Activations need additional memory.
#
# **Predict.** How many devices with 40 GiB do you need just to *hold* these 18 bytes for each of 175 billion
# parameters?

# %% id="state-guess"
### BEGIN SOLUTION
### GAP guess_devices = ...  # your number in place of the dots
guess_devices = 16
### END SOLUTION

# %% id="state-see"
filled = predict("15: devices that hold the model state of 175 B", guess_devices, unit="devices")
large = plan.preset("175b")
state_gib = 18 * plan.parameters(large).total / 2**30
print(f"{plan.parameters(large).total:,} parameters × 18 bytes = {state_gib:,.0f} GiB")
filled.compare(state_gib / 40)

# %% [markdown] id="state-explain"
# **Explain.** The model does not fit on one device or on one node, so you must split it from the first run on. Data
# parallelism adds copies of the model, so it begins only when one copy has enough devices.

# %% [markdown] id="layout-idea"
# ## Which layouts are possible?
#
# | rule | otherwise |
# |---|---|
# | nodes × devices per node = tensor × pipeline × data | devices are left over, or missing |
# | tensor divides the number of heads | a head would be split between two devices |
# | pipeline divides the number of layers | stages would differ, and the longest stage sets the speed |
# | micro batch × data divides the global batch | a step would end in the middle of a micro-batch |
#
# A `case` of the benchmark checks these rules. The next cell breaks one:

# %% id="layout-break"
reference = bench.case("175")
try:
    reference.but(pipeline=7)
except ValueError as refusal:
    print(refusal)
try:
    reference.but(nodes=72, pipeline=9)
except ValueError as refusal:
    print(refusal)

# %% [markdown] id="layout-tensor"
# ## Why is tensor 8 used on nodes of four devices?
#
# Lesson 07 put tensor parallelism inside a node, where links are fast. The published layout has tensor 8 on nodes
# with **four** devices, so the all-reduces of every layer cross between two nodes.
#
# Compare tensor 8 with tensor 4, and cut the model into the same number of parts, so that tensor × pipeline stays
# equal. Tensor 8 then needs half as many stages. All-reduces take longer, but fewer stages have a smaller **bubble**
# (lesson 07b). Memory changes, too. A device keeps the activations of its layers for as many micro-batches as there
# are stages. With half as many stages and twice as many layers per stage this amount is the same, but tensor
# parallelism divides it by 8 instead of 4.
#
# Such a comparison needs equal batches. All rows below have the published global batch of 96, so accumulation follows
# from the number of data ranks. Each layout is planned without recomputation and with all layers recomputed (lesson
# 09).
#
# **Predict.** According to this plan, does tensor 8 improve `"speed"`, `"memory"` or `"both"`?

# %% id="layout-tensor-guess"
### BEGIN SOLUTION
### GAP guess_reason = ...  # "speed", "memory" or "both"
guess_reason = "speed"
### END SOLUTION

# %% id="layout-tensor-see"
GAINS = ("speed", "memory", "both")
gain = predict("15: what tensor 8 improves on nodes of four devices", guess_reason, choices=GAINS)
booster = plan.cluster("juwels-booster", devices=384)
batch = reference.layout.global_batch
rows = {}
for tensor, pipeline in ((4, 8), (8, 4), (4, 16), (8, 8), (4, 32), (8, 16)):
    data = 384 // (tensor * pipeline)
    split = {"tensor": tensor, "pipeline": pipeline, "accumulation": batch // data}
    layout = reference.but(**split).layout
    for recompute in ("none", "full"):
        tried = plan.predict(large, layout.but(recompute=recompute), booster, "megatron-2023")
        rows[f"tensor {tensor}, pipeline {pipeline}", recompute] = {
            "parts": tensor * pipeline,
            "batch": layout.global_batch,
            "GiB": round(tried.device_gib, 1),
            "of": round(tried.capacity_gib, 1),
            "verdict": tried.verdict,
            "sums (s)": round(tried.parts["tensor"], 2),
            "bubble (s)": round(tried.parts["bubble"], 2),
            "s to report": round(20e6 / tried.tokens_per_s),
        }
layouts = pd.DataFrame(rows).T.rename_axis(["layout", "recompute"])

# the layouts without recomputation, in pairs that cut the model into as many parts
plain = layouts.xs("none", level="recompute").reset_index()
four, eight = (plain[plain["layout"].str.startswith(f"tensor {n},")] for n in (4, 8))
measures = ["GiB", "s to report"]
pairs = eight.set_index("parts")[measures] / four.set_index("parts")[measures]
less_memory, less_time = pairs.max() < 1
gain.compare("both" if less_memory and less_time else "speed" if less_time else "memory")
layouts

# %% id="layout-tensor-claim" tags=["claim"]
claim("largest time to report with tensor 8, relative to tensor 4 in equally many parts",
      pairs["s to report"].max(), most=0.96, unit="times")  # fmt: skip
claim("largest memory with tensor 8, relative to tensor 4 in equally many parts",
      pairs["GiB"].max(), most=0.9, unit="times")  # fmt: skip
fitting = layouts[layouts["verdict"] != "overflows"]["s to report"].astype(float)
published_layout = layouts.loc[("tensor 8, pipeline 8", "none"), "s to report"]
claim("time to report of the published layout, compared with the fastest that fits",
      published_layout / fitting.min(), least=1.01, most=1.1, unit="times")  # fmt: skip
in_32_parts = plain[plain["parts"] == 32]
claim("smallest memory of a layout in 32 parts, relative to a device",
      (in_32_parts["GiB"] / in_32_parts["of"]).min(), least=1.1, unit="times")  # fmt: skip

# %% [markdown] id="layout-tensor-explain"
# **Explain.** Tensor 8 improves both. Compare rows with equally many parts, such as 4 × 16 and 8 × 8. In each pair,
# tensor 8 spends more time on all-reduces, because they cross between nodes. But the time of the bubble falls by more
# than this. Tensor 8 also divides the activations among twice as many devices, so each device holds less.
#
# Layouts with 32 parts do not fit. Even with everything recomputed, they need a few percent too much memory. According
# to the plan, the fastest layout that fits is tensor 8 × pipeline 16. The published layout, tensor 8 × pipeline 8, is
# a few percent slower, which is less than the planner's error. The authors do not say why they chose it.
#
# So "tensor inside the node" is a good default with exceptions. Consider all-reduces, bubble and memory together, and
# compare layouts only at the same global batch. If you keep accumulation at 16 instead, tensor 4 × pipeline 8 gets
# twice the batch and looks faster than it is.

# %% [markdown] id="plan-idea"
# ## How fast will it be?
#
# The published run used 384 A100 devices, and each has a peak of 312 TFLOP/s. A token costs 6 FLOPs per parameter.
# Lesson 14 found that about half of the peak is a good run on an A100. Here the pipeline has 8 stages and 16
# micro-batches. Each device therefore waits in addition, for 7/16 of the time that it works (lesson 07b).
#
# **Predict.** What percentage of the peak did the published run reach?

# %% id="plan-guess"
### BEGIN SOLUTION
### GAP guess_percent = ...  # your number in place of the dots
guess_percent = 50
### END SOLUTION

# %% id="plan-see"
of_peak = predict("15: percentage of the peak on 384 devices", guess_percent, unit="%")
flops = 6 * plan.parameters(large).total * 20e6
at_peak_s = flops / (384 * 312e12)
planned, published = bench.plan("175"), bench.published("175")
of_peak.compare(100 * at_peak_s / published.time_to_report_s)
if of_peak.guess:
    print(f"with your percentage it would take {100 * at_peak_s / of_peak.guess:.0f} s")
print(f"planned: {planned.time_to_report_s:.0f} s; four of five runs of this kind should lie")
print(f"between {planned.low_s:.0f} and {planned.high_s:.0f} s")
bench.table([planned, published])

# %% id="plan-claim" tags=["claim"]
ratio = planned.time_to_report_s / published.time_to_report_s
claim(
    "time to report of 175 B, planned relative to published",
    ratio,
    least=0.85,
    most=1.15,
    unit="times",
)

# %% [markdown] id="plan-parts-idea"
# The planner does not use this result. It adds up parts, and each part comes from a formula and a table of hardware:

# %% id="plan-parts"
parts = pd.Series(planned.estimate.parts, name="seconds").sort_values(ascending=False)
table = parts.to_frame()
table["share of the iteration (%)"] = (100 * parts / parts.sum()).round(1)
table.round(3)

# %% [markdown] id="plan-explain"
# | part | meaning |
# |---|---|
# | `matmul`, `attention`, `memory` | the device computes: matmuls, the attention kernel, and operations that only move data |
# | `tensor` | all-reduces over the tensor group, in each layer two in forward and two in backward; here they cross between two nodes |
# | `bubble` | stages wait at the beginning and the end of a step |
# | `pipeline`, `data` | stages exchange activations, and data ranks sum gradients |
# | `straggler` | all devices wait for the slowest device |
# | `launch`, `optimizer`, `loop` | starting operations, the optimizer step, and the code around it |
#
# **Explain.** If your guess was about 50 %, you left out the bubble. Devices work for 16 of 23 units of time, and
# half of the peak times 16/23 is 35 %. The all-reduces between nodes and the gradients lower the percentage further.
# Counting 6 FLOPs per parameter leaves attention out, so the true percentage is a little higher.
#
# According to the plan this layout *fails*, because it needs more than 560 s. The published run passed with 554.70 s.
# The planner's interval contains the limit, so the plan cannot decide. The speed of the run itself varies by as much.
# In its log, means over ten iterations lie between 5.32 and 5.62 s (the first ten: 7.23 s).

# %% [markdown] id="search-idea"
# ## Is there a better layout?
#
# The free parameters allow several hundred layouts. For 13 B on 8 nodes, the planner tries them all. About half of
# them would be faster than a layout chosen at random, and none would be faster than the best layout.
#
# **Predict.** How many layouts does the planner rate faster than the published one?

# %% id="search-guess"
### BEGIN SOLUTION
### GAP guess_faster = ...  # how many layouts?
guess_faster = 100
### END SOLUTION

# %% id="search-run"
faster = predict("15: layouts planned faster than the published one", guess_faster)
small = bench.case("13")
where = plan.cluster("juwels-booster", devices=32)
found = plan.search(small.model, where, small.layout.global_batch, stack="megatron-2023")
show.layouts(found)

# %% [markdown] id="search-caption"
# *Each point is a layout: memory of the fullest device against time per iteration. Crosses do not fit. Diamonds are
# the best trade-offs between memory and time. For every other layout that fits, a diamond is at least as good in
# both. The name `t4 p1 d8 mb2 zero1` means tensor 4, pipeline 1, data 8, micro batch 2, and optimizer state sharded
# over data ranks. `v2` means two pieces of the model on each stage.*
#
# The next tables show the fastest six layouts and then the published one. *Virtual* is the number of model pieces per
# stage (lesson 07b).

# %% id="search-table"
columns = ["tensor", "pipeline", "data", "virtual", "micro_batch", "iteration_s", "device_gib"]
found.table(6)[:6][columns].round(2)

# %% id="search-reference"
reference_13 = bench.plan("13")
ahead = sum(e.seconds < reference_13.estimate.seconds for e in found.fitting)
print(f"the published layout: {reference_13.estimate.seconds:.2f} s planned,")
print(f"{bench.published('13').iteration_s:.2f} s measured")
print(f"planned faster: {ahead} of the {len(found.fitting)} layouts that fit")
faster.compare(ahead)

# %% id="search-claim" tags=["claim"]
share = 100 * ahead / len(found.fitting)
claim("layouts that are planned faster than the published one", share, most=10, unit="%")

# %% [markdown] id="search-explain"
# **Explain.** The plan cannot tell whether these layouts are really faster, because their advantage is smaller than
# the planner's error. But the search leaves a few layouts that are worth an hour of 32 devices, and you need not try
# the others.

# %% [markdown] id="scale-idea"
# ## Does the plan hold for more nodes?
#
# The benchmark's authors ran 175 B on 48, 96 and 192 nodes, always with 16 micro-batches per data rank. Each device
# therefore has the same work in all three runs.
#
# **Predict.** By what factor did tokens per second grow from 48 to 96 nodes? And from 96 to 192?

# %% id="scale-guess"
### BEGIN SOLUTION
### GAP guess_96, guess_192 = ..., ...
guess_96, guess_192 = 2.0, 2.0
### END SOLUTION

# %% id="scale-see"
growth = {
    384: predict("15: growth of the rate from 48 to 96 nodes", guess_96, unit="times"),
    768: predict("15: growth of the rate from 96 to 192 nodes", guess_192, unit="times"),
}
rows = []
for nodes in (48, 96, 192):
    case = reference.but(nodes=nodes)
    for result in (bench.plan(case), bench.published(case)):
        rows.append({"name": result.how, "devices": 4 * nodes, "tokens_per_s": result.tokens_per_s})
scaling = pd.DataFrame(rows)
show.scaling(scaling, speed="tokens_per_s")

# %% id="scale-numbers"
rates = scaling.pivot(index="devices", columns="name", values="tokens_per_s")
for devices, guessed in growth.items():
    guessed.compare(rates.published[devices] / rates.published[devices // 2])
rates["planned ÷ published"] = rates.planned / rates.published
rates.round(2)

# %% id="scale-claim" tags=["claim"]
errors = rates["planned ÷ published"]
claim(
    "rate on 48 nodes, planned relative to published",
    errors[192],
    least=1.1,
    most=1.3,
    unit="times",
)
claim(
    "rate on 192 nodes, planned relative to published",
    errors[768],
    least=1.15,
    most=1.4,
    unit="times",
)

# %% [markdown] id="scale-explain"
# **Explain.** If you guessed 2 and 2, you gave the planner's answer, and it is wrong. From 48 to 96 nodes the rate
# grew by about 2.5, and from 96 to 192 by about 1.5. The last column shows the planner's error. The planned rate is 6
# % too low at 96 nodes, but 19 % too high at 48 nodes and 28 % too high at 192.
#
# No formula in the planner can give a factor of 2.5 with equal work per device. Something else must have slowed the
# runs at 48 and at 192 nodes, and the publication does not say what. So the agreement at 96 nodes alone does not
# prove that the planner is right. But a plan shows *which measurement needs an explanation*.

# %% [markdown] id="newer-idea"
# ## Does the plan hold for a newer and larger run?
#
# The next test of the planner is a run of 2024. Llama 3 with 405 billion parameters was trained on H100 devices with a
# peak of 989 TFLOP/s. It reached 430 TFLOP/s per device on 8192 devices and 400 on 16,384 ([Llama
# 3](https://arxiv.org/abs/2407.21783), Table 4). Both runs used batches of 16 million tokens, which are 2048
# sequences. Both layouts have tensor 8 and pipeline 16, without recomputation. The optimizer state and the gradients
# are sharded over the data ranks (ZeRO-2).
#
# The paper says that the stages are interleaved (lesson 07b). It gives neither the number of pieces in a stage nor the
# size of a micro-batch. The next cell plans both runs with one sequence in a micro-batch, and with 1, 4 and 8 pieces
# (*virtual*). With 8, a piece is one layer. The nearest program that the planner knows is torchtitan, which the same
# company publishes:

# %% id="newer-see"
llama, published_tflops = plan.preset("llama-405b"), {8192: 430, 16384: 400}
rates, needs_gib = {}, {}
for devices in published_tflops:
    machine = plan.cluster("dgx-h100", devices=devices)
    theirs = plan.Layout(
        data=devices // 128, tensor=8, pipeline=16, global_batch=2048, zero=2,
        sequence_parallel=True, stages="ends-count",
    )  # fmt: skip
    for code, pieces in (("megatron-core", 8), *(("torchtitan", pieces) for pieces in (1, 4, 8))):
        tried = plan.predict(llama, theirs.but(virtual=pieces), machine, code)
        rates[f"{code}, virtual {pieces}", devices] = tried.tflops_per_device
        needs_gib[f"{code}, virtual {pieces}", devices] = tried.device_gib
newer = pd.Series(rates).unstack()
newer.loc["published"] = published_tflops
newer["change (%)"] = 100 * (newer[16384] / newer[8192] - 1)
newer.round(1).rename(
    columns=lambda name: f"{name} (TFLOP/s)" if name in published_tflops else name
)

# %% id="newer-memory"
print(f"a device has {tried.capacity_gib:.1f} GiB; planned, in GiB:")
pd.Series(needs_gib).unstack().round(1)

# %% id="newer-claim" tags=["claim"]
of_theirs = newer.loc["torchtitan, virtual 8"]
for devices, measured in published_tflops.items():
    claim(f"405 B, {devices} GPUs: planned rate, relative to the published rate",
          of_theirs[devices] / measured, least=0.85, most=1.15, unit="times")  # fmt: skip
claim("405 B, change of the planned rate from 8192 to 16,384 GPUs",
      of_theirs["change (%)"], least=-9.5, most=-3, unit="%")  # fmt: skip
claim("405 B, planned memory of 16,384 GPUs, relative to a device",
      needs_gib["torchtitan, virtual 8", 16384] / tried.capacity_gib, least=0.9, most=1, unit="times")  # fmt: skip

# %% [markdown] id="newer-explain"
# **Explain.** With 8 pieces, the plan has the right size and the right sign: the larger run is slower per device. Its
# batch is the same, so each data rank has 16 micro-batches instead of 32. The time of the bubble, relative to the
# other work, is (16 − 1) / (8 × 32) = 6 % on 8192 devices and twice as much on 16,384. With one piece it would be 47
# % and 94 %, and the rate would fall by a quarter. So the published rates agree only with stages in many pieces.
# Planned as Megatron-LM, which hides more messages behind computing, both runs are about a fifth too fast.
#
# The published runs reach 40 to 43 % of the peak, and the older benchmark reached 31 %. The newer nodes have eight
# devices, so tensor 8 stays inside a node, and the bubble is shorter.
#
# The memory is a closer test. On 16,384 devices the plan leaves a few GiB free. On 8192 devices it needs 5 % more than
# a device has, although the run existed. The plan assumes Megatron-LM's order of the pieces. The paper describes an
# order that can be adjusted, and says that tensors are freed early, but gives no memory. In one of twenty published
# runs with measured memory, the planner's error exceeds 15 %. So do not reject a layout because of 5 %: try it.

# %% [markdown] id="job-idea"
# ## How does the job differ from a small job?
#
# The job is the same script as in lesson 03, with larger numbers. JUWELS Booster is one of the sites that the course
# knows. Its preset names the development partition, which has only four nodes for a job. The large partition is
# called `booster`.

# %% id="job-script"
script = bench.script("175", "juwels-booster", partition="booster", account="your-budget")
script

# %% [markdown] id="job-differ-idea"
# The job for 13 B on 8 nodes differs in a few lines. Lines with `-` are only in the job for 175 B, and lines with `+`
# are only in the job for 13 B.

# %% id="job-differ"
script_13 = bench.script("13", "juwels-booster", partition="booster", account="your-budget")
lines = difflib.ndiff(str(script).splitlines(), str(script_13).splitlines())
print(*[line for line in lines if line[0] in "+-"], sep="\n")

# %% [markdown] id="job-explain"
# | lines | why at this size |
# |---|---|
# | `module load …` | the job does not inherit the environment of your shell, so it must activate its own on all nodes |
# | `MASTER_ADDR=…i`, `--local-addr`, `--rdzv-conf` | nodes have different names on the fast network, and all launchers must use the same name |
# | `--max-restarts=0` | a process that fails ends the job; otherwise all 96 launchers would restart their processes |
# | `--tee=3` | both output streams of each process go to the log, with the local rank in front: `[default3]:` |
# | `CUDA_DEVICE_MAX_CONNECTIONS=1` | keeps communication and kernels in order, which sequence parallelism needs |
# | `--recompute-granularity selective` | part of the benchmark's recipe; attention is fused here, so it has nothing to drop (lesson 09), and the plan counts no recomputation |
#
# Megatron-LM itself accepts the same flags, but its first rank compiles helpers at the start while all other ranks
# wait. If the compiler is missing or the folder is read-only, the job fails. So the job for Megatron-LM builds the
# helpers once, before the launch:

# %% id="job-build"
with_megatron = bench.script(
    "13", "juwels-booster", partition="booster", account="your-budget",
    program="/path/to/Megatron-LM/pretrain_gpt.py",
)  # fmt: skip
print(*[line for line in str(with_megatron).splitlines() if "compile_helpers" in line])

# %% [markdown] id="data-idea"
# ## Text becomes tokens before the job
#
# A training job should not wait for its data. So a separate job turns the text into token numbers once and stores
# them in two files. The `.bin` file holds the numbers, and the `.idx` file says where each document begins. The
# benchmark's sample has 790 documents with 10 MB of text and uses GPT-2's tokenizer. You use a hundred documents of
# the course's sample text and a tokenizer of the same kind:

# %% id="data-run"
data = shlex.quote(lab.site.data)
tokens = lab.submit(
    shell.recipe(
        "tokens",
        f"""head -n 100 {data}/sample.jsonl >"$COURSE_RUN_DIR"/part.jsonl
python {shlex.quote(lab.site.programs)}/preprocess_data.py \\
    --input "$COURSE_RUN_DIR"/part.jsonl --output-prefix "$COURSE_RUN_DIR"/mine \\
    --vocab-file {data}/vocab.json --merge-file {data}/merges.txt --append-eod
""",
    )
).require()
# !ls -l "{tokens.folder}"/mine_text_document.*
# !tail -n 1 "{tokens.log_file}"

# %% [markdown] id="data-read-idea"
# You can read the format by hand. An index file starts with nine bytes that name the format. Then come the version, a
# code for the number type, the counts of sequences and documents, and the length of each sequence:

# %% id="data-read"
prefix = tokens.require().folder / "mine_text_document"
index = prefix.with_suffix(".idx").read_bytes()
version, code = np.frombuffer(index, "<u8", 1, 9)[0], index[17]
sequences = int(np.frombuffer(index, "<u8", 1, 18)[0])
lengths = np.frombuffer(index, "<i4", sequences, 34)
numbers = np.fromfile(prefix.with_suffix(".bin"), {4: "<i4", 8: "<u2"}[code])
vocabulary = json.loads(Path(lab.site.data, "vocab.json").read_text(encoding="utf-8"))
words = {number: text for text, number in vocabulary.items()}
print(f"{index[:9]}, version {version}, type code {code}: {numbers.itemsize} bytes per token")
print(f"{sequences} documents with {lengths.sum():,} tokens, {len(numbers):,} in the file")
print("the first:", *[words[number] for number in numbers[:12].tolist()])

# %% [markdown] id="data-explain"
# Two bytes per token are enough, because the vocabulary has fewer than 65,536 entries. (A byte-level tokenizer writes
# a space as `Ġ`.) Documents are stored one after another, with a special token between them, and the whole file is cut
# into samples of 2048 tokens. A sample may therefore cross from one document to the next. The loader needs no text and
# no tokenizer, because each sample is a contiguous part of this file.

# %% [markdown] id="run-idea"
# ## Run it on your devices
#
# The command `course bench --tag 175` prints the plan that you saw above. With `--tag box` it runs a model that fits
# your devices. Its layout has the same pattern: tensor inside the node, pipeline across nodes, several micro-batches.
# The log and the two divisions are the same.
#
# **Predict.** The model has 1.9 million parameters, a hundred thousandth of 175 billion. How many tokens per second
# will your four devices reach? Use 6 FLOPs per parameter and token. A device of the box achieves a few GFLOP/s. For
# comparison, the 96 nodes reached 36,055.

# %% id="run-guess"
### BEGIN SOLUTION
### GAP guess_tokens = ...  # tokens per second
guess_tokens = 100_000
### END SOLUTION

# %% id="run-box"
seen = predict("15: tokens per second on your devices", guess_tokens, unit="tokens/s")
mine = bench.run(lab, "box")
seen.compare(mine.tokens_per_s)
mine

# %% id="run-table"
bench.table([bench.published("13"), bench.plan("13"), published, planned, mine])

# %% [markdown] id="run-explain"
# **Explain.** The next cell compares your row with the published run:

# %% id="run-said"
tiny = plan.parameters(bench.case("box").model).total
times_fewer = plan.parameters(large).total / tiny
if mine.tokens_per_s > published.tokens_per_s:
    print(f"Your rate is higher, but your model is {times_fewer:,.0f} times smaller.")
else:
    print(f"Your rate is lower, although your model is {times_fewer:,.0f} times smaller.")
theirs = 6 * plan.parameters(large).total * published.tokens_per_s / 384 / 1e12
yours = 6 * tiny * mine.tokens_per_s / mine.run.devices / 1e9
print("At 6 FLOPs per parameter and token:")
print(f"{yours:,.1f} GFLOP/s on each of your devices, {theirs:,.1f} TFLOP/s on each of theirs.")

# %% [markdown] id="run-compare"
# You cannot compare tokens per second of different models, so the rules fix layers, width and heads. You can compare
# FLOP/s to some degree, but a small model leaves a large device mostly idle.
#
# The result uses the mean time per iteration *without the first* one. In the first iteration, the program allocates
# memory and opens connections:

# %% id="run-log"
show.throughput(mine.run, unit="ms")

# %% [markdown] id="jube-idea"
# ## A benchmark that others can repeat
#
# A benchmark that people run by hand is run differently each time. JUBE is a tool from the Jülich Supercomputing
# Centre that keeps parameters, steps and result patterns in one file. It gives each run its own folder. The course
# writes such a file from the same case:

# %% id="jube-file"
print(bench.jube("box"))

# %% [markdown] id="jube-explain"
# The file has parameters, a step that runs the program, patterns that find numbers in the output, and a table. If you
# write `2,4` for a parameter, JUBE runs both values. JUBE is not part of the course. If you have it, use
# `course bench --tag box --jube > box.xml`, `jube run box.xml` and `jube result -a gpt-box_runs`. These commands
# produce the table above.

# %% [markdown] id="wrong-idea"
# ## What goes wrong at 96 nodes
#
# At 96 nodes, the first attempt usually fails. NCCL, the library that moves data between GPUs, causes some of these
# known failures:

# %% [markdown] id="wrong-table"
# | symptom | why | cure |
# |---|---|---|
# | `RendezvousConnectionError: the connection to the C10d store has failed` | A launcher cannot reach `MASTER_ADDR`, or does not recognise its own host. A host has a different name in the fast network. | Use the host's name in the fast network. On JUWELS Booster, append an `i` to the host name. Tell torchrun which node is the host with `--rdzv-conf is_host=1`. |
# | `client socket cannot be initialized … (errno: 97 - Address family not supported)` | The library tries IPv6 first, which the node does not have, and then IPv4. | Do nothing. This is a warning, and the run continues. |
# | No log line for minutes, devices at 100 % | The job hangs, because some ranks did not enter a collective. This happens when large models are trained. | Look at the stack of each rank (lesson 16). `CUDA_LAUNCH_BLOCKING=1` helped in BLOOM's training, but only with NCCL 2.12.7 or older. |
# | A hang from the first iteration on, with `CUDA_LAUNCH_BLOCKING=1` | In NCCL after 2.12.7, streams wait for each other if every launch blocks. | Unset `CUDA_LAUNCH_BLOCKING`. |
# | An unknown error or a hang while kernels are compiled | All ranks compile into the same folder, or a killed job left a lock in it. | Build once before the launch, and remove the lock. |
# | `OutOfMemoryError` in the first iteration | The layout does not fit. With tensor 8 × pipeline 8 on 384 devices, the 175 B model leaves little of 40 GiB. | Plan first. Use more pipeline or tensor ranks, or recompute more. |

# %% [markdown] id="wrong-explain"
# Compare the third row with the fourth. The advice against one hang *causes* another hang in a newer library, because
# advice is right only for certain versions. So record the versions of PyTorch, NCCL and the driver with each result.

# %% [markdown] id="ex1" tags=["exercise"]
# ## Exercises
#
# > **Exercise 15.1** — You get a part of a machine for a week, and the memory of its devices differs from the memory
# > above. Write a search: `fastest(nodes, limit_gib)` returns the case of 175 B with the shortest planned time to
# > report. Its plan needs at most `limit_gib` GiB per device, and its global batch stays 96.
# >
# > Try tensor sizes of 1, 2, 4, 8 and 16, all pipelines that divide the 96 layers, and micro-batches of 1 and 2. The
# > accumulation follows from the global batch. `bench.plan(case)` has `time_to_report_s` and `estimate.device_gib`. A
# > node has four devices.


# %% id="ex1-gap" tags=["exercise"]
def fastest(nodes, limit_gib):
    best = None
    ### BEGIN SOLUTION
    ### GAP ...  # 10 to 15 lines
    for tensor in (1, 2, 4, 8, 16):
        for pipeline in (stages for stages in range(1, 97) if 96 % stages == 0):
            for micro_batch in (1, 2):
                ranks, left = divmod(4 * nodes, tensor * pipeline)
                if left or not ranks or 96 % (ranks * micro_batch):
                    continue
                steps = 96 // (ranks * micro_batch)
                sizes = {"tensor": tensor, "pipeline": pipeline, "micro_batch": micro_batch}
                tried = bench.plan(reference.but(nodes=nodes, accumulation=steps, **sizes))
                fits = tried.estimate.device_gib <= limit_gib
                if fits and (best is None or tried.time_to_report_s < best.time_to_report_s):
                    best = tried
    ### END SOLUTION
    return best and best.case


# %% id="ex1-check" tags=["check"]
check.ex15_fastest(fastest)

# %% [markdown] id="ex1-why" tags=["solution"]
# The next cell asks for 64 nodes with less and less memory. With less memory, the fastest layout that fits cuts the
# model into more parts and takes longer.

# %% id="ex1-use" tags=["solution"]
week = {f"{gib} GiB": bench.plan(fastest(64, gib)) for gib in (40, 28, 25, 21)}
pd.DataFrame(
    {
        limit: {
            "tensor": one.case.layout.tensor,
            "pipeline": one.case.layout.pipeline,
            "needs (GiB)": round(one.estimate.device_gib, 1),
            "time to report (s)": round(one.time_to_report_s),
        }
        for limit, one in week.items()
    }
).T

# %% [markdown] id="ex2" tags=["exercise"]
# > **Exercise 15.2** — Run the model of the box in another layout: tensor parallelism over all four devices, with the
# > same global batch of 4 samples. Then say which run, `mine` or `other`, reports the shorter time on your machine.

# %% id="ex2-gap" tags=["exercise"]
### BEGIN SOLUTION
### GAP other = bench.run(lab, bench.case("box").but(tensor=..., pipeline=..., accumulation=...))
other = bench.run(lab, bench.case("box").but(tensor=4, pipeline=1, accumulation=4))
### END SOLUTION
bench.table([mine, other])

# %% id="ex2-shorter" tags=["exercise"]
### BEGIN SOLUTION
### GAP shorter = ...  # mine or other
shorter = min(mine, other, key=lambda result: result.time_to_report_s)
### END SOLUTION

# %% id="ex2-check" tags=["check"]
check.ex15_other(other, mine, shorter)

# %% [markdown] id="ex2-why" tags=["solution"]
# With tensor 4, every layer of every micro-batch needs all-reduces over all four devices, and each all-reduce crosses
# the link between the nodes. With pipeline 2 across the nodes, only the hidden states of a micro-batch cross, once in
# each direction.

# %% id="ex2-claim" tags=["solution", "claim"]
slower = other.time_to_report_s / mine.time_to_report_s
claim(
    "time with tensor across nodes, compared with pipeline across", slower, least=1.2, unit="times"
)

# %% [markdown] id="challenge" tags=["exercise"]
# > **Going further** — A vendor offers 16 nodes with 8 H100 each. Find the free parameters for which the planner
# > predicts the shortest time for 175 B. A case counts nodes of four devices, so these are 32 nodes:
# > `bench.plan(reference.but(nodes=32, …), machine="dgx-h100")`. How sure are you that it passes the limit of 560 s?
# > Look at the interval and at the free memory.

# %% [markdown] id="home"
# ## To take home
#
# - Time to report = 20 million tokens ÷ (global batch × sequence ÷ seconds per iteration). It does not show what
#   percentage of the peak the devices reached.
# - First find the layouts that fit into memory, then the fastest of them. Parameters, gradients and optimizer state
#   take 18 bytes per parameter, before any activation.
# - Compare layouts only at the same global batch.
# - A layout must divide devices, heads, layers and batch evenly.
# - A plan has an interval. Use it to choose what to measure, and to see which measurement needs an explanation.
# - Fixed parameters make results comparable, and recorded versions make them repeatable.
#
# **References.** JUPITER Benchmark Suite, Megatron-LM, 2024:
# [repository](https://github.com/FZJ-JSC/jubench-megatron-lm). The Llama 3 Herd of Models, 2024: [arXiv
# 2407.21783](https://arxiv.org/abs/2407.21783).

# %% [markdown] id="clean-idea"
# ## Cleaning up

# %% id="clean"
lab.clean("tokens", "gpt-box", "gpt-box-n2-t4-p1-mb1-x4", yes=True)
