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
            "a launcher cannot reach MASTER_ADDR, or takes itself for another host: its "
            "name in the fast network is not its own host name"
        ),
        N_(
            "give the name or address in the fast network (on JUWELS Booster the host's "
            "name with an i behind it), and tell torchrun which node is the host: "
            "--rdzv-conf is_host=1"
        ),
    ),
    (
        "client socket cannot be initialized … (errno: 97 - Address family not supported)",
        N_("IPv6 is tried first and is not there; IPv4 follows"),
        N_("nothing: a warning, the run goes on"),
    ),
    (
        N_("no line for minutes, devices at 100 %"),
        N_("a hang: a collective that not all ranks entered, seen in training of large models"),
        N_(
            "look where each rank stands (lesson 16); CUDA_LAUNCH_BLOCKING=1 was the "
            "remedy in BLOOM's training, but only with NCCL 2.12.7 or older"
        ),
    ),
    (
        N_("a hang from the first iteration on, with CUDA_LAUNCH_BLOCKING=1"),
        N_("NCCL after 2.12.7: its streams wait for each other when every launch blocks"),
        N_("unset CUDA_LAUNCH_BLOCKING"),
    ),
    (
        N_("Unknown error or a stuck start while kernels are compiled"),
        N_("all ranks compile into one folder, or a lock of an earlier, killed job lies there"),
        N_("build once before the launch; remove the lock"),
    ),
    (
        N_("OutOfMemoryError in the first iteration"),
        N_("the layout does not fit: with 8 × 8 of 384 devices, 175 B leaves little of 40 GiB"),
        N_("plan first; more pipeline or tensor ranks, or recompute more"),
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
    table.loc["precision", "rule"] = _("no lower than 16 bits")
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
        "accepted (s)": f"≤ {limit_s:g}" if limit_s else _("not judged"),
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

    return pd.DataFrame(FAILURES, columns=[_("what one sees"), "why", _("what helps")])
