# %% [markdown] id="title"
# # 16b Keep going
#
# A run of several weeks is interrupted many times, so it must restart by itself and lose little work. In this lesson a
# job is removed from its nodes and restarts without help. A disk fills up, and no good checkpoint is lost. Then you
# compute how often to save, from a failure rate and two times that you measure.
#
# | | |
# |---|---|
# | You will be able to | write a job that survives preemption and dead nodes; know which checkpoint is good; choose the interval between checkpoints; say what percentage of a machine's time becomes kept work |
# | Minutes | 55, and 25 more for exercise 16b.2 |
# | Devices | 2 nodes with 2 devices each |
# | Before | lessons 03 and 16 |

# %% id="begin"
import time

import pandas as pd

from course_lib import Lab, check, claim, fault, plan, predict, read, show, trial

lab = Lab()

# %% [markdown] id="requeue-idea"
# ## How does a preempted job continue?
#
# If a job of higher priority arrives, Slurm can take your nodes back. Your job is **preempted**. What follows depends
# on the cluster. With `PreemptMode=REQUEUE`, the job is **requeued**: it goes back into the queue and starts again.
# With `CANCEL` it ends, and with `SUSPEND` it waits. After a node failure, Slurm also requeues the job if
# `JobRequeue=1`, which is the default. `#SBATCH --requeue` or `--no-requeue` decides for one job.
# `scontrol show config | grep -i -E 'preemptmode|jobrequeue'` shows what a real cluster does. At the time limit, the
# script itself can requeue its job. Four parts must work together:
#
# | part | what it does |
# |---|---|
# | Slurm | sends SIGTERM to all processes, and SIGKILL some seconds later (`KillWait`, `GraceTime`); with `--signal=TERM@120`, SIGTERM comes 120 s before the time limit |
# | the program | on SIGTERM, it finishes the step, saves and ends (`--exit-signal-handler`); the signal reaches ranks in different steps, so they vote in each step on whether it is the last |
# | the job script | always starts with `--load` from the folder into which it saves, which may be empty |
# | the log | `--open-mode=append`; otherwise the second start deletes the first log |
#
# **Predict.** A run of 30 steps is requeued twice in the middle. How many steps does it execute in total?

# %% id="requeue-guess"
### BEGIN SOLUTION
### GAP guess_steps = ...
guess_steps = 36
### END SOLUTION

# %% id="requeue-run"
steps = predict("16b: steps of a run that was requeued twice", guess_steps, unit="steps")
habits = {"iterations": 30, "save": True, "save_interval": 1000, "exit_signal_handler": True}
undisturbed = lab.submit(fault.recipe("undisturbed", **habits)).require()
thrown = lab.submit(
    fault.recipe(
        "thrown-out",
        load="{run}/checkpoints",
        directives={"open-mode": "append"},
        **habits,
    ),
    again=True,
)


# %% id="requeue"
def wait_for_step(run, step, longest_s=240):
    end_s = time.monotonic() + longest_s
    while f"iteration {step:8d}/" not in run.text and time.monotonic() < end_s and not run.ended:
        time.sleep(0.1)


wait_for_step(thrown, 6)
# !scontrol requeue {thrown.job_id}
wait_for_step(thrown, 16)
# !scontrol requeue {thrown.job_id}
thrown.require()

# %% id="requeue-see"
lives = thrown.log.iterations
steps.compare(len(lives))
both = undisturbed.log.iterations.merge(lives, on="iteration", suffixes=("", "_thrown"))
differ = (both["lm_loss"] - both["lm_loss_thrown"]).abs().max()
print(f"loaded {thrown.text.count('successfully loaded')} times; the losses differ by {differ:g}")
show.loss(undisturbed, thrown)

# %% id="requeue-claim" tags=["claim"]
claim("steps executed in all starts together", len(lives), least=30, most=30, unit="steps")
claim(
    "starts that continued from a checkpoint",
    thrown.text.count("successfully loaded"),
    least=2,
    most=2,
)
claim("largest difference from the undisturbed run", differ, most=0, unit="nats")

