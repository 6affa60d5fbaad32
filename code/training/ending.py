"""Reasons to end a run before its last step: a limit of time or steps, or a signal."""

from __future__ import annotations

import argparse
import signal
import time

import torch
import torch.distributed as dist

from parallel.layout import Layout


class Ending:
    """Check after every step, with the same answer on all ranks."""

    def __init__(self, args: argparse.Namespace, layout: Layout, device: torch.device) -> None:
        self.args, self.layout, self.device = args, layout, device
        self.signalled = False
        self.started = time.monotonic()
        if args.exit_signal_handler:
            signal.signal(signal.SIGTERM, self._on_signal)

    def _on_signal(self, number: int, frame: object) -> None:
        # The signal may come within a collective: to leave there would leave the others waiting.
        self.signalled = True

    def reason(self, iteration: int) -> str | None:
        interval = self.args.exit_interval
        if interval and iteration % interval == 0:
            return f"--exit-interval {interval}"
        minutes = self.args.exit_duration_in_mins
        if minutes is None and not self.args.exit_signal_handler:
            return None
        late = minutes is not None and time.monotonic() - self.started > 60 * minutes
        late, signalled = self._any_rank(late, self.signalled)
        if signalled:
            return "SIGTERM"
        return f"--exit-duration-in-mins {minutes:g}" if late else None

    def _any_rank(self, *answers: bool) -> list[bool]:
        """Return each answer as true if it is true on any rank: clocks differ and signals are
        delayed.

        This costs eight bytes over all ranks at every step, if a flag asks for either of the two.
        The end of a step interval needs no communication."""
        if self.layout.everyone.size == 1:
            return list(answers)
        votes = torch.tensor([float(a) for a in answers], device=self.device)
        dist.all_reduce(votes, group=self.layout.everyone.handle)
        return [vote > 0 for vote in votes.tolist()]
