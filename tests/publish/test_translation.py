"""Translated lessons have the same code and the whole prose, and reveal no answer."""

from __future__ import annotations

import ast
import io
import json
import os
import re
from pathlib import Path

import nbformat
import pytest
from babel.messages.mofile import read_mo
from markdown_it import MarkdownIt

from course_lib.lab.errors import LabError
from course_lib.publish.building import build
from course_lib.publish.translation import catalogs, command, wanted
from course_lib.publish.translation.wanted import labels_in, marked_in

from . import translation_rules as rules

LESSON = """# %% [markdown] id="title"
# # 99 A lesson
#
# It says: `course`, **twice**. ![a](../images/a.svg)

# %% id="gap" tags=["exercise"]
### BEGIN SOLUTION
### GAP answer = ...
answer = 17
### END SOLUTION

# %% [markdown] id="why" tags=["solution"]
# Because of the [code](../code/x.py).
"""
LANGUAGE = 'name = "한국어"\ncomplete = []\nnot_yet = "영어"\n'
TRANSLATED = {
    "title": "# 99 레슨\n\n`course`라고 **두 번** 합니다. ![a](../images/a.svg)",
    "why": "[코드](../code/x.py) 때문입니다.",
}


@pytest.fixture
def house(tmp_path: Path) -> Path:
    (tmp_path / "lessons").mkdir()
    (tmp_path / "course_lib").mkdir()
    (tmp_path / "lessons" / "99_test.py").write_text(LESSON)
    (tmp_path / "locale" / "ko").mkdir(parents=True)
    (tmp_path / "locale" / "ko" / "language.toml").write_text(LANGUAGE)
    command.update(tmp_path, "ko")
    return tmp_path


PICTURE = """<svg font-family="Arial">
<title>A run</title>
<text x="1" font-size="12">a run</text>
<text x="1" font-size="20" font-family="monospace">a run</text>
<text font-size="10">so</text><text font-size="8">1 &lt; 2</text>
</svg>
"""


def translate(house: Path, **cells: str) -> None:
    path = house / "locale" / "ko" / "99_test.po"
    known = catalogs.read(path)
    for one in wanted.everything(house)["99_test"]:
        if said := cells.get(one.cell):
            known.cells[one.cell, one.english] = said
    path.write_text(catalogs.text_of("ko", wanted.everything(house)["99_test"], known))


def cells_of(house: Path, kind: str) -> dict[str, str]:
    build.write(house, "ko")
    notebook = nbformat.read(house / kind / "ko" / "99_test.ipynb", as_version=4)
    nbformat.validate(notebook)
    return {cell.id: cell.source for cell in notebook.cells}


def test_prose_is_translated_and_its_links_lead_out_of_the_deeper_folder(house):
    translate(house, **TRANSLATED)
    assert cells_of(house, "notebooks") == {
        "title": "# 99 레슨\n\n`course`라고 **두 번** 합니다. ![a](../../images/a.svg)",
        "gap": "answer = ...",
    }
    assert cells_of(house, "solutions") == {
        "title": "# 99 레슨\n\n`course`라고 **두 번** 합니다. ![a](../../images/a.svg)",
        "gap": "answer = 17",
        "why": "[코드](../../code/x.py) 때문입니다.",
    }


def test_the_english_build_knows_nothing_of_it(house):
    before = build.outputs(house)
    translate(house, **TRANSLATED)
    build.write(house, "ko")
    assert build.outputs(house) == before
    assert set(build.differing(house)) == {"notebooks/99_test.ipynb", "solutions/99_test.ipynb"}


def test_a_cell_whose_english_has_changed_is_english_with_a_mark_and_status_names_it(house):
    translate(house, **TRANSLATED)
    lesson = house / "lessons" / "99_test.py"
    lesson.write_text(LESSON.replace("Because of", "Thanks to"))
    assert cells_of(house, "solutions")["why"] == (
        "> *영어*\n\nThanks to the [code](../../code/x.py)."
    )
    said = command.table(command.coverages(house, "ko"))
    assert "99_test: English changed since: why" in said
    command.update(house, "ko")
    po = (house / "locale" / "ko" / "99_test.po").read_text()
    assert "#, fuzzy" in po, "a translator finds the former text"
    assert "때문입니다" in po
    assert "Thanks to" in cells_of(house, "solutions")["why"]
    lesson.write_text(LESSON)
    assert "99_test: English changed since: why" in command.table(command.coverages(house, "ko"))


