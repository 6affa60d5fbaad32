"""Numbers in words and in signs of their own ("sixty-three", "two thirds", "1½", "2³²"), in
figures."""

from __future__ import annotations

import re

ONES = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven",
    "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
)  # fmt: skip
TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
VALUES = dict(zip([*ONES, *TENS], [*range(20), *range(20, 100, 10)], strict=True))
WORD = "|".join([*sorted(VALUES, key=len, reverse=True), "hundred"])
IN_WORDS = re.compile(rf"\b(?:{WORD})(?:(?:\s+and\s+|[\s-]+)(?:{WORD}))*\b", re.IGNORECASE)
RAISED = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺", "0123456789-+")
PARTS = {"½": ".5", "¼": ".25", "¾": ".75"}
MIXED = re.compile(r"(?<![\d.,/]\s)(?<![\d.,/])(\d{1,3}) ([1-9])/([1-9]\d?)(?![\d.,/])")
"""1 1/2."""
DIVISORS = {
    "half": 2, "halves": 2, "third": 3, "quarter": 4, "fourth": 4, "fifth": 5, "sixth": 6,
    "seventh": 7, "eighth": 8, "ninth": 9, "tenth": 10,
}  # fmt: skip
FRACTION = re.compile(
    r"(?:\b(?P<whole>\d+)\s+and\s+)?\b(?P<parts>an?|\d+)[\s-]+"
    rf"(?P<name>{'|'.join(DIVISORS)})s?\b(?!\s+of\s+\d)",
    re.IGNORECASE,
)


def in_digits(text: str) -> str:
    """The same with figures; powers get a `^`."""
    text = re.sub(r"[⁻⁺]?[⁰¹²³⁴⁵⁶⁷⁸⁹]+", lambda raised: "^" + raised[0].translate(RAISED), text)
    for sign, digits in PARTS.items():
        text = text.replace(sign, digits)
    if text.lower() == "half":
        return "0.5"
    text = MIXED.sub(lambda mixed: str(int(mixed[1]) + int(mixed[2]) / int(mixed[3])), text)
    return FRACTION.sub(_divided, IN_WORDS.sub(_figures, text))


def _divided(found: re.Match[str]) -> str:
    parts = int(found["parts"]) if found["parts"].isdigit() else 1
    return str(int(found["whole"] or 0) + parts / DIVISORS[found["name"].lower()])


def _figures(found: re.Match[str]) -> str:
    """`one hundred and twenty-eight` is 128; what is no number of English stays as it is."""
    value, last = 0, 1000
    for word in re.findall(WORD, found[0].lower()):
        if word == "hundred":
            if last != 1 or not 0 < value < 10:
                return found[0]
            value, last = 100 * value, 100
            continue
        number = VALUES[word]
        size = 10 if number >= 20 else 2 if number >= 10 else 1
        if size >= last or (last == 10 and size == 2):
            return found[0]
        value, last = value + number, size
    return str(value)
