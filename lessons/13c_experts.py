# %% [markdown] id="title"
# # 13c Experts
#
# Most of today's large models are **mixtures of experts**. Each layer has many MLPs, the experts, and each token uses
# only a few of them. Such a model has many parameters but needs little arithmetic. The price is a new kind of
# communication, because every token must be sent to its experts. In this lesson you train a small mixture, keep its
# experts equally busy, and write the exchange of tokens over four ranks.
#
# | | |
# |---|---|
# | You will be able to | count total and active parameters; balance experts by a loss or by a bias; write expert parallelism with two all-to-alls, forward and backward; tell from the width of an expert whether a link is fast enough |
# | Minutes | 70 |
# | Devices | 2 nodes with 2 devices each |
# | Before | lesson 13 |

# %% id="begin"
import argparse
import ast
import difflib
import inspect
import re
import typing

import pandas as pd

from course_lib import Lab, check, claim, gpt, plan, predict, program, show, trial

lab = Lab()
text = lab.work / "library.txt"
characters = text.write_text(
    "".join(map(inspect.getsource, (argparse, ast, difflib, inspect, typing)))
)

# %% [markdown] id="active-idea"
# ## How many parameters does a token use?
#
# A mixture replaces the MLP of a layer. Its **router** is a small matrix that gives each token a score for every
# expert. In **top-k** routing, the token goes to the *k* experts with the highest scores. Their results are added up,
# weighted by the scores. Attention, norms and embeddings stay as they are, and every token uses them.
#
# The **total** parameters must be in memory. One token uses the **active** parameters, and they determine the FLOPs.
# Mixtral 8×7B has 46.7 billion parameters. Each layer has 8 experts, and a token uses 2 of them ([Mistral AI,
# 2024](https://arxiv.org/abs/2401.04088)). All experts together have 45.1 billion parameters.
#
# **Predict.** What percentage of all parameters is active?

# %% id="active-guess"
### BEGIN SOLUTION
### GAP guess_active = ...  # your percentage in place of the dots
guess_active = 25
### END SOLUTION

# %% id="active-see"
active = predict("13c: percentage of active parameters of Mixtral 8x7B", guess_active, unit="%")
names = "mixtral-8x7b", "mixtral-8x22b", "qwen3-30b-a3b", "qwen3-235b-a22b", "deepseek-v3"
models = {name: plan.preset(name) for name in names}
sizes = pd.DataFrame(
    {
        name: {
            "experts": model.experts.count,
            "used by a token": model.experts.passed,
            "total (billion)": plan.parameters(model).total / 1e9,
            "active (billion)": plan.active_parameters(model) / 1e9,
        }
        for name, model in models.items()
    }
).T
sizes["active (%)"] = 100 * sizes["active (billion)"] / sizes["total (billion)"]
active.compare(sizes.loc["mixtral-8x7b", "active (%)"])
sizes.round(1)

# %% id="active-claim" tags=["claim"]
claim(
    "active parameters of Mixtral 8x7B",
    sizes.loc["mixtral-8x7b", "active (%)"],
    least=26.5,
    most=28.5,
    unit="%",
)
claim(
    "active parameters of DeepSeek-V3",
    sizes.loc["deepseek-v3", "active (%)"],
    least=5,
    most=6.5,
    unit="%",
)

# %% [markdown] id="active-explain"
# **Explain.** A token uses a quarter of the experts, 11.3 billion parameters, and all 1.6 billion other parameters. So
# 12.9 billion are active, more than a quarter. Newer models have more and smaller experts. A token of DeepSeek-V3 uses
# 8 of 256 experts and a **shared expert**, which every token uses ([DeepSeek,
# 2024](https://arxiv.org/abs/2412.19437)).
#
# The rule 6 × parameters × tokens for training FLOPs holds for the active parameters. The memory for weights,
# gradients and optimizer state depends on the total parameters.

# %% [markdown] id="balance-idea"
# ## Does the router keep its experts busy?
#
# The program below trains a mixture of 8 experts of width 64, with top-2 routing, to guess the next letter of a text.
# For comparison it trains two dense models: width 128 has the arithmetic of two experts, and width 512 the parameters
# of all eight. Each model is trained with three seeds, and the results are means over these seeds. The weights are
# random at first, so the shares of the experts differ only by chance.
#
# Only the loss of the model trains the router. If the experts become unequally busy, there are two remedies.
#
# - **A balancing loss** multiplies the share of choices of each expert by its mean score and adds up the products. The
#   sum is smallest if all shares are equal. This sum, multiplied by a coefficient, is added to the loss.
# - **A balancing bias** is added to the scores only when experts are chosen. After each step, the bias of an expert
#   with too few tokens rises by a fixed amount, and the bias of an expert with too many tokens falls.
#
# **Predict.** Without a remedy, how do the shares of the experts change in the first 80 steps? Do they become
# `"more equal"`, stay `"the same"`, or become `"less equal"`?

