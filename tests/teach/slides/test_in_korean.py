"""The slides in another language: the same ones, and nothing of them in English."""

from __future__ import annotations

import re

import nbformat
import pytest
from nbformat.v4 import new_output

from course_lib.teach.book.page import Shown
from course_lib.teach.book.site import text_in
from course_lib.teach.building.build import build_text
from course_lib.teach.building.source import number_of, read_lesson
from course_lib.teach.slides import cells, faces, pages, prose, site, timetable
from course_lib.teach.slides.deck import slides_of
from course_lib.teach.slides.results import Measured, measured
from course_lib.teach.translation import command, faults, wanted
from course_lib.teach.translation.localized import localized_sentences
from course_lib.words import speaking
from course_lib.words.catalog import catalog_of

NOT_SHOWN = re.compile(r"<pre.*?</pre>|<code.*?</code>|<svg.*?</svg>|data:[^\"]*|\{.*?\}", re.S)
TAG = re.compile(r"<(?!img)[^>]+>")
ANSWERS = re.compile(r"&quot;.*?&quot;|\"[^\"]*\"|“[^”]*”")
"""What the code of a gap takes for an answer is English in all languages."""
WIDEST = 95


def decks(repository, language):
    """Without any results: the slides of each lesson, by its name."""
    text = text_in(language, repository)
    lessons = {lesson.name: lesson for lesson in text.lessons}
    told = site.read_sentences(repository / "lessons" / site.SENTENCES, lessons)
    with speaking(language):
        told = localized_sentences(told, repository, language)
        return {
            name: (lesson, slides_of(lesson, Shown(None, {}), told[name]))
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
    return faults.FOUR_WORDS.findall(faults.BRACKETS.sub("", text))


def test_no_english_sentence_is_left_on_any_slide_or_in_its_notes(korean):
    with speaking("ko"):
        left = {
            (name, slide.id): found
            for name, (lesson, made) in korean.items()
            for slide in made
            if (found := english_in(pages.of_lesson(slide, lesson, Shown(None, {}))))
        }
    assert left == {}


def test_a_title_that_somebody_wrote_is_short_enough_to_be_read_from_afar(repository):
    known = dict(wanted.everything(repository))["slides"]
    read = command.read(repository / "locale" / "ko" / "slides.po")
    titles = [read.of(one) for one in known if re.match(r"\d\d\w? (?!terms)", one.cell)]
    assert len(titles) > 200
    assert [title for title in titles if prose.breadth(title) > WIDEST] == []


def test_the_terms_of_a_recap_are_words_of_their_lesson_as_many_as_in_english(repository, korean):
    lessons = {name: lesson for name, (lesson, _) in korean.items()}
    told = site.read_sentences(repository / "lessons" / site.SENTENCES, lessons)
    theirs = localized_sentences(told, repository, "ko")
    figures = catalog_of("ko").exact.values()
    for name, lesson in lessons.items():
        text = prose.plain(" ".join([*(cell.text for cell in lesson.cells), *figures])).lower()
        missing = [term for term in theirs[name]["terms"] if term.lower() not in text]
        assert not missing, name
        assert len(theirs[name]["terms"]) == len(told[name]["terms"]), name


def test_all_that_slides_say_is_translated(repository):
    (row,) = [row for row in command.coverages(repository, "ko") if row.name == "slides"]
    assert row.is_complete
    assert row.sentences == row.sentences_done > 0


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("링크는 느립니다. 4개입니다. GPU도 같습니다!", 3),
        ("`x`는 3.5입니다(그림). *왜* 그럴까요? 봅시다.", 3),
        ("e.g. this is one sentence of 3. 5 is none.", 1),
    ],
)
def test_sentences_end_where_their_script_says(text, parts):
    assert len(prose.sentences(text)) == parts


def test_emphasis_goes_also_where_a_particle_follows_it():
    assert prose.plain("*tensor between*의 스텝은 **두** 배, 2*3*4는 그대로") == (
        "tensor between의 스텝은 두 배, 2*3*4는 그대로"
    )


def test_a_claim_is_read_from_what_it_printed_in_korean():
    lines = (
        "✓ 여기서도 맞습니다: 느립니다 (0.3 GB/s. 주장: 최대 1)",
        "✗ 여기서는 아닙니다: 같습니다 (0. 주장: 1)",
    )
    first, second = measured([{"output_type": "stream", "text": "\n".join(lines)}])
    assert first == Measured("느립니다", "0.3 GB/s", "최대 1")
    assert second == Measured("같습니다", "0", "1", holds=False)
    with speaking("ko"):
        assert "아니요" in faces.strip([second])
        assert "최대 1" in faces.strip([first])


def test_what_the_lab_says_of_every_job_is_known_in_korean(repository):
    said = {one.english for one in wanted.of_library(repository)}
    assert said.issuperset([*cells.SUBMITTED, *cells.COSTS])
    printed = (
        "dp4: 최대 디바이스 4개 × 10분 = 디바이스 시간 0.67\n"
        "dp4: box에 작업 12로 제출했습니다\n"
        "cpu: 디바이스 없음, 최대 5분\n"
        "loss: 6.3"
    )
    outputs = [new_output("stream", name="stdout", text=printed)]
    with speaking("ko"):
        (face,) = cells.told("x = 1", outputs, {}, has_picture=False)
    assert "제출" not in face.body
    assert "디바이스" not in face.body
    assert "loss: 6.3" in face.body


def test_figures_of_a_korean_run_are_shown_and_those_of_an_english_one_are_not(
    repository, tmp_path
):
    from course_lib.teach.book.site import executed
    from course_lib.teach.executed import executed_in

    lesson = read_lesson(repository / "lessons" / "00_the_lab.py")
    notebook = nbformat.reads(build_text(lesson, with_answers=True), as_version=4)
    executed_in(tmp_path).mkdir(parents=True)
    nbformat.write(notebook, executed_in(tmp_path) / f"{lesson.name}.ipynb")
    assert executed(lesson, tmp_path) is not None
    assert executed(lesson, tmp_path, "ko") is None, "as in the book"


@pytest.fixture(scope="module")
def folder(repository, tmp_path_factory):
    """All decks, with something in the place of reveal.js."""
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
    for words in ("슬라이드", "사흘", "쉬는 시간", "“숨기기”", "10분", "2일째"):
        assert words in index


def test_pictures_of_a_deck_are_korean_and_its_words_are_kept_whole(folder):
    text = " ".join(file.read_text(encoding="utf-8") for file in (folder / "images").glob("*.svg"))
    assert re.search("[가-힣]", text)
    assert "word-break: keep-all" in (folder / "slides.css").read_text(encoding="utf-8")
    assert "이번 실행에서는 아님" in (folder / "part1.html").read_text(encoding="utf-8")


def test_a_timetable_is_printed_in_korean(capsys):
    assert timetable.main(["--language", "ko"]) == 0
    printed = capsys.readouterr().out
    assert "30분  00 실습실" in printed
    assert english_in(printed) == []


def test_the_minutes_of_a_lesson_are_the_same_in_korean(korean, english):
    for name, (lesson, _) in korean.items():
        assert timetable.minutes_of(lesson) == timetable.minutes_of(english[name][0])
        assert number_of(lesson.path) in lesson.title
