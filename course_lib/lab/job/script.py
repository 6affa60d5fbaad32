"""Rendering of a recipe and a site as a batch script: a pure function and one template."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from course_lib.lab.job import quote
from course_lib.lab.job.recipe import DATA_FOLDER, Recipe
from course_lib.lab.job.site import Site
from course_lib.lab.workspace import RunPaths, folder_name
from course_lib.mistakes.names import suggests_similar_names

if TYPE_CHECKING:
    from jinja2 import Template

TEMPLATE = Path(__file__).parent / "job.sbatch.j2"
CODE_STYLE, INK_ON_PAPER = "xcode", "padding-left: 0.6em; background: #fff; color: #000"
# Fields of a recipe that do not affect the run. The arguments already contain model and layout.
NOT_WHAT_IS_RUN = ("note", "model", "layout", "made_by", "keywords")
IN_THE_JOB = RunPaths(Path("$COURSE_RUN_DIR"))


@suggests_similar_names
@dataclass(frozen=True)
class Script:
    """The text of a job's script. A notebook shows it with syntax colours."""

    name: str
    text: str
    language: str = "bash"

    def __str__(self) -> str:
        return self.text

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(self.text)

    def _repr_html_(self) -> str:
        from pygments import highlight
        from pygments.formatters import HtmlFormatter
        from pygments.lexers import get_lexer_by_name

        formatter = HtmlFormatter(
            noclasses=True, nobackground=True, style=CODE_STYLE, prestyles=INK_ON_PAPER
        )
        return str(highlight(self.text, get_lexer_by_name(self.language), formatter))


def render(recipe: Recipe, site: Site, template: Path = TEMPLATE) -> Script:
    """Return the script of a recipe at a site, exactly as it will be submitted."""
    if recipe.script:
        return Script(recipe.name, recipe.script)
    processes = max(recipe.gpus_per_node, 1) // recipe.tasks_per_node  # of each task
    cpus = recipe.cpus_per_task or site.cpus_per_device * processes
    runs = Path(site.workspace, "runs")
    folder = folder_name(quote.word(recipe.name), '"$SLURM_JOB_ID"')
    text = _template(template).render(
        recipe=recipe,
        site=site,
        directives=_directives(recipe, site, cpus, log_pattern(runs, recipe.name)),
        threads=site.threads_per_process or max(cpus // processes, 1),
        program=_program_path(recipe.program, site),
        monitor=_program_path("monitor.py", site),
        argument_lines=argument_lines(_with_data(recipe.arguments, site)),
        run_folder=quote.Quoted(f"{quote.word(runs)}/{folder}"),
        exit_code=quote.Quoted(f'"{IN_THE_JOB.exit_code}"'),
        inside=quote.Quoted(f"{quote.words(site.container)} " if site.container else ""),
    )
    return Script(recipe.name, text)


def key(recipe: Recipe, site: Site) -> str:
    """Return a key that identifies what runs and where. Equal keys mean the same run. The key
    ignores notes, the paths of this machine, and model and layout, which the arguments contain."""
    what = {k: v for k, v in recipe.to_dict().items() if k not in NOT_WHAT_IS_RUN}
    text = json.dumps([what, site.to_dict(place=False)], sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def argument_lines(arguments: tuple[str, ...]) -> list[list[str]]:
    """Return one line per flag with its values."""
    lines: list[list[str]] = []
    for argument in arguments:
        starts_flag = argument.startswith("-") and not argument[1:2].isdecimal()
        if lines and not starts_flag and lines[-1][0].startswith("-"):
            lines[-1].append(argument)
        else:
            lines.append([argument])
    return lines


def _with_data(arguments: tuple[str, ...], site: Site) -> tuple[str, ...]:
    start, folder = f"{DATA_FOLDER}/", f"{site.data or 'data'}/"
    return tuple(
        folder + argument.removeprefix(start) if argument.startswith(start) else argument
        for argument in arguments
    )


def log_pattern(runs: Path, name: str) -> str:
    """Return the log's path for `--output`, in which sbatch replaces `%j` by the job's number."""
    return str(RunPaths.of(Path(str(runs).replace("%", "%%")), name, "%j").log)


def _directives(recipe: Recipe, site: Site, cpus: int, log: str) -> dict[str, str]:
    """Return the #SBATCH options by long name. The recipe's override the site's and the lab's."""
    hours, minutes = divmod(recipe.time_limit_minutes, 60)
    table = {
        "job-name": recipe.name,
        "account": site.account,
        "partition": site.partition,
        "qos": site.qos,
        "reservation": site.reservation,
        "nodes": str(recipe.nodes),
        "ntasks-per-node": str(recipe.tasks_per_node),
        "cpus-per-task": str(cpus) if cpus else "",
        **_devices(recipe, site),
        "time": f"{hours:02d}:{minutes:02d}:00",
        "output": log,
        **site.directives,
        **recipe.directives,
    }
    return {name: value for name, value in table.items() if value and name not in site.skip}


def _devices(recipe: Recipe, site: Site) -> dict[str, str]:
    if not recipe.gpus_per_node or site.ask == "none":
        return {}
    per_node = recipe.gpus_per_node
    prefix = f"{site.gres_type}:" if site.gres_type else ""
    if site.ask == "gres":
        return {"gres": f"gpu:{prefix}{per_node}"}
    if site.ask == "gpus-per-task":
        return {"gpus-per-task": f"{prefix}{per_node // recipe.tasks_per_node}"}
    return {"gpus-per-node": f"{prefix}{per_node}"}


def _program_path(program: str, site: Site) -> str:
    if not program or "/" in program or not site.programs:
        return program
    return f"{site.programs}/{program}"


@cache
def _template(file: Path) -> Template:
    from jinja2 import Environment, StrictUndefined

    environment = Environment(
        undefined=StrictUndefined,
        finalize=quote.only_quoted,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    filters = ("word", "words", "arguments", "directive", "comment", "verbatim")
    environment.filters |= {name: getattr(quote, name) for name in filters}
    return environment.from_string(file.read_text(encoding="utf-8"))
