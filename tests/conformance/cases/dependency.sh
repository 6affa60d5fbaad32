# Jobs that wait for other jobs.

#: afterok waits and then runs
job <<'X'
while [ ! -e go ]; do sleep 0.1; done
echo first >>log
X
becomes RUNNING
t sbatch -d "afterok:$id" --wrap 'echo second >>log'
reason
show Dependency
t squeue -h -o '%E %T' -j "$id"
touch go
ended
states
log log

#: afterok of a failed job never runs
job --hold <<'X'
exit 1
X
t sbatch -d "afterok:$id" --wrap 'touch ran'
t scontrol release "${ids[0]}"
ended "${ids[0]}"
patience 20 bash -c "squeue -h -o %r -j $id | grep -q DependencyNever"
reason
show Dependency
t squeue -h -o '%E' -j "$id"
log ran

#: afternotok runs after a failure
job --hold <<'X'
exit 1
X
t sbatch -d "afternotok:$id" --wrap 'touch ran'
t scontrol release "${ids[0]}"
ended
states
log ran

#: afterany runs after anything
job --hold <<'X'
exit 1
X
t sbatch -d "afterany:$id" --wrap 'touch ran'
t scontrol release "${ids[0]}"
ended
states

#: after waits for the begin only
job <<'X'
while [ ! -e go ]; do sleep 0.1; done
X
becomes RUNNING
t sbatch -d "after:$id" --wrap 'touch go'
ended
states

#: a chain of three
job --hold <<'X'
echo 1 >>log
X
for step in 2 3 4; do
    t sbatch -d "afterok:$id" --wrap "echo $step >>log"
done
reason
t scontrol release "${ids[0]}"
ended
log log

#: several jobs, all of which must succeed
job --hold <<'X'
true
X
job --hold <<'X'
true
X
t sbatch -d "afterok:${ids[0]}:${ids[1]}" --wrap true
show Dependency
t scontrol release "${ids[0]}"
ended "${ids[0]}"
sleep 1
reason
t scontrol release "${ids[1]}"
ended
states

#: a job that has ended already
job <<'X'
true
X
ended
t sbatch -d "afterok:$id" --wrap 'echo ran'
ended
t sbatch -d "afternotok:${ids[0]}" --wrap 'echo ran'
because DependencyNeverSatisfied
reason
show Dependency

#: a job that never was
t sbatch -d afterok:99999999 --wrap 'echo ran'
becomes COMPLETED
reason
t sbatch -d afterany:99999999 --wrap 'echo ran'
becomes COMPLETED
reason

#: singleton: one of a name at a time
job -J lonely -d singleton <<'X'
while [ ! -e go ]; do sleep 0.1; done
echo one >>log
X
becomes RUNNING
t sbatch -J lonely -d singleton --wrap 'echo two >>log'
t sbatch -J other -d singleton --wrap 'echo other >>log'
ended "$id"
reason
show Dependency
t squeue -h -o '%i %E' -S i
touch go
ended
log log
