# When jobs will start, and how they are stopped to start again.

#: squeue --start of jobs that wait for nodes
job -N2 --exclusive -t 10 <<'X'
touch up
while [ ! -e go ]; do sleep 0.1; done
X
appears up
t sbatch -t 20 -J second --wrap true
t sbatch -t 20 -J third --wrap true
patience 60 bash -c "! squeue -h --start -o %S | grep -q N/A"
t squeue --start -S i
begin=$(date -d "$(squeue -h -o %S -j "${ids[0]}")" +%s)
for one in "${ids[@]:1}"; do
    estimate=$(squeue -h --start -o %S -j "$one")
    [ "$estimate" = N/A ] || estimate=$(($(date -d "$estimate" +%s) - begin))
    echo "$one $estimate"
done
touch go

#: squeue --start of jobs that nothing is known of
t sbatch --hold --wrap true
t sbatch --begin=now+1hour -J later --wrap true
sleep 1
t squeue --start -S i -h -o '%i %S %r'
t squeue --start -j 1
t squeue --start -h -t running

#: immediate submission
t sbatch --immediate --wrap true
t srun --immediate=5 echo ran
t srun -I echo ran

#: immediate while the nodes are busy
job -N2 --exclusive <<'X'
touch up
while [ ! -e go ]; do sleep 0.1; done
X
appears up
SECONDS=0
t srun --immediate=3 true
((SECONDS >= 2)) && echo waited
touch go

#: scancel -b of a job with a step
job <<'X'
touch up
srun bash -c 'touch upstep; sleep 30'
echo "srun $?"
X
appears upstep
t scancel -b "$id"
ended
states
untimely slurm-"$id".out

#: scancel -b -s of a job with a step
job <<'X'
trap 'echo got it' TERM
srun bash -c 'touch upstep; while [ ! -e go ]; do sleep 0.1; done; echo went'
wait
echo end
X
appears upstep
t scancel -b -s TERM "$id"
sleep 1
touch go
ended
states
sorted slurm-"$id".out

#: scancel -f of a job with a step
job <<'X'
srun bash -c 'touch upstep; sleep 30'
echo "srun $?"
X
appears upstep
t scancel -f "$id"
ended
states
untimely slurm-"$id".out

#: the lines of a requeue
job --open-mode=append <<'X'
[ "${SLURM_RESTART_COUNT:-0}" = 0 ] || exit 0
srun bash -c 'touch upstep; sleep 30'
X
appears upstep
t scontrol requeue "$id"
patience 20 bash -c "squeue -h -o %r -j $id | grep -q BeginTime"
t scontrol update jobid="$id" starttime=now
ended
untimely slurm-"$id".out

#: the lines of a requeue into hold
job --open-mode=append <<'X'
[ "${SLURM_RESTART_COUNT:-0}" = 0 ] || exit 0
touch up
sleep 30
X
appears up
t scontrol requeuehold "$id"
because "job requeued in held state"
reason
cat slurm-"$id".out
t scontrol release "$id"
sleep 1
t scontrol update jobid="$id" starttime=now

#: names of jobs and steps in their environment
job -J outer <<'X'
srun -J inner bash -c 'echo "$SLURM_JOB_NAME"'
srun bash -c 'echo "$SLURM_JOB_NAME"'
SLURM_JOB_NAME=third srun bash -c 'echo "$SLURM_JOB_NAME"'
X
tell
steps
t srun -J alone bash -c 'echo "$SLURM_JOB_NAME"'

#: distributions and planes in the environment
job -N2 -n4 <<'X'
for how in block cyclic plane=2 block:cyclic cyclic:block plane=1 block,Pack; do
    echo "$how"
    srun -m "$how" bash -c 'env | grep -E "SLURM_(DIST|TASKS_PER)" | sort; echo "$SLURM_PROCID $(hostname)"' | sort
done
X
tell

#: distribution of a job in its environment
job -N2 -n4 -m plane=2 <<'X'
env | grep SLURM_DIST | sort
srun bash -c 'env | grep SLURM_DIST; echo "$SLURM_PROCID $(hostname)"' | sort
X
tell
job -N2 -n4 -m cyclic <<'X'
env | grep SLURM_DIST | sort
srun bash -c 'env | grep SLURM_DIST; echo "$SLURM_PROCID $(hostname)"' | sort
X
tell
t srun -N2 -n4 -m plane=2 bash -c 'env | grep SLURM_DIST | sort | paste -sd " "'

#: estimates in scontrol show job, and when jobs would end
job -N2 --exclusive -t 10 <<'X'
touch up
while [ ! -e go ]; do sleep 0.1; done
X
appears up
t sbatch -t 20 -J second --wrap true
t sbatch -t 20 -J third --hold --wrap true
t sbatch -t 20 -J fourth -d "afterok:${ids[0]}" --wrap true
t sbatch -t 20 -J fifth -N2 --wrap true
patience 60 bash -c "squeue -h -o %S -j ${ids[4]} | grep -qv N/A"
begin=$(date -d "$(squeue -h -o %S -j "${ids[0]}")" +%s)
for one in "${ids[@]:1}"; do
    for moment in $(scontrol show job "$one" | grep -oE '\b(Start|End)Time=[^ ]*' | cut -d= -f2) $(squeue -h -o '%S %e' -j "$one"); do
        case $moment in 20*) echo "$(((($(date -d "$moment" +%s) - begin) + 30) / 60)) minutes" ;; *) echo "$moment" ;; esac
    done
done
touch go
