"""A program of ours as a small step beside a job's own, with the software that its script has."""

from __future__ import annotations

from course_lib.lab.job import quote
from course_lib.lab.job.site import Site


def step_beside(site: Site, program: str, *arguments: str) -> list[str]:
    """The words that srun is given: the notebook's own Python, if it is called that at all, need
    not be one of the nodes."""
    lines = [quote.words(command) for command in site.commands]
    if site.path:
        lines.append(quote.Quoted(f'export PATH={quote.word(site.path)}:"$PATH"'))
    for name, value in site.environment.items():
        lines.append(quote.Quoted(f"export {quote.word(name)}={quote.word(value)}"))
    run = quote.words([*site.container, "python", f"{site.programs}/{program}", *arguments])
    shell = ["bash", "-lc" if site.login_shell else "-c"]
    return [*shell, "\n".join(["set -e", *lines, f"exec {run}"])]
