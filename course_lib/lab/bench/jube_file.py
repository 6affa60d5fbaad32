"""A JUBE file for a case: the same command, prepared for repeated and compared benchmarks.

    course bench --tag 13 --jube > gpt-13.xml
    jube run gpt-13.xml && jube result -a gpt-13_runs

JUBE runs every combination of its parameters. A parameter with several values, separated by commas,
tries them in turn.
"""

from __future__ import annotations

from pathlib import Path

from course_lib.lab.bench.cases import FREE, Case, case
from course_lib.lab.job.recipes import gpt
from course_lib.lab.job.recipes.keywords import flag_of
from course_lib.mistakes.arguments import explained

TEMPLATE = Path(__file__).with_name("jube.xml.j2")


@explained("bench.jube", whatever=True)
def jube(tag: str | Case, site: str = "", program: str = gpt.PROGRAM) -> str:
    """Return the text of a JUBE file. Its step calls `course bench`, so it makes the same job
    script, log and result as the command."""
    from jinja2 import Environment, StrictUndefined

    one = case(tag)
    words = [f"{flag_of(name)} ${name}" for name in FREE]
    words += [f"--site {site}"] if site else []
    words += [f"--program {program}"] if program != gpt.PROGRAM else []
    environment = Environment(autoescape=True, undefined=StrictUndefined)
    template = environment.from_string(TEMPLATE.read_text(encoding="utf-8"))
    return template.render(case=one, layout=one.layout, options=" ".join(words)) + "\n"
