"""Which cures are one: what a learner would do, and what a learner would do no more."""

from __future__ import annotations

import re
from dataclasses import dataclass

from course_lib.teach.diagnoses.known import known
from course_lib.teach.diagnoses.spoken import NEVER, wording
from course_lib.teach.diagnoses.wording import on_one_line


@dataclass(frozen=True)
class Goal:
    """`aim`: what has to be so afterwards. `leave`: what helps where it is left undone.
    `harm`: what would bring it about again."""

    aim: str
    leave: str
    harm: str = NEVER


KEEPING = r"keep|kept|stor|collect|hold|held|sav|gather|accumulat|append|concat|retain|pile"
SETTING = r"overwrit|hard.?cod|by hand|on (?:one|each|every)|per (?:rank|node|process)"
GOALS: dict[str, Goal] = {
    "stuck": Goal(
        "no rank waits unseen for data that will never come",
        r"wait|block|for ?ever",
    ),
    "skipped": Goal(
        "all ranks are in each collective, however their data ends",
        r"skip|leave|left|continue|drop|miss|differ|omit|jump|break|fewer",
    ),
    "shape": Goal(
        "what the ranks bring to one collective fits together",
        r"freez|froz|differ|half|chang|vary|unequal",
    ),
    "hoard": Goal(
        "what one step needs fits on the device at its highest",
        rf"{KEEPING}|at once|all the (?:logits|outputs)",
    ),
    "leak": Goal(
        "the memory after a step is what it was before",
        rf"{KEEPING}|grow",
    ),
    "killed": Goal(
        "little is lost when it comes again, or that what killed it is found",
        r"memory|from (?:scratch|the start)",
    ),
    "node-dies": Goal(
        "the work outlives that node",
        r"\bus[ei]|node|run\b|submit|from (?:scratch|the start)",
    ),
    "slow-rank": Goal(
        "nobody has to wait for that device",
        r"\bus[ei]|node|run\b|submit|overheat|throttl",
    ),
    "wrong-port": Goal(
        "all ranks knock at one door",
        rf"{SETTING}|differ|\bold\b|stale|(?:an)?other",
    ),
    "wrong-master": Goal(
        "the ranks of both nodes look for each other in one place",
        rf"{SETTING}|local|127|hostname|\bown\b|itself|(?:each|every) node",
        r"(?:\bto|=|\buse|\bwith|\btake)\s*[\"']?(?:localhost|127\.0\.0\.1|\$\(?hostname)",
    ),
    "bad-name": Goal(
        "each node finds the machine that is meant",
        rf"{SETTING}|guess|typ|invent|\.invalid",
    ),
    "port-taken": Goal(
        "rank 0 can open its door, whoever was there before",
        r"same|fixed|hard|default|reus|shar|constant|\d{4}",
    ),
    "bad-sample": Goal(
        "no mean is taken over nothing",
        r"(?:read|\bus[ei]|feed|includ|divid|train|let|pass)(?!.*filter)",
    ),
    "exploding": Goal(
        "no step carries the weights so far away",
        r"high|large|big|rais|increas|multipl|fast",
    ),
    "same-data": Goal(
        "no two ranks read the same in one step",
        r"same|whole|equal|identical|rank 0",
    ),
    "unequal-weights": Goal(
        "all ranks are alike before the first step",
        r"\bown\b|differ|(?:an)?other|each|rank|random",
    ),
    "same-dropout": Goal(
        "each rank draws what no other draws",
        r"same|equal|identical|\bone\b|shar",
    ),
    "same-order": Goal(
        "the second way through the data is unlike the first",
        r"same|repeat|fixed|forg",
    ),
    "disk-full": Goal(
        "the next checkpoint fits where it is written",
        r"keep|so (?:many|much|often)|(?:all|every|each)|fill|old",
    ),
    "no-internet": Goal(
        "whatever the run needs is within its reach when it starts",
        r"download|fetch|internet|online|remote|rely|depend",
    ),
    "missing-module": Goal(
        "what the program imports is there on every node",
        r"import|\bus[ei]|need|rely|depend|differ",
    ),
    "old-module": Goal(
        "the program finds the same functions on every node",
        r"old|mix|import|\bus[ei]|outdated|differ",
    ),
}  # fmt: skip
REPLACED = re.compile(
    r"\b(?:rather than|instead of|in place of)\b(?:(?! and | but )[^,;:()—–])*", re.IGNORECASE
)
DONE = re.compile(
    r"\b(?:(?:do not|don't|never|not to|must not|mustn't) (?:forget|omit|neglect|fail) to|"
    r"not only)\b",
    re.IGNORECASE,
)
"""A "not" that asks for what comes behind it."""
NOT = re.compile(
    r"\b(?:(?:do|does|must|should|may|can|need|is|are|be) ?n['o]t|cannot|can't|never|not|no longer|"
    r"avoid|refrain from|stop (?=\w+ing\b))\b",
    re.IGNORECASE,
)
PASSIVE = re.compile(r"\b(?:must|should|may|can)(?: not|n't|not) be\b", re.IGNORECASE)
"""Before which stands what is not to be done."""
PARTS = re.compile(
    r"(?:[,;:)—–]|(?<!\$)\() ?|\.(?:\s|$)|\bbut\b|\band\b(?= (?:do |don't|never|not|avoid|then))"
)


def is_cured(name: str, said: str) -> bool:
    goal, (done, left) = GOALS[name], _done_and_left(said)
    if re.search(goal.harm, done, re.IGNORECASE):
        return False
    return known()[name].is_cured_by(done) or any(
        re.search(goal.leave, one, re.IGNORECASE) for one in left
    )


def _done_and_left(said: str) -> tuple[str, list[str]]:
    """What is to be done, and each thing that is to be left undone."""
    text = wording().without_denied(DONE.sub(" ", REPLACED.sub(" ", on_one_line(said))))
    done, left = [], []
    for part in PARTS.split(text):
        does, *not_to = ["", part] if PASSIVE.search(part) else NOT.split(part, maxsplit=1)
        done.append(does)
        left += not_to
    return ", ".join(done), left


def why_no_cure(name: str, said: str) -> str:
    kind, (_, left) = known()[name], _done_and_left(said)
    if any(kind.is_cured_by(one) for one in left):
        return (
            f"The cause is right: {kind.title}. But what is to be left undone there would help: "
            "read it once more."
        )
    return (
        f"The cause is right: {kind.title}. A cure has to see to it that {GOALS[name].aim}. What "
        "would do that?"
    )
