"""A pytest plugin for notebooks under nbval: `-p course_lib.publish.nbval_checks`.

In a learner's notebook, the gaps are empty. Cells tagged `check` must therefore fail, and with the
list of the exercise's requirements, not with an unexpected error. All other cells must pass. Each
lesson has its own workspace, because a lesson deletes its runs at the end. The solution runs
after the learner's notebook on the same worker and reuses its runs, so the learner's notebook does
not clean up. Moving output is plain text here. A table at the end lists the lessons' claims and
whether they held.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import Any

import nbval.kernel
import pytest
from nbval.plugin import NbCellError

from course_lib.lab.jupyter.kernels import BlockingKernels
from course_lib.teach import claims
from course_lib.teach.checklist import UNMET
from course_lib.words import LANGUAGES
from course_lib.words.language import language_of

# Folder of the learners' notebooks. Translations have a subfolder.
LEARNERS_FOLDER = "notebooks"
CLEANS_UP = "clean"


def pytest_configure(config: pytest.Config) -> None:
    """Choose the folder of all workspaces once for all workers, and use private kernels.

    The folder's name contains a space and an accent, as home folders may.
    """
    nbval.kernel.KernelManager = BlockingKernels
    if "COURSE_WORKSPACE" not in os.environ:
        os.environ["COURSE_WORKSPACE"] = tempfile.mkdtemp(prefix="course nbval é-")
    if not hasattr(config, "workerinput"):
        os.environ["COURSE_NBVAL_FOLDER"] = os.environ["COURSE_WORKSPACE"]


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Skip translations, whose cells are the English ones, unless their folder or file is given."""
    is_translation = collection_path.name in LANGUAGES and collection_path.is_dir()
    asked = [Path(str(argument).partition("::")[0]).resolve() for argument in config.args]
    if is_translation and not any(one.is_relative_to(collection_path) for one in asked):
        return True
    return None


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: Any) -> None:
    """Set the environment before nbval starts the notebook's kernel, which inherits it."""
    if not hasattr(item, "cell"):
        return
    folder = Path(os.environ["COURSE_NBVAL_FOLDER"])
    workspace = folder / f"{language_of(item.path.parent)}{item.path.stem}"
    workspace.mkdir(exist_ok=True)
    os.environ["COURSE_WORKSPACE"] = str(workspace)
    os.environ["COURSE_PLAIN"] = "1"
    os.environ["COURSE_GUESSES"] = "skip"  # solutions contain their guesses
    if "COURSE_BOX_HOME" not in os.environ:
        worker = os.environ.get("PYTEST_XDIST_WORKER", "main")
        os.environ["COURSE_BOX_HOME"] = str(folder / f"box-{worker}")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Distribute whole lessons to workers, although `--dist loadfile` asks for single files."""
    if config.getoption("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadScopeScheduling

    scheduler = LoadScopeScheduling(config, log)
    scheduler._split_scope = _scope
    return scheduler


def _scope(test: str) -> str:
    file = test.partition("::")[0]
    return Path(file).name if file.endswith(".ipynb") else file


def _learners(item: Any) -> Any:
    """Return the cell if it belongs to a learner's notebook; else None."""
    around = (item.path.parent.name, item.path.parent.parent.name)
    return getattr(item, "cell", None) if LEARNERS_FOLDER in around else None


def _is_learners_check(item: Any) -> bool:
    cell = _learners(item)
    return cell is not None and "check" in cell.metadata.get("tags", [])


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    must_fail = pytest.mark.xfail(reason="a gap is still empty", raises=NbCellError, strict=True)
    later = pytest.mark.skip(reason="its solution needs these runs, and cleans up after both")
    for item in items:
        if _is_learners_check(item):
            item.add_marker(must_fail)
        elif (cell := _learners(item)) and cell.get("id") == CLEANS_UP:
            item.add_marker(later)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    folder = Path(os.environ.get("COURSE_NBVAL_FOLDER", ""))
    workspaces = sorted(path.parents[1] for path in folder.glob(f"*/{claims.FILE}"))
    made = {
        (workspace.name, claim.text): claim
        for workspace in workspaces
        for claim in claims.kept(workspace)
    }
    if made and "COURSE_NBVAL_FOLDER" in os.environ:
        terminalreporter.section("claims of the lessons")
        rows = [(lesson, claim) for (lesson, _), claim in made.items()]
        terminalreporter.write_line(claims.table(rows))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    try:
        return (yield)
    except NbCellError as error:
        if _is_learners_check(item) and UNMET not in str(error.inner_traceback):
            raise AssertionError(f"the check failed by accident:\n{error}") from error
        raise
