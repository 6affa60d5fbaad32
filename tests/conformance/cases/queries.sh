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
for letter in a A c C D f F g G h l m M n N p P r R s S t T w X Y z Z; do
    printf '%s ' $letter
    sinfo -o "[%$letter]" | paste -sd ' '
done

#: widths and justification in formats of sinfo
t sinfo -o '[%10P|%.10P|%-10P|%3P|%.3N|%P]'
t sinfo -h -o '%20N%t'
t sinfo -o 'text %N % %%'
t sinfo -o ''

#: long formats of sinfo
t sinfo -O NodeList,Gres,CPUsState,StateLong
t sinfo -h -O 'NodeHost:10,StateCompact:8,Memory:10,CPUs:5'
t sinfo -O partition,time,nodes,nodeaiot
t sinfo -O 'nodelist:6,partition'

#: nodes one by one, and by state
t sinfo -n node1
t sinfo -N -h -n node2
t sinfo -h -n node1,node2
t sinfo -t idle
t sinfo -t alloc
t sinfo -h -t idle,mix,alloc -o '%t %N'
t sinfo -p course -h
t sinfo -d
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
for letter in a A b B c C d D E f F g h H i I j J k l m n N o O P q r R s t T u v w W x X Y z Z; do
    printf '%s ' $letter
    squeue -o "[%$letter]" | paste -sd ' '
done
touch go

#: widths and justification in formats of squeue
job --hold -J 'abcdefghijklmnop' <<'X'
true
X
t squeue -o '[%5j|%.5j|%20j|%.20j|%j]'
t squeue -o '%i;%.8T;%-12T;'
t squeue -h -o 'job %i is %T since %% %'
t squeue -h -o ''
t squeue -o '%.18i %.9P %.8j %.8u %.2t %.10M %.6D %R'

#: long formats of squeue
job --hold -J named -A physics -t 10 -N2 --gpus-per-node=1 <<'X'
true
X
t squeue -O JobID,Name,State,Reason
t squeue -h -O 'jobid:10,name:12,statecompact:4,timelimit:8,numnodes:3,reasonlist:20'
t squeue -O 'jobid:.10,name:.12'
t squeue -O partition,username,account,numcpus,numtasks,tres-per-node:30
t squeue -O 'tres-alloc:50,minmemory,dependency'
SQUEUE_FORMAT2=jobid,state t squeue

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

#: squeue by name, user, node, partition, account, id
job -J one -A physics -w node1 <<'X'
touch up
while [ ! -e go ]; do sleep 0.1; done
X
appears up
t sbatch --hold -J two --wrap true
t squeue -h -o '%j' -n one
t squeue -h -o '%j' -n one,two -S j
t squeue -h -o '%j' -u "$USER" -S j
t squeue -h -o '%j' -u nobody
t squeue -h -o '%j' -w node1
t squeue -h -o '%j' -w node2
t squeue -h -o '%j' -p course -S j
t squeue -h -o '%j' -A physics
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

#: squeue of steps
job -J stepped -n2 <<'X'
srun -n1 --exact -J inner bash -c 'touch up; while [ ! -e go ]; do sleep 0.1; done'
X
appears up
patience 20 bash -c "squeue -h -s | grep -q '[.]0'"
t squeue -s
t squeue -h -s -o '%i %j %u %N'
touch go

#: squeue --start
job --hold <<'X'
true
X
t squeue --start

#: squeue of jobs that have ended
job -J gone <<'X'
exit 4
X
ended
t squeue -j "$id"
t squeue -h -j "$id" -t all -o '%i %j %t %T %r %N %D'

#: a whole page of scontrol show job: pending
job --hold -J page -N2 --ntasks-per-node=2 -c2 --gpus-per-node=1 -t 10 -A physics --comment=note \
    -o out.txt -e err.txt --mem=1000 --nice=10 <<'X'
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

#: scontrol show job with devices, details
job -N2 --gpus-per-node=2 <<'X'
touch up
while [ ! -e go ]; do sleep 0.1; done
X
appears up
t scontrol -d show job "$id"
touch go

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

#: scontrol show partition
t scontrol show partition
t scontrol show partition course
t scontrol -o show partition course

#: scontrol show config, the lines one looks for
scontrol show config | grep -E '^(ClusterName|KillWait|SelectType|SchedulerType|SLURM_VERSION|GresTypes|PriorityType|ReturnToService|MinJobAge|FirstJobId|EnforcePartLimits|ProctrackType|TaskPlugin|MpiDefault|OverTimeLimit|MaxArraySize|DefMemPerNode|JobRequeue) '

#: scontrol ping and version
t scontrol ping
t scontrol version

