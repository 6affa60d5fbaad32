"""The options that sbatch and srun share: their names, letters, variables and what becomes of them.

One line per option: `name,letter` with `=` (takes a value) or `?` (may take one), then for
which command (`b` sbatch, `r` srun), then what the box does with it (`do`; `note`: accepted,
has no effect, says so; `plain`: accepted, has no effect that could be missed; `no`: refused by
name), then the environment variable without its SBATCH_ or SLURM_ in front.
"""

from __future__ import annotations

TABLE = """
account,A= br do ACCOUNT
accel-bind= r note -
acctg-freq= br note ACCTG_FREQ
array,a= b no ARRAY_INX
batch= b no BATCH
bb= br no -
bbf= br no -
bcast? r no BCAST
bcast-exclude= r no BCAST_EXCLUDE
begin,b= br do -
chdir,D= br do -
cluster-constraint= br no -
clusters,M= br no CLUSTERS
comment= br do -
compress? r no COMPRESS
constraint,C= br do CONSTRAINT
container= br no CONTAINER
contiguous br note -
core-spec,S= br no CORE_SPEC
cores-per-socket= br no -
cpu-bind= r note CPU_BIND
cpu-freq= br no CPU_FREQ_REQ
cpus-per-gpu= br do CPUS_PER_GPU
cpus-per-task,c= br do CPUS_PER_TASK
deadline= br no -
delay-boot= br note DELAY_BOOT
dependency,d= br do DEPENDENCY
disable-status,X r note DISABLE_STATUS
distribution,m= br do DISTRIBUTION
epilog= r no EPILOG
error,e= br do ERROR
exact r do EXACT
exclude,x= br do -
exclusive? br do EXCLUSIVE
export= br do EXPORT
export-file= b do -
extra-node-info,B= br no -
get-user-env? b no GET_USER_ENV
gid= br no -
gpu-bind= br note GPU_BIND
gpu-freq= br no GPU_FREQ
gpus,G= br do GPUS
gpus-per-node= br do GPUS_PER_NODE
gpus-per-socket= br no -
gpus-per-task= br do GPUS_PER_TASK
gres= br do GRES
gres-flags= br note GRES_FLAGS
help,h br do -
het-group= r no -
hint= br do HINT
hold,H br do -
ignore-pbs b plain IGNORE_PBS
immediate,I? r do IMMEDIATE
input,i= br do INPUT
job-name,J= br do JOB_NAME
jobid= r do JOB_ID
kill-on-bad-exit,K? r do KILL_BAD_EXIT
kill-on-invalid-dep= b do -
label,l r do LABELIO
licenses,L= br do -
mail-type= br note -
mail-user= br note -
mcs-label= br no -
mem= br do MEM_PER_NODE
mem-bind= br note MEM_BIND
mem-per-cpu= br do MEM_PER_CPU
mem-per-gpu= br do MEM_PER_GPU
mincpus= br do -
mpi= r do MPI_TYPE
msg-timeout= r plain -
multi-prog r no -
network= br note NETWORK
nice? br do -
no-allocate,Z r no -
no-kill,k? br note NO_KILL
no-requeue b do NO_REQUEUE
nodefile,F= br no -
nodelist,w= br do -
nodes,N= br do -
ntasks,n= br do -
ntasks-per-core= br no -
ntasks-per-gpu= br do -
ntasks-per-node= br do -
ntasks-per-socket= br no -
open-mode= br do OPEN_MODE
output,o= br do OUTPUT
overcommit,O br do OVERCOMMIT
overlap r do OVERLAP
oversubscribe,s br do -
parsable b do -
partition,p= br do PARTITION
power= br no POWER
prefer= br no -
preserve-env,E r do -
priority= br do -
profile= br note PROFILE
prolog= r no PROLOG
propagate? br do -
pty r no -
qos,q= br do QOS
quiet,Q br do -
quit-on-interrupt r note -
reboot br no -
relative,r= r do -
requeue b do REQUEUE
reservation= br do RESERVATION
resv-ports? r no RESV_PORTS
send-libs? r no SEND_LIBS
signal= br do SIGNAL
slurmd-debug= r note -
sockets-per-node= br no -
spread-job br note SPREAD_JOB
switches= br note REQ_SWITCH
task-epilog= r no TASK_EPILOG
task-prolog= r no TASK_PROLOG
test-only br do -
thread-spec= br no THREAD_SPEC
threads,T= r plain THREADS
threads-per-core= br do THREADS_PER_CORE
time,t= br do TIMELIMIT
time-min= br do -
tmp= br no -
uid= br no -
unbuffered,u r do UNBUFFEREDIO
usage br do -
use-min-nodes br note USE_MIN_NODES
verbose,v br do DEBUG
version,V br do -
wait-all-nodes= b do WAIT_ALL_NODES
wait,W b do WAIT
wait,W= r do WAIT
wckey= br do WCKEY
wrap= b do -
x11? r no -
"""


class Option:
    """One line of the table, read."""

    def __init__(self, line: str) -> None:
        self.spelling, self.commands, self.fate, self.variable = line.split()
        self.name = self.spelling.rstrip("=?").partition(",")[0]


def options_of(letter: str) -> list[Option]:
    """The options of sbatch (`b`) or srun (`r`)."""
    options = [Option(line) for line in TABLE.split("\n") if line]
    return [option for option in options if letter in option.commands]
