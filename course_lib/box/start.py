"""Where the detached processes of the box begin: `start.py <package root> supervisor|warm …`.

Run by path and not with -c or -m, so that no flag of the interpreter differs from that of the
programs which forks of this process turn into.
"""

import os
import sys

os.closerange(3, 65536)  # pipes of the shell that ran sbatch would otherwise never end
del sys.path[0]
sys.path.insert(0, sys.argv[1])

from course_lib.box.processes import roles  # noqa: E402
from course_lib.box.warm import program  # noqa: E402

try:
    if sys.argv[2] == "warm":
        from course_lib.box.warm.server import Server

        roles.play(Server(sys.argv[1]).run)
    else:
        from course_lib.box.supervisor.supervisor import Supervisor

        roles.play(Supervisor(int(sys.argv[3])).run)
except program.Program as chosen:
    last = chosen
program.run(last)
