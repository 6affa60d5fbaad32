# %% [markdown] id="title"
# # 16 When it breaks
#
# Large jobs fail often. One run on 16,384 H100 GPUs had 419 unplanned interruptions in 54 days ([Llama 3,
# 2024](https://arxiv.org/abs/2407.21783)). Most failures look alike from outside: the log goes silent, or hundreds of
# ranks report an error that started on another rank. Here you break runs on purpose and learn which tool finds each
# fault. At the end you diagnose unknown faults.
#
# | | |
# |---|---|
# | You will be able to | find the rank that makes a job hang; tell the rank that failed from the ranks that report it; test address and port before a run; find a leak, a straggler and a bad sample; check that a run computes what it should |
# | Minutes | 65 |
# | Devices | 2 nodes with 2 devices each |
# | Before | lessons 03, 05, 06 and 08 |

# %% id="begin"
import time

import pandas as pd

from course_lib import Lab, check, claim, fault, predict, read, shell, show, trial

lab = Lab()

# %% [markdown] id="diary-idea"
# ## What does a healthy run look like?
#
# `fault.recipe` makes a very small training run with two layers and ten steps. It is healthy unless you name a fault.
# With `diary=True`, each rank writes **one line per step** into its own file. These files are the **diary** of the
# run.

# %% id="diary"
healthy = lab.submit(fault.recipe("healthy")).require()
of_step = healthy.diary.table.query("iteration == 10")
of_step.drop(columns=["copy", "data", "iteration"]).set_index("rank")

# %% [markdown] id="diary-explain"
# | column | in a healthy run |
# |---|---|
# | `weights`: a checksum of all weights after the step | **equal** on ranks that hold copies of one model |
# | `samples`: a checksum of each sample that was read | **different** on each rank |
# | `loss`: of the rank's own tokens, before any sum | close to the other ranks; at the first step close to ln(vocabulary) |
# | `grad_norm`: after the sum over ranks | equal |
# | `own_ms`: the step without its messages | similar, within tens of percent on a shared machine |
# | `step_ms`: the whole step, with messages and waiting | nearly equal, because all ranks wait for the last |
# | `memory_mib` | similar, and constant |
# | `random`: a checksum of the generator's state | **different** on each rank; `None` without dropout, as here |
#
# Each fault in this lesson changes one of these columns. Megatron-LM compares checksums with the flag
# `--check-weight-hash-across-dp-replicas-interval`.

# %% [markdown] id="hang-idea"
# ## Which rank makes a job hang?
#
# In the next run, the thread that reads data for rank 2 ends at step 4. Rank 2 waits for data that never comes. The
# other ranks go on to the all-reduce of the gradients and wait there. A collective has a **time-out**: a rank that
# waits longer raises an error.
#
# **Predict.** When the time-out is reached, which ranks have an error in the log?

# %% id="hang-guess"
### BEGIN SOLUTION
### GAP guess_speaker = ...  # "rank 2", "the other ranks" or "all ranks"
guess_speaker = "rank 2"
### END SOLUTION

# %% id="hang"
speaker = predict(
    "16: ranks with an error in the log of a hang",
    guess_speaker,
    choices=("rank 2", "the other ranks", "all ranks"),
)
hang = lab.submit(fault.recipe("hang", "stuck", rank=2, distributed_timeout_seconds_after_init=120))


# %% id="hang-wait"
def steps_seen(run):
    """Steps in the diary of rank 2, whose first line is not a step."""
    file = run.folder / "diary" / "rank2.jsonl"
    return file.read_text().count("\n") - 1 if file.exists() else 0


end_s = time.monotonic() + 60
while steps_seen(hang) < 3 and not hang.ended and time.monotonic() < end_s:
    time.sleep(0.2)
time.sleep(1)
print(hang.reason, "|", steps_seen(hang), "steps")

# %% [markdown] id="stacks-idea"
# The queue shows a hanging job as `running`. (A recorded job shows how it ended.) The log does not help, because a
# process that hangs prints nothing. But each process can print its **stack**, the list of calls it is in:

# %% id="stacks"
stacks = lab.stacks(hang)
hang.cancel()
stacks

# %% id="stacks-claim" tags=["claim"]
odd = [stack.rank for stack in stacks.odd]
claim("ranks that are not in the collective", len(odd), least=1, most=1)
claim("the rank that is not in the collective", odd[0] if odd else -1, least=2, most=2)

