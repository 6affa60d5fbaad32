# %% [markdown] id="title"
# # 00 The lab
#
# A **cluster** is a set of machines behind one **queue**. You do not log in to the machine that does the work. You
# write a script, submit it to the queue, and later read its output from a file. This lesson takes you through these
# steps, up to the log of a failed job.
#
# | | |
# |---|---|
# | You will be able to | look at a cluster; submit a job and follow it; read its log; cancel it; find out why a job failed |
# | Minutes | 30 |
# | Devices | 2 nodes with 2 devices each, on your cluster or on the small cluster of the course |
# | Before | you have trained a model on one device |
#
# The grey fields are Python cells. **Shift+Enter** runs a cell and goes to the next one. Run the cells from top to
# bottom. Lines that begin with `!` are shell commands, which also work in a terminal (*File → New → Terminal*).

# %% [markdown] id="parts"
# Every cluster has the same parts:
#
# ![You submit a job on the login node. It waits in the queue and starts on the compute nodes. Each compute node has two device slots, and a link connects the nodes. The output goes to a file that all nodes see.](../images/cluster.svg)

# %% id="begin"
from course_lib import Lab, check, claim, links, predict, progress, share_progress, shell, show

lab = Lab()
lab

# %% [markdown] id="where"
# The output above names your cluster. If your machine has the commands of **Slurm**, the queueing system of most
# large computers, the course uses them. Otherwise the course starts **the box**: two small nodes inside this machine,
# each with its own network. Its commands have the names of Slurm's commands and answer in the same way. If your
# machine does not allow separate networks, both nodes share one, and `sinfo` reports *flat mode*.

# %% [markdown] id="share-idea"
# In a class, your instructors may want to see who needs help. Nothing is shared unless you or your class agree. You
# agree with `share_progress(True)`. Then only your instructors see your lesson, your solved exercises, how often you
# tried, your last hint, and when you last ran a cell. They also see your guesses, but without your name.
# `share_progress(True, details=True)` also shows each try, and your name beside your guesses. You stop sharing with
# `share_progress(False)`.
#
# If you need help, run `from course_lib import help_me` and `help_me()` in any notebook. Your instructors then see
# your name, your lesson, your exercise and your last hint. `help_me(False)` withdraws the call.

# %% id="share"
share_progress()

# %% [markdown] id="sinfo-idea"
# ## Which machines does the cluster have?
#
# `sinfo` lists the nodes by **partition**, a queue with its own nodes and limits.

# %% id="sinfo"
# !sinfo

# %% [markdown] id="sinfo-explain"
# | column | meaning |
# |---|---|
# | `PARTITION` | the name of a queue; the queue marked `*` is used if you name none |
# | `AVAIL` | `up`: the queue accepts jobs and starts them |
# | `TIMELIMIT` | the longest time for one job, as `days-hours:minutes:seconds` |
# | `NODES`, `NODELIST` | how many machines, and their names; `node[1-2]` is short for `node1,node2` |
# | `STATE` | `idle`: unused; `alloc`: fully used; `mix`: partly used; `down`, `drain`: out of service |
#
# A **node** is one machine. `scontrol show node` prints everything about each node. The next cell asks `sinfo` only
# for the columns that this course needs:

# %% id="nodes"
# !sinfo --Node --format="%N %c %m %G %t" | column -t

# %% [markdown] id="nodes-explain"
# The columns are the node's name, its processors (`CPUS`), its memory in MiB, its **generic resources** (`GRES`),
# among which Slurm counts GPUs, and its state.
#
# In this course, a GPU or its substitute is called a **device slot**. If there are not enough GPUs, a slot is one CPU
# process with a fixed share of the memory. It is slow, but like a GPU it can run out of memory, waits for other
# slots, and communicates over a network. It also computes at a fixed speed, its **pace**:

# %% id="pace"
pace = lab.device_pace
if pace > 1:
    print(f"every slot computes at 1/{pace:g} of the speed of a core, so that all slots fit")
else:
    print("every slot computes as fast as it can, so its pace is 1")

# %% [markdown] id="pace-explain"
# On GPUs the pace is always 1. Slots of the box share a few cores, so a slot would speed up whenever another slot
# waited. A GPU never does. A slot with a pace above 1 therefore sleeps until its work has taken the intended time.
#
# The slots compute thousands of times slower than GPUs, and their network is hundreds of times slower. The models and
# batches of this course are therefore small.