# %% id="balance-guess"
### BEGIN SOLUTION
### GAP guess_shares = ...  # "more equal", "the same" or "less equal"
guess_shares = "more equal"
### END SOLUTION

# %% id="balance-file"
# %%writefile "{lab.work}/train_mixtures.py"
import os
import sys

import torch
from torch import nn
from train_letters import BEFORE, LETTERS, samples, text_of

EXPERTS, CHOSEN, WIDTH, INNER, STEPS, BATCH, SEEDS = 8, 2, 64, 64, 480, 192, 3


class Dense(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, inner), nn.Linear(inner, WIDTH)

    def forward(self, x):
        return self.down(self.up(x).relu())


class Mixture(nn.Module):
    def __init__(self):
        super().__init__()
        self.router = nn.Linear(WIDTH, EXPERTS, bias=False)
        self.experts = nn.ModuleList(Dense(INNER) for _ in range(EXPERTS))
        self.bias = torch.zeros(EXPERTS)  # only for the choice

    def forward(self, x):
        scores = self.router(x).softmax(1)  # [rows, experts]
        chosen = (scores + self.bias).topk(CHOSEN, 1).indices
        weights = scores.gather(1, chosen)
        weights = weights / weights.sum(1, keepdim=True)
        order = chosen.flatten().argsort()  # copies of rows, sorted by expert
        self.tokens = chosen.flatten().bincount(minlength=EXPERTS)
        parts = x.repeat_interleave(CHOSEN, 0)[order].split(self.tokens.tolist())
        each = zip(self.experts, parts, strict=True)
        computed = torch.cat([expert(part) for expert, part in each])
        y = torch.zeros_like(computed).index_copy(0, order, computed).view(-1, CHOSEN, WIDTH)
        self.tokens = self.tokens.float()
        self.balance = EXPERTS * (self.tokens / chosen.numel() * scores.mean(0)).sum()
        return (weights[:, :, None] * y).sum(1)


class Letters(nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.embedding, self.join = nn.Embedding(LETTERS, 16), nn.Linear(16 * BEFORE, WIDTH)
        self.norm, self.layer, self.head = nn.LayerNorm(WIDTH), layer, nn.Linear(WIDTH, LETTERS)

    def forward(self, x):
        x = self.norm(self.join(self.embedding(x).flatten(1)).relu())
        return self.head(x + self.layer(x))


def train(name, seed, layer_of, coefficient=0.0, rate=0.0):
    torch.manual_seed(seed)
    model, losses, tokens = Letters(layer := layer_of()), [], torch.zeros(EXPERTS)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3, fused=True)
    generator = torch.Generator().manual_seed(seed)
    for step in range(1, STEPS + 1):
        x, y = samples(text, BATCH, generator)
        loss = nn.functional.cross_entropy(model(x), y)
        losses.append(loss.item())
        if isinstance(layer, Mixture):
            loss = loss + coefficient * layer.balance
            tokens += layer.tokens
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if isinstance(layer, Mixture):
            layer.bias += rate * (layer.tokens.mean() - layer.tokens).sign()
        if step == 1 or step % 40 == 0:
            shares = " ".join(f"{share:.4f}" for share in (tokens / tokens.mean()).tolist())
            mean = sum(losses) / len(losses)
            print(f"{name}: seed {seed}, step {step}, loss {mean:.4f}, shares {shares}", flush=True)
            losses, tokens = [], torch.zeros(EXPERTS)


text = text_of(sys.argv[-1])
rank = int(os.environ["RANK"])  # each rank trains models of its own
for seed in range(SEEDS):
    if rank == 0:
        train("dense 128", seed, lambda: Dense(128))
        train("dense 512", seed, lambda: Dense(512))
    elif rank == 1:
        train("no remedy", seed, Mixture)
    elif rank == 2:
        train("loss", seed, Mixture, coefficient=0.1)
    else:
        train("bias", seed, Mixture, rate=0.01)

# %% id="balance-run"
shares = predict(
    "13c: how the shares of the experts change without a remedy",
    guess_shares,
    choices=("more equal", "the same", "less equal"),
)
unpaced = {"COURSE_DEVICE_PACE": "1"}  # the box need not sleep, because no time is measured
trained = lab.submit(
    program.recipe(
        "train-mixtures",
        "work/train_mixtures.py",
        nodes=2,
        gpus_per_node=2,
        environment=unpaced,
        text=str(text),
    )
).require()

# %% id="balance-see"
LINE = r"^(.+): seed \d+, step (\d+), loss ([\d.]+), shares (.+)$"
lines = re.findall(LINE, trained.text, re.MULTILINE)
steps = pd.DataFrame(lines, columns=["model", "step", "loss", "shares"])
steps = steps.astype({"step": int, "loss": float})
each = steps.pop("shares").str.split(expand=True).astype(float)
steps["busiest / mean"], steps["idlest / mean"] = each.max(axis=1), each.min(axis=1)
steps = steps.groupby(["model", "step"]).mean().reset_index("step")  # over three seeds
last = steps[steps["step"] == steps["step"].max()].drop(columns="step")
first = steps.loc["no remedy"].set_index("step")["busiest / mean"]
growth = first[80] / first[1]
shares.compare("less equal" if growth > 1.2 else "more equal" if growth < 0.8 else "the same")
show.lines(
    {name: steps.loc[name] for name in ("no remedy", "loss", "bias")},
    x="step",
    y="busiest / mean",
    title="Tokens of the busiest expert",
    level=1,
)

