# %% [markdown] id="title"
# # 09 Activation checkpointing
#
# The backward pass needs many results of the forward pass, and they fill a device's memory. **Activation
# checkpointing** stores a few of them and computes the others again. These checkpoints are not files, so newer
# programs and this lesson say **recomputation**. You measure what memory it saves and what time it costs.
#
# | | |
# |---|---|
# | You will be able to | say in bytes what a layer stores for the backward pass; recompute a whole layer, or a part of it, in your own program; predict the peak memory and the cost of each method; find the recomputation in a trace |
# | Minutes | 55 |
# | Devices | 1 device (going further: 2 nodes with one each) |
# | Before | lessons 03 and 05; lesson 06 for the parts of a device's memory |

# %% id="begin"
import pandas as pd
import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from course_lib import Lab, check, claim, gpt, plan, predict, show, trial

lab = Lab()

# %% [markdown] id="hump-idea"
# ## What a layer stores for the backward pass
#
# An **activation** is a result of the forward pass that the backward pass needs. It lives from the forward pass of
# its layer to the backward pass of the same layer. The activations of the first layer live longest.
#
# The model below has many narrow layers and long sequences, so it computes quickly and stores a lot.

# %% id="hump-recipe"
deep = gpt.model("tiny").but(name="deep", layers=16, hidden=64, sequence=256)
common = dict(model=deep, micro_batch=2, iterations=7, memory=(6, 7))
keep = lab.submit(gpt.recipe("keep", **common, profile=(6, 7)))
keep.watch()

# %% [markdown] id="hump-guess-idea"
# `memory=(6, 7)` and `profile=(6, 7)` record the memory and a profile of the seventh step.
#
# This lesson measures activations in **widths**. One width is one number per channel of the hidden size (64 here) for
# every token in the micro-batch. The input of a layer is one width.
#
# A layer has two halves. The first half is a norm, the QKV matrix (queries, keys, values), attention, and the output
# matrix. The second half is a norm, a matrix that widens the tensor four times, a GELU, and a matrix that narrows it
# again. The backward pass needs the input of each operation.
#
# **Predict.** How many widths does one layer store for its backward pass?

# %% id="hump-guess"
### BEGIN SOLUTION
### GAP guess_widths = ...  # your number in place of the dots
guess_widths = 4
### END SOLUTION

# %% id="hump-see"
kept_widths = predict("09: widths that one layer stores", guess_widths, unit="widths")
show.memory(keep.memory[0])

# %% [markdown] id="hump-read"
# The flat part at the bottom stays for the whole run. It holds the parameters, the gradients, and two numbers per
# parameter for the optimizer. The hump on top rises layer by layer in the forward pass and falls in the backward
# pass. On the box, the flat end of each pass is artificial, because the slot simulates a slower device.
#
# One large block belongs to no layer. It holds the **logits**, one number per token for each of the 8192 entries of
# the vocabulary. To get your answer, subtract the logits from the activations and divide by the number of layers.

# %% id="hump-count"
tokens = 2 * deep.sequence  # micro batch × sequence
width_bytes = tokens * deep.hidden * 4  # float32: 4 bytes
logits_bytes = tokens * deep.vocabulary * 4
kept_bytes = keep.memory[0].peak_composition["activations"]
widths = (kept_bytes - logits_bytes) / deep.layers / width_bytes
kept_widths.compare(widths)
show.guess(kept_widths.guess, widths, prediction=16, unit="widths", what="stored by one layer")

# %% id="hump-claim" tags=["claim"]
claim("a layer stores sixteen times its input", widths, least=15.5, most=17.5, unit="widths")

# %% [markdown] id="hump-explain"
# **Explain.** A layer stores sixteen widths. If you guessed one or two, you probably counted only what a layer passes
# to the next layer. But the gradient of a matrix needs the input of its **matmul** (matrix multiplication), and a
# layer has several matmuls:
#
# | stored by one layer | widths |
# |---|---|
# | its input, for the first norm | 1 |
# | the output of the norm, for the QKV matrix | 1 |
# | queries, keys and values | 3 |
# | the output of attention | 1 |
# | the input of the second norm, and its output | 2 |
# | the wide middle, before and after the GELU | 4 + 4 |
# | **together** | **16** |
#
# The measured number is a little larger, because it includes the final norm and a few statistics per token.
#
# The table does not contain the **scores** of attention, which are *T* × *T* numbers per head for a sequence of *T*
# tokens. **Fused attention** computes the scores in small blocks and never stores all of them.
#
# Sixteen is the number for GPT-2. Many newer models use **grouped queries**, so that several heads share keys and
# values, which saves up to two widths. Their **SwiGLU**, a middle with three matrices, stores more.

