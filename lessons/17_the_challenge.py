# %% [markdown] id="title"
# # 17 The challenge
#
# In this lesson you plan a whole training run. **Train a small GPT until its loss on unseen text is 4.8 nats per token
# or less. Do it as fast as you can, and predict the time in advance.** All your jobs together may use 24
# device-minutes.
#
# You choose the model, the layout, the batch, the learning rate and the length, and one bad choice can spoil the run.
# First you see a common plan that misses the target. Four small probes then show what a good plan needs, and a
# rehearsal shows how accurate the plan is. Then you run your own plan, and it gets a score. At the end you plan two
# large models for a thousand devices.
#
# | | |
# |---|---|
# | You will be able to | plan a whole training run from cheap probes; spend a budget where it matters; predict time and loss of a run; plan a dense model and a mixture of experts for a machine of your choice |
# | Minutes | 80, or as many as you like |
# | Devices | 2 nodes with 2 devices each |
# | Before | lessons 12, 13c, 14 and 15 |

# %% id="begin"
import math
import os

import numpy as np
import pandas as pd

from course_lib import Lab, challenge, check, claim, gpt, links, plan, predict, show

lab = Lab()
task = challenge.task(lab)
task.rules()

# %% [markdown] id="task-idea"
# The **held-out loss** is the loss on a tenth of the text that the run did not see. It is measured after the run,
# with the saved weights and on samples that are drawn only then. An untrained model has a loss of ln 1024 = 6.93. A
# model that knows only the frequencies of the tokens has a loss of about 6.
#
# The budget covers every job that you submit, including mistakes. The lab reserves the time limit of a job on all its
# devices, so do not ask for ten minutes if two are enough.

# %% id="task-budget"
limit_before = lab.budget.limit
lab.set_budget(lab.budget.used + task.device_minutes / 60)

# %% [markdown] id="habit-idea"
# ## A plan by habit
#
# Many plans are made by habit. The following plan uses all four devices. The model is large, 4 layers of width 128,
# because large models learn more per token. A batch has 64 samples, 16 per device, to keep the devices busy. The
# learning rate is the program's default, 0.001. The number of iterations should fill about half a minute.
#
# **Predict.** The plan makes 60 iterations with 245,760 tokens. The loss starts at 6.93, and the target is 4.8. What
# is the held-out loss at the end?

# %% id="habit-guess"
### BEGIN SOLUTION
### GAP guess_habit = ...  # nats per token
guess_habit = 4.8
### END SOLUTION

# %% id="habit-run"
by_habit = predict("17: held-out loss of a plan by habit", guess_habit, unit="nats")
habit_recipe = task.recipe(
    "habit",
    task.model(layers=4, hidden=128),
    seconds=30,
    nodes=2,
    gpus_per_node=2,
    micro_batch=16,
    iterations=60,
    lr=1e-3,
    log_interval=5,
)
habit_run = lab.submit(habit_recipe)
habit_run.watch()

# %% id="habit-see"
habit = task.score(habit_run.require())
by_habit.compare(habit.loss)
habit

# %% id="habit-claim" tags=["claim"]
claim("the plan by habit misses the target by", habit.loss - task.target, least=0.5, unit="nats")

# %% [markdown] id="habit-explain"
# **Explain.** The run ends when the model has learned which tokens are frequent and has begun to learn which tokens
# follow each other. Nothing in this plan looks *wrong*: the job runs, all devices are busy, and the loss falls.
#
# Three questions would have revealed the problem. How many tokens does this *model* need? How few *steps* are enough
# (lesson 12)? How long does an *iteration* take, and why (lesson 14)?

# %% [markdown] id="probes-idea"
# ## Four probes at once
#
# A **probe** is a short run that answers one question. These four use one device each and run at the same time.
# Together they cost less than the run above. Each shows how much a model learns and how long an iteration takes.
#
# | probe | model | batch | learning rate | iterations | tokens |
# |---|---|---|---|---|---|
# | `short` | 2 × 64 | 16 | 0.003 | 100 | 102,400 |
# | `long` | 2 × 64 | 16 | 0.003 | 200 | 204,800 |
# | `wide-batch` | 2 × 64 | 64 | 0.006, by the square-root rule | 50 | 204,800 |
# | `large` | 4 × 128 | 16 | 0.003 | 50 | 51,200 |
#
# **Predict.** `long` and `wide-batch` see the same number of tokens, but `wide-batch` makes a quarter of the steps.
# By how much is its final loss higher? On the box, `long` and `large` take about the same time. Which of the two has
# the lower loss?

