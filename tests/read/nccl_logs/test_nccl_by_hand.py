"""Logs of NCCL that were written for a test: small, damaged, of several versions."""

from __future__ import annotations

import pandas as pd
import pytest

from course_lib import read

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


@pytest.mark.parametrize("before", ["", "[1,3]<stdout>:", "7: ", "[2025-01-02 03:04:05] "])
def test_small_log_worked_out_by_hand(write, before):
    text = "".join(before + line + "\n" for line in HAND.splitlines())
    log = read.nccl(write("a.log", text))
    assert log.matrix().to_numpy().tolist() == [
        ["", "SHM", ""],
        ["", "", "NET/Socket"],
        ["NET/IB", "", ""],
    ]
    assert log.ranks["host"].tolist() == ["n1", "n1", "n2"]
    assert log.rings["order"].tolist() == [(0, 1, 2)]
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