# %% [markdown] id="forget-idea"
# ## Keep only the input
#
# Fifteen of the sixteen widths can be computed from the input. So each layer can keep only its input and free the
# rest after its forward pass. In the backward pass, it first runs its **forward pass again**. One word in the recipe
# sets three flags of Megatron-LM:

# %% id="forget-recipe"
forget_recipe = gpt.recipe("forget", **common, profile=(6, 7), recompute="full")
asked = {name: value for name, value in forget_recipe.flags.items() if "recompute" in name}
print(*[f"{name} {value}" for name, value in asked.items()], sep="\n")

# %% [markdown] id="forget-guess-idea"
# **Predict.** The peak in the figure above consists of the flat part, the layers, and the logits. To what percentage
# of its height will it fall?

# %% id="forget-guess"
### BEGIN SOLUTION
### GAP guess_percent = ...  # your number in place of the dots
guess_percent = 25
### END SOLUTION

# %% [markdown] id="forget-plan-idea"
# The course's planner computes the memory of a recipe from the model and the method alone.

# %% id="forget-plan"
remaining = predict("09: peak with recomputation, relative to without", guess_percent, unit="%")


def planned(recipe):
    """Return the planner's estimate for a recipe; memory does not depend on the cluster."""
    return plan.predict(gpt.model(recipe), gpt.layout(recipe), plan.box(), "course")


def peak_mib(what):
    """Return the measured peak of a run, or the planned peak of a recipe, in MiB."""
    is_run = hasattr(what, "memory")
    peak = what.memory[0].peak_bytes if is_run else planned(what).fullest.allocated
    return peak / 2**20


print(f"keep:   planned {peak_mib(keep.recipe):6.1f} MiB, measured {peak_mib(keep):6.1f} MiB")
print(f"forget: planned {peak_mib(forget_recipe):6.1f} MiB, still to be measured")

# %% id="forget-run"
forget = lab.submit(forget_recipe)
forget.watch()

# %% id="forget-see"
show.memory_compare({"keep": keep.memory, "forget": forget.memory}, by="event")

# %% id="forget-share"
share = 100 * peak_mib(forget) / peak_mib(keep)
by_plan = 100 * peak_mib(forget_recipe) / peak_mib(keep.recipe)
remaining.compare(share)
show.guess(remaining.guess, share, prediction=by_plan, unit="%", what="peak relative to keep")

# %% id="forget-claim" tags=["claim"]
claim("recomputation lowers the peak, relative to keep, to", share, least=45, most=67, unit="%")
claim(
    "peak with recomputation, planned relative to measured", by_plan / share, least=0.95, most=1.05
)

# %% [markdown] id="forget-explain"
# *Memory of the two runs in one step. The horizontal axis counts allocations instead of time, so short-lived blocks
# stay visible. Dotted lines mark the peaks.*
#
# **Explain.** The curve of `forget` rises by one width per layer instead of sixteen, and the peak is now at the
# logits. In the backward pass, the curve has one tooth per layer: the activations of the layer are computed again,
# used, and freed. If you guessed 6 %, a sixteenth, you forgot that the flat part and the logits stay.
#
# In a published run with 12 layers of width 768 on V100 GPUs with 16 GB, recomputation lowered the peak from about 10
# GB to about 3 GB. That program stored the scores. It also used **dropout**, which sets random activations to zero and
# must remember which ones. The planner estimates:

# %% id="lab-plan"
for recompute in ("none", "full"):
    layout = plan.Layout(data=4, micro_batch=2, precision="fp32", recompute=recompute, flash=False)
    there = plan.predict(gpt.model("lab"), layout, plan.cluster("V100-16GB", 4), "megatron-2021")
    print(f"recompute {recompute}: {there.allocated_gib:4.1f} GiB allocated")

# %% [markdown] id="lab-plan-explain"
# The planner comes close to both published values, which were read off a graph in GB (1 GB is 0.93 GiB).

# %% [markdown] id="same-idea"
# ### Is it the same model?
#
# **Predict.** Recomputation runs the same operations on the same inputs. The runs print their losses with seven
# digits. Are the losses of `keep` and `forget` `"the same to the last digit"`, `"the same but for rounding"`, or
# `"different"`?

# %% id="same-guess"
### BEGIN SOLUTION
### GAP guess_losses = ...  # one of the three
guess_losses = "the same but for rounding"
### END SOLUTION

