"""A run is judged from several sides, and what does not fit together is said plainly."""

from __future__ import annotations

import contextlib
import json
import math
import os
import time
from dataclasses import replace
from datetime import datetime

import pytest

from course_lib.lab.errors import LabError, SlurmError
from course_lib.lab.job.unfinished import Unfinished
from course_lib.lab.queue.slurm import Slurm
from course_lib.mistakes.errors import CourseError
from course_lib.teach.challenge import judgement, pledge, proofs, score, text
from course_lib.teach.challenge.board import place
from course_lib.teach.challenge.entries import made, put
from course_lib.teach.challenge.proofs import Account

from .conftest import SECONDS, log_of


def noticed(task, run):
    return "\n".join(task.score(run).noticed)


def test_an_honest_run_counts_and_says_all_figures(task, finish, judged):
    found = task.score(finish(seconds=25))
    assert found.noticed == ()
    assert found.reached
    assert found.tokens == 40 * 16 * 64
    assert found.device_minutes == pytest.approx(SECONDS / 60)
    assert found.off_by == pytest.approx(1.25)
    assert found.result == pytest.approx(25)
    assert "held-out loss   4.520 ± 0.020  (asked: 4.7; reached)" in repr(found)
    assert "20 s  (foreseen: 25 s, off by a factor of 1.25)" in repr(found)


def test_who_foresees_too_little_pays_as_much_as_who_foresees_too_much(task, finish, judged):
    assert task.score(finish(seconds=16)).off_by == pytest.approx(1.25)


def test_a_run_that_misses_the_target_counts_and_has_no_score(task, finish, judged):
    judged["judgement"] = replace(judged["judgement"], judged=4.71, learned=4.7)
    found = task.score(finish(log=log_of(4.7)))
    assert found.counts
    assert not found.reached
    assert "NOT reached" in repr(found)
    assert "score           none" in repr(found)


def test_the_held_out_text_betrays_itself_by_being_too_easy(task, finish, judged):
    judged["judgement"] = replace(judged["judgement"], judged=4.2)
    assert "it has learned from the held-out text" in noticed(task, finish())


def test_who_is_in_doubt_is_judged_by_more_samples(task, finish, judged, monkeypatch):
    """By chance a text seems easier than it is; who has read it half the time finds it so again."""
    asked = []

    def judge(task, folder, samples=judgement.SAMPLES):
        asked.append(samples)
        again = samples > judgement.SAMPLES
        return replace(judged["judgement"], judged=4.44 if not again else judged["again"])

    monkeypatch.setattr(score, "judge", judge)
    for judged["again"], counts in ((4.48, True), (4.36, False)):
        asked.clear()
        assert task.score(finish(job_id=20 + counts)).counts is counts
        assert asked == [judgement.SAMPLES, judgement.SAMPLES_IN_DOUBT]


def test_another_text_in_the_recipe_is_named(task, finish, judged):
    def of_the_judge(recipe):
        words = (task.judge if w == task.learn else w for w in recipe.arguments)
        return replace(recipe, arguments=tuple(words))

    assert "another text than the one given" in noticed(task, finish(of=of_the_judge))


def test_an_exchanged_text_is_noticed(task, finish, judged):
    (text.folder(task.lab.workspace) / "learn_text_document.bin").write_text("the judge's")
    assert "is not the one that code/challenge/text.py makes" in noticed(task, finish())


def test_a_run_that_begins_with_other_weights_is_named(task, finish, judged):
    def goes_on(recipe):
        return replace(recipe, arguments=(*recipe.arguments, "--load", "elsewhere"))

    assert "did not begin with random weights" in noticed(task, finish(of=goes_on))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"program": "train_letters.py"}, "another program than pretrain_gpt.py"),
        ({"files": ("work/mine.py",)}, "another program than pretrain_gpt.py"),
        ({"before": "python other.py"}, "other commands besides the training"),
    ],
)
def test_what_else_a_job_has_run_is_named(task, finish, judged, changes, words):
    assert words in noticed(task, finish(of=lambda recipe: replace(recipe, **changes)))


@pytest.mark.parametrize("name", ["COURSE_DEVICE_PACE", "OMP_NUM_THREADS", "PYTHONPATH"])
def test_an_environment_of_ones_own_is_named(task, finish, judged, name):
    def with_more(recipe):
        return replace(recipe, environment={**recipe.environment, name: "1"})

    assert f"its environment ({name}) may change what runs" in noticed(task, finish(of=with_more))