# %% [markdown] id="stacks-explain"
# **Explain.** Three healthy ranks wait inside `all_reduce`. The stack of the fourth shows where the fault is. In
# every hang, **look for the rank that is not in the collective**.
#
# Each program of the course enables this with one call at its start:
#
#     faulthandler.register(signal.SIGUSR2, file=…, all_threads=True)
#
# When the signal arrives, Python writes the stacks of all its threads, even if no thread can run. With
# `srun --overlap --jobid=…`, `lab.stacks` starts a small job step beside the hanging one, which sends the signal on
# each node. For a program without this call, use `py-spy dump --pid …` in the job step, if your site allows it.
#
# Without stacks you pay for all devices until the time-out, by default 10 minutes with NCCL and 30 minutes with gloo.
# In the next run it is six seconds:

# %% id="timeout"
short = lab.submit(fault.recipe("timeout", "stuck", rank=2))
short.wait()
lines = [line for line in short.text.splitlines() if "Timed out" in line or "note:" in line]
print(*[line[:190] for line in lines], sep="\n")

# %% id="timeout-see"
complain = sorted({line.partition("]")[0] for line in lines if "Timed out" in line})
print(short.cause)
speaker.compare("rank 2" if "[rank2" in complain else "the other ranks")

# %% id="timeout-claim" tags=["claim"]
claim(
    "ranks that report a time-out and only waited",
    len(complain),
    least=1,
    most=3,
    unit="ranks",
)
claim("the rank that caused the hang", short.cause.rank, least=2, most=2)

# %% [markdown] id="timeout-explain"
# ![Four ranks over time. All make step 3. In step 4 ranks 0, 1 and 3 wait in all_reduce, and at the time-out each says "timed out"; rank 2 waits for its data reader and prints no message.](../images/hang.svg)
#
# **Explain.** Only ranks that waited report `Timed out`, and `srun` may end some of them before they can. A line with
# `note:` lists other ranks with the same error, or says where the rank outside the collective is. The verdict of
# `run.failure` uses the whole log and lists the other errors as consequences. **The rank that reports an error is
# rarely the rank that failed.**
#
# PyTorch's **flight recorder** stores the last collectives of each rank, so it also helps when ranks are in different
# collectives. `TORCH_FR_BUFFER_SIZE` sets how many. With NCCL and `TORCH_NCCL_DUMP_ON_TIMEOUT`, PyTorch writes the
# record at a time-out. In this run, each rank writes its record when it gives up:

# %% id="flight"
print(short.flight)

# %% [markdown] id="watchdog-idea"
# ## How can a job name the missing rank early?
#
# On 96 nodes with four devices each, a time-out of ten minutes costs 64 device-hours. A **watchdog** names the missing
# rank within seconds. It is a thread on each rank that runs while the main thread waits in a collective. Its messages
# must not need a collective, so the ranks use a **key-value store**:
#
# | call | what it does |
# |---|---|
# | `store.set(key, text)` | writes a text for all ranks |
# | `store.check([key])` | tells whether any rank has written this key |
# | `store.get(key)` | returns the text as bytes; an error if no rank writes the key within a second |
#
# Two simple ideas fail. A healthy rank that waits makes no steps either, so missing steps do not show the missing
# rank. The times of two nodes cannot be compared either, because their clocks may differ by minutes.
#
# > **Exercise 16.1** — Write `Watchdog`. The main thread calls `arrive(number)` before each collective, and `stop()`
# > after the last one, which ends your thread. If ranks have waited for `timeout_s` seconds, your thread calls
# > `accuse(ranks)` with a list of the missing ranks. In the trial, one rank is late, stalls or never comes to a real
# > all-reduce.

# %% id="watchdog-own" tags=["exercise"]
# %%writefile "{lab.work}/my_watchdog.py"
import threading
import time


class Watchdog:
    def __init__(self, store, rank, size, timeout_s, accuse):
        self.store, self.rank, self.size = store, rank, size
        self.timeout_s, self.accuse = timeout_s, accuse
        ### BEGIN SOLUTION
        ### GAP ...  # start a daemon thread
        self.ended = threading.Event()
        threading.Thread(target=self.watch, daemon=True).start()
        ### END SOLUTION

    def arrive(self, number):
        """Called before collective 0, 1, 2, …"""
        ### BEGIN SOLUTION
        ### GAP ...
        self.store.set(f"arrived/{self.rank}", str(number))
        ### END SOLUTION

    def stop(self):
        ### BEGIN SOLUTION
        ### GAP ...
        self.ended.set()
        ### END SOLUTION

    ### BEGIN SOLUTION
    ### GAP ...  # what the thread does
    def latest(self, rank):
        key = f"arrived/{rank}"
        return int(self.store.get(key)) if self.store.check([key]) else -1

    def watch(self):
        seen, since = [], time.monotonic()
        while not self.ended.wait(self.timeout_s / 10):
            now = [self.latest(rank) for rank in range(self.size)]
            if now != seen:
                seen, since = now, time.monotonic()
            missing = [rank for rank in range(self.size) if seen[rank] < max(seen)]
            if missing and time.monotonic() - since > self.timeout_s:
                self.accuse(missing)
                return

    ### END SOLUTION


