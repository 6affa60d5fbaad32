"""Lesson 01: each wrong answer is met by the hint for that mistake."""

from __future__ import annotations

import h5py
import pytest

from course_lib.lab.job.recipes import program, shell
from course_lib.teach.checks import lesson01

from .answers_to_try import hold
from .finished_runs import hint_of, tried_with_swaps
from .own_trials import program_of

SHAPE = (40, 20, 32, 64)
LOG = """\
2026-01-01 10:00:00,000 - root - INFO - Time taken for epoch {number} is 1.0 sec, avg {speed} \
samples/sec
2026-01-01 10:00:00,000 - root - INFO -   Avg train loss=0.5
2026-01-01 10:00:01,000 - root - INFO -   Avg val loss=0.5
2026-01-01 10:00:01,000 - root - INFO -   Total validation time: 0.1 sec
2026-01-01 10:00:01,000 - root - INFO -   RMSE of the 10 m wind=1.0 m/s, of persistence={wind} m/s
"""


def log(speed, wind=3.25, epochs=3):
    return "".join(LOG.format(number=n, speed=speed, wind=wind) for n in range(1, epochs + 1))


def training(data, name="fitted", **more):
    return program.recipe(name, "train_vit.py", data=str(data), epochs=3, **more)


@pytest.fixture
def files(tmp_path):
    """`files(chunks)` is a folder with a year of weather in chunks of this shape."""

    def packed(chunks, compression="gzip"):
        folder = tmp_path / f"weather-{chunks}"
        (folder / "train").mkdir(parents=True, exist_ok=True)
        with h5py.File(folder / "train" / "2001.h5", "w") as file:
            file.create_dataset("fields", SHAPE, "f4", chunks=chunks, compression=compression)
        return folder

    return packed


@pytest.fixture
def before(finished, files):
    recipe = training(files((32, 1, 32, 64)), "as-written", profile=True, profile_step_start=3)
    return finished(recipe, log(30))


@pytest.mark.parametrize(
    "chunks", [(1, 20, 32, 64), (1, 1, 32, 64), (1, 10, 32, 32), (1, 4, 16, 32), (1, 20, 8, 64)]
)
def test_chunks_of_one_time_pass(finished, files, before, chunks, capsys):
    lesson01.ex01_chunks(finished(training(files(chunks)), log(60)), before)
    assert "✓ the run is faster than as-written" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("chunks", "words"),
    [
        ((32, 1, 32, 64), "It unpacks 20 chunks of 32 × 1 × 32 × 64"),
        ((1, 1, 4, 4), "It unpacks 2560 chunks"),
        ((1, 14, 32, 64), "1.4 numbers for each number that is read"),
    ],
)
def test_chunks_that_do_not_fit_meet_their_hint(finished, files, before, chunks, words):
    run = finished(training(files(chunks)), log(60))
    assert words in hint_of(lesson01.ex01_chunks, run, before)


def test_a_run_that_is_another_one_meets_its_hint(finished, files, before):
    good = files((1, 20, 32, 64))
    plain = files((1, 20, 16, 64), compression=None)
    for recipe, printed, words in (
        (training(plain), log(60), "This run read different files"),
        (training(good, num_workers=2), log(60), "These flags differ: --num-workers"),
        (training(good), log(60, wind=3.5), "the weather is different"),
        (training(good), log(33), "Your run made 33 samples per second, and the other run made 30"),
        (training(good), log(60, epochs=1), "trained for two epochs or more"),
        (training(good), "nothing\n", "trained for two epochs or more"),
        (training(good / "nowhere"), log(60), "Run the lesson from its top"),
        (shell.recipe("hello", "echo hello"), "hello\n", "started something else"),
    ):
        assert words in hint_of(lesson01.ex01_chunks, finished(recipe, printed), before)


def test_the_balance_holds_against_all_kinds_of_answers(workspace):
    right = 1 / (1 / 8.8 - 1 / 12.6 + 1 / 53.2)
    speeds = {
        37.16: "Reading does not get faster", 53.2: "which hide the reading",
        49.4: "subtracted speeds", 8.8: "Work with the seconds", 7.551: "Subtract it first",
    }  # fmt: skip
    workers = {
        1.82: "not a whole number", 1: "in 34 ms", 6.05: "1/8.8 s contains", 7: "1/8.8 s contains",
        4: "the smallest number",
    }  # fmt: skip
    hold("without_workers", lambda speed: lesson01.ex01_balance(speed, 2), right, speeds)
    hold("workers_needed", lambda count: lesson01.ex01_balance(18.84, count), 2, workers)


