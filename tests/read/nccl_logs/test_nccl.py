"""Logs of every version of NCCL become ranks, links and rings."""

from __future__ import annotations

import pandas as pd
import pytest

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


def test_long_rings_are_marked_as_cut(logs):
    log = read.nccl(logs / "nccl/v278-64xV100-16n-ib.log")
    assert log.rings["truncated"].all()
    assert {len(order) for order in log.rings["order"]} == {20}
    whole = read.nccl(logs / "nccl/efa-2n-16xA100-libfabric-eks.log").rings
    assert not whole["truncated"].any()
    assert whole["order"].iloc[1] == (0, 3, 10, 15, 14, 13, 12, 9, 8, 11, 2, 7, 6, 5, 4, 1)


def test_interface_reached_through_another_rank(logs):
    log = read.nccl(logs / "nccl/v2234-4n-8xA100-ibext-pxn-excerpt.log")
    through = log.channels.dropna(subset=["through"])
    assert set(zip(through["source"], through["nic"], through["through"], strict=True)) == {
        (3, 5, 2),
        (5, 0, 4),
        (7, 1, 6),
    }
    assert log.channels[log.channels["transport"] != "P2P/CUMEM"]["gdrdma"].all()
    assert log.hosts == ("gpu34", "gpu36", "gpu40", "gpu41")


def test_settings_are_read(logs):
    log = read.nccl(logs / "nccl/v2277-2xA100PCIe-fault.log")
    assert log.environment["NCCL_TOPO_FILE"].endswith("topo_fail.xml")