# %% id="watchdog-trial" tags=["exercise"]
watchdog_trial = lab.submit(trial.recipe("watchdog-trial", "work/my_watchdog.py", "watchdog"))
watchdog_trial.watch()

# %% id="watchdog-check" tags=["check"]
check.ex16_watchdog(watchdog_trial)

# %% [markdown] id="watchdog-why" tags=["solution"]
# The waiting ranks have all reached the same collective, and the missing rank has not. The time-out counts from the
# last change of any number, by the clock of the rank that checks. A program can then end the job at once, or restart
# it without the missing node.

# %% [markdown] id="mismatch-idea"
# ## What happens if ranks call different collectives?
#
# In the next run, rank 2 sends half as many gradients as the others, as if a layer were frozen on this rank alone. The
# run starts twice, with the default settings and with `TORCH_DISTRIBUTED_DEBUG=DETAIL`. With `DETAIL`, the ranks
# compare their calls *before* each collective.

# %% id="mismatch"
shape = fault.recipe("shape", "shape", rank=2)
plain = lab.submit(shape)
plain.wait()
detail = {"TORCH_DISTRIBUTED_DEBUG": "DETAIL"}
told = lab.submit(shape.but(name="shape-detail", environment=detail))
told.wait()
for run in (plain, told):
    print(f"{run.name}: {run.failure}\n")

# %% id="mismatch-claim" tags=["claim"]
sizes = [told.cause.details.get(key, [float("nan")])[0] for key in ("shape", "other_shape")]
claim("DETAIL names two sizes, and the larger is", max(sizes) / min(sizes),
      least=1.9, most=2.1, unit="times the smaller")  # fmt: skip

# %% [markdown] id="mismatch-explain"
# **Explain.** With `DETAIL`, the error names the rank, the operation and the shape. With the default settings, the
# result is a matter of chance. If the sizes do not match, a process with gloo fails in the middle of the transfer, and
# NCCL usually hangs. If two *different* collectives have equal sizes, they may even succeed and add unrelated numbers.
#
# `DETAIL` adds a small message to each collective, which takes a few milliseconds here. A step of this run has two
# collectives, and the first table shows how long a step is. Two healthy runs of forty steps, with and without
# `DETAIL`, measure the difference.
#
# **Predict.** By what factor does `DETAIL` lengthen a step?

# %% id="detail-guess"
### BEGIN SOLUTION
### GAP guess_longer = ...  # times as long
guess_longer = 2
### END SOLUTION

# %% id="detail"
longer = predict("16: slow-down of a step by DETAIL", guess_longer, unit="times as long")
forty = fault.recipe("forty-steps", iterations=40)
unchecked = lab.submit(forty)
checked = lab.submit(forty.but(name="forty-steps-detail", environment=detail))


def step_ms(run):
    """The fastest step, the one that other work on this machine delayed least."""
    steps = run.diary.table.query("iteration > 2").groupby("iteration")["step_ms"]
    return float(steps.max().min())


ratio = step_ms(checked.require()) / step_ms(unchecked.require())
longer.compare(ratio)

# %% id="detail-claim" tags=["claim"]
claim(
    "with DETAIL a step of two collectives takes", ratio, least=0.8, most=1.8, unit="times as long"
)

# %% [markdown] id="detail-explain"
# **Explain.** The cost is fixed *per collective*. A step of this run has only two, so the cost hardly shows. With
# tensor parallelism a step has hundreds, and many take about as long as the comparison. On GPUs, `DETAIL` also makes
# the processes wait for each other on the CPU. The GPU then runs out of queued work, and less communication overlaps
# with computation. So use `DETAIL` only to find a fault.

# %% [markdown] id="meeting-idea"
# ## Which faults come before the first step?
#
# Before training starts, each node must find its software, and all ranks must meet at one address and one port, the
# **rendezvous**. Seven faults are common here. Each shows in the **first** lines of the log:
#
# | you see | cause |
# |---|---|
# | `ModuleNotFoundError`, `cannot import name`, on one node | a different environment or an older module |
# | `<urlopen error …>` | compute nodes have no internet (lesson 02): download before the job |
# | `Name or service not known`, or a time-out for a name | the host name is misspelt, or this node does not know it |
# | `Connection refused`; only `timed out` with torch, which retries by itself | no program listens there: wrong port, wrong host, or rank 0 has died |
# | a connection to `127.0.0.1` or to its own name, on a node that is not the first | `MASTER_ADDR=$(hostname)` in a script that every node runs |
# | nothing for a long time, then `timed out`, and no `refused` by hand either | the packets are dropped: a firewall, or the wrong network card |
# | `EADDRINUSE`, `address already in use` | another program has the port: another job, or an earlier process |
#
# The following job checks software, name, route and port on each node in seconds, **without training**:

# %% id="meeting"
ONE_LINERS = """
export master=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
getent hosts "$master" >/dev/null 2>&1 || master=127.0.0.1
export port=$((10000 + SLURM_JOB_ID % 20000))

# which Python, which torch?
srun --overlap --ntasks-per-node=1 python -c 'import os, sys, importlib.metadata as have
print(os.environ["SLURMD_NODENAME"], sys.executable, "torch", have.version("torch"))'

# somebody listens on the first node, as rank 0 would
srun --overlap --nodes=1 --ntasks=1 python -c 'import os, socket, time
door = socket.create_server(("", int(os.environ["port"]))); time.sleep(5)' &
sleep 2

# does each node know the name?
srun --overlap --ntasks-per-node=1 bash -c \
    'echo "$SLURMD_NODENAME knows $master as $(getent hosts "$master" || echo nobody)"'

# does each node reach the port, and what says a wrong one?
srun --overlap --ntasks-per-node=1 bash -c 'for p in $port $((port + 1)); do
    said=$(timeout 3 bash -c "</dev/tcp/$master/$p" 2>&1) && said=open
    echo "$SLURMD_NODENAME to $p: ${said##*: }"
done'
wait
"""
meeting = lab.submit(shell.recipe("meeting", ONE_LINERS, nodes=2, gpus_per_node=1))
meeting.wait()
print(meeting.text)
if meeting.text.count(" as 127.") == 2:
    print("All nodes share one network here, so this does not test the route between nodes.")

# %% [markdown] id="meeting-see"
# Each node prints its Python and torch, an address, one open port, and the answer of a wrong port. In the next run,
# rank 2 gets a wrong port:

# %% id="port"
port = lab.submit(fault.recipe("wrong-port", "wrong-port", rank=2))
port.wait()
lines = [line for line in port.text.splitlines() if "timed out" in line or "did not come" in line]
print(*[line[:260] for line in lines], port.cause.title, f"rank {port.cause.rank}", sep="\n")

# %% id="port-claim" tags=["claim"]
claim("the rank that did not come to the rendezvous", port.cause.rank, least=2, most=2)

# %% [markdown] id="port-explain"
# **Explain.** The network library on rank 2 prints the address and port that it tried. A waiting rank prints the right
# address and the missing rank, because each rank first writes its name to the rendezvous. Torch retries a refused port
# silently and reports only its time-out. Test the port by hand, as above, to see `Connection refused`.

# %% [markdown] id="gone-idea"
# ## What is left of a killed process?
#
# A killed process prints no message, and neither does a failed node. In the next run, all processes of one node are
# killed in step 4.

# %% id="gone"
gone = lab.submit(fault.recipe("gone", "node-dies", rank=2))
gone.wait()
print(gone.failure)

# %% id="gone-look"
# !sacct -j {gone.job_id} --format=JobID,JobName,State,ExitCode,NodeList

# %% id="gone-claim" tags=["claim"]
claim("ranks that were killed", len(gone.cause.ranks), least=2, most=2, unit="ranks")
claim("the first killed rank", min(gone.cause.ranks, default=float("nan")), least=2, most=2)

# %% [markdown] id="gone-explain"
# **Explain.** The launcher reports the end of a process. `srun` prints the tasks and their node. `torchrun` prints
# exit code −9, which is minus the number of the signal.
#
# To find the cause, count the killed tasks. If one task was killed, the node most often ran out of memory, and the
# kernel killed a large process. Then `sacct` shows `OUT_OF_MEMORY`, or the node's own log says so. If all tasks of a
# node are gone, the node failed. If Slurm notices, the state is `NODE_FAIL`. All other errors in the log come from
# ranks that lost their peers.
#
# `ExitCode` holds an exit code and a signal, and neither is the cause. The step shows `0:15`, because `srun` sent
# SIGTERM (signal 15) to the remaining tasks. The script ended with 143 = 128 + 15, and `sacct` shows this as `15:0`.

# %% [markdown] id="disk-idea"
# ## Does a full disk stop the run?
#
# Checkpoints are large, and disks are shared. In the next run the disk is full from step 4 on, and a checkpoint is
# due every third step.

# %% id="disk"
disk = lab.submit(fault.recipe("disk", "disk-full"))
disk.wait()
for line in disk.text.splitlines():
    if "checkpoint" in line and ("successfully" in line or "No space" in line):
        print(line[:150])