#: scontrol show step
job -n2 -J stepped <<'X'
srun -n1 --exact -J inner bash -c 'touch up; while [ ! -e go ]; do sleep 0.1; done'
X
appears up
t scontrol show step "$id.0"
touch go

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
t sacct -j "$id" -P -o JobIDRaw,User,NNodes,NTasks,NCPUS,ReqCPUS,NodeList,Timelimit,DerivedExitCode
t sacct -j "$id" -P -o alloctres,reqtres
t sacct -j "$id" -P -X -o workdir,cluster,qos,reason,submitline
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
t sacct -n -P -X -o jobname,state -N node1 -j "$id"
t sacct -n -P -X -o jobname,state -A physics -j "$id"

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

#: fields that sacct knows
t sacct -e

#: letters by which squeue sorts, and which it refuses
t sbatch --hold -J bb -t 5 -N2 --wrap true
t sbatch --hold -J aa -t 9 --wrap true
for letter in a i j k l o q x y A D K R W Y Z; do
    echo "$letter $(squeue -h -o %j -S "$letter" 2>&1 | paste -sd ' ')"
done
t squeue -h -o %j -S i -P

#: variables and filters of squeue that few use
t sbatch --hold -J one -A physics --wrap true
t sbatch --hold -J two --wrap true
SQUEUE_NAMES=one t squeue -h -o %j
SQUEUE_LICENSES=x t squeue -h -o %j
t squeue -h -o %j -L x
t squeue -h -o %j -n two --priority

#: sinfo counts a node that is partly in use as allocated
job -w node1 <<'X'
touch up
while [ ! -e go ]; do sleep 0.1; done
X
appears up
t sinfo -h -t allocated -o '%N %t'
t sinfo -h -t idle,alloc -o '%N %t'
t sinfo -h -t mixed -o '%N %t'
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

#: sacct by state, at a moment and in a window
job -J good <<'X'
true
X
job -J bad <<'X'
false
X
steps
all=$(joined "${ids[@]}")
for window in '' '-S now-1hour' '-E now' '-S now-1hour -E now'; do
    for state in CD F R CD,F; do
        [[ $window == *-S*-E* ]] || # in which other jobs of the cluster ended
            echo "$state $window: $(sacct -s $state $window -X -n -P -o jobname | paste -sd ' ')"
        echo "$state $window -j: $(sacct -s $state $window -X -n -P -o jobname -j "$all" | paste -sd ' ')"
    done
done

#: sacct asked in ways that few know
job -J first <<'X'
srun true
X
job -J second <<'X'
true
X
steps
t sacct -X -n -P -j "${ids[0]}" -j "${ids[1]}" -o jobname
t sacct -X -n -P -j "${ids[0]}.0" -o jobname
t sacct -X -n -P --delimiter= -j "${ids[0]}" -o jobname,state
t sacct -S tomorrow -n
t sacct -S now -E now-1hour -n
t sacct -S 2020-13-01 -n
t sacct -S 0101 -X -n -P -o jobname -j "${ids[0]}"

#: runs of a job that was requeued
job -J again --requeue <<'E'
touch up-$SLURM_RESTART_COUNT
sleep 60
E
appears up-
sleep 2
t scontrol requeue $id
because BeginTime
counted() { (($(sacct -D -n -X -j $id -o jobid | wc -l) == $1)); }
patience 15 counted 2
t sacct -D -n -P -X -j $id -o jobid,state
t sacct --duplicates -n -P -j $id -o jobid,state
t scontrol update jobid=$id starttime=now
appears up-1
sleep 2
t scancel $id
ended
sleep 2
t sacct -n -P -j $id -o jobid,state
t sacct -D -n -P -j $id -o jobid,jobname,state,exitcode

#: the time limit of a step
job -n2 -t 10 <<'E'
srun -n1 --exact -t 5 sleep 60 &
srun -n1 --exact sleep 60 &
touch up
wait
E
appears up
stepped() { (($(squeue -s -h -j $id -o %i | wc -l) == 3)); }
patience 20 stepped
scontrol show step $id | grep -oE 'TimeLimit=.*' | sort
squeue -s -h -j $id -o '%j %l' | sort
t scancel $id
ended

#: blanks in lists of fields and jobs
t sbatch -W -J one --wrap true
t sacct -n -P -X -j $id '--format=JobID, State'
t sacct -n -P -X -j $id -o 'jobid ,state'
t sacct -n -P -X -j "$id, $id" -o jobid
t squeue -h -t all -j "$id, $id" -o %j
t squeue -h -t all -j " $id" -o %j
t squeue -h -t all -j "$id x" -o %j
