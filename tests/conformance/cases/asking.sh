# More ways to ask, and what is answered to those who ask wrongly.

#: squeue asked for many fields
t sbatch --hold -N2 -n4 -c2 -J fields -A physics -t 30 --mem=1G --comment='a note' --nice=5 --gpus-per-node=1 -x '' --wrap true
for field in Account AccrueTime AllocNodes ArrayJobID ArrayTaskID BatchFlag BatchHost Command Comment Contiguous \
    Cores CPUS-per-TRES Dependency DerivedEC EligibleTime EndTime exit_code Feature Gres GroupName JobArrayID JobID \
    LastSchedEval Licenses MaxCPUs MaxNodes MinCpus MinMemory MinTime MinTmpDisk Name Nice \
    NodeList Nodes NTPerNode NumCPUs NumNodes NumTasks OverSubscribe Partition \
    PendingTime Priority QOS Reason ReasonList ReqNodes Requeue Reservation RestartCnt \
    SchedNodes SCT SelectJobInfo StartTime State StateCompact STDERR STDIN STDOUT StepID StepName StepState TimeLeft \
    TimeLimit TimeUsed tres-per-job tres-per-node tres-per-step tres-per-task UserName WCKey \
    WorkDir threads; do
    printf '%s ' $field
    squeue -h -O "$field:60" 2>&1 | sed 's/ *$//' | paste -sd ' '
done | grep -vE '^(AccrueTime|EligibleTime|PendingTime|LastSchedEval|Priority|AllocNodes|SubmitTime|UserID|GroupID) '

#: squeue -O: widths, letters, what it does not know
t sbatch --hold -J abcdefghijklmnop --wrap true
t squeue -O 'JobID:8,Name:5,Name:.5,State'
t squeue -O 'jobid,nosuch,name'
t squeue -h -O 'name:0'
t squeue -O 'jobid: ,name:x'
t squeue -o '%.i|%.3i|%-3i|%3.i|%x'
t squeue -o $'a\tb\\n%j'

#: squeue: what is chosen and how
job -J up -n2 -A physics <<'E'
touch up
while [ ! -e go ]; do sleep 0.1; done
E
appears up
t sbatch --hold -J held -p course --wrap true
t squeue -h -o %j -t R,PD -S j
t squeue -h -o %j -t running -t pending
t squeue -h -o %j -j ${ids[0]},${ids[1]} -S -j
t squeue -h -o %j --jobs=${ids[1]}
t squeue -h -o %j -n up,held -S j
t squeue -h -o %j --name=up
t squeue -h -o %j -w node1
t squeue -h -o %j --nodelist=node2
t squeue -h -o %j -A physics
t squeue -h -o %j -u root,nobody -S j
t squeue -h -o %j -p course,other -S j
t squeue -h -o %j -q normal -S j
t squeue -h -o %j -R none
t squeue -h -o %j -a -r -S j
t squeue -h -o '%j %T' -S T,j
t squeue -h -o '%j %T' -S -T,-j
t squeue -h -s -o '%j %i'
t squeue -hs -j ${ids[0]} -o '%j %N'
t squeue -V
touch go

#: sinfo in more forms
t sinfo -o '%P %a %l %D %t %N'
t sinfo -o '%n %c %m %G %O' -h | sed 's/ [^ ]*$//'
t sinfo -h -o '%5D|%.5D|%-5D'
t sinfo -h -N -o '%N %T' -S -N
t sinfo -h -o '%A %F %C %z %X %Y %Z'
t sinfo -h -p nosuch
t sinfo -h -n 'node[1-2]' -N -o %N
t sinfo -h -t IDLE -o %N
t sinfo -h -t down,drain -o %N
t sinfo --partition=course --noheader --format=%R
t sinfo -h -O nodelist,gresused,cpusstate
t sinfo -lNe -h
t sinfo -s -h
t sinfo -h -r -o %N
t sinfo -T

#: scontrol: abbreviations, letters of any kind, many at once
t sbatch --hold -J abbreviated --wrap true
one=$id
t sbatch --hold -J second --wrap true
scontrol SHOW JOB $one | grep -o 'JobName=.*' | indented '  '
scontrol sho j $one | grep -o 'JobName=.*' | indented '  '
scontrol show jobs $one | grep -o 'JobName=.*' | indented '  '
scontrol show job=$one | grep -o 'JobName=.*' | indented '  '
scontrol show jobid $one 2>&1 | grep -oE 'JobName=.*|invalid.*' | indented '  '
scontrol -do show job $one | grep -o 'JobName=[^ ]*' | indented '  '
scontrol show job $one,$id 2>&1 | grep -oE 'JobName=.*|invalid.*|Invalid.*' | indented '  '
scontrol show job $one extra 2>&1 | grep -oE 'JobName=.*|too many.*' | indented '  '
t scontrol hold $one,$id
t scontrol release $one $id
t scontrol hold jobid=$one
t scontrol uhold $one
t scontrol show licenses
t scontrol show reservation
t scontrol show daemons
t scontrol show aliases
t scontrol show bogus thing

