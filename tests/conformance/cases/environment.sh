# What a job and its tasks find in their environment.

#: a plain batch job
job <<'X'
env >job.env
srun bash -c 'env >task.env'
X
ended
vars job.env task.env

#: two nodes, two tasks each, with devices
job -N2 --ntasks-per-node=2 --gpus-per-node=2 --cpus-per-task=2 -t 5 -J shape <<'X'
env >job.env
srun bash -c 'env >task$SLURM_PROCID.env'
X
ended
vars job.env task0.env task3.env

#: devices asked for in five ways
for option in --gpus=2 --gpus-per-node=1 '--gpus-per-task=1 -n2' --gres=gpu:2 --gres=gpu; do
    # shellcheck disable=SC2086
    job $option <<'X'
env | grep -E 'GPU|CUDA|ROCR|ZE_|GRES' >job-$SLURM_JOB_ID.env
srun bash -c 'env | grep -E "GPU|CUDA|ROCR|ZE_|GRES" >task-$SLURM_JOB_ID.$SLURM_PROCID.env'
X
    ended
    vars "job-$id.env" "task-$id".*.env
done

#: a device for each task of a step
job -N2 --ntasks-per-node=2 --gpus-per-node=2 <<'X'
srun --gpus-per-task=1 bash -c 'env | grep -E "GPU|CUDA|ROCR|ZE_" >task$SLURM_PROCID.env'
X
ended
vars task0.env task1.env task3.env

#: two jobs share the devices of a node
job --gpus=1 <<'X'
echo $CUDA_VISIBLE_DEVICES $SLURM_JOB_GPUS on $(hostname)
touch up
while [ ! -e go ]; do sleep 0.1; done
X
appears up
t sbatch --gpus=1 --wrap 'echo $CUDA_VISIBLE_DEVICES $SLURM_JOB_GPUS on $(hostname); touch go'
tell

#: a job without devices sees none
job <<'X'
echo "[${CUDA_VISIBLE_DEVICES-unset}] [${SLURM_GPUS_ON_NODE-unset}] [${SLURM_JOB_GPUS-unset}]"
X
tell

#: memory
job --mem=1000 <<'X'
env | grep MEM
srun env | grep MEM | sort
X
tell
job --mem-per-cpu=100 -n2 <<'X'
env | grep MEM
X
ended
out "$id"
job --mem=1G <<'X'
env | grep MEM
X
ended
out "$id"

#: partition, account, name, comment
job -p course -A physics -J 'my job' --comment 'a comment' <<'X'
env | grep -E 'PARTITION|ACCOUNT|NAME|COMMENT|QOS' | sort
X
ended
states
out | grep -v HOSTNAME
show Account Comment Partition

#: exclusive
job --exclusive <<'X'
env | grep -E 'CPUS|TASKS' | sort
srun bash -c 'env | grep -E "CPUS|TASKS" | grep -v PACK | sort' | uniq
X
tell

#: everything of the submitting shell comes along
export MINE="two words" QUOTED="it's \$5" EMPTY= LINES_="one
two"
job <<'X'
echo "[$MINE] [$QUOTED] [${EMPTY-unset}] [$LINES_]"
X
tell

#: --export=NONE
export MINE=here
job --export=NONE <<'X'
echo "[${MINE-unset}] [${USER:+user}] [${HOME:+home}] $SLURM_JOB_NAME $SLURM_EXPORT_ENV"
srun bash -c 'echo "[${MINE-unset}] [$SLURM_EXPORT_ENV]"'
srun /bin/bash -c 'echo "[${MINE-unset}] [$SLURM_EXPORT_ENV]"'
X
ended
sorted "slurm-$id.out"

#: --export=NAME and --export=NAME=VALUE
export MINE=here OTHER=there
job --export=MINE <<'X'
echo "[${MINE-unset}] [${OTHER-unset}] [${NEW-unset}] [$SLURM_EXPORT_ENV]"
X
job --export=NEW=1,MINE <<'X'
echo "[${MINE-unset}] [${OTHER-unset}] [${NEW-unset}] [$SLURM_EXPORT_ENV]"
X
job --export=NEW='a b' <<'X'
echo "[${MINE-unset}] [${OTHER-unset}] [${NEW-unset}]"
X
tell

