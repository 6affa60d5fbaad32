# %% [markdown] id="title"
# # 16 When it breaks
#
# The larger a job, the more of its life is failure. One run of 16 384 GPUs was interrupted 419 times in 54 days, for
# reasons nobody had planned (arXiv 2407.21783). Most of these look alike from outside: nothing is printed any more,
# or four hundred ranks complain at once, nearly all of them about somebody else. In this lesson you break runs on
# purpose, each in a way that is known from clusters, and learn for each the tool that finds it. At the end you get
# cases of which you are told nothing.
#
# | | |
# |---|---|
# | You will be able to | ask a job that hangs where its ranks are; tell who failed from who complained; test a meeting point from outside; find a leak, a straggler and a bad sample; check in three columns that a run computes what it should |
# | Minutes | 60 |
# | Devices | 2 nodes with 2 devices each |
# | Before | lessons 03, 05, 06 and 08 |

# %% id="begin"
import time

import pandas as pd

from course_lib import Lab, check, claim, fault, predict, read, shell, show

lab = Lab()

# %% [markdown] id="diary-idea"
# ## A healthy run first
#
# Who has never looked at a run in health will not see what is ill. `fault.recipe` makes a training run that is as
# small as can be (two layers, ten steps). Without the name of a fault it is healthy.
#
# `diary=True` is set in it: every rank writes **a line each step** about itself into a file of its own. Nothing is
# sent for that, and nobody waits.

# %% id="diary"
healthy = lab.submit(fault.recipe("healthy"))
healthy.require()
of_step = healthy.diary.table.query("iteration == 10")
of_step.drop(columns=["copy", "data", "iteration"]).set_index("rank")

# %% [markdown] id="diary-explain"
# | column | in a healthy run it is |
# |---|---|
# | `weights` (a checksum of all weights, after the step) | **equal** on ranks that hold copies of one model |
# | `samples` (a checksum of each sample that was read) | **different** on each |
# | `loss` (of the rank's own tokens, before anything is summed) | near the others; at the first step near ln(vocabulary) |
# | `grad_norm` (after the sum) | equal |
# | `own_ms` (the step without its messages) | alike, to some tens of per cent where a machine is shared |
# | `step_ms` (the whole step, with messages and waiting) | nearly equal: all wait for the last |
# | `memory_mib` | alike, and level |
# | `random` (a checksum of the generator's state; `None` without dropout, as here) | **different** on each |
#
# Keep these lines in mind; all that follows is one of them going wrong. Megatron-LM compares checksums with the
# flag `--check-weight-hash-across-dp-replicas-interval`, for the same reason.

# %% [markdown] id="hang-idea"
# ## It hangs
#
# In the next run the thread that reads the data of rank 2 ends at step 4, and rank 2 waits for it. The other ranks
# know nothing of that.
#
# **Predict.** Suppose that everybody's patience ends at some time. Whose error will you find in the log?

# %% id="hang-guess"
### BEGIN SOLUTION
### GAP guess_speaker = ...  # "rank 2", "the other ranks" or "all ranks"
guess_speaker = "rank 2"
### END SOLUTION

# %% id="hang"
speaker = predict(
    "16: whose error is in the log of a hang",
    guess_speaker,
    choices=("rank 2", "the other ranks", "all ranks"),
)
hang = lab.submit(fault.recipe("hang", "stuck", rank=2, distributed_timeout_seconds_after_init=120))


# %% id="hang-wait"
def steps_seen(run):
    """Lines in the diary of rank 2, without the first one, which says who it is."""
    file = run.folder / "diary" / "rank2.jsonl"
    return file.read_text().count("\n") - 1 if file.exists() else 0


end_s = time.monotonic() + 60
while steps_seen(hang) < 3 and not hang.ended and time.monotonic() < end_s:
    time.sleep(0.2)
time.sleep(1)
print(hang.reason, "|", steps_seen(hang), "steps")

# %% [markdown] id="stacks-idea"
# A job that hangs is `running`, the queue is content, and nothing happens. (Of a recorded job the state says how it ended.) To watch the log is no use: who hangs prints
# nothing. What helps is to ask each process *where it is*: for the stack of its calls.

# %% id="stacks"
stacks = lab.stacks(hang)
hang.cancel()
stacks

