# %% [markdown] id="title"
# # 04 Topology: the links between the devices
#
# In lesson 03 averaging the gradients took time, and two nodes were not twice as fast as one. In this lesson you
# measure the links that carry the gradients, and predict from them how long an all-reduce takes. Then you slow the
# link between the nodes, and measure how much slower training becomes.
#
# | | |
# |---|---|
# | You will be able to | read NCCL's channel lines and recognise a slow link; measure latency and bandwidth between two devices; predict the time of an all-reduce; say what a slow network costs |
# | Minutes | 70 |
# | Devices | 2 nodes with 2 devices each |
# | Before | lesson 03 |

# %% id="begin"
import pandas as pd

from course_lib import Lab, check, claim, gpt, links, plan, predict, read, show, trial

lab = Lab()

# %% [markdown] id="node-idea"
# ## Which links does a node have?
#
# The picture shows two nodes of a cluster on which large models were trained. Each number is the bandwidth of one
# device for large transfers in one direction:

# %% id="node"
show.node(plan.CLUSTERS["selene"])

# %% [markdown] id="node-explain"
# A GPU reaches every other GPU of its node over NVLink and the **NVSwitch**, with by far the highest bandwidth. Over
# **PCIe**, the bus of the computer, it reaches the processor and a network adapter, the **NIC**. With **GPUDirect
# RDMA** (remote direct memory access), the adapter reads the GPU's memory directly. Otherwise all data is copied
# into main memory first.
#
# Adapters with the same number, on a few dozen nodes, connect to the same **leaf** switch and form a *rail*. So GPU 1
# of a node reaches GPU 1 of these nodes through one switch. A **spine** joins the leaves. In an **NVL72** rack,
# NVLink also joins the nodes, 72 GPUs in 18 nodes. So all 72 GPUs communicate as the GPUs of one node do elsewhere.
#
# On NVIDIA's GPUs, `nvidia-smi topo -m` prints the links as a table. `NV12` is twelve NVLinks, `PIX` one PCIe switch,
# `NODE` a detour through one processor, and `SYS` a detour through two.

# %% [markdown] id="ask-idea"
# ## Which links does a program use?
#
# A communication library chooses the links of a training program. On NVIDIA's GPUs this library is **NCCL**. At its
# start, NCCL looks for fast connections between the devices and for network adapters. From them it plans
# **channels**, the routes of the data. If a job sets `NCCL_DEBUG=INFO`, NCCL prints what it found.
#
# The next job sets this variable. It also measures the links between all devices, with messages of up to 16 MiB
# (`16 << 20` bytes).

# %% id="roads-run"
links_recipe = links.recipe(
    "roads", nodes=2, gpus_per_node=2, max_bytes=16 << 20, environment={"NCCL_DEBUG": "INFO"}
)
link_run = lab.submit(links_recipe).require()
print(f"the four processes talked through {link_run.links.backend}")

# %% [markdown] id="backend-idea"
# If the job printed `nccl`, your devices are GPUs, and the log of this job contains NCCL's own lines. If it printed
# `gloo`, your devices are processors, and gloo prints nothing about its links. You then see a simulated log, **as NCCL
# would print it** on a cluster with GPUs. Its first line and every picture of it say so.

# %% id="log"
if link_run.links.backend == "nccl":
    nccl_file = link_run.log_file
else:
    nccl_file = lab.workspace.runs / "simulated-nccl.log"
    nccl_file.write_text(plan.nccl_log(nodes=2, devices_per_node=2, between="sockets"))

# %% id="log-head"
# !head -n 1 "{nccl_file}" | cut -c 1-140

# %% id="log-grep"
# !grep "Channel 00" "{nccl_file}" | cut -c 1-140