# %% [markdown] id="requeue-explain"
# **Explain.** The run executes 30 steps. No step is lost and none is repeated, because each start ended with a
# checkpoint. A checkpoint contains *everything* that the next step depends on: the weights, Adam's two moments and
# step count, the loss scale, and the number of consumed samples. The order of the samples and the random numbers
# follow from this number (lesson 03).
#
# If a checkpoint lacks one of these parts, the run continues, but it becomes a different run. Here the losses are
# equal to the last digit. Test your own program in the same way: *stop, continue, compare bit for bit*. A requeued job
# waits before it starts again, two minutes on a real Slurm and two seconds on the box.

# %% [markdown] id="resume-idea"
# ## How does your own program continue?
#
# You write what `--exit-signal-handler` does. SIGTERM may arrive in the middle of a step, when some gradients are
# summed and others are not. So a **signal handler** only notes that the signal came, and the program saves after the
# step. If one rank stops alone, the others wait in their next all-reduce. So all ranks must agree after each step
# whether to stop.
#
# The model below has dropout, and each rank drops different numbers. The state of the random number generator must
# be saved too. `torch.get_rng_state()` returns it, and `torch.set_rng_state(…)` restores it.
#
# > **Exercise 16b.1** — Complete `train`, so that it survives SIGTERM. It saves in `folder` and continues from there.
# > The trial trains on 1, 2, 3 and 4 ranks. It sends SIGTERM to one rank at two different steps, and starts the
# > program again each time. All losses must be equal to an undisturbed run, to the last bit.

# %% id="resume-own" tags=["exercise"]
# %%writefile "{lab.work}/my_training.py"
import signal
from pathlib import Path

import torch
import torch.distributed as dist


def train(folder, batch, steps, log):
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    layers = torch.nn.Linear(6, 16), torch.nn.Dropout(0.2), torch.nn.Tanh(), torch.nn.Linear(16, 1)
    model = torch.nn.Sequential(*layers).double()
    adam = torch.optim.Adam(model.parameters(), lr=0.05)
    torch.manual_seed(rank)  # each rank drops other numbers
    ### BEGIN SOLUTION
    ### GAP first = 0
    ### GAP ...  # a handler for SIGTERM; and if an earlier start has saved, all that it had
    came = []
    signal.signal(signal.SIGTERM, lambda number, frame: came.append(number))
    file = Path(folder) / f"rank{rank}.pt"
    first = 0
    if file.exists():
        saved = torch.load(file)
        first = saved["finished"]
        model.load_state_dict(saved["model"])
        adam.load_state_dict(saved["adam"])
        torch.set_rng_state(saved["random"])
    ### END SOLUTION
    for step in range(first, steps):
        x, y = batch(step)
        loss = torch.nn.functional.mse_loss(model(x), y)
        log(step, loss.item())
        adam.zero_grad()
        loss.backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
            parameter.grad /= size
        adam.step()
        ### BEGIN SOLUTION
        ### GAP ...  # if any rank got the signal: save, and end
        votes = torch.tensor(len(came))
        dist.all_reduce(votes)
        if votes > 0:
            state = {"finished": step + 1, "random": torch.get_rng_state()}
            state |= {"model": model.state_dict(), "adam": adam.state_dict()}
            unfinished = file.with_suffix(".unfinished")
            torch.save(state, unfinished)
            unfinished.replace(file)
            return
        ### END SOLUTION


# %% id="resume-trial" tags=["exercise"]
resume_trial = lab.submit(trial.recipe("resume-trial", "work/my_training.py", "resume"))
resume_trial.watch()

# %% id="resume-check" tags=["check"]
check.ex16b_resume(resume_trial)

