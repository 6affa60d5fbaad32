# %% [markdown] id="title"
# # 04 Topology: the roads between the devices
#
# In lesson 03 four devices averaged their gradients after every step. You saw that it takes time, and that
# two nodes are not twice as fast as one. Why so long, and could you have known before? In this lesson you
# look at the roads that the gradients take, measure them, work out how long the averaging must take, and
# check it. Then you make the road between the nodes worse, and watch training suffer.
#
# | | |
# |---|---|
# | You will be able to | read NCCL's channel lines and tell a good road from a bad one; measure latency and bandwidth between any two devices; predict the time of an all-reduce from them; say what a slow network costs |
# | Minutes | 35 |
# | Devices | 2 nodes with 2 devices each |
# | Before | lesson 03 |

# %% id="begin"
import pandas as pd

from course_lib import Lab, check, claim, gpt, links, plan, predict, read, show

lab = Lab()

# %% [markdown] id="node-idea"
# ## The roads of a node
#
# NVLink, PCIe, InfiniBand: these words are easier to tell apart in a picture. This is a cluster on which models were
# trained; the numbers are what large transfers of one device reach over each road, in one direction:

# %% id="node"
show.node(plan.CLUSTERS["selene"])

# %% [markdown] id="node-explain"
# From the bottom: every GPU reaches every other of its node through the **NVSwitch**, over NVLink, by far the widest
# road. Over **PCIe**, the bus of the computer itself, it reaches the processor, and a network adapter (**NIC**).
# With *GPUDirect RDMA* the adapter reads the GPU's memory itself (remote direct memory access); without, everything is
# copied into main memory first. Adapters with the same number, on some dozens of nodes, hang on the same **leaf** switch, a
# *rail*; a **spine** joins the leaves. So GPU 1 of a node reaches GPU 1 of these nodes through one switch.
#
# On a machine with NVIDIA's GPUs, `nvidia-smi topo -m` prints this picture as a table, a word for each pair: `NV12` is
# twelve NVLinks, `PIX` one PCIe switch, `NODE` a detour through one processor, `SYS` through two.

# %% [markdown] id="ask-idea"
# ## Who talks to whom, and over what?
#
# A training program does not choose its roads itself. It says "add this up over all ranks", and a library for
# communication does the rest. On NVIDIA's GPUs that library is **NCCL**. When it starts it looks at the
# machine: which devices share a fast connection, which network adapters there are. From this it plans
# *channels*, routes along which data will flow. Set the variable `NCCL_DEBUG=INFO` in a job, and NCCL prints
# what it found.
#
# The next job sets the variable. It starts one process on each device and, since it is there anyway, measures
# the roads between all of them with messages of up to 4 MiB (`4 << 20` bytes); you will need that later.

# %% id="roads-run"
roads_recipe = links.recipe(
    "roads", nodes=2, gpus_per_node=2, max_bytes=4 << 20, environment={"NCCL_DEBUG": "INFO"}
)
roads = lab.submit(roads_recipe)
roads.require()
print(f"the four processes talked through {roads.links.backend}")

# %% [markdown] id="backend-idea"
# `nccl`: your devices are GPUs, and the log of this job holds NCCL's own lines. `gloo`: they are processors; gloo does
# the same work there, and prints nothing about its roads. Then the course hands out a log **as NCCL would print it** on
# such a cluster. It was generated after real logs, line by line, and no machine has printed it. Its first line says that it
# is simulated, and so does every picture made from it.


# %% id="log"
if roads.links.backend == "nccl":
    nccl_file = roads.log_file
else:
    nccl_file = lab.workspace.runs / "simulated-nccl.log"
    nccl_file.write_text(plan.nccl_log(nodes=2, devices_per_node=2, between="sockets"))

# %% id="log-head"
# !head -n 1 "{nccl_file}" | cut -c 1-140

# %% id="log-grep"
# !grep "Channel 00" "{nccl_file}" | cut -c 1-140