# %% id="balance-table"
at = steps.set_index("step", append=True)["loss"]
advantage = at["dense 128"] - at["bias"]
print("dense 128 minus mixture, nats by step:", advantage[[240, 360, 480]].round(3).to_dict())
last.round(3)

# %% id="balance-claim" tags=["claim"]
claim(
    "no remedy: share of the busiest expert in steps 41 to 80, relative to the first step",
    growth,
    least=1.3,
    unit="times",
)
claim(
    "no remedy: tokens of the busiest expert, relative to the mean",
    last.loc["no remedy", "busiest / mean"],
    least=1.6,
    unit="times",
)
claim(
    "no remedy: tokens of the least busy expert, relative to the mean",
    last.loc["no remedy", "idlest / mean"],
    most=0.4,
    unit="times",
)
claim(
    "bias: tokens of the busiest expert, relative to the mean",
    last.loc["bias", "busiest / mean"],
    most=1.2,
    unit="times",
)
claim(
    "balancing by bias: loss minus loss without a remedy",
    last.loc["bias", "loss"] - last.loc["no remedy", "loss"],
    most=0.02,
    unit="nats",
)
claim(
    "loss of dense 128 minus loss of the mixture with the same arithmetic",
    advantage[480],
    least=0.02,
    unit="nats",
)

# %% [markdown] id="balance-explain"
# *A value of 1 is an equal share. The first point is the first step. Each other point is the mean of the steps since
# the previous point.*
#
# **Explain.** In the first steps, an expert that is chosen often learns more. Its results improve, so the router
# chooses it even more often. Later the other experts partly catch up. After 480 steps the busiest expert still gets
# about twice its share, and the least busy expert gets less than half of its share. An expert without tokens
# **starves**: its parameters fill memory and do not learn. Both remedies keep the shares close to equal, and the loss
# does not suffer.
#
# With the same arithmetic, the mixture reaches a lower loss than the dense model of width 128. The line above the table
# shows that this advantage grows with the number of steps. The dense model of width 512 does four times the
# arithmetic, and the mixture comes close to its loss. The bias is the main remedy of DeepSeek-V3, because the
# gradients of a balancing loss also change the other weights of the model ([Wang and others,
# 2024](https://arxiv.org/abs/2408.15664)).
#
# Balance also determines the time of a step. If experts are on different devices, every device waits for the busiest
# expert. If it has twice the mean number of tokens, the experts take twice as long. Early mixtures gave each expert a
# fixed **capacity** and dropped the tokens above it ([Fedus and others, 2021](https://arxiv.org/abs/2101.03961)).
# Today most layers are **drop-less**, like the layers of this lesson: each expert takes all of its tokens ([Gale and
# others, 2022](https://arxiv.org/abs/2211.15841)).
#
# > **Exercise 13c.1** — Write `new_bias(bias, tokens, rate)`, which returns the bias for the next step. `bias` and
# > `tokens` are lists with one number for each expert, and the fixed amount is `rate`. An expert with exactly the mean
# > number of tokens keeps its bias.


# %% id="ex1-gap" tags=["exercise"]
def new_bias(bias, tokens, rate):
    ### BEGIN SOLUTION
    ### GAP return ...
    mean = sum(tokens) / len(tokens)
    signs = [(mean > count) - (mean < count) for count in tokens]
    return [old + rate * sign for old, sign in zip(bias, signs, strict=True)]
    ### END SOLUTION


# %% id="ex1-check" tags=["check"]
check.ex13c_bias(new_bias)

# %% [markdown] id="exchange-idea"
# ## How many bytes does a token send?
#
# With **expert parallelism**, each rank holds some of the experts, for example two of eight on each of four ranks.
# Every rank has its own tokens, as in data parallelism. A layer then needs two exchanges:
#
# 1. **Dispatch**: each rank sends a copy of each token to the rank of every expert that the token chose.
# 2. **Combine**: each expert sends its results back, and the token's rank adds them up.
#
# Both are an **all-to-all**: each rank sends a different piece to every other rank. The sizes of the pieces differ, so
# the ranks first exchange the numbers of tokens.

# %% id="exchange-moves"
show.moving.collective("all-to-all", ranks=4)

# %% [markdown] id="exchange-predict"
# In a forward pass, a token with top-2 routing has two copies. A copy stays on its rank if the chosen expert is there.
# One unit is the size of a token, hidden size × bytes per number.
#
# **Predict.** With 8 experts on four ranks, how many units does a token send over links in one layer, in dispatch and
# combine together? Assume that all experts are chosen equally often.

