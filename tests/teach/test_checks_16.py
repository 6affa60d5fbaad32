"""Lesson 16: right choices solve a blind case, and each wrong choice gets its evidence."""

from __future__ import annotations

import numpy as np
import pytest

from course_lib.lab.job.recipes import fault
from course_lib.lab.mysteries import KINDS, BlindCase, case_of, mystery, opened, seal
from course_lib.teach.checks import lesson16
from course_lib.teach.diagnoses.judging import score
from course_lib.teach.diagnoses.lists import causes, cures
from course_lib.words import speaking

from .finished_runs import hint_of


@pytest.fixture
def case(finished):
    """A blind case that is over, without any cluster."""

    def make(kind, rank=2):
        recipe = fault.recipe("mystery-9", planted_fault=seal(f"{kind}:{rank}:5"))
        return finished(recipe, "", exit_code=1)

    return make


def place_of(kind):
    """Return the right rank and node of a case that hides rank 2 and node 2."""
    place = causes()[kind].place
    if place == "all":
        return None, None
    if place == "node":
        return [2, 3], "node2"
    return (0, "node1") if place in ("rank 0", "disk") else (2, "node2")


def cure_of(kind):
    return causes()[kind].cures[0]


def test_the_lists_hold_every_kind_and_each_cure_exists():
    assert set(KINDS) < set(causes())
    assert {key for cause in causes().values() for key in cause.cures} < set(cures())


@pytest.mark.parametrize("kind", KINDS)
def test_the_right_choices_solve_a_case_and_no_other_cause_does(case, kind, capsys):
    run, (rank, node) = case(kind), place_of(kind)
    for cure in causes()[kind].cures:
        lesson16.ex16_warm_up(run, kind, rank, node, cure)
    assert "✗" not in capsys.readouterr().out
    for other, cause in causes().items():
        if other == kind:
            continue
        hint = hint_of(lesson16.ex16_warm_up, run, other, rank, node, cure_of(kind))
        assert "✗ the cause" in hint
        assert cause.looks in hint
        assert causes()[kind].title not in hint, "a hint does not give the case away"


@pytest.mark.parametrize("kind", KINDS)
def test_a_cure_of_another_cause_is_refused(case, kind):
    for cure in set(cures()) - set(causes()[kind].cures):
        hint = hint_of(lesson16.ex16_warm_up, case(kind), kind, *place_of(kind), cure)
        assert "✗ the cure" in hint


@pytest.mark.parametrize("form", ["key", "number", "digits", "text", "spelling"])
def test_a_choice_is_given_by_its_key_its_number_or_its_text(case, form):
    def written(key, texts):
        number = list(texts).index(key) + 1
        spelling = f" {key.replace('-', '_').upper()} "
        return {"key": key, "number": number, "digits": str(number), "text": texts[key],
                "spelling": spelling}[form]  # fmt: skip

    titles = {key: cause.title for key, cause in causes().items()}
    answers = written("same-data", titles), None, None, written("sampler-rank", cures())
    lesson16.ex16_warm_up(case("same-data"), *answers)


@pytest.mark.parametrize("typo", ["sam-data", 0, 99, True, "", "all ranks read the samples", []])
def test_what_is_no_choice_meets_the_list_and_is_not_scored(case, workspace, typo):
    run = case("same-data")
    hint = hint_of(lesson16.ex16_mystery, run, typo, None, None, "sampler-rank")
    assert all(key in hint for key in causes())
    hint_of(lesson16.ex16_mystery, run, "same-data", None, None, typo)
    hint_of(lesson16.ex16_mystery, run, "same-data", 7, None, "sampler-rank")
    hint_of(lesson16.ex16_mystery, run, "same-data", None, "node9", "sampler-rank")
    hint_of(lesson16.ex16_mystery, run, "same-data", None, None, ...)
    lesson16.ex16_mystery(run, "same-data", None, None, "sampler-rank")
    assert score(workspace).startswith("1 of 1 blind cases solved, 1 of them on the first try")


