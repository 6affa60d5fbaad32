# Waiting: for resources, in turn, held, for a time; and being put back.

#: hold and release
job --hold <<'X'
echo ran
X
sleep 1
reason
t squeue
show Priority JobState Reason
t scontrol release "$id"
tell

#: begin in two seconds
job --begin=now+2 <<'X'
echo ran
X
sleep 0.5
reason
tell

#: begin in minutes and days, tomorrow, at noon
for moment in now+2minutes now+1day tomorrow midnight noon; do
    t sbatch --begin=$moment --wrap true
    reason "$id"
done

#: the full cluster: Resources for the first, Priority for the others
job -N2 --exclusive <<'X'
touch up
while [ ! -e go ]; do sleep 0.1; done
X
appears up
for name in first second third; do
    t sbatch -J $name --wrap "echo $name >>log"
done
patience 20 bash -c "squeue -h -o %r -n first | grep -q Resources"
sleep 1
reason
t squeue
t sinfo
touch go
ended
sort log

#: first come, first served
job -N2 --exclusive <<'X'
touch up
while [ ! -e go ]; do sleep 0.1; done
X
appears up
for number in 1 2 3 4 5 6; do
    t sbatch -N2 --exclusive -J "n$number" --wrap "echo $number >>log"
done
touch go
ended
log log

#: a small job does not overtake a big one
job -w node1 <<'X'
touch up
while [ ! -e go ]; do sleep 0.1; done
X
appears up
t sbatch -N2 --exclusive -J big --wrap 'echo big >>log'
t sbatch -J small --wrap 'echo small >>log'
because Priority
reason
touch go
ended
log log

#: devices run out
job -N2 --gpus-per-node=2 <<'X'
touch up
while [ ! -e go ]; do sleep 0.1; done
X
appears up
t sbatch --gpus=1 -J device --wrap 'echo device'
because Resources
reason
t sbatch -J plain --wrap 'echo plain'
because Priority
reason
touch go
tell

#: eight jobs fill a node, the ninth goes to the other
for number in 1 2 3 4 5 6 7 8 9; do
    sbatch --wrap 'hostname; while [ ! -e go ]; do sleep 0.1; done' >/dev/null
done
patience 20 bash -c '(($(squeue -h -t R | wc -l) == 9))'
squeue -h -o %N | sort | uniq -c
t sinfo
t sinfo -h -N -o '%n %C %t'
touch go

#: states of the nodes as jobs come and go
t sinfo -h -N -o '%n %t %C'
job -n8 -w node1 <<'X'
touch up
while [ ! -e go ]; do sleep 0.1; done
X
appears up
t sinfo -h -N -o '%n %t %C'
t sinfo
job -n1 -w node2 <<'X'
touch up2
while [ ! -e go ]; do sleep 0.1; done
X
appears up2
t sinfo -h -N -o '%n %t %C'
t sinfo -s
touch go
ended
t sinfo

#: requeue a running job
job <<'X'
echo "run $SLURM_RESTART_COUNT" >>log
touch up
while [ ! -e go ]; do sleep 0.1; done
X
appears up
t scontrol requeue "$id"
sleep 1
reason
show Restarts
touch go
scontrol update jobid="$id" starttime=now 2>/dev/null # a real Slurm would wait for 2 minutes
ended
states
log log
show Restarts

#: suspend and resume, or their refusal
job <<'X'
touch up
while [ ! -e go ]; do sleep 0.1; done
X
appears up
t scontrol suspend "$id"
reason
t scontrol resume "$id"
becomes RUNNING
reason
touch go
ended
states
