"""Translated slides are the same slides, with no English text."""

from __future__ import annotations

import re

import pytest

from course_lib.publish.book.page import Shown
from course_lib.publish.book.site import text_in
from course_lib.publish.slides import pages, prose, site, slide_html, timetable
from course_lib.publish.slides.deck import slides_of
from course_lib.publish.slides.results import Measured, measured
from course_lib.publish.translation import catalogs, command, wanted
from course_lib.publish.translation.localized import localized_sentences
from course_lib.words import speaking

from .. import translation_rules as rules

NOT_SHOWN = re.compile(r"<pre.*?</pre>|<code.*?</code>|<svg.*?</svg>|data:[^\"]*|\{.*?\}", re.S)
TAG = re.compile(r"<(?!img)[^>]+>")
# What the code of a gap takes for an answer is English in all languages.
ANSWERS = re.compile(r"&quot;.*?&quot;|\"[^\"]*\"|“[^”]*”")
WIDEST = 95


def decks(repository, language):
    """Return the slides of each lesson by its name, without results."""
    text = text_in(language, repository)
    lessons = {lesson.name: lesson for lesson in text.lessons}
    told = site.read_sentences(repository / "lessons" / site.SENTENCES, lessons)
    with speaking(language):
        told = localized_sentences(told, repository, language)
        return {
            name: (lesson, slides_of(lesson, Shown(None), told[name]))
            for name, lesson in lessons.items()
        }


@pytest.fixture(scope="module")
def korean(repository):
    return decks(repository, "ko")


@pytest.fixture(scope="module")
def english(repository):
    return decks(repository, "en")


def test_they_are_those_of_the_english_lessons_one_by_one(korean, english):
    for name, (_, made) in english.items():
        theirs = [(slide.id, slide.kind) for slide in korean[name][1]]
        assert theirs == [(slide.id, slide.kind) for slide in made], name


def english_in(html: str) -> list[str]:
    text = ANSWERS.sub("|", TAG.sub(" | ", NOT_SHOWN.sub(" | ", html)))
    return rules.FOUR_WORDS.findall(rules.BRACKETS.sub("", text))


def test_no_english_sentence_is_left_on_any_slide_or_in_its_notes(korean, repository):
    new = rules.new_exercises(repository)
    with speaking("ko"):
        left = {
            (name, slide.id, words)
            for name, (lesson, made) in korean.items()
            for slide in made
            for words in english_in(pages.of_lesson(slide, lesson, Shown(None)))
            if words not in " ".join(new[name].values()).replace("\n> ", " ").replace("\n", " ")
        }
    assert left == set()


def test_written_titles_are_short_enough_to_read_from_afar(repository):
    known = dict(wanted.everything(repository))["slides"]
    read = command.read(repository / "locale" / "ko" / "slides.po")
    titles = [read.of(one) for one in known if re.match(r"\d\d\w? (?!terms)", one.cell)]
    assert len(titles) > 200
    assert [title for title in titles if prose.breadth(title) > WIDEST] == []


def test_the_terms_of_a_recap_are_words_of_their_lesson_as_many_as_in_english(repository, korean):
    lessons = {name: lesson for name, (lesson, _) in korean.items()}
    told = site.read_sentences(repository / "lessons" / site.SENTENCES, lessons)
    theirs = localized_sentences(told, repository, "ko")
    figures = catalogs.read(catalogs.folder_of(repository, "ko") / "course.po").sentences.values()
    for name, lesson in lessons.items():
        text = prose.plain(" ".join([*(cell.text for cell in lesson.cells), *figures])).lower()
        missing = [term for term in theirs[name]["terms"] if term.lower() not in text]
        assert not missing, name
        assert len(theirs[name]["terms"]) == len(told[name]["terms"]), name


def test_all_that_slides_say_is_translated(repository):
    (row,) = [row for row in command.coverages(repository, "ko") if row.name == "slides"]
    assert all(row.done(cells=True))


def test_sentences_end_where_their_script_says():
    assert len(prose.sentences("`x`는 3.5입니다(그림). *왜* 그럴까요? GPU도 같습니다!")) == 3
    assert len(prose.sentences("e.g. this is one sentence of 3. 5 is none.")) == 1


def test_a_claim_is_read_from_what_it_printed_in_korean():
    line = "✗ 여기서는 아닙니다: 같습니다 (0. 주장: 1)"
    [claim] = measured([{"output_type": "stream", "text": line}])
    assert claim == Measured("같습니다", "0", "1", holds=False)
    with speaking("ko"):
        assert "아니요" in slide_html.strip([claim])
        assert "(이번 실행에서는 아님)" in slide_html.strip([claim])


@pytest.fixture(scope="module")
def folder(repository, tmp_path_factory):
    """Write all decks, with a stand-in for reveal.js."""
    reveal = tmp_path_factory.mktemp("reveal")
    for name in site.OF_REVEAL:
        (reveal / name).parent.mkdir(parents=True, exist_ok=True)
        (reveal / name).touch()
    out = tmp_path_factory.mktemp("korean") / "slides"
    return site.write(None, out, reveal=reveal, language="ko").folder


def test_the_page_that_leads_to_the_decks_is_korean_with_its_timetables(folder):
    index = (folder / "index.html").read_text(encoding="utf-8")
    assert '<html lang="ko">' in index
    assert english_in(index.partition("</style>")[2]) == []
    for words in ("슬라이드", "닷새", "쉬는 시간", "“통신을 역전파 뒤에 숨기기”", "10분", "2일째"):
        assert words in index


def test_pictures_of_a_deck_are_korean_and_its_words_are_kept_whole(folder):
    text = " ".join(file.read_text(encoding="utf-8") for file in (folder / "images").glob("*.svg"))
    assert re.search("[가-힣]", text)
    assert "word-break: keep-all" in (folder / "slides.css").read_text(encoding="utf-8")


def test_a_timetable_is_printed_in_korean(capsys):
    assert timetable.main(["--language", "ko"]) == 0
    printed = capsys.readouterr().out
    assert "30분  00 실습실" in printed
    assert english_in(printed) == []
