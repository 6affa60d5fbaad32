# Where output goes, under which name, and how.

#: patterns of the name of the output file
for pattern in '%j.txt' 'name-%x.txt' 'node-%N.txt' 'n-%n.txt' 't-%t.txt' 'u-%u.txt' 'A-%A.txt' 'a-%a.txt' \
    'J-%J.txt' 's-%s.txt' 'double-%%.txt' 'pad-%8j.txt' 'unknown-%q.txt'; do
    t sbatch -J hello -o "$pattern" --wrap 'echo here'
    show StdOut
done
ended
ls

#: the default name of the output file
job <<'X'
echo to stdout
echo to stderr >&2
X
tell
show StdOut StdErr StdIn

#: -o with a name of its own takes both streams
job -o both.log <<'X'
echo to stdout
echo to stderr >&2
X
ended
log both.log

#: an older file is cut
echo 'old text, longer than the new one' >out.log
job -o out.log <<'X'
echo new
X
ended
log out.log

#: an older file is kept with --open-mode=append
echo old >out.log
job -o out.log --open-mode=append <<'X'
echo new
X
ended
log out.log

#: a folder that is not there
job -o no/such/folder/out.log <<'X'
echo never seen
touch ran
X
tell
log ran

#: -D decides where the output goes
mkdir sub
job -D sub <<'X'
pwd
X
ended
states
ls sub
log "sub/slurm-$id.out"
show WorkDir StdOut

#: -D with a folder that is not there
job -D nosuchfolder -o "$PWD/out.log" <<'X'
pwd
X
ended
states
log out.log

#: a folder with blanks and quotes
mkdir "it's a folder"
cd "it's a folder" || exit
job -o 'out put.log' <<'X'
echo here
X
ended
ls
show WorkDir StdOut

#: input from a file
printf 'first\nsecond\n' >in.txt
job -i in.txt <<'X'
cat
X
tell

#: an input file that is not there
job -i nosuch.txt <<'X'
touch ran
X
ended
states
log ran

#: output arrives while the job runs
job <<'X'
echo first
touch printed
while [ ! -e go ]; do sleep 0.1; done
X
appears printed
out
touch go
ended

#: --parsable prints the id alone
job --parsable <<'X'
true
X
ended
t sbatch --parsable --hold job.sh
t sbatch --quiet --hold job.sh

#: --wait waits and passes the exit code on
job --wait <<'X'
exit 3
X
job --wait <<'X'
true
X

#: srun writes a file for each task
job -N2 -n4 --ntasks-per-node=2 <<'X'
srun -o 'task-%t-of-%j-on-%N-%n.txt' echo here
srun -o 'step-%s-%J.txt' echo here
X
ended
out
ls | grep -v job

#: srun writes one file for all tasks
job -n3 <<'X'
srun -o tasks.txt bash -c 'echo task $SLURM_PROCID'
srun -o out.txt -e err.txt bash -c 'echo o$SLURM_PROCID; echo e$SLURM_PROCID >&2'
X
ended
sorted tasks.txt out.txt err.txt

#: srun labels lines in a file
job -n3 <<'X'
srun -l -o tasks.txt bash -c 'printf "task %s\nlast" $SLURM_PROCID'
X
ended
sorted tasks.txt

#: srun appends or cuts as it is told
echo old >a.txt
echo old >b.txt
job <<'X'
srun --open-mode=append -o a.txt echo new
srun --open-mode=truncate -o b.txt echo new
X
ended
log a.txt b.txt
