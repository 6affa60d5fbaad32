"""A cluster that does not start leaves its cases to the others."""

from __future__ import annotations

import pytest
from harness import cases, lanes

SOME = cases.read_cases()[:20]


class Weak:
    """Cluster that fails to start the first few times."""

    def __init__(self, failures: int):
        self.failures = failures

    def start(self) -> None:
        self.failures -= 1
        if self.failures >= 0:
            raise RuntimeError("it does not start")

    def stop(self) -> None: ...


def transcripts(monkeypatch, *failures: int, run=lambda cluster, case: case.name):
    monkeypatch.setattr(lanes, "run_case", run)
    clusters = iter(map(Weak, failures))
    running = lanes.Lanes(lambda: next(clusters), SOME, len(failures), lambda case, text: True)
    try:
        return [running.futures[case.id].exception(timeout=20) for case in SOME]
    finally:
        running.close()


@pytest.mark.parametrize("failures", [(0, 0), (1, 1), (0, 99), (99, 99, 1)])
def test_others_take_what_a_lane_leaves(monkeypatch, failures):
    assert transcripts(monkeypatch, *failures) == [None] * len(SOME)


def test_where_no_cluster_starts_every_case_says_so(monkeypatch):
    assert set(map(str, transcripts(monkeypatch, 9, 9))) == {"it does not start"}


def test_a_case_that_breaks_its_cluster_fails_alone(monkeypatch):
    def run(cluster, case):
        if case is SOME[3]:
            raise RuntimeError("broken by it")
        return case.name

    found = transcripts(monkeypatch, 0, 0, run=run)
    assert [str(error) for error in found if error] == ["broken by it"]
