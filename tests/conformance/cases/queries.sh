# What the commands that ask print, in their default and in chosen forms.

#: an empty cluster
t squeue
t squeue -h
t squeue --me
t squeue -l -h
t sinfo
t sinfo -N
t sinfo -s
t sinfo -l
t sinfo -N -l
t sinfo -h

#: formats of sinfo, letter by letter
for letter in a A c C D F G l m n N P R t T; do
    printf '%s ' $letter
    sinfo -o "[%$letter]" | paste -sd ' '
done

#: nodes one by one, and by state
t sinfo -n node1
t sinfo -N -h -n node2
t sinfo -h -n node1,node2
t sinfo -t idle
t sinfo -t alloc
t sinfo -h -t idle,mix,alloc -o '%t %N'
t sinfo -p course -h
t sinfo -R
t sinfo -e -h

#: squeue in its default form, a pending and a running job
job -N2 -J 'a long name of a job' <<'X'
touch up
while [ ! -e go ]; do sleep 0.1; done
X
appears up
job --hold -J short <<'X'
true
X
t squeue
t squeue -l
t squeue -h
t squeue --noheader --long
touch go

#: formats of squeue, letter by letter
job -N2 -J named -A physics -t 10 --comment=note --gpus-per-node=1 <<'X'
touch up
while [ ! -e go ]; do sleep 0.1; done
X
appears up
for letter in a A b B C D E F i j k l m N o P r R t T u Z; do
    printf '%s ' $letter
    squeue -o "[%$letter]" | paste -sd ' '
done
touch go

#: widths and justification in formats of squeue
job --hold -J 'abcdefghijklmnop' <<'X'
true
X
t squeue -o '[%5j|%.5j|%20j|%.20j|%j]'
t squeue -h -o ''
t squeue -o '%.18i %.9P %.8j %.8u %.2t %.10M %.6D %R'

#: variables of squeue and sinfo
job --hold -J named <<'X'
true
X
SQUEUE_FORMAT='%i %j %T' t squeue
SQUEUE_STATES=RUNNING t squeue -h
SQUEUE_SORT=-i t squeue -h -o %i
SINFO_FORMAT='%N %t' t sinfo
SINFO_PARTITION=nopart t sinfo -h

#: squeue by state
job -J st-running <<'X'
touch up
while [ ! -e go ]; do sleep 0.1; done
X
appears up
t sbatch --hold -J st-pending --wrap true
t sbatch -J st-failed --wrap false
ended "$id"
t squeue -h -o '%j %T' -t PENDING
t squeue -h -o '%j %T' -t pd,r -S j
t squeue -h -o '%j %T' -t RUNNING
t squeue -h -o '%j %T' -t F -n st-failed
t squeue -h -o '%j %T' -t FAILED,CANCELLED -n st-failed
t squeue -h -o '%j %T' -t all -n st-running,st-pending,st-failed -S j
touch go

#: squeue by name, user, partition, id
job -J one -w node1 <<'X'
touch up
while [ ! -e go ]; do sleep 0.1; done
X
appears up
t sbatch --hold -J two --wrap true
t squeue -h -o '%j' -n one
t squeue -h -o '%j' -n one,two -S j
t squeue -h -o '%j' -u "$USER" -S j
t squeue -h -o '%j' -u nobody
t squeue -h -o '%j' -p course -S j
t squeue -h -o '%j' -j "$id"
t squeue -h -o '%j' -j "${ids[0]},${ids[1]}" -S j
t squeue -h -o '%j' --jobs="$id"
t squeue -h -o '%j' --me -S j
touch go

#: orders of squeue
for name in b a c; do t sbatch --hold -J $name --wrap true; done
t squeue -h -o '%i %j'
t squeue -h -o '%i %j' -S j
t squeue -h -o '%i %j' -S -j
t squeue -h -o '%i %j' -S i
t squeue -h -o '%i %j' -S -i
t squeue -h -o '%i %j' --sort=t,-j

#: a whole page of scontrol show job: pending
job --hold -J page -N2 --ntasks-per-node=2 -c2 --gpus-per-node=1 -t 10 -A physics --comment=note \
    -o out.txt -e err.txt --mem=1000 <<'X'
true
X
t scontrol show job "$id"

#: a whole page of scontrol show job: running and ended
job -J page <<'X'
touch up
while [ ! -e go ]; do sleep 0.1; done
exit 3
X
appears up
t scontrol show job "$id"
touch go
ended
t scontrol show job "$id"
t scontrol show jobid "$id"
t scontrol -o show job "$id"

#: scontrol show of all jobs
for name in alpha beta; do t sbatch --hold -J $name --wrap true; done
scontrol show job | grep -E 'JobName=(alpha|beta)'
scontrol show jobs | grep -cE 'JobName=(alpha|beta)'

