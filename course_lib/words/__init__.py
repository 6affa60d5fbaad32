"""Translation of the course's own sentences with `gettext`.

A sentence is marked in the code, and its values are filled in after translation:

    _("Rank {rank} waits {seconds:.1f} s.", rank=3, seconds=1.2)

`N_` marks a sentence in a table or a constant, which is translated when it is shown. `label`
translates a text that a lesson's cell passes to the library. Texts that a learner writes, prints or
raises are never translated.
"""

from course_lib.words.language import ENGLISH, LANGUAGES, language, speaking
from course_lib.words.messages import N_, _, label

__all__ = ["ENGLISH", "LANGUAGES", "N_", "_", "label", "language", "speaking"]
