"""The settings of a job's network, compared with the kernel's report."""

from __future__ import annotations

import errno
import json
import subprocess
import sys

import pytest

from course_lib.box.nodes import link

TICK_S = 64e-9  # in which the kernel counts a burst

ENTER = """
import json, os, subprocess
from course_lib.box.processes import libc
from course_lib.box.nodes import link
from course_lib.box.nodes import namespaces
from course_lib.box.nodes.link import Netlink

user, group = os.getuid(), os.getgid()
libc.unshare(libc.NEWUSER | libc.NEWNET)
namespaces.map_self(user, group)
"""

BUILD = """
def asked(*command):
    text = subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout
    return json.loads(text or "[]")

def told():
    links, queues = asked("ip", "-j", "-d", "link"), asked("tc", "-j", "-r", "qdisc")
    addresses = {card["ifname"]: card["addr_info"] for card in asked("ip", "-j", "addr")}
    return {
        card["ifname"]: {
            **card,
            "queue": [queue for queue in queues if queue["dev"] == card["ifname"]],
            "addresses": [
                f"{one['local']}/{one['prefixlen']}"
                for one in addresses[card["ifname"]] if one["family"] == "inet"
            ],
        }
        for card in links
    }

switch = os.open("/proc/self/ns/net", os.O_RDONLY)  # kept, or the cables end with it
places = [switch, *link.build(["10.211.0.1", "10.211.1.2"], 16, GBIT)]
found = []
for place in places:
    libc.setns(place, libc.NEWNET)
    found.append(told())
print(json.dumps(found))
"""

ERRORS = """
def refused(request, *arguments):
    try:
        request(*arguments)
    except OSError as error:
        return error.errno, str(error)

with Netlink() as network:
    gone = os.open("/proc/self/ns/net", os.O_RDONLY)
    os.close(gone)
    network.add_bridge("here")
    found = {
        "unknown name": refused(network.index_of, "nowhere"),
        "unknown index": refused(network.bring_up, 9999),
        "name taken": refused(network.add_bridge, "here"),
        "namespace closed": refused(network.add_veth, "port", "eth0", gone),
        "prefix too long": refused(network.add_address, network.index_of("here"), "10.0.0.1", 33),
    }
    found["still in step"] = network.index_of("here") > 0
found["socket closed"] = refused(network.index_of, "here")
print(json.dumps(found))
"""


def run(program: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", ENTER + program]
    return subprocess.run(
        command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60, check=False
    )


@pytest.fixture(scope="module")
def inside():
    """Run a program in its own namespaces. Skip the test only if no process may enter namespaces;
    unlike `namespaces`, do not skip it if only the box's requests fail."""
    if sys.platform != "linux":
        pytest.skip("namespaces are Linux")
    if (entered := run("")).returncode:
        pytest.skip(entered.stderr.strip().splitlines()[-1])

    def answer(program: str):
        done = run(program)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return answer


@pytest.fixture
def built(inside, need):
    """The network cards, by name, of a switch and of two nodes whose link has this speed."""
    need("ip", "tc")
    return lambda gbit: inside(BUILD.replace("GBIT", str(gbit)))


def test_a_job_gets_a_switch_and_a_card_with_an_address_per_node(built):
    switch, *nodes = built(1.0)
    assert sorted(switch) == ["lo", "port1", "port2", "switch"]
    assert switch["switch"]["linkinfo"]["info_kind"] == "bridge"
    assert [switch[port]["master"] for port in ("port1", "port2")] == ["switch", "switch"]
    assert [sorted(node) for node in nodes] == [["eth0", "lo"]] * 2
    assert [node["eth0"]["addresses"] for node in nodes] == [["10.211.0.1/16"], ["10.211.1.2/16"]]
    for card in (switch["port1"], switch["port2"], nodes[0]["eth0"], nodes[1]["eth0"]):
        assert card["linkinfo"]["info_kind"] == "veth"
        assert {"UP", "LOWER_UP"} <= set(card["flags"])
        assert card["mtu"] == link.MTU_BYTES
    assert "UP" in switch["switch"]["flags"]
    assert switch["switch"]["mtu"] == link.MTU_BYTES
    assert [node["lo"]["addresses"] for node in nodes] == [["127.0.0.1/8"]] * 2


@pytest.mark.parametrize("gbit", [0.1, 0.3, 1.0, 10.0, 30.0])
def test_both_ends_of_a_cable_send_at_the_rate_of_the_link(built, gbit):
    wanted = link.shape(gbit)
    switch, *nodes = built(gbit)
    for card in (switch["port1"], switch["port2"], nodes[0]["eth0"], nodes[1]["eth0"]):
        (queue,) = card["queue"]
        assert (queue["kind"], queue["root"]) == ("tbf", True)
        assert queue["options"]["rate"] == wanted["rate"]
        assert queue["options"]["limit"] == wanted["limit"]
        tick_bytes = wanted["rate"] * TICK_S
        burst = int(queue["options"]["burst_raw"], 16) * tick_bytes  # tc rounds the other to 1 µs
        assert burst == pytest.approx(wanted["burst"], abs=tick_bytes)


def test_what_the_kernel_refuses_is_an_error_with_its_number(inside):
    found = inside(ERRORS)
    assert found.pop("still in step") is True
    assert found.pop("socket closed")[0] == errno.EBADF
    assert {name: number for name, (number, _) in found.items()} == {
        "unknown name": errno.ENODEV,
        "unknown index": errno.ENODEV,
        "name taken": errno.EEXIST,
        "namespace closed": errno.EBADF,
        "prefix too long": errno.EINVAL,
    }
    assert found["name taken"][1] == "[Errno 17] network: File exists"