# %% id="same-see"
SAME = ("the same to the last digit", "the same but for rounding", "different")
losses_are = predict("09: losses with and without recomputation", guess_losses, choices=SAME)
difference = (keep.log.iterations["lm_loss"] - forget.log.iterations["lm_loss"]).abs().max()
print(f"largest difference of the losses in {len(keep.log.iterations)} iterations: {difference:g}")
losses_are.compare(SAME[0] if difference == 0 else SAME[1] if difference < 1e-3 else SAME[2])

# %% id="same-claim" tags=["claim"]
claim("it is the same model: the losses differ by", difference, most=1e-4)

# %% [markdown] id="same-explain"
# **Explain.** The same operations on the same numbers give the same result. If the order of a device's sums changes
# from run to run, even two runs of one recipe differ in the last digits.
#
# A layer with dropout needs the same random numbers in both passes. Programs therefore store the state of the random
# number generator with the checkpoint. This model has no dropout.

# %% [markdown] id="hand-idea"
# ## Recompute in your own program
#
# In your own program, write `checkpoint(layer, x, use_reentrant=False)` instead of `layer(x)`. The call runs the
# layer, keeps only `x`, and runs the layer again in the backward pass. `use_reentrant=False` selects the newer of
# PyTorch's two implementations.
#
# The next cell defines a layer and counts its widths with `saved_tensors_hooks`, which PyTorch calls for every tensor
# that it saves.