# %% [markdown] id="line-explain"
# Take one of the lines that end in `via …` apart. (Your nodes and numbers may be others.)
#
# | part | says |
# |---|---|
# | `node1:40107:40147 [1]` | who printed it: the node, the process, its thread, the device within the node |
# | `Channel 00/0` | the channel, and which of its connections (in `Channel 00/02 :`, how many channels there are); a large transfer is cut up and takes several channels at once |
# | `1[1] -> 2[0]` | from rank 1, which is device 1 of its node, to rank 2, which is device 0 of its own (older versions print a bus address in the brackets) |
# | `[send]`, `[receive]` | which end of the link prints; links inside a node are printed once, by the sender |
# | `via …` | the road |
#
# The last part is what you came for:
#
# | road | means |
# |---|---|
# | `P2P/…` (peer to peer) | one device writes into or reads from the memory of the other directly, over NVLink or a PCIe switch |
# | `SHM/…`, `direct shared memory` | through the node's main memory: the devices cannot reach each other |
# | `NET/IB/0/GDRDMA` | over network adapter 0, InfiniBand, which reads the device's memory itself (GPUDirect RDMA) |
# | `NET/IB/0` | over the same adapter, but first copied into main memory |
# | `NET/Socket/0` | over an ordinary network connection, through the operating system |

# %% [markdown] id="picture-idea"
# **Predict.** Four ranks, two on each node. If you draw an arrow for every pair of ranks that NCCL links, how
# many lines will run between the two nodes? (A line may have an arrow head at both ends.)

# %% id="picture-guess"
### BEGIN SOLUTION
### GAP guess_lines = ...  # between the nodes
guess_lines = 4
### END SOLUTION

# %% id="picture"
lines = predict("04: lines between two nodes of two ranks", guess_lines, unit="lines")
nccl = read.nccl(nccl_file)
show.topology(nccl)

# %% id="picture-see"
everyone = nccl.ranks[nccl.ranks["communicator"] == nccl.largest()]
host = dict(zip(everyone["rank"], everyone["host"], strict=True))
# From each rank (row) to each rank (column); empty where there is no link.
roads_taken = nccl.matrix()
pairs = {frozenset((a, b)) for a in roads_taken for b in roads_taken if roads_taken.loc[a, b]}
crossing = [pair for pair in pairs if len({host.get(rank) for rank in pair}) == 2]
lines.compare(len(crossing))

# %% [markdown] id="picture-explain"
# *Boxes are nodes, circles are ranks. A line joins two ranks that NCCL has linked; its colour is the road.*
#
# **Explain.** Four pairs could talk across, so the likely thought is that all four do. NCCL links only who is a neighbour
# in one of two shapes:
#
# - a **ring** through all ranks: every rank sends to the next one only. Good for large transfers, since every link is in
#   use all the time.
# - a **tree**: sums flow up to one rank and the result flows down again. Good for small transfers, since the
#   way from the leaves to the root is short.
#
# (Where switches can add, there is a third way: all send to the switch, which sums up. NCCL calls it NVLS inside a node and
# CollNet between nodes, and prints lines of its own about it.)
#
# Where each device has an adapter of its own, every channel gets a ring and a tree of its own, and all four pairs may be
# linked. The log tells which line belongs to which: `Channel 00/02 :` is the ring in order, and the `Trees` lines give
# `children->rank->parent`.


# %% id="rings"
rings = nccl.rings[nccl.rings["communicator"] == nccl.largest()]
rings[["channel", "order"]].head(4)

# %% [markdown] id="describe-idea"
# ## Five clusters that differ in one word
#
# Here are the logs of five clusters of four nodes with four devices each, generated after real ones, too. Each differs from the one before in one word of
# its description: another network, then GPUDirect, then no NVLink but a PCIe switch between the devices, then no such
# switch either.
#
# **Predict.** Which of these four changes alter the roads *inside* a node?

# %% id="describe-guess"
### BEGIN SOLUTION
### GAP guess_inside = ...  # a list of names: "InfiniBand", "GPUDirect", "no NVLink", "no switch"
guess_inside = ["GPUDirect", "no NVLink", "no switch"]
### END SOLUTION

# %% id="describe"
changes = {
    "InfiniBand": {"between": "infiniband"},
    "GPUDirect": {"gpu_direct": True},
    "no NVLink": {"inside": "pcie"},
    "no switch": {"inside": "memory"},
}
inside_guess = predict("04: changes inside a node", guess_inside, choices=list(changes))


def roads_of(words):
    """Kind of road and number of lines, in the log of such a cluster."""
    path = lab.workspace.runs / "described-nccl.log"
    path.write_text(plan.nccl_log(nodes=4, devices_per_node=4, **words))
    return read.nccl(path)


