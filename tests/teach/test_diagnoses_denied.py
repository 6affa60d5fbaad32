"""A diagnosis that also tells what it was not, and one that says the opposite of the fault."""

from __future__ import annotations

import pytest

from course_lib.teach.diagnoses.judging import is_meant
from course_lib.teach.diagnoses.kinds import KINDS

BESIDE_WHAT_IT_WAS_NOT = {
    "slow-rank": [
        "rank 3 is slow; memory isn't to blame",
        "rank 3 is slow; there was no lack of memory",
        "rank 3 is slow and the data is not the reason",
        "the dropout has nothing to do with it: rank 2 is a straggler",
        "rank 2 lags behind, nothing wrong with its samples or its memory",
        "memory can be ruled out; rank 1 is throttled",
        "the loader plays no part in it, the clock of one device is lowered",
    ],
    "wrong-master": [
        "MASTER_ADDR on node1 is localhost. No typo in a host name.",
        "node2 takes localhost for the master, and no port was mistyped",
        "MASTER_ADDR on node2 is 127.0.0.1; its name resolves without any problem",
    ],
    "same-order": [
        "the shuffling isn't redone after each pass over the corpus; and no RNG of the dropout is "
        "involved",
        "each epoch has the same order, but the weights are not affected",
    ],
    "hoard": [
        "a single allocation on rank 2 was too large for the device: memory jumped, it didn't "
        "creep",
        "rank 2 is out of memory, it never grew before",
        "one huge allocation on rank 3; it wasn't that anything leaked, and no process was killed",
    ],
    "no-internet": [
        "It was not out of memory, no process was killed, and no port was taken: while starting "
        "up, a tokenizer file was meant to be retrieved from a remote server, but the compute "
        "nodes are offline.",
    ],
    "stuck": [
        "rank 2 waits for a batch; the port and the network are not at fault",
        "the data loader hangs, neither the learning rate nor a sample is to blame",
    ],
    "leak": ["rank 2 leaks; the disk had enough room and nothing was wrong with the port"],
    "shape": ["half the gradients; memory isn't an issue"],
    "node-dies": ["node2 died, it isn't about memory"],
    "old-module": ["the module is not missing, its version is old"],
    "same-data": ["all ranks read the same samples; set_epoch was not forgotten"],
    "unequal-weights": ["rank 2 began with other weights. Its samples are read correctly."],
}  # fmt: skip
OPPOSITES = {
    "same-order": [
        "set_epoch was not forgotten",
        "set_epoch was called correctly",
        "set_epoch has never been forgotten",
        "nobody forgot set_epoch",
        "the samples are shuffled properly",
        "set_epoch is called in each epoch",
        "set_epoch gets called every epoch",
    ],
    "bad-name": [
        "can be resolved without trouble",
        "the host name resolves fine",
        "the name is not mistyped",
    ],
    "wrong-port": ["MASTER_PORT isn't wrong", "no port was mistyped"],
    "disk-full": ["the disk was never full", "no lack of space on the disk"],
    "missing-module": ["the module is not missing", "the module was imported without an error"],
    "unequal-weights": ["the weights were broadcast correctly", "the seed is not to blame"],
    "exploding": [
        "the learning rate isn't too high",
        "there was no problem with the learning rate",
    ],
    "hoard": ["memory is not the cause", "there was no shortage of memory"],
}
FAULTS_WITH_A_NOT = {
    "bad-name": ["the name does not resolve correctly", "the name isn't resolved properly"],
    "same-order": ["set_epoch was not called", "the samples aren't shuffled properly again",
                   "someone forgot set_epoch", "set_epoch is called only once"],
    "unequal-weights": ["the weights were not broadcast properly"],
    "missing-module": ["no module of this name was found", "the module was never installed"],
    "same-data": ["the data is not split as it should be"],
}  # fmt: skip


def pairs(table):
    return [(kind, said) for kind, many in table.items() for said in many]


@pytest.mark.parametrize(("kind", "said"), pairs(BESIDE_WHAT_IT_WAS_NOT))
def test_what_is_denied_does_not_count_against_the_cause_beside_it(kind, said):
    assert is_meant(KINDS[kind], said)


@pytest.mark.parametrize(("kind", "said"), pairs(OPPOSITES))
def test_the_opposite_of_a_fault_is_not_the_fault(kind, said):
    assert not is_meant(KINDS[kind], said)


@pytest.mark.parametrize(("kind", "said"), pairs(FAULTS_WITH_A_NOT))
def test_a_not_that_belongs_to_the_fault_stays(kind, said):
    assert is_meant(KINDS[kind], said)
