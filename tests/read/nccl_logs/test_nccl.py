"""NCCL's log of every vintage, as ranks, links, rings and trees."""

from __future__ import annotations

import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from course_lib import read

FACTS = {
    # file: versions, hosts, size of the largest communicator, channels, lines of each transport
    "efa-2n-16xA100-libfabric-eks.log": (
        ("2.9.9+cuda11.2",),
        2,
        16,
        8,
        {
            "P2P/IPC/read": 256,
            "NET/AWS Libfabric/0/GDRDMA": 16,
            "NET/AWS Libfabric/1/GDRDMA": 16,
            "NET/AWS Libfabric/2/GDRDMA": 16,
            "NET/AWS Libfabric/3/GDRDMA": 16,
        },
    ),
    "v2103-32xA100-4n-ib.log": (
        ("2.10.3+cuda11.3",),
        4,
        32,
        2,
        {"P2P/IPC/read": 112, "NET/IB/1": 32, "NET/IB/3": 8},
    ),
    "v278-64xV100-16n-ib.log": (
        ("2.7.8+cuda10.2",),
        16,
        64,
        4,
        {"P2P/IPC": 416, "NET/IB/3": 216, "NET/IB/2": 152},
    ),
    "v2186-6gpu-megatron-pp3tp2.log": (("2.18.6+cuda12.1",), 1, 6, 16, {"P2P/IPC/read": 800}),
    "v2277-2xA100PCIe-1n.log": (
        ("2.27.7+cuda13.0",),
        1,
        2,
        24,
        {"P2P/direct pointer/read": 48},
    ),
    "v2277-2xA100PCIe-fault.log": (
        ("2.27.7+cuda13.0",),
        1,
        2,
        2,
        {"P2P/direct pointer/read": 4},
    ),
    "v248-2n-socket-excerpt.log": (("2.4.8+cuda10.0",), 1, 2, 1, {"NET/Socket/0": 2}),
    "v22-4xA100-p4d-cumem-24ch-excerpt.log": ((), 1, 4, 24, {"P2P/CUMEM/read": 4}),
    "v2213-connect-timeout-excerpt.log": (("2.2.13+cuda9.0",), 1, 2, None, {}),
    "channel-list-truncated-at-20-excerpt.log": ((), 1, 32, 8, {}),
}


@pytest.mark.parametrize("name", FACTS)
def test_facts_of_a_real_log(logs, name):
    versions, hosts, size, channels, transports = FACTS[name]
    log = read.nccl(logs / "nccl" / name)
    assert (log.versions, len(log.hosts), log.world_size) == (versions, hosts, size)
    row = log.communicators.set_index("communicator").loc[log.largest()]
    assert (None if pd.isna(row.channels) else row.channels) == channels
    assert log.transports == transports


def test_megatrons_communicators_are_told_apart(logs):
    log = read.nccl(logs / "nccl/v2186-6gpu-megatron-pp3tp2.log")
    assert set(log.communicators["size"]) == {1, 2, 3, 6}
    assert (log.communicators["init"] == "complete").all()
    assert (log.communicators["ranks_seen"] == log.communicators["size"]).all()
    world = log.ranks[log.ranks["communicator"] == 0]
    assert world["nvml_device"].tolist() == [0, 1, 2, 5, 6, 7]
    assert world["bus_id"].tolist()[:2] == ["27000", "2a000"]
    assert log.matrix(0).loc[5, 0] == "P2P/IPC"
    assert log.matrix(0).loc[0, 3] == ""
    assert log.environment["NCCL_IB_DISABLE"] == "1"


def test_a_thread_without_a_communicator_works_for_the_last_that_had_begun(logs):
    log = read.nccl(logs / "nccl/v2186-6gpu-megatron-pp3tp2.log")
    channels = log.channels
    between = (channels["line"] > 1242) & (channels["line"] < 1789)  # of its first and next one
    sent = channels[between & (channels["source_device"] == "0")]
    label = log.communicators["label"]
    assert {label[number] for number in sent["communicator"]} == {"0xdf6433751c61529f"}


def test_inside_and_between_nodes(logs):
    log = read.nccl(logs / "nccl/v278-64xV100-16n-ib.log")
    assert len(log.ranks) == 64
    node = log.ranks.set_index("rank")["host"]
    matrix = log.matrix()
    for source in range(64):
        for destination in range(64):
            kind = matrix.loc[source, destination]
            same = node[source] == node[destination]
            assert kind in (("", "P2P/IPC") if same else ("", "NET/IB"))
    assert log.network == "IB"
    assert (log.counts() > 0).sum().sum() == (matrix != "").sum().sum()