# %% [markdown] id="line-explain"
# Look at a line that ends in `via …`:
#
# | part | meaning |
# |---|---|
# | `node1:40107:40147 [1]` | the node, process and thread that printed the line, and the device within the node |
# | `Channel 00/0` | the channel, and one of its connections (in `Channel 00/02 :`, the number of channels). Large transfers use several channels at once. |
# | `1[1] -> 2[0]` | from rank 1, device 1 of its node, to rank 2, device 0 of its node |
# | `[send]`, `[receive]` | the end of the link that printed the line. Inside a node, only the sender prints. |
# | `via …` | the link |
#
# The last part names the link:
#
# | link | meaning |
# |---|---|
# | `P2P/…` (peer to peer) | one device reads or writes the memory of another device directly, over NVLink or a PCIe switch |
# | `SHM/…`, `direct shared memory` | through the node's main memory, because the devices cannot reach each other |
# | `NET/IB/0/GDRDMA` | over network adapter 0, InfiniBand, which reads the device's memory itself (GPUDirect RDMA) |
# | `NET/IB/0` | over the same adapter, but data is first copied into main memory |
# | `NET/Socket/0` | over an ordinary network connection, through the operating system |

# %% [markdown] id="picture-idea"
# NCCL links ranks in two shapes:
#
# - In a **ring**, every rank sends to the next, and the last rank to the first. All links work all the time, which
#   is good for large transfers.
# - In a **tree**, sums flow up to one rank, and the result flows down. The path is short, which is good for small
#   transfers. With four ranks, the tree joins 0 with 1, 2 with 3, and 0 with 2.
#
# **Predict.** Ranks 0 and 1 are on one node, ranks 2 and 3 on the other. Draw a line for every pair that the
# ring or the tree links. How many lines run between the nodes?

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
# From the rank of the row to the rank of the column; empty if there is no link.
linked = nccl.matrix()
pairs = {frozenset((a, b)) for a in linked for b in linked if linked.loc[a, b]}
crossing = [pair for pair in pairs if len({host.get(rank) for rank in pair}) == 2]
lines.compare(len(crossing))

# %% [markdown] id="picture-explain"
# *Boxes are nodes, and circles are ranks. A line joins two ranks that NCCL has linked, and its colour shows the
# kind of link.*
#
# **Explain.** With one adapter per node, three lines run between the nodes. The ring crosses from 1 to 2 and from 3
# to 0, and the tree joins 0 with 2. If you guessed 4, you counted all pairs. If each device has its own adapter,
# every channel gets its own ring and tree, and all four pairs may be linked.
#
# A log may also name NVLS inside a node or CollNet between nodes. With these, a switch adds up the data of all ranks.
# `Channel 00/02 :` gives the ring in order, and the `Trees` lines give `children->rank->parent`:

# %% id="rings"
rings = nccl.rings[nccl.rings["communicator"] == nccl.largest()]
rings[["channel", "order"]].head(4)

# %% [markdown] id="describe-idea"
# ## Five clusters, one change at a time
#
# Here are simulated logs of five clusters, each with four nodes of four devices. Each cluster differs from the
# cluster before by one change. First InfiniBand replaces the network. Then GPUDirect is added. Then a PCIe switch
# replaces NVLink, and finally this switch is removed.
#
# **Predict.** Which of these four changes alter the links *inside* a node?

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
inside_guess = predict(
    "04: changes inside a node", guess_inside, choices=list(changes), several=True
)


def links_of(words):
    """Kinds of link and number of lines, in the log of a cluster that these words describe."""
    path = lab.workspace.runs / "described-nccl.log"
    path.write_text(plan.nccl_log(nodes=4, devices_per_node=4, **words))
    return read.nccl(path)


words, before, rows, altered = {"between": "sockets"}, None, [], []
for change in ("sockets", *changes):
    words |= changes.get(change, {})
    described = links_of(words).transports
    rows += [{"cluster": change, "link": link, "log lines": n} for link, n in described.items()]
    inside_now = {link for link in described if not link.startswith("NET")}
    if before is not None and inside_now != before:
        altered.append(change)
    before = inside_now
inside_guess.compare(altered)
pd.DataFrame(rows)

# %% id="describe-picture"
show.topology(links_of(words))

