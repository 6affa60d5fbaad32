# Job arrays: one submission, many tasks.

#: an array of three
job -a 1-3 -J three <<'X'
echo "$SLURM_JOB_ID $SLURM_ARRAY_JOB_ID $SLURM_ARRAY_TASK_ID"
X
ended
states
log slurm-"$id"_{1,2,3}.out
steps

#: variables of an array task
job -a 2-8:3 -J named -n2 <<'X'
env >"task$SLURM_ARRAY_TASK_ID"
X
ended
vars task2
grep ^SLURM_ARRAY task5 task8 | sort

#: variables of an array reach steps
job -a 5,7 <<'X'
srun -n1 bash -c 'env | grep ^SLURM_ARRAY | sort; echo $SLURM_JOB_ID $SLURM_JOBID' >"task$SLURM_ARRAY_TASK_ID"
X
ended
log task5 task7

#: lists of array tasks
for list in 1-3 1,3,5 0-15:4 '1-3%2' '7' '1-3,5-9:2' '1-10%1' '3,1,2' '1-3,2-5' '005-007' '[1-3]' '1-5:2%1' '0-1000' '1-20:1'; do
    t sbatch --hold -J listed -a "$list" --wrap true
    t squeue -h -o '%i|%F|%K|%A|%t|%r' -j "$id"
    scontrol show job "$id" | grep -oE 'Array[A-Za-z]+=[^ ]*' | paste -sd ' '
    t scancel "$id"
done

#: lists of array tasks that are none
for list in '' x 1- -3 3-1 1-3:0 1-3% 1-3%0 1-3%x 1-1001 1001 1000 0-1001:2 1,,3 '1-3;5' 1-3:x '1.5' ' 1-3' '1 - 3' '1-2-3' '1:2' '1-3%2%3' '1-3%-1' '1,a' '-1' '4294967295' '1-3:2000'; do
    t sbatch --hold -a "$list" --wrap true
done

#: --array in the script, in the environment, and on the command line
cat >script.sh <<'X'
#!/bin/bash
#SBATCH --array=1-2
#SBATCH --hold
true
X
t sbatch script.sh
t squeue -h -o %i -j "$id"
SBATCH_ARRAY_INX=3-5 t sbatch script.sh
t squeue -h -o %i -j "$id"
SBATCH_ARRAY_INX=3-5 t sbatch --array=7,9 script.sh
t squeue -h -o %i -j "$id"
t sbatch --array=4-5 --parsable script.sh
t sbatch --array=4-5 --test-only script.sh

#: an array that waits in squeue
job --hold -a 1-4 -J waits <<'X'
true
X
t squeue
t squeue -r
t squeue -a -r -h -o '%i %A %F %K %j %t %r'
t squeue -h -o %i -j "${id}_3"
t squeue -h -o %i -j "${id}_2,${id}_4"
t squeue -h -o %i -j "${id}_9"
t squeue -h -r -o %i -j "${id}_3"
t squeue -h -o '%i %K' -t pending

#: how tasks of an array are shown by scontrol
job -a 1-3%1 -J shown <<'X'
touch up$SLURM_ARRAY_TASK_ID
while [ ! -e go ]; do sleep 0.1; done
X
appears up1
sleep 1
scontrol show job "$id" >all
grep -E 'JobId|JobState|StdOut|StdErr|ArrayTask|Command|NumNodes|^$' all | sed 's/^   *//'
scontrol show job "${id}_2" | grep -E 'JobId|JobState' | sed 's/^   *//'
scontrol show job "${id}_1" | grep -E 'JobId|JobState' | sed 's/^   *//'
t scontrol show job "${id}_9"
t scontrol show job "${id}_"
t scontrol show job "${id}_x"
touch go
ended

#: the throttle of an array
job -a 1-4%2 -J throttle <<'X'
touch "up$SLURM_ARRAY_TASK_ID"
while [ ! -e "go$SLURM_ARRAY_TASK_ID" ]; do sleep 0.1; done
X
appears up2
sleep 1
t squeue -S i -h -o '%i %t %R'
t squeue -r -S i -h -o '%i %t %R'
touch go1
appears up3
sleep 1
t squeue -S i -h -o '%i %t %R'
touch go2 go3 go4
ended
t squeue -S i -h -t all -o '%i %T' -j "$id"

#: names of the files of array tasks
job -a 1-2 -o '%A-%a-%x-%4a.out' -e 'e%j_%J.err' <<'X'
echo out
echo err >&2
X
ended
ls

