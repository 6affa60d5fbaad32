"""Every check of a number is tested, and accepts the printed answer of the solution."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from course_lib.publish.building.gaps import answered
from course_lib.publish.building.source import read_lesson
from course_lib.teach import check

ROOT = Path(__file__).resolve().parents[2]
WORKSPACES = 6
# Exercises whose solutions need no run, and the names that their checks read.
ARITHMETIC = {
    ("02_many_processes", "ex1"): ["node", "local_rank", "world_size", "numbers"],
    ("01_one_device", "ex3"): ["without_workers", "workers_needed"],
    ("06_the_memory_wall", "ex2"): ["published_micro_batch"],
    ("07_tensor_parallelism", "ex2"): ["gigabytes_sent"],
    ("07b_pipelines_and_both", "ex2"): ["micro_batches_needed"],
    ("08_mixed_precision", "ex2"): ["started_at"],
    ("11_sharded_data_parallelism", "pays"): ["tokens_needed"],
    ("12_large_batches", "ex2"): ["steps_needed", "times_the_tokens"],
    ("14_estimating", "ex2"): ["right_tokens", "right_flops_per_s", "right_days"],
}
FORMULAS = ("parameters_of", "flops_of", "days_of")


def test_every_gap_that_asks_for_a_number_is_tried_with_all_kinds_of_answers():
    reads = re.compile(r'check\.(?:number|count)\(\w+, "(\w+)"')
    checks = (ROOT / "course_lib/teach/checks").glob("*.py")
    asked = {name for path in checks for name in reads.findall(path.read_text(encoding="utf-8"))}
    tests = "\n".join(
        path.read_text(encoding="utf-8") for path in Path(__file__).parent.glob("*.py")
    )
    tried = set(re.findall(r'\bhold\(\s*"(\w+)"', tests))
    assert len(asked) >= 18
    assert asked == tried


@pytest.mark.parametrize(("lesson", "exercise"), ARITHMETIC)
def test_what_a_solution_works_out_is_right_also_as_it_is_printed(
    lesson, exercise, workspace, capsys, monkeypatch
):
    cells = read_lesson(ROOT / "lessons" / f"{lesson}.py").cells
    code = {cell.id: answered(cell.text, cell.id) for cell in cells if cell.kind == "code"}
    known = {"check": check, "MIB": 2**20}
    for text in code.values():
        exec("\n".join(formulas_in(text)), known)
    answers, given = set(), f"{exercise}-given" in code
    for number in range(WORKSPACES if given else 1):
        monkeypatch.setenv("COURSE_WORKSPACE", str(workspace / str(number)))
        exec(code.get(f"{exercise}-given", ""), known)
        exec(code[f"{exercise}-gap"], known)
        exec(code[f"{exercise}-check"], known)
        for name in ARITHMETIC[lesson, exercise]:
            is_float = isinstance(known[name], float)
            known[name] = float(f"{known[name]:.3g}") if is_float else known[name]
        exec(code[f"{exercise}-check"], known)
        answers.add(tuple(known[name] for name in ARITHMETIC[lesson, exercise]))
    assert "✗" not in capsys.readouterr().out
    assert (len(answers) > 1) == given


def formulas_in(text):
    if not any(f"def {name}(" in text for name in FORMULAS):
        return []
    defined = [part for part in ast.parse(text).body if isinstance(part, ast.FunctionDef)]
    return [ast.unparse(part) for part in defined if part.name in FORMULAS]
