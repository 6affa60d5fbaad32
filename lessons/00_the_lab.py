# %% [markdown] id="title"
# # 00 The lab
#
# A cluster is many machines behind one queue. Nobody logs in to the machine that will do the work.
# You write down what you want and hand it in; some time later it runs, and what it printed lies in a
# file. This lesson is the first half hour with that way of working.
#
# | | |
# |---|---|
# | You will be able to | look at a cluster, submit a job, follow it through the queue, read its log, cancel it, and find out why it failed |
# | Minutes | 30 |
# | Devices | 2 nodes with 2 devices each: those of your cluster, or those that the course brings |
# | Before | you have trained a model on one device; you need not have seen a cluster |
#
# The grey fields are cells of Python: **Shift+Enter** runs the one that you are in and goes to the next.
# Run them from top to bottom. Lines that begin with `!` are commands of the shell. Everything that they do
# you can also type into a terminal (*File → New → Terminal*).

# %% id="begin"
from course_lib import Lab, check, claim, links, predict, progress, share_progress, shell, show

lab = Lab()
lab

# %% [markdown] id="where"
# The line above says where you are. If your machine has the commands of Slurm, the queue of most large computers,
# the course speaks to that. If not, it brings **the box**: two small nodes inside this very machine, each with a
# network of its own, and commands with the same names that answer in the same way. (Where a machine allows no separate
# networks, both nodes share its one: *flat mode*, and `sinfo` says so.)

# %% [markdown] id="share-idea"
# In a class, your instructors may want to see who is stuck. Nothing is shared unless you agree: with `True` in the
# brackets they, and nobody else, see in which lesson you are, which exercises you have solved after how many tries,
# which hint you met most, and when you last ran a cell. `False` takes it back.

# %% id="share"
share_progress()


# %% [markdown] id="sinfo-idea"
# ## What is there?
#
# `sinfo` lists the nodes by *partition*, that is, by the queue that they belong to.

# %% id="sinfo"
# !sinfo

# %% [markdown] id="sinfo-explain"
# | column | says |
# |---|---|
# | `PARTITION` | the name of a queue; the one with a `*` is used if you name none |
# | `AVAIL` | `up`: it takes jobs and starts them |
# | `TIMELIMIT` | how long one job may run there, `days-hours:minutes:seconds` |
# | `NODES`, `NODELIST` | how many machines, and which; `node[1-2]` is short for `node1,node2` |
# | `STATE` | `idle`: nobody uses it; `alloc`: all of it is taken; `mix`: a part is; `down`, `drain`: out of service |
#
# A node is one machine. What is in it? `scontrol show node` tells everything about each; a table of
# what matters here is another view of `sinfo`:

# %% id="nodes"
# !sinfo --Node --format="%N %c %m %G %t" | column -t

# %% [markdown] id="nodes-explain"
# The columns are the node's name, its processors (`CPUS`), its memory in MiB, its *generic resources*
# (`GRES`), which is where Slurm keeps count of GPUs, and its state.
#
# In this course a GPU, or whatever stands in for one, is called a **device slot**. Where there is no
# GPU for each, a slot is one process on the processor with a fixed share of the memory. It is slow, but it runs
# out of memory, waits for its neighbours and talks over a network just as a GPU does. And it keeps its pace:

# %% id="pace"
pace = lab.device_pace
if pace > 1:
    print(f"a slot computes at 1/{pace:g} of the rate of a core, always, so that all of them fit")
else:
    print("a slot computes as fast as it can: its pace is 1")

# %% [markdown] id="pace-explain"
# On GPUs the pace is always 1. Where slots share a few cores, each would be faster while its neighbour waits, which
# no GPU is, and you would measure this machine instead of a cluster. So a slot of the box whose pace is more than 1
# sleeps until it has been as slow as it is meant to be. (`CPUS` and `MEMORY` in the table above are the box's own figures, not your machine's, so
# that scripts may ask for as much as elsewhere.) Its slots compute thousands of times slower than GPUs do, and its network
# is hundreds of times slower than theirs. Models and batches are small in proportion, so that *both* take time here, too.


# %% [markdown] id="first-idea"
# ## The first job
#
# A job is a shell script with a heading. The lines of the heading begin with `#SBATCH` and say what
# the job needs; the shell takes them for comments. The library writes such scripts for you, and
# `lab.script` shows you what it will hand in. A few lines in the middle are there for every job (lesson
# 03 reads them one by one); the two at the end are this job's own.

# %% id="first-script"
hello = shell.recipe(
    "hello",
    """
echo "the script runs on $(hostname)"
srun bash -c 'echo "task $SLURM_PROCID runs on $(hostname)"'
""",
    nodes=2,
    directives={"ntasks-per-node": 2},
)
lab.script(hello)

