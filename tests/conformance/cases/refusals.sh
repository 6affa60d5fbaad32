# What is refused at once, in which words, and with which exit code.

#: partitions that are not there
script job.sh <<<'#!/bin/bash'
t sbatch -p nopart job.sh
t sbatch -p course,nopart job.sh
t sbatch -p '' job.sh
t srun -p nopart true

#: more nodes than there are
script job.sh <<<'#!/bin/bash'
t sbatch -N3 job.sh
t sbatch -N3-5 job.sh
t srun -N3 true
t sbatch -N3 --gpus-per-node=1 job.sh

#: node counts that are none
script job.sh <<<'#!/bin/bash'
t sbatch -N0 job.sh
t sbatch -Nx job.sh
t sbatch -N-1 job.sh
t sbatch -N2-1 job.sh
t sbatch -N1.5 job.sh
t sbatch --nodes= job.sh
t srun -Nx true

#: task counts that are none, or too many
script job.sh <<<'#!/bin/bash'
t sbatch -n0 job.sh
t sbatch -nx job.sh
t sbatch -n-1 job.sh
t sbatch -n17 job.sh
t sbatch -N1 -n9 job.sh
t srun -n0 true
t srun -n17 true

#: tasks per node that are none, or too many
script job.sh <<<'#!/bin/bash'
t sbatch --ntasks-per-node=9 job.sh
t sbatch --ntasks-per-node=x job.sh
t sbatch --ntasks-per-node=-1 job.sh
t sbatch -N2 --ntasks-per-node=4 --cpus-per-task=3 job.sh

#: CPUs per task that are none, or too many
script job.sh <<<'#!/bin/bash'
t sbatch -c9 job.sh
t sbatch -c0 job.sh
t sbatch -cx job.sh
t srun -c9 true

#: more devices than there are
script job.sh <<<'#!/bin/bash'
t sbatch -G5 job.sh
t sbatch --gpus-per-node=3 job.sh
t sbatch --gres=gpu:3 job.sh
t sbatch -N2 --gres=gpu:3 job.sh
t sbatch --gpus-per-task=3 -n1 job.sh
t sbatch --gpus-per-task=1 -n5 job.sh
t srun --gpus=5 true

#: devices that are none
script job.sh <<<'#!/bin/bash'
t sbatch --gpus-per-task=1 job.sh
t sbatch --gres=tpu:1 job.sh
t sbatch --gres=gpu:a100:1 job.sh
t sbatch --gpus=a100:1 job.sh
t sbatch --cpus-per-gpu=x job.sh

#: more memory than there is, and none
script job.sh <<<'#!/bin/bash'
t sbatch --mem=20000 job.sh
t sbatch --mem=20G job.sh
t sbatch --mem=x job.sh
t sbatch --mem=10Q job.sh
t sbatch --mem-per-cpu=x job.sh

#: time limits that are none, or too long
script job.sh <<<'#!/bin/bash'
t sbatch -t x job.sh
t sbatch -t 1:2:3:4 job.sh
t sbatch -t 2-00 job.sh
t sbatch -t UNLIMITED job.sh
t sbatch -t 0 job.sh
t sbatch -t '' job.sh
t srun -t x true
t srun -t 2-00 true

#: nodes by name that are not there
script job.sh <<<'#!/bin/bash'
t sbatch -w node9 job.sh
t sbatch -x node9 job.sh
t sbatch -w node1,node9 job.sh
t srun -w node9 true

#: nodes by name that contradict the count
script job.sh <<<'#!/bin/bash'
t sbatch -w node1,node2 -N1 job.sh
t sbatch -x node1,node2 job.sh
t sbatch -x node1 -N2 job.sh
t sbatch -x node1 -w node1 job.sh

#: features and reservations that are not there
script job.sh <<<'#!/bin/bash'
t sbatch -C nofeature job.sh
t sbatch --constraint='a100&nvlink' job.sh
t sbatch --reservation=nores job.sh
t srun -C nofeature true

#: dependencies that are none
script job.sh <<<'#!/bin/bash'
t sbatch -d afterok job.sh
t sbatch -d bogus:1 job.sh
t sbatch -d afterok:x job.sh
t sbatch -d afterok: job.sh
t sbatch -d ,afterok:1 job.sh

#: begin times that are none
script job.sh <<<'#!/bin/bash'
t sbatch --begin=x job.sh
t sbatch --begin=now+x job.sh
t sbatch --begin=25:00 job.sh
t sbatch --begin=2020-13-01 job.sh

