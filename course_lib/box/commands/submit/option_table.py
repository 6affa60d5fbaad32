"""The options that salloc, sbatch and srun share: names, letters, variables, what becomes of them.

One line per option: `name,letter` with `=` (takes a value) or `?` (may take one), then for
which command (`a` salloc, `b` sbatch, `r` srun), then what the box does with it (`do`; `note`:
accepted, has no effect, says so; `plain`: accepted, has no effect that could be missed; `no`:
refused by name), then the environment variable without SALLOC_, SBATCH_ or SLURM_ in front.
"""

from __future__ import annotations

TABLE = """
accel-bind= r note -
account,A= abr do ACCOUNT
acctg-freq= abr note ACCTG_FREQ
array,a= b do ARRAY_INX
batch= b no BATCH
bb= abr no -
bbf= abr no -
bcast? r no BCAST
bcast-exclude= r no BCAST_EXCLUDE
begin,b= abr do -
bell a plain BELL
chdir,D= abr do -
cluster-constraint= abr no -
clusters,M= abr no CLUSTERS
comment= abr do -
compress? r no COMPRESS
constraint,C= abr do CONSTRAINT
container= abr no CONTAINER
contiguous abr note -
core-spec,S= abr no CORE_SPEC
cores-per-socket= abr no -
cpu-bind= r note CPU_BIND
cpu-freq= abr no CPU_FREQ_REQ
cpus-per-gpu= abr do CPUS_PER_GPU
cpus-per-task,c= ab do -
cpus-per-task,c= r do CPUS_PER_TASK
deadline= abr no -
delay-boot= abr note DELAY_BOOT
dependency,d= ab do -
dependency,d= r do DEPENDENCY
disable-status,X r note DISABLE_STATUS
distribution,m= abr do DISTRIBUTION
epilog= r no EPILOG
error,e= br do ERROR
exact r do EXACT
exclude,x= abr do -
exclusive? abr do EXCLUSIVE
export= br do EXPORT
export-file= b do -
extra-node-info,B= abr no -
get-user-env? b no GET_USER_ENV
gid= abr no -
gpu-bind= abr do GPU_BIND
gpu-freq= abr no GPU_FREQ
gpus,G= abr do GPUS
gpus-per-node= abr do GPUS_PER_NODE
gpus-per-socket= abr no -
gpus-per-task= abr do GPUS_PER_TASK
gres= abr do GRES
gres-flags= abr note GRES_FLAGS
help,h abr do -
het-group= r no -
hint= abr do HINT
hold,H abr do -
ignore-pbs b plain IGNORE_PBS
immediate,I? ar do IMMEDIATE
input,i= br do INPUT
job-name,J= a do -
job-name,J= br do JOB_NAME
jobid= r do JOB_ID
kill-command,K? a do KILL_CMD
kill-on-bad-exit,K? r do KILL_BAD_EXIT
kill-on-invalid-dep= b do -
label,l r do LABELIO
licenses,L= abr do -
mail-type= abr note -
mail-user= abr note -
mcs-label= abr no -
mem= abr do MEM_PER_NODE
mem-bind= abr note MEM_BIND
mem-per-cpu= abr do MEM_PER_CPU
mem-per-gpu= abr do MEM_PER_GPU
mincpus= abr do -
mpi= r do MPI_TYPE
msg-timeout= r plain -
multi-prog r no -
network= abr note NETWORK
nice? abr do -
no-allocate,Z r no -
no-bell a plain NO_BELL
no-kill,k? abr note NO_KILL
no-requeue b do NO_REQUEUE
no-shell a do -
nodefile,F= abr no -
nodelist,w= abr do -
nodes,N= abr do -
ntasks,n= abr do -
ntasks-per-core= abr no -
ntasks-per-gpu= abr do -
ntasks-per-node= abr do -
ntasks-per-socket= abr no -
open-mode= br do OPEN_MODE
output,o= br do OUTPUT
overcommit,O abr do OVERCOMMIT
overlap r do OVERLAP
oversubscribe,s abr do -
parsable b do -
partition,p= abr do PARTITION
power= abr no POWER
prefer= abr no -
preserve-env,E r do -
priority= abr do -
profile= abr note PROFILE
prolog= r no PROLOG
propagate? br do -
pty r do -
qos,q= abr do QOS
quiet,Q abr do -
quit-on-interrupt r note -
reboot abr no -
relative,r= r do -
requeue b do REQUEUE
reservation= abr do RESERVATION
resv-ports? r no RESV_PORTS
send-libs? r no SEND_LIBS
signal= abr do SIGNAL
slurmd-debug= r note -
sockets-per-node= abr no -
spread-job abr note SPREAD_JOB
switches= abr note REQ_SWITCH
task-epilog= r no TASK_EPILOG
task-prolog= r no TASK_PROLOG
test-only br do -
thread-spec= abr no THREAD_SPEC
threads,T= r plain THREADS
threads-per-core= abr do THREADS_PER_CORE
time,t= abr do TIMELIMIT
time-min= abr do -
tmp= abr no -
uid= abr no -
unbuffered,u r do UNBUFFEREDIO
usage abr do -
use-min-nodes abr note USE_MIN_NODES
verbose,v abr do DEBUG
version,V abr do -
wait,W b do WAIT
wait,W= r do WAIT
wait-all-nodes= ab do WAIT_ALL_NODES
wckey= abr do WCKEY
wrap= b do -
x11? ar no -
"""


class Option:
    """One line of the table, read."""

    def __init__(self, line: str) -> None:
        self.spelling, self.commands, self.fate, self.variable = line.split()
        self.name = self.spelling.rstrip("=?").partition(",")[0]


def options_of(letter: str) -> list[Option]:
    """The options of salloc (`a`), sbatch (`b`) or srun (`r`)."""
    options = [Option(line) for line in TABLE.split("\n") if line]
    return [option for option in options if letter in option.commands]