def test_a_link_of_a_chosen_speed_is_named(task, finish, judged):
    object.__setattr__(task.lab, "site", task.lab.site.but(link_gbit=100))
    run = finish("fast", job_id=13)
    object.__setattr__(task.lab, "site", task.lab.site.but(link_gbit=0))
    assert "how fast the link between its nodes is" in noticed(task, run)


def test_more_ranks_than_were_asked_for_are_named(task, finish, judged):
    world = "using world size: 4, data-parallel size: 4\n"
    found = noticed(task, finish(log=world + log_of()))
    assert "4 ranks have worked; the devices of its recipe are 1" in found


def test_weights_of_another_run_are_noticed_by_what_they_have_seen(task, finish, judged):
    judged["judgement"] = replace(judged["judgement"], iteration=400, samples=6400)
    assert "the weights have seen 6,400 samples in 400 steps" in noticed(task, finish())


def test_weights_of_another_run_as_long_are_noticed_by_their_loss(task, finish, judged):
    judged["judgement"] = replace(judged["judgement"], judged=3.9, learned=3.9)
    assert "log and weights are not of one run" in noticed(task, finish())


def test_weights_of_another_model_are_named(task, finish, judged):
    wide = {"num_layers": 2, "hidden_size": 128, "num_attention_heads": 4, "vocab_size": 1024}
    judged["judgement"] = replace(judged["judgement"], model=wide)
    found = noticed(task, finish())
    assert "another model than the recipe's (--hidden-size 128, --num-attention-heads 4)" in found
    judged["judgement"] = replace(judged["judgement"], model=wide | {"hidden_size": 64} | HEADS)
    assert noticed(task, task.lab.run(12)) == ""


HEADS = {"num_attention_heads": 2}


@pytest.mark.parametrize("name", ["recipe.toml", "job.sbatch", "out.log", "checkpoints/weights"])
def test_a_file_that_was_changed_after_its_time_is_named(task, finish, judged, name):
    """Though its owner sets back the time of its last change, as `ls` shows it."""
    run = finish()
    (run.folder / "checkpoints/weights").write_text("")
    os.utime(run.folder / name, (0, 0))
    hour = 3600
    now = time.time()
    judged["account"] = Account(SECONDS, began_s=now - 1, ended_s=now + 20)
    assert noticed(task, run) == ""
    is_of_the_start = name in ("recipe.toml", "job.sbatch")
    judged["account"] = Account(
        SECONDS, began_s=now - hour * is_of_the_start, ended_s=now - hour * (not is_of_the_start)
    )
    assert f"{name.split('/')[-1]}" in noticed(task, run)
    assert "after the job had written it" in noticed(task, run)


def test_an_edited_log_is_contradicted_by_the_weights_or_by_the_accounts(task, finish, judged):
    assert "log and weights are not of one run" in noticed(task, finish(log=log_of(loss=3.0)))
    assert "the log was edited" in noticed(task, finish("slow", log=log_of(ms=9000), job_id=13))


@pytest.mark.parametrize("log", ["", "nothing of a training\n", "\0\xff" * 50])
def test_a_log_without_losses_does_not_count(task, finish, judged, log):
    assert "the log says no loss" in noticed(task, finish(log=log))


def test_an_edited_recipe_is_noticed(task, finish, judged):
    run = finish()
    path = run.folder / "recipe.toml"
    path.write_text(path.read_text().replace("22.0 s, foreseen", "20.0 s, foreseen"))
    assert "recipe.toml is not what was submitted" in noticed(task, task.lab.run(12))


def test_an_edited_script_is_noticed(task, finish, judged):
    run = finish()
    with (run.folder / "job.sbatch").open("a") as script:
        script.write("true\n")
    assert "job.sbatch is not the script of its recipe" in noticed(task, run)


def test_a_run_from_elsewhere_is_somebody_elses(task, finish, judged, tmp_path):
    run = finish()
    run.folder.rename(tmp_path / "taken-12")
    found = noticed(task, task.lab.open(tmp_path / "taken-12"))
    assert "this workspace has not submitted job 12" in found


def test_a_run_whose_time_was_foreseen_elsewhere_is_somebody_elses(task, finish, judged):
    def of_another(recipe):
        promise = {pledge.VARIABLE: f"22.0 s, foreseen in {'ab' * 8}"}
        return replace(recipe, environment=promise)

    assert "foreseen in another workspace" in noticed(task, finish(of=of_another))


