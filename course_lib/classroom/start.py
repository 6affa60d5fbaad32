"""`course start`: make a folder with the lessons, and open JupyterLab on it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from course_lib.classroom.lessons import update_workspace
from course_lib.lab.commands.common import add_site, parser
from course_lib.lab.job.program_files import data_folder, make_sample_text
from course_lib.lab.workspace import Workspace
from course_lib.shipped import SHIPPED
from course_lib.words import ENGLISH, LANGUAGES, _

CODE, JUPYTER = SHIPPED / "code", SHIPPED / "deploy" / "jupyter"
# Folders that come first: a cell's `!course`, and the options of the course's JupyterLab.
FOUND_FIRST = {
    "PATH": Path(sys.executable).parent,
    "JUPYTER_CONFIG_PATH": JUPYTER / "config",
    "JUPYTER_PATH": JUPYTER / "data",
}


def main(argv: list[str]) -> int:
    options = parser(
        "start",
        "Makes a folder with the lessons and opens JupyterLab on it. In a folder that exists, it\n"
        "adds new lessons and keeps every notebook that you changed.",
        "All other options go to JupyterLab, such as --no-browser and --port=9000.",
    )
    told = os.environ.get("COURSE_WORKSPACE") or "~/course"
    options.add_argument("folder", nargs="?", type=Path, default=told, help=f"default: {told}")
    options.add_argument("--language", choices=[ENGLISH, *LANGUAGES], default=ENGLISH)
    options.add_argument("--no-lab", action="store_true", help="make the folder, open nothing")
    add_site(options)
    given, more = options.parse_known_args(argv)
    folder = given.folder.expanduser().resolve()
    lessons, news = update_workspace(folder, given.language, alone=True)
    print("\n".join(news) or _("no lesson is new"))
    make_sample_text(data_folder(Workspace(folder), CODE), CODE, print)  # some cells read it, too
    print(_("your lessons: {folder}", folder=lessons))
    if given.no_lab:
        return 0
    for name, first in FOUND_FIRST.items():
        os.environ[name] = os.pathsep.join(filter(None, [str(first), os.environ.get(name)]))
    chosen = {"COURSE_SITE": given.site} if given.site else {}
    os.environ |= {"COURSE_WORKSPACE": str(folder), **chosen}
    page = (lessons / "00_the_lab.ipynb").relative_to(folder).as_posix()
    words = ["--log-level=WARN", f"--ServerApp.root_dir={folder}"]  # prints little but the address
    words += [f"--LabApp.default_url=/lab/tree/{page}", "--allow-root"]  # root as in a container
    if sys.platform == "linux" and not {"DISPLAY", "WAYLAND_DISPLAY"} & set(os.environ):
        words += ["--no-browser"]
    print(_("JupyterLab starts; Control-C twice ends it."), flush=True)
    os.execv(sys.executable, [sys.executable, "-P", "-m", "jupyterlab", *words, *more])
