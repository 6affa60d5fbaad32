"""Start file of every process of the box that is not a command: `start.py <package root> <role> …`.

It is run by path and not with -c or -m. The flags of the interpreter are then the same as in the
programs that forks of this process become.
"""

import os
import sys

os.closerange(3, 65536)  # otherwise pipes of the shell that ran sbatch would never end
del sys.path[0]
sys.path.insert(0, sys.argv[1])

if sys.argv[2] == "trial":
    from course_lib.box.processes import guard

    guard.make_nodes()
elif sys.argv[2] == "dispatcher":
    from course_lib.box.dispatch import dispatcher

    dispatcher.main()
else:
    from course_lib.box.processes import roles
    from course_lib.box.supervisor import supervisor

    if sys.argv[2] == "warm":
        from course_lib.box.warm.server import Server

        roles.play(Server(sys.argv[1], supervisor.supervise_warm).run)
    roles.play(supervisor.Supervisor(int(sys.argv[3])).run)
