"""Addresses of the nodes, and the shape of the link between them."""

from __future__ import annotations

import pytest

from course_lib.box.nodes import link
from course_lib.box.nodes.namespaces import address, hosts_text

NAMES = ["node1", "node2"]


@pytest.mark.parametrize("link_gbit", [0.1, 0.2, 1.0, 10.0])
def test_a_shaped_link_can_hold_segments_and_whole_datagrams(link_gbit):
    limits_ = link.shape(link_gbit)
    assert limits_ is not None
    assert limits_["rate"] == pytest.approx(link_gbit * 1e9 / 8)
    assert limits_["burst"] >= 65536
    assert limits_["limit"] - limits_["burst"] >= 16 * 65536


def test_a_link_faster_than_the_machine_is_not_shaped():
    assert link.shape(100.0) is None


def test_addresses_are_those_of_the_node_number():
    assert [address(1), address(2), address(300)] == ["10.211.0.1", "10.211.0.2", "10.211.1.44"]
    assert "10.211.0.2\tnode2\n" in hosts_text(NAMES)