def test_long_rings_are_marked_as_cut(logs):
    log = read.nccl(logs / "nccl/v278-64xV100-16n-ib.log")
    assert log.rings["truncated"].all()
    assert {len(order) for order in log.rings["order"]} == {20}
    whole = read.nccl(logs / "nccl/efa-2n-16xA100-libfabric-eks.log").rings
    assert not whole["truncated"].any()
    assert whole["order"].iloc[1] == (0, 3, 10, 15, 14, 13, 12, 9, 8, 11, 2, 7, 6, 5, 4, 1)


def test_trees_have_one_root_for_each_channel(logs):
    for name in ("efa-2n-16xA100-libfabric-eks.log", "v278-64xV100-16n-ib.log"):
        trees = read.nccl(logs / "nccl" / name).trees
        roots = trees[trees["parent"].isna()].groupby("channel").size()
        assert (roots == 1).all()
    node = trees[(trees["channel"] == 0) & (trees["parent"].isna())].iloc[0]
    children = trees[(trees["channel"] == 0) & (trees["parent"] == node["rank"])]["rank"]
    assert sorted(node["children"]) == sorted(children)


def test_interface_reached_through_another_rank(logs):
    log = read.nccl(logs / "nccl/v2234-4n-8xA100-ibext-pxn-excerpt.log")
    through = log.channels.dropna(subset=["through"])
    assert set(zip(through["source"], through["nic"], through["through"], strict=True)) == {
        (3, 5, 2),
        (5, 0, 4),
        (7, 1, 6),
    }
    assert log.channels[log.channels["transport"] != "P2P/CUMEM"]["gdrdma"].all()
    assert log.average_bus_bandwidth_gb_s == 8.69534
    assert log.hosts == ("gpu34", "gpu36", "gpu40", "gpu41")


def test_rows_of_nccl_tests_into_which_log_lines_ran(logs):
    good = read.nccl(logs / "nccl/v2277-2xA100PCIe-1n.log")
    slow = read.nccl(logs / "nccl/v2277-2xA100PCIe-fault.log")
    assert (good.average_bus_bandwidth_gb_s, slow.average_bus_bandwidth_gb_s) == (178.078, 28.2632)
    for log in (good, slow):
        assert log.hosts == ("mew0",)
        assert log.tests["size_bytes"].tolist() == [2**n for n in range(23, 34)]
        busbw = log.tests[["out_busbw_gb_s", "in_busbw_gb_s"]].to_numpy().mean()
        assert busbw == pytest.approx(log.average_bus_bandwidth_gb_s, rel=1e-3)
        assert log.tests[["out_wrong", "in_wrong"]].to_numpy().sum() == 0
    assert slow.environment["NCCL_TOPO_FILE"].endswith("topo_fail.xml")
    assert set(slow.operations["algorithm"]) == {"RING"}


def test_warnings_are_weighed(logs):
    def severities(name: str) -> list[str]:
        return read.nccl(logs / "nccl" / name).warnings["severity"].tolist()

    assert severities("v248-2n-socket-excerpt.log") == ["warning"]
    assert severities("rccl-2223-rocm-excerpt.log") == ["warning"]
    assert severities("v2234-collnet-init-fallback-warn.log") == ["warning"]
    assert set(severities("duplicate-gpu-horovod-excerpt.log")) == {"error"}
    assert severities("v2213-connect-timeout-excerpt.log") == ["error", "error"]
    assert severities("socket-ifname-missing-2277-excerpt.log") == ["error"]
    assert read.nccl(logs / "nccl/rccl-2223-rocm-excerpt.log").library == "RCCL"