OWN = program_of("01_one_device", "ex2-own")
tried = tried_with_swaps(OWN, "prefetch")
BY_POOL = """from collections import deque
from concurrent.futures import ThreadPoolExecutor


def ahead(batches, depth):
    source, end = iter(batches), object()
    with ThreadPoolExecutor(1) as pool:
        coming = deque(pool.submit(next, source, end) for _ in range(depth))
        while (batch := coming.popleft().result()) is not end:
            coming.append(pool.submit(next, source, end))
            yield batch
"""
BY_CLASS = """import threading
from collections import deque


class ahead:
    def __init__(self, batches, depth):
        self.batches, self.room, self.there = batches, threading.Semaphore(depth), deque()
        self.changed, self.left = threading.Semaphore(0), False
        threading.Thread(target=self.run).start()

    def run(self):
        source = iter(self.batches)
        while self.room.acquire() and not self.left:
            try:
                self.there.append((next(source), None))
            except BaseException as error:
                self.there.append((None, error))
                self.left = True
            self.changed.release()

    def __iter__(self):
        return self

    def __next__(self):
        self.changed.acquire()
        batch, error = self.there.popleft()
        self.room.release()
        if error is not None:
            raise error
        return batch

    def close(self):
        self.left = True
        self.room.release()
"""
EMPTIED = """        left.set()
        while not ready.empty():
            ready.get()
"""
RIGHT = {
    "the solution": [],
    "futures": [(OWN, BY_POOL)],
    "a class": [(OWN, BY_CLASS)],
    "emptied": [("        left.set()\n", EMPTIED)],
}


@pytest.mark.parametrize("name", RIGHT)
def test_right_loaders_pass(tried, name, capsys):
    lesson01.ex01_prefetch(tried(*RIGHT[name]))
    assert "✓ the thread ends with the loop" in capsys.readouterr().out


START = "    threading.Thread(target=read, daemon=True).start()\n"
CATCH = '        except Exception as error:\n            hand_over("error", error)\n'
PLAIN = "def ahead(batches, depth):\n    yield from batches\n"
WRONG = {
    "plain": ([(OWN, PLAIN)], "Does a thread read while the body"),
    "read in vain": ([(OWN, "def ahead(batches, depth):\n    yield from list(batches)\n")],
                     "lets the thread wait until there is room"),
    "one ahead": ([("queue.Queue(depth)", "queue.Queue(1)")], "does the room depend"),
    "without limit": ([("queue.Queue(depth)", "queue.Queue()")], "with a depth of 1"),
    "the last first": ([("queue.Queue(depth)", "queue.LifoQueue(depth)")], "gets #"),
    "each twice": ([("            yield value\n", "            yield value\n" * 2)],
                   "and the loop gets #1"),
    "pairs": ([("            yield value\n", "            yield kind, value\n")],
              "the loop gets ('batch', <object"),
    "no end": ([('            hand_over("end")\n', "")], "Tell it in the queue"),
    "no error": ([(CATCH, "        finally:\n            pass\n")], "the loop waits forever"),
    "hidden error": ([("                raise value\n", "                return\n")],
                     "the loop ends without an error"),
    "thread left": ([("        left.set()\n", "        pass\n")], "Stop the thread in `finally`"),
    "no time-out": ([(", timeout=0.1", "")], "and let put() wait with a timeout"),
    "torch's own": ([(OWN, "from torch.utils.data import DataLoader\n\n\n"
                           "def ahead(batches, depth):\n"
                           "    return DataLoader(list(batches), prefetch_factor=depth)\n")],
                    "uses torch.utils.data.DataLoader"),
}  # fmt: skip


@pytest.mark.many(3)
@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_loader_is_told_its_mistake(tried, name):
    pairs, words = WRONG[name]
    assert words in hint_of(lesson01.ex01_prefetch, tried(*pairs))
