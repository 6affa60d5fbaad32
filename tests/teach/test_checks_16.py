"""Lesson 16: right diagnoses in many words are taken, and each wrong one meets its evidence."""

from __future__ import annotations

import pytest

from course_lib import plan
from course_lib.lab.job.recipes import fault
from course_lib.lab.mysteries import KINDS, BlindCase, case_of, mystery, opened, seal
from course_lib.teach.checks import lesson16, lesson16b
from course_lib.teach.diagnoses import kinds
from course_lib.teach.diagnoses.judging import is_meant, score

from .answers_to_try import hold
from .diagnoses_to_try import IN_OTHER_WORDS
from .finished_runs import hint_of
from .more_diagnoses_to_try import CURED, DENIED, IN_HASTE

SAID = {
    "stuck": ["rank hangs waiting for its data loader", "deadlock in the reader thread", "stuck"],
    "skipped": ["it skipped a step", "one rank made one step less", "left out a collective"],
    "shape": ["mismatched shapes in all_reduce", "half of the gradients: other size"],
    "hoard": ["out of memory", "OOM: it keeps all logits"],
    "leak": ["memory leak", "memory grows each step", "a leak: keeps its gradients"],
    "killed": ["the process was killed", "SIGKILL", "rank died (killed)"],
    "node-dies": ["the whole node is gone", "node failure", "node2 died"],
    "slow-rank": ["straggler", "slow device", "throttled clock"],
    "wrong-port": ["wrong MASTER_PORT", "another port"],
    "wrong-master": ["wrong MASTER_ADDR", "it connects to localhost instead of the master"],
    "bad-name": ["the host name does not resolve", "DNS: unknown host"],
    "port-taken": ["port already in use", "EADDRINUSE", "another program has taken the port"],
    "bad-sample": ["a bad sample gives NaN", "0/0 in an empty sequence", "corrupt data"],
    "exploding": ["learning rate too high, diverged", "exploding gradients"],
    "same-data": ["all ranks read the same data", "sampler not sharded: identical batches"],
    "unequal-weights": ["weights differ: not broadcast", "unsynchronised initial weights"],
    "same-dropout": ["same dropout masks", "all ranks have the same random state"],
    "same-order": ["set_epoch forgotten", "same order in every epoch", "not shuffled again"],
    "disk-full": ["disk full", "no space left", "quota"],
    "no-internet": ["no internet", "tries to download the tokenizer"],
    "missing-module": ["module is missing", "package not installed on one node"],
    "old-module": ["old version of a module", "stale module", "cannot import name"],
}
CURES = {
    "stuck": "watch the reader thread and set a time-out", "skipped": "same number of steps on all",
    "shape": "the same parameters on all ranks", "hoard": "do not keep the logits",
    "leak": "detach, keep numbers only", "killed": "load the last checkpoint",
    "node-dies": "exclude the node and go on from the checkpoint", "slow-rank": "exclude the node",
    "wrong-port": "one MASTER_PORT for all", "wrong-master": "MASTER_ADDR = first node",
    "bad-name": "a name that the nodes know", "port-taken": "port from the job id",
    "bad-sample": "filter the data", "exploding": "lower learning rate",
    "same-data": "give the sampler its rank", "unequal-weights": "broadcast from rank 0",
    "same-dropout": "seed + rank", "same-order": "call set_epoch", "disk-full": "make room",
    "no-internet": "download before, on the login node", "missing-module": "install it",
    "old-module": "update the module",
}  # fmt: skip


@pytest.fixture
def case(finished):
    """A blind case that is over, without any cluster."""

    def make(kind, rank=2):
        recipe = fault.recipe("mystery-9", planted_fault=seal(f"{kind}:{rank}:5"))
        return finished(recipe, "", exit_code=1)

    return make


def answer(kind, rank=2):
    who = kinds.KINDS[kind].one
    if who == "none":
        return None, None
    return (0, "node1") if who in ("first", "disk") else (rank, "node2")


def test_every_kind_has_its_words():
    assert set(SAID) == set(CURES) == set(KINDS) == set(kinds.KINDS) == set(IN_OTHER_WORDS)


@pytest.mark.parametrize("kind", KINDS)
def test_a_right_cause_in_other_words_is_taken(kind):
    for said in (*SAID[kind], *IN_OTHER_WORDS[kind]):
        assert is_meant(kinds.KINDS[kind], said), said


