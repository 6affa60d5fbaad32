"""Checks of lesson 14, estimating."""

from __future__ import annotations

from typing import Any

from course_lib.lab.job.recipes import gpt
from course_lib.plan import Layout, of_iteration, preset, training_days
from course_lib.teach.answers import EXACT, Amount, close, number_in
from course_lib.teach.checklist import Checklist
from course_lib.teach.checks.common import MIB, memory_of_rank_0, same_training
from course_lib.teach.functions import is_function, returned
from course_lib.words import N_, _

# Published sizes of Llama 3.
NAMES = ("layers", "hidden", "heads", "kv_heads", "mlp", "vocabulary", "sequence")
PUBLISHED: dict[str, dict[str, Any]] = {
    "Llama 3 8B": dict(zip(NAMES, (32, 4096, 32, 8, 14336, 128256, 8192), strict=True)),
    "Llama 3 405B": dict(zip(NAMES, (126, 16384, 128, 8, 53248, 128256, 8192), strict=True)),
}
# What is counted, with its relative tolerance. FLOPs of norms are below the second.
COUNTED = ((N_("parameters"), 1e-9), (N_("FLOPs per token"), 3e-4))
# Mistakes in a count, each with its hint.
MISTAKES: tuple[tuple[dict[str, Any], str], ...] = (
    ({"narrow": 0}, N_("Keys and values have fewer heads than the queries.")),
    ({"matrices": 2}, N_("The MLP has three matrices: two from the width, and one back to it.")),
    ({"tables": 1}, N_("The scores of the vocabulary come from a second table.")),
    ({"norms": 0}, N_("The norms are missing. Each has one factor for each column.")),
    ({"last": 0}, N_("One more norm follows the last layer.")),
    ({"lookups": 1}, N_("Looking up a row of the first table is not a matmul.")),
    ({"head": 0}, N_("The scores of all vocabulary tokens also come from a matmul.")),
    ({"scores": 0}, N_("Attention also multiplies queries with keys, and scores with values.")),
    ({"scores": 4}, N_("The matmuls of the scores also have a backward pass.")),
    ({"scores": 6}, N_("Count all scores, also those that the causal mask removes.")),
    ({"shared": 1}, N_("Every head of the queries has scores of its own, with shared keys too.")),
)
# Exercise 14.2 repairs an estimate for 18.4 billion parameters on 16 A100.
SAMPLES, SECONDS, DEVICES, TOKENS, PARAMETERS = 512, 32.09, 16, 300e9, 18.4e9
# The sequence length with its typing error.
SEQUENCE, MISTYPED = 1024, 1048
# Relative tolerance for the days. Typing 1048 for 1024 exceeds it.
CLOSE_ENOUGH = 0.015
# FLOPs per parameter and token.
WITH_RECOMPUTATION, WITHOUT = 8, 6
# Relative tolerance for a rate. The lesson prints 8.18 FLOPs per parameter and token.
ROUNDED_ON_THE_WAY = 0.005
# Relative error allowed between the predicted and the measured peak.
FORESEEN = 0.03
ZERO = ("--use-distributed-optimizer", "--use-torch-fsdp2")


def ex14_today(function: Any) -> None:
    """Check a function that counts parameters and FLOPs of models such as Llama 3."""
    with Checklist("14.1") as check:
        is_function(check, function, "count")
        for name, sizes in [*PUBLISHED.items(), (_("sizes drawn for you"), _drawn(check))]:
            given = returned(check, function, _two_numbers, **sizes)
            right = _count(**sizes)
            for number, (what, share) in enumerate(COUNTED):
                value = given[number]
                mistake = next(
                    (
                        _(hint)
                        for changes, hint in MISTAKES
                        if close(value, _count(**sizes, **changes)[number], share)
                    ),
                    _("Count the parts of one layer alone, then the tables."),
                )
                check.that(
                    close(value, right[number], share),
                    _("{what} of {name}", what=_(what), name=name),
                    where=_(
                        "Your function returns {given:.6g}, which is {ratio:.6g} times the right "
                        "number. ",
                        given=value,
                        ratio=value / right[number],
                    ),
                    hint=mistake,
                )


def _two_numbers(answer: Any) -> tuple[float, float]:
    first, second = (number_in(one) for one in answer)
    if first is None or second is None:
        raise TypeError(_("return two numbers, the parameters and the FLOPs"))
    return first, second


def _drawn(check: Checklist) -> dict[str, Any]:
    """Return sizes in which no two mistakes lead to the same number."""
    draw = check.drawn()
    kv_heads = draw.choice((2, 3, 5))
    heads = kv_heads * draw.choice((4, 6, 8))
    hidden = heads * draw.choice((128, 160, 192))
    return {
        "layers": draw.randint(9, 70), "hidden": hidden, "heads": heads, "kv_heads": kv_heads,
        "mlp": hidden * draw.choice((5, 7)) // 2, "vocabulary": draw.randint(30, 200) * 1000,
        "sequence": draw.choice((4096, 8192, 16384)),
    }  # fmt: skip


def _count(
    layers: int, hidden: int, heads: int, kv_heads: int, mlp: int, vocabulary: int, sequence: int,
    *, narrow: int = 1, matrices: int = 3, norms: int = 1, tables: int = 2, lookups: int = 0,
    head: int = 1, scores: int = 12, last: int = 1, shared: int = 0,
) -> tuple[float, float]:  # fmt: skip
    """Return parameters, and FLOPs per token. The keywords make the mistakes of learners."""
    attention = 2 * hidden**2 * (1 + (kv_heads / heads) ** narrow)
    weights, table = layers * (attention + matrices * hidden * mlp), vocabulary * hidden
    parameters = weights + tables * table + (2 * layers + last) * norms * hidden
    in_matmuls = weights + (head + lookups) * table
    in_scores = scores * (kv_heads / heads) ** shared * layers * hidden * sequence
    return parameters, 6 * in_matmuls + in_scores


