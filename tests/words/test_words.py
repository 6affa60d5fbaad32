"""Sentences of the course are shown in the reader's language, and in English if there is no
translation."""

from __future__ import annotations

import sys
import time

import pytest

from course_lib.publish.translation import catalogs
from course_lib.words import N_, _, label, language, messages, speaking
from course_lib.words.language import KERNEL, TERMINAL_SETTINGS
from course_lib.words.particles import fitted

PO = """msgid ""
msgstr "Content-Type: text/plain; charset=utf-8\\n"

msgid "{what} has {count} node{s}"
msgstr "{what}은(는) 노드 {count}개입니다"

msgid "{share:.1f} % of {name!r}"
msgstr "{name!r}의 {share:.1f} %"

msgid "the run"
msgstr "실행"
"""
LESSON = '# %% id="a"\nclaim("measured here", 1, least=0)\nshow.lines({"the run": 1})\n'


@pytest.fixture
def korean(tmp_path, monkeypatch):
    """Words of a small catalog, compiled as `course translate update` does it."""
    monkeypatch.setenv("COURSE_LANGUAGE", "ko")
    monkeypatch.setattr(messages, "LOCALE", tmp_path / "locale")
    messages._catalog.cache_clear()
    (tmp_path / "lessons").mkdir()
    (tmp_path / "lessons" / "99_test.py").write_text(LESSON)
    folder = tmp_path / "locale" / "ko"
    folder.mkdir(parents=True)
    (folder / "course.po").write_text(PO)
    (folder / "99_test.po").write_text('msgid "measured here"\nmsgstr "여기서 측정"\n')
    file = catalogs.compiled_path(tmp_path, "ko")
    file.parent.mkdir()
    file.write_bytes(catalogs.compiled(tmp_path, "ko"))
    yield
    messages._catalog.cache_clear()


@pytest.mark.usefixtures("korean")
def test_values_are_filled_in_after_translation():
    assert _("{share:.1f} % of {name!r}", share=12.34, name="a") == "'a'의 12.3 %"
    assert _("{what} has {count} node{s}", what="a1", count=2, s="s") == "a1은 노드 2개입니다"
    assert _("{what} has {count} node{s}", what="수은(는) 값", count=1, s="") == (
        "수은(는) 값은 노드 1개입니다"
    ), "a value stays as it is"
    with speaking("en"):
        assert _("{what} has {count} node{s}", what="a1", count=2, s="s") == "a1 has 2 nodes"


@pytest.mark.usefixtures("korean")
def test_only_texts_of_lessons_are_labels():
    assert label("measured here") == "여기서 측정"
    assert label("the run") == "실행", "a label that is a sentence of the library, too"
    assert _("measured here") == "measured here"


@pytest.mark.usefixtures("korean")
def test_a_sentence_in_a_table_is_english_as_a_value_and_translated_when_it_is_shown(capsys):
    sentence = N_("the run")
    assert sentence == "the run"
    assert {sentence: 1}["the run"] == 1
    print(sentence)
    assert capsys.readouterr().out == "실행\n"
    assert f"{sentence:>4}" == "  실행"
    assert sentence + "!" == "실행!"
    assert sentence.replace("실", "") == "행"
    template = N_("{what} has {count} node{s}")
    assert template.format(what=sentence, count=1, s="") == "실행은 노드 1개입니다"
    with speaking("en"):
        assert f"{sentence}" == "the run"


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
        ({"LANGUAGE": "ko:en", "LANG": "C"}, ".", "ko"),
        ({"LC_ALL": "C.UTF-8", "LANG": "ko_KR.UTF-8"}, ".", "en"),
        ({}, "my_notebooks/ko", "ko"),
        ({}, "notebooks/ko/below", "ko"),
        ({}, "elsewhere/ko", "en"),
        ({"COURSE_LANGUAGE": "en"}, "notebooks/ko", "en"),
    ],
)
def test_the_language_is_that_of_the_setting_the_folder_or_the_terminal(
    monkeypatch, tmp_path, settings, place, spoken
):
    for name in ("COURSE_LANGUAGE", *TERMINAL_SETTINGS):
        monkeypatch.delenv(name, raising=False)
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    (tmp_path / place).mkdir(parents=True, exist_ok=True)
    monkeypatch.chdir(tmp_path / place)
    monkeypatch.delitem(sys.modules, KERNEL, raising=False)
    assert language() == spoken


def test_a_notebook_outside_of_such_a_folder_is_english_whatever_the_terminal_says(monkeypatch):
    monkeypatch.delenv("COURSE_LANGUAGE")
    monkeypatch.setenv("LANG", "ko_KR.UTF-8")
    monkeypatch.setitem(sys.modules, KERNEL, sys)
    assert language() == "en"


def test_the_first_sentence_costs_little():
    messages._catalog.cache_clear()
    begin_s = time.process_time()
    with speaking("ko"):
        assert _("the run") != ""
    assert time.process_time() - begin_s < 0.2
