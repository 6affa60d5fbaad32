"""Say: what a learner reads, in the language of the notebook.

The house is written in English alone: a sentence stands where it is made, as an f-string. What is
about to be shown goes through `told`, which finds the template that made it in the catalogs of the
language (`locale/<language>/*.po`), and puts the same values into its translation. What has no
translation stays English. So no room has to mark its sentences, and `course translate status`
counts them all.
"""

from course_lib.words.choice import ENGLISH, LANGUAGES, language, speaking
from course_lib.words.telling import heard, spoken, told

__all__ = ["ENGLISH", "LANGUAGES", "heard", "language", "speaking", "spoken", "told"]