#: scontrol: what it changes in a waiting job
t sbatch --hold -J before -t 10 --wrap true
t scontrol update job=$id name=after
t scontrol update jobid=$id jobname=again comment='two words'
t scontrol update JobId=$id NumNodes=2
t scontrol update JobId=$id NumTasks=4 NumCPUs=4
t scontrol update JobId=$id Partition=nosuch
t scontrol update JobId=$id StartTime=now+1hour
t scontrol update JobId=$id EligibleTime=bogus
t scontrol update JobId=$id Dependency=afterok:1
t scontrol update JobId=$id Nice=10
t scontrol update JobId=$id Requeue=0
t scontrol update JobId=$id ReqNodeList=node2
t scontrol update JobId=$id ExcNodeList=nosuch
t scontrol update JobId=$id Bogus=1
t scontrol update JobId=$id Priority=x
t scontrol update Name=x
show JobName Comment NumNodes NumTasks Nice Requeue ReqNodeList

#: scontrol: what it changes elsewhere, or its refusal
t scontrol update NodeName=nosuch State=DRAIN Reason=x
t scontrol update PartitionName=nosuch State=DOWN
t scontrol create ReservationName=x
t scontrol delete ReservationName=x
t scontrol bogus
t scontrol update

#: scontrol requeue, in every state
t sbatch --hold -J held --wrap true
t scontrol requeue $id
job -J done <<'E'
true
E
ended $id
t scontrol requeuehold $id
reason $id
t scontrol release $id
job -J norequeue --no-requeue <<'E'
touch up
while [ ! -e go ]; do sleep 0.1; done
E
appears up
t scontrol requeue $id
t scontrol requeue $id,99999999
t scontrol requeue
touch go

#: sacct in more forms
job -J forms -n2 -A physics --comment='of mine' <<'E'
srun -J inner true
srun -n1 -J broken false
code=$?
sleep 1 # a busy controller may hear of the job's end before the step's, and then derives 0:0
exit $code
E
steps
t sacct -n -P -j "$id" -o jobid,jobname,ntasks,alloccpus,state
t sacct -nPX -j "$id" --format=JobID,JobName%3,Account,Comment
t sacct -n -p -j "$id" --delimiter=';' -o jobid,state
t sacct -b -n -j "$id"
t sacct -n -P -j "$id.0,$id.batch" -o jobid,state
t sacct -n -P -j "$id.9" -o jobid,state
t sacct -nPX -j "$id" --state=f -S now-1day -E now+1day -o state
t sacct -nPX --name=nosuch -o jobname
t sacct -nPX -j "$id" -r course -o partition
t sacct -nPX -j "$id" -r nosuch -o partition
t sacct -nPX -j "$id" -N node2 -o nodelist
t sacct -nPX -j "$id" -N node1 -o nodelist
t sacct -nPX -j "$id" -u nobody -o user
t sacct -nPX -j "$id" -a -o user
t sacct -nPX -j "$id" -D -o jobname
t sacct -nPX -j "$id" -i 1-2 -o nnodes
t sacct -nPX -j "$id" -o jobid,bogus
t sacct -nPX -j "$id,x" -o state
t sacct -nPX -j "$id" -o exitcode,derivedexitcode,reqnodes,timelimitraw,constraints,group,uid

#: scancel in more forms
t sbatch --hold -J one --wrap true
t sbatch --hold -J two --wrap true
t sbatch --hold -J three -A physics --wrap true
t scancel --name two --user nobody
t scancel -A physics -t PD
t scancel -Q 99999999
t scancel -f ${ids[0]}
t scancel -b ${ids[0]}
t scancel -s INT ${ids[0]}
t scancel -s 0 ${ids[0]}
t scancel ${ids[0]}.0
t scancel ${ids[0]}_1
t scancel "${ids[0]},${ids[1]}"
t scancel --wckey=x
t scancel -w node9
t scancel --ctld ${ids[0]}
states

#: several words and letters at once
job -J joined <<'E'
touch up
while [ ! -e go ]; do sleep 0.1; done
E
appears up
t squeue -ho%j
t squeue -hlj$id -o %j
t sinfo -hN -o%N -nnode1
t scontrol -o show hostnames node1
t squeue --format=%j --noheader
t squeue --format %j --noh
t squeue --n=joined -h -o %j
t squeue -h -o%j -- 
touch go

#: scontrol show of what a small cluster has not
for entity in bbstat burstbuffer dwstat federation frontend nosuch; do t scontrol show $entity; done
