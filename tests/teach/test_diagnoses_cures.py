"""What cures a blind case, in a learner's words, and what says to leave undone what would."""

from __future__ import annotations

import pytest

from course_lib.lab.job.recipes import fault
from course_lib.lab.mysteries import KINDS, seal
from course_lib.teach.checks import lesson16
from course_lib.teach.diagnoses.cures import GOALS, is_cured

from .finished_runs import hint_of
from .more_diagnoses_to_try import CURED

TAKEN = {
    "bad-sample": ["guard the denominator", "drop that record", "clean that record out",
                   "add an epsilon to the denominator", "do not read empty samples",
                   "throw such records away", "never divide by zero", "validate the documents"],
    "wrong-master": ["real hostname rather than localhost", "use the routable hostname everywhere",
                     "set it to node1, not to localhost", "never use localhost for it",
                     "replace localhost by the first node's address",
                     "do not overwrite MASTER_ADDR on node2"],
    "hoard": ["activation checkpointing", "cut the long samples", "truncate the longest sequences",
              "don't keep the logits", "recompute the activations", "never store all outputs"],
    "same-order": ["do not forget to call set_epoch", "don't use the same seed in each epoch"],
    "skipped": ["no rank should skip a step: pad the batches", "do not leave a step out"],
    "leak": ["stop storing gradients", "gradients must not be kept"],
    "node-dies": ["do not use node2 any more", "avoid the node"],
    "slow-rank": ["don't run on that node"],
    "port-taken": ["do not use a fixed port", "never share a port with another job"],
    "no-internet": ["do not download it during the job",
                    "fetch it before rather than at the start"],
    "same-dropout": ["don't give all ranks the same seed"],
    "unequal-weights": ["don't let each rank draw its own weights"],
    "exploding": ["not so high a learning rate"],
}  # fmt: skip
REFUSED = {
    "same-order": ["do not call set_epoch", "never shuffle", "stop calling set_epoch",
                   "set_epoch must not be called"],
    "bad-sample": ["do not filter it", "don't skip the sample", "avoid the mask"],
    "same-dropout": ["do not add the rank to the seed"],
    "wrong-master": ["do not touch MASTER_ADDR", "set MASTER_ADDR to localhost",
                     "MASTER_ADDR=$(hostname)"],
    "unequal-weights": ["do not broadcast", "don't synchronise the weights"],
    "exploding": ["do not lower the learning rate", "never clip the gradients"],
    "same-data": ["don't give the sampler its rank", "instead of a sampler, a list"],
    "hoard": ["do not use activation checkpointing", "never shorten anything"],
    "missing-module": ["do not install it"],
    "old-module": ["don't update it"],
    "disk-full": ["do not make room"],
    "killed": ["don't resume from the checkpoint"],
}  # fmt: skip


def pairs(table):
    return [(kind, said) for kind, many in table.items() for said in many]


def test_every_kind_has_its_goal():
    assert set(GOALS) == set(KINDS)


@pytest.mark.parametrize(("kind", "said"), pairs(TAKEN))
def test_a_cure_is_taken_in_these_words(kind, said):
    assert is_cured(kind, said)


@pytest.mark.parametrize(("kind", "said"), pairs(REFUSED))
def test_a_cure_that_is_not_to_be_done_is_none(kind, said):
    assert not is_cured(kind, said)


def test_what_was_written_in_haste_is_a_cure_as_the_check_reads_it():
    assert [one for one in pairs(CURED) if not is_cured(*one)] == []


@pytest.mark.parametrize(
    ("cure", "words"),
    [
        ("do not call set_epoch", "read it once more"),
        ("buy more GPUs", "the second way through the data is unlike the first"),
    ],
)
def test_a_refused_cure_is_told_what_it_has_to_do(finished, cure, words):
    recipe = fault.recipe("mystery-9", planted_fault=seal("same-order:2:5"))
    run = finished(recipe, "", exit_code=0)
    said = hint_of(lesson16.ex16_mystery, run, "set_epoch was forgotten", None, None, cure)
    assert "✗ the cure" in said
    assert words in " ".join(said.split())


def test_what_a_cure_has_to_do_is_not_yet_one():
    assert [kind for kind, goal in GOALS.items() if is_cured(kind, goal.aim)] == []