# %% [markdown] id="resume-why" tags=["solution"]
# Without the random state, the first loss of a start differs. Without Adam's state, the first loss is right and the
# second loss differs. Without the vote, the run hangs. The next section explains the rename at the end.

# %% [markdown] id="disk-idea"
# ## What is left if a node fails while it saves?
#
# A node that fails sends no signal, and it may fail while it saves. What does the folder contain then, and what does
# it contain if the disk is full?

# %% id="disk"
full = lab.submit(fault.recipe("disk-full", "disk-full", iteration=6))
full.wait()
killed = lab.submit(fault.recipe("killed-saving", "killed-saving", iteration=6))
killed.wait()
for run in (full, killed):
    print(f"{run.name}: {run.cause.title}; in its folder:")
    print(*sorted(f"    {path.name}" for path in (run.folder / "checkpoints").glob("*")), sep="\n")

# %% [markdown] id="disk-explain"
# **Explain.** A folder with a final name contains a complete checkpoint. The program writes a checkpoint into a
# folder called *unfinished*, and adds a checksum of each file at the end. **One rename** then gives the folder its
# final name. The tracker file names the newest checkpoint and is replaced in the same way.
#
# The run with the full disk continued, but it ended with an error, because its last checkpoint is missing. A
# lock on `saving.lock` prevents two programs from saving in one folder at the same time. The operating system releases
# the lock when its program ends, even if the program is killed.
#
# A rename does not protect a checkpoint *afterwards*. In the next run, a file of the newest checkpoint loses its
# second half:

# %% id="damaged"
damaged = lab.submit(fault.recipe("damaged", "damaged", iteration=9))
damaged.wait()
onwards = lab.submit(
    fault.recipe("onwards", load=str(damaged.folder / "checkpoints"), iterations=12), again=True
).require()
print(
    *[line for line in onwards.text.splitlines() if "WARNING" in line or "loaded" in line], sep="\n"
)

# %% id="damaged-claim" tags=["claim"]
first = int(onwards.log.iterations["iteration"].iloc[0])
claim("first step after a damaged checkpoint of step 9", first, least=7, most=7)

# %% [markdown] id="damaged-explain"
# **Explain.** The program skips the damaged checkpoint with a warning and loads the last good checkpoint. So keep
# more than one. If all are damaged, the run ends, because a start with random weights would look like a run that
# continues.

# %% [markdown] id="interval-idea"
# ## How often should you save?
#
# If you save often, you lose time to saving. If you save rarely, you lose time to repeating steps after a failure.
# Let a checkpoint take `C` seconds, and let a failure come every `M` seconds on average. An interval of `T` seconds
# then loses about
#
# > $C / T$ of the time to saving and $T / 2M$ to repeating. The sum is smallest at $T = \sqrt{2 C M}$ ([Young
# > 1974](https://doi.org/10.1145/361147.361115)).
#
# [Daly (2006)](https://doi.org/10.1016/j.future.2004.11.016) adds higher orders and the restart time `R`. His formula
# is `plan.checkpoint_interval(C, M)`.
#
# In the next jobs, nodes fail at random times. The script starts the program again until it has finished, which is
# all that an "auto-resume" needs. One job has only a handful of failures, so you run three jobs, each with its own
# random times:

# %% id="interval-script"
recipes = [
    fault.restarts(
        f"restarts-{seed}", mean_s=4, seed=seed, iterations=80, save_interval=10,
        programs=lab.site.programs,
    )
    for seed in (823, 824, 825)
]  # fmt: skip
print(*str(lab.script(recipes[0])).splitlines()[-14:], sep="\n")

# %% [markdown] id="interval-predict"
# A checkpoint is due every 10 steps, which is about a second here. A node fails after about 4 seconds on average. Then
# Python and torch start again, the ranks meet, and the program loads the checkpoint. On the box this takes about a
# second.
#
# **Predict.** What percentage of the total time goes into steps that are kept?

