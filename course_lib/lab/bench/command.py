"""`course bench`: the benchmark of lesson 15, run for real on the box, planned elsewhere."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from course_lib.lab import bench
from course_lib.lab.bench.cases import CASES, FREE, Case, case
from course_lib.lab.commands.common import add_site, parser
from course_lib.lab.job.recipes import gpt
from course_lib.lab.job.recipes.keywords import flag_of
from course_lib.lab.lab import Lab
from course_lib.plan import CLUSTERS
from course_lib.words import N_, _

EPILOG = N_(
    "examples\n  course bench --tag 175                            plan, and show the published "
    "result\n  course bench --tag box                            run here, with a small model\n  "
    "course bench --tag 13 --tensor 4 --pipeline 2     plan a different layout\n  course bench "
    "--tag 13 --jube > gpt-13.xml         print the case as a JUBE workflow"
)


def main(argv: list[str]) -> int:
    given = _options().parse_args(argv)
    one = case(given.tag).but(**{name: getattr(given, name) for name in FREE})
    if given.jube:
        print(bench.jube(one, given.site or "", given.program), end="")
    elif one.tag == "box" or given.submit:
        _run(one, given)
    else:
        _plan(one, given.machine)
    return 0


def _options() -> argparse.ArgumentParser:
    options = parser("bench", __doc__.splitlines()[0], EPILOG)
    options.add_argument("--tag", choices=list(CASES), help=_("billions of parameters, or box"))
    for name in FREE:
        options.add_argument(
            flag_of(name), type=int, default=0, metavar="N", help=_("replace the default value")
        )
    machines = ", ".join(CLUSTERS)
    options.add_argument(
        "--machine", default="", help=_("machine to plan for: {machines}", machines=machines)
    )
    add_site(options)
    options.add_argument("--program", default=gpt.PROGRAM, help=_("path of Megatron-LM's program"))
    options.add_argument("--submit", action="store_true", help=_("submit the job, and wait"))
    options.add_argument("--log", type=Path, help=_("copy the log of the run to this file"))
    options.add_argument("--jube", action="store_true", help=_("print a JUBE file"))
    options.set_defaults(tag="box")
    return options


def _run(one: Case, given: argparse.Namespace) -> None:
    lab = Lab(site=given.site, quiet=True)
    result = bench.run(lab, one, program=given.program)
    assert result.run is not None
    print(f"Run on {result.where}: job {result.run.job_id}, {result.run.log_file}\n")
    print(bench.table([result]).to_string())
    # Format for JUBE and other programs that look for a number after its name.
    print(f"\ntokens/s: {result.tokens_per_s:.2f}")
    print(f"time to report (s): {result.time_to_report_s:.2f}")
    if given.log:
        shutil.copyfile(result.run.log_file, given.log)


def _plan(one: Case, machine: str) -> None:
    result = bench.plan(one, machine)
    estimate = result.estimate
    assert estimate is not None
    print(f"Planned, not run: {result.where}, {estimate.cluster.device.name}.\n")
    known = bench.published(one)
    print(bench.table([result] + ([known] if known else [])).to_string())
    print(f"\n80 % interval of the time to report: {result.low_s:.0f} to {result.high_s:.0f} s")
    print(
        f"memory of the fullest device: {estimate.device_gib:.1f} of {estimate.capacity_gib:.1f} "
        f"GiB: {estimate.verdict}"
    )
    if result.accepted is not None:
        limit_s = bench.ACCEPTED_S[one.tag]
        print(f"accepted (≤ {limit_s:.0f} s): {'yes' if result.accepted else 'no'}")