def test_the_accounts_know_whose_job_it_was(task, finish, judged):
    judged["account"] = Account(SECONDS, owner="999999", name="mine")
    assert "one of another account, not yours" in noticed(task, finish())
    judged["account"] = Account(SECONDS, name="other")
    assert "is another one, not mine" in noticed(task, task.lab.run(12))


@pytest.fixture
def accounts(task, monkeypatch):
    """What sacct prints; an error where that is one."""
    said = {"text": ""}

    def call(self, *command, **how):
        if isinstance(said["text"], Exception):
            raise said["text"]
        return said["text"]

    monkeypatch.setattr(Slurm, "call", call)
    return said


BEGAN, ENDED = "2026-11-20T09:31:00", "2026-11-20T09:31:31"


def seconds_of(moment):
    return datetime.fromisoformat(moment).timestamp()


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (f"12\x1f31\x1f7\x1f{BEGAN}\x1f{ENDED}\x1fa\x1fb\n",
         Account(31, "7", "a\x1fb", seconds_of(BEGAN), seconds_of(ENDED))),
        ("12\x1f31\x1f7\x1fUnknown\x1f\x1fmine\n", Account(31, "7", "mine")),
        ("12\x1f31\n", Account(31)),
        ("13\x1f99\x1f7\x1f\x1f\x1fother\n", Account(SECONDS)),
        ("12\x1f\x1f\x1f\x1f\x1f\n", Account(SECONDS)),
        ("no such thing\n\n", Account(SECONDS)),
        ("", Account(SECONDS)),
        (SlurmError(["sacct"], 1, "accounting storage is disabled"), Account(SECONDS)),
    ],
)  # fmt: skip
def test_the_time_is_the_clusters_word_or_else_that_of_the_records(
    task, finish, accounts, text, wanted
):
    run = finish()
    accounts["text"] = text
    assert proofs.account_of(task.lab, run) == wanted


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda run: (run.folder / "exit_code").write_text("1\n"), ""),
        (lambda run: (run.folder / "job.sbatch").unlink(), "cannot be read any more"),
        (lambda run: (run.folder / "job.sbatch").write_bytes(b"\xff\xfe"), "cannot be read"),
    ],
)
def test_a_damaged_run_is_told_in_a_sentence(task, finish, judged, spoil, words):
    run = finish()
    spoil(run)
    assert words in noticed(task, run)


def test_what_was_not_made_for_the_challenge_is_refused(task, finish, judged):
    def without(recipe):
        return replace(recipe, environment={})

    with pytest.raises(LabError, match="foresees nothing: make its recipe with task"):
        task.score(finish(of=without))
    with pytest.raises(LabError, match=r"what lab.submit\(…\) returned"):
        task.score("mine")


def test_a_gap_goes_through_to_the_check(task, capsys):
    missing = task.recipe("mine", ..., seconds=...)
    assert isinstance(missing, Unfinished)
    assert missing.missing == ("model", "seconds")
    assert task.score(missing) is missing
    task.enter(missing, name="Ada")
    assert "nothing to enter yet" in capsys.readouterr().out


@pytest.mark.parametrize("seconds", [0, -3, math.nan, math.inf, "twenty", None, 1e12])
def test_a_time_that_is_none_is_refused(task, seconds):
    with pytest.raises(ValueError, match=r"seconds|task.recipe"):
        task.recipe("mine", task.model(2, 64), seconds=seconds)


@pytest.mark.parametrize("flag", [
    "data_path", "split", "load", "mock_data", "seq_length", "save", "environment",
])  # fmt: skip
def test_what_the_task_decides_is_no_choice(task, flag):
    with pytest.raises(ValueError, match="the task decides that"):
        task.recipe("mine", task.model(2, 64), seconds=20, **{flag: 1})


def test_a_model_outside_the_family_is_refused(task):
    with pytest.raises(ValueError, match="make one by task"):
        task.recipe("mine", task.model(2, 64).but(sequence=128), seconds=20)


def test_a_workspace_has_one_name_for_good(task):
    first = pledge.identity(task.lab.workspace)
    assert first == pledge.identity(task.lab.workspace)
    path = task.lab.workspace.state / "challenge" / "workspace"
    path.write_text("spoilt <b>\n")
    assert pledge.IDENTITY.fullmatch(pledge.identity(task.lab.workspace))


@pytest.mark.parametrize("said", ["", "Traceback", "{}", "[]", '{"iteration": 1}', "1"])
def test_a_judge_that_says_nothing_readable_is_an_error_in_words(task, monkeypatch, said):
    monkeypatch.setattr(text, "start", lambda *words: said)
    with pytest.raises(LabError, match="said nothing that could be read"):
        judgement.judge(task, task.lab.workspace.runs)