#: scancel one task that waits
job --hold -a 1-5 <<'X'
true
X
t scancel "${id}_3"
t squeue -S i -h -o '%i %t'
t scancel "${id}_[1-2]"
t squeue -S i -h -o '%i %t'
t scancel "${id}_[4,5]"
t squeue -S i -h -o '%i %t'
steps

#: scancel an array that waits
job --hold -a 1-5 <<'X'
true
X
t scancel "$id"
t squeue -S i -h -t all -o '%i %t' -j "$id"
steps

#: scancel one task that runs
job -a 1-3 <<'X'
touch "up$SLURM_ARRAY_TASK_ID"
while [ ! -e go ]; do sleep 0.1; done
X
appears up3
t scancel "${id}_2"
sleep 1
t squeue -S i -h -o '%i %t'
touch go
ended
states
steps
tail -n 1 slurm-"$id"_2.out

#: scancel an array that runs and waits
job -a 1-4%2 <<'X'
touch "up$SLURM_ARRAY_TASK_ID"
while [ ! -e go ]; do sleep 0.1; done
X
appears up2
t scancel "$id"
ended
t squeue -S i -h -t all -o '%i %T' -j "$id"
steps

#: scancel of tasks that are none
job --hold -a 1-3 <<'X'
true
X
t scancel "${id}_9"
t scancel "${id}_x"
t scancel "${id}_"
t scancel "${id}_[1-"
t scancel "${id}_[7-9]"
t scancel "${id}_2"
t scancel "${id}_1" "${id}_3"
t squeue -h -o %i

#: a signal to a task of an array
job -a 1-2 <<'X'
trap 'echo got it; exit 0' USR1
touch "up$SLURM_ARRAY_TASK_ID"
while [ ! -e go ]; do sleep 0.1; done
X
appears up1
appears up2
t scancel -b -s USR1 "${id}_1"
appears slurm-"$id"_1.out
ended "${id}_1"
touch go
ended
log slurm-"$id"_{1,2}.out

#: afterok of an array
job --hold -a 1-2 <<'X'
true
X
array=$id
t sbatch -d "afterok:$array" --wrap 'touch ran'
reason
show Dependency
t squeue -h -o '%i %E' -j "$id"
t scontrol release "$array"
ended
states

#: afterok of an array of which one fails
job -a 1-2%1 --hold <<'X'
[ "$SLURM_ARRAY_TASK_ID" = 2 ]
X
array=$id
t sbatch -d "afterok:$array" --wrap 'touch ran'
t scontrol release "$array"
ended "$array"
patience 20 bash -c "squeue -h -o %r -j $id | grep -q DependencyNever"
reason "$id"

#: an array that waits for a job
job --hold <<'X'
true
X
first=$id
t sbatch -a 1-2 -d "afterok:$first" --wrap 'echo $SLURM_ARRAY_TASK_ID'
sleep 1
reason "$id"
t scontrol release "$first"
ended
states

#: sacct of an array
job -a 1-3 -J counted <<'X'
srun true
exit $((SLURM_ARRAY_TASK_ID - 1))
X
ended
patience 15 accounted "$id"
t sacct -n -P -j "$id" -o jobid,jobidraw,jobname,state,exitcode
t sacct -n -P -X -j "$id" -o jobid,jobidraw,state
t sacct -n -P -X -j "${id}_2" -o jobid,jobidraw,state
t sacct -n -P -j "${id}_3" -o jobid
t sacct -n -P -j "${id}_3.0" -o jobid
t sacct -n -P -X -j "${id}_9" -o jobid
t sacct -n -P -X -j "${id}_1,${id}_3" -o jobid
t sacct -n -P -X -j "${id}_x" -o jobid

#: sbatch --wait with an array
t sbatch --wait -a 0-2 --wrap 'exit $SLURM_ARRAY_TASK_ID'
t sbatch --wait -a 1-2 --wrap 'true'

#: an array and a time limit
job -a 1-2 -t 1 -N2 --signal=USR1@30 <<'X'
echo "$SLURM_ARRAY_TASK_ID $SLURM_NNODES $SLURM_JOB_NODELIST"
X
ended
log slurm-"$id"_{1,2}.out

#: srun --jobid of an array task
job -a 1-2 <<'X'
touch "up$SLURM_ARRAY_TASK_ID"
while [ ! -e go ]; do sleep 0.1; done
X
appears up2
t srun --overlap --jobid="${id}_1" -n1 bash -c 'echo $SLURM_ARRAY_TASK_ID'
touch go
ended