words, before, rows, altered = {"between": "sockets"}, None, [], []
for change in ("sockets", *changes):
    words |= changes.get(change, {})
    described = roads_of(words).transports
    rows += [{"cluster": change, "road": road, "log lines": n} for road, n in described.items()]
    inside_now = {road for road in described if not road.startswith("NET")}
    if before is not None and inside_now != before:
        altered.append(change)
    before = inside_now
inside_guess.compare(altered)
pd.DataFrame(rows)

# %% id="describe-picture"
show.topology(roads_of(words))

# %% [markdown] id="describe-explain"
# *The last of the five clusters. The key names the kind of road; whether an adapter reads the devices' memory itself
# (`GDRDMA`) stands in the table.*
#
# **Explain.** Nothing in these logs is an error. A job whose log says `NET/Socket` on a cluster that has
# InfiniBand runs to its end, with the right losses, and is many times slower than it could be; usually the
# container lacks the adapter's library, or a variable such as `NCCL_IB_DISABLE` was left over from a test.
# The same is true of `SHM` where you expected `P2P`, and of a missing `GDRDMA`. That is why people who train
# on many nodes read these lines once at the start of every new set-up, and then no more.
#
# How much do the roads differ? These are clusters that models were trained on, and types of node that clusters are made of, with the bandwidth of one *device*, over
# all its links, in one direction. It is that of the data sheet, times the share of it that large transfers reach in published
# measurements (0.80 inside a node, 0.85 between). The last column says how many times as much the road inside a
# node carries as the one between them:


# %% id="published"
known = [plan.CLUSTERS[name] for name in ("dgx-2", "juwels-booster", "selene", "dgx-h100")]
pd.DataFrame(
    {
        "cluster": [where.name for where in known],
        "device": [where.device.name for where in known],
        "inside (GB/s)": [where.within.gb_per_s for where in known],
        "between (GB/s)": [where.across.gb_per_s for where in known],
        "inside ÷ between": [
            round(where.within.gb_per_s / where.across.gb_per_s, 1) for where in known
        ],
    }
)

# %% [markdown] id="measure-idea"
# ## Measure your own roads
#
# What a road is called is one thing, how fast it is another. The job `roads` played ping-pong between every
# pair of devices with messages from 1 KiB to 4 MiB. This is the rate of the largest message, in GB (10⁹ bytes)
# per second; each square is a pair of ranks, and dark is fast:

# %% id="heat"
show.link_heat(roads.links.bandwidth_gb_s)

# %% [markdown] id="heat-explain"
# Ranks 0 and 1 share a node, 2 and 3 share the other. If the pairs 0–1 and 2–3 stand out, you have just found the
# topology without asking anyone. Now one pair of each kind, over all sizes:


# %% id="curve"
show.link_curve(roads.links, pairs={"inside a node": (0, 1), "between the nodes": (1, 2)})

# %% [markdown] id="curve-explain"
# *Time of one message against its size. Points are medians; from each a stroke reaches to the quickest message of its size.*
#
# Both axes are logarithmic. Each curve has two parts. Small messages all take about the same time, however
# small they are: that is the **latency**, written α (alpha). Large messages take a time that grows in
# proportion to their size: how many bytes pass per second is the **bandwidth** *B*. The lines
# are the simplest rule that has both parts,
#
# $$\text{time} = \alpha + \frac{\text{size}}{B}$$
#
# with both fitted to your measurements: *B* is the rate of the large messages, α the least time of the smallest one, less what
# its 1 KiB takes at *B*. Where something disturbed the large messages, *B* is taken from the quickest of each size: for
# such a pair the table below shows more than the square above, which has the median.
# (Papers write β for 1/*B*, seconds per byte, and speak of the α–β model.) The bend lies where both parts are equal,
# at a size of α·*B*: about the last column of the table below, where the latency stands in for α. Far below it, sending less saves hardly any time. Points
# may lie above their line where a process waited for a core, and under it where a network's buffers swallow the first
# few hundred KB at once, so that only the rest has to queue, or, inside a node, where a message still fits
# a cache. (So the squares above may show a little more than the link carries.)
# The table takes all pairs of a road together: of their latencies, each the whole time of 1 KiB (so where *B* is small it is more
# than α), the least; of their bandwidths the median.