# %% [markdown] id="describe-explain"
# *The last of the five clusters. The legend names the kind of link.*
#
# **Explain.** Only the last two changes alter the links between devices of a node. InfiniBand and GPUDirect change
# the links to other nodes.
#
# None of these logs contains an error. A job that prints `NET/Socket` on a cluster with InfiniBand ends with the
# right losses, but it is much slower than necessary. Usually the container lacks the adapter's library, or a test
# left a variable such as `NCCL_IB_DISABLE`. Also look for `SHM` instead of `P2P`, and for a missing `GDRDMA`. Read
# these lines once after every change of the cluster or the container.
#
# A node has several **network interfaces**, which `ip -brief address` lists. For sockets, NCCL chooses one of them by
# itself. If it chooses the wrong one, such as a slow network for administration, name the right one in
# `NCCL_SOCKET_IFNAME`, for example `NCCL_SOCKET_IFNAME=eth2`. Set it even if the data goes over InfiniBand, because
# the ranks first find each other over sockets. `NCCL_IB_HCA` chooses the InfiniBand adapters, and
# `GLOO_SOCKET_IFNAME` is the variable of gloo.
#
# How much do the links differ? The next table gives the bandwidth of one *device* in one direction, on clusters and
# node types that trained models. It is the bandwidth of the data sheet, times the share that large transfers reach
# in measurements (0.80 inside, 0.85 between):

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
# ## How fast are your own links?
#
# The job `roads` sent messages from 1 KiB to 16 MiB back and forth between every pair of devices. The sizes took
# turns, so other work on the machine disturbed all sizes alike. If a message needs more than 30 ms, no larger
# messages are sent. The picture shows the rate of the largest message for each pair of ranks, in GB (10⁹ bytes) per
# second:

# %% id="heat"
show.link_heat(link_run.links.bandwidth_gb_s)

# %% [markdown] id="heat-explain"
# Ranks 0 and 1 share a node, and ranks 2 and 3 share the other. If the pairs 0–1 and 2–3 stand out, the measurement
# alone shows the topology. The next figure shows one pair of each kind, over all sizes:

# %% id="curve"
show.link_curve(link_run.links, pairs={"inside a node": (0, 1), "between the nodes": (1, 2)})

# %% [markdown] id="curve-explain"
# *Time of one message against its size. A point is the median of the messages that waited least for a processor. The
# vertical line below it ends at the fastest message of this size.*
#
# Both axes are logarithmic. Small messages all take about the same time, the **latency** α (alpha). For large
# messages the time is proportional to the size, and the bytes per second are the **bandwidth** *B*. The simplest
# rule with both parts is
#
# $$\text{time} = \alpha + \frac{\text{size}}{B}$$
#
# Papers call it the α–β model, with β = 1/*B* in seconds per byte. A drawn line is this rule, fitted to the
# measurements. It bends at a size of α·*B*, where both parts are equal. Far below this size, sending less saves hardly
# any time. Points lie above the line if a process had to wait for a core. They lie below the line if a buffer or a
# cache took the whole message at once.
#
# The next table combines all pairs of one kind. Its latency is the time of the smallest message, and its last column
# is about the size at which the line bends:

# %% id="roads"
table = link_run.links.table.copy()
table["bend_at_kb"] = table["latency_ms"] * table["bandwidth_gb_s"] * 1e3
table.round(3)

# %% id="roads-claim" tags=["claim"]
inside, between = (
    table.set_index("link").loc[link] for link in ("inside a node", "between the nodes")
)
bandwidth = inside["bandwidth_gb_s"] / between["bandwidth_gb_s"]
fit = link_run.links.fits.set_index(["kind", "source", "destination"])["r2"]["point_to_point"]
claim("r² of the line inside a node", fit[0, 1], least=0.98)
claim("r² of the line between the nodes", fit[1, 2], least=0.98)
sooner = between["latency_ms"] / inside["latency_ms"]
if lab.nodes_are_separate:
    claim("bandwidth inside a node, relative to between nodes", bandwidth, least=3, unit="times")
    claim(
        "the links differ more in bandwidth than in latency",
        bandwidth / sooner,
        least=2,
        unit="times",
    )