def test_what_is_said_of_one_kind_is_seldom_taken_for_another():
    taken = [(kind, said) for other, many in IN_OTHER_WORDS.items() for said in many
             for kind in KINDS if kind != other and is_meant(kinds.KINDS[kind], said)]  # fmt: skip
    assert len(taken) <= 4, taken


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_written_in_haste_is_taken_and_what_is_denied_is_not(kind):
    refused = [said for said in IN_HASTE[kind] if not is_meant(kinds.KINDS[kind], said)]
    taken = [said for said in DENIED[kind] if is_meant(kinds.KINDS[kind], said)]
    assert (refused, taken) == ([], [])
    assert all(kinds.KINDS[kind].is_cured_by(said) for said in CURED[kind])


def test_the_cure_of_one_kind_is_seldom_one_of_another():
    taken = [(kind, other) for kind in KINDS for other in KINDS
             if kind != other and kinds.KINDS[kind].is_cured_by(CURES[other])]  # fmt: skip
    assert len(taken) <= 12, taken


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("not a hang", "tells what it is not"),
        ("a hang or a leak", "names several causes"),
        ("not a hang: it was killed", "If that were so (a process was killed)"),
        ("the moon", "None of its words is known"),
    ],
)
def test_a_denied_and_a_divided_cause_meet_their_hint(case, said, words):
    assert words in hint_of(lesson16.ex16_mystery, case("stuck"), said, 2, "node2", "x")


VAGUE = ["it crashed", "hardware error", "network problem", "NCCL error", "time-out", "all ranks",
         "something with memory", "something with data", "one rank", "a bug"]  # fmt: skip


@pytest.mark.parametrize("said", VAGUE)
def test_what_could_be_said_of_any_is_no_diagnosis(said):
    assert not [kind for kind in KINDS if is_meant(kinds.KINDS[kind], said)]


@pytest.mark.parametrize("kind", KINDS)
def test_the_whole_diagnosis_solves_the_case(case, kind, capsys):
    lesson16.ex16_mystery(case(kind), SAID[kind][0], *answer(kind), CURES[kind])
    assert "✗" not in capsys.readouterr().out


ALIKE = [{"missing-module", "old-module"}, {"hoard", "leak"}, {"killed", "node-dies"}]


@pytest.mark.parametrize("kind", KINDS)
def test_a_wrong_cause_meets_what_that_would_look_like(case, kind):
    run = case(kind)
    for other, (said, *_) in SAID.items():
        if other == kind or any({kind, other} == pair for pair in ALIKE):
            continue
        if is_meant(kinds.KINDS[kind], said):
            continue  # its words are shared
        hint = hint_of(lesson16.ex16_mystery, run, said, *answer(kind), "x")
        assert "✗ the cause" in hint
        assert kinds.KINDS[kind].title not in hint, "a hint does not give the case away"
        assert len(hint) > 80


def test_few_wrong_causes_pass_for_another():
    taken = [(kind, other) for kind in KINDS for other in KINDS
             if kind != other and is_meant(kinds.KINDS[kind], SAID[other][0])]  # fmt: skip
    assert len(taken) <= 6, taken


def test_the_rank_that_only_waited_is_no_answer(case):
    hint = hint_of(lesson16.ex16_mystery, case("stuck"), "stuck", 0, "node1", "x")
    assert "only met the consequences" in hint


def test_a_wrong_node_is_told_how_ranks_fill_them(case):
    hint = hint_of(lesson16.ex16_mystery, case("stuck"), "stuck", 2, "node1", "x")
    assert "2 on each" in hint


@pytest.mark.parametrize("rank", [2, "2", "rank 2", 2.0, [2], {2}, "Rank=2", "process #2", "r2"])
@pytest.mark.parametrize("node", ["node2", "Node 2", "on node-2", ["node2"], "node2.cluster"])
def test_a_rank_and_a_node_in_any_form(case, rank, node):
    lesson16.ex16_mystery(case("stuck"), "stuck", rank, node, CURES["stuck"])


