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

#: a script killed by SIGTERM of its own
job <<'X'
kill -TERM $$
sleep 5
X
tell

#: a segmentation fault is told as signal 11
job <<'X'
ulimit -c 0
kill -SEGV $$
X
tell

#: a failing command in the middle does not fail the job
job <<'X'
ls /no/such/file 2>/dev/null
nosuchcommand
echo still here
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

#: an option given twice on the command line: the last one counts
job -J first -J second --ntasks=2 -n1 <<'X'
echo $SLURM_JOB_NAME $SLURM_NTASKS
X
tell

#: an unknown directive is refused
job <<'X'
#SBATCH --nosuchoption=3
echo never
X

#: an unknown short directive is refused
job <<'X'
#SBATCH -Q -Y
echo never
X

#: a directive with a bad value is refused
job <<'X'
#SBATCH --time=soon
echo never
X

#: a directive that is no option is refused
job <<'X'
#SBATCH nodes=2
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

#: a backslash in a directive
job <<'X'
#SBATCH --job-name=with\ blank
echo "[$SLURM_JOB_NAME]"
X
tell

#: a directive with blanks around it
job <<'X'
#SBATCH   --job-name   spaced
 #SBATCH --job-name=indented
# SBATCH --job-name=blank
##SBATCH --job-name=doubled
#sbatch --job-name=small
echo $SLURM_JOB_NAME
X
tell

#: a tab between option and value
job <<'X'
#SBATCH	--job-name	tabbed
echo $SLURM_JOB_NAME
X
tell

#: an empty directive is nothing
job <<'X'
#SBATCH
#SBATCH -J named
echo $SLURM_JOB_NAME
X
tell

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

#: a single carriage return in the middle is enough
printf '#!/bin/bash\necho hello\r\necho you\n' >dos.sh
t sbatch dos.sh

#: a script that is a binary file
printf '#!/bin/bash\n\0\1\2\n' >binary.sh
t sbatch binary.sh

#: a script that is not there
t sbatch nosuch.sh

#: a folder as script
mkdir folder
t sbatch folder

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

#: standard input without a first line is refused
t sbatch <<'X'
echo hello
X

#: --wrap runs a line in a shell
t sbatch --wrap 'echo "wrapped $SLURM_JOB_NAME" && echo $0 | grep -o slurm_script'
tell
show JobName Command

#: --wrap with quotes and a failing end
t sbatch -J mine --wrap='for i in 1 2; do echo "i = $i"; done; exit 6'
tell

#: --wrap and a script together are refused
t sbatch --wrap 'echo a' job.sh

#: an empty --wrap
t sbatch --wrap ''
tell

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

#: a very long line and many lines
{
    echo '#!/bin/bash'
    printf 'echo %s | wc -c\n' "$(printf 'x%.0s' {1..20000})"
    printf ': line %d\n' {1..2000}
    echo 'echo end'
} >long.sh
t sbatch long.sh
tell

#: what is printed without a line end at the end is kept so
job <<'X'
printf 'no line end'
X
ended
od -c "slurm-$id.out"

#: bytes that are no text come through
job <<'X'
printf 'a\0b\377c\n'
X
ended
od -c "slurm-$id.out"

#: a directive whose value is an empty word
script job.sh <<'X'
#!/bin/bash
#SBATCH -n2 -J ""
true
X
t sbatch --hold job.sh
script job.sh <<'X'
#!/bin/bash
#SBATCH --comment="" -n2
true
X
t sbatch --hold job.sh
show NumTasks
for quote in '"' "'"; do
    printf '#!/bin/bash\n#SBATCH --job-name=%sopen\n' "$quote" >job.sh
    t sbatch --hold job.sh
done

#: names and comments that are too long
for length in 1024 1025; do
    text=$(head -c $length /dev/zero | tr '\0' x)
    for option in comment job-name account; do
        echo "$option $length: $(sbatch --hold --$option="$text" --wrap true 2>&1 | sed 's/job 7.*/job/')"
    done
done