# %% [markdown] id="time-idea"
# ## How long does one all-reduce of the gradients take?
#
# The model of lesson 03 has as many gradients as parameters, each of 4 bytes. The **planner**, `plan`, counts them
# from the shape of the model, without running anything. This is the recipe from lesson 03 with fewer steps:

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
# In a ring of *d* devices, the gradients are cut into *d* pieces. In each step every device sends one piece to its
# right neighbour and receives another from its left neighbour. After *d* − 1 steps, every device holds the finished
# sum of one piece. Another *d* − 1 steps pass the sums around. In the animation, count the steps and what one device
# sends in each:

# %% id="ring-story"
show.moving.collective("all-reduce", ranks=4, algorithm="ring")

# %% [markdown] id="ring-predict"
# **Predict.** You know the size of the gradients, and you have measured both kinds of link. How many milliseconds
# does one all-reduce over your four devices take?

# %% id="ring-guess"
### BEGIN SOLUTION
### GAP guess_ms = ...  # milliseconds
guess_ms = 60
### END SOLUTION

# %% [markdown] id="ring-formula-idea"
# The ring takes 2 (*d* − 1) steps, each with messages of size / *d*. All devices step together, so each step takes
# as long as its slowest message. This message crosses between the nodes, and the rule of the last section gives its
# time:


# %% id="ring-formula"
def ring_ms(size_bytes, devices, link):
    """Time of an all-reduce in a ring whose slowest link is `link`."""
    steps = 2 * (devices - 1)
    piece_ms = size_bytes / devices / (link["bandwidth_gb_s"] * 1e6)  # 1 GB/s is 1e6 bytes per ms
    return steps * (link["latency_ms"] + piece_ms)


ring_guess = predict("04: all-reduce of the gradients in a ring of four", guess_ms, unit="ms")
predicted_ms = ring_ms(gradient_bytes, 4, between)
print(f"the formula says {predicted_ms:.0f} ms")

# %% [markdown] id="ring-run-idea"
# The next job checks the formula with thirty all-reduces of exactly this size, in a ring:

# %% id="ring-run"
ring_recipe = links.recipe("ring", nodes=2, gpus_per_node=2, bytes=gradient_bytes, repeat=30)
ring = lab.submit(ring_recipe).require()
ring_guess.compare(pd.Series(ring.links.all_reduce_ms).median())
show.guess(
    ring_guess.guess,
    ring.links.all_reduce_ms,
    predicted_ms,
    unit="ms",
    what="one all-reduce of the gradients",
)


# %% id="ring-claim" tags=["claim"]
def fastest_ms(run):
    """Time of the fastest all-reduce: a disturbance makes one longer, never shorter."""
    return min(run.links.all_reduce_ms)


measured_ms = fastest_ms(ring)
if lab.nodes_are_separate:
    claim(
        "measured time of the ring, relative to the prediction",
        measured_ms / predicted_ms,
        least=1.0,
        most=1.5,
        unit="times",
    )

# %% [markdown] id="ring-explain"
# **Explain.** The slowest link determines the time. Three wrong guesses are common:
#
# - *The size divided by the bandwidth between the nodes.* Three of the four pieces cross this link while the sums
#   form, and three pieces of the result cross it again. Together they are 2 · 3 / 4 = 1.5 times the size.
# - *Twice this time, because two of the four links cross.* They cross in opposite directions, and the link
#   between the nodes sends in both directions at once.
# - *The mean of the fast and the slow link.* In each step all devices wait for the slowest message, so the
#   links inside the nodes are mostly idle.
#
# Your points usually lie somewhat above the formula. The formula leaves out the additions between the steps, the
# waiting for late ranks, and the latency of the portions of 256 KiB in which a message is sent.
#
# From the time of an all-reduce you can compute the rate that each link must have reached, the **bus bandwidth**. It
# is 2 (*d* − 1) / *d* × size / time. Unlike size / time, this rate can be compared with the data sheet, for any
# number of devices. NVIDIA's `nccl-tests` prints it as `busbw`, a good first test of any cluster with GPUs (lesson 07
# shows the command). Your bus bandwidth is:

# %% id="bus"
bus_gb_s = 2 * 3 / 4 * gradient_bytes / (measured_ms * 1e6)
print(f"bus bandwidth {bus_gb_s:.3f} GB/s of {between['bandwidth_gb_s']:.3f} between the nodes")

# %% [markdown] id="step-idea"
# ## What does a slower link cost?
#
# You run the model of lesson 03 for a few steps, with the profiler on all ranks. Then you repeat the run with a link
# between the nodes that is four times slower. On the box, the lab can change this link. On a real cluster, the
# repeated run uses ordinary sockets instead of a fast adapter.

# %% id="slow-lab"
if lab.site.box:
    gbit = lab.site.link_gbit or 1.0  # 0 stands for the usual link of the box
    slow_lab, slower = lab.but(link_gbit=gbit / 4), {}
    print(f"asked for a link of {gbit / 4:g} Gbit/s between the nodes instead of {gbit:g}:")
    print(f"{gbit / 32:g} GB/s instead of {gbit / 8:g} (in flat mode the link does not change)")
else:
    slow_lab, slower = lab, {"NCCL_IB_DISABLE": "1", "NCCL_NET": "Socket"}
    print(
        "a real cluster: its link does not change, and NCCL, if it is used, is told to use sockets"
    )
    print("below, read 'over sockets' instead of 'four times slower'")

# %% [markdown] id="slow-predict"
# **Predict.** If the link is four times slower, by what factor does the all-reduce take longer, and by what factor the
# whole training step? Use the step time of `dp4` from lesson 03 and the all-reduce that you have just measured.

# %% id="slow-guess"
### BEGIN SOLUTION
### GAP guess_all_reduce, guess_step = ..., ...  # factors
guess_all_reduce, guess_step = 4.0, 4.0
### END SOLUTION

# %% id="slow-run"
all_reduce_guess = predict(
    "04: factor of the all-reduce with a link four times slower", guess_all_reduce, unit="times"
)
step_guess = predict(
    "04: factor of the step with a link four times slower", guess_step, unit="times"
)
# One after the other, so that no run disturbs another.
fast_run = lab.submit(dp4.but(name="fast-road")).require()
slow_run = slow_lab.submit(dp4.but(name="slow-road", environment=slower)).require()
slow_ring = slow_lab.submit(ring_recipe.but(name="ring-slow-road", environment=slower)).require()
show.step_time({"fast": fast_run.profile.overlap, "slow": slow_run.profile.overlap})


# %% id="slow-see"
def median_ms(run):
    """Median time of a step, without the first three, which warm up."""
    return run.log.iterations["elapsed_ms"].iloc[3:].median()


all_reduces = fastest_ms(slow_ring) / fastest_ms(ring)
steps = median_ms(slow_run) / median_ms(fast_run)
all_reduce_guess.compare(all_reduces)
step_guess.compare(steps)
longer_ms = fastest_ms(slow_ring) - fastest_ms(ring)
expected = 1 + longer_ms / median_ms(fast_run)
print(f"a step that only waits {longer_ms:.0f} ms longer would take {expected:.2f} times as long")

# %% id="slow-claim" tags=["claim"]
has_two_links = bandwidth > 1.5  # flat mode has one link, which cannot be slowed down
could_change = all_reduces > 1.5 or (lab.site.box and has_two_links)
if could_change and lab.site.box:
    claim(
        "factor of the all-reduce with a link four times slower",
        all_reduces,
        least=2.6,
        most=4.6,
        unit="times",
    )