# %% id="disk-claim" tags=["claim"]
claim(
    "steps that the run made although the disk was full",
    len(disk.log.iterations),
    least=10,
    most=10,
)
newest = disk.folder / "checkpoints" / "latest_checkpointed_iteration.txt"
claim("the step of the last good checkpoint", int(newest.read_text()), least=3, most=3)

# %% [markdown] id="disk-explain"
# **Explain.** The training goes on, but only the checkpoint of step 3 exists. The operating system reports
# `[Errno 28] No space left on device`, or `Disk quota exceeded` for a quota.
#
# This program continues because a later checkpoint may find room, and it ends with an error only if the last one
# fails. Many programs end at the first failure. `df -h` and your site's quota command show the space that is left.
# Keep only the last few checkpoints, or write to a scratch file system.

# %% [markdown] id="leak-idea"
# ## Why does memory grow on one rank?
#
# A run is out of memory because one allocation is too large, or because of a **leak**: the program keeps something
# that it should free, and its memory grows until it fails. In the next run, rank 2 keeps a copy of its weights and
# gradients "for a plot", which adds 5 MB in every step. Each device has 205 MiB, and `memory_mib` in the first table
# shows how much a healthy run uses.
#
# **Predict.** The run may make 40 steps. At which step does it end?

# %% id="leak-guess"
### BEGIN SOLUTION
### GAP guess_step = ...  # the last step
guess_step = 30
### END SOLUTION

# %% id="leak"
last_step = predict("16: the last step of the leak", guess_step, unit="steps")
leak = lab.submit(fault.recipe("leak", "leak", rank=2))
leak.wait()
last_step.compare(len(leak.log.iterations))
show.diary(leak, "memory_mib")

# %% id="leak-see"
for found in leak.diary.findings:
    print(found)
print(leak.failure)

# %% id="leak-claim" tags=["claim"]
slope = leak.diary.beside("memory_mib").diff().iloc[2:].median()
claim("in each step, memory of rank 2 grows by", slope[2], least=3.0, most=7.0, unit="MiB")
claim(
    "in each step, memory of the other ranks grows by at most",
    slope.drop(2).max(),
    most=1.0,
    unit="MiB",
)

# %% [markdown] id="leak-explain"
# **Explain.** The **slope** of the memory curve shows which rank leaks and how much it keeps in each step: one copy
# of its weights and gradients. The error message names only the tensor that did not fit, which can be any tensor. If
# you divided the free memory by 5 MB, you came within a few steps.
#
# A curve that stays level and then jumps shows the other cause, a long sample or an uneven pipeline stage as in
# lesson 06. The most common leak in PyTorch is `total += loss`. It keeps the loss *with its whole graph*, while
# `loss.item()` keeps only a number.

# %% [markdown] id="slow-idea"
# ## Which device is slow?
#
# A device that is too hot lowers its clock. In the next run, everything that rank 2 computes takes three times as
# long. The first table shows `own_ms`, the rank's own computing, and `step_ms`, the whole step.
#
# **Predict.** By what factor is a step of the whole job slower?

# %% id="slow-guess"
### BEGIN SOLUTION
### GAP guess_slower = ...  # times as long
guess_slower = 3
### END SOLUTION

# %% id="slow"
slower = predict("16: slow-down of a step by one slow device", guess_slower, unit="times as long")
slow = lab.submit(fault.recipe("slow", "slow-rank", rank=2)).require()
slower.compare(step_ms(slow) / step_ms(healthy))
show.diary(slow, "own_ms")

# %% id="slow-claim" tags=["claim"]
by_rank = slow.diary.table.query("iteration > 2").groupby("rank")
own_ms = by_rank["own_ms"].min()  # of the fastest step, as above
others_ms = own_ms.drop(2).median()
lost_ms, all_lose_ms = own_ms[2] - others_ms, step_ms(slow) - step_ms(healthy)
print(f"In each step, rank 2 computes {lost_ms:.0f} ms longer than the others,")
if all_lose_ms > lost_ms / 2:
    print(f"and a step of the job is {all_lose_ms:.0f} ms longer.")
else:
    print("but a step of the job is hardly longer. Devices share CPU cores on this machine, so the")
    print("other ranks compute while rank 2 sleeps. Separate devices could not do this.")
claim("the slow rank is rank 2", own_ms.idxmax(), least=2, most=2)
claim(
    "own time of rank 2, compared with the other ranks",
    own_ms[2] / others_ms,
    least=1.8,
    unit="times",
)
claim("step time of the slowest rank, compared with the fastest",
      by_rank["step_ms"].median().max() / by_rank["step_ms"].median().min(),
      least=1, most=1.4, unit="times")  # fmt: skip

