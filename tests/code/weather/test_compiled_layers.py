"""Which compiler is there decides whether the processor's instruction sets need a trial each."""

from __future__ import annotations

import pytest

from weather.compiled_layers import compiler_version


@pytest.mark.parametrize(
    ("says", "version"), [("12.2.0", 12), ("8", 8), ("", 0), ("clang, as it is", 0)]
)
def test_the_version_of_the_compiler_is_what_it_says(says, version, tmp_path, monkeypatch):
    compiler = tmp_path / "g++"
    compiler.write_text(f"#!/bin/sh\necho '{says}'\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    monkeypatch.delenv("CXX", raising=False)
    assert compiler_version() == version


def test_of_no_compiler_and_of_another_one_nothing_is_supposed(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    assert compiler_version() == 0
    monkeypatch.setenv("CXX", "clang++")
    assert compiler_version() == 0