# %% id="probes-guess"
### BEGIN SOLUTION
### GAP guess_higher = ...  # nats
### GAP guess_lower = ...  # "long" or "large"
guess_higher, guess_lower = 0.1, "large"
### END SOLUTION

# %% id="probes-run"
higher = predict("17: rise of the loss with four times the batch", guess_higher, unit="nats")
lower = predict("17: model with the lower loss", guess_lower, choices=("long", "large"))


def probe(name, layers, hidden, **how):
    """The recipe of a probe, on one device."""
    habits = {"lr": 3e-3, "log_interval": 5, "time_limit_minutes": 2}
    return task.recipe(name, task.model(layers, hidden), seconds=20, **{**habits, **how})


submitted = {
    recipe.name: lab.submit(recipe)
    for recipe in (
        probe("short", 2, 64, micro_batch=16, iterations=100),
        probe("long", 2, 64, micro_batch=16, iterations=200),
        probe("wide-batch", 2, 64, micro_batch=64, iterations=50, lr=6e-3),
        probe("large", 4, 128, micro_batch=16, iterations=50),
    )
}
probes = {name: run.require() for name, run in submitted.items()}
curves = {
    name: run.log.iterations.assign(
        tokens=run.log.iterations["consumed_samples"] * task.model(2, 64).sequence
    )
    for name, run in probes.items()
}
show.lines(
    curves,
    x="tokens",
    y="lm_loss",
    title="Four probes, one device each",
    log="x",
    level=task.target,
)

# %% id="probes-see"
learned = pd.DataFrame(
    {
        name: {
            "tokens": table["tokens"].iloc[-1],
            "ms per iteration": table["elapsed_ms"].median(),
            "loss at the end": table["lm_loss"].tail(3).mean(),
        }
        for name, table in curves.items()
    }
).T
last = learned["loss at the end"]
higher.compare(last["wide-batch"] - last["long"])
lower.compare(last[["long", "large"]].idxmin())
learned.round(2)

# %% id="probes-claim" tags=["claim"]
claim(
    "rise of the loss with four times the batch and the same tokens",
    last["wide-batch"] - last["long"],
    least=0.1,
    unit="nats",
)
claim(
    "loss after 50 steps of the large model, minus loss after 200 steps of the small model",
    last["large"] - last["long"],
    least=0.25,
    unit="nats",
)

# %% [markdown] id="probes-explain"
# *The dotted line is the target loss.*
#
# **Explain.** The **batch** of `wide-batch` is too large for so few tokens. On the line through `short` and `long`, the
# loss of `wide-batch` lies at about 130,000 tokens, which are 130 steps with 16 samples. With 64 samples it took 50
# steps. A step gains more, but not four times as much, so the tokens are spent faster. By the law of lesson 12, this
# ratio of 2.6 means a critical batch of about 70 samples. A batch near it costs about twice the fewest tokens.
#
# The **model** of `large` is too large. Each token costs several times the arithmetic, so it sees too few tokens in
# this time. The best model for a budget is a model that gets enough tokens. For large models, a rule of thumb is about
# 20 tokens per parameter ([Hoffmann and others, 2022](https://arxiv.org/abs/2203.15556)). The probe `long` got more
# than one token per parameter, and the plan by habit got a quarter:

# %% id="feed-see"
tokens_seen = {"habit": habit.tokens} | learned["tokens"].to_dict()
fed = {"habit": habit_recipe} | {name: run.recipe for name, run in probes.items()}
pd.DataFrame(
    {
        name: {"parameters": plan.parameters(recipe.model).total, "tokens": tokens_seen[name]}
        for name, recipe in fed.items()
    }
).T.assign(tokens_per_parameter=lambda table: table["tokens"] / table["parameters"]).round(2)

# %% [markdown] id="tokens-idea"
# ## How many tokens does the target need?
#
# `short` and `long` are two complete training runs. Each lowers its learning rate to zero at the end, so you can
# compare their final losses. For a while, the loss falls roughly along a straight line over a logarithmic axis of
# tokens.
#
# Two points define a line, but they cannot show whether the loss follows it. The next cell extends the line from 200
# thousand tokens to about twice as many. Do not extend it to two million.

# %% id="tokens-see"
ends = learned.loc[["short", "long"]]
slope = (last["long"] - last["short"]) / np.log2(ends["tokens"]["long"] / ends["tokens"]["short"])


def tokens_for(loss):
    """The number of tokens at which the line through the two probes reaches `loss`."""
    return ends["tokens"]["long"] * 2 ** ((loss - last["long"]) / slope)


