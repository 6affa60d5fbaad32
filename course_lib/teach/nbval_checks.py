"""A pytest plugin for notebooks under nbval: `-p course_lib.teach.nbval_checks`.

In a learner's notebook the gaps are empty, so the cells tagged `check` must fail, and with the
list of the exercise's requirements rather than with an accident; every other cell must pass.
The jobs of the whole session go into one workspace and one box of their own, so that a notebook
and its solution share the runs that they have in common.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from nbval.plugin import NbCellError

LEARNERS_FOLDER = "notebooks"
REPORT_BEGINS = "exercise "


def pytest_configure(config: pytest.Config) -> None:
    if hasattr(config, "workerinput") or "COURSE_WORKSPACE" in os.environ:
        return
    folder = Path(tempfile.mkdtemp(prefix="course-nbval-"))
    os.environ["COURSE_WORKSPACE"] = str(folder / "workspace")
    os.environ.setdefault("COURSE_BOX_HOME", str(folder / "box"))
    (folder / "workspace").mkdir()


def _is_learners_check(item: Any) -> bool:
    cell = getattr(item, "cell", None)
    in_notebooks = item.path.parent.name == LEARNERS_FOLDER
    return in_notebooks and cell is not None and "check" in cell.metadata.get("tags", [])


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    must_fail = pytest.mark.xfail(reason="a gap is still empty", raises=NbCellError, strict=True)
    for item in items:
        if _is_learners_check(item):
            item.add_marker(must_fail)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    try:
        return (yield)
    except NbCellError as error:
        if _is_learners_check(item) and REPORT_BEGINS not in str(error.inner_traceback):
            raise AssertionError(f"the check failed by accident:\n{error}") from error
        raise
