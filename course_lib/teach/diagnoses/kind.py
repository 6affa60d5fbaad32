"""What is known of one kind of fault.

`words` are patterns of what people call it, `unlike` of what they would not, `cure` of what helps;
`looks` says what a run with it would show, and `look` where the evidence of it lies, without naming
it. `one` says who has it: one "rank", one "node", the "first" rank, "none" in particular, or a
"disk", of which the first rank tells and which all have. `explains` names a kind
that is its consequence or goes with it: who says that a node is gone may say how its processes
ended, who says that a node takes another master may say at which port, and who says that a process
was killed may say for what.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from course_lib.teach.diagnoses.spoken import NEVER
from course_lib.teach.diagnoses.wording import spellings


@dataclass(frozen=True)
class Kind:
    title: str
    words: str
    cure: str
    looks: str
    look: str
    one: str = "rank"
    unlike: str = NEVER
    explains: str = ""

    def is_named_in(self, text: str) -> int:
        """How many of its words are in there; none where one is that only another kind has."""
        if re.search(self.unlike, text, re.I):
            return 0
        return max(
            len({found.group().lower() for found in re.finditer(self.words, spelt, re.I)})
            for spelt in spellings(text)
        )

    def is_cured_by(self, text: str) -> bool:
        return any(re.search(self.cure, spelt, re.I) for spelt in spellings(text))