# %% [markdown] id="first-idea"
# ## Which part of a job script runs where?
#
# A **job** is a shell script with a header. The header lines begin with `#SBATCH` and state what the job needs. The
# shell treats them as comments. The library writes the script, and `lab.script` shows it. The lines in the middle are
# the same for every job, and lesson 03 explains them. Only the two commands at the end are specific to this job.

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
# **Predict.** The script asks for two nodes and for two **tasks** on each node. A task is a process that `srun`
# starts. The script contains a plain `echo` and an `echo` after `srun`. How many lines will the two commands print
# together?

# %% id="first-guess"
### BEGIN SOLUTION
### GAP guess_lines = ...  # replace the dots with your number
guess_lines = 6
### END SOLUTION

# %% id="first-run"
lines = predict("00: lines of a job with 2 × 2 tasks", guess_lines, unit="lines")
first = lab.submit(hello).require()
print(first.text)

# %% id="first-see"
printed_lines = [line for line in first.text.splitlines() if " runs on " in line]
lines.compare(len(printed_lines))

# %% id="first-claim" tags=["claim"]
claim(
    "the script prints once and each of four tasks once",
    len(printed_lines),
    least=5,
    most=5,
    unit="lines",
)

# %% [markdown] id="first-explain"
# **Explain.** The plain `echo` printed one line, and the four tasks printed one line each. If you guessed six, you
# assumed that both nodes run the script. The *script* runs only once, on the first node of the job. The other nodes
# wait until `srun` starts tasks on them. `srun` starts its command once per **task** and gives each copy a number in
# `SLURM_PROCID`. Their lines appear in any order.
#
# | word | meaning |
# |---|---|
# | node | one machine with one network address |
# | task | one process that `srun` starts; later one per node or one per device |
# | device slot | a GPU or its substitute; a task may own several |
# | job | what you submit: a script and its requirements |
# | step | one call of `srun` inside a job |

# %% [markdown] id="queue-idea"
# ## What happens when the cluster is full?
#
# The next cell submits three jobs at once. Each job asks for both devices of two nodes and sleeps for a few seconds.
# The box has room for one job at a time. A larger cluster may run them side by side, and the tables below show it.

# %% id="queue-run"
sleepers = [
    lab.submit(shell.recipe(f"sleep{number}", "sleep 3", nodes=2, gpus_per_node=2))
    for number in (1, 2, 3)
]

# %% id="queue-look"
# !sleep 2; squeue --me

# %% [markdown] id="queue-explain"
# `ST` is the **state**: `R` is running and `PD` is pending. The last column shows the nodes of a running job, or in
# brackets why a job is pending:
#
# | reason | meaning |
# |---|---|
# | `(Resources)` | the job is next and waits for nodes |
# | `(Priority)` | another job is ahead of it |
# | `(None)` | Slurm has not looked at the job yet |
#
# A small later job may start first if its **time limit** shows that it will end before the next job in line can
# start. This is called **backfill**. With a short but sufficient time limit you therefore often get devices sooner.
#
# Jobs belong to the queue and not to your notebook. They continue if you close the notebook, so you can come back
# tomorrow.

# %% id="queue-wait"
for sleeper in sleepers:
    sleeper.wait()
lab.runs()

# %% [markdown] id="accounting"
# A finished job disappears from `squeue`. Use `sacct` to query it. The option `-X` prints one row per job and leaves
# out its steps. If a job fills the cluster, the next job starts when it has ended.

# %% id="sacct"
ids = ",".join(str(sleeper.job_id) for sleeper in sleepers)
# !sacct -X -j {ids} --format=JobID,JobName,Submit,Start,Elapsed,State,ExitCode

# %% [markdown] id="cancel-idea"
# ## How do you cancel a job?
#
# Suppose a job has asked for an hour, and you notice a mistake as soon as it starts. If you cancel it, its devices
# become free for the next job.

# %% id="cancel"
long_one = lab.submit(shell.recipe("too-long", "echo started; sleep 3500", time_limit_minutes=60))

# %% id="cancel-look"
# !sleep 1; squeue --me

# %% [markdown] id="detail-idea"
# `scontrol show job` prints everything that Slurm knows about a job in the queue: its requirements, its nodes, when
# it started, when it must end, and where its log is.

# %% id="detail"
# !scontrol show job {long_one.job_id}

# %% id="cancel-do"
lab.cancel(long_one)
print(long_one.wait())
print(long_one.tail())

# %% [markdown] id="cancel-explain"
# `lab.cancel` called `scancel` with the job's number. Slurm sent a signal to every process of the job, and a line in
# the log reports it. A job that is cancelled while it waits has no log. A cancelled job has no result, so submitting
# its recipe again starts a new job. `lab.cancel` cannot cancel jobs from outside this course.