# %% [markdown] id="first-predict"
# **Predict.** The script asks for two nodes and two *tasks*, that is, processes, on each. It has two
# commands: a plain `echo`, and one that stands after `srun`. How many lines will the two print together?

# %% id="first-guess"
### BEGIN SOLUTION
### GAP guess_lines = ...  # your number in place of the dots
guess_lines = 6
### END SOLUTION

# %% id="first-run"
lines = predict("00: lines of a job with 2 × 2 tasks", guess_lines, unit="lines")
first = lab.submit(hello)
first.require()
print(first.text)

# %% id="first-see"
printed_lines = [line for line in first.require().text.splitlines() if " runs on " in line]
lines.compare(len(printed_lines))

# %% id="first-claim" tags=["claim"]
claim("the script runs once, and each task once", len(printed_lines), least=5, most=5, unit="lines")

# %% [markdown] id="first-explain"
# **Explain.** If you counted six, you thought that a job on two nodes runs its script on both. It does not. The *script*
# runs once, on the first node of the job; the others do nothing until the script starts something there. That is what
# `srun` does: it starts the command after it once per **task**, and tells each copy its number in `SLURM_PROCID`. Tasks
# print when they like, so their lines come in any order.
#
# | word | means |
# |---|---|
# | node | one machine with one network address |
# | task | one process that `srun` starts; later there will be one task per node, or one per device |
# | device slot | a GPU or its stand-in; a task may own several |
# | job | what you hand in: a script and what it needs |
# | step | one `srun` inside a job |


# %% [markdown] id="queue-idea"
# ## The queue
#
# What happens if the cluster is full? Now three jobs want two whole nodes each, at the same time: both
# devices of both, for some seconds of sleep. (A cluster with more nodes or devices may start them side
# by side; then the tables below show that.)

# %% id="queue-run"
sleepers = [
    lab.submit(shell.recipe(f"sleep{number}", "sleep 3", nodes=2, gpus_per_node=2))
    for number in (1, 2, 3)
]

# %% id="queue-look"
# !sleep 2; squeue --me

# %% [markdown] id="queue-explain"
# `ST` is the state: `R` runs, `PD` is pending. The last column says on which nodes a job runs, or, in
# brackets, why it does not run yet. `(Resources)`: it is the next in line and waits for nodes to become
# free. `(Priority)`: another job stands before it. `(None)`: Slurm has not looked at it yet. (If the
# table is empty you were slow, and they are done.)
#
# A later job may overtake: if it is small and its **time limit** says that it will be over before the next in line
# can start anyway, Slurm fills the gap with it (*backfill*). So an honest, short limit often gets you devices sooner.
#
# None of this needs you. Close the notebook, come back tomorrow: jobs belong to the queue, not to
# the window from which they came. (Only the box sleeps when your laptop does.)

# %% id="queue-wait"
for sleeper in sleepers:
    sleeper.wait()
lab.runs()

# %% [markdown] id="accounting"
# A job that is over disappears from `squeue`. Slurm's memory of it is asked with `sacct` (`-X`: one row for each job,
# none for its steps). Where one job fills the cluster, the second begins when the first is over.


# %% id="sacct"
ids = ",".join(str(sleeper.job_id) for sleeper in sleepers)
# !sacct -X -j {ids} --format=JobID,JobName,Submit,Start,Elapsed,State,ExitCode

# %% [markdown] id="cancel-idea"
# ## Taking it back
#
# You see that a job is wrong as soon as it runs, and it asked for an hour. Cancel it: the devices are
# free for the next in line, and nobody pays for the rest of the hour.

# %% id="cancel"
long_one = lab.submit(shell.recipe("too-long", "echo started; sleep 3500", time_limit_minutes=60))
# !sleep 1; squeue --me

# %% [markdown] id="detail-idea"
# `scontrol show job` tells everything that Slurm knows of one job while it is in the queue: what it asked for, where
# it runs, since when, until when at the latest, and where its log is.

# %% id="detail"
# !scontrol show job {long_one.job_id}

# %% id="cancel-do"
lab.cancel(long_one)
print(long_one.wait())
print(long_one.tail())

# %% [markdown] id="cancel-explain"
# `lab.cancel` called `scancel` with the job's number. Slurm sent every process of the job a signal, and a line in the
# log says so. (Was it still waiting? Then it never had a log.) A cancelled job has no result, so the same recipe is
# submitted anew the next time. `lab.cancel` knows the runs of this course and nothing
# else, so no other job of yours can be hit by it.


# %% [markdown] id="error-idea"
# ## An error on purpose
#
# Jobs fail far from your eyes. What remains is a state, an exit code and a log; reading them is the
# most useful habit of all. Here is a job with a spelling mistake.

