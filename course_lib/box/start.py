"""Where every process of the box begins that is no command: `start.py <package root> <role> …`.

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
    if sys.argv[2] == "trial":
        from course_lib.box.process_tree import trial

        trial.make_nodes()
    else:
        from course_lib.box.supervisor import supervisor

        if sys.argv[2] == "warm":
            from course_lib.box.warm.server import Server

            roles.play(Server(sys.argv[1], supervisor.supervise_warm).run)
        else:
            roles.play(supervisor.Supervisor(int(sys.argv[3])).run)
except program.Program as chosen:
    last = chosen
program.run(last)
