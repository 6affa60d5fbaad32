"""Lesson 01, one device, fast."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from math import sqrt
from typing import Any

from course_lib.teach.answers import close, in_short
from course_lib.teach.checklist import Checklist
from course_lib.teach.checks.lesson01_files import Packing, packing_of
from course_lib.teach.slips import EXACT, Quantity, Slip

PROGRAM = "train_vit.py"
MOST_CHUNKS = 100
"""Of a state: more of them are pieces of less than 2 kB."""
MOST_UNPACKED = 1.3
FASTER = 1.25
MOST_TEXTS = 100
"""A generator may have no end."""
WATCHING = ("--profile", "--profile-step-start", "--profile-step-end")
ALONE, ENOUGH, HALVES = 8.8, 12.6, 53.2
"""Exercise 01.3, in samples per second: fp32 without workers and with enough, bf16 with enough or
with DALI."""
RECORDED = {
    "forward": "It is kernels and nothing else, the same in each step: record it.",
    "backward": "It is kernels and nothing else. Its gradients stay where they were recorded.",
    "Adam's step, its rate in a tensor on the GPU": "With the rate in a tensor all that it reads "
    "lies on the GPU, at the same address each time: record it.",
}
OUTSIDE = {
    "read the next batch": "Reading is no kernel. A graph would train on the recorded batch for "
    "ever; the new one is copied to where that lies.",
    "compute the next learning rate in Python": "A graph runs no Python: the rate would stay what "
    "it was. Compute it outside, and write it into the tensor.",
    "print(loss.item())": "item() waits for the GPU and brings a number to the processor. While "
    "recording nothing has been computed yet.",
    "if not loss.isfinite(): break": "To decide, Python has to look at a result, and there is no "
    "Python in a graph. Look now and then, between two replays.",
}


def ex01_chunks(run: Any, before: Any) -> None:
    """Compressed files of which no more is unpacked than is read."""
    with Checklist("01.1") as check:
        check.started(run, PROGRAM)
        check.started(before, PROGRAM, "the run with the archive")
        if not run.origin:  # the files of a recorded run lie where it ran
            _fits(check, packing_of(check, run))
        _same_training(check, run, before)
        fast, slow = (_speed(check, one) for one in (run, before))
        check.that(
            fast > FASTER * slow,
            f"it is faster than {before.name}",
            hint=f"It made {fast:.3g} samples per second, the other {slow:.3g}. If something else "
            "kept the machine busy meanwhile, submit it with again=True.",
        )


def _fits(check: Checklist, packing: Packing) -> None:
    check.that(
        packing.compression is not None,
        "its files are compressed",
        hint="They are not: this run read other files. Give it those that packed(…) made.",
    )
    times, chunks = (packing.chunks or packing.shape)[0], packing.chunks_of_a_state
    check.unless(
        times > 1,
        "what is unpacked is what is read",
        hint=f"A chunk holds {times} times. A step wants one of them, and all {times} are "
        "unpacked.",
    )
    check.unless(
        chunks > MOST_CHUNKS,
        "what is unpacked is what is read",
        hint=f"Nothing is unpacked in vain. But a state lies in {chunks} chunks, and each has to "
        "be looked up and unpacked by itself. Make them larger: how much is read at once?",
    )
    check.that(
        packing.unpacked < MOST_UNPACKED,
        "what is unpacked is what is read",
        hint=f"For each number that is read, {packing.unpacked:.2g} are unpacked: the chunks do "
        f"not divide the {' × '.join(map(str, packing.shape[1:]))} numbers of a state, so the "
        "last ones are mostly empty.",
    )


def _same_training(check: Checklist, run: Any, before: Any) -> None:
    flags, others = (
        {name: value for name, value in one.recipe.flags.items() if name not in WATCHING}
        for one in (run, before)
    )
    differing = sorted(
        name
        for name in flags.keys() | others.keys()
        if name != "--data" and flags.get(name) != others.get(name)
    )
    check.that(
        not differing,
        f"it trains as {before.name} does",
        hint=f"They differ in {', '.join(differing)}. Only the files are to be others.",
    )
    kept, wanted = (_last(check, one, "persistence_rmse_m_s") for one in (run, before))
    check.that(
        close(kept, wanted, 1e-3),
        "and sees the same weather",
        hint=f"Persistence is off by {kept:.4g} m/s with its files, by {wanted:.4g} with the "
        "others: that is other weather.",
    )


def _last(check: Checklist, run: Any, column: str) -> float:
    epochs = check.left(run, "log").epochs
    values = epochs[column].dropna()
    check.unless(
        len(values) < 2,
        f"{run.name} trained for two epochs or more",
        hint=f"Its log has {len(values)} with a {column.replace('_', ' ')}: {run.log_file}",
    )
    return float(values.iloc[-1])


def _speed(check: Checklist, run: Any) -> float:
    _last(check, run, "samples_per_second")
    return float(run.log.epochs["samples_per_second"].iloc[1:].max())


def ex01_outside(answer: object) -> None:
    """What no graph can record."""
    with Checklist("01.2") as check:
        chosen = _texts(check, answer)
        known = {_bare(text): text for text in (*RECORDED, *OUTSIDE)}
        chosen = [known.get(_bare(text), text) for text in chosen]
        strange = [text for text in chosen if _bare(text) not in known]
        check.unless(
            bool(strange),
            "each is one of the candidates",
            hint=f"{strange[:1]} is none of them. Take them from the list: candidates[0], …",
        )
        for text, why in RECORDED.items():
            check.unless(text in chosen, f"recorded: {text}", hint=why)
        for text, why in OUTSIDE.items():
            check.that(text in chosen, f"outside: {text}", hint=why)


def _bare(text: str) -> str:
    return " ".join(text.lower().split()).rstrip(".")


def _texts(check: Checklist, answer: object) -> list[str]:
    import numpy as np

    check.answered(answer, "outside")
    single = isinstance(answer, str | bytes | Mapping) or answer is None
    try:
        found = [answer] if single else list(np.ravel(list(islice(answer, MOST_TEXTS))))  # type: ignore[call-overload]
    except (TypeError, ValueError):
        found = [answer]
    check.unless(
        any(one is ... for one in found) or not found,
        "outside is filled in",
        hint="Put some of the candidates into the list: candidates[0], …",
    )
    texts = [str(one) for one in found if isinstance(one, str)]
    check.unless(
        len(texts) < len(found),
        "outside is a list of texts",
        hint=f"It is {in_short(answer)} now. Take texts from the list: candidates[0], …",
    )
    return texts


def ex01_balance(without: object, workers: object) -> None:
    """What bf16 would have given without workers, and how many it needs."""
    with Checklist("01.3") as check:
        given = check.number(without, "without_workers")
        needed = check.number(workers, "workers_needed")
        check.amount(
            given,
            _without(),
            "reading and computing, one after the other",
            hint="Work with the seconds of one sample: 1/12.6 is computing, 1/8.8 is computing "
            "and reading, 1/53.2 is computing with bf16.",
        )
        check.amount(
            needed,
            _needed(),
            "so many workers keep the GPU busy",
            hint="Reading of one sample, divided by the workers, may last as long as computing.",
        )


MEAN = "That is a mean of two speeds. What adds up is the time of a sample."
RATIO = "That is how many times faster one is than another, and no speed."
READING = 1 / ALONE - 1 / ENOUGH
"""Seconds of one sample."""


def _without() -> Quantity:
    right = 1 / (READING + 1 / HALVES)
    own: tuple[Slip, ...] = (
        (ALONE * HALVES / ENOUGH,
         "That makes the whole step faster by what bf16 gained. Reading does not get faster."),
        (HALVES, "That is where reading is hidden. Without workers it is not."),
        (ALONE, "That is fp32. With bf16 the computing is shorter, and only the reading stays."),
        (ENOUGH, "That is fp32 with workers."),
        (1 / READING, "That is reading alone. Without workers computing comes after it."),
        (HALVES - (ENOUGH - ALONE),
         "You subtracted speeds. What adds up is the time of a sample: 1/8.8 s, 1/12.6 s."),
        (1 / (1 / ALONE + 1 / HALVES),
         "1/8.8 s has the computing of fp32 in it, which bf16 replaces. Take it out first."),
        (1 / (1 / ENOUGH + 1 / HALVES),
         "1/12.6 s is the computing of fp32, not the reading."),
        (1000 / right, "These are milliseconds of a sample. How many samples per second?"),
        (60 * right, "That is per minute. How many samples per second?"),
        ((ALONE + HALVES) / 2, MEAN), (sqrt(ALONE * HALVES), MEAN),
        ((ENOUGH + HALVES) / 2, MEAN), (2 / (1 / ALONE + 1 / HALVES), MEAN),
        (2 * ALONE, "bf16 does not double it: reading stays as long as it was."),
        (4 * ALONE, "bf16 makes only the computing shorter: reading stays as long as it was."),
        *((value, RATIO) for value in (HALVES / ENOUGH, HALVES / ALONE, ENOUGH / ALONE)),
        *((value, "You subtracted speeds. What adds up is the time of a sample.")
          for value in (HALVES - ALONE, HALVES - ENOUGH, ENOUGH - ALONE)),
    )  # fmt: skip
    return Quantity(right=right, unit="samples per second", own=own)


def _needed() -> Quantity:
    exact = READING * HALVES
    own: tuple[Slip, ...] = (
        (exact, "So it comes out, and it is not a whole number. Would fewer be enough?"),
        (1, "One worker brings a sample each 34 ms; the GPU wants one each 19 ms."),
        (READING * ENOUGH, "That is for fp32."),
        (HALVES / ALONE,
         "That takes all of 1/8.8 s for reading. Computing in fp32 is in it too."),
        (7, "That takes all of 1/8.8 s for reading. Computing in fp32 is in it too."),
        (3, "Two already bring samples faster than the GPU takes them."),
        (4, "Four were tried, and are enough. By the law fewer are."),
        (0, "Without workers reading is not hidden at all."),
        (HALVES / ENOUGH, "That compares the speeds of bf16 and fp32. Compare reading with "
         "computing."),
        (5, "That compares the speeds of bf16 and fp32. Compare reading with computing."),
        (1 / exact, "It is upside down: reading divided by computing is asked for."),
        (1.5, "Workers are whole ones."), (2.5, "Workers are whole ones."),
        *((many, "That many keep the GPU busy, and so would fewer.")
          for many in (6, 8, 10, 12, 16, 24, 32, 64)),
    )  # fmt: skip
    return Quantity(right=2, unit="workers", share=EXACT, own=own)
