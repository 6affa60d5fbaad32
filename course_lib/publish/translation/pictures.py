"""Translated pictures of the notebooks. The words in an SVG are messages of a catalog.

A message's context is its picture, because a short word may have different meanings in different
pictures. Words in pictures are separate from the library's sentences.
"""

from __future__ import annotations

import re
import unicodedata
from html import escape, unescape
from pathlib import Path

from course_lib.publish.translation.catalogs import Translations, folder_of, read
from course_lib.publish.translation.wanted import PICTURES, SVG_TEXT, Wanted

SIZE = re.compile(r'font-size="([\d.]+)"')
FONTS = "'Noto Sans CJK KR', 'Noto Sans KR', 'Malgun Gothic', 'Apple SD Gothic Neo', NanumGothic"
# Width of a Korean and of a Latin letter, relative to the font size.
WIDE, NARROW = 1.0, 0.55
# Every box has room for two more letters.
TO_SPARE, LEAST_SHRUNK = 2.0, 0.7


def localized_pictures(repository: Path, code: str) -> dict[str, str]:
    """Return the pictures with any translation, by name."""
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
    """Shrink the font if the translation is longer than the English text that fits the box."""
    share = max(LEAST_SHRUNK, min(1.0, (width(words) + TO_SPARE) / width(said)))
    return SIZE.sub(lambda size: f'font-size="{float(size[1]) * share:.3g}"', begin)


def width(words: str) -> float:
    return sum(WIDE if unicodedata.east_asian_width(c) in "WF" else NARROW for c in words)