# %% id="hand-layer"
class Layer(nn.Module):
    """One transformer layer. `forget` names the part to recompute: "" or "middle"."""

    def __init__(self, hidden=96, heads=4, kv_heads=4, swiglu=False, forget=""):
        super().__init__()
        torch.manual_seed(0)
        self.heads, self.kv_heads, self.forget = heads, kv_heads, forget
        wide, kv = 8 * hidden // 3 if swiglu else 4 * hidden, hidden // heads * kv_heads
        self.norm, self.second_norm = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.q, self.kv = nn.Linear(hidden, hidden), nn.Linear(hidden, 2 * kv)
        self.out = nn.Linear(hidden, hidden)
        self.up, self.down = nn.Linear(hidden, wide), nn.Linear(wide, hidden)
        self.gate = nn.Linear(hidden, wide) if swiglu else None

    def attend(self, x):
        q = self.q(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        kv = self.kv(x).unflatten(-1, (2 * self.kv_heads, -1)).transpose(1, 2)
        mixed = functional.scaled_dot_product_attention(
            q, *kv.chunk(2, dim=1), is_causal=True, enable_gqa=self.kv_heads < self.heads
        )
        return self.out(mixed.transpose(1, 2).flatten(2))

    def middle(self, x):
        wide = self.up(x)
        bent = functional.gelu(wide) if self.gate is None else functional.silu(self.gate(x)) * wide
        return self.down(bent)

    def forward(self, x):
        x = x + self.attend(self.norm(x))
        normed = self.second_norm(x)
        if self.forget == "middle":
            return x + checkpoint(self.middle, normed, use_reentrant=False)
        return x + self.middle(normed)


def kept_and_gradients(layer, x, run=lambda layer, x: layer(x)):
    """Return the widths stored for the backward pass, without the weights, and all gradients."""
    weights = {p.untyped_storage().data_ptr() for p in layer.parameters()}
    kept = {}

    def note(tensor):
        memory = tensor.untyped_storage()
        if memory.data_ptr() not in weights:
            kept[memory.data_ptr()] = memory.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        out = run(layer, x)
    out.square().mean().backward()
    return sum(kept.values()) / x.nbytes, torch.cat([p.grad.flatten() for p in layer.parameters()])


# %% [markdown] id="hand-guess-idea"
# **Predict.** Only the *middle* of the layer is recomputed, from the output of the second norm to the output of the
# last matrix. How many of the sixteen widths are still stored?
#
# A second layer, built like many newer layers, recomputes nothing. Its four heads of queries share one head of keys
# and values. Its SwiGLU computes `silu(gate(x)) * up(x)`, where `gate(x)` and `up(x)` are 8/3 widths wide. The
# backward pass needs the input of `silu`, both factors of the multiplication, and the result. How many widths does
# this layer store?

# %% id="hand-guess"
### BEGIN SOLUTION
### GAP guess_middle, guess_today = ..., ...  # widths
guess_middle, guess_today = 12, 14
### END SOLUTION

# %% id="hand-see"
counted = {
    "middle": predict("09: widths stored if the middle is recomputed", guess_middle, unit="widths"),
    "today's": predict("09: widths that a newer layer stores", guess_today, unit="widths"),
}


def again(layer, x):
    return checkpoint(layer, x, use_reentrant=False)


x = torch.randn(2, 256, 96, requires_grad=True)
by_hand = {
    "all kept": kept_and_gradients(Layer(), x),
    "middle": kept_and_gradients(Layer(forget="middle"), x),
    "whole layer": kept_and_gradients(Layer(), x, run=again),
    "today's": kept_and_gradients(Layer(kv_heads=1, swiglu=True), x),
}
for name, guessed in counted.items():
    guessed.compare(by_hand[name][0])
pd.Series({name: kept for name, (kept, _) in by_hand.items()}, name="widths stored").round(2)

# %% id="hand-claim" tags=["claim"]
right = by_hand["all kept"][1]
worst = max((by_hand[name][1] - right).abs().max() for name in ("middle", "whole layer"))
claim("with recomputation the gradients differ by", worst, most=1e-6)
claim("a layer stores 16", by_hand["all kept"][0], least=16, most=16.2, unit="widths")
claim("with its middle recomputed, 8", by_hand["middle"][0], least=8, most=8.2, unit="widths")
claim("with all recomputed, 1", by_hand["whole layer"][0], least=1, most=1.1, unit="widths")

# %% [markdown] id="hand-explain"
# **Explain.** The middle stores 4 + 4 widths, and its input is stored in any case, so recomputation saves 8. The
# middle contains two thirds of the layer's matmul FLOPs, in two matmuls. Megatron-LM repeats both. PyTorch's
# `checkpoint` repeats only the first, because it stops when it has every tensor that the backward pass needs.
#
# The newer layer stores 17¼ widths. Keys and values take ½ instead of 2, but SwiGLU stores four tensors of 8/3 widths
# instead of two tensors of four. A fused SwiGLU kernel stores one tensor less, which gives 14½.

# %% [markdown] id="price-idea"
# ## What recomputation costs
#
# Each layer runs its forward pass once more. The backward pass of a matmul takes two matmuls, one for the gradient of
# the weights and one for the gradient of the input. **Predict.** By what factor is an iteration of `forget` slower?

# %% id="price-guess"
### BEGIN SOLUTION
### GAP guess_factor = ...  # your number in place of the dots
guess_factor = 2.0
### END SOLUTION

# %% id="price-see"
longer = predict("09: time of a step with recomputation", guess_factor, unit="times")
timed = {name: [run] for name, run in (("keep", keep), ("forget", forget))}
for name, recompute in (("keep", "none"), ("forget", "full")):
    # Run both again side by side, without recording, so that a slow minute affects both.
    more = gpt.recipe(f"{name}-again", model=deep, micro_batch=2, iterations=9, recompute=recompute)
    timed[name].append(lab.submit(more))
for its_runs in timed.values():
    its_runs[-1].require()


def milliseconds(*runs):
    """Return the median over all iterations but the first; the median ignores the recorded one."""
    return pd.concat([run.log.iterations["elapsed_ms"].iloc[1:] for run in runs]).median()


def flops_factor(recipe):
    """Return the FLOPs of a step with recomputation, divided by the FLOPs without."""
    flops = plan.of_iteration(gpt.model(recipe), gpt.layout(recipe))
    return flops.hardware / flops.model


price = milliseconds(*timed["forget"]) / milliseconds(*timed["keep"])
for name, its_runs in timed.items():
    print(f"{name:6} {milliseconds(*its_runs):7.1f} ms per iteration")
longer.compare(price)
show.guess(
    longer.guess, price, prediction=flops_factor(forget_recipe), unit="times", what="time of a step"
)

# %% id="price-claim" tags=["claim"]
claim("recomputation makes a step slower by", price, least=1.05, most=1.95, unit="times")

# %% [markdown] id="price-explain"
# **Explain.** Count a step in matmuls. The forward pass is 1 part and the backward pass is 2 parts. Recomputation
# adds 1 part to these 3, so the factor is 4/3. The formula in the figure gives less, because the matmul with the
# vocabulary is not repeated. This matmul is large in a small model and hardly counts in a large one.
#
# The formula counts only **FLOPs**, the additions and multiplications of floating-point numbers (lesson 14). A layer
# also repeats dozens of small operations, such as norms, sums and copies, which have few FLOPs but take time. The
# next cell compares your run with the formula:

# %% id="price-said"
if price > 1.1 * flops_factor(forget_recipe):
    print(f"× {price:.2f}, more than the FLOPs: layers as narrow as these spend much of their time")
    print("outside matmuls, and this work has a larger share in the forward pass.")
elif price < 0.9 * flops_factor(forget_recipe):
    print(f"× {price:.2f}, less than the FLOPs: much of your step is spent outside the layers,")
    print("on optimizer, loss or communication, and this work is not repeated.")
else:
    print(f"× {price:.2f}, close to the FLOPs. The step is still not all matmuls:")
    print("the other operations of the layers are repeated too, in about the same proportion.")

# %% [markdown] id="price-published"
# In a published comparison on A100 GPUs, full recomputation took 1.42 s per iteration for 22 billion parameters on 8
# GPUs, and 18.13 s for 175 billion on 64 GPUs. Selective recomputation, which you meet below, took 1.10 s and 13.75 s
# ([Korthikanti and others, 2022](https://arxiv.org/abs/2205.05198), Table 5). The authors combined it with sequence
# parallelism, in which tensor ranks also share the norms.

# %% [markdown] id="trace-idea"
# ## Find the recomputation in the trace
#
# Both runs recorded a **profile** of the same step. A layer that runs forward again during the backward pass has the
# label `recompute`.
#
# **Predict.** How many ranges with this label does the step contain? What percentage of a layer's forward time in the
# *same* step does one of them take?

# %% id="trace-guess"
### BEGIN SOLUTION
### GAP guess_stretches, guess_of_forward = ..., ...  # a number, and percent
guess_stretches, guess_of_forward = 1, 100
### END SOLUTION

# %% id="trace-see"
stretches = predict("09: ranges of recomputation in a step", guess_stretches)
of_forward = predict(
    "09: time of a recomputation, relative to the forward pass", guess_of_forward, unit="%"
)
show.timeline(forget.profile)

# %% id="trace-count"
recomputed = forget.memory[0].phases.query("phase == 'recompute'")
spans = forget.profile.spans
each_ms = (spans["end_us"] - spans["begin_us"]).groupby(spans["name"]).quantile(0.25) / 1e3
stretches.compare(len(recomputed))
of_forward.compare(100 * each_ms["recompute"] / each_ms["layers"])
print("lower quartiles over the layers of the recorded step:")
print(f"forward {each_ms['layers']:.2f} ms, recomputation {each_ms['recompute']:.2f} ms")
recomputed[["phase", "step", "begin_us", "end_us", "peak_bytes"]].head(4)

# %% id="trace-claim" tags=["claim"]
claim("each layer is recomputed once: recomputations", len(recomputed), least=16, most=16)


def products(run):
    calls = run.profile.operators.set_index("name")["calls"]
    return calls[["aten::mm", "aten::addmm"]].sum()


more = products(forget) - products(keep)
claim("each repeats the four matmuls of its layer: extra matmuls", more, least=64, most=64)

# %% [markdown] id="trace-explain"
# **Explain.** Each layer has one recomputation. The *last* layer comes first, because the backward pass begins at the
# end of the model. The column `peak_bytes` falls from row to row, because each layer frees the input that it kept. A
# recomputation can take more or less time than the forward pass, because caches and free memory are in a different
# state.
#
# Recording takes time, so trust the order and the proportions of a profile more than its milliseconds. On a GPU,
# these ranges show when the work was *launched*.

# %% [markdown] id="groups-idea"
# ## How many layers to recompute at once
#
# Several layers can share one checkpoint. With `recompute_layers=4` and the default method **uniform**, four layers
# form a group. Only the input of the group is stored, and the backward pass computes the whole group again at once.
#
# **Predict.** Each of the 16 layers stores 16 widths when it is computed again. The logits take 8192 / 64 = 128
# widths, as much as eight layers. Which size of group, 1, 2, 4, 8 or 16, has the lowest peak? The planner computes
# all five, and you run the last.

# %% id="groups-guess"
### BEGIN SOLUTION
### GAP guess_group = ...  # 1, 2, 4, 8 or 16
guess_group = 16
### END SOLUTION

# %% id="groups-plan"
lowest = predict("09: size of the groups with the lowest peak", guess_group)


def groups_of(layers):
    return gpt.recipe(f"groups{layers}", **common, recompute="full", recompute_layers=layers)


planned_mib = {f"groups of {n}": peak_mib(groups_of(n)) for n in (1, 2, 4, 8, 16)}
lowest.compare(int(min(planned_mib, key=planned_mib.get).split()[-1]))
pd.Series(planned_mib, name="planned peak (MiB)").round(1).to_frame()

# %% id="groups-run"
groups16 = lab.submit(groups_of(16)).require()
measured_mib = {"groups of 1": peak_mib(forget), "groups of 16": peak_mib(groups16)}
show.predicted(planned_mib, measured_mib, unit="MiB", what="peak")

# %% id="groups-see"
traces = {"all kept": keep.memory, "groups of 1": forget.memory, "one of 16": groups16.memory}
show.memory_compare(traces, by="event")

# %% id="groups-claim" tags=["claim"]
worst = measured_mib["groups of 16"] / measured_mib["groups of 1"]
claim("peak of one group of 16, relative to groups of 1", worst, least=1.2, unit="times")

# %% [markdown] id="groups-explain"
# *Memory of three runs, each over one step. Dotted lines mark the peaks.*
#
# **Explain.** The peak is at one of two moments:
#
# - At the end of the **forward** pass, memory holds the stored inputs and the logits. Larger groups store slightly
#   less.
# - In the **backward** pass, all layers of a group are computed again together, with sixteen widths each. Larger
#   groups need much more.
#
# Here, groups of up to eight layers stay below the logits. One group of sixteen takes the same time but saves only
# about half as much.
#
# In a large model the layers outweigh the logits, and the second moment decides. With *L* layers in groups of *n*,
# the inputs need *L/n* widths and the recomputed group needs 16 *n*. The sum is smallest for *n* near the square root
# of *L*/16, which is two or three for 96 layers. The often quoted square root of *L* holds only if a layer stores
# nothing but its input.

# %% [markdown] id="half-idea"
# ## Recompute only as much as you need
#
# If memory is only a little short, two methods recompute less:
#
# - The method **block** recomputes only the first *n* layers of each pipeline stage, each from its own input. The
#   other layers store everything.
# - The granularity **selective** recomputes only the inside of attention. It stores the queries, keys and values, and
#   the input of the output matrix.
#
# **Predict.** The run `half` recomputes 8 of the 16 layers with *block*. The run `selective` recomputes the inside of
# attention in all layers. Full recomputation saves 100 % of what can be saved. What percentage does each run save?
# Use the table of sixteen widths.

# %% id="half-guess"
### BEGIN SOLUTION
### GAP guess_half_percent, guess_selective_percent = ..., ...
guess_half_percent, guess_selective_percent = 50, 50
### END SOLUTION

# %% id="half-run"
given = {
    "block, 8 of 16": predict(
        "09: memory saved by half of the layers", guess_half_percent, unit="%"
    ),
    "selective": predict("09: memory saved by selective", guess_selective_percent, unit="%"),
}
half_recipe = gpt.recipe(
    "half", **common, recompute="full", recompute_method="block", recompute_layers=8
)
selective_recipe = gpt.recipe("selective", **common, recompute="selective")
submitted = lab.submit(half_recipe), lab.submit(selective_recipe)
half, selective = (run.require() for run in submitted)

# %% id="half-see"
ways = {"none": keep, "selective": selective, "block, 8 of 16": half, "uniform, all": forget}
saved_by_all = peak_mib(keep) - peak_mib(forget)
table = pd.DataFrame(
    {
        name: {
            "planned peak (MiB)": peak_mib(run.recipe),
            "measured peak (MiB)": peak_mib(run),
            "saved (%)": 100 * (peak_mib(keep) - peak_mib(run)) / saved_by_all,
            "FLOPs (times)": flops_factor(run.recipe),
        }
        for name, run in ways.items()
    }
).T
for name, guessed in given.items():
    guessed.compare(table.loc[name, "saved (%)"])
table.round(2)

# %% id="half-claim" tags=["claim"]
given_back = table["saved (%)"]
claim("half of the layers save half", given_back["block, 8 of 16"], least=45, most=55, unit="%")
claim("selective saves almost nothing here", given_back["selective"], most=3, unit="%")

# %% [markdown] id="half-explain"
# **Explain.** With *block*, memory and time change in proportion: half of the layers save half of the memory for half
# of the extra FLOPs.
#
# With fused attention, *selective* saves almost nothing, because fused attention recomputes the scores itself. The
# method was made for attention that stores its scores. With long sequences, the scores are larger than the rest of
# the layer, and in a wide model they are cheap to compute again. The planner shows what the activations would need if
# the scores were stored:


# %% id="unfused"
def activations_mib(recompute, fused):
    layout = gpt.layout(keep.recipe).but(recompute=recompute, flash=fused)
    return plan.predict(deep, layout, plan.box(), "course").fullest.activations / 2**20


pd.DataFrame(
    {
        name: {way: activations_mib(way, fused) for way in ("none", "selective", "full")}
        for name, fused in (("fused (MiB)", True), ("scores stored (MiB)", False))
    }
).round(1)

# %% [markdown] id="unfused-explain"
# If the scores are stored, recomputing them saves half of the memory here. It takes 4 *T h* FLOPs per token, while
# the matrices of a layer of width *h* take 24 *h*². In a wide model this is a few percent, as in the published times.
# In this model *T* = 4 *h*, so the scores take two fifths of a layer's forward FLOPs. With *block*, recomputing half
# of the layers adds a quarter more FLOPs than recomputing the scores, and saves nearly as much memory.
#
# In Megatron-LM, `--recompute-granularity selective` means the scores by default. `--recompute-modules` chooses other
# parts of a layer ([NVIDIA's
# page](https://docs.nvidia.com/nemo/megatron-bridge/latest/training/activation-recomputation.html)):
#
# | module | what is recomputed | widths saved, of 16 | matmuls computed again |
# |---|---|---|---|
# | `core_attn` | the scores; with fused attention nothing is saved | 0 | the two of the scores |
# | `layernorm` | the outputs of both norms | 2 | none |
# | `mlp` | the wide middle, as by hand above | 8 | two thirds of the layer's |
# | `moe_act`, `moe`, `shared_experts` | the experts of a mixture: their activation function alone, or whole experts | | none, or the experts' |
# | (granularity `full`) | all but the input | 15 | all |
#
# Choose parts that are large and cheap to recompute. Norms are nearly free. If a model has experts, their activations
# take most of the layer's memory. PyTorch offers a similar choice by operation, with
# `create_selective_checkpoint_contexts`. The course's program supports only `core_attn`.

# %% [markdown] id="elsewhere-idea"
# ## Offload to the host instead
#
# **Offloading** sends activations to the memory of the host and fetches them when they are needed, for example with
# `torch.autograd.graph.save_on_cpu`. It pays if fetching is faster than recomputing.
#
# Consider one token in one layer of width *h*. Fetching its fifteen widths of 16-bit numbers moves 15 · 2 · *h* bytes
# over a PCIe link at 25 GB/s. Recomputing them takes 24 *h*² FLOPs on a device that achieves 150 TFLOP/s. **Predict.**
# At what width *h* does fetching become faster?

# %% id="elsewhere-guess"
### BEGIN SOLUTION
### GAP guess_width = ...  # your number in place of the dots
guess_width = 500
### END SOLUTION

# %% id="elsewhere-see"
sooner = predict("09: width at which fetching becomes faster", guess_width)
table = pd.DataFrame({"width": [1024, 4096, 8192, 12288, 16384]}).set_index("width")
table["fetch (µs)"] = 15 * 2 * table.index / 25e9 * 1e6
table["recompute (µs)"] = 24 * table.index**2 / 150e12 * 1e6
even = 15 * 2 / 25e9 * 150e12 / 24
sooner.compare(even)
table.round(2)

# %% id="elsewhere-claim" tags=["claim"]
claim("fetching and recomputing take equally long at a width of", even, least=7000, most=8000)

# %% [markdown] id="elsewhere-explain"
# **Explain.** Bytes grow with *h*, and FLOPs grow with *h*². So recompute in small models and fetch in very wide
# ones. Fetching also works while the device computes. On newer devices this width is larger, because arithmetic has
# sped up more than links. With NVLink between processor and GPU (450 GB/s) it is much smaller.

# %% [markdown] id="ex1" tags=["exercise"]
# ## Exercises
#
# > **Exercise 09.1** — A device has room for three quarters of the memory that `keep` needs. Recompute **as few
# > layers as possible**, each by itself, so that the peak fits. Find the number with the planner, `peak_mib(recipe)`.
# > Then run the recipe.

# %% id="ex1-room" tags=["exercise"]
room_mib = 0.75 * peak_mib(keep)
print(f"room: {room_mib:.1f} MiB")

# %% id="ex1-gap" tags=["exercise"]
### BEGIN SOLUTION
### GAP fits = gpt.recipe(
### GAP     "fits", **common, recompute=..., recompute_method=..., recompute_layers=...
### GAP )


def block_of(layers):
    return gpt.recipe(
        "fits", **common, recompute="full", recompute_method="block", recompute_layers=layers
    )


enough = min(n for n in range(1, 17) if peak_mib(block_of(n)) <= room_mib)
fits = block_of(enough)
### END SOLUTION
fits_run = lab.submit(fits)
fits_run.watch()

# %% id="ex1-check" tags=["check"]
check.ex09_fits(fits_run, keep, room_mib)

# %% [markdown] id="ex1-why" tags=["solution"]
# Each recomputed layer saves 15 widths. Uniform recomputation would fit too, but it would recompute all 16 layers to
# save the missing quarter.

# %% [markdown] id="ex2" tags=["exercise"]
# > **Exercise 09.2** — Write `checkpoint(layer, x)` without PyTorch's own. It returns `layer(x)`, keeps `x` and no
# > other activation, and runs the layer a second time in the backward pass. A layer may contain dropout.
#
# A `torch.autograd.Function` gives you both passes:
#
# - PyTorch records nothing inside `forward`, so the activations of the layer are freed at once.
# - `backward` gets the gradient of the result. It returns one gradient for each argument of `forward`, and None for
#   arguments that have none.
# - PyTorch records nothing inside `backward` either, unless you write `with torch.enable_grad():`.
# - The result of `apply` needs a gradient if one of its tensor arguments does. The batch that enters a model needs no
#   gradient, but the weights of the first layer must still learn.
#
# `torch.get_rng_state()` and `torch.set_rng_state(state)` read and set the state of the random number generator. After
# the backward pass, random numbers must continue as if the layer had run once.
#
# The trial sends a batch through two layers with dropout, with and without your function. It compares the results, all
# gradients, and what dropout set to zero. It also measures the memory that is held between the two passes.


# %% id="ex2-own" tags=["exercise"]
# %%writefile "{lab.work}/my_checkpoint.py"
import torch


### BEGIN SOLUTION
### GAP def checkpoint(layer, x):
### GAP     ...  # your own torch.autograd.Function, by its apply
class Again(torch.autograd.Function):
    @staticmethod
    def forward(ctx, layer, x, *weights):
        ctx.layer, ctx.weights = layer, weights
        ctx.state = torch.get_rng_state()
        ctx.save_for_backward(x)
        return layer(x)

    @staticmethod
    def backward(ctx, grad):
        x = ctx.saved_tensors[0].detach().requires_grad_()
        now = torch.get_rng_state()
        torch.set_rng_state(ctx.state)
        with torch.enable_grad():
            y = ctx.layer(x)
        torch.set_rng_state(now)
        return None, *torch.autograd.grad(y, (x, *ctx.weights), grad)


def checkpoint(layer, x):
    return Again.apply(layer, x, *layer.parameters())


### END SOLUTION

# %% id="ex2-trial" tags=["exercise"]
checkpoint_trial = lab.submit(
    trial.recipe(
        "checkpoint-trial", "work/my_checkpoint.py", "checkpoint", nodes=1, gpus_per_node=1
    )
)
checkpoint_trial.watch()

# %% id="ex2-check" tags=["check"]
check.ex09_checkpoint(checkpoint_trial)

# %% [markdown] id="ex2-why" tags=["solution"]
# The weights are arguments of `apply`, so the result needs a gradient even if `x` does not. In PyTorch's older
# implementation they are not arguments, so the first layer does not learn. The newer implementation needs no
# Function, because it replaces what autograd saves with `saved_tensors_hooks`.
#
# The traces of this lesson also show the random state. One group of 16 layers stores fifteen inputs less than
# `forget`, and fifteen random states of 5056 bytes less:

# %% id="ex2-look" tags=["solution"]
forward_bytes = {
    run.name: run.memory[0].phases.query("phase == 'forward'")["peak_bytes"].max()
    for run in (forget, groups16)
}
each_bytes = (forward_bytes["forget"] - forward_bytes["groups16"]) / 15
print(f"a group stores its input, {width_bytes:,} bytes, and {each_bytes - width_bytes:,.0f} more")

# %% [markdown] id="challenge" tags=["exercise"]
# > **Going further** — Run `keep` and `forget` once more on two nodes with one device each, first with `tensor=2` and
# > then with pure data parallelism. In which run does recomputation cost more time than its FLOPs, and what is
# > repeated besides arithmetic? See `show.step_time(run.profile.overlap)`. Lesson 07 explains `tensor=2`.

# %% [markdown] id="home"
# ## To take home
#
# - With fused attention, a layer of GPT-2 stores sixteen times its input. Full recomputation stores only the input.
#   Count your own layers with `saved_tensors_hooks`.
# - Recomputation costs at most one more forward pass of the layers, a third more arithmetic. The result is the same.
# - Recompute in small groups. One group of all layers costs the same time and saves less.
# - *Block* recomputes as many layers as necessary, and *selective* recomputes parts of layers. Choose parts that are
#   large and cheap to recompute.
# - After you have lowered one part of the peak, look for the part that is now highest.
#
# References: Korthikanti and others, 2022, [arXiv 2205.05198](https://arxiv.org/abs/2205.05198). NVIDIA, [Megatron
# Bridge](https://docs.nvidia.com/nemo/megatron-bridge/latest/training/activation-recomputation.html).

# %% [markdown] id="clean-idea"
# ## Cleaning up
#
# The runs of the exercises and the challenge stay. The next cell deletes the other runs.

# %% id="clean"
lab.clean(groups16, half, selective, timed["keep"][1], timed["forget"][1], yes=True)