# %% id="error-run"
typo = lab.submit(shell.recipe("typo", "pyhton --version"))
typo.wait()
print(typo.state, typo.exit_code)
print(typo.text)

# %% [markdown] id="error-explain"
# Three things to look at, always in this order:
#
# 1. **The state.** `FAILED` means that the script ended with an exit code other than 0. Other endings have
#    other names: `TIMEOUT`, `OUT_OF_MEMORY`, `CANCELLED`, `NODE_FAIL`.
# 2. **The exit code.** `0` is success. Everything else is the program's own word for what went wrong,
#    except a few that the shell and Slurm give: 127 is a command that was not found, 126 a file that is there but
#    cannot be executed, and 128 + *n* a program that was ended by signal *n*. (137 is 128 + 9, killed, and often
#    means that the memory was gone. `sacct` puts a colon behind the code, and the signal's number, if there was one.)
# 3. **The log, from its first error on.** Later errors are often only the echo of the first.
#
# Some mistakes do not even get as far as the queue. `sbatch` is the command that hands a script in (`--wrap` makes one of
# a line), and refuses what can never run:

# %% id="refused"
# !sbatch --nodes=5000 --wrap="hostname"; echo "exit code $?"

# %% [markdown] id="refused-explain"
# That answer came at once, with a reason and an exit code, and nothing was queued. (Not all that is impossible is
# refused: many clusters accept a time limit above the partition's, and the job waits with the reason
# `PartitionTimeLimit` until you take it back.)
#
# ## A script of your own
#
# None of this is bound to the library. A script is a text file, and `sbatch` takes any:


# %% id="own-script"
mine = lab.workspace.folder / "mine.sh"
mine.write_text("""#!/bin/bash
#SBATCH --job-name=mine
#SBATCH --nodes=2
#SBATCH --time=00:01:00
srun hostname
""")
log = mine.with_suffix(".log")
# !sbatch --wait --output="{log}" "{mine}"; cat "{log}"

# %% [markdown] id="own-explain"
# | also good to know | |
# |---|---|
# | `tail -f FILE` | shows a log as it grows, until you press Ctrl+C |
# | `srun --nodes=1 --gpus=1 --time=00:10:00 --pty bash` | a shell on a node of your own for ten minutes, to try things out; in a terminal, not in a cell |
# | `sbatch --test-only FILE` | when would it start? Nothing is queued |

# %% [markdown] id="link-idea"
# ## What lies between the nodes
#
# A node's devices exchange data inside the node. Two nodes exchange data over a **link**. How different
# are these two roads? The next job starts one process per device slot and sends messages of growing size,
# up to 4 MiB (`4 << 20` bytes), between all pairs. Its table has the **latency** of each road, the time that the smallest message takes,
# and its **bandwidth**, the bytes that follow per second once they flow (1 GB/s is 10⁹ bytes per second).
#
# **Predict.** How many times more bandwidth has the road inside a node than the link between the nodes?

# %% id="link-guess"
### BEGIN SOLUTION
### GAP guess_ratio = ...  # times
guess_ratio = 2
### END SOLUTION

# %% id="link-run"
ratio_guess = predict(
    "00: bandwidth inside a node over that between nodes", guess_ratio, unit="times"
)
roads = lab.submit(links.recipe("first-links", nodes=2, gpus_per_node=2, max_bytes=4 << 20))
roads.wait()
roads.links.roads

# %% id="link-see"
measured = roads.links.roads.set_index("road")
inside, between = measured.loc["inside a node"], measured.loc["between the nodes"]
ratio = inside["bandwidth_gb_s"] / between["bandwidth_gb_s"]
ratio_guess.compare(ratio)
show.guess(ratio_guess.guess, ratio, unit="times", what="bandwidth inside ÷ between")

# %% id="link-claim" tags=["claim"]
claim("the road inside a node is wider", ratio, least=3, unit="times")
sooner = between["latency_ms"] / inside["latency_ms"]
claim("the roads differ more in width than in latency", ratio / sooner, least=2, unit="times")

# %% id="link-why"
if ratio < 1.5 and lab.site.box:
    print("There is one road here: in flat mode, which sinfo mentions, all share one network.")
elif ratio < 1.5:
    print("Here the road between the nodes is about as wide as the one inside: that happens.")
elif roads.links.backend == "nccl":
    print(
        "Inside a node devices mostly copy into each other's memory; between, data leaves the node."
    )
else:
    print("Inside a node the system copies from memory to memory; between, it sends over a link.")

