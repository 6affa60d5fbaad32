# Jobs that are changed after their submission: scontrol update.

#: memory of a waiting job is changed
job --hold --mem=100M <<'X'
true
X
t scontrol update jobid="$id" minmemorynode=200
show MinMemoryNode TRES
t scontrol update jobid="$id" MinMemoryNode=1G
show MinMemoryNode TRES
t scontrol update jobid="$id" minmemorycpu=50
show MinMemoryNode MinMemoryCPU TRES
t scontrol update jobid="$id" minmemorynode=x

#: CPUs of a waiting job are changed
job --hold -n2 <<'X'
true
X
t scontrol update jobid="$id" cpuspertask=2
show NumTasks CPUs/Task
t scontrol update jobid="$id" mincpusnode=5
show MinCPUsNode
t scontrol update jobid="$id" numtasks=3
show NumTasks CPUs/Task
t scontrol update jobid="$id" cpuspertask=x

#: the end time of a running job is changed
job -t 10 <<'X'
touch up
while [ ! -e go ]; do sleep 0.1; done
X
appears up
t scontrol update jobid="$id" endtime=now+5minutes
t squeue -h -o %l -j "$id"
t scontrol update jobid="$id" endtime=now+3hours
t squeue -h -o %l -j "$id"
t scontrol update jobid="$id" endtime=bogus
touch go

#: the end time of a waiting job is changed
job --hold -t 10 <<'X'
true
X
t scontrol update jobid="$id" endtime=now+5minutes
t squeue -h -o %l -j "$id"

#: several fields at once, of which one is refused
job --begin=now+1hour <<'X'
true
X
t scontrol update jobid="$id" timelimit=9 jobname=both comment=three nice=4
t squeue -h -o '%l %j %k %y' -j "$id"
t scontrol update jobid="$id" timelimit=8 partition=nosuch
t squeue -h -o '%l %P' -j "$id"
t scontrol update jobid="$id" timelimit=7 bogus=1
t squeue -h -o '%l' -j "$id"
t scontrol update timelimit=6 jobid="$id"
t squeue -h -o '%l' -j "$id"
t scontrol update job "$id" timelimit=5 name=last
t squeue -h -o '%l %j' -j "$id"
t scontrol update jobid="$id"

#: a priority of 0 holds, another releases
job --begin=now+1hour <<'X'
true
X
sleep 1
t scontrol update jobid="$id" priority=0
sleep 1
t squeue -h -o '%r %Q' -j "$id"
t scontrol update jobid="$id" priority=100
sleep 1
t squeue -h -o '%r %Q' -j "$id"
t scontrol hold "$id"
t scontrol update jobid="$id" priority=50
sleep 1
t squeue -h -o '%r %Q' -j "$id"
t scontrol release "$id"
t scontrol update jobid="$id" priority=x

#: fields of a running job that cannot be changed any more
job <<'X'
touch up
while [ ! -e go ]; do sleep 0.1; done
X
appears up
for change in numnodes=2 numtasks=2 numcpus=2 partition=course minmemorynode=100 dependency=1 \
    gres=gpu:1 excnodelist=node2 starttime=now+1hour features=x cpuspertask=2 \
    workdir=/tmp stdout=x nice=3 jobname=ran comment=c account=a requeue=0 priority=5 qos=normal \
    mincpusnode=2 contiguous=yes oversubscribe=yes timemin=1 mailuser=me; do
    t scontrol update jobid="$id" "$change"
done
touch go

#: less usual fields of a waiting job
job --hold <<'X'
true
X
for change in contiguous=yes oversubscribe=yes shared=1 timemin=1 mailuser=me licenses=x features=x \
    delayboot=1 switches=1 ntaskspernode=2 tasks=2 sockets=1 network=x extra=x gres=gpu:1 \
    trespernode=gpu:1; do
    t scontrol update jobid="$id" "$change"
done
show TimeMin OverSubscribe

#: an ended job is changed
job <<'X'
true
X
ended
t scontrol update jobid="$id" timelimit=5
t scontrol update jobid="$id" comment=late

#: dependencies that lead back
t sbatch -J a --hold --wrap true
first=$id
t sbatch -J b -d afterok:$first --wrap true
second=$id
t sbatch -J c -d afterany:$second --wrap true
t scontrol update jobid=$first dependency=afterok:$second
t scontrol update jobid=$first dependency=afterany:$id
t scontrol update jobid=$first dependency=afterok:$first
t squeue -h -S j -o '%j %E' -j $first,$second,$id
scancel ${ids[@]}
