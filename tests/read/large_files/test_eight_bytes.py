"""Numbers read eight letters at a time are those that Python reads."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

from course_lib.read.large_files.eight_bytes import MARGIN, Kind, kind_of, numbers, words_of

ODD = [
    "nan", "NAN", "inf", "", "-", "1.2.3", "1 2", "E+00", "1e5", "1E+001", "--5", "12a", "(5", "5%",
    "$3", "12345678901234567", "1234567890.1234567", "é", "+5", "5-", "1.", ".", ".5", "0x1f",
    "1E+99", "&", "'5'", "1e-07", "-1.5E-03", "999999999999999", "-0.0", "1_0", "infinity",
]  # fmt: skip


def any_text(random_: random.Random) -> str:
    value = random_.lognormvariate(0, 6)
    form = random_.choice(("{:.0f}", "{:.1f}", "{:.3f}", "{:.6E}", "{:.3e}", "-{:.2f}", "-{:.2E}"))
    return random_.choice(ODD) if random_.random() < 0.1 else form.format(value)[:15]


@pytest.mark.parametrize("kind", [Kind(s, n) for s in (False, True) for n in (False, True)])
def test_numbers_are_read_as_python_reads_them(kind):
    random_ = random.Random(1)
    texts = [any_text(random_) for _ in range(3000)]
    block, begin, end = bytes(MARGIN), [], []
    for text in texts:
        block += b"a name:"
        begin.append(len(block))
        block += b" " * random_.randrange(9) + text.encode() + random_.choice((b"", b" "))
        end.append(len(block))
        block += b"|"
    values, good = numbers(words_of(block + bytes(MARGIN)), np.array(begin), np.array(end), kind)
    for text, value, fine in zip(texts, values.tolist(), good.tolist(), strict=True):
        if fine:
            assert value == float(text) or (math.isnan(value) and text.lower() == "nan"), text
        elif kind_of(text.encode()) == kind:
            assert text in ODD, text