def test_the_judge_is_asked_with_a_seed_that_nobody_could_foresee(task, monkeypatch):
    asked = []

    def start(*words):
        asked.append(words)
        each = {"loss": 4.5, "error": 0.1, "tokens": 64}
        return json.dumps(
            {
                "iteration": 1,
                "samples": 2,
                "model": {},
                "texts": {task.judge: each, task.learn: each},
            }
        )

    monkeypatch.setattr(text, "start", start)
    seeds = {judgement.judge(task, task.lab.workspace.runs).seed for _ in range(5)}
    assert len(seeds) == 5
    assert all(str(seed) in {words[-1] for words in asked} for seed in seeds)


def test_the_judge_is_alone_and_on_the_processor():
    here = {"PATH": "/bin", "RANK": "1", "SLURM_PROCID": "2", "COURSE_RUN_DIR": "x", "HOME": "/h"}
    wanted = {"PATH": "/bin", "HOME": "/h", "CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": ""}
    assert text.environment(here) == wanted


def test_the_text_is_made_once_in_a_notebook_and_anew_of_another_sample(
    task, monkeypatch, tmp_path
):
    sample = tmp_path / "sample.jsonl"
    sample.write_text("one")
    made = []

    def make(of, place):
        made.append(of.read_text())
        for part in (text.LEARN, text.JUDGE):
            for end in text.ENDS:
                (place / f"{part}{end}").write_text(of.read_text() + end)

    monkeypatch.setattr(text, "KNOWN", {})
    monkeypatch.setattr(text, "_sample", lambda lab: sample)
    monkeypatch.setattr(text, "make", make)
    first = text.made_anew(task.lab)
    assert text.made_anew(task.lab) == first
    sample.write_text("two")
    assert text.made_anew(task.lab) != first
    assert made == ["one", "two"]
    (text.folder(task.lab.workspace) / f"{text.LEARN}.bin").unlink()
    sample.write_text("three")
    assert text.prepare(task.lab) == text.made_anew(task.lab)
    assert made == ["one", "two", "three"]


class Stranger:
    """An object of a class that the course has never seen."""


WRONG = [
    None,
    -3,
    2.5,
    "nonsense",
    "/no/file",
    [],
    [[None]],
    {"a": None},
    len,
    Stranger(),
    dict,
    b"\0",
]


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: type(wrong).__name__)
def test_no_wrong_value_ends_in_pythons_words(task, wrong):
    small = task.model(2, 64)
    calls = (
        lambda: task.model(wrong, 64),
        lambda: task.model(2, wrong),
        lambda: task.recipe("mine", wrong, seconds=20),
        lambda: task.recipe(wrong if not isinstance(wrong, str) else 5, small, seconds=20),
        lambda: task.recipe("mine", small, seconds=wrong),
        lambda: task.score(wrong),
        lambda: task.enter(wrong, name="Ada"),
        lambda: task.verify(wrong),
    )
    for call in calls:
        with contextlib.suppress(CourseError):
            call()


def test_a_recorded_run_has_the_score_of_its_judgement_and_stays_off_the_board(
    task, judged, finish, monkeypatch, capsys
):
    run = finish()
    given = task.score(run)
    monkeypatch.setattr(score, "judge", None)
    monkeypatch.setattr(type(run), "origin", "recorded on 1 May 2026 on a node")
    found = task.score(run)
    same = ("loss", "error", "tokens", "seconds", "foreseen", "device_minutes", "result", "reached")
    assert [getattr(found, name) for name in same] == [getattr(given, name) for name in same]
    assert "recorded on 1 May 2026 on a node, and judged there" in repr(found)
    task.enter(found, name="not mine")
    assert "does not go on the board" in capsys.readouterr().out
    assert not task.board().entries
    put(place(task.lab.workspace), made(found, "by hand"))
    assert "does not count" in repr(task.board())


def test_a_recording_of_a_run_that_nobody_judged_says_so(task, judged, finish, monkeypatch):
    run = finish()
    monkeypatch.setattr(type(run), "origin", "recorded on 1 May 2026 on a node")
    with pytest.raises(LabError, match="without its weights, and before it was judged"):
        task.score(run)
    run.paths.verdict.mkdir()
    (run.paths.verdict / judgement.FILE).write_text('{"iteration": "<b>"}')
    with pytest.raises(LabError, match="before it was judged"):
        task.score(run)
