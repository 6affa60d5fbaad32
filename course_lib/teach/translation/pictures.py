"""Pictures of the notebooks in another language: the words in an SVG, as messages of a catalog.

A message's context is the picture it stands in: a short word may have another meaning in another
picture, and what only a picture says is no sentence of the library.
"""

from __future__ import annotations

import re
import unicodedata
from html import escape, unescape
from pathlib import Path

from course_lib.teach.translation.catalogs import Translations, folder_of, read
from course_lib.teach.translation.wanted import PICTURES, SVG_TEXT, Wanted

SIZE = re.compile(r'font-size="([\d.]+)"')
FONTS = "'Noto Sans CJK KR', 'Noto Sans KR', 'Malgun Gothic', 'Apple SD Gothic Neo', NanumGothic"
WIDE, NARROW = 1.0, 0.55
"""Of a letter, in its size: of Korean, and of the Latin alphabet."""
TO_SPARE, LEAST_SHRUNK = 2.0, 0.7
"""No box is so tight that two letters more would not fit."""


def localized_pictures(repository: Path, code: str) -> dict[str, str]:
    """By its name, each of which anything is translated."""
    known = read(folder_of(repository, code) / f"{PICTURES}.po")
    found = {}
    for path in sorted((repository / "images").glob("*.svg")):
        picture = path.read_text(encoding="utf-8")
        if (text := translated(picture, path.name, known)) != with_fonts(picture):
            found[path.name] = text
    return found


def translated(picture: str, name: str, known: Translations) -> str:
    def replaced(one: re.Match[str]) -> str:
        words = unescape(one["words"])
        said = known.of(Wanted(words, f"{name}: {words}", ""))
        if not said or "monospace" in one["attributes"]:
            return one[0]
        begin = fitted(one["begin"], words, said) if one["tag"] == "text" else one["begin"]
        return begin + escape(said, quote=False)

    return SVG_TEXT.sub(replaced, with_fonts(picture))


def with_fonts(picture: str) -> str:
    return picture.replace(' font-family="', f' font-family="{FONTS}, ', 1)


def fitted(begin: str, words: str, said: str) -> str:
    """Smaller, where it is longer than the English, for which its box was drawn."""
    share = max(LEAST_SHRUNK, min(1.0, (width(words) + TO_SPARE) / width(said)))
    return SIZE.sub(lambda size: f'font-size="{float(size[1]) * share:.3g}"', begin)


def width(words: str) -> float:
    return sum(WIDE if unicodedata.east_asian_width(c) in "WF" else NARROW for c in words)
