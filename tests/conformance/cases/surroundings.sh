# What a shell brings along: its functions, its profile's variables, a folder that is gone.

#: functions of the shell reach jobs and steps
greet() { echo "hello $1"; }
export -f greet
job <<'X'
greet script
srun bash -c 'greet step'
X
tell
t srun bash -c 'greet alone'
t sbatch -W --export=ALL,MORE=1 -o all.out --wrap 'srun bash -c "greet all"; echo $MORE'
t sbatch -W --export=MORE=1 -o chosen.out --wrap 'bash -c "greet chosen"; echo $MORE'
t srun --export=MORE=1 /bin/bash -c 'greet chosen; echo $MORE'
t srun --export=ALL,MORE=1 bash -c 'greet chosen; echo $MORE'
sed 's|^/usr/bin/||' all.out | sort
sed 's/.*line [0-9]*: //; s/.*1: greet/greet/' chosen.out

#: a function that a script makes reaches its steps
job <<'X'
module() { echo "module $*"; }
export -f module
srun bash -c 'module load cuda'
srun -n2 --label bash -c 'module list' | sort
X
tell

#: an empty command
t srun ''
t srun -n2 ''
t sbatch --wrap ''
ended
states
t sbatch ''
t srun ' '

#: in a folder that is gone
mkdir gone
cd gone
rmdir ../gone
t sbatch --wrap pwd
t sbatch -o /dev/null --wrap pwd
t sbatch -D / -o /dev/null --wrap true
t srun pwd
t srun -D / pwd
t squeue -h -o %i -j 1
t scancel 1
t sinfo -h -o %n
t scontrol show hostnames node1

#: a log after a requeue
job <<'X'
echo "run ${SLURM_RESTART_COUNT:-0}"
echo >>runs
if [ "${SLURM_RESTART_COUNT:-0}" = 0 ]; then scontrol requeue $SLURM_JOB_ID; sleep 30; fi
X
appears runs
patience 20 bash -c "squeue -h -o %r -j $id | grep -q BeginTime"
scontrol update jobid="$id" starttime=now 2>/dev/null # as in queue.sh
ended
out

#: a log after a requeue with --open-mode=append
job --open-mode=append <<'X'
echo "run ${SLURM_RESTART_COUNT:-0}"
echo >>runs
if [ "${SLURM_RESTART_COUNT:-0}" = 0 ]; then scontrol requeue $SLURM_JOB_ID; sleep 30; fi
X
appears runs
patience 20 bash -c "squeue -h -o %r -j $id | grep -q BeginTime"
scontrol update jobid="$id" starttime=now 2>/dev/null # as in queue.sh
ended
sed -E 's/AT .* DUE/AT now DUE/; s/AT 20.*/AT now/' slurm-"$id".out
