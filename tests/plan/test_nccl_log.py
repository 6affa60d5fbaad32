"""A kept NCCL log describes the requested cluster in NCCL's words, and says that it is
simulated."""

from __future__ import annotations

import re

import pytest

from course_lib import plan, read
from course_lib.plan.nccl_logs import FOLDER
from course_lib.read.nccl_logs.reader import MARK

PAIRS = {"nodes": 2, "devices_per_node": 2}
FOURS = {"nodes": 4, "devices_per_node": 4}
DIRECT = {"between": "infiniband", "gpu_direct": True}
CLUSTERS = [
    PAIRS,
    FOURS,
    FOURS | {"between": "infiniband"},
    FOURS | DIRECT,
    FOURS | DIRECT | {"inside": "pcie"},
    FOURS | DIRECT | {"inside": "memory"},
    {"nodes": 4, "devices_per_node": 8, "inside": "memory", "between": "infiniband", "adapters": 2},
]


# Children, rank and parent in one channel, such as `[0] 1/-1/-1->0->2`.
TREE = re.compile(r"\[(\d+)\] (\S+?)->(\d+)->(-?\d+)")


@pytest.fixture(params=CLUSTERS, ids=lambda words: plan.NcclCluster(**words).file.stem)
def kept(request, tmp_path):
    path = tmp_path / "nccl.log"
    path.write_text(plan.nccl_log(**request.param), encoding="utf-8")
    return plan.NcclCluster(**request.param), read.nccl(path)


def test_every_kept_log_has_a_description():
    assert {plan.NcclCluster(**words).file for words in CLUSTERS} == {*FOLDER.glob("*.txt")}


def test_the_reader_finds_the_cluster_that_was_described(kept):
    cluster, log = kept
    assert log.world_size == len(log.ranks) == cluster.nodes * cluster.devices_per_node
    hosts = [f"node{rank // cluster.devices_per_node + 1}" for rank in range(log.world_size)]
    assert log.ranks["host"].tolist() == hosts
    assert log.communicators["init"].tolist() == ["complete"]
    node = dict(zip(log.ranks["rank"], log.ranks["host"], strict=True))
    near = log.channels["source"].map(node) == log.channels["destination"].map(node)
    inside, between = log.channels[near], log.channels[~near]
    expected = "SHM" if cluster.inside == "memory" else "P2P/"
    assert all(name.startswith(expected) for name in inside["transport"].astype(str))
    network = "NET/IB" if cluster.between == "infiniband" else "NET/Socket"
    assert set(between["transport"].astype(str)) == {network}
    assert between["gdrdma"].eq(cluster.gpu_direct).all()
    assert set(between["nic"]) == set(range(cluster.adapters))


def test_each_channel_is_a_ring_over_all_ranks(kept):
    cluster, log = kept
    everyone = list(range(log.world_size))
    assert len(log.rings) == 2 * cluster.adapters
    for ring in log.rings.itertuples():
        order = list(ring.order)
        assert sorted(order) == everyone
        mine = log.channels[log.channels["channel"] == ring.channel]
        linked = set(zip(mine["source"], mine["destination"], strict=True))
        assert linked >= set(zip(order, order[1:] + order[:1], strict=True))


def test_each_channel_is_a_tree_over_all_ranks(kept):
    cluster, log = kept
    text = cluster.file.read_text(encoding="utf-8")
    trees: dict[str, dict[int, tuple[list[int], int]]] = {}
    for line in re.findall(r"Trees (.*)", text):
        for channel, children, rank, parent in TREE.findall(line):
            below = [int(one) for one in children.split("/") if one != "-1"]
            trees.setdefault(channel, {})[int(rank)] = (below, int(parent))
    assert len(trees) == 2 * cluster.adapters
    for tree in trees.values():
        reached = [rank for rank, (_children, parent) in tree.items() if parent == -1]
        assert len(reached) == 1
        for rank in reached:
            reached += tree[rank][0]
        assert sorted(reached) == list(range(log.world_size))


def test_the_first_line_and_the_reader_say_that_it_is_simulated(kept):
    cluster, log = kept
    first = cluster.file.read_text(encoding="utf-8").partition("\n")[0]
    assert first == MARK + log.simulated
    assert f"{cluster.nodes} × {cluster.devices_per_node} devices" in first


def test_what_nccl_printed_is_not_called_simulated(tmp_path):
    path = tmp_path / "real.log"
    path.write_text(plan.nccl_log().partition("\n")[2], encoding="utf-8")
    assert read.nccl(path).simulated == ""


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"nodes": 0}, "nodes 0 is too small; use 1 or more"),
        ({"devices_per_node": 32}, "use 16 or fewer"),
        ({"inside": "infiniband"}, "inside 'infiniband' is unknown; use one of nvlink, pcie, mem"),
        ({"between": "nvlink"}, "between 'nvlink' is unknown; use one of sockets, infiniband"),
        ({"gpu_direct": True}, 'use between="infiniband"'),
        ({"adapters": 3}, "adapters 3 is more than devices_per_node 2; use 2 or fewer"),
        ({"nodes": 3}, "no log of the cluster 3x2-nvlink-sockets is kept; use one of 2x2-nvlink"),
    ],
)
def test_what_cannot_be_is_refused_with_what_can(values, words):
    with pytest.raises(plan.PlanError, match=re.escape(words)):
        plan.nccl_log(**values)