# %% [markdown] id="error-idea"
# ## Find out why a job failed
#
# A job fails on a machine that you do not see. You find the cause in the job's state, its exit code and its log. The
# next job has a spelling mistake on purpose.

# %% id="error-run"
typo = lab.submit(shell.recipe("typo", "pyhton --version"))
typo.wait()
print(typo.state, typo.exit_code)
print(typo.text)

# %% [markdown] id="error-explain"
# Look at three things, always in this order:
#
# 1. **The state.** `FAILED` means that the script ended with an exit code other than 0. Other endings have their own
#    names: `TIMEOUT`, `OUT_OF_MEMORY`, `CANCELLED`, `NODE_FAIL`.
# 2. **The exit code.** `0` means success. Most other codes are chosen by the program. The shell and Slurm set the
#    codes in the table below.
# 3. **The log, from its first error on.** Later errors often follow from the first.
#
# | exit code | meaning |
# |---|---|
# | 126 | the file cannot be executed |
# | 127 | the command was not found |
# | 128 + *n* | signal *n* ended the program |
# | 137 | 128 + 9: the program was killed, often because memory ran out |
#
# `sacct` prints the exit code, a colon, and the number of the signal, if any.
#
# Some mistakes do not even reach the queue. `sbatch` submits a script, and `--wrap` makes a script from one line.
# `sbatch` refuses a job that can never run:

# %% id="refused"
# !sbatch --nodes=5000 --wrap="hostname"; echo "exit code $?"

# %% [markdown] id="refused-explain"
# `sbatch` answered at once with a reason and an exit code, and it queued nothing. Not every impossible job is
# refused. Many clusters accept a time limit above the partition's limit. The job then waits with the reason
# `PartitionTimeLimit` until you cancel it.
#
# ## Can you submit a job without the library?
#
# Yes. A job script is a text file, and `sbatch` accepts any such file:

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
# | command | what it does |
# |---|---|
# | `tail -f FILE` | shows a log as it grows, until you press Ctrl+C |
# | `srun --nodes=1 --gpus=1 --time=00:10:00 --pty bash` | opens a shell on a node for ten minutes; use it in a terminal, not in a cell |
# | `sbatch --test-only FILE` | estimates when the job would start and queues nothing |

# %% [markdown] id="link-idea"
# ## How different are the links inside a node and between nodes?
#
# Two devices exchange data over a **link**, inside a node or between nodes. Its **latency** is the time of the
# smallest message. Its **bandwidth** is the number of bytes per second in a large message (1 GB/s is 10⁹ bytes per
# second). The next job starts one process per device slot and sends messages of up to 4 MiB between all pairs.
#
# **Predict.** The box limits the link between its nodes to 1 Gbit/s, or 0.125 GB/s. Inside a node, processes copy a
# few GB per second. On another cluster, use the data sheets. By what factor is the bandwidth inside a node higher?

# %% id="link-guess"
### BEGIN SOLUTION
### GAP guess_ratio = ...  # by what factor
guess_ratio = 2
### END SOLUTION

# %% id="link-run"
ratio_guess = predict(
    "00: bandwidth inside a node, relative to between nodes", guess_ratio, unit="times"
)
link_run = lab.submit(links.recipe("first-links", nodes=2, gpus_per_node=2, max_bytes=4 << 20))
link_run.wait()
link_run.links.table

# %% id="link-see"
measured = link_run.links.table.set_index("link")
inside, between = measured.loc["inside a node"], measured.loc["between the nodes"]
ratio = inside["bandwidth_gb_s"] / between["bandwidth_gb_s"]
ratio_guess.compare(ratio)
show.guess(ratio_guess.guess, ratio, unit="times", what="bandwidth inside ÷ between")

# %% id="link-claim" tags=["claim"]
sooner = between["latency_ms"] / inside["latency_ms"]
if lab.nodes_are_separate:
    claim("the bandwidth inside a node is higher by a factor", ratio, least=3, unit="times")
    claim(
        "the links differ more in bandwidth than in latency", ratio / sooner, least=2, unit="times"
    )

# %% id="link-why"
if ratio < 1.5 and lab.site.box:
    print("The box runs in flat mode, as sinfo reports, so both nodes share one network.")
elif ratio < 1.5:
    print("On this cluster both links have about the same bandwidth.")
elif link_run.links.backend == "nccl":
    print(
        "Inside a node, devices copy into each other's memory. Between nodes, they use the network."
    )
