# %% [markdown] id="title"
# # 09 Activation checkpointing
#
# The backward pass needs what the forward pass has computed, and keeping it is what fills devices. In this lesson they
# throw most of it away and compute it a second time when it is needed: more arithmetic for less memory. How much more,
# how much less, and when is it a bad bargain?
#
# | | |
# |---|---|
# | You will be able to | say what a layer leaves behind for the backward pass, in bytes; recompute a layer, or a part of it, in a program of your own; choose between the ways to do it; predict peak and price of each; find the recomputation in a trace |
# | Minutes | 45 |
# | Devices | 1 device (going further: 2 nodes with one each) |
# | Before | lessons 03 and 05; lesson 06 if you want to know why memory ends |
#
# *Checkpoint* has nothing to do with files here: the few values that a device still keeps are the checkpoints from which
# it computes the rest again. Newer programs say **recomputation**, and so will we.

# %% id="begin"
import pandas as pd
import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from course_lib import Lab, check, claim, gpt, plan, predict, show

lab = Lab()

# %% [markdown] id="hump-idea"
# ## What a layer leaves behind
#
# A result of the forward pass that the backward pass will need is called an **activation**. It comes into being
# when its layer has computed forward, and may go when the same layer has computed backward. The first layer's
# activations live longest: they are made first and needed last.
#
# The model of this lesson has many thin layers, and long sequences for its size. So it computes quickly and keeps
# a lot.

# %% id="hump-recipe"
deep = gpt.model("tiny").but(name="deep", layers=16, hidden=64, sequence=256)
common = dict(model=deep, micro_batch=2, iterations=7, memory=(6, 7))
keep = lab.submit(gpt.recipe("keep", **common, profile=(6, 7)))
keep.watch()

# %% [markdown] id="hump-guess-idea"
# `memory=(6, 7)` has the program write down every block of memory that it takes and gives back in one step, the
# seventh; `profile=(6, 7)` records the same step for the section on traces.
#
# **Predict.** Let us measure in *widths*. One width is one number of the model's hidden size (64 here) for every
# token that the device has in hand; the input of a layer is one width. How many widths does one layer keep for its
# backward pass?

# %% id="hump-guess"
### BEGIN SOLUTION
### GAP guess_widths = ...  # your number in place of the dots
guess_widths = 4
### END SOLUTION

# %% id="hump-see"
kept_widths = predict("09: widths kept by one layer", guess_widths, unit="widths")
show.memory(keep.memory[0])

# %% [markdown] id="hump-read"
# The flat part at the bottom lives as long as the run: parameters, gradients, and two numbers per parameter for the
# optimizer. The hump on it rises layer by layer through the forward pass, and falls through the backward pass. The block
# with a flat top belongs to no layer: these are the *logits*, one number per token for each of the 8192 pieces of the
# vocabulary. Take them off, divide the rest by the layers, and you have your answer.

# %% id="hump-count"
tokens = 2 * deep.sequence  # micro batch × sequence
width_bytes = tokens * deep.hidden * 4  # float32: 4 bytes
logits_bytes = tokens * deep.vocabulary * 4
kept_bytes = keep.memory[0].peak_composition["activations"]
widths = (kept_bytes - logits_bytes) / deep.layers / width_bytes
kept_widths.compare(widths)
show.guess(kept_widths.guess, widths, prediction=16, unit="widths", what="kept by one layer")

# %% id="hump-claim" tags=["claim"]
claim("a layer keeps sixteen times its input", widths, least=15.5, most=17.5, unit="widths")

