"""Names of faults on the command line. A fault changes nothing before its first iteration."""

from __future__ import annotations

import pytest

from faults.plant import FAULTS, fault_of
from observing.diary import checksum
from process.errors import ArgumentsError


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_has_a_rank_and_an_iteration(name):
    found = fault_of(f"{name}:3:7")
    assert (type(found), found.rank, found.iteration) == (FAULTS[name], 3, 7)
    assert (fault_of(name).rank, fault_of(name).iteration) == (2, 4)


NAMES_NONE = ["stuck:x", "stuck:1:2:3", "sealed-77"]


@pytest.mark.parametrize("text", NAMES_NONE)
def test_what_names_no_fault_is_answered_with_those_that_there_are(text):
    with pytest.raises(ArgumentsError, match="with a NAME of stuck, skipped"):
        fault_of(text)


def test_checksums_see_a_single_bit_and_two_numbers_that_changed_places():
    import torch

    values = torch.arange(1000, dtype=torch.float32)
    other = values.clone()
    other.view(torch.int32)[500] ^= 1
    swapped = values.clone()
    swapped[[3, 4]] = swapped[[4, 3]]
    assert len({checksum(values), checksum(other), checksum(swapped)}) == 3
    assert checksum(values) == checksum(values.clone())
    assert checksum(values.bfloat16()) != checksum(values.half())
