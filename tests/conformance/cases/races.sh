# Many at once.

#: 200 jobs from 4 processes: none lost, none run twice, order kept
submitter() {
    local number
    for ((number = 1; number <= 50; number++)); do
        sbatch --parsable -J "p$1" --wrap "echo $1 $number \$SLURM_JOB_ID >>ran" >>"submitted.$1" || echo "failed: $1 $number"
    done
}
for process in 1 2 3 4; do submitter $process & done
wait
cat submitted.? | wc -l
sort -u submitted.? | wc -l
for process in 1 2 3 4; do sort -nc "submitted.$process" && echo "ids of process $process rise"; done
patience 100 bash -c '[[ -z $(squeue -h -o %i) ]]'
wc -l <ran
cut -d ' ' -f 3 ran | sort | uniq -d | wc -l
squeue -h -t all -n p1,p2,p3,p4 -o %T | sort | uniq -c

#: 12 jobs of two whole nodes run one after the other, in the order of their ids
job -N2 --exclusive <<'X'
while [ ! -e go ]; do sleep 0.1; done
X
for process in 1 2 3 4; do
    for number in 1 2 3; do
        sbatch -J turn -N2 --exclusive --wrap 'echo $SLURM_JOB_ID >>order; [ ! -e busy ] || echo overlap >>order; touch busy; rm busy' >/dev/null
    done &
done
sleep 0.1
until (($(squeue -h -n turn | wc -l) == 12)); do sleep 0.2; done
touch go
patience 100 bash -c '[[ -z $(squeue -h -o %i) ]]'
sort -nc order && echo "in order"
wc -l <order

#: jobs submitted by jobs
job <<'X'
for number in 1 2 3; do sbatch -J grandchild -o "child$number" --wrap "echo child $number on \$(hostname)"; done
squeue -h -t all -n grandchild -o %j | sort | uniq -c
X
ended
out
patience 30 bash -c '[[ -z $(squeue -h -o %i) ]]'
cat child?

#: a job that cancels itself
job <<'X'
echo before
scancel $SLURM_JOB_ID
sleep 30
echo after
X
ended
states
sorted "slurm-$id.out"
