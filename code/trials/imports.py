"""Refusal of imports in a learner's file: modules with the course's own answers, and their text."""

from __future__ import annotations

import builtins
import functools
import importlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

CODE = Path(__file__).resolve().parents[1]
LIBRARY = "course_lib"
# Given to the learner: the program of lesson 02b with its model and data.
GIVEN = ("summary", "train_summary", "train_summary.py")
# PyTorch's ring attention and pipelines, and the folder code/ named like Python's own `code`.
FINISHED = ("torch.distributed.tensor.experimental", "torch.distributed.pipelining", "code.")
# Beginnings of the names of files of Python's own library, and of text for exec.
PYTHONS_OWN = ("<", str(Path(os.__file__).parent))


class CourseImport(ImportError):
    """Error with the name of a module of the course."""


def refuse_course_imports(folder: Path) -> None:
    """Refuse that files in this folder import finished answers, of the course or of PyTorch, or
    read the course's text, for exec or by runpy. The course's modules still import each other."""
    sys.addaudithook(functools.partial(_refuse_reading, str(folder)))
    for place, name in ((builtins, "__import__"), (importlib, "import_module")):
        setattr(place, name, _refusing(getattr(place, name), str(folder)))


def _refusing(load: Callable[..., Any], folder: str) -> Callable[..., Any]:
    @functools.wraps(load)
    def call(*args: Any, **named: Any) -> Any:
        if not _asks(sys._getframe(1), folder):
            return load(*args, **named)
        name = args[0] if args else named["name"]
        parts = (args[3] if len(args) > 3 else None) or ()  # what __import__ takes `from` it
        names = (name, *(f"{name}.{part}" for part in parts))
        found = next((one for one in names if one.startswith(FINISHED)), "")
        module = None if found else load(*args, **named)
        if found or _is_of_the_course(module):
            raise CourseImport(found or name)
        return module

    return call


def _refuse_reading(folder: str, event: str, arguments: tuple[Any, ...]) -> None:
    """Raise an error if a file in the folder opens a program of the course, also by a library."""
    if event != "open" or isinstance(arguments[0], int) or not _asks(sys._getframe(1), folder):
        return
    path = Path(os.path.realpath(os.fsdecode(arguments[0])))  # a link leads to its file
    is_ours = CODE in path.parents and path.parts[len(CODE.parts)] not in GIVEN
    if is_ours and path.is_file():
        raise CourseImport(str(path.relative_to(CODE)))


def _is_of_the_course(module: Any) -> bool:
    package = module.__name__.partition(".")[0]
    is_code = CODE in Path(getattr(module, "__file__", None) or "/").parents
    return package == LIBRARY or (is_code and package not in GIVEN)


def _asks(frame: FrameType | None, folder: str) -> bool:
    """Tell whether a file in the folder asks, also through Python's own library or text for exec.
    A traceback that quotes the course's lines is not asked for."""
    while frame is not None and frame.f_code.co_filename.startswith(PYTHONS_OWN):
        if frame.f_globals.get("__name__") == "traceback":
            return False
        frame = frame.f_back
    return frame is not None and frame.f_code.co_filename.startswith(folder)