# %% id="exchange-guess"
### BEGIN SOLUTION
### GAP guess_units = ...  # your number in place of the dots
guess_units = 4
### END SOLUTION

# %% id="exchange-run"
units = predict("13c: units that a token sends in a forward pass of a layer", guess_units)
mixture = plan.preset("tiny").but(
    name="tiny mixture", layers=2, ffn=128, bias=False, experts=plan.Experts(count=8, per_token=2)
)


def mixture_run(name, micro_batch):
    return gpt.recipe(
        name, model=mixture, nodes=2, gpus_per_node=2, expert=4, iterations=4,
        micro_batch=micro_batch, global_batch=4 * micro_batch,
        moe_router_load_balancing_type="aux_loss", moe_aux_loss_coeff=0.1,
    )  # fmt: skip


exchanged = {size: lab.submit(mixture_run(f"experts-{size}", size)) for size in (1, 4)}

# %% id="exchange-see"
rows = {size: run.require().log.iterations.iloc[0] for size, run in exchanged.items()}


def sent_units(size):
    """Return the units for each token and layer, in forward."""
    sent = rows[size]["bytes_to_experts"] + rows[size]["bytes_from_experts"]
    tokens = rows[size]["global_batch_size"] * mixture.sequence
    return sent / tokens / mixture.layers / (4 * mixture.hidden)


units.compare(sent_units(4))

# %% id="exchange-claim" tags=["claim"]
claim(
    "units that a token sends in a layer, forward", sent_units(4), least=2.8, most=3.2, unit="units"
)

# %% [markdown] id="exchange-explain"
# **Explain.** If both copies were sent to another rank and back, this would be four units. In one of four cases the
# chosen expert is on the token's own rank. So 2 × 2 × 3/4 = 3 units are sent. The backward pass sends three more,
# because gradients travel the same routes backwards. With many expert ranks nearly all copies leave their rank, and a
# token sends 4 × *k* units in a step.
#
# ## Do more tokens per device hide the exchange?
#
# In data parallelism, a rank sends its gradients once per step, however many tokens it has. More tokens per device
# therefore hide the all-reduce (lesson 03).
#
# **Predict.** Each device gets four times as many tokens per step. By what factor do the exchanged bytes *per token*
# change? (1/4 is 0.25.)

# %% id="width-guess"
### BEGIN SOLUTION
### GAP guess_factor = ...  # your number in place of the dots
guess_factor = 0.25
### END SOLUTION

# %% id="width-see"
factor = predict("13c: exchanged bytes per token, with four times the tokens", guess_factor)
measured_factor = sent_units(4) / sent_units(1)
factor.compare(measured_factor)
gradient_bytes = 4 * plan.parameters(mixture).total
for size in rows:
    tokens = size * mixture.sequence
    print(
        f"{tokens} tokens per device: exchanged {4 * mixture.hidden * sent_units(size):.0f} bytes "
        f"per token and layer, gradients {gradient_bytes / tokens:.0f} bytes per token"
    )

# %% id="width-claim" tags=["claim"]
claim(
    "exchanged bytes per token, with four times the tokens",
    measured_factor,
    least=0.9,
    most=1.1,
    unit="times",
)

# %% [markdown] id="width-explain"
# **Explain.** Exchange and arithmetic per token both stay the same, so more tokens per device do not hide the
# exchange. A larger **width of an expert** does. Compare the FLOPs and the bytes of one copy, with hidden size *h*,
# expert width *f* and SwiGLU's three matrices:
#
# - arithmetic, forward and backward: 3 passes × 3 matrices × 2*hf* = 18*hf* FLOPs
# - exchange in bf16, there and back, forward and backward: 4 × 2*h* = 8*h* bytes
#
# That is 18*hf* / 8*h* = 2.25 *f* FLOPs for each byte that a rank sends. Compare this number with the device's FLOP/s
# divided by the bytes per second of its link. If 2.25 *f* is larger, the exchange takes less time than the experts.
#
# The next cell compares models with an H100 that does 400 TFLOP/s, as in the training of Llama 3 405B ([Meta,
# 2024](https://arxiv.org/abs/2407.21783)). Its NVLink carries 450 GB/s in each direction ([NVIDIA,
# 2023](https://www.nvidia.com/en-us/data-center/h100/)). A network adapter of 400 Gbit/s carries 50 GB/s.

# %% id="width-table"
LINKS = {"NVLink (%)": 450e9, "network (%)": 50e9}
widths = pd.DataFrame(
    {
        name: {"expert width": model.ffn, "FLOPs per byte": 2.25 * model.ffn}
        | {link: 100 * (400e12 / speed) / (2.25 * model.ffn) for link, speed in LINKS.items()}
        for name, model in models.items()
    }
).T
widths.round().astype(int)