if could_change:
    claim(
        "factor of the step, relative to the factor of the all-reduce",
        steps / all_reduces,
        most=0.8,
    )
    claim(
        "time of the slow step, relative to the sum of its parts",
        steps / expected,
        least=0.75,
        most=1.3,
    )
    compute = [each.profile.overlap["compute_us"].median() for each in (slow_run, fast_run)]
    claim(
        "computation with the slow link, relative to the fast link",
        compute[0] / compute[1],
        least=0.6,
        most=1.6,
        unit="times",
    )
else:
    print(
        "this link could not be changed: both runs used the same link, so there is nothing to compare"
    )

# %% [markdown] id="slow-explain"
# *The mean of the recorded steps on each rank, with the fast link and with the slow link.*
#
# **Explain.** If the link became slower, the all-reduce became longer by nearly the same factor, because latency
# hardly counts at this size. The training step also contains the computation, which sends nothing:
#
# $$\text{step} = \text{computation} + \text{all-reduce}$$
#
# So the step slows down less than the link. The more it computes for each exchange, the less it slows down. A slow
# network does not change the result, so no message warns you. Compare the losses:

# %% id="losses"
print(fast_run.log.losses_beside(slow_run.log))

# %% [markdown] id="losses-explain"
# A difference below a thousandth of the loss is rounding, because over a different link the library may add in a
# different order. A larger difference would mean that the two runs do not train the same model.

# %% [markdown] id="ex1" tags=["exercise"]
# ## Exercises
#
# > **Exercise 04.1** — The first half of the ring is a **reduce-scatter**: at its end, rank *r* holds the sum of
# > piece *r* over all ranks. The ring ignores the nodes of the ranks. Write `reduce_scatter(tensor, node_of)` for a
# > given topology, with only sends and receives. `node_of[r]` is the node of rank *r*, and the pieces are
# > `tensor.chunk(size)`. Rank *r* returns the sum of piece *r*.
# >
# > There is a **budget** for the slow link. A node sends each piece for a rank on another node only once, as the sum
# > over its own ranks. The trial runs on 1, 2, 3 and 4 ranks, on nodes of different sizes. It counts the numbers that
# > leave each node.

# %% id="ex1-own" tags=["exercise"]
# %%writefile "{lab.work}/my_reduce_scatter.py"
import torch
import torch.distributed as dist


def reduce_scatter(tensor, node_of):
    rank, size = dist.get_rank(), dist.get_world_size()
    pieces = tensor.chunk(size)
    ### BEGIN SOLUTION
    ### GAP ...
    here = [other for other in range(size) if node_of[other] == node_of[rank]]

    def collector(piece, node):
        """The rank that adds up a piece for a node: its owner, or the ranks of the node in turn."""
        members = [other for other in range(size) if node_of[other] == node]
        return piece if piece in members else members[piece % len(members)]

    def receive(source):
        coming = torch.empty_like(pieces[rank])
        dist.recv(coming, source)
        return coming

    # Inside the node: each piece goes to the rank that adds it up.
    to = [collector(piece, node_of[rank]) for piece in range(size)]
    sending = [dist.isend(pieces[p], to[p]) for p in range(size) if to[p] != rank]
    sums = {p: pieces[p].clone() for p in range(size) if to[p] == rank}
    for piece in sums:
        for source in here:
            if source != rank:
                sums[piece] += receive(source)
    # Between the nodes: the sum of each piece goes to the rank that owns it.
    sending += [dist.isend(sums[p], p) for p in sums if p != rank]
    for node in set(node_of) - {node_of[rank]}:
        sums[rank] += receive(collector(rank, node))
    for work in sending:
        work.wait()
    return sums[rank]
    ### END SOLUTION


# %% id="ex1-trial" tags=["exercise"]
scatter_trial = lab.submit(
    trial.recipe("scatter-trial", "work/my_reduce_scatter.py", "reduce-scatter")
)
scatter_trial.watch()

# %% id="ex1-check" tags=["check"]
check.ex04_reduce_scatter(scatter_trial)