# %% id="interval-guess"
### BEGIN SOLUTION
### GAP guess_kept = ...  # in percent
guess_kept = 60
### END SOLUTION

# %% id="interval-run"
kept = predict("16b: kept work if a node fails every 4 s", guess_kept, unit="%")
submitted = [lab.submit(recipe) for recipe in recipes]
restarts = [run.require() for run in submitted]
jobs = pd.DataFrame([read.attempts(run.log_file) for run in restarts])
went = jobs.sum()
useful = went["useful_s"] / went["total_s"]
kept.compare(100 * useful)
parts = {
    "kept steps": went["useful_s"],
    "repeated steps": went["repeated_s"],
    "saving": went["saving_s"],
    "starting": went["starting_s"],
}
parts["noticing, ending and the rest"] = went["total_s"] - sum(parts.values())
print("{count:.0f} starts, {iterations:.0f} steps kept, {repeated:.0f} repeated".format(**went))
lost = dict(list(parts.items())[1:])
print(f"the largest loss: {max(lost, key=lost.get)}")
pd.Series(parts, name="seconds").round(1).to_frame()

# %% [markdown] id="interval-curve-idea"
# With the measured times, the formula gives the expected percentage for this interval and for all others:

# %% id="interval-see"
died = max(1, went["count"] - len(jobs))
restarting_s = went["starting_s"] + parts["noticing, ending and the rest"]
failures = plan.Failures(
    node_mtbf_hours=(went["total_s"] - restarting_s) / died / 3600,
    checkpoint_s=went["saving_s"] / (went["iterations"] / 10),
    restart_s=restarting_s / died,
)
interval_s = 10 * went["useful_s"] / went["iterations"]
expected = plan.goodput(1, failures, interval_s).useful
show.goodput_curve(1, failures, {interval_s: list(jobs["useful_s"] / jobs["total_s"])})

# %% id="interval-claim" tags=["claim"]
claim("steps that each job kept", jobs["iterations"].min(), least=80, most=80, unit="steps")
claim("nodes that failed in all jobs", died, least=4, most=33)
claim("time for restarts, compared with saving", restarting_s / went["saving_s"],
      least=1.2, unit="times")  # fmt: skip
claim("kept work of all jobs differs from the expected percentage by",
      100 * abs(useful - expected), most=12, unit="points")  # fmt: skip

# %% [markdown] id="interval-explain"
# *The curve shows kept work against the interval, for the times that you have just measured. Each dot is one job.*
#
# **Explain.** Save about every $\sqrt{2 C M}$ seconds. The top of the curve is **flat**, so half or twice the best
# interval costs only a few percentage points.
#
# Most guesses leave out the restart. The job must notice the failure, end all processes, start Python and torch on
# every node, meet, and load. On a large machine this takes minutes, and no interval shortens it.
#
# The curve is the mean of many jobs. Each job had only a handful of failures, so chance moves its dot by several
# points.

# %% [markdown] id="scale-idea"
# ## How often does a large job fail?
#
# Published runs report the failure rate of one node:

# %% id="scale"
RUNS = ("llama-405b", "opt-175b", "bloom-176b")
for name in RUNS:
    rate = plan.failures_of(name)
    print(f"{rate.source}: a node fails every {rate.node_mtbf_hours:,.0f} hours")
failures = plan.failures_of("llama-405b", checkpoint_s=60, restart_s=600)
table = plan.goodputs([16, 256, 4096, 16_384], failures)
table.columns = [name.replace("_percent", " (%)").replace("_", " ") for name in table]
table.style.hide(axis="index").format(precision=1)

