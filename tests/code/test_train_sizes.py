"""Many small models at once: each copy is trained as if it were alone."""

from __future__ import annotations

import argparse as a_file_of_python
import contextlib
import io
import re

import pytest

LINE = r"(\d+) parameters, (\d+) tokens, rate (\S+), seed (\d+): validation loss (\S+)"


def printed(*argv):
    from train_sizes import main

    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        main(["--text", a_file_of_python.__file__, "--batch-size", "32", *map(str, argv)])
    return [
        (int(count), int(tokens), float(rate), int(seed), float(loss))
        for count, tokens, rate, seed, loss in re.findall(LINE, out.getvalue())
    ]


def test_a_copy_learns_what_it_learns_alone():
    together = printed("--tokens", 320, 640, "--lr", 0.004, 0.016, "--seeds", 2)
    assert [one[1:4] for one in together[:4]] == [
        (320, 0.004, 0), (320, 0.004, 1), (320, 0.016, 0), (320, 0.016, 1),
    ]  # fmt: skip
    [alone] = printed("--tokens", 640, "--lr", 0.016)
    assert alone == pytest.approx(together[6], abs=1e-3)


def test_parameters_are_the_weights_that_multiply():
    for width in (8, 32):
        assert printed("--width", width, "--tokens", 32)[0][0] == 256 * width + 3 * width**2


def test_both_parametrizations_are_one_model_at_the_base_width():
    for width, same in ((16, True), (64, False)):
        kinds = [
            printed("--width", width, "--tokens", 640, "--parametrization", kind)
            for kind in ("standard", "mup")
        ]
        assert (kinds[0] == kinds[1]) is same


def test_too_few_letters_are_refused():
    from process.errors import ArgumentsError

    with pytest.raises(ArgumentsError, match="--letters 5: give 9 to"):
        printed("--letters", 5)
