"""`course site`: descriptions of clusters."""

from __future__ import annotations

import shutil
from argparse import Namespace

from course_lib.lab.commands.common import parser
from course_lib.lab.errors import SiteError
from course_lib.lab.job import site as sites
from course_lib.lab.job.recipe import read_text
from course_lib.lab.workspace import find, writing
from course_lib.words import _


def main(argv: list[str]) -> int:
    options = parser(
        "site", _("Shows or chooses a cluster: a preset, or the workspace's site.toml.")
    )
    actions = options.add_subparsers(dest="action", required=True, metavar="ACTION")
    actions.add_parser("list", help="list the presets; a star marks the preset in use")
    show = actions.add_parser("show", help="print a preset, or the site.toml of the workspace")
    show.add_argument("name", nargs="?")
    use = actions.add_parser("use", help="copy a preset to site.toml, where you complete it")
    use.add_argument("name")
    given = options.parse_args(argv)
    action = {"list": _list, "show": _show, "use": _use}[given.action]
    return action(given)


def _list(_: Namespace) -> int:
    workspace = find()
    used = sites.load(workspace.site_file).name if workspace.site_file.exists() else ""
    for name in sites.presets():
        star = "*" if name == used else " "
        print(f"{star} {name:15} {sites.preset(name).title}")
    return 0


def _show(given: Namespace) -> int:
    path = sites.preset_path(given.name) if given.name else find().site_file
    if not path.exists():
        raise SiteError(
            _(
                "{path} does not exist. `course site use NAME` creates it, and `course "
                "site list` shows the names",
                path=path,
            )
        )
    print(read_text(path, SiteError), end="")
    return 0


def _use(given: Namespace) -> int:
    target = find().site_file
    if target.exists():
        raise SiteError(_("{target} already exists; rename or remove it first", target=target))
    with writing(target):
        shutil.copyfile(sites.preset_path(given.name), target)
    print(_("{target} is now {title}", target=target, title=sites.preset(given.name).title))
    if missing := sites.load(target).missing:
        print(
            _(
                "Now fill in {missing}, and run `course doctor` to check the file",
                missing=", ".join(missing),
            )
        )
    return 0