@pytest.mark.parametrize("rank", ["two", "Rank two", "process number two", "rank no. 2", ["two"]])
@pytest.mark.parametrize("node", [2, "2", 2.0, [2], "two", "node two", "the second node", "second"])
def test_a_number_that_is_written_out_or_stands_bare(case, rank, node):
    lesson16.ex16_mystery(case("stuck"), "stuck", rank, node, CURES["stuck"])


@pytest.mark.parametrize("node", [1, 3, "one", "first", "node three", "third", "not 2", "1 or 2"])
def test_another_number_is_another_node(case, node):
    assert "✗ node" in hint_of(lesson16.ex16_mystery, case("stuck"), "stuck", 2, node, "x")


@pytest.mark.parametrize(
    ("rank", "words"),
    [
        ("the slow one", "Give its number"),
        ("not rank 2", "Give its number"),
        ([2, 3], "more than one"),
        ("three", "only met the consequences"),
    ],
)
def test_a_refused_rank_is_told_why(case, rank, words):
    assert words in hint_of(lesson16.ex16_mystery, case("stuck"), "stuck", rank, "node2", "x")


@pytest.mark.parametrize("rank", ["not rank 2", "2 or 3", [2, 3], "all but 2", "rank", "none"])
def test_what_names_no_one_rank_is_refused(case, rank):
    assert "✗ " in hint_of(lesson16.ex16_mystery, case("stuck"), "stuck", rank, "node2", "x")


@pytest.mark.parametrize("nobody", [None, "all ranks", "No single one", "every rank", range(4)])
def test_nobody_in_any_form(case, nobody):
    lesson16.ex16_mystery(case("exploding"), "diverged", nobody, None, CURES["exploding"])


def test_both_ranks_of_a_node_that_is_gone_may_be_named(case):
    for ranks in ([2, 3], "2 and 3", 3):
        lesson16.ex16_mystery(case("node-dies"), "node2 died", ranks, "node2", "exclude it")


@pytest.mark.parametrize("nobody", [None, "no single one", "none", "both"])
def test_a_node_that_is_gone_is_no_single_rank_and_not_all(case, nobody):
    run = case("node-dies")
    lesson16.ex16_mystery(run, "node2 died", nobody, "node2", "exclude it")
    for everybody in ("all ranks", "every rank", range(4)):
        hint = hint_of(lesson16.ex16_mystery, run, "node2 died", everybody, "node2", "x")
        assert "It began at one place" in hint
    assert "✗ node" in hint_of(lesson16.ex16_mystery, run, "node2 died", nobody, None, "x")


@pytest.mark.parametrize("who", [(0, "node1"), (None, None), ("all", "both"), (0, None)])
def test_a_full_disk_is_everybodys_and_rank_0_tells_of_it(case, who):
    run = case("disk-full")
    lesson16.ex16_mystery(run, "the disk is full", *who, "make room")
    assert "✗ rank 2" in hint_of(lesson16.ex16_mystery, run, "disk full", 2, "node2", "make room")
    assert "✗ node" in hint_of(lesson16.ex16_mystery, run, "disk full", 0, "node2", "make room")


@pytest.mark.parametrize("given", [..., None, 3, "x", [], float("nan"), object()])
def test_no_answer_is_a_traceback(case, given):
    for place in range(5):
        answers = [case("stuck"), "stuck", 2, "node2", CURES["stuck"]]
        answers[place] = given
        hint = hint_of(lesson16.ex16_warm_up, *answers)
        assert "✗" in hint


def test_neighbouring_seeds_are_unlike_and_each_kind_has_a_turn():
    found = [case_of(seed).kind for seed in range(len(KINDS))]
    assert sorted(found) == sorted(KINDS)


def test_a_node_that_meets_itself_is_never_the_one_at_which_all_meet():
    cases = [case_of(seed) for seed in range(len(KINDS) * 20)]
    assert {one.rank for one in cases if one.kind == "wrong-master"} == {2, 3}
    assert {one.rank for one in cases} == {1, 2, 3}


def test_name_and_script_tell_nothing(lab):
    for seed in range(len(KINDS)):
        recipe = mystery(seed)
        text = str(lab.script(recipe))
        assert recipe.name == f"mystery-{seed}"
        assert not [kind for kind in KINDS if kind in text.replace("bad-exit", "")], seed
        assert opened(recipe) == case_of(seed)


