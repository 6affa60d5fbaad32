"""Code of the course does not count as a learner's answer, however it is imported."""

from __future__ import annotations

import pytest

from course_lib.lab.workspace import programs_folder
from course_lib.teach.checks import lesson02, lesson02b, lesson13, lesson13b

from .finished_runs import hint_of
from .own_trials import program_of, swapped
from .versions import rings

RING = "def ring_all_reduce(tensor):\n    {load}\n    ring(tensor, range(dist.get_world_size()))\n"
SOURCE = str(programs_folder() / "links" / "collectives.py")
IMPORTS = {
    "from": "from links.collectives import ring",
    "the folder": "from code.links.collectives import ring",
    "import": "import links.collectives as own; ring = own.ring",
    "importlib": "import importlib; ring = importlib.import_module('links.collectives').ring",
    "a text": "names = {}; exec('from links.collectives import ring', names); ring = names['ring']",
    "runpy": f"import runpy; ring = runpy.run_path({SOURCE!r})['ring']",
    "its text": f"names = {{}}; exec(open({SOURCE!r}).read(), names); ring = names['ring']",
    "pkgutil": "import pkgutil; ring = pkgutil.resolve_name('links.collectives:ring')",
    "a link": "import os, runpy, tempfile; link = tempfile.mkdtemp() + '/own.py'; "
    f"os.symlink({SOURCE!r}, link); ring = runpy.run_path(link)['ring']",
    "bytes": f"names = {{}}; exec(open({SOURCE!r}.encode()).read(), names); ring = names['ring']",
    "a path": f"import pathlib; text = pathlib.Path({SOURCE!r}).read_text(); ring = None",
    "the library": "from course_lib.plan import groups",
}


@pytest.mark.parametrize("load", IMPORTS.values(), ids=IMPORTS)
def test_a_ring_of_the_course_is_refused(tried, load):
    run = tried(rings.HEAD + RING.format(load=load), "ring")
    hint = hint_of(lesson02.ex02_ring, run)
    assert "✗ the work is your own" in hint
    assert "Replace it with your own lines" in hint


def test_so_is_attention_of_the_course(tried):
    head = "from parallel.context_parallel import attend_over_ranks\n"
    run = tried(head + program_of("13b_long_sequences_by_hand", "context-file"), "context")
    assert "line 1 uses parallel.context_parallel." in hint_of(lesson13b.ex13b_context, run)


@pytest.mark.parametrize(
    ("package", "part"), [("parallel.schedules", ""), ("torch.distributed", "pipelining")]
)
def test_so_are_pipelines_of_the_course_and_of_torch(tried, package, part):
    text = program_of("13_parallel_layers_by_hand", "order-own")
    run = tried(f"from {package} import {part or '*'}\n" + text, "pipeline")
    module = ".".join(filter(None, (package, part)))
    assert f"line 1 uses {module}." in hint_of(lesson13.ex13_pipeline, run)


def test_so_is_data_parallelism_of_the_course_in_a_whole_program(tried):
    program = program_of("02b_fifteen_edits", "program-file")
    data = "from summary.pairs import read_pairs\n"
    run = tried(swapped(program, (data, data + "import parallel.data_parallel\n")), "edits")
    assert "uses parallel.data_parallel." in hint_of(lesson02b.ex02b_program, run)


def test_a_traceback_may_quote_the_course(tried):
    program = program_of("02b_fifteen_edits", "program-file")
    data = "from summary.pairs import read_pairs\n"
    caught = "import traceback\ntry:\n    torch.load('none.pt')\nexcept OSError:\n"
    run = tried(swapped(program, (data, data + caught + "    traceback.print_exc()\n")), "edits")
    assert "trials/program/watched.py" in (run.folder / "out.log").read_text()
    lesson02b.ex02b_program(run)