print(f"each doubling of the tokens lowers the loss by {-slope:.2f}")
print(f"the line reaches {task.target:g} after {tokens_for(task.target):,.0f} tokens")
print(
    f"and {task.target - 0.1:g}, with a margin, after {tokens_for(task.target - 0.1):,.0f} tokens"
)
losses = np.linspace(last["short"], task.target - 0.2, 60)
line = pd.DataFrame({"tokens": tokens_for(losses), "loss": losses})
show.lines(
    {"the line": line, "probes": ends.rename(columns={"loss at the end": "loss"})},
    x="tokens",
    y="loss",
    title="From two probes to the length of the run",
    log="x",
    points=["probes"],
    level=task.target,
)

# %% [markdown] id="tokens-explain"
# Plan with a margin, because the line is not exact and the score draws its own samples. A run that misses the target
# by 0.01 does not count, while a margin of 0.1 costs only a few seconds. Your own run will add a third point.

# %% [markdown] id="layout-idea"
# ## How many devices should share the batch?
#
# The probes measured the speed of one device. Now a job measures the links, as in lesson 14, and the planner combines
# both.
#
# An iteration has three kinds of work. Arithmetic is proportional to the samples, so devices share it. Starting
# operations takes the same time for 4 samples as for 16. With several devices there is also the all-reduce.
#
# **Predict.** The model is 2 × 64, and the batch is 16. If four devices share the batch, by what factor is an
# iteration faster than on one device?

# %% id="layout-guess"
### BEGIN SOLUTION
### GAP guess_faster = ...  # times
guess_faster = 4
### END SOLUTION

# %% id="layout-run"
faster = predict(
    "17: planned speed-up of an iteration by four devices", guess_faster, unit="times as fast"
)
link_run = lab.submit(
    links.recipe(
        "roads", nodes=2, gpus_per_node=2, max_bytes=2**22, repeat=10, time_limit_minutes=2
    )
).require()


def observed(run):
    milliseconds = run.log.iterations["elapsed_ms"].median()
    return plan.Observation(gpt.model(run.recipe), gpt.layout(run.recipe), milliseconds / 1e3)


known = lab.site.device.upper()
cluster = plan.box(processors=os.cpu_count())
if known in plan.DEVICES:
    cluster = plan.cluster(known).but(nodes=2, devices_per_node=2)
here = plan.calibrate(
    plan.with_links(cluster, link_run.links),
    plan.STACKS["course"],
    [observed(run) for run in probes.values()],
)


def planned(**how):
    """The planner's estimate for a recipe of this task."""
    shape = how.pop("shape", task.model(2, 64))
    recipe = task.recipe("planned", shape, seconds=1, iterations=1, **{"global_batch": 16} | how)
    return plan.predict(gpt.model(recipe), gpt.layout(recipe), here.cluster, here.stack)


four = {"nodes": 2, "gpus_per_node": 2}
ways = {
    "1 device": {"micro_batch": 16},
    "data 2": {"gpus_per_node": 2, "micro_batch": 8},
    "data 4": {**four, "micro_batch": 4},
    "tensor 2, data 2": {**four, "micro_batch": 8, "tensor": 2},
    "pipeline 2, data 2": {**four, "micro_batch": 4, "pipeline": 2},
    "tensor 2, pipeline 2": {**four, "micro_batch": 4, "tensor": 2, "pipeline": 2},
}
estimates = {name: planned(**how) for name, how in ways.items()}
layouts = pd.DataFrame(
    {
        name: {"ms": 1e3 * estimate.seconds} | {k: 1e3 * v for k, v in estimate.parts.items()}
        for name, estimate in estimates.items()
    }
).T.fillna(0)
one, all_four = layouts["ms"]["1 device"], layouts["ms"]["data 4"]
faster.compare(one / all_four)
layouts.T.round(1)

# %% id="layout-said"
best = layouts["ms"].idxmin()
print(f"planned fastest here: {best}, {one / layouts['ms'][best]:.1f} times as fast as one device")
if best != "data 4":
    print("With more devices, each has too little work, or the links are too slow.")

# %% id="layout-claim" tags=["claim"]
claim("four devices are planned to be faster than one by", one / all_four, most=3.5, unit="times")
cuts = estimates[best].layout.tensor * estimates[best].layout.pipeline
claim("tensor × pipeline of the fastest layout", cuts, least=1, most=1)

