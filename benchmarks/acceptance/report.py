"""Report of a whole run: Markdown for people, JSON for programs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from acceptance import notes
from acceptance.notes import Result
from acceptance.parts import PARTS


def write(results: list[Result], about: dict[str, Any], folder: Path) -> None:
    (folder / "report.json").write_text(notes.as_json(results, about), encoding="utf-8")
    (folder / "report.md").write_text(markdown(results, about), encoding="utf-8")


def markdown(results: list[Result], about: dict[str, Any]) -> str:
    questions = {part.name: part.question for part in PARTS}
    lines = ["# GPU acceptance", "", *(f"- {name}: {value}" for name, value in about.items()), ""]
    if about["rehearsal"]:
        lines += ["Rehearsed with tiny sizes: nothing here was measured on a GPU.", ""]
    lines += ["| part | question | result | seconds |", "|---|---|---|---|"]
    for result in results:
        question = questions[result.part]
        lines.append(f"| {result.part} | {question} | {result.status} | {result.elapsed_s:.0f} |")
    for result in results:
        lines += ["", f"## {result.part}", "", *details(result)]
    return "\n".join(lines) + "\n"


def details(result: Result) -> list[str]:
    lines = [f"- {name}: {one_line(value)}" for name, value in result.facts.items()]
    for check in result.checks:
        found = f": {one_line(check['found'])}" if check["found"] else ""
        lines.append(f"- {'ok' if check['ok'] else '**not so**'}: {one_line(check['what'])}{found}")
    if result.error:
        lines += ["", "```", result.error.strip()[-4000:], "```"]
    return lines or ["Nothing was noted."]


def one_line(value: Any) -> str:
    return " ".join(str(value).split())
