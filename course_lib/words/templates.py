"""A message with places for values: `The run used {nodes} nodes.`"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

PLACE = re.compile(r"(?<!\{)\{(\w+)\}(?!\})")
ATTACHED = re.compile(r"(?<=[^\s({])\{(\w+)\}(?!\})")
ENDINGS = frozenset({"s", "es", " each"})
"""Of a plural, as values of a place that is attached to a word: `{count} node{ending}`. Another
language has its own, or none."""
LEAST_LETTERS = 2
"""With fewer letters of its own a template would fit what others have made."""

FEW_LETTERS, FEW_ON_TWO_SIDES, A_FEW_WORDS = 10, 7, r"\S*?(?: \S+?){0,2}?"
"""A template with few letters of its own holds short values: `{what} is over` makes "the run is
over", and not every sentence that ends so."""
COUNTED = re.compile(r"\{\w+\} \w+\{\w+\}")
A_FIGURE = rf"(?=\S*\d){A_FEW_WORDS}"
"""`{piece} of {ranks}` has made "3 of 4", and not "gradients of weights";
`{size} rank{ending}` not "what a rank sends"."""
ATTACHED_WORDS = rf"(?! \d){A_FEW_WORDS}"
"""`{size} rank{ending}` has not made "dp4 rank 0"."""


def places_in(text: str) -> list[str]:
    return PLACE.findall(text)


def plain(text: str) -> str:
    """A brace of the text itself stands twice in a message, as in Python's own templates."""
    return text.replace("{{", "{").replace("}}", "}")


def own_letters(text: str) -> int:
    return sum(character.isalpha() for character in PLACE.sub("", text))


@dataclass(frozen=True)
class Template:
    english: str
    translated: str
    pattern: re.Pattern[str] = field(init=False, repr=False, compare=False)
    longest: str = field(init=False, repr=False, compare=False)
    attached: frozenset[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        pieces, places = PLACE.split(self.english)[::2], places_in(self.english)
        pieces = [plain(piece) for piece in pieces]
        parts = [re.escape(pieces[0])]
        for number, name in enumerate(places):
            seen = name in places[:number]
            held = self._held(pieces, number)
            parts.append(f"(?P={name})" if seen else f"(?P<{name}>{held})")
            parts.append(re.escape(pieces[number + 1]))
        object.__setattr__(self, "pattern", re.compile("".join(parts), re.DOTALL))
        object.__setattr__(self, "longest", max(pieces, key=len))
        object.__setattr__(self, "attached", frozenset(ATTACHED.findall(self.english)))

    def _held(self, pieces: list[str], number: int) -> str:
        """What may stand in a place, as a pattern."""
        behind, is_last = pieces[number + 1], number + 2 == len(pieces)
        if not behind and not is_last:  # the first of two has it all
            return ".*"
        is_counted = number == 0 and COUNTED.fullmatch(self.english)
        if is_counted or "".join(pieces).strip() == "of":
            return A_FIGURE
        if self._is_loose(pieces) and not pieces[number].endswith((": ", "; ")):
            return ATTACHED_WORDS if pieces[number][-1:].isalpha() else A_FEW_WORDS
        has_lines = "\n" in self.english or (is_last and not behind)
        return ".*?" if has_lines else r"[^\n]*?"

    def _is_loose(self, pieces: list[str]) -> bool:
        """Few letters hold a template together, fewer still where they stand on two sides."""
        lettered = sum(any(map(str.isalpha, piece)) for piece in pieces)
        return own_letters(self.english) < (FEW_LETTERS if lettered < 2 else FEW_ON_TWO_SIDES)

    def values_in(self, text: str) -> dict[str, str] | None:
        """What stands in its places there; None if it has not made this text."""
        if self.longest not in text:
            return None
        found = self.pattern.fullmatch(text)
        return None if found is None else found.groupdict()

    def filled(self, values: dict[str, str]) -> str:
        values = {
            name: "" if value in ENDINGS and name in self.attached else value
            for name, value in values.items()
        }
        pieces = PLACE.split(self.translated)
        pieces[::2] = map(plain, pieces[::2])
        pieces[1::2] = (values[name] for name in pieces[1::2])
        return "".join(pieces)
