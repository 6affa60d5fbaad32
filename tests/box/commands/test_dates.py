"""Times and dates, read as Slurm 22.05.8 reads them."""

from __future__ import annotations

import time

import pytest

from course_lib.box.commands import dates
from course_lib.box.commands.command_line import Unsupported


def test_begin_times_are_understood():
    now_s = time.time()
    assert dates.parse("now+1hour") == pytest.approx(now_s + 3600, abs=5)
    assert dates.parse("now+60") == pytest.approx(now_s + 60, abs=5)
    assert dates.parse("now+2days") == pytest.approx(now_s + 172800, abs=5)
    assert time.localtime(dates.parse("2030-01-20T12:34:00"))[:5] == (2030, 1, 20, 12, 34)
    assert time.localtime(dates.parse("2030-01-20"))[:4] == (2030, 1, 20, 0)
    assert time.localtime(dates.parse("noon")).tm_hour == 12
    assert dates.parse("00:00") > now_s, "a time of day that is over means tomorrow"


@pytest.mark.parametrize("text", ["abc", "now+x", "2020-13-01", "25:00", "now*3"])
def test_what_is_no_begin_time_is_refused(text):
    with pytest.raises(dates.TimeError):
        dates.parse(text)


@pytest.mark.parametrize("text", ["012030", "01/20/30", "teatime", "3:00 pm"])
def test_other_forms_are_refused_by_name(text):
    with pytest.raises(Unsupported, match=f"the time {text}; a real Slurm does"):
        dates.parse(text)