# %% id="stacks-claim" tags=["claim"]
odd = [stack.rank for stack in stacks.odd]
claim("ranks that are elsewhere than the others", len(odd), least=1, most=1)
claim("the rank that is elsewhere", odd[0] if odd else -1, least=2, most=2)

# %% [markdown] id="stacks-explain"
# **Explain.** Three ranks are within `all_reduce`: they wait, and are innocent. One is at another place, and *that*
# is where to read on. The rule for every hang: **not the ranks in a collective, but the one that is not**.
#
# No magic is in it. Each program of the course says at its start
#
#     faulthandler.register(signal.SIGUSR2, file=…, all_threads=True)
#
# after which Python writes the stacks of all its threads whenever that signal comes, even if no thread can run.
# `lab.stacks` starts a small step *beside* the hanging one (`srun --overlap --jobid=…`), which sends the signal on
# each node. (A rank that has not begun yet, or is gone, leaves no answer; ask once the log shows a step.) For a program
# that was not prepared, `py-spy dump --pid …` in such a step does the same from outside
# (where you may look into your own processes).
#
# If you ask no process, you wait for the **time-out**: 10 minutes with NCCL, 30 with gloo, unless you say otherwise. All
# devices are paid for meanwhile. Here it is set to six seconds, on purpose:

# %% id="timeout"
short = lab.submit(fault.recipe("timeout", "stuck", rank=2))
short.wait()
lines = [line for line in short.text.splitlines() if "Timed out" in line or "note:" in line]
print(*[line[:190] for line in lines], sep="\n")

# %% id="timeout-see"
complain = sorted({line.partition("]")[0] for line in lines if "Timed out" in line})
speaker.compare("rank 2" if "[rank2" in complain else "the other ranks")
print(short.failure)

# %% id="timeout-claim" tags=["claim"]
claim(
    "ranks that complain in a line of their own, and only waited",
    len(complain),
    least=1,
    most=3,
    unit="ranks",
)
claim("the rank that did not come", short.failure.rank, least=2, most=2)

# %% [markdown] id="timeout-explain"
# ![Four ranks over time. All make step 3. In step 4 ranks 0, 1 and 3 wait in all_reduce, and at the time-out each says "timed out"; rank 2 waits for its data reader and says nothing.](../images/hang.svg)
#
# The log names those that waited, as far as they came to speak before `srun` ended them. The lines with `note:` are some that this program adds: who has found the same as
# another rank is named there, and does not repeat it; and when others give up, a rank that is not in a collective says
# where it is, by which the cause can be found afterwards. **Who complains is seldom who failed.** `run.failure` reads the whole log under this rule, and calls
# the rest consequences.
#
# PyTorch itself keeps a **flight recorder** of the last collectives of each rank, where `TORCH_FR_BUFFER_SIZE` says how
# many (with NCCL it is written down when a time-out strikes: `TORCH_NCCL_DUMP_ON_TIMEOUT`). It answers the same question
# for ranks that are *all* in a collective, but not in the same one. Here each rank leaves it when it gives up:

# %% id="flight"
print(short.flight)

# %% [markdown] id="mismatch-idea"
# ## They call different things
#
# In the next run all ranks are at work, but rank 2 brings half as many gradients as the others, as happens when a
# layer is frozen on one rank. First as it comes, then with `TORCH_DISTRIBUTED_DEBUG=DETAIL`, which makes ranks
# compare what they are about to call *before* each collective.

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
sizes = told.failure.details
claim("DETAIL names both sizes: the first is", sizes["shape"][0] / sizes["other_shape"][0],
      least=0.5, most=2.0, unit="times the other")  # fmt: skip

# %% [markdown] id="mismatch-explain"
# **Explain.** Without it you are lucky if the library notices: sizes that do not match end one process in the middle
# of the transfer, and equal sizes of *different* collectives may even pass, and sum apples and pears. With it you
# read rank, operation and shape. Why is it not always on? **Predict** by how much a step of a healthy run gets
# longer.

# %% id="detail-guess"
### BEGIN SOLUTION
### GAP guess_longer = ...  # times as long
guess_longer = 2
### END SOLUTION

# %% id="detail"
longer = predict("16: a step with DETAIL", guess_longer, unit="times as long")
checked = lab.submit(fault.recipe("healthy-detail", environment=detail))
checked.require()