# %% id="roads"
table = roads.links.roads.copy()
table["bend_at_kb"] = table["latency_ms"] * table["bandwidth_gb_s"] * 1e3
table.round(3)

# %% id="roads-claim" tags=["claim"]
inside, between = (
    table.set_index("road").loc[road] for road in ("inside a node", "between the nodes")
)
bandwidth = inside["bandwidth_gb_s"] / between["bandwidth_gb_s"]
claim(
    "by the median of all pairs, more fits through inside a node",
    bandwidth,
    least=3,
    unit="times",
)
sooner = between["latency_ms"] / inside["latency_ms"]
claim("the roads differ more in width than in latency", bandwidth / sooner, least=2, unit="times")

# %% [markdown] id="time-idea"
# ## How long do the gradients travel?
#
# The model of lesson 03 has as many gradients as parameters, each of 4 bytes. The **planner**, `plan`, knows
# models by their shape, and counts them without running anything. (The recipe is that of lesson 03 with few
# steps, two of them recorded; it is run further down.)

# %% id="bytes"
dp4 = gpt.recipe(
    "dp4",
    nodes=2,
    gpus_per_node=2,
    micro_batch=2,
    global_batch=8,
    iterations=7,
    profile=(4, 6),
    profile_ranks=[0, 1, 2, 3],
)
gradient_bytes = 4 * plan.parameters(gpt.model(dp4)).total
print(f"{gradient_bytes / 1e6:.2f} MB of gradients on every device")

# %% [markdown] id="ring-idea"
# In a ring of *d* devices the gradients are cut into *d* pieces. In each step every device sends one piece to
# its neighbour on the right and takes another from its neighbour on the left. After *d* − 1 steps every device
# holds the finished sum of one piece; another *d* − 1 steps pass the sums round. Step through it, and count the
# steps and what one device sends in each:

# %% id="ring-story"
show.moving.collective("all-reduce", ranks=4, algorithm="ring")

# %% [markdown] id="ring-predict"
# **Predict.** You know the size, and you have measured both roads. How many milliseconds does one
# all-reduce over your four devices take? Work it out on paper before you look further.

# %% id="ring-guess"
### BEGIN SOLUTION
### GAP guess_ms = ...  # milliseconds
guess_ms = 60
### END SOLUTION

# %% [markdown] id="ring-formula-idea"
# The rule of the last section, applied to the ring: 2 (*d* − 1) steps, each with a message of size / *d*. All
# devices step together, so each step takes as long as its slowest message, and that is one that crosses
# between the nodes.


# %% id="ring-formula"
def ring_ms(size_bytes, devices, road):
    """Time of an all-reduce in a ring whose slowest link is `road`."""
    steps = 2 * (devices - 1)
    piece_ms = size_bytes / devices / (road["bandwidth_gb_s"] * 1e6)  # 1 GB/s is 1e6 bytes per ms
    return steps * (road["latency_ms"] + piece_ms)


ring_guess = predict("04: all-reduce of the gradients in a ring of four", guess_ms, unit="ms")
predicted_ms = ring_ms(gradient_bytes, 4, between)
print(f"the formula says {predicted_ms:.0f} ms")

# %% [markdown] id="ring-run-idea"
# And the check: ten all-reduces of exactly this size, in a ring, and nothing else.

# %% id="ring-run"
ring_recipe = links.recipe("ring", nodes=2, gpus_per_node=2, bytes=gradient_bytes, repeat=10)
ring = lab.submit(ring_recipe)
ring.require()
ring_guess.compare(pd.Series(ring.links.all_reduce_ms).median())
show.guess(
    ring_guess.guess,
    ring.links.all_reduce_ms,
    predicted_ms,
    unit="ms",
    what="one all-reduce of the gradients",
)


# %% id="ring-claim" tags=["claim"]
def quick_ms(run):
    """Of its all-reduces, one of the quicker: what disturbs makes them longer, never shorter."""
    return float(pd.Series(run.links.all_reduce_ms).quantile(0.25))


measured_ms = quick_ms(ring)
claim(
    "the formula knows the ring's time",
    measured_ms / predicted_ms,
    least=1.0,
    most=1.5,
    unit="times",
)

