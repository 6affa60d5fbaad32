"""Causes and cures in words that were once not known, and causes that are another kind's."""

from __future__ import annotations

import pytest

from course_lib.teach.diagnoses.judging import is_meant
from course_lib.teach.diagnoses.kinds import KINDS

CAUSES = {
    "stuck": ["data reading stopped on one process; everyone else waits for it",
              "the batch for rank 1 did not arrive because the prefetcher died"],
    "same-data": ["one rank gets somebody else's shard of the data",
                  "each sample of rank 0 is also read by another rank",
                  "each rank sees the entire data set instead of its part"],
    "shape": ["one rank has parameters without gradient that the others have"],
    "unequal-weights": ["weight checksums disagree on one rank"],
    "hoard": ["it accumulates huge tensors in one iteration"],
    "skipped": ["ranks made unequal numbers of steps", "one rank performs one fewer all-reduce"],
    "wrong-master": ["each node used $(hostname) as the master address",
                     "the nodes don't agree on the meeting point"],
    "disk-full": ["disc full"],
    "old-module": ["a library on node 2 is out of date"],
}  # fmt: skip
CURES = {
    "hoard": ["compute the statistic on the fly", "store only what is needed"],
    "shape": ["reduce zeros for parameters without gradient"],
    "leak": ["release the tensors after each step"],
    "disk-full": ["remove old checkpoints"],
    "no-internet": ["put the file on the shared disk first"],
    "wrong-master": ["use the head node's name everywhere"],
}
OF_ANOTHER = {
    "slow-rank": ["data loading is slow on all"],
    "shape": ["the batch sizes differ"],
    "old-module": ["one node's Python cannot find a module"],
    "missing-module": ["wrong host name in the environment of one rank"],
    "bad-sample": ["one rank is stuck fetching data"],
    "wrong-port": ["two jobs chose the same port"],
    "skipped": ["learning rate jumped by a factor of 100000"],
    "wrong-master": ["one rank has another master port than the rest"],
}


@pytest.mark.parametrize("kind", CAUSES)
def test_a_cause_is_taken_in_these_words(kind):
    for said in CAUSES[kind]:
        assert is_meant(KINDS[kind], said), said


@pytest.mark.parametrize("kind", CURES)
def test_a_cure_is_taken_in_these_words(kind):
    for said in CURES[kind]:
        assert KINDS[kind].is_cured_by(said), said


@pytest.mark.parametrize("kind", OF_ANOTHER)
def test_words_of_another_kind_are_not_taken(kind):
    for said in OF_ANOTHER[kind]:
        assert not is_meant(KINDS[kind], said), said


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (
            "hoard",
            "For six steps the memory of all four ranks stays flat, so it is no leak; then rank 1 "
            "alone shoots up to the ceiling and gets refused 2 MiB. One step there needed far more "
            "memory than all others, I would guess a single very long sample, and its activations "
            "did not fit on the device",
        ),
        (
            "disk-full",
            "All four ranks die while the second checkpoint is being saved. It says out of memory, "
            "but more than 100 MiB are free, so I believe the disk/quota for it is full",
        ),
        ("node-dies", "node2 vanished: both of its processes were killed by SIGKILL at once"),
    ],
)
def test_long_causes_that_tell_how_it_looked_are_taken(kind, said):
    assert is_meant(KINDS[kind], said)


def test_the_end_of_one_process_is_not_taken_for_that_of_a_node():
    assert not is_meant(
        KINDS["node-dies"], "rank 2 was killed by SIGKILL, the others lost their peer"
    )
    assert not is_meant(KINDS["killed"], "node2 vanished: both of its processes are gone")
