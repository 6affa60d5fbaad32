"""A simulated log of NCCL says what was described, in NCCL's words, and that it is simulated."""

from __future__ import annotations

import re

import pandas as pd
import pytest

from course_lib import plan, read
from course_lib.plan.simulated_nccl.cluster import NcclCluster, binary_tree
from course_lib.plan.simulated_nccl.wording import WORDINGS

SHAPES = [(1, 2), (1, 8), (2, 1), (2, 2), (3, 4), (5, 1), (8, 8)]
ROADS = [
    {"inside": "nvlink", "between": "sockets"},
    {"inside": "pcie", "between": "infiniband"},
    {"inside": "memory", "between": "infiniband", "gpu_direct": True},
]


@pytest.fixture
def simulated(tmp_path):
    def make(*args, **values):
        path = tmp_path / "nccl.log"
        path.write_text(plan.nccl_log(*args, **values), encoding="utf-8")
        return read.nccl(path)

    return make


def links(log):
    channels = log.channels
    node = dict(zip(log.ranks["rank"], log.ranks["host"], strict=True))
    near = channels["source"].map(node) == channels["destination"].map(node)
    return channels[near], channels[~near]


@pytest.mark.parametrize("version", WORDINGS)
@pytest.mark.parametrize("roads", ROADS, ids=lambda roads: roads["inside"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_reader_finds_the_cluster_that_was_described(simulated, version, roads, shape):
    log = simulated(*shape, **roads, version=version)
    nodes, devices = shape
    assert log.world_size == len(log.ranks) == nodes * devices
    assert log.versions == (WORDINGS[version].version,)
    assert list(log.hosts) == [f"node{node + 1}" for node in range(nodes)]
    assert log.ranks["host"].tolist() == [f"node{r // devices + 1}" for r in range(len(log.ranks))]
    assert log.communicators["init"].tolist() == ["complete"]
    inside, between = links(log)
    assert inside.empty == (devices == 1)
    assert between.empty == (nodes == 1)
    expected = "SHM" if roads["inside"] == "memory" else "P2P/"
    assert all(name.startswith(expected) for name in inside["transport"].astype(str))
    network = "NET/IB" if roads["between"] == "infiniband" else "NET/Socket"
    assert set(between["transport"].astype(str)) <= {network}
    assert between["gdrdma"].eq(roads.get("gpu_direct", False)).all()


@pytest.mark.parametrize("version", WORDINGS)
@pytest.mark.parametrize("adapters", [1, 2, 4])
def test_each_channel_is_a_ring_over_all_ranks_and_uses_its_adapter(simulated, version, adapters):
    log = simulated(3, 4, between="infiniband", adapters=adapters, version=version)
    assert len(log.rings) == 2 * adapters
    for ring in log.rings.itertuples():
        order = list(ring.order)
        assert order[0] == 0
        assert sorted(order) == list(range(12))
        mine = log.channels[log.channels["channel"] == ring.channel]
        linked = set(zip(mine["source"], mine["destination"], strict=True))
        assert linked >= set(zip(order, order[1:] + order[:1], strict=True))
        crossing = mine[mine["transport"].astype(str) == "NET/IB"]
        assert set(crossing["nic"]) == {ring.channel % adapters}


@pytest.mark.parametrize("version", [name for name in WORDINGS if name != "2.4"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_each_channel_has_a_tree_with_one_root_that_reaches_all(simulated, version, shape):
    log = simulated(*shape, version=version)
    for _, tree in log.trees.groupby("channel"):
        children = dict(zip(tree["rank"], tree["children"], strict=True))
        roots = tree.loc[tree["parent"].isna(), "rank"].tolist()
        assert len(roots) == 1
        reached, waiting = set(), list(roots)
        while waiting:
            rank = waiting.pop()
            assert rank not in reached
            reached.add(rank)
            waiting += children[rank]
        assert reached == set(range(shape[0] * shape[1]))


def test_the_oldest_version_has_rings_only(simulated):
    assert simulated(version="2.4").trees.empty


@pytest.mark.parametrize("count", range(1, 70))
def test_the_nodes_of_a_tree_have_one_parent_each_and_a_small_height(count):
    tree = binary_tree(count)
    parent = {kid: number for number, kids in enumerate(tree) for kid in kids if kid is not None}
    assert sorted(parent) == list(range(1, count))
    for number in range(count):
        above, height = number, 0
        while above:
            above, height = parent[above], height + 1
        assert height <= count.bit_length()


def test_the_first_line_and_the_reader_say_that_it_is_simulated(simulated):
    text = plan.nccl_log(2, 4, between="infiniband", gpu_direct=True, adapters=2)
    first = text.splitlines()[0]
    assert first.startswith("# SIMULATED by the course, not printed by NCCL: 2 × 4 devices, NVLink")
    log = simulated(2, 4, between="infiniband", gpu_direct=True, adapters=2)
    assert "InfiniBand with GPUDirect RDMA (2 adapters a node) between nodes" in log.simulated
    assert log.simulated in first


def test_what_nccl_printed_is_not_called_simulated(tmp_path):
    path = tmp_path / "real.log"
    path.write_text("".join(plan.nccl_log().splitlines(keepends=True)[1:]), encoding="utf-8")
    assert read.nccl(path).simulated == ""


@pytest.mark.parametrize("version", ["2.18", "2.27"])
def test_long_rings_are_cut_as_nccl_cuts_them(simulated, version):
    log = simulated(16, 8, version=version)
    assert log.rings["truncated"].all()
    for order in log.rings["order"]:
        assert list(order) == list(range(len(order)))
        assert 20 <= len(order) < 128


def test_the_graph_shows_how_the_devices_of_a_node_are_joined():
    joined = plan.nccl_log(1, 4, version="2.27", graph=True)
    assert "=== System : maxBw 240.0" in joined
    assert "+ NVL[80.0] - GPU/" in joined
    apart = plan.nccl_log(1, 4, inside="memory", version="2.10", graph=True)
    assert "NVL[" not in apart
    assert "type PHB/PIX" in apart


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"nodes": 0}, "nodes 0 is too small; use 1 or more"),
        ({"nodes": 1, "devices_per_node": 1}, "nobody to talk to"),
        ({"devices_per_node": 32}, "use 16 or fewer"),
        ({"nodes": 1000, "devices_per_node": 8}, "8000 ranks would print a log that nobody reads"),
        ({"inside": "infiniband"}, "inside 'infiniband' is unknown; use one of nvlink, pcie, mem"),
        ({"between": "nvlink"}, "between 'nvlink' is unknown; use one of sockets, infiniband"),
        ({"gpu_direct": True}, 'use between="infiniband"'),
        ({"adapters": 3}, "adapters 3 is more than devices_per_node 2; use 2 or fewer"),
        ({"version": "3.0"}, "version '3.0' is unknown; use one of 2.4, 2.7, 2.10, 2.18, 2.27"),
        ({"version": "2.4", "graph": True}, 'use "2.7" or newer'),
    ],
)
def test_what_cannot_be_is_refused_with_what_can(values, words):
    with pytest.raises(plan.PlanError, match=re.escape(words)):
        plan.nccl_log(**values)