HAND = """\
NCCL version 2.20.5+cuda12.4
n1:10:11 [0] NCCL INFO comm 0xa rank 0 nranks 3 cudaDev 0 busId 1000 commId 0xf - Init START
n1:12:13 [1] NCCL INFO comm 0xb rank 1 nranks 3 cudaDev 1 busId 2000 commId 0xf - Init START
n2:14:15 [0] NCCL INFO comm 0xc rank 2 nranks 3 cudaDev 0 busId 1000 commId 0xf - Init START
n1:10:11 [0] NCCL INFO Channel 00/02 :    0   1   2
n1:10:11 [0] NCCL INFO Trees [0] 1/-1/-1->0->-1 [1] -1/-1/-1->0->2
n1:10:11 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via SHM/direct/direct
n1:12:13 [1] NCCL INFO Channel 00/0 : 1[1] -> 2[0] [send] via NET/Socket/0
n2:14:15 [0] NCCL INFO Channel 00/0 : 1[1] -> 2[0] [receive] via NET/Socket/0
n2:14:15 [0] NCCL INFO Channel 01/0 : 2[0] -> 0[0] [send] via NET/IB/1/GDRDMA
n1:10:99 [0] NCCL INFO NVLS comm 0xa headRank 0
n1:10:11 [0] NCCL INFO comm 0xa rank 0 nranks 3 cudaDev 0 busId 1000 commId 0xf - Init COMPLETE
"""


LINKS = {
    # what is printed: source, destination, transport, interface, GDRDMA, direction, through
    "Ring 00 : 0 -> 1 [send] via NET/Socket/0": (0, 1, "NET/Socket", 0, False, "send", None),
    "Ring 01 : 1[1] -> 0[0] via P2P/IPC": (1, 0, "P2P/IPC", None, False, None, None),
    "Channel 00 : 0[1b000] -> 1[1c000] via P2P/direct pointer/read": (
        0, 1, "P2P/direct", None, False, None, None),
    "Channel 00 : 0[1b000] -> 1[1c000] via direct shared memory": (
        0, 1, "SHM", None, False, None, None),
    "Channel 00/0 : 0[0] -> 1[1] via SHM/direct/direct": (0, 1, "SHM", None, False, None, None),
    "Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/read": (0, 1, "P2P/CUMEM", None, False, None, None),
    "Channel 05/0 : 0[0] -> 1[1] via P2P/indirect/4[1b000]": (
        0, 1, "P2P/indirect", None, False, None, None),
    "Channel 00 : 3[b3000] -> 0[1b000] [receive] via NET/IB/0/GDRDMA": (
        3, 0, "NET/IB", 0, True, "receive", None),
    "Channel 00/0 : 7[e000] -> 8[7000] [send] via NET/IB/3(5)/GDRDMA": (
        7, 8, "NET/IB", 3, True, "send", 5),
    "Channel 00/0 : 7[7] -> 8[0] [send] via NET/AWS Libfabric/2/GDRDMA": (
        7, 8, "NET/AWS Libfabric", 2, True, "send", None),
    "Channel 00/0 : 7[7] -> 8[0] [send] via NET/Libfabric/0/Shared": (
        7, 8, "NET/Libfabric", 0, False, "send", None),
    "Channel 00/0 : 7[7] -> 8[0] [receive] via NET/IBext_v8/1/GDRDMA/Shared": (
        7, 8, "NET/IBext_v8", 1, True, "receive", None),
    "Channel 00/0 : 7[7] -> 8[0] [send] via NET/OFI/0": (7, 8, "NET/OFI", 0, False, "send", None),
    "Channel 00/0 : 0[c1000] -> 1[c6000] via P2P/IPC comm 0x7f0 nRanks 08": (
        0, 1, "P2P/IPC", None, False, None, None),
    "CollNet 00/1 : 4 [send] via COLLNET/SHARP/0/GDRDMA": (
        4, 4, "CollNet/SHARP", 0, True, "send", None),
}  # fmt: skip


@pytest.mark.parametrize("line", LINKS)
@pytest.mark.parametrize("before", ["", "[default0]:", "3: ", "[2025-03-01 10:00:00] "])
def test_one_link_as_versions_print_it(write, line, before):
    text = f"{before}n1.x:101:202 [0] NCCL INFO {line}\n"
    channels = read.nccl(write("a.log", text)).channels
    assert len(channels) == 1
    row = channels.iloc[0]
    names = ["source", "destination", "transport", "nic", "gdrdma", "direction", "through"]
    found = tuple(None if pd.isna(row[name]) else row[name] for name in names)
    assert found == LINKS[line]
    assert (row.host, row.line) == ("n1.x", 1)


def test_way_to_the_switch_is_no_link_between_ranks(write):
    head = "n1:1:2 [0] NCCL INFO "
    more = ["Connected NVLS tree", "Ring 00 :    0   1", "Ring 00 : 3 -> 0 -> 1"]
    lines = [*LINKS][-2:] + more
    log = read.nccl(write("a.log", "".join(f"{head}{line}\n" for line in lines)))
    assert log.transports == {"P2P/IPC comm 0x7f0 nRanks 08": 1, "COLLNET/SHARP/0/GDRDMA": 1}
    assert log.matrix().loc[0, 1] == "P2P/IPC"
    assert (log.matrix().loc[4] == "").all()
    assert log.rings["order"].tolist() == [(0, 1)]
    assert log.communicators["nvls"].tolist() == [1]