#: --export=ALL,NAME=VALUE
export MINE=here
job --export=ALL,NEW=1,MINE=changed <<'X'
echo "[${MINE-unset}] [${NEW-unset}] [$SLURM_EXPORT_ENV]"
X
tell

#: srun --export
export MINE=here
job <<'X'
srun --export=NEW=3 /bin/bash -c 'echo "[${MINE-unset}] [${NEW-unset}]"'
srun --export=ALL,NEW=4 /bin/bash -c 'echo "[${MINE-unset}] [${NEW-unset}]"'
srun --export=NONE /bin/bash -c 'echo "[${MINE-unset}] [${SLURM_JOB_ID:+job}]"'
X
tell

#: what the script sets reaches the tasks
job <<'X'
export MINE=of-the-script
LOCAL=not-exported
srun bash -c 'echo "[$MINE] [${LOCAL-unset}]"'
X
tell

#: SBATCH variables stand in for options
SBATCH_JOB_NAME=from-env SBATCH_TIMELIMIT=7 SBATCH_OUTPUT=env-%j.txt SBATCH_ACCOUNT=envacct \
    SBATCH_PARTITION=course SBATCH_GPUS=1 SBATCH_COMMENT=envcomment job <<'X'
true
X
ended
states
show Account TimeLimit Comment StdOut TRES

#: SLURM variables of the submitting shell do not shape a job
SLURM_NNODES=2 SLURM_NTASKS=4 SLURM_JOB_NAME=bogus SLURM_CPUS_PER_TASK=3 job <<'X'
echo $SLURM_NNODES ${SLURM_NTASKS-unset} $SLURM_JOB_NAME ${SLURM_CPUS_PER_TASK-unset}
X
tell

#: options of srun by variable
job -n4 <<'X'
SLURM_NTASKS=2 srun hostname
SLURM_LABELIO=1 srun -n2 echo labelled | sort
SLURM_DISTRIBUTION=cyclic srun -n2 bash -c 'echo $SLURM_DISTRIBUTION' | uniq
SLURM_CPUS_PER_TASK=2 srun -n2 bash -c 'echo $SLURM_CPUS_PER_TASK $SLURM_CPUS_ON_NODE' | uniq
SRUN_CPUS_PER_TASK=2 srun -n2 bash -c 'echo $SLURM_CPUS_PER_TASK' | uniq
X
tell

#: the umask comes along
umask 027
job <<'X'
umask
touch made
srun bash -c 'umask; touch made2'
X
ended
out
stat -c '%a %n' made made2 slurm-*.out

#: host names resolve inside a job
job -N2 <<'X'
srun -l hostname | sort
getent hosts node1 | wc -w
getent hosts node2 | wc -w
srun -l bash -c 'python3 -c "import socket; print(len({socket.gethostbyname(n) for n in (\"node1\", \"node2\")}))"' | sort
X
tell

#: a node reaches the other one
job -N2 <<'X'
srun -n1 -w node2 --exact python3 -c '
import socket
server = socket.create_server(("0.0.0.0", 23456))
server.settimeout(10)
print(server.accept()[0].recv(99).decode())' &
srun -n1 -w node1 --exact python3 -c '
import socket, time
for attempt in range(100):
    try:
        socket.create_connection(("node2", 23456), timeout=1).sendall(b"hello over there")
        break
    except OSError:
        time.sleep(0.05)'
wait
X
tell

#: variables that are none of sbatch and salloc
SBATCH_CPUS_PER_TASK=3 t sbatch --hold --wrap true
show CPUs/Task
SBATCH_DEPENDENCY=singleton t sbatch --hold --wrap true
show Dependency
SALLOC_JOB_NAME=x SALLOC_CPUS_PER_TASK=3 SALLOC_DEPENDENCY=afterok:1 t salloc -n2 bash -c 'squeue -h -o "%j %C" -j $SLURM_JOB_ID'
