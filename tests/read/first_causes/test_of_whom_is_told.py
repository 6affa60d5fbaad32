"""A line may report a rank that did not print it. The reported rank is the cause."""

from __future__ import annotations

from course_lib import read

WAITED = (
    "[rank{r}]: RuntimeError: [unbound_buffer.cc:78] Timed out waiting 6000ms for recv operation "
    "to complete (rank {r} on node1)\n"
)
STAYED = (
    "[rank2]: note: not in a collective, but at data.py:12 in next_batch when others gave up "
    "waiting (rank 2 on node2)\n"
)
LOST = (
    "[rank1]: train.py: error: lost rank 2 (on node2, process 15): ended without a word "
    "(rank 1 on node1)\n"
)
MISSING = (
    "[E1123 16:22:07.6 socket.cpp:1028] [c10d] The client socket has timed out after 8000ms while "
    "trying to connect to (node1, 10009).\n"
    "[rank1]: train.py: error: ranks 2, 3 did not come to the meeting point node1:10008: told "
    "another MASTER_ADDR (rank 1 on node1)\n"
    "srun: error: node1: task 1: Exited with exit code 1\n"
    "srun: error: node2: tasks 2-3: Terminated\n"
)
FINGERPRINT = (
    "[rank{a}]: RuntimeError: Detected mismatch between collectives on ranks. Rank {a} is running "
    "collective: CollectiveFingerPrint(SequenceNumber=6, OpType=ALLREDUCE, TensorShape=[8]), but "
    "Rank {b} is running collective: CollectiveFingerPrint(SequenceNumber=6, OpType=ALLREDUCE, "
    "TensorShape=[4])\n"
)
NAN = (
    "[rank0]: train.py: error: iteration 4: found nan or inf in the gradients (rank 0 on node1)\n"
    "[rank2]: train.py: error: iteration 4: the loss is nan or inf (rank 2 on node2)\n"
)
ALIKE = (
    "[rank3]: URLError: no way out (rank 3 on node2)\n"
    "[rank3]: note: {others} found the same (rank 3 on node2)\n"
)


def found_in(write, text):
    return read.failure(write("a.log", text))


def test_who_stayed_away_goes_before_those_that_waited(write):
    found = found_in(write, WAITED.format(r=0) + WAITED.format(r=1) + STAYED)
    assert (found.cause, found.rank, found.node) == ("stayed_away", 2, "node2")
    assert found.details["place"] == "data.py:12 in next_batch"
    assert len(found.consequences) == 2


def test_a_lost_rank_is_named_by_another(write):
    found = found_in(write, LOST)
    assert (found.cause, found.rank, found.node) == ("lost_rank", 2, "node2")
    assert found.details["pid"] == 15


def test_who_did_not_come_is_the_cause_and_its_node_stands_elsewhere(write):
    found = found_in(write, MISSING)
    assert (found.cause, found.rank, found.node) == ("rendezvous_timeout", 2, "node2")


def test_two_that_are_alike_outvote_one(write):
    found = found_in(write, FINGERPRINT.format(a=0, b=2))
    assert found.cause == "collective_mismatch"
    assert found.details["odd_rank"] == 2
    assert "rank 2 differs" in str(found)
    assert "odd_rank" not in found_in(write, FINGERPRINT.format(a=1, b=0)).details


def test_a_rank_s_own_loss_goes_before_the_gradients_of_all(write):
    found = found_in(write, NAN)
    assert (found.cause, found.rank, found.node) == ("nan_loss", 2, "node2")


def test_who_found_the_same_is_told_by_the_one_that_spoke(write):
    some = found_in(write, ALIKE.format(others="ranks 0, 1 and 2"))
    assert (some.rank, some.ranks) == (3, (0, 1, 2, 3))
    assert found_in(write, ALIKE.format(others="rank 12")).ranks == (3, 12)
    many = "ranks 0, 1, 2, 4, 5, 6, 7, 8, 9, 10, 11, 12 and 1011 more"
    assert found_in(write, ALIKE.format(others=many)).ranks == tuple(range(13))


def test_sums_that_are_broken_by_one_loss_are_not_the_same(write):
    note = "[rank0]: note: ranks 1 and 3 found the same (rank 0 on node1)\n"
    found = found_in(write, NAN + note)
    assert (found.rank, found.ranks) == (2, (2,))


def test_a_long_line_is_cut_between_words_and_marked(write):
    shown = str(found_in(write, f"[rank0]: ValueError: {'a word of it ' * 60}\n"))
    assert "of it …\n" in shown or "word …\n" in shown or "a …\n" in shown
    assert "…" not in str(found_in(write, "[rank0]: ValueError: short\n"))
