"""List of the parts, with time limits that are less than twenty minutes together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module

from acceptance.notes import Notes


@dataclass(frozen=True)
class Part:
    name: str
    limit_s: int
    question: str
    # Module and function, imported only in the process of the part.
    where: str

    def work(self) -> Callable[[Notes], None]:
        module, _, function = self.where.partition(":")
        found: Callable[[Notes], None] = getattr(import_module(f"acceptance.{module}"), function)
        return found


PARTS = [
    Part("machine", 40, "What GPUs are there, and does torch reach them?", "machine:look"),
    Part("equality", 420, "Does every layout compute what a plain model does?", "equality:compare"),
    Part("speed", 240, "How fast is the program beside a plain compiled GPT?", "speed:measure"),
    Part("readers", 110, "Do the readers understand what was recorded?", "recorded:look"),
    Part("wall", 130, "Does lesson 06's wall stand where two runs put it?", "wall:climb"),
    Part("prediction", 120, "Does lesson 14's prediction hold?", "prediction:hold"),
    Part("nodes", 110, "Do two nodes on these GPUs talk over the network?", "two_nodes:talk"),
]
LONGEST_S = 20 * 60