# %% [markdown] id="layout-explain"
# **Explain.** Devices share only the work that is proportional to samples: `matmul`, `attention` and `memory`. Each
# device still starts all operations, and the all-reduce is additional, mostly between nodes. If a model fits on one
# device, tensor and pipeline parallelism only add messages.
#
# Four devices are less than four times as fast, so the same run costs more device-minutes. Here only seconds count,
# and the budget is large enough. In a real project you must weigh time against cost.

# %% [markdown] id="rehearsal-idea"
# ## A rehearsal of the plan
#
# The plan rests on the speed of the probes, the speed of the links, and formulas. Each can be wrong. So before a long
# run, run the plan itself for a short time. This is a **rehearsal**, here 40 iterations with the same model, batch and
# layout. Compared with a run of several days it costs almost nothing.
#
# A rehearsal also shows how much time a job takes **around** its iterations, from start to end. The probes could not
# show this, because they started at the same time.
#
# **Predict.** In lesson 14 you saw how well a plan fits your cluster. By what factor is a rehearsed iteration slower
# than planned?

# %% id="rehearsal-guess"
### BEGIN SOLUTION
### GAP guess_longer = ...  # times
guess_longer = 1
### END SOLUTION

# %% id="rehearsal-run"
longer = predict("17: rehearsed iteration, relative to the plan", guess_longer, unit="times")
rehearsal = lab.submit(
    task.recipe(
        "rehearsal",
        task.model(2, 64),
        seconds=10,
        **ways[best],
        global_batch=16,
        iterations=40,
        lr=3e-3,
        log_interval=5,
        time_limit_minutes=2,
    )
).require()


def iteration_s(run):
    return run.log.iterations["elapsed_ms"].median() / 1e3


def around_s(run):
    """The seconds of a job outside its iterations."""
    steps = int(run.recipe.flags["--train-iters"])
    return run.elapsed_s - steps * run.log.iterations["elapsed_ms"].mean() / 1e3


# %% id="rehearsal-see"
planned_ms, rehearsed_ms = 1e3 * estimates[best].seconds, 1e3 * iteration_s(rehearsal)
longer.compare(rehearsed_ms / planned_ms)
print(f"{best}: planned {planned_ms:.0f} ms, rehearsed {rehearsed_ms:.0f} ms")
if not 0.8 < rehearsed_ms / planned_ms < 1.25:
    print("The plan is wrong. If devices share CPU cores, the probes slowed one another.")
    print("Then their speed was wrong, and the order of the layouts may be wrong too.")
jobs = (habit_run, *probes.values(), rehearsal)
seconds = {run.name: {"seconds": run.elapsed_s, "around": around_s(run)} for run in jobs}
pd.DataFrame(seconds).T.round(1)

# %% [markdown] id="rehearsal-explain"
# **Explain.** If the rehearsal and the plan agree, you can also trust the plan for other layouts and longer runs. If
# they disagree, trust the rehearsal, and look for what the plan leaves out.

# %% [markdown] id="ex1" tags=["exercise"]
# ## Your own plan
#
# > **Exercise 17.1** — Reach the target with your own plan. Use fewer device-minutes than the plan by habit, and
# > predict the job's seconds within a factor of 1.5. These seconds include the start and the end of the job. You may
# > choose models, batches and rates that no probe had. The budget is enough for more probes and rehearsals.

# %% id="ex1-gap" tags=["exercise"]
### BEGIN SOLUTION
### GAP mine_shape = ...  # task.model(layers, hidden)
### GAP mine_recipe = task.recipe(
### GAP     "mine", mine_shape, seconds=..., nodes=..., gpus_per_node=...,
### GAP     micro_batch=..., global_batch=..., iterations=..., lr=..., log_interval=5,
### GAP )
batch = 16
steps = math.ceil(tokens_for(task.target - 0.1) / (batch * 64) / 10) * 10
in_all_s = steps * iteration_s(rehearsal) + around_s(rehearsal)
print(f"{steps} iterations as rehearsed, and the time around them: {in_all_s:.0f} s")
mine_shape = task.model(2, 64)
mine_recipe = task.recipe(
    "mine", mine_shape, seconds=round(in_all_s), **ways[best],
    global_batch=batch, iterations=steps, lr=3e-3, log_interval=5,
)  # fmt: skip
### END SOLUTION
mine_run = lab.submit(mine_recipe)
mine_run.watch()

# %% id="ex1-score" tags=["exercise"]
mine = task.score(mine_run)
mine

# %% id="ex1-check" tags=["check"]
check.ex17_mine(mine_run, mine, habit)

