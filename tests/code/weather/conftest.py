from __future__ import annotations

import pytest

SMALL = ["--height", "16", "--width", "32"]


@pytest.fixture(scope="session")
def weather(tmp_path_factory):
    """Two short years for training and one for validation."""
    from make_weather import main

    folder = tmp_path_factory.mktemp("weather")
    years = ["--train-years", "2", "--times", "66"]
    assert main(["--out", str(folder), *SMALL, *years]) == 0
    return folder
