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

#: --kill-on-invalid-dep
job --hold <<'X'
exit 1
X
t sbatch -d "afterok:$id" --kill-on-invalid-dep=yes --wrap 'touch ran'
t scontrol release "${ids[0]}"
ended
states
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

#: afternotok of a job that succeeds never runs
job --hold <<'X'
exit 0
X
t sbatch -d "afternotok:$id" --wrap 'touch ran'
t scontrol release "${ids[0]}"
ended "${ids[0]}"
patience 20 bash -c "squeue -h -o %r -j $id | grep -q DependencyNever"
reason

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

#: after a cancelled job
job --hold <<'X'
true
X
first=$id
t sbatch -d "afterany:$first" --wrap 'echo any'
t sbatch -d "afternotok:$first" --wrap 'echo notok'
t scancel "$first"
ended
states

#: after a job that was cancelled while it ran
job <<'X'
touch up
sleep 100
X
first=$id
appears up
t sbatch -d "afterok:$first" --wrap 'echo ok'
t sbatch -d "afternotok:$first" --wrap 'echo notok'
t scancel "$first"
ended "$first" "$id"
patience 20 bash -c "squeue -h -o %r -j ${ids[1]} | grep -q DependencyNever"
reason

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

#: a chain breaks at a failure
job --hold <<'X'
exit 1
X
t sbatch -d "afterok:$id" --wrap true
t sbatch -d "afterok:$id" --wrap true
t scontrol release "${ids[0]}"
ended "${ids[0]}"
patience 20 bash -c "squeue -h -o %r -j ${ids[1]} | grep -q DependencyNever"
reason

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

#: either of two
job --hold <<'X'
true
X
job --hold <<'X'
true
X
t sbatch -d "afterok:${ids[0]}?afterok:${ids[1]}" --wrap true
show Dependency
t scontrol release "${ids[1]}"
ended "${ids[1]}" "$id"
reason

#: two kinds together
job --hold <<'X'
true
X
job --hold <<'X'
exit 1
X
t sbatch -d "afterok:${ids[0]},afternotok:${ids[1]}" --wrap true
show Dependency
t scontrol release "${ids[0]}" "${ids[1]}"
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

#: a job that failed already
job <<'X'
false
X
ended
t sbatch -d "afterok:$id" --wrap 'echo ran'
because DependencyNeverSatisfied
reason
t sbatch -d "afternotok:${ids[0]}" --wrap 'echo ran'
ended "$id"
reason "$id"

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

#: a dependency is taken away
job --hold <<'X'
true
X
t sbatch -d "afterok:$id" --wrap true
t scontrol update jobid="$id" dependency=
ended "$id"
reason

#: a dependency is added
job --hold <<'X'
true
X
t sbatch --hold --wrap true
t scontrol update jobid="$id" dependency="afterok:${ids[0]}"
t scontrol release "$id"
sleep 1
reason
t scontrol release "${ids[0]}"
ended
states