# %% id="width-claim-table" tags=["claim"]
claim(
    "exchange of DeepSeek-V3 over the network, compared with the arithmetic of its experts",
    widths.loc["deepseek-v3", "network (%)"],
    least=120,
    most=220,
    unit="%",
)

# %% [markdown] id="width-read"
# *The last two columns show the time of the exchange as a percentage of the time of the experts, if all copies leave
# the device and nothing overlaps.*
#
# The wide experts of Mixtral hide the exchange even on the network. The narrow experts of newer models do not. Their
# authors report it too: without countermeasures, DeepSeek-V3 spends about as much time on communication as on
# computation ([section 3.2.1](https://arxiv.org/abs/2412.19437)). It therefore takes three countermeasures. A token
# may go to experts on at most four nodes, and crosses the network once for each node. Dispatch sends 8-bit numbers.
# The exchange of one micro-batch runs while another micro-batch is computed. A rack such as the GB200 **NVL72**
# connects 72 devices by NVLink, each with 900 GB/s in each direction ([NVIDIA,
# 2024](https://www.nvidia.com/en-us/data-center/gb200-nvl72/)). So all experts of a layer can be inside it.

# %% [markdown] id="hide-idea"
# ## Does a wide expert hide the exchange here?
#
# In general an expert has *q* matrices of *h* × *f*, and a number has *b* bytes. In forward, a copy needs 2 *q h f*
# FLOPs and travels there and back, 2 *b h* bytes. So the experts take as long as the exchange if
#
# $$f \geq \frac{b}{q} \cdot \frac{C}{W}$$
#
# Backward needs twice the FLOPs of forward and sends the same bytes, so forward and backward together need 2/3 of this
# width. With *b* = 2 and *q* = 3 this is the rule above.
#
# The program below measures both in forward on four ranks. Each rank exchanges 1,024 copies there and back, and
# computes as many copies with experts of three widths. They have two matrices, and a number has 4 bytes. Half of a
# rank's copies cross to the other node, over a link that two ranks share. So the link carries as many copies as one
# rank has, and *W* is the whole link.

# %% id="hide-file"
# %%writefile "{lab.work}/time_experts.py"
import statistics
import time

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, hidden, copies = dist.get_rank(), 256, torch.randn(1024, 256)
arrived = torch.empty_like(copies)


