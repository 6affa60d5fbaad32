"""Node lists, as in the answers of Slurm 22.05.8 to `scontrol show hostnames` and `hostlist`."""

from __future__ import annotations

import pytest

from course_lib.box import hostlist


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("node[1-3,5]", ["node1", "node2", "node3", "node5"]),
        ("a[01-03],c", ["a01", "a02", "a03", "c"]),
        ("n[9-11]", ["n9", "n10", "n11"]),
        ("n[001-3]", ["n001", "n002", "n003"]),
        ("a,,b", ["a", "b"]),
        ("a b", ["a", "b"]),
        ("a]", ["a]"]),
        ("", []),
        ("node", ["node"]),
    ],
)
def test_a_list_names_every_node_in_its_order(text, names):
    assert hostlist.expand(text) == names


@pytest.mark.parametrize("text", ["a[1-2]x", "a[3-1]", "a[x]", "a[]", "a[1", "a[1-100000]"])
def test_what_is_no_node_list_is_refused(text):
    with pytest.raises(hostlist.HostListError):
        hostlist.expand(text)


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (["a1", "a2", "a3", "b"], "a[1-3],b"),
        (["a3", "a1", "a2"], "a[3,1-2]"),
        (["a01", "a02", "a10", "a9"], "a[01-02,10,9]"),
        (["n9", "n10", "n11"], "n[9-11]"),
        (["a1-ib", "a2-ib"], "a1-ib,a2-ib"),
        (["r1n1", "r1n2", "r2n1", "r2n2"], "r1n[1-2],r2n[1-2]"),
        (["01", "02"], "[01-02]"),
        (["a1", "a1"], "a[1,1]"),
        (["n9", "n10", "n011"], "n[9-10,011]"),
        (["node1"], "node1"),
    ],
)
def test_names_are_put_together_as_slurm_does(names, text):
    assert hostlist.compress(names) == text