# %% [markdown] id="ex1-why" tags=["solution"]
# The reasons for this plan:
#
# - **Batch 16**, because the probe with 64 learned clearly less from the same tokens. Batch 8 may be even better. But
#   then each of four devices has two samples, and an iteration mostly starts operations and waits for the all-reduce.
# - **Model 2 × 64**, because half a minute is too short to give a larger model enough tokens.
# - **Layout**: the fastest layout of the plan, which does not cut the model, because it fits on one device.
# - **Learning rate 0.003**, because it worked well in the probes. To find out whether 0.01 is too high for this
#   width, run a probe.
# - **Iterations**: from the line through two probes, with a margin of 0.1 nats.
# - **Seconds**: iterations × time per iteration in the rehearsal, plus the time of the job before and after its
#   iterations.

# %% id="ex1-both" tags=["solution"]
on_the_line = last["long"] + slope * np.log2(mine.tokens / ends["tokens"]["long"])
print(f"held-out loss {mine.loss:.2f}; the line through two probes gives {on_the_line:.2f}")
pd.DataFrame(
    {
        score.run: {
            "held-out loss": score.loss,
            "tokens": score.tokens,
            "seconds": score.seconds,
            "device-minutes": score.device_minutes,
            "predicted (s)": score.foreseen,
        }
        for score in (habit, mine)
    }
).round(2)

# %% id="ex1-claim" tags=["solution", "claim"]
claim("held-out loss of the planned run", mine.loss, most=task.target, unit="nats")
claim(
    "perplexity of the plan by habit, compared with the planned run",
    math.exp(habit.loss - mine.loss),
    least=1.8,
    unit="times",
)
claim(
    "device-minutes of the plan by habit, compared with the planned run",
    habit.device_minutes / mine.device_minutes,
    least=1.1,
    unit="times",
)
claim("the predicted time is wrong by a factor of", mine.off_by, most=1.5)

# %% [markdown] id="board-idea"
# ## The board
#
# You can enter your score on a board, under a name of your choice. The board sorts by a product: the seconds of the
# run times the factor by which your prediction was wrong. If you learn alone, the board shows only your own runs. In a
# class, `COURSE_BOARD` names a folder that all can write to. Others see only your chosen name and the figures.

# %% id="board-see"
task.enter(mine, name="first try")
task.board()

# %% [markdown] id="board-explain"
# The score is computed from the run. The loss comes from the saved weights on samples drawn at that moment, and the
# seconds come from the cluster's accounting. A run does not count if it uses another text or another program, starts
# from trained weights, or changes the speed of its devices.

# %% [markdown] id="dense-idea"
# ## Plan a model of 70 billion parameters
#
# Now plan for a machine that you cannot try. The model is Llama 3 with 70 B parameters, `plan.preset("llama-70b")`.
# Train it on **2 trillion tokens** in at most **90 days**, with at most **1024 devices** of any machine in
# `plan.CLUSTERS`.
#
# No machine computes faster than its peak, so the time at the peak is a lower bound for every plan. In lesson 14, Llama
# 3 405B reached about 40 % of the peak on up to 16,384 H100s. Now consider 1024 H100s with a peak of 989 TFLOP/s each.
#
# **Predict.** By what factor does the best plan take longer than all its matmuls, including attention, would take at
# the peak?

# %% id="dense-guess"
### BEGIN SOLUTION
### GAP guess_over = ...  # times the bound
guess_over = 1.3
### END SOLUTION

# %% id="dense-see"
over = predict("17: planned days, relative to the days at the peak", guess_over, unit="times")
dense = plan.preset("llama-70b")
dgx = plan.cluster("dgx-h100", devices=1024)
found = plan.search(dense, dgx, global_batch=1024)
over.compare(1 / found.best.mfu)
show.layouts(found)

# %% id="dense-claim" tags=["claim"]
claim(
    "days of the best plan, compared with the days at peak", 1 / found.best.mfu, least=1.6, most=2.2
)

# %% [markdown] id="dense-explain"
# **Explain.** The factor is 1 / MFU. If you guessed 1.3, you left out the parts of a step that are not matmuls:
# communication, the bubble and moving data. If you guessed 2.5, you used the 40 % of lesson 14. But a smaller model on
# fewer devices communicates less. NVIDIA measured this model on 1024 H100s with another layout and reached 53.4 % of
# the peak ([2025](https://github.com/NVIDIA/dgxc-benchmarking/blob/v25.01/llama3.1/README_70b.md)), a factor of 1.87.
# The planner's constants were fitted to such runs, so this agreement is no test. Plan and benchmark both leave out
# failures and slow days.

