"""Causes that no blind case has, causes with their consequence, and parts of which nothing is
said."""

from __future__ import annotations

import pytest

from course_lib.lab.job.recipes import fault
from course_lib.lab.mysteries import KINDS, seal
from course_lib.teach.checks import lesson16
from course_lib.teach.diagnoses import kinds
from course_lib.teach.diagnoses.elsewhere import ELSEWHERE
from course_lib.teach.diagnoses.judging import is_meant

from .finished_runs import hint_of

SAID = {
    "wall": [
        "a firewall between the nodes drops the packets of rank 2",
        "a firewall blocks the port on node1",
        "the port on node1 is blocked by a firewall",
        "iptables on node2",
        "the fire-wall lets no traffic through",
    ],
    "slow-network": [
        "slow network link",
        "the network between node1 and node2 is slow",
        "too little bandwidth between the nodes",
        "packet loss on the link",
        "a network cable is broken",
    ],
    "broken-device": [
        "the device of rank 3 computes wrongly (broken GPU)",
        "rank 2's weights were damaged by a bad GPU",
        "a bit flip in the memory of a GPU",
        "faulty hardware: wrong results on rank 2",
    ],
}
TAKEN = {
    "slow-rank": [
        "the processor is running at roughly a third of the speed of its colleagues",
        "rank 2 computes at half the speed",
        "the GPU of rank 1 is sluggish",
        "everyone waits in the network since rank 3 is slow",
    ],
    "no-internet": ["the firewall lets nobody into the internet", "outbound traffic is blocked"],
    "killed": ["rank 2 was killed because it ran out of memory", "killed due to its memory"],
    "unequal-weights": [
        "the weights of rank 2 differ because it drew another seed",
        "rank 2 had another seed, so its weights drift away",
        "the broadcast was skipped, so the weights differ",
    ],
    "bad-sample": ["rank 2's samples are corrupt so its weights drift away"],
    "skipped": ["its weights differ because it skipped a step"],
    "exploding": ["the weights are NaN because the learning rate is too high"],
    "disk-full": ["saving failed, so I think the disk is full"],
}
OF_ANOTHER = {
    "unequal-weights": [
        "rank 2's samples are corrupt so its weights drift away",
        "damaged by a bad GPU",
        "the weights were damaged by a bad GPU",
        "skipped an optimizer step",
        "its weights differ because rank 2 skipped an optimizer step",
        "weights",
        "the weights of rank 2",
    ],
    "slow-rank": ["the clock of rank 2", "the network between the two nodes is slow"],
    "hoard": ["memory", "something with the memory"],
    "wrong-port": ["MASTER_PORT", "the port of rank 3", "a firewall blocks the port"],
    "same-order": ["the order", "epochs"],
    "stuck": ["a firewall blocks the port on node1", "the data loader"],
}


def pairs(table):
    return [(kind, said) for kind, many in table.items() for said in many]


@pytest.fixture
def case(finished):
    def make(kind):
        recipe = fault.recipe("mystery-9", planted_fault=seal(f"{kind}:2:5"))
        return finished(recipe, "", exit_code=1)

    return make


@pytest.mark.parametrize(("kind", "said"), pairs(SAID))
def test_what_no_blind_case_has_meets_what_it_would_look_like(case, kind, said):
    hint = hint_of(lesson16.ex16_mystery, case("same-dropout"), said, None, None, "x")
    assert f"If that were so ({ELSEWHERE[kind].title})" in " ".join(hint.split())
    assert not [one for one in KINDS if is_meant(kinds.KINDS[one], said)]


@pytest.mark.parametrize(("kind", "said"), pairs(TAKEN))
def test_a_cause_is_taken_with_its_consequence_beside_it(kind, said):
    assert is_meant(kinds.KINDS[kind], said)


@pytest.mark.parametrize(("kind", "said"), pairs(OF_ANOTHER))
def test_a_consequence_and_a_bare_part_are_no_cause(kind, said):
    assert not is_meant(kinds.KINDS[kind], said)


def test_a_bare_part_is_asked_what_is_wrong_with_it(case):
    run = case("unequal-weights")
    hint = hint_of(lesson16.ex16_mystery, run, "the weights of rank 2", 2, "node2", "x")
    assert "names a thing" in hint