def step_ms(run):
    """The quickest step, which nothing else on this machine has held up."""
    steps = run.diary.table.query("iteration > 2").groupby("iteration")["step_ms"]
    return float(steps.max().min())


ratio = step_ms(checked) / step_ms(healthy)
longer.compare(ratio)

# %% id="detail-claim" tags=["claim"]
claim("with DETAIL a step of two collectives takes", ratio, least=0.8, most=4, unit="times as long")

# %% [markdown] id="detail-explain"
# Every collective is now two: all ranks meet first and exchange what they are going to do. That is a fixed price *per
# collective*. A step of this run has two of them, so it may hardly show; with tensor parallelism there are hundreds, each about
# as short as the meeting. And on GPUs all processes wait for each other, on the processor, before each collective: what they had asked of their
# devices in advance runs out, and less of a message hides behind arithmetic. Switch it on to find something, and off again.

# %% [markdown] id="meeting-idea"
# ## Before the first step
#
# A node may have other software than its neighbour, or no way out; and all ranks have to meet at one address and one
# port. What can go wrong has seven faces, all of them in the **first** lines of the log:
#
# | you see | it is |
# |---|---|
# | `ModuleNotFoundError`, `cannot import name`, on one node | another environment there, or an older module |
# | `<urlopen error …>` | something is to be fetched, and compute nodes have no internet (lesson 02): fetch it before the job |
# | `Name or service not known`, or a name that times out | the name: misspelt, or unknown on that node |
# | `Connection refused`, at once, again and again; nothing for a while, then `timed out`, where a library tries again by itself (torch does) | nobody listens there: wrong port, wrong host, or rank 0 has died |
# | a connection to `127.0.0.1` or to its own name, on one node that is not the first | it takes itself for the first: `MASTER_ADDR=$(hostname)`, in a script that every node runs |
# | nothing for a long time, then `timed out`, and no `refused` by hand either | a wall: what you send is thrown away (a firewall, the wrong network card) |
# | `EADDRINUSE`, `address already in use` | two programs want one port: another job, or what an earlier one left |
#
# All of them can be tried **without any training**, in seconds, by a job of your own. Software, name, route and port,
# on each node:

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
    print("All nodes share one network here: that a route leads from one to another is not shown.")

# %% [markdown] id="meeting-see"
# From each node: one software, an address, an open port, and what a wrong port says. Now the same mistake in a
# training run: rank 2 was given yesterday's port.

# %% id="port"
port = lab.submit(fault.recipe("wrong-port", "wrong-port", rank=2))
port.wait()
lines = [line for line in port.text.splitlines() if "timed out" in line or "did not come" in line]
print(*[line[:260] for line in lines], port.failure.title, f"rank {port.failure.rank}", sep="\n")

# %% id="port-claim" tags=["claim"]
claim("the rank that did not come to the meeting", port.failure.rank, least=2, most=2)

# %% [markdown] id="port-explain"
# Two sides, and two ports. The network library in the rank that found nobody says where it looked; so does the rank itself, if
# it is not ended before. (Torch asks a port that refuses again and again and tells only of its time-out: ask by hand, as above, to
# hear `Connection refused`.) One of
# those that waited says where they met, and *who* did not come: it knows, because each rank leaves its name at the
# meeting point first.

# %% [markdown] id="gone-idea"
# ## Somebody is gone
#
# A process that is killed says nothing; nor does a node. In the next run all processes of one node vanish in step 4.

# %% id="gone"
gone = lab.submit(fault.recipe("gone", "node-dies", rank=2))
gone.wait()
print(gone.failure)
# !sacct -j {gone.job_id} --format=JobID,JobName,State,ExitCode,NodeList

# %% id="gone-claim" tags=["claim"]
claim("ranks that were killed", len(gone.failure.ranks), least=2, most=2, unit="ranks")
claim("the first of them", min(gone.failure.ranks), least=2, most=2)

# %% [markdown] id="gone-explain"
# **Explain.** Who started the processes tells: `srun` names tasks and node, `torchrun` exit code −9 (minus the number
# of the signal). In `ExitCode` stand two numbers, an exit code and a signal: `0:15` of the step is the SIGTERM with which
# `srun` ended the tasks that were left, and `15:0` that the script ended with 143, of which `sacct` takes off 128: SIGTERM again, as `srun` told it. Neither is the cause.
# Count the tasks that were killed. One task: most often the kernel, which had no memory left and took the largest process
# (`sacct` then says `OUT_OF_MEMORY`, or the node's own log does). All tasks of a node: the node. Where Slurm itself
# notices, the state is `NODE_FAIL`. All else in the log is about peers that went away, and comes *from* the others.

