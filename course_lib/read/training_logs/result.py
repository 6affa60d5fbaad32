"""What is found in a training log; see `reader.py` for how."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from course_lib.mistakes.names import answers_misspelt

if TYPE_CHECKING:
    import pandas as pd

ITERATION_INTEGERS = (
    "iteration",
    "total_iterations",
    "consumed_samples",
    "consumed_tokens",
    "global_batch_size",
    "skipped_iterations",
    "nan_iterations",
)
ITERATION_COLUMNS = (
    "iteration",
    "total_iterations",
    "consumed_samples",
    "consumed_tokens",
    "elapsed_ms",
    "learning_rate",
    "global_batch_size",
    "lm_loss",
    "loss_scale",
    "grad_norm",
    "params_norm",
    "num_zeros",
    "skipped_iterations",
    "nan_iterations",
    "samples_per_second",
    "tokens_per_second_per_device",
    "tflops_per_device",
)
ROUNDING = 1e-3
"""Losses that differ by a smaller part of themselves come from the same work."""
WHERE_COLUMNS = ("timestamp", "rank", "node", "copies", "attempt", "line", "file")
EVALUATION_COLUMNS = ("iteration", "split", "name", "lm_loss", "perplexity", "rank", "line", "file")
MEMORY_COLUMNS = (
    "iteration",
    "rank",
    "allocated_mib",
    "max_allocated_mib",
    "reserved_mib",
    "max_reserved_mib",
    "what",
    "line",
    "file",
)
PARAMETER_COLUMNS = ("tensor_rank", "pipeline_rank", "parameters", "rank", "line", "file")
EPOCH_COLUMNS = (
    "epoch",
    "elapsed_s",
    "samples_per_second",
    "train_loss",
    "validation_loss",
    "validation_s",
    "wind_rmse_m_s",
    "persistence_rmse_m_s",
    "rank",
    "line",
    "file",
)
TIMER_COLUMNS = ("iteration", "name", "min_ms", "max_ms", "line", "file")
OVERFLOW_COLUMNS = (
    "iteration",
    "rank",
    "loss_scale",
    "new_loss_scale",
    "hysteresis",
    "line",
    "file",
)
NOTE_COLUMNS = ("kind", "text", "rank", "node", "line", "file")


@answers_misspelt
@dataclass(frozen=True)
class World:
    """Sizes of the run as the log states them; None where it does not."""

    world_size: int | None = None
    data: int | None = None
    tensor: int | None = None
    pipeline: int | None = None
    context: int | None = None
    sequence: int | None = None
    expert: int | None = None
    precision: str | None = None
    micro_batches: int | None = None
    nodes: tuple[str, ...] = ()
    software: str | None = None

    def __str__(self) -> str:
        names = ("world_size", "data", "tensor", "pipeline", "context", "expert")
        known = [f"{name} {value}" for name in names if (value := getattr(self, name)) is not None]
        known += [self.precision] if self.precision else []
        known += [f"{self.micro_batches} micro-batches"] if self.micro_batches else []
        return ", ".join(known) or "the log does not state the sizes of the run"


@answers_misspelt
@dataclass(frozen=True)
class TrainingLog:
    """Tables of one run. Where a log holds several attempts (a restart, or the job run again),
    `iterations` keeps the last printed row of each iteration and `repeated` the earlier ones."""

    world: World
    iterations: pd.DataFrame
    repeated: pd.DataFrame
    evaluations: pd.DataFrame
    memory: pd.DataFrame
    parameters: pd.DataFrame
    epochs: pd.DataFrame
    timers: pd.DataFrame
    overflows: pd.DataFrame
    notes: pd.DataFrame
    arguments: dict[str, str] = field(default_factory=dict)
    total_parameters: int | None = None
    lines: int = 0
    files: tuple[str, ...] = ()

    @property
    def _understood_nothing(self) -> bool:
        tables = (self.iterations, self.evaluations, self.memory, self.parameters, self.epochs)
        more = (self.timers, self.overflows, self.notes)
        known = self.world != World() or self.arguments or self.total_parameters is not None
        return not known and all(table.empty for table in (*tables, *more))

    @property
    def last_iteration(self) -> int | None:
        return None if self.iterations.empty else int(self.iterations["iteration"].max())

    @property
    def total_iterations(self) -> int | None:
        known = self.iterations["total_iterations"].dropna()
        return None if known.empty else int(known.iloc[-1])

    @property
    def finished(self) -> bool:
        """True where the last iteration that was asked for has been logged."""
        last, total = self.last_iteration, self.total_iterations
        return last is not None and total is not None and last >= total

    @property
    def skipped(self) -> int:
        return int(self.iterations["skipped_iterations"].fillna(0).sum())

    @property
    def nan(self) -> int:
        return int(self.iterations["nan_iterations"].fillna(0).sum())

    @property
    def attempts(self) -> int:
        return 0 if self.iterations.empty else int(self.iterations["attempt"].max()) + 1

    @property
    def parameter_count(self) -> int | None:
        """As the log totals them, else the sum over model-parallel ranks (in which embeddings
        that two stages share are counted twice)."""
        if self.total_parameters is not None:
            return self.total_parameters
        known = self.parameters.dropna(subset=["parameters"])
        if known.empty:
            return None
        once = known.drop_duplicates(["tensor_rank", "pipeline_rank"])
        return int(once["parameters"].sum())

    @property
    def losses(self) -> pd.Series[float]:
        return self.iterations.set_index("iteration")["lm_loss"].dropna()

    def losses_beside(self, other: TrainingLog) -> str:
        """How far the losses are from those of a run that should have done the same work."""
        losses = self.iterations["lm_loss"]
        apart = (losses - other.iterations["lm_loss"]).abs().max()
        if apart == 0:
            return "the losses are equal in every digit"
        if apart < ROUNDING * losses.min():
            return f"the losses are equal up to rounding: they differ by {apart:.1e} at most"
        return f"the losses differ by up to {apart:.2g}: these runs did NOT do the same work"

    def __str__(self) -> str:
        if self._understood_nothing:
            return (
                f"nothing in these {self.lines} lines was understood: neither Megatron-LM nor its "
                f"relatives nor a program of the course prints such lines"
            )
        if self.iterations.empty:
            return f"{self.world}; no iteration line in {self.lines} lines"
        last = self.iterations.iloc[-1]
        parts = [f"{self.world}", f"iteration {self.last_iteration} of {self.total_iterations}"]
        parts += [f"loss {last.lm_loss:.4g}"] if last.lm_loss == last.lm_loss else []
        parts += [f"{last.elapsed_ms:.1f} ms per iteration"] if last.elapsed_ms > 0 else []
        return "; ".join(parts)