# %% [markdown] id="ex1-why" tags=["solution"]
# With two nodes of two ranks, two pieces leave each node, half of the tensor. In the ring, three pieces leave it, one
# in each step. If each rank sent its own pieces directly, four pieces would leave it. The ranks of a node share the
# work: each adds up the piece of one rank of the other node. So every adapter of the node sends.

# %% [markdown] id="ex2" tags=["exercise"]
# > **Exercise 04.2** — A ring all-reduce sends 1.5 times the data over the slow link. A different order sends less:
# > first add up on one device of each node, then exchange between these devices, then hand the result back.
# > `measure_links.py` calls it `algorithm="hierarchical"`. If only the slow link counted, by what factor would the new
# > order be faster? Write the factor down as `expected_factor`. Then time thirty of these all-reduces, of exactly the
# > gradients' size, on both nodes, and compare `hierarchical.links.all_reduce_ms` with `ring.links.all_reduce_ms`.

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
    repeat=30,
    algorithm="hierarchical",
)
### END SOLUTION
hierarchical = lab.submit(steps_recipe)
hierarchical.wait()

# %% id="ex2-check" tags=["check"]
check.ex04_hierarchical(hierarchical, ring, expected_factor)

# %% id="ex2-see" tags=["solution"]
# A busy machine delays the many steps of the ring most.
ratio = fastest_ms(ring) / fastest_ms(hierarchical)
print(f"the ring takes {ratio:.2f} times as long as the hierarchical order")

# %% id="ex2-claim" tags=["solution", "claim"]
claim(
    "time of the ring, relative to the hierarchical order",
    ratio,
    least=1.05,
    most=1.7,
    unit="times",
)

# %% [markdown] id="ex2-why" tags=["solution"]
# Between the nodes, a ring of two devices is left, with 2 steps of half the size. All data crosses once instead
# of 1.5 times, so the slow link alone would give a factor of 1.5. On a quiet machine the factor is smaller,
# because the steps inside the nodes come before and after the exchange.
#
# With eight devices per node, the slow link alone would give nearly 2, because the ring sends nearly 2 times
# the data. But then seven devices hand all their data to one device, one after the other. Libraries therefore
# let each device of a node exchange a part of the sum over its own rail, so that all adapters work at once.

# %% [markdown] id="challenge" tags=["exercise"]
# > **Going further** — Up to which size is a tree faster than a ring? In the simplest tree over *d* devices,
# > the whole data is sent 2 log₂ *d* times in a row. NCCL's trees are better: they send piece by piece, through
# > two trees over the nodes at once, and no node passes on sums in both. Write `tree_ms` beside `ring_ms`, set
# > both equal, and find the size for your link between the nodes, first with 4 devices, then with 1024. What
# > does this say about averaging a loss, a single number, over a large cluster?

# %% [markdown] id="home"
# ## To take home
#
# - `NCCL_DEBUG=INFO` shows the links. `NET/IB/…/GDRDMA` and `P2P` over NVLink are fast. `NET/Libfabric` is fast on
#   Slingshot or EFA (also `NET/AWS Libfabric` or `NET/OFI`). A slow link is not an error, so you find it only if you
#   look.
# - The latency of a link determines the time of small messages, and its bandwidth the time of large messages.
# - An all-reduce in a ring takes 2 (*d* − 1) steps of size / *d*, and the slowest link determines the time of each
#   step.
# - The size of the gradients does not depend on the batch. With more computation for each exchange, a slow link
#   matters less.
#
# References: [NCCL's variables](https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html), [bus
# bandwidth](https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md) in `nccl-tests`, and measured
# shares of the data sheet for [NVLink on H100](https://github.com/NVIDIA/nccl/issues/1264) and [other
# links](https://github.com/stas00/ml-engineering/tree/master/network).

# %% [markdown] id="clean-idea"
# ## Cleaning up

# %% id="clean"
for file in lab.workspace.runs.glob("*-nccl.log"):
    file.unlink()
lab.clean(link_run, ring, slow_ring, fast_run, slow_run, hierarchical, yes=True)
