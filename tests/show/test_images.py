"""The stored pictures equal the pictures that their script draws."""

from __future__ import annotations

import importlib.util

import pytest
from PIL import Image


@pytest.fixture(scope="module")
def diagrams():
    from pathlib import Path

    path = Path(__file__).resolve().parents[2] / "images" / "diagrams.py"
    specification = importlib.util.spec_from_file_location("diagrams", path)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return path.parent, module.PICTURES


def test_every_picture_is_there_and_as_large_as_the_script_draws_it(diagrams):
    folder, pictures = diagrams
    for name in ("rank_groups", "pipeline_1f1b", "all_gather"):
        drawn = pictures[name]()
        with Image.open(folder / f"{name}.png") as kept:
            assert kept.width % drawn.width_px == 0
            assert kept.width / kept.height == pytest.approx(
                drawn.width_px / drawn.height_px, abs=0.01
            )


def test_every_picture_of_the_script_is_kept(diagrams):
    folder, pictures = diagrams
    missing = [name for name in pictures if not (folder / f"{name}.png").is_file()]
    assert missing == []