# %% [markdown] id="link-explain"
# **Explain.** Inside a node, sending means copying from one place in memory to another. Between nodes every byte goes
# through the network, which is narrower (unless the rows of the table are alike: then both roads are one, or one is as good as the other). The latencies are less far apart, and nearly the same where both roads lead through the operating
# system, which takes most of that time. On most GPU nodes devices write into each other's memory, and the system has no part in that.
#
# Most of what you will do in this course follows from this one table. Training on many devices is
# arithmetic that waits for data from elsewhere, and where "elsewhere" is decides how long it waits.


# %% [markdown] id="differs"
# ## What is different on a big cluster
#
# | in the box | on a big cluster |
# |---|---|
# | you are alone | you wait, sometimes for days; ask for what you need and no more |
# | two nodes | thousands; some of them broken at any time |
# | jobs cost nothing | device-hours are counted against your *account* (`--account`) |
# | your files are everywhere | home, project and scratch differ in size, speed and life time |
# | programs are there | `module load` or a container brings them |
# | the sample text is there | compute nodes often have no internet: fetch data before the job |
#
# What a site wants is written down once, in `site.toml`; `course site list` shows the presets, and
# `course doctor` tells what is still missing. No cell changes.

# %% [markdown] id="ex1" tags=["exercise"]
# ## Exercises
#
# > **Exercise 00.1** — Make a job that starts **three** tasks on each of two nodes and lets every task print
# > its number *within its node*, as a line `local 0`, `local 1` or `local 2`. Fill the gaps, and repair the
# > command: the variable in it counts over the whole job. (Which one does not? A job with the command
# > `srun bash -c 'env | grep ^SLURM_ | sort'` shows all that Slurm tells a task.)

# %% id="ex1-gap" tags=["exercise"]
### BEGIN SOLUTION
### GAP local = shell.recipe(
### GAP     "local",
### GAP     "srun bash -c 'echo local $SLURM_PROCID'",
### GAP     nodes=...,
### GAP     directives={"ntasks-per-node": ...},
### GAP )
local = shell.recipe(
    "local",
    "srun bash -c 'echo local $SLURM_LOCALID'",
    nodes=2,
    directives={"ntasks-per-node": 3},
)
### END SOLUTION
local_run = lab.submit(local)
local_run.wait()

# %% id="ex1-check" tags=["check"]
check.ex00_local(local_run)

# %% [markdown] id="ex1-why" tags=["solution"]
# Six tasks, three on each node, and each node prints `local 0` to `local 2`: the number counts within the
# node, while `SLURM_PROCID` counts over the whole job. Programs choose their device by the local number and
# their part of the data by the global one. Mixing them up puts all processes on one device.

# %% [markdown] id="ex2" tags=["exercise"]
# > **Exercise 00.2** — Clusters charge for the time for which a job *holds* its device slots, whether it works
# > with them or not. What did the three sleeping jobs cost together, in **device-seconds**? (All that you need
# > stands in the section about the queue: what the recipes asked for, and what `sacct` said.)

# %% id="ex2-gap" tags=["exercise"]
### BEGIN SOLUTION
### GAP device_seconds = ...
device_seconds = sum(2 * 2 * sleeper.elapsed_s for sleeper in sleepers)
### END SOLUTION

# %% id="ex2-check" tags=["check"]
check.ex00_device_seconds(device_seconds, sleepers)

# %% [markdown] id="ex2-why" tags=["solution"]
# Two nodes with two devices each are four, for the seconds of `Elapsed`, three times. Waiting in the queue costs
# nothing. Sleeping costs as much as training does, and so does a job that hangs until its time limit. The lab
# keeps the sum in device-hours of 3600 device-seconds: see the column `device_hours` of `lab.runs()`, and
# `lab.budget`.

# %% [markdown] id="challenge" tags=["exercise"]
# > **Going further** — Submit two jobs at once so that the second starts only if the first *fails*.
# > (`man sbatch` or `sbatch --help`: look for `--dependency`.) What does `squeue` say of the second one if the
# > first succeeds, and how do you get rid of it?

# %% [markdown] id="home"
# ## To take home
#
# - The script runs once, on the first node. `srun` starts tasks, on all of them.
# - `squeue` shows what waits and runs, and why it waits. `sacct` shows what is over.
# - State, exit code, first error in the log: in this order.
# - The road between nodes is different from the road inside a node, and mostly slower. Measure both.
#
# Lesson 02 sends a first training over these roads. What you have solved so far:

# %% id="progress"
progress()

# %% [markdown] id="clean-idea"
# ## Cleaning up
#
# Every run left a folder in `runs/`. This removes those of this lesson that you need no more, and nothing
# else.

# %% id="clean"
mine.unlink()
log.unlink(missing_ok=True)
lab.clean("hello", "sleep1", "sleep2", "sleep3", "too-long", yes=True)