# %% [markdown] id="ring-explain"
# **Explain.** Common first guesses, and what they leave out:
#
# - *The size divided by the bandwidth between the nodes.* Of the four pieces of a ring of four, three
#   cross it to be added up, and three as part of the result: 2 · 3 / 4 = 1.5 times the whole.
# - *Twice that, since two of the four links cross.* They do, one in each direction, but both carry their
#   pieces at the same time, and the road has a lane for each direction.
# - *The mean of the fast and the slow road.* In each step everyone waits for the slowest. The fast links
#   inside the nodes spend most of the time idle.
#
# Your points lie somewhat above the formula. It was made from pairs that had the machine to themselves, and knows
# nothing of the additions between the steps, of pieces that travel in portions of 256 KiB, each with its latency, nor of
# four ranks that have to come to each step together. A model
# that is off in a known direction, for a known reason, is still worth having.
#
# People who test networks turn the formula round. From the time of an all-reduce they work out what each link must
# have carried, and call it **bus bandwidth**: 2 (*d* − 1) / *d* × size / time. Unlike size / time, it can be compared
# with the data sheet, for any number of devices:

# %% id="bus"
bus_gb_s = 2 * 3 / 4 * gradient_bytes / (measured_ms * 1e6)
print(f"bus bandwidth {bus_gb_s:.3f} GB/s of {between['bandwidth_gb_s']:.3f} between the nodes")

# %% [markdown] id="step-idea"
# ## A slower road
#
# Now the whole training step. Run the model of lesson 03 for a few steps, with the profiler on all ranks,
# once on the network as it is, and once with a road between the nodes that is four times slower. Where the
# course brings the cluster (the box), the lab can change the link. On a real cluster the link is what it is;
# there the second run goes over ordinary sockets instead of the fast adapter, if there is one.

# %% id="slow-lab"
if lab.site.box:
    gbit = lab.site.link_gbit or 1.0  # 0 stands for the usual link of the box
    slow_lab, slower = lab.but(link_gbit=gbit / 4), {}
    print(f"asked for: a link of {gbit / 4:g} Gbit/s between the nodes instead of {gbit:g},")
    print(f"that is {gbit / 32:g} GB/s instead of {gbit / 8:g} (in flat mode it stays as it is)")
else:
    slow_lab, slower = lab, {"NCCL_IB_DISABLE": "1", "NCCL_NET": "Socket"}
    print(
        "a real cluster: its link stays as it is, and NCCL, where it is used, is told to take sockets"
    )
    print("(read 'over sockets' where it says 'four times slower' below)")

# %% [markdown] id="slow-predict"
# **Predict.** If the road is four times slower, how many times longer is the all-reduce? And how many times
# longer is the whole training step?

# %% id="slow-guess"
### BEGIN SOLUTION
### GAP guess_all_reduce, guess_step = ..., ...  # times as long
guess_all_reduce, guess_step = 4.0, 4.0
### END SOLUTION

# %% id="slow-run"
all_reduce_guess = predict(
    "04: all-reduce over a road four times slower", guess_all_reduce, unit="times"
)
step_guess = predict("04: step over a road four times slower", guess_step, unit="times")
fast_run = lab.submit(dp4.but(name="fast-road"))
fast_run.require()  # one after the other, so that none disturbs another
slow_run = slow_lab.submit(dp4.but(name="slow-road", environment=slower))
slow_run.require()
slow_ring = slow_lab.submit(ring_recipe.but(name="ring-slow-road", environment=slower))
slow_ring.require()
show.step_time({"fast": fast_run.profile.overlap, "slow": slow_run.profile.overlap})


# %% id="slow-see"
def median_ms(run):
    """Of the steps after the first three, which warm up."""
    return run.log.iterations["elapsed_ms"].iloc[3:].median()


all_reduces = quick_ms(slow_ring) / quick_ms(ring)
steps = median_ms(slow_run) / median_ms(fast_run)
all_reduce_guess.compare(all_reduces)
step_guess.compare(steps)
longer_ms = quick_ms(slow_ring) - quick_ms(ring)
expected = 1 + longer_ms / median_ms(fast_run)
print(f"a step that only waits {longer_ms:.0f} ms longer would take {expected:.2f} times as long")

# %% id="slow-claim" tags=["claim"]
has_two_roads = bandwidth > 1.5  # flat mode has one, which nobody can slow down
could_change = all_reduces > 1.5 or (lab.site.box and has_two_roads)
if could_change and lab.site.box:
    claim(
        "a road four times slower: the all-reduce", all_reduces, least=2.5, most=4.6, unit="times"
    )
