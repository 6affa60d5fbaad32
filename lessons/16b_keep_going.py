# %% [markdown] id="title"
# # 16b Keep going
#
# Lesson 16 was about finding out why a run has ended. A run of weeks ends so often that somebody has to start it
# again at three in the morning, unless it does so by itself, and loses little. In this lesson a job is thrown out of
# its nodes and comes back without anybody; a disk fills up and nothing is lost; and you work out how often to save,
# from a rate of failure and two times that you measure.
#
# | | |
# |---|---|
# | You will be able to | write a job that survives preemption and dead nodes; know which checkpoint is good; choose the interval between checkpoints; say what share of a machine's time becomes work |
# | Minutes | 45 |
# | Devices | 2 nodes with 2 devices each |
# | Before | lessons 03 and 16 |

# %% id="begin"
import time

import pandas as pd

from course_lib import Lab, check, claim, fault, plan, predict, read, show

lab = Lab()

# %% [markdown] id="requeue-idea"
# ## Thrown out, and back
#
# A job of higher priority comes, and Slurm takes your nodes back: your job is **preempted** and, if its owner did not
# refuse, **requeued**. The same happens when a node dies, when the cluster is serviced, and when the time limit
# comes, if the script asks for it. What it takes:
#
# | who | does what |
# |---|---|
# | Slurm | sends SIGTERM to all processes, and SIGKILL some seconds later (`KillWait`, `GraceTime`; `--signal=TERM@120` asks for an earlier warning before the time limit) |
# | the program | on SIGTERM, finishes the step, saves, ends (`--exit-signal-handler`). All ranks must agree on *which* step is the last, so they vote in each one: a signal arrives at different steps on different ranks |
# | the job script | always starts with `--load` from the folder into which it saves, which may be empty |
# | the log | `--open-mode=append`, or the second life erases the words of the first |
#
# **Predict.** A run of 30 steps is requeued twice in the middle. Steps that are made in all its lives together?

# %% id="requeue-guess"
### BEGIN SOLUTION
### GAP guess_steps = ...
guess_steps = 36
### END SOLUTION

# %% id="requeue-run"
steps = predict("16b: steps of a run that was requeued twice", guess_steps, unit="steps")
habits = {"iterations": 30, "save": True, "save_interval": 1000, "exit_signal_handler": True}
undisturbed = lab.submit(fault.recipe("undisturbed", **habits))
undisturbed.require()
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
print(f"{thrown.text.count('successfully loaded')} times loaded; losses differ by {differ:g}")
show.loss(undisturbed, thrown)

# %% id="requeue-claim" tags=["claim"]
claim("steps made in all lives", len(lives), least=30, most=30, unit="steps")
claim("times that it went on", thrown.text.count("successfully loaded"), least=2, most=2)
claim("largest difference from the undisturbed run", differ, most=0, unit="nats")

# %% [markdown] id="requeue-explain"
# **Explain.** No step is lost, and none is made twice: the last act of each life was a checkpoint. The losses are
# equal to the last digit, because a checkpoint holds *everything* that the next step depends on: weights, Adam's two
# moments and its step count, the loss scale, and how many samples were consumed, from which order and random numbers
# follow (lesson 03). Forget one of them, and the run goes on and is another one. That is a test worth having: *stop,
# continue, compare bit for bit*. (A requeued job waits a while before it starts again: two minutes on a real Slurm,
# five seconds on the box.)

# %% [markdown] id="disk-idea"
# ## Half a checkpoint
#
# A node that dies sends no signal first, and it may die while saving. What lies in the folder then? And what if the
# disk is full?

# %% id="disk"
full = lab.submit(fault.recipe("disk-full", "disk-full", iteration=6))
full.wait()
killed = lab.submit(fault.recipe("killed-saving", "killed-saving", iteration=6))
killed.wait()
for run in (full, killed):
    print(f"{run.name}: {run.failure.title}; in its folder:")
    print(*sorted(f"    {path.name}" for path in (run.folder / "checkpoints").iterdir()), sep="\n")