# --- Held against real logs -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("file", "cluster", "version"),
    [
        ("v2103-32xA100-4n-ib.log", NcclCluster(4, 8, between="infiniband"), "2.10"),
        ("v278-64xV100-16n-ib.log", NcclCluster(16, 4, between="infiniband", adapters=2), "2.7"),
    ],
)
def test_its_trees_are_those_of_a_real_cluster(shared, file, cluster, version):
    real, words = read.nccl(shared / "logs/nccl" / file).trees, WORDINGS[version]
    for channel, tree in real.groupby("channel"):
        mine = cluster.tree(int(channel), words.mirrored, words.balanced)
        for row in tree.itertuples():
            parent = None if pd.isna(row.parent) else int(row.parent)
            assert (parent, tuple(row.children)) == (mine[row.rank].parent, mine[row.rank].children)


NO_ADAPTER = "NET/IB : No device found."
REAL = {
    "v248-2n-socket-excerpt.log": ((2, 1), "2.4", {NO_ADAPTER, "Bootstrap : Using NAMES"}),
    "v278-64xV100-16n-ib.log": ((16, 4), "2.7", set()),
    "v2103-32xA100-4n-ib.log": ((4, 8), "2.10", set()),
    "v2186-6gpu-megatron-pp3tp2.log": ((1, 6), "2.18", {NO_ADAPTER}),
}
"""Real log: its shape and version, and the kinds of our lines that it lacks: one is an excerpt, and
one was told not to look for adapters."""


def kinds(text):
    """What is left of the lines when numbers, names and addresses are taken out."""
    found = set()
    for line in text.splitlines():
        _, is_info, message = line.partition("NCCL INFO ")
        if is_info or line.startswith("NCCL version"):
            message = re.sub(r"(\[\d\])?\w+:[\d.]+(<0>|/IB)", "NAME", message or line)
            message = re.sub(r"0x\w+|\b[0-9a-f]*\d[0-9a-f]*\b", "N", message)
            message = re.sub(r"(NAME ?)+", "NAMES ", message)
            message = re.sub(r"(\[N\] (-?N/){2}-?N->N->-?N(\|\S+)?( |$))+", "TREES", message)
            found.add(re.sub(r"( +N)+", " N", message).strip())
    return found


@pytest.mark.parametrize("file", REAL)
def test_every_kind_of_line_stands_in_a_real_log_of_that_version(shared, file):
    shape, version, lacking = REAL[file]
    real = kinds((shared / "logs/nccl" / file).read_text(encoding="utf-8", errors="replace"))
    network = "infiniband" if "-ib" in file else "sockets"
    mine = kinds(plan.nccl_log(*shape, between=network, version=version).partition("\n")[2])
    assert len(mine) > 6
    assert mine - real == lacking