# %% [markdown] id="disk-idea"
# ## The disk is full
#
# Checkpoints are large, and disks are shared. In the next run the disk is full from step 4 on; a checkpoint is due every
# third step.

# %% id="disk"
disk = lab.submit(fault.recipe("disk", "disk-full"))
disk.wait()
for line in disk.text.splitlines():
    if "checkpoint" in line and ("successfully" in line or "No space" in line):
        print(line[:150])

# %% id="disk-claim" tags=["claim"]
claim(
    "steps of a training without room for checkpoints", len(disk.log.iterations), least=10, most=10
)
newest = disk.folder / "checkpoints" / "latest_checkpointed_iteration.txt"
claim("the step of its last good checkpoint", int(newest.read_text()), least=3, most=3)

# %% [markdown] id="disk-explain"
# **Explain.** `[Errno 28] No space left on device` is the operating system's word, whoever prints it; a quota says
# `Disk quota exceeded`. That rank 0 tells it means only that it speaks for all who write. This program goes on: a later
# checkpoint may find room. But it ends with an error if the last one did not, since work that is nowhere written down is
# lost. Many programs end at once. `df -h` and the quota command of your site say what is left; `rm` of old checkpoints
# helps now, and to keep only the last few (or to write to a scratch file system) the next time.

# %% [markdown] id="leak-idea"
# ## The memory of one
#
# "Out of memory" has two kinds. Either one allocation is too large, or something is kept that should not be, and the
# end comes with patience. In the next run rank 2 keeps a copy of its weights and gradients of every step, "for a
# plot": 5 MB each time. Devices have 205 MiB here, of which the healthy run uses what its diary says above.
#
# **Predict.** At which step does the run end, if it may make 40?

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
claim("memory of rank 2 grows each step by", slope[2], least=3.0, most=7.0, unit="MiB")
claim("memory of the others grows by at most", slope.drop(2).max(), most=1.0, unit="MiB")

# %% [markdown] id="leak-explain"
# **Explain.** The error message tells of the tensor that did not fit any more, which is innocent: an ordinary one, of an
# ordinary size. (Where that is the size of a step's leak, it is chance: the diary adds up the weights in numbers of 8 bytes, which
# takes as much for a moment.) The **slope** names the rank, and its size what is kept: 5 MB are one copy of all weights and
# gradients. (Who divided what was free by 5 MB came close, to a few steps: what a process holds is counted in more
# than one way.) A line that is level, and then one step to the ceiling, is the other kind: a long sample, an uneven pipeline
# stage (lesson 06). The usual leak in PyTorch is shorter than this one: `total += loss` keeps the loss *with its whole
# graph*; `loss.item()` keeps a number.

# %% [markdown] id="slow-idea"
# ## One is slow
#
# A device that has grown too hot lowers its clock. In the next run all that rank 2 computes takes three times as long.
#
# **Predict.** One of four devices is slower. How much longer does a step of the whole job take?

# %% id="slow-guess"
### BEGIN SOLUTION
### GAP guess_slower = ...  # times as long
guess_slower = 3
### END SOLUTION

# %% id="slow"
slower = predict("16: a step with one slow device", guess_slower, unit="times as long")
slow = lab.submit(fault.recipe("slow", "slow-rank", rank=2))
slow.require()
slower.compare(step_ms(slow) / step_ms(healthy))
show.diary(slow, "own_ms")

# %% id="slow-claim" tags=["claim"]
by_rank = slow.diary.table.query("iteration > 2").groupby("rank")
own_ms = by_rank["own_ms"].min()  # of the quickest step, as above
others_ms = own_ms.drop(2).median()
lost_ms, all_lose_ms = own_ms[2] - others_ms, step_ms(slow) - step_ms(healthy)
print(f"rank 2 works {lost_ms:.0f} ms longer than the others in each step,")
if all_lose_ms > lost_ms / 2:
    print(f"and a step of the job is {all_lose_ms:.0f} ms longer")
else:
    print("but a step of the job is hardly longer: devices share processors here, and the others")
    print("compute with what rank 2 leaves, as devices of their own could not")