class Expert(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up, self.down = torch.randn(hidden, width), torch.randn(width, hidden)

    def forward(self, rows):
        return (rows @ self.up).relu() @ self.down


def there_and_back():
    dist.all_to_all_single(arrived, copies)
    dist.all_to_all_single(copies, arrived)


def quartile_ms(call, *given):
    times = []
    for _ in range(9):
        dist.barrier()
        began = time.perf_counter()
        call(*given)
        times.append(1e3 * (time.perf_counter() - began))
    return statistics.quantiles(times, n=4)[0]


print(f"rank {rank}: width 0, {quartile_ms(there_and_back):.2f} ms", flush=True)
for width in (128, 512, 2048):
    print(f"rank {rank}: width {width}, {quartile_ms(Expert(width), copies):.2f} ms", flush=True)
dist.barrier()

# %% id="hide-run"
timed = lab.submit(
    program.recipe("time-experts", "work/time_experts.py", nodes=2, gpus_per_node=2)
).require()
each = pd.DataFrame(
    re.findall(r"^rank \d: width (\d+), ([\d.]+) ms", timed.text, re.MULTILINE),
    columns=["width", "ms"],
).astype({"width": int, "ms": float})
lasts = each.groupby("width")["ms"].median()
exchange_ms = lasts.pop(0)
flop_per_s = 2 * 2 * 256 * 2048 * 1024 / (lasts[2048] / 1000)
link_bytes_per_s = (lab.site.link_gbit or 1.0) * 1e9 / 8
print(f"C = {flop_per_s / 1e9:.1f} GFLOP/s, W = {link_bytes_per_s / 1e9:.3f} GB/s")

# %% [markdown] id="hide-predict"
# **Predict.** At which expert width do the experts take as long as the exchange?

# %% id="hide-guess"
### BEGIN SOLUTION
### GAP guess_width = ...  # your number in place of the dots
guess_width = 128
### END SOLUTION

# %% id="hide-see"
wide_enough = predict("13c: expert width that hides the exchange", guess_width)
by_rule = 4 / 2 * flop_per_s / link_bytes_per_s
by_run = 2048 * exchange_ms / lasts[2048]
wide_enough.compare(by_run)
print(f"by the rule {by_rule:.0f}, by the run {by_run:.0f}")
pd.DataFrame({"experts (ms)": lasts, "exchange (ms)": exchange_ms}).round(1)

# %% id="hide-claim" tags=["claim"]
claim(
    "time of experts of width 2,048, relative to width 512",
    lasts[2048] / lasts[512],
    least=2.5,
    unit="times",
)
if lab.site.box and lab.nodes_are_separate:
    claim(
        "width that hides the exchange, by the rule relative to the run",
        by_rule / by_run,
        least=0.75,
        most=1.7,
        unit="times",
    )

# %% [markdown] id="hide-explain"
# **Explain.** Experts of width 128 take less time than the exchange, and experts of width 2,048 take more. The width
# by the rule is close to the measured width. The rule leaves out latency. It also ignores that the box sends the first
# 128 KiB without delay.
#
# ## One ratio limits all six kinds of parallelism
#
# Each kind of parallelism sends something while a device computes. *C* / *W*, the FLOPs for each byte of the link,
# limits all six. The table lists what each kind needs, so that the message takes no longer than the computation that
# can hide it. A number has *b* bytes.
#
# | kind | lesson | at least | of |
# |---|---|---|---|
# | data | 03 | (*b* / 2) · *C* / *W* | tokens per device and step |
# | FSDP | 11 | (*b* / 2) · *C* / *W* | tokens per device and micro-batch |
# | context, causal | 13b | (*b* / *g*) · *C* / *W* | tokens per device and sequence |
# | tensor, *n* ranks | 07 | (*n* − 1) · (*b* / 9) · *C* / *W* | width |
# | experts, *q* matrices | 13c | (2 *b* / 3 *q*) · *C* / *W* | expert width |
# | pipeline | 07b | (*b* / 24) · *C* / *W* | width × layers of a stage |
#
# More tokens per device help the first three. The last three depend on the shape of the model alone. The next cell
# fills in bf16, *n* = 8, *g* = 8 and *q* = 3 for an H100 and a B200 that reach 40 % of their peak:

# %% id="rules-table"
RULES = {
    "data: tokens per step": 2 / 2,
    "FSDP: tokens per micro-batch": 2 / 2,
    "context: tokens per sequence": 2 / 8,
    "tensor: width": 7 * 2 / 9,
    "experts: expert width": 2 * 2 / (3 * 3),
    "pipeline: width × layers": 2 / 24,
}
rules = {}
for name in ("dgx-h100", "dgx-b200"):
    machine = plan.cluster(name)
    rate = 0.4 * machine.device.peak_tflops("bf16") * 1e12
    for place, link in (("NVLink", machine.within), ("network", machine.across)):
        rules[f"{machine.device.name}, {place}"] = {
            rule: factor * rate / (link.gb_per_s * 1e9) for rule, factor in RULES.items()
        }
rules = pd.DataFrame(rules)
rules.round().astype(int)

# %% id="rules-claim" tags=["claim"]
claim(
    "tokens that hide an all-reduce over the network, B200 relative to H100",
    rules.loc["data: tokens per step", "B200, network"]
    / rules.loc["data: tokens per step", "H100, network"],
    least=2.1,
    most=2.5,
    unit="times",
)

# %% [markdown] id="rules-read"
# *Network: one device of each node in a group, with its own adapter of 400 Gbit/s. If all eight devices of a node
# belong to one data-parallel group, they share its gradients, and an eighth of the tokens is enough (lesson 03). The
# planner counts 80 % of NVLink's data sheet and 85 % of the network's, which large messages reach.*
#
# The B200 computes 2.3 times as fast on the same network, so it needs 2.3 times as much of everything. Faster devices
# alone make all six rules harder to meet. Its NVLink is twice as fast, which nearly makes up for this. In a rack such
# as NVL72, more kinds of parallelism can stay on NVLink.

# %% [markdown] id="link-idea"
# ## Should the exchange stay inside a node?
#
# The program below exchanges 4 MiB between two ranks, inside a node and across two nodes.
#
# It also computes a mixture without an all-to-all. An all-gather gives all tokens to every rank, each rank computes
# the copies for its own experts, and a sum over the ranks combines the results. Then the program compares the
# gradients on each rank with the gradients on a single device that has all tokens.
#
# **Predict.** After `backward()`, which gradients are incomplete on a rank: the gradients of the `"router"`, of the
# `"experts"`, of `"both"`, or of `"none"`?

# %% id="link-guess"
### BEGIN SOLUTION
### GAP guess_short = ...  # "router", "experts", "both" or "none"
guess_short = "both"
### END SOLUTION

# %% id="link-file"
# %%writefile "{lab.work}/compare_experts.py"
import statistics
import time

import torch
import torch.distributed as dist
from torch.distributed.nn.functional import all_gather, all_reduce

dist.init_process_group("gloo")
rank, size, width, experts, rows = dist.get_rank(), dist.get_world_size(), 16, 8, 32
torch.manual_seed(0)
x, dy = torch.randn(2, size * rows, width, dtype=torch.float64)
weights = (
    torch.randn(experts, width, dtype=torch.float64) / 2,
    torch.randn(experts, width, width, dtype=torch.float64),
)


def route(x, router):
    weights, chosen = (x @ router.T).softmax(1).topk(2, 1)
    return torch.zeros(len(x), experts, dtype=x.dtype).scatter(1, chosen, weights)


def compute(x, shares, matrices):
    """Return the sum of the experts' results; a share of 0 means that a row did not choose it."""
    return torch.einsum("re,rew->rw", shares, torch.einsum("rv,evw->rew", x, matrices))


router, matrices = (weight.clone().requires_grad_() for weight in weights)
compute(x, route(x, router), matrices).backward(dy)
serial = router.grad, matrices.grad

router, matrices = (weight.clone().requires_grad_() for weight in weights)
mine, here = slice(rank * rows, (rank + 1) * rows), experts // size
own = slice(rank * here, (rank + 1) * here)
shares = torch.cat(all_gather(route(x[mine], router)))
y = all_reduce(compute(x, shares[:, own], matrices[own]))
y[mine].backward(dy[mine])
if rank == 0:
    pairs = {
        "router": (router.grad, serial[0]),
        "experts": (matrices.grad[own], serial[1][own]),
    }
    for name, (found, right) in pairs.items():
        print(f"{name} off by {100 * float((found - right).norm() / right.norm()):.6f} %")

ways = {"inside": [(0, 1), (2, 3)], "across": [(0, 2), (1, 3)]}
groups = {name: [dist.new_group(pair) for pair in pairs] for name, pairs in ways.items()}
sent = torch.ones(2**20)
arrived, times = torch.empty_like(sent), {name: [] for name in ways}
for _ in range(6):
    for name, pairs in ways.items():
        dist.barrier()
        began = time.perf_counter()
        place = next(n for n, pair in enumerate(pairs) if rank in pair)
        dist.all_to_all_single(arrived, sent, group=groups[name][place])
        dist.barrier()
        times[name].append(time.perf_counter() - began)
if rank == 0:
    for name, found in times.items():
        print(f"{name}: {1e3 * statistics.median(found[1:]):.2f} ms for an exchange of 4 MiB")
dist.barrier()

# %% id="link-run"
short = predict(
    "13c: gradients that are incomplete after backward",
    guess_short,
    choices=("router", "experts", "both", "none"),
)
compared = lab.submit(
    program.recipe("compare-experts", "work/compare_experts.py", nodes=2, gpus_per_node=2)
).require()

# %% id="link-see"
print(compared.text[compared.text.index("router off") :])
off = {
    name: float(percent)
    for name, percent in re.findall(r"^(.+) off by ([\d.]+) %", compared.text, re.MULTILINE)
}
wrong = [name for name, percent in off.items() if percent > 1e-4]
short.compare("both" if wrong[1:] else [*wrong, "none"][0])
took = {
    name: float(ms) for name, ms in re.findall(r"^(\w+): ([\d.]+) ms", compared.text, re.MULTILINE)
}

# %% id="link-claim" tags=["claim"]
claim("the router's gradient is off by", off["router"], least=20, unit="%")
claim("the experts' gradients are off by", off["experts"], most=1e-4, unit="%")
if lab.nodes_are_separate:
    claim(
        "exchange across nodes, compared with inside a node",
        took["across"] / took["inside"],
        least=2,
        unit="times",
    )

# %% [markdown] id="link-explain"
# **Explain.** All copies for an expert are computed on its rank, whichever rank they come from. So its gradient is
# complete after the backward pass. A sum over the ranks would add up the gradients of *different* experts. The router
# is on all ranks, and each rank has seen only its own tokens, so its gradient needs the all-reduce of data
# parallelism. If an expert is on several ranks, its gradient is summed over these ranks.
#
# The exchange across nodes takes several times as long as inside a node. Expert parallelism therefore stays inside a
# node or an NVL72 rack if possible, like tensor parallelism. In Megatron-LM, `--expert-model-parallel-size` sets how
# many ranks share the experts, and `--expert-tensor-parallel-size` splits each expert.
#
# ## Write dispatch and combine
#
# An all-gather sends every token to every rank. An all-to-all sends each copy only to the rank of its expert.
#
# > **Exercise 13c.2** — Write dispatch and combine. The number `counts[r, e]` is the number of copies that this rank
# > has for expert *e* of rank *r*. The rows of `copies[order]` are sorted by rank and expert. With
# > `dist.all_to_all_single(coming, counts)` the ranks exchange these numbers. Compute each arrived copy with its
# > expert, send the results back, and put them into the order of `copies`. Also write the backward pass of
# > `AllToAll`, and in `finish` the missing sum. Four ranks compare your layer with a serial one.

# %% id="experts-own" tags=["exercise"]
# %%writefile "{lab.work}/my_experts.py"
import torch
import torch.distributed as dist


class AllToAll(torch.autograd.Function):
    """Send rows to all ranks: `sent` and `received` are lists of numbers of rows, by rank."""

    @staticmethod
    def forward(ctx, rows, sent, received):
        ctx.sent, ctx.received = sent, received
        arrived = rows.new_empty(sum(received), rows.shape[1])
        dist.all_to_all_single(arrived, rows.contiguous(), received, sent)
        return arrived

    @staticmethod
    def backward(ctx, grad):
        ### BEGIN SOLUTION
        ### GAP return ..., None, None
        return AllToAll.apply(grad, ctx.received, ctx.sent), None, None
        ### END SOLUTION


class Mixture(torch.nn.Module):
    def __init__(self, router, up, down):
        """The whole router, and the matrices of this rank's experts."""
        super().__init__()
        rank, self.size = dist.get_rank(), dist.get_world_size()
        self.here = len(up) // self.size  # number of experts on a rank
        self.router = torch.nn.Parameter(router)
        self.up = torch.nn.Parameter(up.chunk(self.size)[rank].clone())
        self.down = torch.nn.Parameter(down.chunk(self.size)[rank].clone())

    def expert(self, number, rows):
        return (rows @ self.up[number]).relu() @ self.down[number]

    def forward(self, x):
        weights, chosen = (x @ self.router.T).softmax(1).topk(2, 1)  # [rows, 2]
        weights = weights / weights.sum(1, keepdim=True)
        copies = x.repeat_interleave(2, 0)  # row 0 twice, row 1 twice, and so on
        order = chosen.flatten().argsort(stable=True)
        counts = chosen.flatten().bincount(minlength=self.size * self.here)
        counts = counts.view(self.size, self.here)
        coming = torch.empty_like(counts)  # from each rank, for each expert here
        ### BEGIN SOLUTION
        ### GAP ...  # exchange the numbers, then send copies[order]
        ### GAP ...  # compute each arrived copy with its expert
        ### GAP results = ...  # sent back, in the order of `copies`
        dist.all_to_all_single(coming, counts)
        sent, received = counts.sum(1).tolist(), coming.sum(1).tolist()
        arrived = AllToAll.apply(copies[order], sent, received)
        expert = torch.arange(self.here).repeat(self.size).repeat_interleave(coming.flatten())
        computed = torch.zeros_like(arrived)
        for number in range(self.here):
            computed[expert == number] = self.expert(number, arrived[expert == number])
        results = torch.zeros_like(copies)
        results[order] = AllToAll.apply(computed, received, sent)
        ### END SOLUTION
        return (weights[:, :, None] * results.view(*chosen.shape, -1)).sum(1)

    def finish(self):
        """After backward."""
        ### BEGIN SOLUTION
        ### GAP ...  # the sum that is missing
        dist.all_reduce(self.router.grad)
        ### END SOLUTION


# %% id="experts-trial" tags=["exercise"]
experts_trial = lab.submit(trial.recipe("experts-trial", "work/my_experts.py", "experts"))
experts_trial.watch()

# %% id="experts-check" tags=["check"]
check.ex13c_experts(experts_trial)

# %% [markdown] id="ex2-why" tags=["solution"]
# Copies arrive sorted by sender, and for each sender by expert. `repeat_interleave` gives each arrived copy the
# number of its expert. Writing to `results[order]` undoes the sorting. The backward pass of an all-to-all is an
# all-to-all in the opposite direction, so `sent` and `received` are swapped. The course's program does the same in
# `code/parallel/experts.py`, with one grouped matmul for all experts of a rank.

# %% [markdown] id="home"
# ## To take home
#
# - Memory depends on the total parameters of a mixture, and FLOPs depend on the active parameters.
# - Without balancing, an expert can get too few tokens to learn. A small balancing loss or a bias keeps all experts
#   busy.
# - Expert parallelism needs two all-to-alls per layer, and the same in backward.
# - More tokens per device do not hide the exchange. Wide experts and fast links do.
# - *C* / *W* limits every kind of parallelism. Data, FSDP and context need tokens per device, and tensor, pipeline and
#   experts need wide matrices.
# - The gradient of an expert is complete on its rank. The router's gradient is summed over all ranks.

# %% [markdown] id="clean-idea"
# ## Cleaning up
#
# The next cell deletes all runs except the trial of exercise 13c.2.
#
# **References**
#
# - Mistral AI, 2024, Mixtral: [arXiv 2401.04088](https://arxiv.org/abs/2401.04088)
# - DeepSeek, 2024, DeepSeek-V3: [arXiv 2412.19437](https://arxiv.org/abs/2412.19437)
# - Wang and others, 2024, balancing without a loss: [arXiv 2408.15664](https://arxiv.org/abs/2408.15664)
# - Fedus and others, 2021, Switch Transformers: [arXiv 2101.03961](https://arxiv.org/abs/2101.03961)
# - Gale and others, 2022, MegaBlocks: [arXiv 2211.15841](https://arxiv.org/abs/2211.15841)
# - NVIDIA, 2023, H100: [data sheet](https://www.nvidia.com/en-us/data-center/h100/)
# - NVIDIA, 2024, GB200 NVL72: [data sheet](https://www.nvidia.com/en-us/data-center/gb200-nvl72/)
# - Meta, 2024, Llama 3: [arXiv 2407.21783](https://arxiv.org/abs/2407.21783)

# %% id="clean"
lab.clean(trained, *exchanged.values(), timed, compared, yes=True)
