# When jobs will start, and how they are stopped to start again.

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

#: the lines of a requeue
job --open-mode=append <<'X'
[ "${SLURM_RESTART_COUNT:-0}" = 0 ] || exit 0
srun bash -c 'touch upstep; sleep 30'
X
appears upstep
t scontrol requeue "$id"
patience 20 bash -c "squeue -h -o %r -j $id | grep -q BeginTime"
scontrol update jobid="$id" starttime=now 2>/dev/null # as in queue.sh
ended
untimely slurm-"$id".out