#: options that nobody knows
script job.sh <<<'#!/bin/bash'
t sbatch --nosuchoption job.sh
t sbatch --nosuchoption=3 job.sh
t sbatch -Z job.sh
t sbatch -JZ -Z job.sh
t srun --nosuchoption true
t srun -Z true

#: options that are ambiguous, or lack their value
script job.sh <<<'#!/bin/bash'
t sbatch --no job.sh
t sbatch --out job.sh --hold
t sbatch --gpus-per job.sh
t sbatch --wrap
t sbatch job.sh --wrap
t sbatch --hold=yes job.sh

#: options may be shortened as long as they are clear
job --job-na=short --ntasks-per-n=2 --chd=/tmp <<'X'
echo $SLURM_JOB_NAME $SLURM_NTASKS $PWD >"$SLURM_SUBMIT_DIR/log"
X
ended
log log

#: signals that are none
script job.sh <<<'#!/bin/bash'
t sbatch --signal=x job.sh
t sbatch --signal=USR1@x job.sh
t sbatch --signal=FOO@10 job.sh
t sbatch --signal=B: job.sh
t sbatch --signal=Z:USR1 job.sh

#: other values that are none
script job.sh <<<'#!/bin/bash'
t sbatch --open-mode=x job.sh
t sbatch --mail-type=foo job.sh
t sbatch --exclusive=x job.sh
t sbatch -m bogus job.sh
t sbatch --hint=foo job.sh
t srun -m bogus true
t srun --kill-on-bad-exit=x true
t srun --open-mode=x true

#: srun without a command, and with one that is not there
t srun
t srun -N2
t srun nosuchcommand
t srun ./nosuchfile
t srun /tmp

#: srun in a job that is not there
t srun --jobid=99999999 true
t srun --jobid=x true
env SLURM_JOB_ID=99999999 srun true 2>&1 | indented '  '

#: scancel of what is not there
t scancel 99999999
t scancel -v 99999999
t scancel x
t scancel
t scancel ''
t scancel -u nosuchuser
t scancel -n nosuchname
t scancel -t bogus
t scancel -p nopart
t scancel --nosuch 1
t scancel -s BOGUS 99999999
t scancel 99999999.0
t scancel 99999999_1

#: squeue asked for what is not there
t squeue -j 99999999
t squeue -j x
t squeue -t BOGUS
t squeue -u nosuchuser
t squeue -p nopart
t squeue -n nosuchname
t squeue -w node9
t squeue -A noaccount
t squeue --nosuch
t squeue -S bogus
t squeue -O bogus
t squeue extra

#: sinfo asked for what is not there
t sinfo -n node9
t sinfo -p nopart
t sinfo -t bogus
t sinfo -O bogus
t sinfo --nosuch

#: scontrol asked for what is not there
t scontrol bogus
t scontrol show
t scontrol show bogus
t scontrol show job 99999999
t scontrol show job x
t scontrol show node node9
t scontrol show partition nopart
t scontrol show step 99999999
t scontrol hold 99999999
t scontrol release 99999999
t scontrol hold
t scontrol requeue 99999999
t scontrol update jobid=99999999 timelimit=5
t scontrol update
t scontrol update bogus=1

#: sacct asked for what is not there
t sacct -j 99999999
t sacct -n -j 99999999
t sacct -P -j 99999999
t sacct -j x
t sacct -o bogus
t sacct --format=jobid,state,bogus
t sacct -s bogus
t sacct -S bogus
t sacct --nosuch

#: versions
for command in sbatch srun squeue scancel sinfo scontrol sacct; do
    t $command --version
    t $command -V
done

#: a code of one's own for errors of Slurm
export SLURM_EXIT_ERROR=77
t sbatch -N9 --wrap true
t srun -N9 true
t srun -n1 bash -c 'exit 3'
t sbatch --nosuch --wrap true
t srun --nosuch true
t salloc -N9 true
t squeue -j 99999999
t scancel 99999999
t sacct -o bogus
SLURM_EXIT_ERROR=0 t sbatch -N9 --wrap true
SLURM_EXIT_ERROR=x t sbatch -N9 --wrap true
SLURM_EXIT_ERROR=300 t sbatch -N9 --wrap true

#: places of tasks in a file
printf 'node2\nnode1\nnode2\n' >places
t sbatch -W -o o -N2 -n4 --wrap 'SLURM_HOSTFILE=places srun -n3 -l hostname 2>&1 | sort'
cat o
SLURM_HOSTFILE=places t srun -n3 -l hostname
