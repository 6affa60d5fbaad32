"""`course site`: descriptions of clusters."""

from __future__ import annotations

import shutil
from argparse import Namespace
from pathlib import Path

from course_lib.lab.commands.common import parser
from course_lib.lab.errors import SiteError
from course_lib.lab.job import site as sites
from course_lib.lab.job import value_types
from course_lib.lab.workspace import find, writing
from course_lib.words import told


def main(argv: list[str]) -> int:
    options = parser("site", "Descriptions of clusters: site.toml of the workspace, or a preset.")
    actions = options.add_subparsers(dest="action", required=True, metavar="ACTION")
    actions.add_parser("list", help="the presets; a star marks the one in use")
    show = actions.add_parser("show", help="prints one, or the workspace's")
    show.add_argument("name", nargs="?")
    use = actions.add_parser("use", help="copies a preset to site.toml, for you to complete")
    use.add_argument("name")
    use.add_argument("--replace", action="store_true", help="even if there is a site.toml")
    check = actions.add_parser("check", help="reads one and says everything that is wrong with it")
    check.add_argument("name", nargs="?")
    given = options.parse_args(argv)
    action = {"list": _list, "show": _show, "use": _use, "check": _check}[given.action]
    return action(given)


def _list(_: Namespace) -> int:
    workspace = find()
    used = sites.load(workspace.site_file).name if workspace.site_file.exists() else ""
    for name in sites.presets():
        star = "*" if name == used else " "
        print(f"{star} {name:15} {told(sites.preset(name).title)}")
    return 0


def _show(given: Namespace) -> int:
    print(value_types.read_text(_path(given), SiteError), end="")
    return 0


def _use(given: Namespace) -> int:
    target = find().site_file
    if target.exists() and not given.replace:
        raise SiteError(f"{target} exists; --replace overwrites it (after keeping it as *.old)")
    with writing(target):
        if target.exists():
            shutil.copyfile(target, target.with_suffix(".toml.old"))
        shutil.copyfile(sites.preset_path(given.name), target)
    print(f"{target} is now {sites.preset(given.name).title}")
    if missing := sites.load(target).missing:
        print(f"fill in: {', '.join(missing)}; then `course doctor` checks it")
    return 0


def _check(given: Namespace) -> int:
    path = _path(given)
    site = sites.load(path)
    if site.missing:
        print(f"{path}: still to fill in: {', '.join(site.missing)}")
        return 1
    print(f"{path}: nothing is wrong in itself; `course doctor` asks the cluster")
    return 0


def _path(given: Namespace) -> Path:
    if given.name:
        return sites.preset_path(given.name)
    path = find().site_file
    if not path.exists():
        raise SiteError(f"there is no {path}; `course site use NAME` makes one, `list` lists names")
    return path