claim("the slow rank is rank 2", own_ms.idxmax(), least=2, most=2)
claim("its own time is longer than the others'", own_ms[2] / others_ms, least=1.8, unit="times")
claim("the step of the slowest rank, of that of the fastest",
      by_rank["step_ms"].median().max() / by_rank["step_ms"].median().min(),
      least=1, most=1.4, unit="times")  # fmt: skip

# %% [markdown] id="slow-explain"
# **Explain.** Most of what one loses, all lose: they wait for the last one, at every step. (Not three times: messages and
# Python take what they took.) In the time *of a step* all four ranks look nearly alike: what differs is how long each
# updates its weights, after which nobody waits within the step. The **own** time, without the messages, tells them
# apart. (Lesson 05 found the same in a profile; this column costs nothing, and is there on the
# day that it happens.) No error, no exit code; `sinfo` calls the node idle or allocated as ever. What helps is to leave
# it out: `--exclude=<node>`, and a word to those who run the cluster.

# %% [markdown] id="nan-idea"
# ## Suddenly NaN
#
# One sample in the data has no token that counts. Its mean loss is 0 / 0, and one NaN in a sum makes the sum NaN: one
# step later every weight on every rank is lost. So training stops at the first one, and the question is *whose* it
# was.

# %% id="nan"
bad = fault.recipe("bad-sample", "bad-sample", rank=2, save=True, save_interval=2)
nan = lab.submit(bad)
nan.wait()
nan.diary.beside("loss").round(3)

# %% id="nan-see"
for found in nan.diary.findings:
    print(found)

# %% [markdown] id="nan-explain"
# The loss of **one** rank, before anything was summed, and with it the samples that it had read. Is it the sample, or
# the device? Bisect: go back to the last checkpoint before, which has good weights, and run the same steps once more,
# with the same data, **on other devices**. If the same *sample* fails again, it is the data. If it does not, and the same
# *device* fails with other samples, it is the device. (On the box all devices are the processors of one machine: the same will do.)
#
# This time with `detect_anomaly`, under which autograd looks at every gradient, and stops where the first NaN comes
# from:

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
claim("steps that were repeated to find it", from_checkpoint, least=2, most=2, unit="steps")
claim("it is the same rank again", again.failure.rank, least=2, most=2)

# %% [markdown] id="anomaly-explain"
# The message names an operation, and the log above it the line of the forward pass that made it: the one that divides
# by the number of tokens. (0 / 0 on the way forward is x / 0 on the way back, which is infinite, and times 0 it is
# NaN: so autograd may stop one operation later than you would.) The cure is one `clamp(min=1)` there, or a filter
# before. Every gradient is looked at, which takes time: switch it on for the two steps between the checkpoint and the
# NaN, not for the week before.

# %% [markdown] id="explode-idea"
# There is another way to a NaN, which no sample explains: a learning rate that is too high. Here it is too high from
# step 4 on. Whose loss was it first?

# %% id="explode"
explode = lab.submit(fault.recipe("explode", "exploding"))
explode.wait()
for found in explode.diary.findings:
    print(found)
explode.diary.beside("loss").round(3)

# %% id="explode-claim" tags=["claim"]
losses = explode.diary.beside("loss").dropna()
claim("ranks whose loss leaves its range at the same step",
      (losses.iloc[-1] > 3 * losses.iloc[0]).sum(), least=4, most=4, unit="ranks")  # fmt: skip

# %% [markdown] id="explode-explain"
# **Explain.** Nobody's, and everybody's at once: an update reaches all copies of the weights, so all losses rise in the
# step after it, each on good data, and the sum of the gradients is a NaN on all ranks. (The log names the rank that said
# so, and the others after `note:`.) What helps is what the message says: a lower rate, a longer warm-up, clipping.

# %% [markdown] id="silent-idea"
# ## Nothing is wrong, and the result is
#
# The worst faults end no run. In the next two runs, all ranks read the same samples (a sampler that was not told its
# rank), or rank 2 began with other weights than the rest.
#
# **Predict.** How do their loss curves look beside the healthy one, and that of a healthy run with another seed?

# %% id="silent-guess"
### BEGIN SOLUTION
### GAP guess_curves = ...  # "far off", "alike" or "NaN"
guess_curves = "far off"
### END SOLUTION

