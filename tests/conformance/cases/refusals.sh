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
t srun -N3 true
t sbatch -N3 --gpus-per-node=1 job.sh

#: node counts that are none
script job.sh <<<'#!/bin/bash'
t sbatch -N0 job.sh
t sbatch -Nx job.sh
t sbatch -N-1 job.sh
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

#: dependencies that are none
script job.sh <<<'#!/bin/bash'
t sbatch -d afterok job.sh
t sbatch -d bogus:1 job.sh
t sbatch -d afterok:x job.sh
t sbatch -d afterok: job.sh
t sbatch -d ,afterok:1 job.sh

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
t squeue --nosuch
t squeue extra

#: sinfo asked for what is not there
t sinfo -n node9
t sinfo -p nopart
t sinfo --nosuch

#: sacct asked for what is not there
t sacct -j 99999999
t sacct -n -j 99999999
t sacct -P -j 99999999
t sacct -j x
t sacct -s bogus
t sacct -S bogus
t sacct --nosuch

#: versions
for command in sbatch srun squeue scancel sinfo scontrol sacct; do
    t $command --version
    t $command -V
done

#: a value that was forgotten, so that the script is taken for it
printf '#!/bin/bash\n#SBATCH -t nonsense\n' >a.sh
for option in -N -n -t --mem -c -b --signal --mem-per-cpu --ntasks-per-node --mail-type --switches; do
    t sbatch $option a.sh
done
t sbatch -n x a.sh
t sbatch -t x nothere.sh

#: directives that are almost right
for line in '--time = 5' '-nodes 2' '--ntasks 2 foo' '--ntasks=2 foo' '--ntasks' '--mem=4 G' $'-n\u00a02' '-n2 \'; do
    printf '#!/bin/bash\n#SBATCH %s\necho $SLURM_NTASKS\n' "$line" >a.sh
    t sbatch a.sh
done
tell

#: digits of other alphabets are no numbers
for option in '-N ２' '-N ²' '-n ２' '-t ５' '--mem=２G' '--signal=USR1@²' '-c ２' '-a １-2' '-b now+２hours' '-w node１'; do
    # shellcheck disable=SC2086
    t sbatch --hold $option --wrap true
done
t scancel -s ² 5
t squeue -h -u ２

#: ranges of array tasks without brackets
t sbatch --hold -a 1-5 --wrap true
for word in 1-2 1:2 3%1; do t scancel "${id}_$word"; done
t squeue -h -o %i -j "$id"
t scontrol show job "${id}_1-2"

#: empty variables in file names, and a file named none
t sbatch -o none --wrap 'echo hi; echo no >&2'
t sbatch -o NONE -e err.txt --wrap 'echo hi; echo no >&2'
t sbatch -o out.txt -e none -i none --wrap 'cat; echo hi; echo no >&2'
t sbatch -o '' --wrap 'echo hi'
t sbatch -o written.txt -e '' --wrap 'echo hi'
ended
states
ls
log err.txt out.txt
