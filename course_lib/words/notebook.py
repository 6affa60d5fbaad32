"""What the cells of a notebook print themselves.

Cells are the same in every language, and some choose their sentence by what was measured. So where
another language is spoken, `print` in a notebook tells those sentences; all else it prints as ever.
"""

from __future__ import annotations

import builtins
from typing import Any

from course_lib.words.choice import ENGLISH, language
from course_lib.words.telling import told


def install() -> None:
    from IPython import get_ipython

    shell = get_ipython()
    if shell is not None and language() != ENGLISH:
        shell.user_ns.setdefault("print", tell)


def tell(*values: Any, **how: Any) -> None:
    builtins.print(*(told(one) if _is_of_the_course(one) else one for one in values), **how)


def _is_of_the_course(value: object) -> bool:
    """A text of several words, or what the course has found and tells as one, such as a failure. A
    single word may be the learner's own."""
    if isinstance(value, str):
        return " " in value
    return type(value).__module__.startswith("course_lib.")
