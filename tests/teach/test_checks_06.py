"""Lesson 06: each wrong answer is met by the hint for that mistake."""

from __future__ import annotations

import pytest

from course_lib.lab.job.recipes import gpt, shell
from course_lib.teach.checks import lesson06

from .answers_to_try import hold
from .finished_runs import MEMORY_LINE, hint_of

LONGER = {"seq_length": 256, "max_position_embeddings": 256}
OUT_OF_MEMORY = MEMORY_LINE.format(rank=2)
KILLED = "slurmstepd: error: Detected 1 oom_kill event in StepId=7.0. Some tasks were OOM Killed.\n"


def wall(name, micro_batch, **more):
    given = {"nodes": 2, "gpus_per_node": 1, "device_memory_gib": 160 / 1024, **LONGER, **more}
    return gpt.recipe(name, micro_batch=micro_batch, **given)


@pytest.fixture
def pair(finished):
    """Return the two runs of the exercise, with their ends and their special flags."""

    def make(fits=4, breaks=6, fits_log="", breaks_log=OUT_OF_MEMORY, **more):
        return (
            finished(wall("fits", fits, **more), fits_log, int(bool(fits_log))),
            finished(wall("breaks", breaks, **more), breaks_log, int(bool(breaks_log))),
        )

    return make


def test_one_run_below_the_wall_and_one_behind_it_pass(pair, capsys):
    lesson06.ex06_longer(*pair(4, 5))
    assert "✓ their micro-batches differ by at most 2" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"fits_log": OUT_OF_MEMORY}, "a sample of 256 tokens need more memory"),
        ({"breaks_log": ""}, "Micro-batch 6 fits too"),
        (
            {"fits": 6, "breaks": 4, "fits_log": OUT_OF_MEMORY, "breaks_log": ""},
            "Micro-batch 6 ran",
        ),
        ({"fits": 2}, "They are 2 and 6"),
        ({"model": gpt.model("tiny").but(layers=2)}, "These flags differ: --num-layers"),
        ({"breaks_log": "srun: error: no such program\n"}, "It failed for another reason"),
        ({"breaks_log": KILLED}, "It failed for another reason"),
        ({"seq_length": 128, "max_position_embeddings": 128}, "These flags differ: --max-position"),
        ({"device_memory_gib": 0}, "It is missing. The exercise keeps"),
        ({"iterations": 1}, "memory use is higher in the second"),
        ({"global_batch": 480}, "Only one of several micro-batches"),
    ],
)
def test_a_wrong_pair_of_runs_gets_the_hint_for_its_mistake(pair, given, words):
    assert words in hint_of(lesson06.ex06_longer, *pair(**given))


def test_a_machine_that_keeps_no_limit_is_told_so(finished, pair):
    report = "[Rank 0] (after 1 iterations) memory (MB) | allocated: 150.0 | max allocated: {0} | reserved: 150.0 | max reserved: {0}\n"  # noqa: E501
    for most_mib, words in ((400.0, "completed with 400 MiB reserved"), (158.0, "fits too")):
        done = finished(wall("breaks", 6), report.format(most_mib))
        assert words in hint_of(lesson06.ex06_longer, pair()[0], done)


def test_an_empty_gap_and_a_run_that_goes_on_are_told_apart(finished, pair):
    fits, breaks = pair()
    running = finished(wall("fits", 4), "", exit_code=None)
    unfinished = gpt.recipe("fits", micro_batch=...)
    assert "Still to fill in: micro_batch" in hint_of(lesson06.ex06_longer, unfinished, breaks)
    assert "Wait for it" in hint_of(lesson06.ex06_longer, running, breaks)
    assert "Replace the ..." in hint_of(lesson06.ex06_longer, fits, ...)


def test_a_run_of_another_kind_is_told_by_what_it_lacks(finished, pair):
    other = finished(shell.recipe("hello", "echo hello"), "hello\n")
    assert "These flags differ" in hint_of(lesson06.ex06_longer, other, pair()[1])


def test_the_published_micro_batch_holds_against_all_kinds_of_answers(lab):
    wrong = {
        32: "4 GiB", 16: "How many bytes", 8: "How many bytes", 12: "How many bytes",
        3.81: "512 MiB is 512 × 2²⁰ bytes", 128: "how many MiB one sample takes",
        5.2: "You answered 5.2",
    }  # fmt: skip
    hold("published_micro_batch", lesson06.ex06_published, 4, wrong)
