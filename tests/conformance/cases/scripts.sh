# What sbatch makes of the text of a script.

#: a script says hello and is COMPLETED
job <<'X'
echo hello from $(hostname)
X
tell
steps

#: the exit code of the last command is that of the job
job <<'X'
false
exit 7
X
tell
steps

#: a script killed by a signal of its own
job <<'X'
kill -9 $$
X
tell
steps

#: a segmentation fault is told as signal 11
job <<'X'
ulimit -c 0
kill -SEGV $$
X
tell

#: set -e ends the script at the first failure
job <<'X'
set -e
echo one
false
echo two
X
tell

#: directives before the first command count
job <<'X'
#SBATCH --job-name=early
#SBATCH -N 2
# a comment between

#SBATCH --comment=late-but-valid
echo $SLURM_JOB_NAME $SLURM_NNODES
X
tell
show Comment

#: directives after the first command are ignored
job <<'X'
#SBATCH --job-name=early
echo $SLURM_JOB_NAME $SLURM_NNODES
#SBATCH --job-name=late
#SBATCH --nodes=2
#SBATCH --nosuchoption
X
tell

#: an option given twice in the script: the last one counts
job <<'X'
#SBATCH --job-name=first
#SBATCH --job-name=second
#SBATCH -n1
#SBATCH --ntasks=2
echo $SLURM_JOB_NAME $SLURM_NTASKS
X
tell

#: an unknown directive is refused
job <<'X'
#SBATCH --nosuchoption=3
echo never
X

#: several options in one directive
job <<'X'
#SBATCH -J several -N2 --ntasks-per-node=2
echo $SLURM_JOB_NAME $SLURM_NNODES $SLURM_NTASKS
X
tell

#: comments at the end of a directive
job <<'X'
#SBATCH --job-name=commented # this is the name
#SBATCH -n 2 # two tasks
echo $SLURM_JOB_NAME $SLURM_NTASKS
X
tell

#: quotes in a directive
job <<'X'
#SBATCH --job-name="two words"
#SBATCH --comment='it is'
echo "[$SLURM_JOB_NAME]"
X
tell
show JobName Comment

#: directives of PBS and LSF are read too, after those of Slurm
job <<'X'
#PBS -N pbsname
#SBATCH -J slurmname
#BSUB -J lsfname
echo $SLURM_JOB_NAME
X
tell

#: a script without a first line is refused
script plain.sh <<'X'
echo hello
X
t sbatch plain.sh

#: an empty script is refused
: >empty.sh
t sbatch empty.sh

#: a script with DOS line ends is refused
printf '#!/bin/bash\r\n#SBATCH -J dos\r\necho hello\r\n' >dos.sh
t sbatch dos.sh

#: a script that is not there
t sbatch nosuch.sh

#: a job runs a copy of the script that only its owner may read
job <<'X'
ls -l "$0" | cut -c 1-10
X
tell

#: another interpreter: Python
script job.py <<'X'
#!/usr/bin/env python3
#SBATCH --job-name=snake
import os, sys
print("python", os.environ["SLURM_JOB_NAME"], sys.argv[1:])
sys.exit(4)
X
t sbatch job.py a 'b c'
tell

#: another interpreter: sh
script job.sh <<'X'
#!/bin/sh
echo "$0" | sed 's/.*slurm_script/slurm_script/'
echo "$# arguments: $*"
X
t sbatch job.sh one two
tell

#: an interpreter that is not there
script job.sh <<'X'
#!/no/such/shell
echo never
X
t sbatch job.sh
ended
states
out

#: arguments reach the script unharmed
script args.sh <<'X'
#!/bin/bash
for word; do echo "[$word]"; done
X
t sbatch args.sh plain 'two words' "it's" '$HOME' '*' '' --nodes=2 -x 'ünï'
tell

#: options after the name of the script belong to the script
script args.sh <<'X'
#!/bin/bash
echo "$SLURM_NNODES: $*"
X
t sbatch args.sh -N2
tell

#: a script from standard input
t sbatch <<'X'
#!/bin/bash
#SBATCH -J piped
echo from standard input as $SLURM_JOB_NAME
X
tell
show JobName Command

#: --wrap runs a line in a shell
t sbatch --wrap 'echo "wrapped $SLURM_JOB_NAME" && echo $0 | grep -o slurm_script'
tell
show JobName Command

#: --wrap with quotes and a failing end
t sbatch -J mine --wrap='for i in 1 2; do echo "i = $i"; done; exit 6'
tell

#: --wrap and a script together are refused
t sbatch --wrap 'echo a' job.sh

#: the job gets the script as it was when submitted
job --hold <<'X'
echo first text
X
echo '#!/bin/bash
echo second text' >job.sh
t scontrol release "$id"
tell

#: names with blanks, quotes and letters of other alphabets
script "my 'job' ünïcode.sh" <<'X'
#!/bin/bash
echo "$SLURM_JOB_NAME"
X
t sbatch "my 'job' ünïcode.sh"
tell
show JobName

#: a script in a folder with a blank
mkdir "a folder"
script "a folder/run me.sh" <<'X'
#!/bin/bash
pwd
X
t sbatch "a folder/run me.sh"
tell
cd "a folder" || exit
t sbatch "run me.sh"
ended
out "$id"

#: bytes that are no text come through
job <<'X'
printf 'a\0b\377c\n'
X
ended
od -c "slurm-$id.out"