# %% id="silent"
curves = predict(
    "16: loss of silently wrong runs", guess_curves, choices=("far off", "alike", "NaN")
)
same = lab.submit(fault.recipe("same-data", "same-data"))
unequal = lab.submit(fault.recipe("unequal", "unequal-weights", rank=2))
other = lab.submit(fault.recipe("other-seed", seed=7))
for run in (same, unequal, other):
    run.require()
show.loss(healthy, other, same, unequal)


# %% id="silent-see"
def furthest(run):
    return (run.log.iterations["lm_loss"] - healthy.log.iterations["lm_loss"]).abs().max()


curves.compare("alike" if max(furthest(same), furthest(unequal)) < 0.4 else "far off")
for run in (other, same, unequal):
    found = "; ".join(map(str, run.diary.findings)) or "nothing found"
    print(f"{run.name}: at most {furthest(run):.2f} from the healthy one; {found}")

# %% id="silent-claim" tags=["claim"]
claim("equal data move the loss by at most", furthest(same), most=0.4, unit="nats")
claim("unequal weights move it less than another seed does",
      furthest(unequal) / furthest(other), most=1, unit="times")  # fmt: skip
claim("the diary finds both", len(same.diary.findings) + len(unequal.diary.findings), least=2)
claim("it finds in the healthy run", len(healthy.diary.findings), most=0, unit="faults")

# %% [markdown] id="silent-explain"
# **Explain.** No curve tells you. The loss falls in all four. Unequal weights move it less than another seed does. With
# equal data four devices learn what one would, at four times the price; beside a right run that shows, but who has a
# right run beside it? Alone, it looks like a learning rate that could be better. What tells you are **invariants**:
# sentences that must be true in every step, whatever is trained.
#
# | invariant | broken by |
# |---|---|
# | weights of copies have one checksum | unequal start, a rank that skipped a step, a device that computes wrongly |
# | samples of data ranks have different ones | a sampler without its rank |
# | after an epoch the order is another one | `set_epoch` forgotten |
# | generators of data ranks are in different states | dropout seeded without the rank |
# | the first loss is near ln(vocabulary) | labels shifted, a wrong mean, a checkpoint not loaded |
# | the mean of unequal means is not taken | losses averaged over ranks with unequal token counts (`code/weigh_tokens.py`, lesson 10) |
#
# A checksum of all weights costs one pass over them, and comparing one number per rank costs nothing. Put them in
# before you need them.

# %% [markdown] id="real-idea"
# ## What a real cluster adds
#
# Some faults cannot be planted on a laptop. They leave lines, too. Each of these, in the form in which machines print
# it, is the *only* line that matters among thousands:

# %% id="real"
LINES = {
    "a GPU is gone": "NVRM: Xid (PCI:0000:3b:00): 79, pid=2213, GPU has fallen off the bus.",
    "a GPU's memory had an error that could not be corrected": "NVRM: Xid (PCI:0000:86:00): 94, pid=9177, Contained: SM (0x1). RST: No",
    "a link flaps": "mlx5_core 0000:0c:00.0: Port: 1 Link DOWN",
    "the clock is lowered": "Clocks Event Reasons: HW Thermal Slowdown: Active",
    "a node is drained": "Kill task failed     root      2024-03-02T04:11:09 node017",
    "a rank is lost": "[rank3]: torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:2006, "
    "remote process exited or there was a network error, NCCL version 2.20.5",
    "a collective waited": "[rank0]:[E410 17:25:53.8 ProcessGroupNCCL.cpp:683] [Rank 0] Watchdog caught collective "
    "operation timeout: WorkNCCL(SeqNum=2, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for "
    "600010 milliseconds before timing out.",
}
pd.DataFrame(LINES.items(), columns=["what it is", "the line"]).style.hide(
    axis="index"
).set_properties(**{"text-align": "left"})

# %% [markdown] id="real-explain"
# The first four stand in the log of the *node* (`dmesg`, `nvidia-smi -q`), which you may have to ask for; `sinfo -R`
# shows why nodes are drained; the last two in your own. Read the last one like the hang above: rank 0 *waited*. With
# `SeqNum=2` it was in its second collective: start-up, and not the middle of training. Now put them together, as they
# come: rank 1's own error comes ten minutes before everybody else's (in a real log, many lines above them). This happens where the rank that
# failed cannot end, or where nothing ends the job with it; with `--kill-on-bad-exit` or torchrun the others are ended within seconds.

