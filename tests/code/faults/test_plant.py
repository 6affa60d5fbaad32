"""How a fault is named on the command line, and that it changes nothing before its time."""

from __future__ import annotations

import one_run
import pytest

from faults.plant import FAULTS, fault_of, unsealed
from observing.diary import checksum
from process.errors import ArgumentsError


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_has_a_rank_and_an_iteration(name):
    found = fault_of(f"{name}:3:7")
    assert (type(found), found.rank, found.iteration) == (FAULTS[name], 3, 7)
    assert (fault_of(name).rank, fault_of(name).iteration) == (2, 4)


NAMES_NONE = ["", "hang", "stuck:x", "stuck:1:2:3", "stuck:-1", "sealed-", "sealed-77"]


@pytest.mark.parametrize("text", NAMES_NONE)
def test_what_names_no_fault_is_answered_with_those_that_there_are(text):
    with pytest.raises(ArgumentsError, match="with a NAME of stuck, skipped"):
        fault_of(text)


def test_a_seal_that_is_none_opens_nothing():
    assert unsealed("sealed-!!") == ""


@pytest.mark.parametrize("name", sorted(FAULTS))
def test_every_class_says_what_it_is_like(name):
    assert FAULTS[name].__doc__


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


def test_without_a_fault_nothing_is_wrapped():
    from types import SimpleNamespace

    from faults.plant import plant
    from flags.arguments import parse_arguments

    program = SimpleNamespace(build=1, train_step=2, save=3)
    plant(program, parse_arguments(one_run.MODEL))
    assert vars(program) == {"build": 1, "train_step": 2, "save": 3}
