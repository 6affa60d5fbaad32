"""Settings of the box, and time limits."""

from __future__ import annotations

import pytest

from course_lib.box.settings import (
    LOWEST_LINK_GBIT,
    Settings,
    SettingsError,
    check,
    minutes,
    of_submission,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("30", 30),
        ("10:30", 11),
        ("1:30:00", 90),
        ("1-2", 26 * 60),
        ("1-2:30", 26 * 60 + 30),
        ("2-12:30:01", 60 * 60 + 31),
        ("0", 0),
        ("UNLIMITED", None),
        ("infinite", None),
    ],
)
def test_a_time_limit_is_rounded_up_to_minutes(text, expected):
    assert minutes(text) == expected


@pytest.mark.parametrize("text", ["abc", "1:2:3:4", "", "1-", "-5", "1:x"])
def test_what_is_no_time_limit_is_refused(text):
    with pytest.raises(SettingsError):
        minutes(text)


def test_settings_name_the_value_that_is_wrong():
    with pytest.raises(SettingsError, match="link_gbit = 0 must be greater than 0"):
        check(Settings(link_gbit=0))
    with pytest.raises(SettingsError, match="nodes = '2' is not of type int"):
        check(Settings(nodes="2"))
    with pytest.raises(SettingsError, match="use one of auto, namespaces, flat"):
        check(Settings(mode="fast"))
    with pytest.raises(SettingsError, match=r"link_gbit = 1e-06; use 0\.00001"):
        check(Settings(link_gbit=1e-6))


def test_a_link_that_the_kernel_cannot_shape_is_refused_when_a_job_asks_for_it(monkeypatch):
    monkeypatch.setenv("COURSE_BOX_LINK_GBIT", "1e-6")
    with pytest.raises(SettingsError, match=r"COURSE_BOX_LINK_GBIT=1e-06; use 0\.00001"):
        of_submission(Settings())
    monkeypatch.setenv("COURSE_BOX_LINK_GBIT", "0.00001")
    assert of_submission(Settings())[0] == LOWEST_LINK_GBIT
