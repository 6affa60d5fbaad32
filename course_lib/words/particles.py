"""Korean particles by the previous sound: `값이(가)` becomes `값이`, and `수이(가)` becomes `수가`.

A translator writes both forms after a value, as is usual in Korean: `{name}을(를)`.
"""

from __future__ import annotations

import re

# Form after a consonant, and form after a vowel.
PAIRS = {
    "은(는)": ("은", "는"),
    "이(가)": ("이", "가"),
    "을(를)": ("을", "를"),
    "과(와)": ("과", "와"),
    "(으)로": ("으로", "로"),
    "(이)라": ("이라", "라"),
}
# In Korean, bytes, seconds and percent end in a vowel, however they are written.
VOWEL_UNIT = re.compile(r"\d ?(?:[kKMGT]?i?B|[mµn]?s|%)\Z")
BOTH_FORMS = re.compile(r"([\w%])(['\"`’”)\]]*)(" + "|".join(map(re.escape, PAIRS)) + ")")
DIGITS_WITH_FINAL_CONSONANT, DIGITS_WITH_FINAL_L = "013678", "178"
FIRST_SYLLABLE, LAST_SYLLABLE, FINALS, FINAL_L = 0xAC00, 0xD7A3, 28, 8


def fitted(text: str, start: int = 0) -> str:
    """Choose the spoken particle from `start` on; keep both if the sound is unknown."""

    def one(found: re.Match[str]) -> str:
        return found[0] if found.start(3) < start else _fitted(found)

    return BOTH_FORMS.sub(one, text)


def _fitted(found: re.Match[str]) -> str:
    before, marks, both = found.groups()
    unit = VOWEL_UNIT.search(found.string, 0, found.end(1))
    final = "" if unit else _final(before)
    if final is None:
        return found[0]
    after_consonant, after_vowel = PAIRS[both]
    takes_vowel_form = final == "" or (both == "(으)로" and final == "l")
    return before + marks + (after_vowel if takes_vowel_form else after_consonant)


def _final(character: str) -> str | None:
    """Return the final: "" for a vowel, "l" for ㄹ, "c" for other consonants, else None."""
    code = ord(character)
    if FIRST_SYLLABLE <= code <= LAST_SYLLABLE:
        final = (code - FIRST_SYLLABLE) % FINALS
        return "" if final == 0 else "l" if final == FINAL_L else "c"
    if character in "0123456789":
        if character in DIGITS_WITH_FINAL_L:
            return "l"
        return "c" if character in DIGITS_WITH_FINAL_CONSONANT else ""
    return None