# %% [markdown] id="hump-explain"
# **Explain.** If you guessed one or two, you thought of what a layer hands on. But to find the gradient of a
# matrix, the backward pass needs what the matrix was multiplied with, and a layer multiplies many times:
#
# | kept by one layer | widths |
# |---|---|
# | its input, for the first norm | 1 |
# | what the norm gives to the attention | 1 |
# | queries, keys and values | 3 |
# | what attention gives to its last matrix | 1 |
# | input of the second norm, and what it gives on | 2 |
# | the wide middle of the layer, before and after its curved function (GELU) | 4 + 4 |
# | **together** | **16** |
#
# The measured number is a little larger: the last norm is counted in, and a few numbers per token that norms and attention note for their backward pass.
#
# And the *scores* of attention, one number for each pair of the *T* tokens of a sequence, *T* × *T* in each
# head? They are not there. The attention that the program uses is *fused*: it works through the scores in
# small blocks and never holds them all.
#
# Sixteen is GPT-2's number. Today's models share keys and values among heads (*grouped queries*), which saves up to two
# widths, and have a middle of three matrices (*SwiGLU*), a little narrower, of which more is kept.

# %% [markdown] id="forget-idea"
# ## Forget, and compute again
#
# Fifteen of the sixteen widths follow from the first one. So let each layer keep its input alone, and forget
# the rest as soon as its forward pass is over. When the backward pass arrives, the layer first computes **forward once
# more**, from the input that it kept. In the recipe this is one word, and in the script three flags of Megatron-LM:

# %% id="forget-recipe"
forget_recipe = gpt.recipe("forget", **common, profile=(6, 7), recompute="full")
asked = {name: value for name, value in forget_recipe.flags.items() if "recompute" in name}
print(*[f"{name} {value}" for name, value in asked.items()], sep="\n")

# %% [markdown] id="forget-guess-idea"
# **Predict.** To how many percent of the highest point in the figure above will the peak fall?

# %% id="forget-guess"
### BEGIN SOLUTION
### GAP guess_percent = ...  # your number in place of the dots
guess_percent = 25
### END SOLUTION

# %% [markdown] id="forget-plan-idea"
# The course has a planner that adds up what a recipe will need. It knows the shape of the model and the way of
# recomputing, and nothing of your machine:

# %% id="forget-plan"
remaining = predict("09: peak with recomputation, of that without", guess_percent, unit="%")


def planned(recipe):
    """What the planner says of a recipe before it runs; memory does not depend on the cluster."""
    return plan.predict(gpt.model(recipe), gpt.layout(recipe), plan.box(), "course")


def peak_mib(what):
    """Peak of a run, or the one that is planned for a recipe, in MiB."""
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
show.guess(remaining.guess, share, prediction=by_plan, unit="%", what="peak, of that of keep")

# %% id="forget-claim" tags=["claim"]
claim("recomputation brings the peak below two thirds", share, most=67, unit="%")
claim("the planner knew it, planned over measured", by_plan / share, least=0.95, most=1.05)

# %% [markdown] id="forget-explain"
# *Memory of the two runs in one step. The axis counts blocks instead of time: every block that is taken or given back has
# the same room, so that what passes quickly is seen. Dotted: the two peaks.*
#
# **Explain.** Where `keep` climbs a mountain, `forget` rises a little: one width per layer instead of sixteen. Then, in the
# backward pass, come the teeth of a saw. Each tooth is one layer: its activations come back, are used, and are gone
# before the next layer's come.
#
# If your guess was a sixteenth, 6 %, you forgot what recomputation cannot touch: the flat part at the bottom,
# and the logits. Their block is as high as before, and the peak of the whole step is still where they are.
#
# Published for comparison: in the lab that this course follows, 12 layers of width 768 on V100 GPUs with 16
# GB, the peak fell from about 10 GB to about 3 GB. That program kept the scores of attention, and had dropout
# (it throws random activations away, and must remember which). What would the planner have said?

# %% id="lab-plan"
for recompute in ("none", "full"):
    layout = plan.Layout(data=4, micro_batch=2, precision="fp32", recompute=recompute, flash=False)
    there = plan.predict(gpt.model("lab"), layout, plan.cluster("V100-16GB", 4), "megatron-2021")
    print(f"recompute {recompute}: {there.allocated_gib:4.1f} GiB allocated")

# %% [markdown] id="lab-plan-explain"
# Close to both, by counting alone. (The published values are read off a graph, in GB; 1 GB is 0.93 GiB.)