# %% [markdown] id="scale-explain"
# **Explain.** One node fails once in several thousand hours, at any scale. With 2 nodes, four months pass between two
# failures of the job. With 2048 nodes, three hours pass. The table assumes 60 s to save and ten minutes to restart.
# The authors of the first run report more than 90 % training time, so their times must have been shorter.
#
# ## Can training continue during a save?
#
# With an **asynchronous** checkpoint, training waits only while the state is copied into the memory of the host. A
# thread writes this copy to the disk while training continues. Megatron-LM has the flag `--async-save`, and in your
# own program `torch.distributed.checkpoint.async_save` does the same.
#
# **Predict.** Two runs of 30 steps save every fifth step, and one of them saves asynchronously. Copying to memory is
# much faster than writing files with checksums. What percentage of the waiting is left?

# %% id="behind-guess"
### BEGIN SOLUTION
### GAP guess_left = ...  # in percent
guess_left = 5
### END SOLUTION

# %% id="behind-run"
left = predict("16b: waiting that is left with asynchronous saving", guess_left, unit="%")
often = {"iterations": 30, "save": True, "save_interval": 5, "diary": False}
submitted = (
    lab.submit(fault.recipe("standing", **often)),
    lab.submit(fault.recipe("behind", async_save=True, **often)),
)
standing, behind = (run.require() for run in submitted)


# %% id="behind"
def times(run):
    """The time between two steps, after a step that saved and after others."""
    lines = run.log.iterations
    between_ms = 1e3 * lines["timestamp"].diff().dt.total_seconds() - lines["elapsed_ms"]
    after_a_save = lines["iteration"] % 5 == 1
    waits = between_ms[after_a_save].median() - between_ms[~after_a_save].median()
    took_ms = lines["elapsed_ms"]
    return {"waits at a checkpoint (ms)": waits,
            "the step after it (ms)": took_ms[after_a_save].median(),
            "other steps (ms)": took_ms[~after_a_save].median()}  # fmt: skip


took = pd.DataFrame({run.name: times(run) for run in (standing, behind)}).T
waits = took["waits at a checkpoint (ms)"]
share = waits["behind"] / waits["standing"]
left.compare(100 * share)
took.round(1)

# %% id="behind-claim" tags=["claim"]
differ = (standing.log.iterations["lm_loss"] - behind.log.iterations["lm_loss"]).abs().max()
claim("waiting that is left with asynchronous saving", 100 * share,
      least=8 if lab.site.box else 0, most=70, unit="%")  # fmt: skip
claim("largest difference between the losses of the two runs", differ, most=0, unit="nats")

# %% [markdown] id="behind-explain"
# **Explain.** Training still waits for the copy, which needs additional host memory. In the course's program, ranks
# with shards also gather them first. The writing uses CPUs and links that training may need too, so the step after a
# checkpoint may become longer. The folder is called *unfinished* until all ranks have finished writing. The next save
# and the end of the run wait for the writing.
#
# If a failure comes during the writing, the run returns to the previous checkpoint. The next cell computes the gain
# for 2048 nodes, if copying takes 3 s and writing takes 60 s:

# %% id="async"
rows = {
    "synchronous": plan.goodput(2048, failures),
    "asynchronous": plan.goodput(2048, failures.but(checkpoint_s=3, written_behind_s=60)),
}
pd.DataFrame({name: {"interval (min)": found.interval_s / 60, "kept (%)": 100 * found.useful,
                     "saving (%)": 100 * found.saving, "repeating (%)": 100 * found.repeating}
              for name, found in rows.items()}).T.round(1)  # fmt: skip

# %% id="async-claim" tags=["claim"]
gain = 100 * (rows["asynchronous"].useful - rows["synchronous"].useful)
claim("asynchronous saving keeps more work, by", gain, least=1, most=10, unit="points")

# %% [markdown] id="async-explain"
# **Explain.** With asynchronous saving, training waits less, so you can save more often and repeat less. But you
# cannot save more often than a checkpoint takes to write. The formula does not contain this limit, but here 60 s are
# shorter than its interval.
#
# Most of the remaining loss is the restart. Large runs shorten it with spare nodes, with processes that stay alive,
# and with checkpoints in the memory of a neighbour node.