# %% [markdown] id="ex2" tags=["exercise"]
# > **Exercise 17.2** — Compute by hand how many days 1024 H100 would need *at their peak* for 2 trillion tokens, with 6
# > FLOPs per parameter and token (`plan.parameters(dense).total`). Then choose a machine and plan the training on at
# > most 1024 of its devices. The layout must fit into memory and finish within 90 days. Each step must have between
# > half a million and 20 million tokens, as in published runs.

# %% id="ex2-gap" tags=["exercise"]
### BEGIN SOLUTION
### GAP least_days = ...
### GAP dense_plan = ...  # plan.predict(dense, plan.Layout(…), plan.cluster(…, devices=…))
least_days = 6 * plan.parameters(dense).total * 2e12 / (1024 * 989e12) / 86400
dense_layout = plan.Layout(
    tensor=8, pipeline=4, data=16, virtual=4, micro_batch=1, global_batch=512, zero=1,
    sequence_parallel=True,
)  # fmt: skip
dense_plan = plan.predict(dense, dense_layout, plan.cluster("dgx-h100", devices=512))
print(dense_plan, f"{dense_plan.days(2e12):.0f} days", sep="\n")
### END SOLUTION

# %% id="ex2-check" tags=["check"]
check.ex17_dense(least_days, dense_plan)

# %% [markdown] id="ex2-why" tags=["solution"]
# According to the plan, 512 devices are enough. Tensor 8 stays inside a node, where links are fast. With pipeline 4, a
# device's share of the model is so small that no recomputation is needed. Four pieces on each stage make the bubble a
# quarter as long (lesson 07b). 16 data ranks share the optimizer state. 512 samples of 8,192 tokens are a batch of 4
# million tokens.
#
# Your bound leaves attention out, but the MFU of the plan counts it. So the plan takes longer than the bound by a
# factor of more than 1 / MFU. Look also at the interval and its evidence. Runs of this program were measured on this
# machine with many nodes, so the interval is narrow. For a machine without measurements, the interval is wide. Before
# you promise a date, run a few iterations and add the time for failures (lesson 16b).

# %% [markdown] id="mixture-idea"
# ## Plan a mixture of experts
#
# Lesson 13c ran a small **mixture of experts** on four ranks. Memory must hold all experts, and arithmetic counts only
# the experts that the **router** chooses for a token. With **expert parallelism**, each layer needs two all-to-alls in
# forward and two in backward. Here you plan a large mixture.
#
# Mixtral 8×22B has 56 layers of width 6,144. Its 48 heads of size 128 share 8 heads of keys and values. Each layer has
# 8 experts, and a token uses 2 of them. Each expert has three matrices of size 6,144 × 16,384. Embedding and head have
# a row for each of 32,768 tokens.
#
# **Predict.** How many billion parameters does it have? (Its name suggests an answer.)

# %% id="mixture-guess"
### BEGIN SOLUTION
### GAP guess_billions = ...  # billion
guess_billions = 176
### END SOLUTION

# %% id="mixture-see"
billions = predict("17: parameters of a mixture 8 × 22 B", guess_billions, unit="billion")
mixtral = plan.preset("mixtral-8x22b")
total, active = plan.parameters(mixtral).total, plan.active_parameters(mixtral)
billions.compare(total / 1e9)
print(f"a token passes {100 * active / total:.0f} % of them")

# %% [markdown] id="mixture-bounds"
# To estimate a mixture, the planner makes three changes to a dense model. Each rank holds only its share of the
# experts, each pass has two exchanges of tokens, and an expert computes only the tokens that it gets. The planner's
# constants were fitted to published runs of Grok-1 and Qwen3 on H100 and Blackwell devices. The last words of the
# estimate say how many runs were used.
#
# The next cell plans Mixtral 8×22B on 128 H100 with 1 to 8 expert ranks. If two tensor ranks also split each expert,
# eight expert ranks would need 16 devices. With `expert_tensor=1` they fit into a node of eight.