# %% [markdown] id="slow-explain"
# **Explain.** All ranks lose most of the time that rank 2 loses, because they wait for the last rank in every step.
# The factor is less than 3, because messages and Python take as long as before.
#
# The column `own_ms` shows the slow rank, the **straggler**. `step_ms` is similar on all four ranks. Lesson 05 found a
# straggler with a profile, but this column costs nothing.
#
# A straggler causes no error and no exit code, and `sinfo` shows its node as usual. Leave the node out with
# `--exclude=<node>`, and tell the administrators of the cluster.

# %% [markdown] id="nan-idea"
# ## Which rank did a NaN come from?
#
# One sample in the data of this run has no token that counts. Its mean loss is 0 / 0, which is NaN, and one NaN makes
# a whole sum NaN. One step later every weight on every rank would be NaN, so training stops at the first NaN.

# %% id="nan"
bad = fault.recipe("bad-sample", "bad-sample", rank=2, save=True, save_interval=2)
nan = lab.submit(bad)
nan.wait()
nan.diary.beside("loss").round(3)

# %% id="nan-see"
for found in nan.diary.findings:
    print(found)

# %% [markdown] id="nan-explain"
# **Explain.** Before the sum, the loss of only **one** rank is NaN, and the diary lists the samples of this rank. To
# tell a bad sample from a bad device, **bisect**. Go back to the last good checkpoint, and run the same steps with the
# same data **on other devices**. If the same *sample* fails again, the data are bad. If the same *device* fails with
# different samples, the device is bad. On the box all devices are processors of one machine, so use the same devices.
#
# The next run repeats the steps with `detect_anomaly`. Autograd then checks every gradient, and stops at the
# operation that produced the first NaN:

# %% id="anomaly"
again = lab.submit(
    bad.but(
        name="bad-again",
        load=str(nan.folder / "checkpoints"),
        save=False,
        detect_anomaly=True,
    )
)
again.wait()
print(again.failure)

# %% id="anomaly-claim" tags=["claim"]
from_checkpoint = 4 - int(again.log.iterations["iteration"].iloc[0]) + 1
claim("steps that were repeated to find the NaN", from_checkpoint, least=2, most=2, unit="steps")
claim("the rank of the NaN in the repeated run", again.cause.rank, least=2, most=2)

# %% [markdown] id="anomaly-explain"
# **Explain.** The message names an operation. The log above it shows its line in the forward pass, the division by the
# number of tokens. Autograd may stop one operation later, because 0 / 0 becomes infinity times zero in the backward
# pass. The cure is `clamp(min=1)` on the number of tokens, or a filter on the data. Anomaly detection is slow, so use
# it only between the checkpoint and the NaN.

# %% [markdown] id="explode-idea"
# A learning rate that is too high also leads to NaN, but then no single sample is the cause. In the next run the
# rate is too high from step 4 on. On which rank does the loss rise first?

# %% id="explode"
explode = lab.submit(fault.recipe("explode", "exploding"))
explode.wait()
for found in explode.diary.findings:
    print(found)
explode.diary.beside("loss").round(3)

# %% id="explode-claim" tags=["claim"]
losses = explode.diary.beside("loss").dropna()
claim("ranks whose loss explodes in the same step",
      (losses.iloc[-1] > 3 * losses.iloc[0]).sum(), least=4, most=4, unit="ranks")  # fmt: skip

# %% [markdown] id="explode-explain"
# **Explain.** The loss rises on all ranks in the same step, although all samples are good. A bad update reaches
# every copy of the weights. The sum of the gradients is then NaN on every rank. The cure is a lower rate, a longer
# warm-up, or clipping.

# %% [markdown] id="silent-idea"
# ## How do you find a run that is silently wrong?
#
# The worst faults do not end a run. In the first of the next runs, all ranks read the same samples, because the
# sampler was not told its rank. In the second, rank 2 starts with different weights. A third run is healthy, but
# uses another seed.
#
# **Predict.** How do the loss curves of the two faulty runs look? "alike" means that each loss falls at least half
# as far as the healthy loss.

# %% id="silent-guess"
### BEGIN SOLUTION
### GAP guess_curves = ...  # "far off", "alike" or "NaN"
guess_curves = "far off"
### END SOLUTION

# %% id="silent"
curves = predict(
    "16: loss of silently wrong runs", guess_curves, choices=("far off", "alike", "NaN")
)
submitted = (
    lab.submit(fault.recipe("same-data", "same-data")),
    lab.submit(fault.recipe("unequal", "unequal-weights", rank=2)),
    lab.submit(fault.recipe("other-seed", seed=7)),
)
same, unequal, other = (run.require() for run in submitted)
show.loss(healthy, other, same, unequal)


# %% id="silent-see"
def fall(run):
    losses = run.log.iterations["lm_loss"]
    return losses.iloc[0] - losses.iloc[-1]