# %% [markdown] id="ex2" tags=["exercise"]
# ## Exercises
#
# > **Exercise 16b.2** — Write a simulator of failures, and find the best interval with it. All times are in seconds.
# > Each start of a job *lives* until a node fails, and `lives` has one number for each start. A life begins with
# > `start_s` seconds for the start. Then the job works and saves in turn: it saves after each `interval_s` of work,
# > and a save takes `save_s`. The last piece of work may be shorter, and it is saved too. If the life ends before a
# > save is complete, all work since the last complete save is lost. The next start continues from that save.
# >
# > `time_needed` returns the time until all of `work_s` is saved, or `math.inf` if the lives end before.
# > `best_interval` returns the interval that needs the least time. Try twenty to fifty intervals.
# >
# > The check draws 2000 lives of two clusters for you. In the first, nodes fail at random. In the second, a repaired
# > node often fails again soon after the start. Young's formula uses only the mean of the lives. Is it right for
# > both?

# %% id="ex2-gap" tags=["exercise"]
import math


def time_needed(work_s, interval_s, save_s, start_s, lives):
    ### BEGIN SOLUTION
    ### GAP ...
    passed_s = saved_s = 0
    for life_s in lives:
        left_s = life_s - start_s  # below 0 if the start itself fails
        while True:
            piece_s = min(interval_s, work_s - saved_s)
            if left_s < piece_s + save_s:
                break  # what was not saved is lost, but its time has passed
            left_s -= piece_s + save_s
            saved_s += piece_s
            if saved_s >= work_s:
                return passed_s + life_s - left_s
        passed_s += life_s
    return math.inf
    ### END SOLUTION


def best_interval(work_s, save_s, start_s, lives):
    ### BEGIN SOLUTION
    ### GAP ...
    young_s = math.sqrt(2 * save_s * sum(lives) / len(lives))
    intervals_s = [young_s * 1.15**power for power in range(-12, 16)]
    return min(
        intervals_s,
        key=lambda interval_s: time_needed(work_s, interval_s, save_s, start_s, lives),
    )
    ### END SOLUTION


# %% id="ex2-check" tags=["check"]
check.ex16b_interval(time_needed, best_interval)

# %% [markdown] id="ex2-why" tags=["solution"]
# The formulas assume that a failure is equally likely at any time. Then Young's interval is about the best, and the
# restart does not matter for it. In the second cluster most lives end within minutes. They lower the mean, but they
# do hardly any work, so saving more often does not help them. The work happens in the few long lives, and the best
# interval suits these long lives. A simulator with the lives of your own cluster needs no assumption.

# %% [markdown] id="home"
# ## To take home
#
# - A script that loads from the folder into which it saves, and a program that saves on SIGTERM, survive preemption,
#   maintenance and time limits.
# - Stop, continue, compare bit for bit: if the losses differ, the checkpoint lacks something.
# - A checkpoint counts only when it has its final name. Check its bytes before you load it, and keep more than one.
# - The best interval is about $\sqrt{2 C M}$, and the curve is flat near it. After that, shorten the restart.
# - The failure rate of a node does not change with scale, but the failure rate of a job does.
#
# **References.** Young 1974: [doi 10.1145/361147.361115](https://doi.org/10.1145/361147.361115). Daly 2006: [doi
# 10.1016/j.future.2004.11.016](https://doi.org/10.1016/j.future.2004.11.016). Failures of Llama 3, OPT-175B and
# BLOOM: arXiv [2407.21783](https://arxiv.org/abs/2407.21783), [2205.01068](https://arxiv.org/abs/2205.01068) and
# [2211.05100](https://arxiv.org/abs/2211.05100).

# %% [markdown] id="clean-idea"
# ## Cleaning up

# %% id="clean"
lab.clean(
    *("undisturbed", "thrown-out", "disk-full", "killed-saving", "damaged", "onwards"),
    *(run.name for run in (*restarts, standing, behind)),
    yes=True,
)