# %% id="mixture-try"
hundred = plan.cluster("dgx-h100", devices=128)
spread = plan.Layout(
    tensor=2, pipeline=8, data=8, virtual=7, global_batch=256, zero=1, sequence_parallel=True,
    expert_tensor=1,
)  # fmt: skip
tried = {ranks: plan.predict(mixtral, spread.but(expert=ranks), hundred) for ranks in (1, 2, 4, 8)}
inside = tried[8]
tried["8, across nodes"] = plan.predict(
    mixtral, spread.but(expert=8), hundred.but(devices_per_node=4, nodes=32)
)
across = tried["8, across nodes"]
rows = {
    ranks: {
        "GiB": found.device_gib,
        "fits": found.verdict,
        "exchange (s)": found.parts.get("exchange", 0.0),
        "iteration (s)": found.seconds,
        "MFU (%)": 100 * found.mfu,
    }
    for ranks, found in tried.items()
}
print(inside)
pd.DataFrame(rows).T.rename_axis("expert ranks")

# %% id="mixture-claim" tags=["claim"]
claim(
    "exchange across two nodes, compared with one node",
    across.parts["exchange"] / inside.parts["exchange"],
    least=2,
    most=7,
    unit="times",
)
claim(
    "with experts on one rank instead of eight, memory is larger by",
    tried[1].device_gib - tried[8].device_gib,
    least=30,
    unit="GiB",
)

# %% [markdown] id="mixture-explain"
# **Explain.** With more expert ranks, each rank holds fewer experts, and memory falls. This is the purpose of expert
# parallelism, and its cost is the exchange. Eight expert ranks in one node of eight devices keep the exchange on the
# fast links. On nodes of four devices, the same group spans two nodes, and the exchange takes several times as long.
# The planner assumes that a token crosses the network once, even if both of its experts are on the other node.
#
# Compare the last column with a run that was not used for the constants. For this model, NVIDIA published up to 49.3 %
# of the peak of H100s ([2025](https://arxiv.org/abs/2504.14960)), with a slightly different layout.

# %% [markdown] id="real-idea"
# ## A real mixture beside its estimate
#
# How good is the planner's estimate of a mixture? To find out, you need a mixture that you can run. The next model is
# small: four layers with 8 experts of width 256, and a token uses 2 of them. Four ranks share the experts of each
# layer. The **dense twin** has one MLP of width 512 instead, so a token uses about as many parameters. The planner
# uses the links and the constants that you measured above with dense models.
#
# The budget was for the challenge alone, so the next cell sets it back. It also shows the planner's parts of an
# iteration of the mixture, in milliseconds.

# %% id="real-plan"
lab.set_budget(limit_before)
small = plan.Model(
    "small mixture", layers=4, hidden=128, heads=4, sequence=128, vocabulary=1024, ffn=256,
    bias=False, experts=plan.Experts(count=8, per_token=2),
)  # fmt: skip
twin = small.but(name="dense twin", ffn=512, experts=None)
print(
    f"total parameters:  {plan.parameters(small).total:>9,} and {plan.parameters(twin).total:>9,}"
)
print(
    f"active parameters: {plan.active_parameters(small):>9,} and {plan.active_parameters(twin):>9,}"
)


def trained(name, model, **how):
    return gpt.recipe(
        name, model=model, **four, mock_data=True, micro_batch=4, global_batch=16, iterations=16,
        time_limit_minutes=2, **how,
    )  # fmt: skip


recipes = {
    "mixture": trained(
        "real-mixture", small, expert=4,
        moe_router_load_balancing_type="aux_loss", moe_aux_loss_coeff=0.1,
    ),
    "dense twin": trained("real-twin", twin),
}  # fmt: skip
expected = {
    name: plan.predict(gpt.model(recipe), gpt.layout(recipe), here.cluster, here.stack)
    for name, recipe in recipes.items()
}
pd.Series(expected["mixture"].parts, name="ms").mul(1e3).round(1).to_frame()

# %% [markdown] id="real-predict"
# **Predict.** By what factor is an iteration of the mixture longer than an iteration of the dense twin?

# %% id="real-guess"
### BEGIN SOLUTION
### GAP guess_real = ...  # times
guess_real = 1
### END SOLUTION

# %% id="real-run"
real = predict("17: iteration of the mixture, relative to the dense twin", guess_real, unit="times")
ran = {name: lab.submit(recipe) for name, recipe in recipes.items()}
measured_ms = {name: 1e3 * iteration_s(run.require()) for name, run in ran.items()}
expected_ms = {name: 1e3 * found.seconds for name, found in expected.items()}
real.compare(measured_ms["mixture"] / measured_ms["dense twin"])
extra = {
    name: of["mixture"] - of["dense twin"]
    for name, of in {"planned": expected_ms, "measured": measured_ms}.items()
}
print(f"extra time of the mixture: planned {extra['planned']:.0f} ms, ", end="")
print(f"measured {extra['measured']:.0f} ms")
show.predicted(expected_ms, measured_ms, unit="ms", what="one iteration")