# %% [markdown] id="same-idea"
# ### Is it the same model?
#
# **Predict.** What is computed a second time had better be the same as the first time. Look at the losses of all steps,
# printed with seven digits. Are those of `keep` and `forget` `"the same to the last digit"`, `"the same but for rounding"`,
# or `"different"`?

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
claim("it is the same model: losses apart by", difference, most=1e-4)

# %% [markdown] id="same-explain"
# The same operations on the same numbers give the same result; on a device that adds in a changing order the last digits
# differ, as they do between two runs of one recipe. A layer with *dropout* throws dice, and must throw the same dice
# again: programs store the state of the random numbers with the checkpoint. This model has no dropout.

# %% [markdown] id="hand-idea"
# ## By hand
#
# In a program of your own it is one call: instead of `layer(x)` write `checkpoint(layer, x, use_reentrant=False)`. It runs
# the layer, remembers `x`, and runs it again when the backward pass arrives. (`use_reentrant=False` is the newer of two ways
# to do it; PyTorch asks you to name one.)
#
# Here is a layer, and a function that counts. PyTorch tells through `saved_tensors_hooks` whatever it keeps for a backward
# pass:


# %% id="hand-layer"
class Layer(nn.Module):
    """One layer of a transformer. `forget` is "" or "middle"."""

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
    """Widths that are kept for backward (the layer's own weights not counted), and all gradients."""
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
# **Predict.** How many widths are kept if only the *middle* of the layer is recomputed (its two wide matrices), from the
# output of the second norm? And in a layer as models have them today, with one head of keys and values for all four heads
# of queries, and a SwiGLU middle, where nothing is recomputed?

# %% id="hand-guess"
### BEGIN SOLUTION
### GAP guess_middle, guess_today = ..., ...  # widths
guess_middle, guess_today = 12, 14
### END SOLUTION

