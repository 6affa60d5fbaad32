# Steps: which tasks run where, what they print, and how they end.

#: a step takes the shape of its job
job -N2 --ntasks-per-node=2 <<'X'
srun -l bash -c 'echo $(hostname) $SLURM_PROCID $SLURM_LOCALID $SLURM_NODEID' | sort
X
tell

#: block and cyclic distribution
job -N2 --ntasks-per-node=4 <<'X'
echo default; srun -l hostname | sort -n
echo block; srun -l -m block hostname | sort -n
echo cyclic; srun -l -m cyclic hostname | sort -n
X
tell

#: fewer tasks than the job
job -N2 --ntasks-per-node=2 <<'X'
echo n1; srun -n1 -l hostname
echo n2; srun -n2 -l hostname | sort
echo n3; srun -n3 -l hostname | sort
echo N1; srun -N1 -l hostname | sort
echo N1n1; srun -N1 -n1 hostname
X
ended
sorted "slurm-$id.out"

#: more tasks than the job has CPUs
job -n2 <<'X'
srun -n3 hostname
echo "exit $?"
X
tell

#: one task on each node
job -N2 --ntasks-per-node=2 <<'X'
srun --ntasks-per-node=1 -l hostname | sort
srun -N2 -n2 -l hostname | sort
X
tell

#: steps on a node by name
job -N2 <<'X'
srun -N1 -n1 -w node2 hostname
srun --nodelist=node1 -N1 -n1 hostname
srun -w node3 hostname
echo "exit $?"
X
tell

#: the exit code of the worst task
job -n4 <<'X'
srun bash -c 'exit $SLURM_PROCID' 2>err
echo "exit $?"
sort err
srun -n2 true
echo "exit $?"
X
tell
steps

#: the exit code of a step is that of the script if it is last
job -n2 <<'X'
srun bash -c 'exit 5'
X
ended
states
sorted "slurm-$id.out"
steps

#: a task killed by a signal
job -n2 <<'X'
srun bash -c '[ $SLURM_PROCID = 1 ] && kill -9 $$; sleep 0.5'
echo "exit $?"
X
ended
states
sorted "slurm-$id.out"
steps

#: one task fails and the others go on
job -n3 <<'X'
srun bash -c '[ $SLURM_PROCID = 1 ] && exit 5; sleep 1; echo task $SLURM_PROCID done'
echo "exit $?"
X
ended
sorted "slurm-$id.out"

#: one task fails and takes the others along
job -n3 <<'X'
srun --kill-on-bad-exit bash -c '[ $SLURM_PROCID = 1 ] && exit 5; exec sleep 30'
echo "exit $?"
X
ended
states
sorted "slurm-$id.out"
steps

#: a command that is not there
job -n2 <<'X'
srun nosuchcommand
echo "exit $?"
srun ./nosuchfile
echo "exit $?"
touch notexecutable
srun ./notexecutable
echo "exit $?"
X
ended
sorted "slurm-$id.out"
steps

#: labels on both streams
job -n2 <<'X'
srun -l bash -c 'echo out; echo err >&2' 2>err | sort
sort err
X
tell

#: unbuffered output
job -n2 <<'X'
srun -u echo hi
X
tell

#: output of many lines arrives whole and in order
job -n2 <<'X'
srun bash -c 'for i in $(seq 20000); do echo line $i of $SLURM_PROCID; done' >all
sort all | uniq | wc -l
srun -l -n1 seq 50000 | sed 's/^0: //' | cmp - <(seq 50000) && echo in order
X
tell

#: standard input goes to the first task
job -n2 <<'X'
printf 'a\nb\n' | srun -l cat | sort
X
tell

#: standard input to none, and from a file
printf 'from a file\n' >in.txt
job -n2 <<'X'
echo piped | srun -l -i none cat
srun -l -i in.txt cat | sort
srun -l -i nosuchfile cat
echo "exit $?"
X
tell

#: standard input of a batch step is empty
job -n2 <<'X'
srun cat
echo "exit $?"
X
tell

#: a step eats the input of a loop
job <<'X'
printf '1\n2\n3\n' | while read -r line; do
    echo "line $line"
    srun cat >/dev/null
