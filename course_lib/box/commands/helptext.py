"""`--help`: every option in one line each, in our own words, and where the manual is."""

from __future__ import annotations

from importlib import import_module


def of(command: str, usage: str) -> str:
    lines = [f"Usage: {usage}", "", f"{command} of the box; works like {command} of Slurm 22.05."]
    lines += ["", "Options:", *_options(command)]
    lines += ["", f"What they mean: https://slurm.schedmd.com/archive/slurm-22.05.8/{command}.html"]
    return "\n".join(lines)


def _options(command: str) -> list[str]:
    if command in ("sbatch", "srun"):
        from course_lib.box.commands.submission import options_of

        fates = {"no": "refused: the box does not do it", "note": "accepted, has no effect"}
        return [
            _line(option.spelling, fates.get(option.fate, ""))
            for option in options_of("b" if command == "sbatch" else "r")
        ]
    syntax = import_module(f"course_lib.box.commands.{command}").SYNTAX
    letters = {long: letter for letter, long in syntax.short.items()}
    kinds = ("", "=", "?")
    return [
        _line(f"{long},{letters[long]}{kinds[kind]}" if long in letters else long + kinds[kind], "")
        for long, kind in syntax.kind.items()
    ]


def _line(spelling: str, remark: str) -> str:
    name, _, letter = spelling.rstrip("=?").partition(",")
    value = {"=": "=VALUE", "?": "[=VALUE]"}.get(spelling[-1], "")
    short = f"-{letter}, " if letter else "    "
    return f"  {short}--{name}{value:<10}  {remark}".rstrip()