def test_the_score_counts_first_answers(case, workspace):
    run = case("stuck")
    hint_of(lesson16.ex16_mystery, run, "disk-full", 2, "node2", "free-disk")
    lesson16.ex16_mystery(run, "stuck", 2, "node2", "reader-timeout")
    assert score(workspace).startswith("1 of 1 blind cases solved, 0 of them on the first try")


@pytest.mark.parametrize("rank", [2, "2", "rank 2", 2.0, [2], {2}, np.int64(2), range(2, 3)])
@pytest.mark.parametrize("node", ["node2", "Node 2", "node-2", ["node2"], "node2.cluster", 2])
def test_a_rank_and_a_node_in_usual_forms(case, rank, node):
    lesson16.ex16_warm_up(case("stuck"), "stuck", rank, node, "reader-timeout")


@pytest.mark.parametrize(
    ("kind", "rank", "node", "words"),
    [
        ("stuck", 0, "node1", "may only show consequences"),
        ("stuck", [2, 3], "node2", "Which rank does the evidence name first"),
        ("stuck", None, "node2", "Which rank does the evidence name first"),
        ("stuck", 2, "node1", "2 on each"),
        ("stuck", 2, None, "2 on each"),
        ("stuck", "the slow one", "node2", "Give a number"),
        ("stuck", 2, "node3", "The nodes are node1, node2"),
        ("exploding", 2, "node2", "Which rank does the evidence name first"),
        ("node-dies", range(4), "node2", "Which rank does the evidence name first"),
        ("disk-full", 2, "node2", "✗ rank 2"),
        ("node-dies", 2, "node2", "Give a list of all of them"),
    ],
)
def test_a_wrong_place_meets_its_hint(case, kind, rank, node, words):
    hint = hint_of(lesson16.ex16_warm_up, case(kind), kind, rank, node, cure_of(kind))
    assert words in hint


@pytest.mark.parametrize(
    ("kind", "rank", "node"),
    [
        ("exploding", range(4), ["node1", "node2"]),
        ("exploding", "None", "none"),
        ("node-dies", [2, 3], "node2"),
        ("node-dies", None, "node2"),
        ("disk-full", None, None),
        ("disk-full", 0, None),
    ],
)
def test_a_fault_of_many_ranks_may_be_told_in_several_ways(case, kind, rank, node):
    lesson16.ex16_warm_up(case(kind), kind, rank, node, cure_of(kind))


@pytest.mark.parametrize("given", [..., None, 3, "x", [], float("nan"), object(), [[]]])
def test_no_answer_is_a_traceback(case, given):
    for place in range(5):
        answers = [case("stuck"), "stuck", 2, "node2", "reader-timeout"]
        answers[place] = given
        assert "✗" in hint_of(lesson16.ex16_warm_up, *answers)


def test_a_notebook_shows_the_lists_with_their_numbers():
    html = lesson16.ex16_causes().to_html() + lesson16.ex16_cures().to_html()
    assert all(f"<code>{key}</code>" in html for key in (*causes(), *cures()))
    assert html.count(">1</th>") == 2


def test_a_node_that_meets_itself_is_never_the_one_at_which_all_meet():
    cases = [case_of(seed) for seed in range(len(KINDS) * 20)]
    assert {one.rank for one in cases if one.kind == "wrong-master"} == {2, 3}
    assert {one.rank for one in cases} == {1, 2, 3}


def test_a_blind_case_is_the_same_in_every_language():
    with speaking("ko"):
        korean = [case_of(seed) for seed in range(20)]
    assert korean == [case_of(seed) for seed in range(20)]


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
    assert "This is not a blind case" in hint_of(lesson16.ex16_mystery, case, ..., ..., ..., ...)


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


def test_an_open_run_is_no_blind_case(finished):
    run = finished(fault.recipe("open", "stuck"), "", exit_code=1)
    assert "This is not a blind case" in hint_of(
        lesson16.ex16_warm_up, run, "stuck", 2, "node2", "exclude"
    )
    assert BlindCase("stuck", 2, 4).text == "stuck:2:4"