@pytest.mark.parametrize("before", ["", "[1,3]<stdout>:", "7: ", "[2025-01-02 03:04:05] "])
def test_small_log_worked_out_by_hand(write, before):
    text = "".join(before + line + "\n" for line in HAND.splitlines())
    log = read.nccl(write("a.log", text))
    assert log.matrix().to_numpy().tolist() == [
        ["", "SHM", ""],
        ["", "", "NET/Socket"],
        ["NET/IB", "", ""],
    ]
    assert log.counts().to_numpy().tolist() == [[0, 1, 0], [0, 0, 1], [1, 0, 0]]
    assert log.ranks["host"].tolist() == ["n1", "n1", "n2"]
    assert log.rings["order"].tolist() == [(0, 1, 2)]
    trees = log.trees.set_index("channel")
    assert trees["children"].tolist() == [(1,), ()]
    assert trees["parent"].fillna(-1).tolist() == [-1, 2]
    links = log.channels.set_index("channel")
    assert links["gdrdma"].tolist() == [False, False, False, True]
    assert log.communicators["channels"].tolist() == [2]


def test_logs_of_several_ranks_are_one(write, tmp_path):
    for rank, host in enumerate(("n1", "n1", "n2")):
        lines = [
            line for line in HAND.splitlines() if f"rank {rank} " in line or f"{host}:" in line
        ]
        write(f"logs/nccl.{host}.{rank}.log", "\n".join(lines))
    log = read.nccl(tmp_path / "logs")
    assert len(log.files) == 3
    assert log.world_size == 3
    assert log.matrix().loc[2, 0] == "NET/IB"


PIECES = [line.encode() + b"\n" for line in HAND.splitlines()] + [
    b"n:1:2 [0] NCCL INFO Channel 99999999999/1 : 1 -> 2 via \xff/\n",
    b"n:1:2 [0] NCCL INFO Channel 00 : \n",
    b"# Rank 1 Group 0 Pid 1 on x device 0 [0000:1] y\n",
    b"#  size count type redop root time algbw busbw #wrong\n",
    b" 8 2 float sum -1 1 2 3 0 1 2 3 0 9\n",
    b"x:1:1 [0] a NCCL WARN Duplicate GPU\n",
    b"n:1:2 [0] NCCL INFO Ring 00 : 1 -> 0 -> 5\n",
    b"n:1:2 [0] NCCL INFO comm 0x1 rank 9999999 nranks 1 - Init COMPLETE\n",
    b"AllReduce: 5 Bytes -> Algo 9 proto 9 NCCL INFO\n",
    b" NCCL INFO Channel ",
]


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.one_of(st.sampled_from(PIECES), st.binary(max_size=40)), max_size=14))
def test_no_bytes_raise(tmp_path_factory, pieces):
    path = tmp_path_factory.mktemp("fuzz") / "a.log"
    path.write_bytes(b"".join(pieces))
    log = read.nccl(path)
    log.matrix()
    log.counts()


@pytest.mark.parametrize("order", ["0 1\x1b]0;title\x07 2", "0\x1b[1m 1 2"])
@pytest.mark.parametrize("channel", ["02/04", "02\x8d/04"])
def test_a_damaged_ring_is_read_or_left_out(tmp_path, channel, order):
    path = tmp_path / "nccl.log"
    line = f"node1:10:20 [0] NCCL INFO Channel {channel} : {order}\n"
    path.write_bytes(line.encode("latin-1"))
    rings = read.nccl(path).rings
    assert rings["order"].tolist() in ([], [(0, 1, 2)])


def test_a_size_of_hundreds_of_digits_is_no_number(tmp_path):
    path = tmp_path / "tests.log"
    row = "{} 256 float sum -1 12.5 0.1 0.2 0 12.0 0.1 0.2 0\n"
    head = "# size count type redop root time algbw busbw #wrong time algbw busbw #wrong\n"
    path.write_text(head + row.format(1024) + row.format("9" * 400))
    sizes = read.nccl(path).tests["size_bytes"]
    assert sizes.iloc[0] == 1024
    assert len(sizes) == 2