# %% [markdown] id="disk-explain"
# A checkpoint is written into a folder that is called *unfinished*, with a checksum of each file at the end, and gets
# its name by **one rename**: so a name that is there stands for a whole checkpoint. The tracker file names the
# newest, and is replaced in the same way. The run whose disk was full went on, and told at its end that its last
# checkpoint is not there: ending with success would have been a lie. (`saving.lock` was left by the program that was killed: it
# keeps two programs from saving in one place at once.)
#
# A rename does not help against what happens *afterwards*. In the next run a file of the newest checkpoint loses its
# second half:

# %% id="damaged"
damaged = lab.submit(fault.recipe("damaged", "damaged", iteration=9))
damaged.wait()
onwards = lab.submit(
    fault.recipe("onwards", load=str(damaged.folder / "checkpoints"), iterations=12), again=True
)
onwards.require()
print(
    *[line for line in onwards.text.splitlines() if "WARNING" in line or "loaded" in line], sep="\n"
)

# %% id="damaged-claim" tags=["claim"]
first = int(onwards.log.iterations["iteration"].iloc[0])
claim("first step after a damaged checkpoint of step 9", first, least=7, most=7)

# %% [markdown] id="damaged-explain"
# The damaged one is passed over, with a warning, and the last good one is taken: so keep more than one. (If none were
# whole, the run would end. To begin anew with random weights would look like a run that goes on.)

# %% [markdown] id="interval-idea"
# ## How often to save?
#
# While a checkpoint is written, training stands still. What was done since the last one is done again after a
# failure. Save often, and you pay for saving; save seldom, and you pay for repeating. With `C` seconds for a
# checkpoint and a failure every `M` seconds, an interval of `T` loses about
#
# > $C / T$ of the time to saving, and $T / 2M$ to repeating: least at $T = \sqrt{2 C M}$ (Young 1974).
#
# Daly (2006) has the next orders, and the restart `R`. `plan.checkpoint_interval(C, M)` is his formula.
#
# Measure it. A job whose nodes die at random moments, on average every 6 seconds, and whose script starts the
# program again until it is through. This is all that an "auto-resume" is:

# %% id="interval-script"
recipe = fault.restarts(
    "restarts", mean_s=6, seed=823, iterations=80, save_interval=10, programs=lab.site.programs
)
print(*str(lab.script(recipe)).splitlines()[-14:], sep="\n")

# %% [markdown] id="interval-predict"
# **Predict.** Of the time from the first start to the end, which share is steps that were kept?

# %% id="interval-guess"
### BEGIN SOLUTION
### GAP guess_kept = ...  # in percent
guess_kept = 70
### END SOLUTION

# %% id="interval-run"
kept = predict("16b: kept work where a node dies every 6 s", guess_kept, unit="%")
restarts = lab.submit(recipe)
restarts.wait()
went = read.attempts(restarts.log_file)
kept.compare(100 * went.useful)
parts = {
    "kept steps": went.useful_s,
    "repeated steps": went.repeated_s,
    "saving": went.saving_s,
    "starting": went.starting_s,
}
parts["noticing, ending, and the rest"] = went.total_s - sum(parts.values())
print(f"{went.count} attempts, {went.iterations} steps, {went.repeated} of them again")
lost = dict(list(parts.items())[1:])
print(f"the largest loss: {max(lost, key=lost.get)}")
pd.Series(parts, name="seconds").round(1).to_frame()

# %% [markdown] id="interval-curve-idea"
# With these times the formula can say what it would have expected, for this interval and for all others:

# %% id="interval-see"
died = max(1, went.count - 1)
restarting_s = went.starting_s + parts["noticing, ending, and the rest"]
failures = plan.Failures(
    node_mtbf_hours=(went.total_s - restarting_s) / died / 3600,
    checkpoint_s=went.saving_s / (went.iterations // 10),
    restart_s=restarting_s / died,
)
interval_s = 10 * went.useful_s / went.iterations
expected = plan.goodput(1, failures, interval_s).useful
show.goodput_curve(1, failures, {interval_s: [went.useful]})

# %% id="interval-claim" tags=["claim"]
claim("the job came to its end", int(went.finished), least=1)
claim("nodes that died", went.count - 1, least=2, most=11)
claim("kept work is what the formula expects, up to",
      100 * abs(went.useful - expected), most=20, unit="points")  # fmt: skip

# %% [markdown] id="interval-explain"
# *The curve: kept work by the interval, for the times that you have just measured. The dot: your run.*
#
# **Explain.** Most guesses forget the restart: to notice, to end all processes, to start Python and torch on every
# node, to meet, to load. On a large machine it takes minutes, and no interval helps against it. And see how **flat**
# the top is: twice or half the best interval costs a few points. So nobody needs the formula to three digits, but
# everybody should know on which side of it they are.
#
# A handful of failures is a throw of dice. These come sooner than every six seconds, so the curve takes the rate that was
# measured; what the formula says is the mean of many such runs.

# %% [markdown] id="scale-idea"
# ## 16 devices, and 16 000
#
# One node fails every few thousand hours. Published runs say how many:

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
# **Explain.** The same nodes: with two of them four months pass between failures, and nobody needs this lesson.
# With 2048 it is three hours. (These assume 60 s to save and ten minutes to restart; the authors of the first run
# report that more than 90 % of its time was training, so theirs must have been shorter.)
#
# ## Writing behind
#
# **Asynchronous** checkpoints change the first term. Training stands still only while the state is copied to the
# memory of the host; a thread writes it, while training goes on. `--async-save` is Megatron-LM's flag, and
# `torch.distributed.checkpoint.async_save` does the same in a program of your own.
#
# **Predict.** Two runs of 30 steps save every fifth step, one of them behind. Of the time for which training stands
# still at a checkpoint, how much is left?

# %% id="behind-guess"
### BEGIN SOLUTION
### GAP guess_left = ...  # in percent
guess_left = 5
### END SOLUTION

# %% id="behind-run"
left = predict("16b: what is left of standing still", guess_left, unit="%")
often = {"iterations": 30, "save": True, "save_interval": 5, "diary": False}
standing = lab.submit(fault.recipe("standing", **often))
behind = lab.submit(fault.recipe("behind", async_save=True, **often))
standing.require()
behind.require()


# %% id="behind"
def times(run):
    """What passes between two lines, without the step: after a step that saved, and after others."""
    lines = run.log.iterations
    between_ms = 1e3 * lines["timestamp"].diff().dt.total_seconds() - lines["elapsed_ms"]
    after_a_save = lines["iteration"] % 5 == 1
    stands = between_ms[after_a_save].median() - between_ms[~after_a_save].median()
    took_ms = lines["elapsed_ms"]
    return {"stands still at a checkpoint (ms)": stands,
            "the step after it (ms)": took_ms[after_a_save].median(),
            "other steps (ms)": took_ms[~after_a_save].median()}  # fmt: skip


took = pd.DataFrame({run.name: times(run) for run in (standing, behind)}).T
stands = took["stands still at a checkpoint (ms)"]
share = stands["behind"] / stands["standing"]
left.compare(100 * share)
took.round(1)

# %% id="behind-claim" tags=["claim"]
differ = (standing.log.iterations["lm_loss"] - behind.log.iterations["lm_loss"]).abs().max()
claim("what is left of standing still", 100 * share, most=70, unit="%")
claim("largest difference between the losses of both", differ, most=0, unit="nats")

# %% [markdown] id="behind-explain"
# **Explain.** What is left is the copy, and on ranks that hold shards, bringing them together. It is not nothing, and
# it needs room for a second copy in the host's memory. The rest is done while training goes on, by processors and links
# that training may want too: see whether the step after it has grown. Nothing else may change: the folder is called
# *unfinished* until all ranks are through, a save waits for the one before, and so does the end of the run.
#
# A failure meanwhile falls back to the checkpoint before. What that means for 2048 nodes, where copying takes 3 s and
# writing 60 s:

# %% id="async"
rows = {
    "standing still": plan.goodput(2048, failures),
    "written behind": plan.goodput(2048, failures.but(checkpoint_s=3, written_behind_s=60)),
}
pd.DataFrame({name: {"interval (min)": found.interval_s / 60, "kept (%)": 100 * found.useful,
                     "saving (%)": 100 * found.saving, "repeating (%)": 100 * found.repeating}
              for name, found in rows.items()}).T.round(1)  # fmt: skip

# %% id="async-claim" tags=["claim"]
gain = 100 * (rows["written behind"].useful - rows["standing still"].useful)
claim("writing behind keeps more by", gain, least=1, most=10, unit="points")

# %% [markdown] id="async-explain"
# It pays twice: little time stands still, and so one saves more often, and repeats less. (Not more often than a
# checkpoint takes to write: the formula does not know that, and 60 s are less than its interval here.) What is left is
# the restart. Large runs attack that next: spare nodes that wait, processes that stay, checkpoints in the memory of a
# neighbour.

# %% [markdown] id="ex1" tags=["exercise"]
# ## Exercises
#
# > **Exercise 16b.1** — The run of 405 B on 16 384 devices (2048 nodes), with checkpoints of 40 s: how many minutes
# > of training should lie between two of them?

# %% id="ex1-gap" tags=["exercise"]
### BEGIN SOLUTION
### GAP minutes = ...
minutes = plan.checkpoint_interval(40, plan.failures_of("llama-405b").mtbf_s(2048)) / 60
### END SOLUTION

# %% id="ex1-check" tags=["check"]
check.ex16b_interval(minutes)

# %% [markdown] id="ex2" tags=["exercise"]
# > **Exercise 16b.2** — The same run, with 600 s for a restart. Somebody saves only half as often as is best. How
# > many percentage points of kept work does that cost (`plan.goodput(nodes, failures, interval_s).useful`)? Is the
# > curve `"flat"` or `"sharp"` near its best?

# %% id="ex2-gap" tags=["exercise"]
### BEGIN SOLUTION
### GAP costs_percent, chosen = ..., ...
rate = plan.failures_of("llama-405b", checkpoint_s=40, restart_s=600)
best = plan.goodput(2048, rate)
costs_percent = 100 * (best.useful - plan.goodput(2048, rate, 2 * best.interval_s).useful)
chosen = "flat"
### END SOLUTION

# %% id="ex2-check" tags=["check"]
check.ex16b_half(costs_percent, chosen)

# %% [markdown] id="ex2-why" tags=["solution"]
# Less than two points, for half the traffic to the disk. Where a file system is shared by a thousand users, that may
# be a good bargain.

# %% [markdown] id="home"
# ## To take home
#
# - A job script that always loads from where it saves, and a program that saves on SIGTERM, survive preemption,
#   service and time limits by themselves.
# - Stop, continue, compare bit for bit: if the losses differ, the checkpoint lacks something.
# - A checkpoint is there when its name is; check its bytes before you trust it; keep more than one.
# - $\sqrt{2 C M}$, and a flat bottom. After that, shorten the restart.
# - Failures per node do not change with scale. Failures per job do.

# %% [markdown] id="clean-idea"
# ## Cleaning up

# %% id="clean"
lab.clean(
    *("undisturbed", "thrown-out", "disk-full", "killed-saving", "damaged", "onwards", "restarts"),
    *("standing", "behind"),
    yes=True,
)