if could_change:
    claim("the step suffers less than the road", steps / all_reduces, most=0.8, unit="times")
    claim("only the all-reduce is longer: the step", steps / expected, least=0.75, most=1.3)
    compute = [each.profile.overlap["compute_us"].median() for each in (slow_run, fast_run)]
    claim(
        "computing takes about as long as before",
        compute[0] / compute[1],
        least=0.6,
        most=1.6,
        unit="times",
    )
else:
    print(
        "this link could not be changed: both runs took the same road, so there is nothing to compare"
    )

# %% [markdown] id="slow-explain"
# *The mean of the recorded steps on each rank, over the fast road and over the slow one. Which part has grown, and which hardly?*
#
# **Explain.** Where the road is slower, the all-reduce is so by nearly as much: at this size latency hardly counts. The training
# step has another part, the arithmetic, for which nothing is sent:
#
# $$\text{step} = \text{arithmetic} + \text{all-reduce}$$
#
# So the step slows down less than the road, and the more arithmetic there is for each exchange of gradients,
# the less it notices. (This program sends all gradients in one piece when the backward pass is over, so that nothing hides
# behind anything; lesson 03.) The losses? See below. A slow network costs time and money, never correctness, and so
# nobody is warned.


# %% id="losses"
print(fast_run.log.losses_beside(slow_run.log))

# %% [markdown] id="losses-explain"
# A difference below a thousandth of the loss is rounding: over another road the library may add in another
# order. A larger one would mean that the two runs are not the same training, and their times must not be compared.


# %% [markdown] id="ex1" tags=["exercise"]
# ## Exercises
#
# > **Exercise 04.1** — A colleague sends you four lines of a log and asks whether the job used the hardware
# > well:
# >
# > ```
# > gpu3:918:999 [7] NCCL INFO Channel 02/0 : 23[7] -> 24[0] [send] via NET/IB/0
# > gpu0:876:957 [1] NCCL INFO Channel 00 : 1[1] -> 2[2] via SHM/direct/direct
# > gpu4:898:979 [4] NCCL INFO Channel 01/0 : 19[3] -> 28[4] [receive] via NET/IB/1
# > gpu0:869:950 [0] NCCL INFO Channel 00/0 : 31[7] -> 0[0] [receive] via NET/IB/0
# > ```
# >
# > Every node of that cluster has two adapters, and all are alike. Fill the gaps so that they
# > describe a cluster with these links.

# %% id="ex1-gap" tags=["exercise"]
### BEGIN SOLUTION
### GAP colleague = dict(
### GAP     nodes=..., devices_per_node=..., inside=..., between=..., gpu_direct=..., adapters=2
### GAP )
colleague = dict(
    nodes=4,
    devices_per_node=8,
    inside="memory",
    between="infiniband",
    gpu_direct=False,
    adapters=2,
)
### END SOLUTION

# %% id="ex1-check" tags=["check"]
check.ex04_describe(colleague)

# %% [markdown] id="ex1-why" tags=["solution"]
# The highest device number in the brackets is 7, so a node has 8 devices; the highest rank is 31, and 32
# ranks are 4 nodes. (The names of the nodes do not count.) Inside the node it says `SHM`: the devices reach each other
# through main memory, not directly. `NET/IB` without `GDRDMA`: InfiniBand, but every message is copied through main
# memory first. On hardware that can do better, both are worth a question to the people who run it.


# %% [markdown] id="ex2" tags=["exercise"]
# > **Exercise 04.2** — The ring crosses the slow road 1.5 times with everything. A cleverer order would be:
# > add up on one device of each node first, then exchange between these, then hand the result back.
# > `measure_links.py` has that too: `algorithm="hierarchical"`. If the slow road were all that counts, by which
# > factor would this be faster? Write it down as `expected_factor`. Then time ten such all-reduces of exactly the
# > gradients' size, on both nodes, and compare `hierarchical.links.all_reduce_ms` with
# > `ring.links.all_reduce_ms`.

