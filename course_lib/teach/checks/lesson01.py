"""Checks of lesson 01, making one device fast."""

from __future__ import annotations

from math import ceil, prod
from pathlib import Path
from typing import Any

from course_lib.teach.answers import EXACT, Amount, close
from course_lib.teach.checklist import Checklist
from course_lib.teach.checks.common import same_training
from course_lib.teach.trials.judge import tried
from course_lib.words import N_, _

PROGRAM = "train_vit.py"
# Chunks of one weather state. With more, each chunk is smaller than 2 kB.
MOST_CHUNKS = 100
# Allowed numbers unpacked per number requested.
MOST_UNPACKED = 1.3
FASTER = 1.25
# Samples per second in exercise 01.3: fp32 without workers, fp32 with enough workers, and bf16
# with enough workers or DALI.
ALONE, ENOUGH, HALVES = 8.8, 12.6, 53.2
# Seconds to read one sample.
READING = 1 / ALONE - 1 / ENOUGH


def ex01_chunks(run: Any, before: Any) -> None:
    """Check that compressed files unpack no more than the reader needs."""
    with Checklist("01.1") as check:
        check.started(run, PROGRAM)
        check.started(before, PROGRAM, _("the run with the archive"))
        if not run.origin:  # the files of a recorded run lie where it ran
            _are_packed(check, run)
        same_training(check, run.recipe, before.recipe, before.name, but=("--data",))
        logs = [check.left(one, "log").epochs for one in (run, before)]
        winds = [epochs["persistence_rmse_m_s"].dropna() for epochs in logs]
        check.needs(
            min(map(len, winds)) >= 2,
            _("both runs trained for two epochs or more"),
            hint=_("The logs are {mine} and {other}.", mine=run.log_file, other=before.log_file),
        )
        kept, wanted = (float(wind.iloc[-1]) for wind in winds)
        check.that(
            close(kept, wanted, 1e-3),
            _("the run with the archive sees the same weather"),
            hint=_(
                "Persistence is off by {kept:.4g} m/s with your files and by {wanted:.4g} with the "
                "original files, so the weather is different.",
                kept=kept,
                wanted=wanted,
            ),
        )
        fast, slow = (float(epochs["samples_per_second"].iloc[1:].max()) for epochs in logs)
        check.that(
            fast > FASTER * slow,
            _("the run is faster than {name}", name=before.name),
            hint=_(
                "Your run made {fast:.3g} samples per second, and the other run made {slow:.3g}. "
                "If something else kept the machine busy, submit it with again=True.",
                fast=fast,
                slow=slow,
            ),
        )


def _are_packed(check: Checklist, run: Any) -> None:
    import h5py

    folder = Path(str(run.recipe.flags.get("--data", "")))
    try:
        with h5py.File(min(folder.glob("train/*.h5")), "r") as file:
            shape, compression = file["fields"].shape, file["fields"].compression
            chunk = file["fields"].chunks or shape
    except (OSError, KeyError, AttributeError, ValueError) as error:
        check.stop(
            _("the files of the run can be read"),
            _(
                "{folder}: {error}. The cell above packs the files, and the last cell removes "
                "them. Run the lesson from its top; it reuses runs that have ended.",
                folder=folder,
                error=error,
            ),
        )
    check.that(
        compression is not None,
        _("the files of the run are compressed"),
        hint=_("This run read different files. Give the run the files that packed(…) made."),
    )
    chunks = prod(ceil(size / each) for size, each in zip(shape[1:], chunk[1:], strict=True))
    # A step needs one point in time.
    unpacked = chunks * prod(chunk) / prod(shape[1:])
    check.that(
        unpacked < MOST_UNPACKED and chunks <= MOST_CHUNKS,
        _("only what is read is unpacked"),
        hint=_(
            "A step reads a state of {state} numbers at one point in time. It unpacks {chunks} "
            "chunks of {chunk}, which are {unpacked:.2g} numbers for each number that is read. "
            "Every chunk is unpacked whole, and looked up separately: use few chunks of one time.",
            state=" × ".join(map(str, shape[1:])),
            chunks=chunks,
            chunk=" × ".join(map(str, chunk)),
            unpacked=unpacked,
        ),
    )


ex01_prefetch = tried("01.2", "prefetch")


def ex01_balance(without: object, workers: object) -> None:
    """Check the gain of bf16 without workers, and the number of workers that it needs."""
    exact = READING * HALVES
    both = _("1/8.8 s contains the computing in fp32, which bf16 replaces. Subtract it first.")
    whole_step = _(
        "That makes the whole step faster by the gain of bf16. Reading does not get faster."
    )
    speeds = (
        (ALONE * HALVES / ENOUGH, whole_step),
        (1 / (1 / ALONE + 1 / HALVES), both),
        (HALVES - ENOUGH + ALONE, _("You subtracted speeds. Only the times of a sample add up.")),
        (HALVES, _("That is the speed with enough workers, which hide the reading.")),
    )
    counts = (
        (exact, _("Your number is not a whole number. Is the one below it enough?")),
        (1, _("One worker reads a sample in 34 ms. The GPU needs one every 19 ms.")),
        (HALVES / ALONE, both),
        (ceil(HALVES / ALONE), both),
    )
    with Checklist("01.3") as check:
        given = check.number(without, "without_workers")
        needed = check.number(workers, "workers_needed")
        check.amount(
            given,
            Amount(right=1 / (READING + 1 / HALVES), unit=N_("samples per second"), slips=speeds),
            _("reading and computing, one after the other"),
            hint=_(
                "Work with the seconds of one sample: 1/12.6 is computing, 1/8.8 is "
                "computing and reading, 1/53.2 is computing with bf16."
            ),
        )
        check.amount(
            needed,
            Amount(right=ceil(exact), unit=N_("workers"), share=EXACT, slips=counts),
            _("your number of workers keeps the GPU busy"),
            hint=_(
                "Find the smallest number of workers with which reading a sample, divided by the "
                "workers, takes no longer than computing."
            ),
        )
