"""Lesson 16: a learner's watchdog on real ranks, of which one is late, stalls or never comes."""

from __future__ import annotations

import pytest

from course_lib.teach.checks import lesson16

from .finished_runs import hint_of, tried_with_swaps
from .own_trials import program_of

OWN = program_of("16_when_it_breaks", "watchdog-own")
tried = tried_with_swaps(OWN, "watchdog")
WATCH = OWN[OWN.index("    def latest") :]
STARTS = OWN[OWN.index("        self.ended = ") : OWN.index("\n    def arrive")]
ARRIVES = '        self.store.set(f"arrived/{self.rank}", str(number))\n'
COUNTERS = """    def watch(self):
        counts, quiet = None, 0
        while not self.ended.wait(0.1):
            new = [self.store.add(f"arrived/{rank}", 0) for rank in range(self.size)]
            quiet = quiet + 0.1 if new == counts else 0
            counts = new
            if quiet > self.timeout_s and min(counts) != max(counts):
                self.accuse([n for n, count in enumerate(counts) if count != max(counts)])
                quiet = 0
"""
EACH_RANK = """    def watch(self):
        moved = dict.fromkeys(range(self.size), (-1, time.time()))
        while self.running:
            time.sleep(0.05)
            there = [r for r in moved if self.store.check([f"arrived/{r}"])]
            for r, text in zip(there, self.store.multi_get([f"arrived/{r}" for r in there])):
                if int(text) != moved[r][0]:
                    moved[r] = int(text), time.time()
            most = max(number for number, _ in moved.values())
            since = max(when for _, when in moved.values())
            late = {r for r, (number, _) in moved.items() if number < most}
            if late and time.time() - since >= self.timeout_s:
                self.accuse(late)
                self.running = False
"""
RUNS = """        self.running = True
        self.thread = threading.Thread(target=self.watch)
        self.thread.daemon = True
        self.thread.start()
"""
BY_TIMERS = """    def look(self, number):
        missing = []
        for rank in range(self.size):
            key = f"{rank} at {number}"
            if not self.store.check([key]):
                missing.append(rank)
        if missing:
            self.accuse(missing)
"""
ARMS = """        self.store.set(f"{self.rank} at {number}", "")
        self.stop()
        self.timer = threading.Timer(self.timeout_s, self.look, [number])
        self.timer.daemon = True
        self.timer.start()
"""
ENDS = "        self.ended.set()\n"


@pytest.mark.parametrize(
    "pairs",
    [
        [], [(WATCH, COUNTERS), (ARRIVES, '        self.store.add(f"arrived/{self.rank}", 1)\n')],
        [(WATCH, EACH_RANK), (STARTS, RUNS), (ENDS, "        self.running = False\n")],
        [(WATCH, BY_TIMERS), (STARTS, "        self.timer = threading.Timer(0, print)\n"),
         (ENDS, "        self.timer.cancel()\n"), (ARRIVES, ARMS)],
    ],
    ids=["solution", "counters", "each rank", "timers"],
)  # fmt: skip
def test_watchdogs_that_name_the_missing_rank_pass(tried, capsys, pairs):
    lesson16.ex16_watchdog(tried(*pairs))
    assert "✓ no healthy rank is accused" in capsys.readouterr().out


CHECK = " if self.store.check([key]) else -1"
MISSING = "[rank for rank in range(self.size) if seen[rank] < max(seen)]"
BY_WRITTEN_TIMES = """    def watch(self):
        while not self.ended.wait(self.timeout_s / 10):
            came = {}
            for rank in range(self.size):
                if self.store.check([f"arrived/{rank}"]):
                    number, when = self.store.get(f"arrived/{rank}").decode().split()
                    came[rank] = int(number), float(when)
            most = max((number for number, _ in came.values()), default=-1)
            missing = [r for r in range(self.size) if came.get(r, (-1,))[0] < most]
            last = max((when for number, when in came.values()), default=0)
            if missing and time.time() - last > self.timeout_s:
                self.accuse(missing)
                return
"""
WRONG = {
    "no thread": ([(".start()", "")], "Was the thread started?"),
    "a number": ([("self.accuse(missing)", "self.accuse(missing[0])")], "Give it a list"),
    "waits for a key": ([(CHECK, "")], "store.get fails for a key"),
    "who does not move": ([(MISSING, "[r for r in range(self.size) if r != self.rank]")],
                          "at fewer"),
    "no end": ([(MISSING, "[r for r in range(self.size) if r != self.rank]"),
                (ENDS, "        pass\n")], "the thread still runs"),
    "no stop": ([(ENDS, "        pass\n")], "the thread still runs"),
    "silent after stop": (
        [("            now = [", "            if self.rank is None:\n                continue\n"
          "            now = ["), (ENDS, "        self.rank = None\n")], "the thread still runs"),
    "all who wait": ([(MISSING, "[r for r in range(self.size) if min(seen) < max(seen)]")],
                     "at fewer"),
    "itself": ([("self.accuse(missing)", "self.accuse([self.rank])")], "have arrived and wait"),
    "who has no key": ([(MISSING, "[rank for rank in range(self.size) if seen[rank] < 0]")],
                       "although it asks the store"),
    "always the last": ([("self.accuse(missing)", "self.accuse([self.size - 1])")], "at fewer"),
    "who is ahead": ([("seen[rank] < max(seen)", "seen[rank] > min(seen)")], "have arrived"),
    "at once": ([("since > self.timeout_s", "since > 0")], "only if no rank has moved on"),
    "from the start": ([("seen, since = now, time", "seen, _ = now, time")],
                       "only if no rank has moved on"),
    "clocks of others": (
        [(WATCH, BY_WRITTEN_TIMES), ("str(number)", 'f"{number} {time.time()}"')],
        "Use only your own"),
    "of the course": ([("import time\n", "import time\nimport trials.watchdog\n")],
                      "uses trials.watchdog."),
}  # fmt: skip


@pytest.mark.many(3)
@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_watchdog_is_told_its_mistake(tried, name):
    pairs, words = WRONG[name]
    assert words in hint_of(lesson16.ex16_watchdog, tried(*pairs))