# %% id="ex2-gap" tags=["exercise"]
### BEGIN SOLUTION
### GAP expected_factor = ...
### GAP steps_recipe = links.recipe(
### GAP     "hierarchical", nodes=2, gpus_per_node=2, bytes=..., repeat=..., algorithm=...
### GAP )
expected_factor = 1.5 / 1  # everything crosses once instead of 1.5 times
steps_recipe = links.recipe(
    "hierarchical",
    nodes=2,
    gpus_per_node=2,
    bytes=gradient_bytes,
    repeat=10,
    algorithm="hierarchical",
)
### END SOLUTION
hierarchical = lab.submit(steps_recipe)
hierarchical.wait()

# %% id="ex2-check" tags=["check"]
check.ex04_hierarchical(hierarchical, ring, expected_factor)

# %% id="ex2-see" tags=["solution"]
quickest_ms = [min(run.links.all_reduce_ms) for run in (ring, hierarchical)]
ratio = quickest_ms[0] / quickest_ms[1]  # a busy machine holds up the ring's many steps most
print(f"the ring takes {ratio:.2f} times as long as the hierarchical way")

# %% id="ex2-claim" tags=["solution", "claim"]
claim("crossing once instead of 1.5 times pays", ratio, least=1.05, most=1.7, unit="times")

# %% [markdown] id="ex2-why" tags=["solution"]
# Between the nodes a ring of two is left: 2 steps of half the size, so everything crosses once instead of 1.5
# times. If the road between the nodes were all that counts, the factor would be 1.5. On a quiet machine it is smaller, because
# the steps inside the nodes come before and after the exchange, while in the ring all go on at the same time. With eight devices on a node
# the slow road alone would give nearly 2, since the ring crosses it nearly 2 times and the hierarchical way still once; but
# then seven devices hand all they have to one, one after the other. So libraries go further: each
# device of a node takes a part of the sum over its own rail, and all adapters work at once.

# %% [markdown] id="ex3" tags=["exercise"]
# > **Exercise 04.3** — The model `lab`, which lesson 03 named as one for GPUs, has 12 layers of width 768 (`plan.preset("lab")`). How
# > many **milliseconds** does the formula give for one all-reduce of *its* gradients, 4 bytes each, in a ring
# > over your four devices on two nodes?

# %% id="ex3-gap" tags=["exercise"]
### BEGIN SOLUTION
### GAP lab_model_ms = ...
lab_model_ms = ring_ms(4 * plan.parameters(plan.preset("lab")).total, 4, between)
### END SOLUTION

# %% id="ex3-check" tags=["check"]
check.ex04_milliseconds(lab_model_ms, roads)

# %% [markdown] id="ex3-why" tags=["solution"]
# The model is about 67 times as large as the small one, so the time is too: at such sizes the latency has
# hardly any part in it. With such a ring over your road no device, however
# fast, could make a step in less.

# %% [markdown] id="challenge" tags=["exercise"]
# > **Going further** — Up to which size is a tree faster than a ring? In the simplest tree over *d* devices everything
# > is sent 2 log₂ *d* times in a row, whole. (NCCL's trees are better: they send piece by piece, through two trees over the
# > nodes at once, and none has to pass sums on in both.) Write `tree_ms` beside `ring_ms`, set both equal, and find the
# > size for your road between the nodes, first with 4 devices, then with 1024. What does that say about
# > averaging a loss, one number, over a large cluster?

# %% [markdown] id="home"
# ## To take home
#
# - `NCCL_DEBUG=INFO` shows the roads: `NET/IB/…/GDRDMA` is a good one, as is `P2P` over NVLink, and those of other fast
#   networks, such as `NET/Libfabric` (in other releases `NET/AWS Libfabric` or `NET/OFI`) on Slingshot or EFA. A bad road is not an error; only reading finds it.
# - Every road has two numbers. Latency decides for small messages, bandwidth for large ones.
# - An all-reduce in a ring takes 2 (*d* − 1) steps of size / *d*, each at the pace of the slowest link.
# - The gradients' size does not depend on the batch. More arithmetic for each exchange is what makes a slow
#   road bearable.
#
# Lesson 05 finds in a trace where exactly a step loses its time.

# %% [markdown] id="clean-idea"
# ## Cleaning up

# %% id="clean"
for file in lab.workspace.runs.glob("*-nccl.log"):
    file.unlink()
lab.clean(roads, ring, slow_ring, fast_run, slow_run, hierarchical, yes=True)
