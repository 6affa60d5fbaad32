"""Rules of the benchmark, and known failures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from course_lib.lab.bench.cases import ACCEPTED_S, CASES, Case
from course_lib.mistakes.arguments import explained
from course_lib.words import N_, _

if TYPE_CHECKING:
    import pandas as pd

FIXED, FREE = "fixed", "free"

FAILURES = (
    (
        "RendezvousConnectionError: the connection to the C10d store has failed",
        N_(
            "A launcher cannot reach MASTER_ADDR, or does not recognise its own "
            "host. A host has a different name in the fast network."
        ),
        N_(
            "Use the host's name in the fast network. On JUWELS Booster, append an i to the host "
            "name. Tell torchrun which node is the host with --rdzv-conf is_host=1."
        ),
    ),
    (
        "client socket cannot be initialized … (errno: 97 - Address family not supported)",
        N_("The library tries IPv6 first, which the node does not have, and then IPv4."),
        N_("Do nothing. This is a warning, and the run continues."),
    ),
    (
        N_("No log line for minutes, devices at 100 %"),
        N_(
            "The job hangs, because some ranks did not enter a collective. This "
            "happens in training of large models."
        ),
        N_(
            "Look at the stack of each rank (lesson 16). CUDA_LAUNCH_BLOCKING=1 "
            "helped in BLOOM's training, but only with NCCL 2.12.7 or older."
        ),
    ),
    (
        N_("A hang from the first iteration on, with CUDA_LAUNCH_BLOCKING=1"),
        N_("In NCCL after 2.12.7, streams wait for each other if every launch blocks."),
        N_("Unset CUDA_LAUNCH_BLOCKING."),
    ),
    (
        N_("An unknown error or a hang while kernels are compiled"),
        N_("All ranks compile into the same folder, or a killed job left a lock in it."),
        N_("Build once before the launch, and remove the lock."),
    ),
    (
        N_("OutOfMemoryError in the first iteration"),
        N_(
            "The layout does not fit. With tensor 8 × pipeline 8 on 384 devices, "
            "the 175 B model leaves little of 40 GiB."
        ),
        N_("Plan first. Use more pipeline or tensor ranks, or recompute more."),
    ),
)


@explained("bench.rules")
def rules() -> pd.DataFrame:
    """Return one row per parameter: its value in the reference cases, and whether it may change."""
    import pandas as pd

    rows = [_values(CASES[tag]) for tag in ("13", "175")]
    table = pd.DataFrame(
        {CASES[tag].title: row for tag, row in zip(("13", "175"), rows, strict=True)}
    )
    table["rule"] = [FIXED if name in FIXED_NAMES else FREE for name in table.index]
    table.loc["precision", "rule"] = _("at least 16 bits")
    return table.rename_axis("parameter")


FIXED_NAMES = ("layers", "hidden", "heads", "sequence", "tokens to report", "accepted (s)")


def _values(one: Case) -> dict[str, object]:
    layout = one.layout
    limit_s = ACCEPTED_S.get(one.tag)
    return {
        "layers": one.model.layers,
        "hidden": one.model.hidden,
        "heads": one.model.heads,
        "sequence": one.model.sequence,
        "tokens to report": "20 million",
        "accepted (s)": f"≤ {limit_s:g}" if limit_s else _("no limit"),
        "precision": layout.precision,
        "nodes": one.nodes,
        "tensor": layout.tensor,
        "pipeline": layout.pipeline,
        "micro batch": layout.micro_batch,
        "accumulation": layout.micro_batches,
        "global batch": layout.global_batch,
    }


@explained("bench.failures")
def failures() -> pd.DataFrame:
    """Return known failures at this size, with symptom, cause and cure."""
    import pandas as pd

    return pd.DataFrame(FAILURES, columns=[_("symptom"), "why", _("cure")])