def test_a_seed_that_is_still_to_be_chosen_submits_nothing(lab, capsys):
    case = lab.mystery(...)
    assert case.wait() == "UNFINISHED"
    assert "seed" in capsys.readouterr().out
    assert "This is none" in hint_of(lesson16.ex16_mystery, case, ..., ..., ..., ...)


def test_the_seal_of_the_lab_is_opened_by_the_program(repository, monkeypatch):
    monkeypatch.syspath_prepend(str(repository / "code"))
    text = (repository / "code/faults/plant.py").read_text()
    names = {}
    start, end = text.index("def unsealed"), text.index("def plant(")
    exec("import base64, zlib\nSEALED = 'sealed-'\n" + text[start:end], names)
    for seed in range(40):
        case = case_of(seed)
        assert names["unsealed"](seal(case.text)) == case.text
    assert names["unsealed"]("sealed-abc") == ""


def test_the_score_counts_first_tries(case, workspace):
    hint_of(lesson16.ex16_mystery, case("stuck"), "disk full", 2, "node2", "x")
    lesson16.ex16_mystery(case("stuck"), "stuck", 2, "node2", CURES["stuck"])
    assert score(workspace).startswith("1 of 1 blind cases solved, 0 of them at the first try")


def test_an_open_run_is_no_blind_case(finished):
    run = finished(fault.recipe("open", "stuck"), "", exit_code=1)
    assert "This is none" in hint_of(lesson16.ex16_warm_up, run, "stuck", 2, "node2", "x")
    assert BlindCase("stuck", 2, 4).text == "stuck:2:4"


def test_the_price_of_a_hang(workspace):
    wrong = (16, 64 / 96, 3840, 64 * 3600, -64, 640)
    hold("device_hours", lesson16.ex16_hang, 64, wrong)
    assert "4 devices of a node" in hint_of(lesson16.ex16_hang, 16)


def test_the_interval_is_right_by_young_and_by_daly(workspace):
    right = plan.checkpoint_interval(40, plan.failures_of("llama-405b").mtbf_s(2048)) / 60
    wrong = (11.1, 711.4, 185.6, right * 60, right / 60)
    hold("minutes", lesson16b.ex16b_interval, right, wrong, accepted=(15, 15.3, 15.7))
    assert "factor 2" in hint_of(lesson16b.ex16b_interval, 15.7 / 2**0.5)
    assert "one node" in hint_of(lesson16b.ex16b_interval, 712)


def test_what_half_as_many_checkpoints_cost(workspace):
    rate = plan.failures_of("llama-405b", checkpoint_s=40, restart_s=600)
    best = plan.goodput(2048, rate)
    half = plan.goodput(2048, rate, 2 * best.interval_s)
    right = 100 * (best.useful - half.useful)

    def check(number):
        lesson16b.ex16b_half(number, "flat")

    wrong = (100 * half.useful, -right, right / 100, right * 10)
    hold("costs_percent", check, right, wrong, accepted=(1.8, 2))
    assert "Choose" in hint_of(lesson16b.ex16b_half, right, "sharp")
    assert "share of the kept work" in hint_of(lesson16b.ex16b_half, right / best.useful, "flat")
    often = plan.goodput(2048, rate, best.interval_s / 2)
    other_way = 100 * (best.useful - often.useful)
    assert "half the interval" in hint_of(lesson16b.ex16b_half, other_way, "flat")
    by_default = plan.failures_of("llama-405b")
    best, half = (plan.goodput(2048, by_default, s) for s in (None, 2 * 1116.3))
    cost = 100 * (best.useful - half.useful)
    assert "other times" in hint_of(lesson16b.ex16b_half, cost, "flat")


@pytest.mark.parametrize(
    "said",
    ["flat (no sharp peak)", "fairly flat, not at all sharp",
     "It is flat; doubling or halving hardly matters", "there is no steep slope: a plateau"],
)  # fmt: skip
def test_a_flat_curve_in_other_words(workspace, said):
    lesson16b.ex16b_half(1.8, said)


@pytest.mark.parametrize(
    "said", ["not at all flat", "flat or sharp", "a sharp peak", "hardly flat"]
)
def test_a_curve_that_is_not_called_flat(workspace, said):
    assert "Choose" in hint_of(lesson16b.ex16b_half, 1.8, said)