done
printf '1\n2\n' | while read -r line; do
    echo "line $line"
    srun cat </dev/null
done
X
tell

#: two steps at the same time
job -n2 <<'X'
srun -n1 --exact bash -c 'touch one; while [ ! -e two ]; do sleep 0.05; done; echo one'  >out1 &
srun -n1 --exact bash -c 'touch two; while [ ! -e one ]; do sleep 0.05; done; echo two'  >out2 &
wait
cat out1 out2
X
tell

#: steps overlap when told so
job -n1 <<'X'
srun --overlap bash -c 'touch one; for i in $(seq 100); do [ -e two ] && break; sleep 0.05; done; ls two' &
srun --overlap touch two
wait
X
tell

#: a step waits for the CPUs of the one before
job -n1 <<'X'
srun bash -c 'sleep 1; echo first' &
sleep 0.5
srun echo second
wait
X
tell

#: step numbers count up
job -n2 <<'X'
for i in 1 2 3; do srun -n1 bash -c 'echo $SLURM_STEP_ID $SLURM_STEPID'; done
X
tell
steps

#: names of steps
job -n1 <<'X'
srun true
srun -J named true
srun bash -c true
srun /bin/true
X
ended
steps

#: srun -D
job <<'X'
srun -D /tmp pwd
srun --chdir=/nosuchfolder pwd 2>&1 | sort # two streams, in no order
X
tell

#: an argument with blanks, quotes and a dash
job <<'X'
srun printf '[%s]\n' 'two words' "it's" -n -- '$HOME' ''
X
tell

#: --multi-prog or its refusal
job -n2 <<'X'
printf '0 echo zero\n1 echo one %%t %%o\n' >programs
srun -l --multi-prog programs | sort
X
tell

#: srun outside of a job has an allocation of its own
t srun hostname
t srun -N2 -l hostname
t srun -n3 bash -c 'echo $SLURM_NTASKS $SLURM_JOB_NAME'
t srun -J mine bash -c 'echo $SLURM_JOB_NAME $SLURM_JOB_NUM_NODES'

#: srun outside of a job passes the exit code on
t srun bash -c 'exit 4'
t srun -n2 bash -c 'exit $((SLURM_PROCID * 3))'
t srun bash -c 'kill -9 $$'
t srun bash -c 'kill -15 $$'

#: srun outside of a job, its environment
srun -N2 --ntasks-per-node=2 bash -c 'env >task$SLURM_PROCID.env'
vars task0.env task3.env

#: srun outside of a job reads its input
echo piped >in
t srun cat <in
t srun -n2 -l cat <in

#: srun waits for its turn
job --exclusive -N2 <<'X'
touch up
while [ ! -e go ]; do sleep 0.1; done
X
appears up
srun -J second hostname >srun.log 2>&1 &
patience 20 bash -c 'squeue -h -n second | grep -q PD'
squeue -h -o '%j %T %r' -n second
patience 20 bash -c 'grep -q queued srun.log'
touch go
wait
cat srun.log

#: srun joins a running job from outside
job -N2 <<'X'
touch up
while [ ! -e go ]; do sleep 0.1; done
X
appears up
t srun --jobid="$id" --overlap -l hostname
t srun --jobid="$id" --overlap -N1 -n1 -w node2 hostname
touch go
tell
steps

#: a launcher finds its nodes with scontrol show hostnames
job -N2 <<'X'
scontrol show hostnames $SLURM_JOB_NODELIST
scontrol show hostnames
head=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
srun --ntasks-per-node=1 bash -c "echo \$SLURM_NODEID of \$SLURM_NNODES meets at $head" | sort
X
tell

#: a reader that has enough ends no script
script a.sh <<'E'
#!/bin/bash
set -euo pipefail
first=$(srun -n1 seq -f 'line %g' 200000 2>/dev/null | head -n 1)
echo "got $first"
srun -n1 env | grep -q PATH
echo "found"
E
t sbatch -W -o o a.sh
cat o
states

#: a script that nobody made executable
script plain.sh <<'E'
#!/bin/bash
echo plain
E
t srun ./plain.sh
t srun plain.sh
chmod +x plain.sh
t srun ./plain.sh
