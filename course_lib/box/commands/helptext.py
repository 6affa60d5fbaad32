"""`--help`: every option in one line each, in our own words, and where the manual is."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from course_lib.box.commands.shared.getopt import Syntax


def of(command: str, usage: str, syntax: Syntax | None = None) -> str:
    """Without a `syntax` the options are those of the table of sbatch and srun."""
    lines = [f"Usage: {usage}", "", f"{command} of the box; works like {command} of Slurm 22.05."]
    lines += ["", "Options:", *(_plain(syntax) if syntax else _with_remarks(command))]
    lines += ["", f"What they mean: https://slurm.schedmd.com/archive/slurm-22.05.8/{command}.html"]
    return "\n".join(lines)


def _with_remarks(command: str) -> list[str]:
    from course_lib.box.commands.submit.option_table import options_of

    remarks = {"no": "refused: the box does not do it", "note": "accepted, has no effect"}
    return [
        _line(option.spelling, remarks.get(option.fate, ""))
        for option in options_of({"salloc": "a", "sbatch": "b"}.get(command, "r"))
    ]


def _plain(syntax: Syntax) -> list[str]:
    letters = {long: f",{letter}" for letter, long in syntax.short.items()}
    kinds = ("", "=", "?")
    return [_line(f"{o}{letters.get(o, '')}{kinds[k]}", "") for o, k in syntax.kind.items()]


def _line(spelling: str, remark: str) -> str:
    name, _, letter = spelling.rstrip("=?").partition(",")
    value = {"=": "=VALUE", "?": "[=VALUE]"}.get(spelling[-1], "")
    short = f"-{letter}, " if letter else "    "
    return f"  {short}--{name}{value:<10}  {remark}".rstrip()
