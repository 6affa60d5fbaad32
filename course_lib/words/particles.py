"""Korean particles follow the sound before them: `값이(가)` becomes `값이`, and `수이(가)` `수가`.

A translator writes both forms after a place for a value, as is the custom: `{name}을(를)`.
"""

from __future__ import annotations

import re

PAIRS = {
    "은(는)": ("은", "는"),
    "이(가)": ("이", "가"),
    "을(를)": ("을", "를"),
    "과(와)": ("과", "와"),
    "(으)로": ("으로", "로"),
    "(이)라": ("이라", "라"),
}
"""After a consonant, after a vowel."""
SPOKEN_UNIT = re.compile(r"\d ?(?:[kKMGT]?i?B|[mµn]?s|%)\Z")
"""Bytes, seconds and percent end in a vowel in Korean, however they are written."""
BOTH = re.compile(r"([\w%])(['\"`’”)\]]*)(" + "|".join(map(re.escape, PAIRS)) + ")")
DIGITS_THAT_END_IN_A_CONSONANT = "013678"
FIRST, LAST, FINALS, FINAL_L = 0xAC00, 0xD7A3, 28, 8


def fitted(text: str) -> str:
    """With the particle that is spoken; both stay where the sound cannot be known."""
    return BOTH.sub(_one, text)


def any_particle(pattern: str) -> str:
    """A pattern that was made of a text with both forms: for the one that was spoken, too."""
    for both, forms in PAIRS.items():
        pattern = pattern.replace(re.escape(both), f"(?:{'|'.join([re.escape(both), *forms])})")
    return pattern


def _one(found: re.Match[str]) -> str:
    before, marks, both = found.groups()
    unit = SPOKEN_UNIT.search(found.string, 0, found.end(1))
    ends = "" if unit else _ending(before)
    if ends is None:
        return found[0]
    after_consonant, after_vowel = PAIRS[both]
    takes_vowel_form = ends == "" or (both == "(으)로" and ends == "l")
    return before + marks + (after_vowel if takes_vowel_form else after_consonant)


def _ending(character: str) -> str | None:
    """Of the syllable: empty for a vowel, `l` for ㄹ, `c` for another consonant; None: unknown."""
    code = ord(character)
    if FIRST <= code <= LAST:
        final = (code - FIRST) % FINALS
        return "" if final == 0 else "l" if final == FINAL_L else "c"
    if character in "0123456789":
        if character in "178":
            return "l"
        return "c" if character in DIGITS_THAT_END_IN_A_CONSONANT else ""
    return None