#: scontrol show node and nodes
t scontrol show node node1
scontrol show nodes | grep NodeName
t scontrol -o show node node2
job -w node2 --gpus=1 -n2 <<'X'
touch up
while [ ! -e go ]; do sleep 0.1; done
X
appears up
scontrol show node node2 | grep -E 'CPUAlloc|State|AllocTRES' | sed 's/CPULoad=.*//'
touch go

#: scontrol show config, the lines one looks for
scontrol show config | grep -E '^(ClusterName|KillWait|SLURM_VERSION|MinJobAge|MaxArraySize) '

#: scontrol ping and version
t scontrol version

#: sacct in its default form
job -J 'a long name' -n2 -A physics <<'X'
srun -J inner true
exit 5
X
steps
t sacct -j "$id"
t sacct -j "$id" -X
t sacct -j "$id" -n
t sacct -j "$id" -P
t sacct -j "$id" -p
t sacct -j "$id" -b
t sacct -X -n -P -j "$id" -o jobid,state

#: columns of sacct
job -J cols -N2 --ntasks-per-node=2 -t 7 -A physics --gpus-per-node=1 <<'X'
srun true
X
steps
t sacct -j "$id" -P -o jobid,jobname,partition,account,alloccpus,state,exitcode
t sacct -j "$id" -P -o JobIDRaw,User,NNodes,NTasks,NCPUS,ReqCPUS,NodeList,Timelimit
t sacct -j "$id" -P -o alloctres
t sacct -j "$id" -P -X -o reason,account
t sacct -j "$id" -n -o 'jobname%3,jobname%-20,state%20,exitcode%3'
t sacct -j "$id" -X -o jobid%30,elapsed,timelimit
t sacct -j "$id" --delimiter=, -P -o jobid,state

#: sacct of a step, of several jobs, of jobs by name and state
job -J one <<'X'
srun true
X
job -J two <<'X'
exit 2
X
steps
t sacct -n -P -o jobname,state -j "${ids[0]}.0"
t sacct -n -P -o jobname,state -j "${ids[0]}.batch"
t sacct -n -P -X -o jobname,state -j "${ids[0]},${ids[1]}"
t sacct -n -P -X -o jobname,state --name=two -j "${ids[0]},${ids[1]}"
t sacct -n -P -X -o jobname,state -s FAILED -j "${ids[0]},${ids[1]}"
t sacct -n -P -X -o jobname,state -s F,CD -S now-10minutes -E now -j "${ids[0]},${ids[1]}"
t sacct -n -P -X -o jobname,state -u "$USER" -j "$id"

#: sacct from a time on
job -J recent <<'X'
true
X
steps
t sacct -n -P -X -o jobname,state --name=recent -S 2020-01-01
t sacct -n -P -X -o jobname,state --name=recent -S now-1hour
t sacct -n -P -X -o jobname,state --name=recent -S 2020-01-01 -E 2020-01-02
t sacct -n -P -X -o jobname,state --name=recent -S 00:00 -E now

#: sacct of pending, running and cancelled jobs
job -J alive <<'X'
touch up
while [ ! -e go ]; do sleep 0.1; done
X
appears up
t sbatch --hold -J waiting --wrap true
t sbatch --hold -J never --wrap true
t scancel "$id"
patience 15 bash -c "sacct -n -P -X -o state -j ${ids[0]} | grep -q RUNNING"
patience 15 bash -c "sacct -n -P -X -o state -j ${ids[2]} | grep -q CANC"
patience 15 bash -c "sacct -n -P -X -o state -j ${ids[1]} | grep -q PEND"
t sacct -n -P -X -o jobname,state,exitcode,nodelist,alloccpus -j "${ids[0]},${ids[1]},${ids[2]}"
t sacct -X -j "${ids[0]},${ids[1]},${ids[2]}"
touch go

#: times as SLURM_TIME_FORMAT has them
job <<'X'
true
X
steps
SLURM_TIME_FORMAT=year%Y t sacct -X -n -P -j "$id" -o start,end
SLURM_TIME_FORMAT=standard t sacct -X -n -P -j "$id" -o start
SLURM_TIME_FORMAT=year%Y squeue -h -t all -o '%S %V' -j "$id"
SLURM_TIME_FORMAT=year%Y scontrol show job "$id" | grep -oE '(Submit|Start)Time=[^ ]*'

#: sinfo and sacct asked for nobody and nothing
for format in %N '%N %T' '%P %D' '%R' '%n %P' '%a %l'; do
    for choice in '-n node9' '-t down' '-p gpu' --nodes= '-n node[1-'; do
        # shellcheck disable=SC2086
        t sinfo -h $choice -o "$format"
    done
done
for choice in -N -s -R; do t sinfo -h -n '' $choice; done
for users in '' ,; do t sacct -n -X -u "$users"; done