def furthest(run):
    return (run.log.iterations["lm_loss"] - healthy.log.iterations["lm_loss"]).abs().max()


curves.compare("alike" if min(fall(same), fall(unequal)) > fall(healthy) / 2 else "far off")
for run in (healthy, other, same, unequal):
    print(f"{run.name}: the loss falls by {fall(run):.2f} nats", end="")
    print(f" and is at most {furthest(run):.2f} nats from the healthy loss;", end=" ")
    print("; ".join(map(str, run.diary.findings)) or "the diary finds nothing")

# %% id="silent-claim" tags=["claim"]
claim("with equal samples the loss still falls, compared with the healthy run",
      fall(same) / fall(healthy), least=0.5, most=0.95, unit="times as far")  # fmt: skip
claim("unequal weights change the loss less than another seed does",
      furthest(unequal) / furthest(other), most=1, unit="times")  # fmt: skip
claim("faults that the diary finds in these two runs",
      len(same.diary.findings) + len(unequal.diary.findings), least=2)  # fmt: skip
claim("faults that it finds in the healthy run", len(healthy.diary.findings), most=0)

# %% [markdown] id="silent-explain"
# **Explain.** The loss falls in every run. Different weights on rank 2 change the loss less than another seed does.
# Equal samples slow the training, because four devices learn no more than one, at four times the cost. You can see
# this only beside a healthy curve, and you seldom have one.
#
# **Invariants** show these faults. An invariant is a statement that must hold at every step of any training:
#
# | invariant | broken by |
# |---|---|
# | copies of the weights have one checksum | unequal start, a rank that skipped a step, a device that computes wrongly |
# | data ranks have different samples | a sampler that does not know its rank |
# | each epoch has a new order | a missing `set_epoch` |
# | the random generators of data ranks differ | dropout seeded without the rank |
# | the first loss is close to ln(vocabulary) | shifted labels, a wrong mean, a checkpoint that was not loaded |
# | each token has the same weight in the mean loss | a mean of the ranks' means with unequal token counts (`code/weigh_tokens.py`, lesson 10) |
#
# A checksum needs one pass over all weights, and comparing one number per rank is almost free. Add these checks
# before you need them.

# %% [markdown] id="real-idea"
# ## Which lines does a real cluster add?
#
# Some faults cannot be created on a laptop. They leave lines like these in a log, each among thousands of others:

# %% id="real"
LINES = {
    "a GPU has failed": "NVRM: Xid (PCI:0000:3b:00): 79, pid=2213, GPU has fallen off the bus.",
    "a GPU has an uncorrectable memory error": "NVRM: Xid (PCI:0000:86:00): 94, pid=9177, Contained: SM (0x1). RST: No",
    "a network link is down": "mlx5_core 0000:0c:00.0: Port: 1 Link DOWN",
    "a hot GPU lowers its clock": "Clocks Event Reasons: HW Thermal Slowdown: Active",
    "a node is drained": "Kill task failed     root      2024-03-02T04:11:09 node017",
    "a peer rank has gone": "[rank3]: torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:2006, "
    "remote process exited or there was a network error, NCCL version 2.20.5",
    "a collective timed out": "[rank0]:[E410 17:25:53.8 ProcessGroupNCCL.cpp:683] [Rank 0] Watchdog caught collective "
    "operation timeout: WorkNCCL(SeqNum=2, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for "
    "600010 milliseconds before timing out.",
}
pd.DataFrame(LINES.items(), columns=["what happened", "the line in the log"]).style.hide(
    axis="index"
).set_properties(**{"text-align": "left"})

# %% [markdown] id="real-explain"
# The first four lines are in the *node's* log (`dmesg`, `nvidia-smi -q`), which you may have to ask for. `sinfo -R`
# shows why nodes are drained. The last two lines are in your own log. In the last line, rank 0 *waited*, as in the
# hang above. `SeqNum=2` means its second collective, so the job failed at start-up.
#
# In the next log, rank 1 reports its own error ten minutes before the other ranks time out. This delay occurs if the
# failed rank cannot exit, or if its exit does not end the job. With `--kill-on-bad-exit` or torchrun, the other ranks
# end within seconds.

# %% id="real-read"
log = [
    *["[rank1]: Traceback (most recent call last):",
      "[rank1]: FileNotFoundError: [Errno 2] No such file or directory: '/cache/doc_idx.npy'"],
    *[LINES["a collective timed out"].replace("ank0]", f"ank{r}]").replace("Rank 0", f"Rank {r}") for r in (0, 2, 3)],
    LINES["a peer rank has gone"],
]  # fmt: skip
file = lab.work / "recorded.log"
file.parent.mkdir(exist_ok=True)
file.write_text("\n".join(log) + "\n")
print(read.failure(file))