# %% id="hand-see"
counted = {
    "middle": predict("09: widths where the middle is recomputed", guess_middle, unit="widths"),
    "today's": predict("09: widths of a layer of today", guess_today, unit="widths"),
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
pd.Series({name: kept for name, (kept, _) in by_hand.items()}, name="widths kept").round(2)

# %% id="hand-claim" tags=["claim"]
right = by_hand["all kept"][1]
worst = max((by_hand[name][1] - right).abs().max() for name in ("middle", "whole layer"))
claim("recomputed by hand: gradients apart by", worst, most=1e-6)
claim("a layer keeps 16", by_hand["all kept"][0], least=16, most=16.2, unit="widths")
claim("without its middle 8", by_hand["middle"][0], least=8, most=8.2, unit="widths")
claim("recomputed whole 1", by_hand["whole layer"][0], least=1, most=1.1, unit="widths")

# %% [markdown] id="hand-explain"
# **Explain.** The middle keeps 4 + 4 widths, and its input is kept for the first matrix anyway: so 8 are gone. Two thirds of
# the layer's matrix products lie in it. (This `checkpoint` repeats only the first of the two: it stops as soon as it has
# what backward asks for, and the result of the last product is not among it. Megatron-LM's repeats both.)
#
# Today's layer keeps 17¼ here. Keys and values need ½ instead of 2. But SwiGLU multiplies two wide tensors, so the
# backward pass needs both, their product, and the gate before its curve: four times 8/3 of a width instead of two times four.
# A kernel that does gate, curve and product at once keeps one of the four less: then it is 14½.

# %% [markdown] id="price-idea"
# ## The price
#
# **Predict.** All layers compute forward once more. By which factor do the iterations of `forget` last longer?

# %% id="price-guess"
### BEGIN SOLUTION
### GAP guess_factor = ...  # your number in place of the dots
guess_factor = 2.0
### END SOLUTION

# %% id="price-see"
longer = predict("09: time of a step with recomputation", guess_factor, unit="times")
timed = {name: [run] for name, run in (("keep", keep), ("forget", forget))}
for name, recompute in (("keep", "none"), ("forget", "full")):
    # Once more, at the same time and without records, so that a slow minute of the machine hits both.
    more = gpt.recipe(f"{name}-again", model=deep, micro_batch=2, iterations=9, recompute=recompute)
    timed[name].append(lab.submit(more))
for its_runs in timed.values():
    its_runs[-1].require()


def milliseconds(*runs):
    """Median over the iterations; the recorded one and the first are slower."""
    return pd.concat([run.log.iterations["elapsed_ms"].iloc[1:] for run in runs]).median()


def flops_factor(recipe):
    """FLOPs of a step with what is recomputed, over those without."""
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
claim("recomputation costs time, but no second step", price, least=1, most=1.95, unit="times")

# %% [markdown] id="price-explain"
# **Explain.** Counted in matrix products, a backward pass costs twice a forward pass: one product for the gradient of the
# weights, one for the gradient of the input. So a step is 3 parts (1 + 2), and with recomputation 4 (1 + 1 + 2): 4/3. The
# formula's answer is lower, since not everything is recomputed: the product with the vocabulary at the end of the model is
# computed once, and in a small model it is a large part of the whole. In a large one it hardly counts, and 4/3 is right.
#
# That counts arithmetic, in **FLOPs**: additions and multiplications of floating-point numbers (lesson 14). A layer also starts dozens of small operations (norms, sums, copies), which have few FLOPs, take
# time all the same, and run once more too. What you measured:

# %% id="price-said"
if price > 1.1 * flops_factor(forget_recipe):
    print(
        f"× {price:.2f}, more than the FLOPs: layers as thin as these spend much of their time on"
    )
    print("operations that are no matrix products, and those have a larger share in forward.")
elif price < 0.9 * flops_factor(forget_recipe):
    print(
        f"× {price:.2f}, less than the FLOPs: much of your step is neither forward nor backward of"
    )
    print("the layers (optimizer, loss, communication), and none of that is repeated.")
else:
    print(
        f"× {price:.2f}, near what the FLOPs say. That does not mean that the step is all products:"
    )
    print("what else the layers do runs again too, and in about the same proportion.")

# %% [markdown] id="price-published"
# Published for comparison, 8 and 64 A100 GPUs, models of 22 and 175 billion parameters: full recomputation
# took 1.42 s and 18.13 s per iteration; the cheaper way that you will meet below, together with sequence
# parallelism (tensor ranks share the norms too), took 1.10 s and 13.75 s (arXiv 2205.05198, Table 5).

# %% [markdown] id="trace-idea"
# ## Find it in the trace
#
# Both runs also recorded a *profile* of the same step. The program names what it does at every moment, and
# puts what runs forward during the backward pass under the name `recompute`.
#
# **Predict.** How many such stretches will there be? And how long does one of them take, in percent of what a layer took in
# the forward pass of the *same* step?

# %% id="trace-guess"
### BEGIN SOLUTION
### GAP guess_stretches, guess_of_forward = ..., ...  # a number, and percent
guess_stretches, guess_of_forward = 1, 100
### END SOLUTION

# %% id="trace-see"
stretches = predict("09: stretches of recomputation", guess_stretches)
of_forward = predict("09: recomputation, of the forward pass", guess_of_forward, unit="%")
show.timeline(forget.profile)

# %% id="trace-count"
recomputed = forget.memory[0].phases.query("phase == 'recompute'")
spans = forget.profile.spans
each_ms = (spans["end_us"] - spans["begin_us"]).groupby(spans["name"]).quantile(0.25) / 1e3
stretches.compare(len(recomputed))
of_forward.compare(100 * each_ms["recompute"] / each_ms["layers"])
print("lower quartiles over the layers of the recorded step:")
print(f"a layer forward {each_ms['layers']:.2f} ms, again {each_ms['recompute']:.2f} ms")
recomputed[["phase", "step", "begin_us", "end_us", "peak_bytes"]].head(4)

# %% id="trace-claim" tags=["claim"]
claim("one recomputation for each layer", len(recomputed), least=16, most=16)


def products(run):
    calls = run.profile.operators.set_index("name")["calls"]
    return calls[["aten::mm", "aten::addmm"]].sum()


more = products(forget) - products(keep)
claim("each repeats the four products of its layer: products more", more, least=64, most=64)

# %% [markdown] id="trace-explain"
# One recomputation for each layer, spread over the backward pass: the *last* layer's comes first, because backward
# begins at the end of the model. The column `peak_bytes` falls from row to row: each tooth of the saw starts from a
# lower ground, as one input after the other is given back. The same operations need not take the same time as in the
# forward pass: what they make has to be kept now, and they find other numbers in the caches and other free memory. That can
# cost time or save some.
#
# (Trust the order and the proportions of a profile more than its milliseconds: recording costs time. On a GPU these
# ranges show when the work was *started*. On the box forward and backward end with a quiet stretch: there the slot
# sleeps, to keep its pace.)

# %% [markdown] id="groups-idea"
# ## How much to forget at once
#
# Layers need not be forgotten one by one. With `recompute_layers=4` (and the method *uniform*, which is the
# default) four layers make a group: only the input of the group is kept, four times fewer than before, and
# the whole group is computed again when its turn comes.
#
# **Predict.** The model has 16 layers. With which size of group, 1, 2, 4, 8 or 16, is the peak lowest? Ask the
# planner for all five, then run the last.

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
claim("one group of all layers peaks higher than groups of one", worst, least=1.2, unit="times")

# %% [markdown] id="groups-explain"
# *The figure lays the traces of three runs on top of each other, each over its own step. Dotted: their peaks.*
#
# **Explain.** "Fewer inputs are kept, so larger groups are better" is half of the truth. There are two
# moments at which memory can be highest.
#
# - At the end of the **forward** pass the block of the logits stands on the inputs that are kept. Larger
#   groups lower it, by very little.
# - In the **backward** pass a group comes back *as a whole*: all its layers, sixteen widths each, before the
#   first of them is needed. Larger groups raise this, by a lot.
#
# The peak is the higher one of the two. In this small model the logits weigh as much as eight layers. So
# groups of up to eight hide behind them, and one group of sixteen does not: at the beginning of the backward pass all
# sixteen layers are there again. It pays the full price and gives back about half.
#
# In a large model the layers weigh more than the logits, and the second moment decides. *L* layers in groups
# of *n* need *L/n* widths for the inputs and 16 *n* for the group that has come back. The sum is least for
# *n* near the root of *L*/16: two or three, for 96 layers. You may have heard of the root of *L*; that holds
# if a layer keeps no more than its input, as in the networks for which the method was invented.

# %% [markdown] id="half-idea"
# ## Forget only as much as you must
#
# All methods so far pay the full price. If memory is short by a little, it is enough to forget a little:
#
# - the method **block** recomputes only the first *n* layers of the model (of each pipeline stage, if there are
#   several), each from its own input, and lets the others keep everything;
# - the granularity **selective** goes into the layer: it forgets only what attention keeps between its first
#   and its last matrix, and computes only that again.
#
# **Predict.** The run `half` recomputes 8 of the 16 layers, the run `selective` the inside of attention in
# all of them. Of the memory that full recomputation gives back, how many percent will each of the two give
# back?

# %% id="half-guess"
### BEGIN SOLUTION
### GAP guess_half_percent, guess_selective_percent = ..., ...
guess_half_percent, guess_selective_percent = 50, 50
### END SOLUTION

# %% id="half-run"
given = {
    "block, 8 of 16": predict("09: given back by half of the layers", guess_half_percent, unit="%"),
    "selective": predict("09: given back by selective", guess_selective_percent, unit="%"),
}
half_recipe = gpt.recipe(
    "half", **common, recompute="full", recompute_method="block", recompute_layers=8
)
selective_recipe = gpt.recipe("selective", **common, recompute="selective")
half, selective = lab.submit(half_recipe), lab.submit(selective_recipe)
for run in (half, selective):
    run.require()

# %% id="half-see"
ways = {"none": keep, "selective": selective, "block, 8 of 16": half, "uniform, all": forget}
saved_by_all = peak_mib(keep) - peak_mib(forget)
table = pd.DataFrame(
    {
        name: {
            "planned peak (MiB)": peak_mib(run.recipe),
            "measured peak (MiB)": peak_mib(run),
            "given back (%)": 100 * (peak_mib(keep) - peak_mib(run)) / saved_by_all,
            "FLOPs (times)": flops_factor(run.recipe),
        }
        for name, run in ways.items()
    }
).T
for name, guessed in given.items():
    guessed.compare(table.loc[name, "given back (%)"])
table.round(2)

# %% id="half-claim" tags=["claim"]
given_back = table["given back (%)"]
claim(
    "half of the layers give back half", given_back["block, 8 of 16"], least=45, most=55, unit="%"
)
claim("selective gives back nothing here", given_back["selective"], most=3, unit="%")

# %% [markdown] id="half-explain"
# **Explain.** *Block* is a dial: each layer that is recomputed gives back fifteen widths and costs one
# forward pass of this layer. Half of the layers, half of the memory, half of the extra FLOPs.
#
# *Selective* gives back next to nothing, and that is worth understanding. It was made for an attention that
# stores its scores: *T* × *T* numbers for each head, more than everything else in the layer when sequences
# are long, and in a wide model cheap to compute again. Fused attention took its place: it never stores the scores, and
# computes them again itself. What this selective recomputation drops is nearly nothing, and it still pays for
# one more pass through attention. Ask the planner what the activations of the layers (without the logits) would be without the
# fusion:


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
# Where the scores are stored, recomputing them gives a large part back. How cheap that is depends on the width: it computes
# 4 *T h* FLOPs for a token again, where the matrices of a layer take 24 *h*². In a wide model that is some percent, as the published
# times above show. In this one, where *T* = 4 *h*, it is two fifths of a layer. Half of the layers by *block* would cost a quarter
# more and give back nearly as much.
#
# Megatron-LM has drawn the same conclusion. `--recompute-granularity selective` means the scores only as long as nothing
# else is said; `--recompute-modules` says which parts of a layer are meant today:
#
# | module | what is forgotten | widths given back, of 16 | products computed again |
# |---|---|---|---|
# | `core_attn` | the scores; nothing, if attention is fused | 0 | those of the scores |
# | `layernorm` | what both norms give on | 2 | none |
# | `mlp` | the wide middle, as by hand above | 8 | two thirds of the layer's |
# | `moe_act`, `moe`, `shared_experts` | the experts of a mixture: their curve alone, or all of them | | none, or theirs |
# | (granularity `full`) | all but the input | 15 | all |
#
# Which rows weigh much and are cheap to make again? The norms are nearly free. Where a model has experts, their
# activations are most of the layer. (The course's program knows `core_attn` alone.)

# %% [markdown] id="elsewhere-idea"
# ## Or put it elsewhere
#
# There is a third way: neither keep nor recompute, but send the activations to the memory of the host and fetch them back in
# time (*offloading*; in PyTorch `torch.autograd.graph.save_on_cpu`). What counts is which is sooner there. A token's fifteen
# widths of 16 bits come back through a PCIe link, at 25 GB/s say; or a device of 150 achieved TFLOP/s computes the layer
# again, 24 *h*² FLOPs for a token.
#
# **Predict.** From which width *h* on is fetching sooner?

# %% id="elsewhere-guess"
### BEGIN SOLUTION
### GAP guess_width = ...  # your number in place of the dots
guess_width = 500
### END SOLUTION

# %% id="elsewhere-see"
sooner = predict("09: width from which fetching is sooner", guess_width)
table = pd.DataFrame({"width": [1024, 4096, 8192, 12288, 16384]}).set_index("width")
table["fetch (µs)"] = 15 * 2 * table.index / 25e9 * 1e6
table["recompute (µs)"] = 24 * table.index**2 / 150e12 * 1e6
even = 15 * 2 / 25e9 * 150e12 / 24
sooner.compare(even)
table.round(2)

# %% id="elsewhere-claim" tags=["claim"]
claim("fetching and recomputing are even at a width of", even, least=7000, most=8000)

# %% [markdown] id="elsewhere-explain"
# **Explain.** Bytes grow with *h*, arithmetic with *h*². Small models recompute; in very wide ones the link wins, and it
# works while the device computes. Newer devices move the point up, since they multiply ever faster and links follow
# slowly; a link such as NVLink between processor and GPU (450 GB/s) moves it far down.

# %% [markdown] id="ex1" tags=["exercise"]
# ## Exercises
#
# > **Exercise 09.1** — A device has room for three quarters of what `keep` needs. Recompute **as few layers
# > as possible**, each by itself, so that the peak stays within the room. Find the number with
# > `peak_mib(recipe)`, which asks the planner, then run it.

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
# Each recomputed layer gives back 15 widths. Uniform recomputation would fit too, and pay the price of all 16 layers for
# the quarter that was missing.

# %% [markdown] id="ex2" tags=["exercise"]
# > **Exercise 09.2** — How many **MiB** (2²⁰ bytes) of layer inputs does the run `forget` keep at the end of
# > its forward pass, for all of its layers together?

# %% id="ex2-gap" tags=["exercise"]
### BEGIN SOLUTION
### GAP kept_mib = ...
kept_mib = deep.layers * width_bytes / 2**20
### END SOLUTION

# %% id="ex2-check" tags=["check"]
check.ex09_inputs(kept_mib, forget)

# %% [markdown] id="ex2-why" tags=["solution"]
# 16 layers, 2 × 256 tokens, 64 numbers of 4 bytes. The traces say the same in another way: one group of 16
# keeps one input instead of sixteen, and the peak of its forward pass is lower by the other fifteen, and by what is
# kept beside each of them: on a processor 5056 bytes, the state of the random numbers, so that dropout would fall
# on the same places when the layer is computed again.

# %% id="ex2-look" tags=["solution"]
forward_bytes = {
    run.name: run.memory[0].phases.query("phase == 'forward'")["peak_bytes"].max()
    for run in (forget, groups16)
}
each_bytes = (forward_bytes["forget"] - forward_bytes["groups16"]) / 15
print(
    f"a group keeps its input, {width_bytes:,} bytes, and {each_bytes - width_bytes:,.0f} beside it"
)
print(f"sixteen inputs: {16 * width_bytes / 2**20:.2f} MiB")

# %% [markdown] id="challenge" tags=["exercise"]
# > **Going further** — Run `keep` and `forget` once more on two nodes with one device each, once with
# > `tensor=2` and once with pure data parallelism. In which of the two does recomputation cost more time than
# > its FLOPs, and what is being repeated there besides arithmetic? `show.step_time(run.profile.overlap)`
# > knows. (Lesson 07 has more on `tensor=2`.)

# %% [markdown] id="home"
# ## To take home
#
# - A layer of GPT-2 keeps sixteen times its input for the backward pass (with fused attention); count yours with
#   `saved_tensors_hooks`. Recomputation keeps the one and computes the fifteen again.
# - The price is one more forward pass of the layers: at most a third more arithmetic. The result is the same.
# - Make groups as large as still hide behind another part of the peak, here the logits. One group of all layers costs the
#   same and gives back less.
# - *Block* recomputes as many layers as it must. *Selective* recomputes parts of each layer: choose those that weigh much
#   and are cheap, which the scores are no more where attention is fused.
# - When one part of the peak has gone, look which part is the highest now.

# %% [markdown] id="clean-idea"
# ## Cleaning up
#
# The runs `keep` and `forget` stay for the challenge and for a second look, and so does that of exercise 09.1,
# which its check reads; the others can go. (Whoever runs the lesson again gets new ones.)

# %% id="clean"
lab.clean(groups16, half, selective, timed["keep"][1], timed["forget"][1], yes=True)