def test_a_lesson_of_which_nothing_is_translated_is_english_with_one_mark(house):
    cells = cells_of(house, "solutions")
    assert cells["title"].startswith("# 99 A lesson\n\n> *영어*\n\nIt says")
    assert cells["why"].startswith("Because")


def test_an_update_repeated_changes_nothing_and_a_line_in_a_lesson_moves_nothing(house):
    translate(house, **TRANSLATED)
    assert command.update(house, "ko") == []
    (house / "lessons" / "99_test.py").write_text(f"# one more line\n{LESSON}")
    assert command.update(house, "ko") == []


def test_an_unknown_language_is_refused_with_a_list_of_languages(house):
    with pytest.raises(LabError, match="there are: ko"):
        build.outputs(house, "fr")


def test_every_marked_sentence_of_a_program_is_found():
    source = '''
TITLE = N_("a constant")
def f(run):
    """Not a docstring."""
    log.info("nor a line of a log")
    raise Error(_("{nodes:.0f} of "
                  "{name!r}", nodes=run.nodes, name=_("a name") if run else f"{_('within')} it"))
'''
    assert marked_in(source) == ["a constant", "{nodes:.0f} of {name!r}", "a name", "within"]


def test_sentences_are_marked_as_they_can_be_found(repository):
    """The first argument is one text and no f-string, because values are filled in after
    translation."""
    wrong = []
    for path in sorted((repository / "course_lib").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                is_marked = node.func.id in ("_", "N_") and node.args
                if is_marked and isinstance(node.args[0], ast.JoinedStr | ast.BinOp):
                    wrong.append(f"{path.name}:{node.lineno}")
    assert wrong == []


def test_labels_of_a_cell_are_what_it_hands_to_figures_and_claims():
    source = '''
def f():
    """Not a docstring."""
claim("holds", value, least=1)
show.lines({"planned": a, f"{b} here": b}, x="lm_loss", title="Two lines")
claim(f"{name}: after a name", value, least=1)
lines = {"measured here": a}
print("not this text"); a["nor that"]; a == "nor this one"
'''
    assert labels_in(source) == ["holds", "planned", "Two lines", "after a name", "measured here"]


def everything_said(repository: Path):
    for name, messages in wanted.everything(repository).items():
        known = catalogs.read(repository / "locale" / "ko" / f"{name}.po")
        yield from ((name, one, said) for one in messages if (said := known.of(one)))


def test_every_translation_has_the_code_links_numbers_and_terms_of_its_english(repository):
    terms = rules.glossary(repository / "locale" / "ko" / "glossary.csv")
    found = [
        f"{name} {one.cell or one.english[:60]!r}: {fault}"
        for name, one, said in everything_said(repository)
        for fault in rules.faults(one, said, terms)
    ]
    assert found == []


def test_the_compiled_catalog_is_up_to_date(repository):
    file = catalogs.compiled_path(repository, "ko")
    kept = read_mo(io.BytesIO(file.read_bytes()))
    made = read_mo(io.BytesIO(catalogs.compiled(repository, "ko")))
    texts = [{(one.context, one.id): one.string for one in each if one.id} for each in (kept, made)]
    assert texts[0] == texts[1], "run `course translate update ko`"


def test_a_label_has_one_translation_in_all_lessons(repository):
    translations: dict[str, set[str]] = {}
    for name, one, said in everything_said(repository):
        if name[0].isdigit() and not one.cell:
            translations.setdefault(one.english, set()).add(said)
    assert {label: said for label, said in translations.items() if len(said) > 1} == {}


NOT_FORMAL = re.compile(r"(?<![니답시])다[.?!](?=\s|$|\))|(?:해|어|아)요[.?!]")


def test_sentences_are_in_the_formal_style(repository):
    found = [
        f"{name} {one.cell}: …{text[max(0, place.start() - 12) : place.end()]}"
        for name, one, said in everything_said(repository)
        for text in [rules.prose(said)]
        if (place := NOT_FORMAL.search(text))
    ]
    assert found == []


def test_a_lesson_listed_as_complete_is(repository):
    new = rules.new_exercises(repository)
    left = {
        (row.name, one.cell)
        for row in command.coverages(repository, "ko")
        for one in row.wanted
        if one.cell and not row.known.of(one) and one.cell not in new.get(row.name, ())
    }
    complete = catalogs.language_of(repository, "ko").complete
    assert [one for one in left if one[0] in complete] == []


def test_code_cells_are_those_of_the_english_notebooks_byte_for_byte(repository):
    english, korean = build.outputs(repository), build.outputs(repository, "ko")
    assert len([path for path in korean if path.suffix == ".ipynb"]) == len(english)
    for path, text in english.items():
        theirs = json.loads(korean[path.parent / "ko" / path.name])
        ours = json.loads(text)
        assert [cell["id"] for cell in theirs["cells"]] == [cell["id"] for cell in ours["cells"]]
        for cell, other in zip(ours["cells"], theirs["cells"], strict=True):
            if cell["cell_type"] == "code":
                assert other == cell


def test_every_picture_that_a_korean_notebook_shows_is_there(repository):
    for path, text in build.outputs(repository, "ko").items():
        for target in re.findall(r"\]\((\.\./[^)\s]+)\)", text):
            assert Path(os.path.normpath(path.parent / target)).exists(), (path.name, target)


def left_over_stars(text: str) -> int:
    """Return stars that a page shows, because Markdown does not read them as emphasis."""
    page = MarkdownIt("commonmark").enable("table").render(rules.FORMULA.sub("", text))
    return re.sub(r"<code.*?</code>", "", page, flags=re.DOTALL).count("*")


def test_emphasis_is_emphasis_behind_a_particle_too(repository):
    found = [
        f"{name} {one.cell}"
        for name, one, said in everything_said(repository)
        if one.cell and left_over_stars(said) > left_over_stars(one.english)
    ]
    assert found == []


@pytest.fixture
def with_picture(house: Path) -> Path:
    (house / "images").mkdir()
    (house / "images" / "a.svg").write_text(PICTURE)
    command.update(house, "ko")
    return house


def say_in_picture(house: Path, **said: str) -> None:
    path = house / "locale" / "ko" / "images.po"
    known = catalogs.read(path)
    for one in wanted.of_pictures(house):
        if one.english in said:
            known.cells[one.cell, one.english] = said[one.english]
    path.write_text(catalogs.text_of("ko", wanted.of_pictures(house), known))


def test_the_words_of_a_picture_are_messages_of_their_own_catalog(with_picture: Path):
    assert [one.english for one in wanted.of_pictures(with_picture)] == ["A run", "a run", "so"]
    (row,) = [row for row in command.coverages(with_picture, "ko") if row.name == "images"]
    assert row.done(cells=True) == [False, False, False]
    say_in_picture(with_picture, so="그래서")
    (row,) = [row for row in command.coverages(with_picture, "ko") if row.name == "images"]
    assert sum(row.done(cells=True)) == 1


def test_a_translated_picture_lies_beside_its_notebooks_which_show_it(with_picture: Path):
    translate(with_picture, **TRANSLATED)
    say_in_picture(with_picture, **{"a run": "실행 & 하나", "so": "너무나도 긴 말입니다"})
    assert "notebooks/ko/images/a.svg" in build.write(with_picture, "ko")
    picture = (with_picture / "notebooks/ko/images/a.svg").read_text()
    assert ">실행 &amp; 하나</text>" in picture
    assert '<text font-size="7">너무나도 긴 말입니다</text>' in picture, "smaller, to fit"
    assert 'font-family="monospace">a run<' in picture, "code is the same"
    assert "Noto Sans CJK KR" in picture
    assert ", Arial" in picture
    assert "1 &lt; 2" in picture
    for kind in ("notebooks", "solutions"):
        assert "](images/a.svg)" in (with_picture / kind / "ko/99_test.ipynb").read_text()
    assert not [path for path in build.outputs(with_picture) if path.suffix == ".svg"]
    say_in_picture(with_picture, **{"a run": "", "so": ""})
    build.write(with_picture, "ko")
    assert not (with_picture / "notebooks/ko/images/a.svg").exists()


def test_every_word_in_the_pictures_of_the_course_is_korean(repository):
    rows = command.coverages(repository, "ko")
    (pictures,) = [row.done(cells=True) for row in rows if row.name == "images"]
    assert pictures
    assert all(pictures)
