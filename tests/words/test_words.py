"""What a learner reads is told in their language; what nobody translated stays English."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from course_lib.words import catalog, choice, notebook, telling
from course_lib.words.catalog import sentences_of
from course_lib.words.particles import fitted

KOREAN = {
    "the run used {nodes} nodes": "노드를 {nodes}개 썼습니다",
    "the run used both nodes": "노드를 둘 다 썼습니다",
    "the run": "실행",
    "{what} is filled in": "{what}을(를) 채웠습니다",
    "{variable} is a text": "{variable}은(는) 텍스트입니다",
    "days": "일",
    "You answered {given}. {hint}": "{given}(이)라고 답했습니다. {hint}",
    "Count them again.": "다시 세어 보십시오.",
    "{size} rank{value} of {folder}": "{folder}의 랭크 {size}개{value}",
    "{size} rank{value}": "랭크 {size}개{value}",
    "deleted {name} ({mib} MiB)": "{name} 지움 ({mib} MiB)",
    "{piece} of {ranks}": "{piece}/{ranks}",
    "write {{run}} for the folder {folder}": "폴더 {folder} 대신 {{run}}을 쓰십시오",
}


@pytest.fixture(autouse=True)
def spoken_korean(monkeypatch):
    monkeypatch.setattr(telling, "catalog_of", lambda code: catalog.catalog(KOREAN))
    telling._told.cache_clear()
    monkeypatch.setenv("COURSE_LANGUAGE", "ko")
    yield
    telling._told.cache_clear()


@pytest.mark.parametrize(
    ("english", "korean"),
    [
        ("the run used 2 nodes", "노드를 2개 썼습니다"),
        ("the run used both nodes", "노드를 둘 다 썼습니다"),
        ("3 of 4", "3/4"),
        ("gradients of weights", "gradients of weights"),
        ("what a rank sends", "what a rank sends"),
        ("the run is filled in", "실행을 채웠습니다"),
        (
            "You answered 12. Count them again.",
            "12라고 답했습니다. 다시 세어 보십시오.",
        ),
        ("  Count them again.\nCount them again.", "  다시 세어 보십시오.\n다시 세어 보십시오."),
        ("Nobody knows. Count them again.", "Nobody knows. 다시 세어 보십시오."),
        ("write {run} for the folder /x/{y}", "폴더 /x/{y} 대신 {run}을 쓰십시오"),
        ("2 ranks of s", "s의 랭크 2개"),
        ("1 rank of s", "s의 랭크 1개"),
        ("deleted a (1 MiB)\ndeleted b (2 MiB)", "a 지움 (1 MiB)\nb 지움 (2 MiB)"),
        ("two devices rank 0", "two devices rank 0"),
        ("days is a text", "days은(는) 텍스트입니다"),
        ("days is filled in", "일을 채웠습니다"),
        ("my own text", "my own text"),
        ("the run, the run used 2 nodes", "실행, 노드를 2개 썼습니다"),
        ("", ""),
    ],
)
def test_a_text_is_told_by_the_template_that_made_it(english, korean):
    assert telling.told(english) == korean


def test_english_is_told_as_it_is(monkeypatch):
    monkeypatch.setenv("COURSE_LANGUAGE", "en")
    assert telling.told("the run used 2 nodes") == "the run used 2 nodes"


@pytest.mark.parametrize(
    ("both", "one"),
    [
        ("값이(가)", "값이"),
        ("메모리이(가) 크다", "메모리가 크다"),
        ("`노드`을(를)", "`노드`를"),
        ("3은(는) 5은(는)", "3은 5는"),
        ("파일(으)로, 링크(으)로, 값(으)로", "파일로, 링크로, 값으로"),
        ("run을(를)", "run을(를)"),
        ("50 %을(를), 3 MiB이(가), 20 ms은(는)", "50 %를, 3 MiB가, 20 ms는"),
    ],
)
def test_a_particle_follows_the_sound_before_it(both, one):
    assert fitted(both) == one


@pytest.mark.parametrize(
    ("settings", "place", "spoken"),
    [
        ({}, ".", "en"),
        ({"COURSE_LANGUAGE": "ko"}, ".", "ko"),
        ({"COURSE_LANGUAGE": "xx", "LANG": "ko_KR.UTF-8"}, ".", "en"),
        ({"LANG": "ko_KR.UTF-8"}, ".", "ko"),
        ({"LANGUAGE": "ko:en", "LANG": "C"}, ".", "ko"),
        ({"LC_ALL": "C.UTF-8", "LANG": "ko_KR.UTF-8"}, ".", "en"),
        ({}, "my_notebooks/ko", "ko"),
        ({}, "my_notebooks/solutions/ko", "ko"),
        ({}, "notebooks/ko/below", "ko"),
        ({}, "elsewhere/ko", "en"),
        ({"COURSE_LANGUAGE": "en"}, "notebooks/ko", "en"),
    ],
)
def test_the_language_is_that_of_the_setting_the_folder_or_the_terminal(
    monkeypatch, tmp_path, settings, place, spoken
):
    for name in (choice.SWITCH, *choice.OF_A_TERMINAL):
        monkeypatch.delenv(name, raising=False)
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    (tmp_path / place).mkdir(parents=True, exist_ok=True)
    monkeypatch.chdir(tmp_path / place)
    monkeypatch.delitem(sys.modules, choice.KERNEL, raising=False)
    assert choice.language() == spoken


def test_a_notebook_outside_of_such_a_folder_is_english_whatever_the_terminal_says(monkeypatch):
    monkeypatch.delenv("COURSE_LANGUAGE")
    monkeypatch.setenv("LANG", "ko_KR.UTF-8")
    monkeypatch.setitem(sys.modules, choice.KERNEL, sys)
    assert choice.language() == "en"


def test_a_message_that_is_kept_as_it_is_was_no_message(tmp_path):
    (tmp_path / "a.po").write_text('msgid "loss scale"\nmsgstr "loss scale"\n')
    assert sentences_of(tmp_path / "a.po") == {}


def test_cells_of_lessons_are_no_sentences_of_the_library(tmp_path):
    po = tmp_path / "x.po"
    po.write_text(
        'msgid ""\nmsgstr "Content-Type: text/plain; charset=utf-8\\n"\n\n'
        'msgctxt "cell"\nmsgid "a b"\nmsgstr "가"\n\n'
        'msgid "c d"\nmsgstr "나"\n\n#, fuzzy\nmsgid "e f"\nmsgstr "다"\n\nmsgid "g"\nmsgstr ""\n'
    )
    assert sentences_of(po) == {"c d": "나"}


def test_nobody_who_reads_english_loads_a_catalog():
    program = (
        "import sys; from course_lib.words import told; told('a b c');"
        "assert not [name for name in sys.modules if name.startswith('babel')]"
    )
    subprocess.run([sys.executable, "-c", program], check=True, env={"COURSE_LANGUAGE": "en"})


@pytest.mark.parametrize("printed", ["노드를 2개 썼습니다", "노드를 2개 썼습니다. 또 있습니다"])
def test_what_was_told_is_heard_again(printed):
    assert telling.heard("the run used {nodes} nodes").match(printed)


def test_a_particle_that_was_fitted_is_heard_too():
    assert telling.heard("{what} is filled in").fullmatch(telling.told("the run is filled in"))
    assert not telling.heard("{what} is filled in").fullmatch("실행을 비웠습니다")


def test_in_english_a_sentence_is_heard_as_it_was_made():
    with choice.speaking("en"):
        assert telling.heard("the run used {nodes} nodes").fullmatch("the run used 2 nodes")


def test_another_language_is_spoken_for_a_while(monkeypatch):
    with choice.speaking("en"):
        assert choice.language() == "en"
    assert choice.language() == "ko"
    monkeypatch.delenv(choice.SWITCH)
    with choice.speaking("ko"):
        assert choice.language() == "ko"
    assert choice.SWITCH not in os.environ


def test_a_single_word_that_a_learner_prints_stays_theirs(capsys):
    notebook.tell("days", "the run used 2 nodes")
    assert capsys.readouterr().out == "days 노드를 2개 썼습니다\n"
