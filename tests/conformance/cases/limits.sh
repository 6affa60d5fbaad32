# Time limits. Their unit is a minute, so all that takes one happens in one case.

#: the limit ends jobs: plain, trapped, with a step, deaf, warned by --signal (a minute)
longest=110
cat >plain.sh <<'X'
#!/bin/bash
echo start
sleep 200
X
cat >trapped.sh <<'X'
#!/bin/bash
trap 'echo got TERM; exit 3' TERM
sleep 200 &
wait
X
cat >step.sh <<'X'
#!/bin/bash
trap '' TERM
srun bash -c 'trap "echo task got TERM; exit 4" TERM; sleep 200 & wait' 2>/dev/null
echo "step ended"
X
cat >deaf.sh <<'X'
#!/bin/bash
trap '' TERM
while :; do sleep 0.2; done
X
cat >deafstep.sh <<'X'
#!/bin/bash
srun bash -c 'trap "" TERM; while :; do sleep 0.2; done' 2>/dev/null
X
cat >warned.sh <<'X'
#!/bin/bash
#SBATCH --signal=B:USR1@30
trap 'echo warned; exit 0' USR1
sleep 200 &
wait
X
cat >warnedstep.sh <<'X'
#!/bin/bash
#SBATCH --signal=USR2@40
trap 'echo the script is not warned' USR2
srun bash -c 'trap "echo task warned; exit 0" USR2; while :; do sleep 0.2; done'
echo "step ended with $?"
X
for name in plain trapped step deaf deafstep warned warnedstep; do t sbatch -t 1 -J $name $name.sh; done
t squeue -h -o '%j %l' -S j # unsorted, the order depends on which started first
ended
states
for one in "${ids[@]}"; do sorted "slurm-$one.out"; done
steps

#: ways to write a time limit
for limit in 5 5:30 1:30:00 0-1 0-1:30 0-1:30:10 90 23:59:59; do
    t sbatch --hold -t $limit --wrap true
    show TimeLimit
    squeue -h -o %l -j "$id"
done

#: seconds are rounded up to minutes
for limit in 0:1 0:59 0:60 0:61 00:00:01; do
    t sbatch --hold -t $limit --wrap true
    show TimeLimit
done

#: the limit of the partition, when none is given
t sbatch --hold --wrap true
show TimeLimit
squeue -h -o '%l %L' -j "$id"
