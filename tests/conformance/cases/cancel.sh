# Ending jobs, at every moment of their lives.

#: cancel a pending job
job --hold <<'X'
true
X
t scancel "$id"
states
reason
t squeue -h
log "slurm-$id.out"

#: cancel a running job
job <<'X'
echo start
sleep 100
X
becomes RUNNING
appears "slurm-$id.out"
patience 20 grep -q start "slurm-$id.out"
t scancel "$id"
tell
steps

#: cancel a job whose script traps the signal
job <<'X'
trap 'echo got TERM; exit 3' TERM
touch up
sleep 100 &
wait
X
appears up
t scancel "$id"
ended
states
sorted "slurm-$id.out"
steps

#: cancel a job with a running step
job -N2 <<'X'
touch up
srun sleep 100
echo never
X
appears up
patience 20 bash -c "sacct -n -j $id | grep -q $id.0"
sleep 0.5
t scancel "$id"
ended
states
sorted "slurm-$id.out"
steps

#: cancel a job that ignores SIGTERM
job <<'X'
trap '' TERM
touch up
while :; do sleep 0.2; done
X
appears up
t scancel "$id"
becomes COMPLETING
reason
t scancel "$id"
ended
states
out
steps

#: cancel a job that has ended
job <<'X'
true
X
ended
t scancel "$id"
states

#: a job that leaves processes behind
export length=4321.$$
job <<'X'
setsid sleep $length &
nohup sleep $length >/dev/null 2>&1 &
disown -a
sleep 0.3
X
tell
pgrep -f "sleep $length" | wc -l

#: the processes of a cancelled job end, whatever they did to hide
export length=4322.$$
job <<'X'
setsid bash -c 'trap "" TERM HUP INT; sleep $length' &
(trap '' TERM; python3 -c 'import os, sys
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execvp("sleep", ["sleep", os.environ["length"]])') &
touch up
wait
sleep 100
X
appears up
sleep 0.5
t scancel "$id"
ended
states
pgrep -f "sleep $length" | wc -l

#: cancel by name
job --hold -J one <<'X'
true
X
job --hold -J two <<'X'
true
X
t scancel -n one
reason
t scancel --name=two,three
reason

#: cancel by state
job -J running <<'X'
touch up
sleep 100
X
appears up
job --hold -J pending <<'X'
true
X
t scancel -t PENDING -u "$USER"
reason
t scancel --state=RUNNING -u "$USER"
ended
reason

#: cancel several by id, one of which is none
job --hold <<'X'
true
X
job --hold <<'X'
true
X
t scancel "${ids[0]}" 99999999 "${ids[1]}"
reason

#: a signal instead of the end
job <<'X'
trap 'echo got USR1 >>log' USR1
touch up
while [ ! -e go ]; do sleep 0.1; done
X
appears up
t scancel -s USR1 "$id"
sleep 1
log log
t scancel -b -s USR1 "$id"
appears log
log log
touch go
tell

#: a signal reaches the tasks of a step
job -n2 <<'X'
srun bash -c 'trap "echo task \$SLURM_PROCID got USR1; exit 0" USR1; touch up$SLURM_PROCID; while :; do sleep 0.1; done' | sort
echo batch goes on
X
appears up0
appears up1
t scancel --signal=USR1 "$id"
tell

#: a signal to everything
job <<'X'
trap 'echo script got USR2' USR2
srun bash -c 'trap "echo task got USR2; exit 0" USR2; touch up; while :; do sleep 0.1; done'
echo "exit $?"
X
appears up
t scancel --full -s USR2 "$id"
ended
sorted "slurm-$id.out"

#: one step is cancelled and the job goes on
job -n1 <<'X'
srun bash -c 'touch up; sleep 100'
echo "exit $?"
srun echo next step
X
appears up
t scancel "$id.0"
ended
states
sorted "slurm-$id.out"
steps

#: srun outside of a job is cancelled
srun -J outside bash -c 'touch up; exec sleep 100' >srun.log 2>&1 &
appears up
sleep 0.3
t scancel -n outside
wait $!
echo "exit $?"
untimely srun.log

#: srun outside of a job is interrupted twice
srun -J outside bash -c 'touch up; exec sleep 100' >srun.log 2>&1 &
appears up
sleep 0.5
kill -INT $!
sleep 0.3
kill -INT $!
wait $!
echo "exit $?"
untimely srun.log | grep -v -e CANCELLED -e 'node1: task 0' # Interrupt or abort: who is faster
patience 10 bash -c '[[ -z $(squeue -h) ]]'

#: a signal sent to srun in a job reaches its tasks
job <<'X'
srun bash -c 'trap "echo task got USR1; exit 0" USR1; touch up; while :; do sleep 0.1; done' &
while [ ! -e up ]; do sleep 0.1; done
kill -USR1 $!
wait $!
echo "exit $?"
X
ended
sorted "slurm-$id.out"

#: srun in a job gets SIGTERM
job <<'X'
srun bash -c 'trap "echo task got TERM; exit 0" TERM; touch up; while :; do sleep 0.1; done' &
while [ ! -e up ]; do sleep 0.1; done
sleep 1 # srun may learn of the task's start later than it runs
kill -TERM $!
wait $!
echo "exit $?"
X
ended
untimely "slurm-$id.out" | uniq # a real slurmstepd may announce the end twice