# %% id="real-claim" tags=["claim"]
claim("the first cause is on rank", read.failure(file).rank, least=1, most=1)

# %% [markdown] id="ex2" tags=["exercise"]
# ## Which question do you ask first?
#
# ![A ladder of questions. Did it make a step? If not: the environment or the rendezvous. Did it finish well? The diary. Is it still running, and silent? Stacks of all ranks. Out of memory? The slope. Is any value NaN? The rank whose loss was NaN first. Was a process killed? One task, or a node. If not, the log says why: its first error.](../images/which_fault.svg)
#
# ## Exercises
#
# > **Exercise 16.2** — Find an unknown fault. `lab.mystery(1)` submits a run with one fault; its name and its script
# > do not show which. Examine it with `run.failure`, `run.diary.findings`, `show.diary`, and `lab.stacks` while it
# > runs. Choose the cause and the cure from the two lists, by name or by number. Give the rank and the node that
# > have the fault. Give `None` if no single rank or node has it, and a list if all ranks of a node have it. A
# > traceback may lead into `code/faults/`, which holds the faults of this course.
# >
# > The cell below waits until the run has ended. The time-out of the run is six seconds. To ask the run *while it
# > hangs*, submit the same case again with a longer time-out:
# > `lab.submit(one.recipe.but(name="once-more", distributed_timeout_seconds_after_init=100))`.

# %% id="ex2-run" tags=["exercise"]
one = lab.mystery(1)
print(one.wait())

# %% id="ex2-causes" tags=["exercise"]
check.ex16_causes()

# %% id="ex2-cures" tags=["exercise"]
check.ex16_cures()

# %% id="ex2-gap" tags=["exercise"]
### BEGIN SOLUTION
### GAP cause, rank, node, cure = ..., ..., ..., ...
cause, rank, node, cure = (
    "missing-module",
    [0, 1],  # both ranks of the node
    one.cause.node,
    "same-modules",
)
### END SOLUTION

# %% id="ex2-check" tags=["check"]
check.ex16_warm_up(one, cause, rank, node, cure)

# %% [markdown] id="ex3" tags=["exercise"]
# > **Exercise 16.3** — Choose other seeds, as many as you like. Each seed is a different case, and the check keeps
# > your score over the first ten. Your first answer that the check can read counts; a typo does not. The cases cover
# > 22 causes, and 22 consecutive seeds have each cause once.

# %% id="ex3-run" tags=["exercise"]
### BEGIN SOLUTION
### GAP seed = ...  # any whole number
seed = 6
### END SOLUTION
case = lab.mystery(seed)
print(case.wait())

# %% id="ex3-gap" tags=["exercise"]
### BEGIN SOLUTION
### GAP cause, rank, node, cure = ..., ..., ..., ...
found = next(each for each in case.diary.findings if each.kind == "weights")
cause, rank, node, cure = (
    "unequal-weights",
    found.rank,
    found.node,
    "broadcast",
)
### END SOLUTION

# %% id="ex3-check" tags=["check"]
check.ex16_mystery(case, cause, rank, node, cure)

# %% [markdown] id="ex3-why" tags=["solution"]
# The ladder of questions works for all cases. `run.state` and `run.failure` show whether and how the run ended. If
# it ended well, read the weights, samples, order, random numbers, own times and memory in its diary.

# %% [markdown] id="home"
# ## To take home
#
# - The rank that reports an error is rarely the rank that failed. Look for the rank that says something *different*,
#   or nothing.
# - In a hang, get the stacks of all ranks, and find the rank that is not in the collective. Set the time-out
#   yourself.
# - For a mismatch, use `TORCH_DISTRIBUTED_DEBUG=DETAIL` in one run.
# - For a failed rendezvous, test name, route and port with three lines of `srun`.
# - The slope of the memory curve shows a leak, and each rank's own time shows a straggler. For a NaN, find the rank
#   and the sample.
# - A run that looks healthy may be wrong, so write down checksums of weights and samples.
#
# **Reference.** The Llama 3 Herd of Models, 2024: [arXiv 2407.21783](https://arxiv.org/abs/2407.21783).

# %% [markdown] id="clean-idea"
# ## Cleaning up

# %% id="clean"
lab.clean(
    *("healthy", "hang", "timeout", "shape", "shape-detail", "meeting"),
    *("forty-steps", "forty-steps-detail"),
    *(
        "wrong-port",
        "gone",
        "leak",
        "slow",
        "bad-sample",
        "bad-again",
        "explode",
        "disk",
        "same-data",
        "unequal",
        "other-seed",
    ),
    *(one, case),
    yes=True,
)