else:
    print("Inside a node, data is copied in memory. Between nodes, it goes through the network.")

# %% [markdown] id="link-explain"
# **Explain.** Inside a node, sending means copying from one place in memory to another. Between nodes, every byte
# goes through the network, which usually has much less bandwidth. If you guessed about 2, you assumed that the
# network nearly keeps up with memory. The two rows of the table agree only if both links are equally fast.
#
# The latencies differ by a smaller factor. If messages pass through the operating system on both links, the latencies
# are nearly the same, because the operating system takes most of that time.
#
# Most of this course follows from these differences. Devices that train together wait for data from each other, and
# the links determine how long they wait.

# %% [markdown] id="differs"
# ## What is different on a big cluster?
#
# | in the box | on a big cluster |
# |---|---|
# | you are alone | you wait, sometimes for days, so ask only for what you need |
# | there are two nodes | there are thousands, and some are broken at any time |
# | jobs cost nothing | device-hours are charged to your *account* (`--account`) |
# | all nodes see all your files | home, project and scratch differ in size, speed and lifetime |
# | all programs are installed | `module load` or a container provides them |
# | the sample text is installed | compute nodes often have no internet: fetch data before the job |
#
# The file `site.toml` describes your cluster once for all lessons, so no cell needs a change. `course site list`
# shows ready-made descriptions, and `course doctor` reports what is missing.

# %% [markdown] id="ex1" tags=["exercise"]
# ## Exercises
#
# The cell below an exercise checks your answer. A wrong answer gets a hint, and each further hint says more: first
# where to look, then what kind of mistake it is, then what to do. `check.solution("00.1")` shows the solution at any
# time. In a class, your instructor opens it first.
#
# > **Exercise 00.1** — Write a job that starts **three** tasks on each of two nodes. Every task prints its number
# > *within its node* as a line `local 0`, `local 1` or `local 2`. Fill in the gaps. Also replace the variable
# > `SLURM_PROCID`, which counts over the whole job. The command `srun bash -c 'env | grep ^SLURM_ | sort'` prints all
# > variables of a task.

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
# Each node prints `local 0` to `local 2`. `SLURM_LOCALID` counts within the node, while `SLURM_PROCID` counts over
# the whole job. Programs choose their device by the local number and their part of the data by the global number. A
# program that confuses the two puts processes on the wrong devices.

# %% [markdown] id="ex2" tags=["exercise"]
# > **Exercise 00.2** — Clusters charge for the time during which a job *holds* its device slots, whether it uses
# > them or not. How many **device-seconds** did the three sleeping jobs cost together? You need the number of
# > devices from the recipes and the column `Elapsed` from `sacct`.

# %% id="ex2-gap" tags=["exercise"]
### BEGIN SOLUTION
### GAP device_seconds = ...
device_seconds = sum(2 * 2 * sleeper.elapsed_s for sleeper in sleepers)
### END SOLUTION

# %% id="ex2-check" tags=["check"]
check.ex00_device_seconds(device_seconds, sleepers)

# %% [markdown] id="ex2-why" tags=["solution"]
# Each job held four devices for the seconds in `Elapsed`. Multiply by four, and add up the three jobs. Waiting in the
# queue costs nothing. A sleeping or hanging job costs as much as a training job. The lab adds up device-hours of 3600
# device-seconds, in the column `device_hours` of `lab.runs()` and in `lab.budget`.

# %% [markdown] id="challenge" tags=["exercise"]
# > **Going further** — Submit two jobs at once so that the second starts only if the first *fails*. Look for
# > `--dependency` in `man sbatch` or `sbatch --help`. What does `squeue` show for the second job if the first
# > succeeds, and how do you remove it?

# %% [markdown] id="home"
# ## To take home
#
# - A job script runs once, on the first node. `srun` starts tasks on all nodes of the job.
# - `squeue` shows which jobs wait or run, and why. `sacct` shows finished jobs.
# - If a job fails, read its state, its exit code and the first error of its log, in this order.
# - The link between nodes is usually slower than the link inside a node. Measure both.
#
# In lesson 02 you use these links for training. So far you have solved:

# %% id="progress"
progress()

# %% [markdown] id="clean-idea"
# ## Cleaning up
#
# Every run left a folder in `runs/`. The next cell removes the runs that you no longer need, and nothing else.

# %% id="clean"
mine.unlink()
log.unlink(missing_ok=True)
lab.clean("hello", "sleep1", "sleep2", "sleep3", "too-long", yes=True)