# %% id="real-claim" tags=["claim"]
claim(
    "extra time of the mixture over its twin, planned relative to measured",
    extra["planned"] / extra["measured"],
    least=0.3,
    most=1.5,
    unit="times",
)
claim(
    "measured iteration of the mixture, relative to the dense twin",
    measured_ms["mixture"] / measured_ms["dense twin"],
    least=1.2,
    unit="times",
)

# %% [markdown] id="real-explain"
# **Explain.** The mixture takes longer, although a token uses as many parameters. If you guessed 1, you counted FLOPs.
# Tokens travel to their experts and back, and each layer starts more operations. The plan contains both, but on the box
# it predicts only part of the extra time. It assumes almost equal numbers of tokens per expert, and ranks that
# reach every exchange together. In the run, all ranks wait for the busiest expert and for the last rank. So the
# estimate of the mixture is less accurate than the estimate of its dense twin, and a rehearsal matters more.

# %% [markdown] id="ex3" tags=["exercise"]
# > **Exercise 17.3** — Compute by hand, in billions, all parameters of Mixtral 8×22B and the parameters that a token
# > uses. You may leave out the norms. Then plan 2 trillion tokens in 90 days on at most 1024 devices of a machine of
# > your choice. The plan must fit into memory, and even the slow end of its interval must be within 90 days.

# %% id="ex3-gap" tags=["exercise"]
### BEGIN SOLUTION
### GAP total_billions = ...
### GAP active_billions = ...
### GAP mixture_plan = ...  # plan.predict(mixtral, plan.Layout(…), plan.cluster(…))
attention = 2 * 6144 * 6144 + 2 * 6144 * 8 * 128
expert, router, tables = 3 * 6144 * 16384, 6144 * 8, 2 * 32768 * 6144
total_billions = (56 * (attention + 8 * expert + router) + tables) / 1e9
active_billions = (56 * (attention + 2 * expert + router) + tables) / 1e9
mixture_layout = plan.Layout(
    tensor=2, pipeline=8, data=32, virtual=7, global_batch=1024, zero=1, sequence_parallel=True,
    expert=8, expert_tensor=1,
)  # fmt: skip
mixture_plan = plan.predict(mixtral, mixture_layout, plan.cluster("dgx-h100", devices=512))
print(mixture_plan, f"{mixture_plan.days(2e12):.0f} days", sep="\n")
### END SOLUTION

# %% id="ex3-check" tags=["check"]
check.ex17_mixture(total_billions, active_billions, mixture_plan)

# %% [markdown] id="ex3-why" tags=["solution"]
# The model has 140.6 billion parameters, and a token uses 39.2 billion. Eight experts share one attention layer and
# one pair of tables, and the name 8 × 22 counts these eight times. Keys and values are 8 × 128 wide, not 6,144. With 8
# expert ranks, a device holds one whole expert in each of its layers.

# %% [markdown] id="challenge" tags=["exercise"]
# > **Going further** — Beat your own score: `task.board()` keeps all attempts. Try batches of 8 on two devices, one
# > layer, or a higher rate with a longer warm-up. Or keep the rate high until the last fifth, with
# > `lr_decay_style="WSD", lr_wsd_decay_iters=60` for 300 iterations. Plan each run first, because a wrong prediction
# > of the time makes your score worse.

# %% [markdown] id="home"
# ## To take home
#
# - A plan that runs is not always a good plan. Compare it with another plan before the large run.
# - Probes cost little and help you choose batch, model and length. Run them first.
# - Rehearse a plan before you promise a time. If the rehearsal and the plan disagree, trust the rehearsal.
# - The best model is not the largest model, but a model that gets enough tokens within the budget.
# - More devices share only the work that is proportional to samples. The critical batch limits how many devices are
#   useful.
# - Predict loss *and* time in writing, with a margin.
# - In a mixture, all parameters need memory, and only the active parameters need arithmetic. The exchange should stay
#   inside a node.
#
# **References.** Hoffmann and others, 2022: [arXiv 2203.15556](https://arxiv.org/abs/2203.15556). MoE Parallel
# Folding, 2025: [arXiv 2504.14960](https://arxiv.org/abs/2504.14960).

# %% [markdown] id="clean-idea"
# ## Cleaning up
#
# Your own run stays, because its check reads it. The budget is set back to its former value.

# %% id="clean"
lab.set_budget(limit_before)
lab.clean(*probes.values(), link_run, rehearsal, *ran.values(), yes=True)
