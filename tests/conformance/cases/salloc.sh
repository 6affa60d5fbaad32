# Interactive allocations: salloc, and shells with a terminal.

#: salloc with a command
t salloc -N2 bash -c 'echo $SLURM_JOB_ID $SLURM_NNODES; hostname >there; srun hostname | sort'

#: what srun inside salloc gets
salloc -N2 -n4 srun bash -c 'echo $SLURM_PROCID $SLURM_JOB_ID $SLURM_NTASKS $(hostname)' 2>/dev/null | sort

#: variables of salloc
t salloc -N2 -n3 -c2 -J mine --gres=gpu:1 --mem=100M -t 5 bash -c 'env >vars'
vars vars

#: salloc and the exit code of its command
t salloc true
t salloc false
t salloc bash -c 'exit 7'
t salloc bash -c 'kill -TERM $$'
t salloc nosuchcommand
t salloc /etc/passwd
t salloc -Q true

#: salloc in the queue
t salloc -J inqueue bash -c 'squeue -h -o "%i %j %t %D %R"; scontrol show job $SLURM_JOB_ID | grep -oE "(BatchFlag|Command|NumNodes|NumTasks|StdOut|BatchHost|JobName)=[^ ]*"'
t salloc bash -c 'squeue -h -o "%j %t"'

#: sacct of salloc with steps
t salloc -N2 bash -c 'srun -J one true; srun -n1 -N1 bash -c "exit 3"; echo $SLURM_JOB_ID >id; exit 4'
steps "$(<id)"
states "$(<id)"

#: an salloc that waits
job -N2 --exclusive <<'X'
touch up
while [ ! -e go ]; do sleep 0.1; done
X
appears up
salloc -N2 echo there >outs 2>errs &
appears errs
patience 10 grep -qs queued errs
squeue -h -t pending -o '%i %j %r'
touch go
wait $!
cat outs
grep -v revoked errs

#: an salloc that waits is cancelled
job -N2 --exclusive <<'X'
touch up
while [ ! -e go ]; do sleep 0.1; done
X
appears up
salloc -N2 echo there >outs 2>errs &
appears errs
patience 10 grep -qs queued errs
sleep 1
scancel -t pending --me
wait $!
echo "code $?"
sort outs errs
touch go

#: Ctrl-C while salloc waits
job -N2 --exclusive <<'X'
touch up
while [ ! -e go ]; do sleep 0.1; done
X
appears up
(trap - INT; exec salloc -N2 echo there >outs 2>errs) &
patience 10 grep -qs queued errs
sleep 1
kill -TERM $!
wait $!
echo "code $?"
sort outs errs
squeue -h -o '%i %t'
touch go

#: a running salloc is cancelled
salloc bash -c 'touch up; trap "echo got HUP" HUP; trap "echo got TERM" TERM; while [ ! -e go ]; do sleep 0.1; done; echo end' >outs 2>errs &
appears up
sleep 1
scancel --me
sleep 2
squeue -h -o '%j %t'
touch go
wait $!
echo "code $?"
cat outs errs

#: salloc at its time limit
t salloc -t 1 --test-only true
t salloc --begin=now+1hour --test-only true

#: salloc without a command runs a shell
printf 'srun hostname >there </dev/null\necho $SLURM_JOB_ID >id\nexit 4\n' >keys
command script -qefc 'salloc -N2' /dev/null <keys >outs 2>&1
echo "code $?"
grep -o 'salloc: .*' outs | tr -d '\r' | grep -v revoked
sort there
states "$(<id)"

#: salloc inside a job
job <<'X'
salloc -n1 bash -c 'echo $SLURM_JOB_ID'
echo "code $?"
X
tell


#: where salloc runs its command
t salloc -D /tmp pwd
t salloc bash -c 'pwd; ulimit -n >/dev/null; umask; cat' </dev/null
echo typed | salloc cat 2>/dev/null

#: srun --jobid of an salloc from elsewhere
salloc -N1 bash -c 'touch up; while [ ! -e go ]; do sleep 0.1; done' 2>/dev/null &
appears up
t srun --jobid="$(newest)" hostname
touch go
wait

#: srun --pty
terminal srun --pty bash -c 'tty | sed "s/[0-9]*$//"; echo $SLURM_PROCID; hostname; exit 3'
terminal srun -n2 --pty bash -c 'echo $SLURM_PROCID'
terminal salloc -N1 srun --pty bash -c 'test -t 0 && test -t 1 && test -t 2 && echo terminal'
t srun --pty bash -c 'echo without; test -t 0 || echo none'

#: srun --pty and the size of the terminal
terminal bash -c 'stty rows 33 cols 77; srun --pty bash -c "stty size; echo \$COLUMNS \$LINES; echo \$TERM"'

#: typing into srun --pty
printf 'echo typed $((1+2))\nexit 5\n' >keys
printf '$ srun --pty bash, typed into\n'
command script -qefc 'srun --pty bash --norc --noprofile' /dev/null <keys >outs 2>&1
echo "code $?"
grep -c 'typed 3' outs