# %% id="real-read"
log = [
    *["[rank1]: Traceback (most recent call last):",
      "[rank1]: FileNotFoundError: [Errno 2] No such file or directory: '/cache/doc_idx.npy'"],
    *[LINES["a collective waited"].replace("ank0]", f"ank{r}]").replace("Rank 0", f"Rank {r}") for r in (0, 2, 3)],
    LINES["a rank is lost"],
]  # fmt: skip
file = lab.work / "recorded.log"
file.parent.mkdir(exist_ok=True)
file.write_text("\n".join(log) + "\n")
print(read.failure(file))

# %% id="real-claim" tags=["claim"]
claim("the first cause is on rank", read.failure(file).rank, least=1, most=1)

# %% [markdown] id="ex1" tags=["exercise"]
# ## Which question first
#
# ![A ladder of questions. Did it make a step? If not: the surroundings or the meeting point. Did it end well? The diary. Is it still there, and silent? Stacks of all ranks. Was memory refused? The slope. Is a number no number? Whose loss was it first. Was somebody killed? One task, or a node. If not, it says itself why: the first error of the log.](../images/which_fault.svg)
#
# ## Exercises
#
# > **Exercise 16.1** — A job on 96 nodes with 4 devices each hangs, and nobody looks. NCCL's time-out is left at its
# > 10 minutes. How many device-hours does the hang cost?

# %% id="ex1-gap" tags=["exercise"]
### BEGIN SOLUTION
### GAP device_hours = ...
device_hours = 96 * 4 * 10 / 60
### END SOLUTION

# %% id="ex1-check" tags=["check"]
check.ex16_hang(device_hours)

# %% [markdown] id="ex2" tags=["exercise"]
# > **Exercise 16.2** — A blind case. `lab.mystery(1)` submits a run with one fault; name and script tell nothing.
# > Look at it with what you have (`run.failure`, `run.diary.findings`, `show.diary`, `lab.stacks` while it runs).
# > Then choose the cause and the cure from the two lists, by name or by number. Write down the rank and the node that
# > have the fault: `None` if it is no single one, and a list if it is all ranks of a node. A traceback may lead into
# > `code/faults/`, where this course keeps its faults; in life it would lead into your program.
# >
# > The cell below waits until the run is over, which is enough for most cases. Ranks give up after six
# > seconds in it. To ask one *while it hangs*, submit the same case once more, with more patience:
# > `lab.submit(one.recipe.but(name="once-more", distributed_timeout_seconds_after_init=100))`. It has the same fault.

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
    one.failure.rank,
    one.failure.node,
    "same-modules",
)
### END SOLUTION

# %% id="ex2-check" tags=["check"]
check.ex16_warm_up(one, cause, rank, node, cure)

# %% [markdown] id="ex3" tags=["exercise"]
# > **Exercise 16.3** — Now any other seed, ten of them if you like: each is another case, and the check keeps your
# > score over the first ten. What counts is the first answer that the check can read; a typo does not. The cases have
# > 22 of the causes, and 22 seeds that follow each other have one of each.

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
# A way through all of them: *Did it end, and how?* (`run.state`, `run.failure`.) *Did it make steps?* If not, it is
# the environment or the meeting point. *Did it stop in the middle?* Then who was not in a collective. *Did it end
# well?* Then the diary: weights, samples, order, random numbers, own time, memory.

# %% [markdown] id="home"
# ## To take home
#
# - Who complains is seldom who failed. Look for the rank that says something *else*, or nothing.
# - A hang: stacks of all ranks; the culprit is the one that is not in the collective. Set time-outs on purpose.
# - A mismatch: `TORCH_DISTRIBUTED_DEBUG=DETAIL`, for one run.
# - A meeting: name, route, port, by three lines of `srun`, before any training.
# - Memory: the slope. A straggler: own time. A NaN: whose loss, which sample, from the last good checkpoint.
# - A run that looks well is not thereby right: write down checksums of weights and samples.

# %% [markdown] id="clean-idea"
# ## Cleaning up

# %% id="clean"
lab.clean(
    *("healthy", "hang", "timeout", "shape", "shape-detail", "healthy-detail", "meeting"),
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