def ex14_repaired(tokens: object, flops_per_s: object, days: object, factor: object) -> None:
    """Check an estimate without its two tenfold mistakes, its mistyped length and its peak."""
    rate, mistyped = _flops_per_s(SEQUENCE), _flops_per_s(MISTYPED)
    by_8 = WITH_RECOMPUTATION * PARAMETERS * SAMPLES * SEQUENCE / SECONDS / DEVICES
    right_days = _days_at(rate)
    # Counting iterations includes attention.
    counted = TOKENS / (SAMPLES * SEQUENCE) * SECONDS / 86400
    tenfold = _("10e12 is ten tera, just as 10e9 is ten billion.")
    digits = _(
        "Compare their_flops digit by digit with the model. How long is a sequence of this model?"
    )
    both = _("The factor 6 does not fit a rate that counts the recomputation.")
    of_mistyped = _("The rate still uses the mistyped sequence length.")
    tenth = _("300 * 10e9 is 3000 billion: 10e9 is ten times 1e9.")
    right_tokens = Amount(
        right=TOKENS,
        share=EXACT,
        slips=((10 * TOKENS, tenth), (TOKENS / 1e9, _("That is the number of billions."))),
    )
    right_rate = Amount(
        right=rate,
        unit="FLOP/s",
        share=ROUNDED_ON_THE_WAY,
        slips=(
            (10 * rate, tenfold),
            (10 * mistyped, tenfold),
            (mistyped, digits),
            (
                by_8,
                _("8 for each parameter and token leaves out the products of queries and keys."),
            ),
        ),
    )
    right_time = Amount(
        right=right_days,
        unit=N_("days"),
        share=CLOSE_ENOUGH,
        also=(counted,),
        slips=((_days_at(rate, WITHOUT), both), (_days_at(mistyped), of_mistyped)),
    )
    with Checklist("14.2") as check:
        check.amount(
            check.number(tokens, "right_tokens"),
            right_tokens,
            _("the number of tokens is right"),
            hint=_("The estimate is for 300 billion. A billion is 1e9."),
        )
        given = check.number(flops_per_s, "right_flops_per_s")
        requirement = _("the FLOP/s of each device are right")
        # Leaving attention out and using the longer sequence nearly cancel.
        is_both = close(given, by_8 * MISTYPED / SEQUENCE, 3e-4)
        check.unless(is_both, requirement, hint=digits)
        check.amount(
            given,
            right_rate,
            requirement,
            hint=_(
                "FLOPs of one iteration, fully recomputed, divided by {seconds} s and by "
                "{devices} devices. Compare their_flops digit by digit with the model.",
                seconds=SECONDS,
                devices=DEVICES,
            ),
        )
        check.amount(
            check.number(days, "right_days"),
            right_time,
            _("the days follow from tokens and rate"),
            hint=_("Use days_of with your tokens and your rate."),
        )
        check.amount(
            check.number(factor, "factor_without_recomputation"),
            Amount(right=WITHOUT, share=EXACT),
            _("the factor without recomputation is right"),
            hint=_("2 FLOPs in forward and 4 in backward for each parameter and token."),
        )


def _flops_per_s(sequence: int) -> float:
    """Return the FLOP/s of one device in the estimate."""
    model = preset("18b").but(sequence=sequence)
    flops = of_iteration(model, Layout(global_batch=SAMPLES, recompute="full"))
    return flops.hardware / SECONDS / DEVICES


def _days_at(flops_per_s: float, factor: int = WITH_RECOMPUTATION) -> float:
    return training_days(PARAMETERS, TOKENS, DEVICES, flops_per_s / 1e12, factor)


def ex14_sharded(predicted_mib: object, run: Any, target: Any) -> None:
    """Check the peak with a sharded optimizer, predicted before it was measured."""
    with Checklist("14.3") as check:
        given = check.number(predicted_mib, "predicted_mib")
        for one, name in ((run, _("the run `sharded`")), (target, _("the run `target`"))):
            check.started(one, "pretrain_gpt.py", name)
        layout = gpt.layout(run.recipe)
        only = _("Which value shards the optimizer state only?")
        check.equal(layout.zero, 1, "zero", hint=only)
        same_training(check, run.recipe, target.recipe, "`target`", but=ZERO)
        how = _("Give the recipe memory=(7, 8), like the recipe of the exercise.")
        after = memory_of_rank_0(check, run, _("the run `sharded`"), how).peak_bytes / MIB
        before = memory_of_rank_0(check, target, _("the run `target`"), how)
        peak = before.peak_bytes / MIB
        state = before.peak_composition.get("optimizer", 0) / MIB
        gone = state * (1 - 1 / layout.data)
        grown = _(
            "{gone:.1f} MiB of optimizer state are gone, but a different part has grown: compare "
            "target.memory[0].peak_composition with that of the new run.",
            gone=gone,
        )
        part = _("That is the peak of `target`. A device keeps only a part of its optimizer state.")
        own = _("Each device still keeps its own part of the optimizer state.")
        slips = ((peak, part), (peak - gone, grown), (peak - state, own))
        check.amount(
            given,
            Amount(right=after, unit="MiB", share=FORESEEN, slips=slips),
            _("the prediction is within 3 % of the measured peak"),
            hint=_("The measured peak is {after:.1f} MiB. {grown}", after=after, grown=grown),
        )
