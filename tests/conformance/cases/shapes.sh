# Shapes of steps, and more of the commands' small print.

#: short and long forms of squeue and sinfo
job -J up -n2 -N2 <<'E'
touch up
while [ ! -e go ]; do sleep 0.1; done
E
appears up
t squeue -h -O 'JobID,tres-alloc:40'
t squeue -l -h
t sinfo -s
t sinfo -R -h
t sinfo -T
t sinfo -s -h -o '%P %F'
t squeue -h -o '%.8i %.2t %.6D %R' --me
touch go

#: widths, percent signs and backslashes in patterns of names
t sbatch -J pat -o '%5j-%%-%x.out' --wrap 'echo a'
t sbatch -J pat -o 'n%8A.out' --wrap 'echo b'
t sbatch -J pat -o 'h-%N-%n-%t.out' -n2 --wrap 'srun -n2 -o step-%s-%t-%n.txt hostname'
t sbatch -J pat -o '\%j.out' --wrap 'echo c'
ended
ls | sort | sed 's/70[0-9]*/ID/g'

#: planes of tasks, with more tasks than CPUs
job -N2 -n4 <<'E'
for plane in 1 2 3 4; do
    for n in 2 3 4 5; do
        echo "plane $plane, $n tasks"
        srun -n$n -m plane=$plane -l hostname 2>&1 | sort
    done
done
E
ended
out

#: CPUs of a step over uneven nodes
job -N2 -n4 <<'E'
for shape in '-N2 -n2 -c2' '-N2 -n2 -c3' '-N2 -n2 -c4' '-N2 -n3 -c2' '-n2 -c2' '-n1 -c3' '-n1 -c4' '-N1 -n1 -c4' '-n4 -c1' '-n3 -c2' '-N1 -n4' '-N1 -n3' '-N2 -n2 -c2 --exact'; do
    echo "$shape"
    srun $shape -l bash -c 'echo $SLURM_CPUS_PER_TASK $(hostname) $(nproc)' 2>&1 | sort
done
E
ended
out

#: devices for each task, more than there are
job -N2 -n4 --ntasks-per-node=2 --gpus-per-node=2 <<'E'
for shape in '-n4 --gpus-per-task=1' '-n2 --gpus-per-task=1' '-n2 -N1 -w node1 --gpus-per-task=1' '-n1 -N1 -w node1 --gpus-per-task=2' '-n1 -N1 -w node1 --gpus-per-task=3' '-n2 -N1 --gpus-per-task=2' '-n3 --gpus-per-task=1' '-n4 --gpus-per-task=2'; do
    echo "$shape"
    srun $shape -l bash -c 'echo $(hostname) ${CUDA_VISIBLE_DEVICES:-none}' 2>&1 | sort
done
E
ended
out

#: --test-only in a job, and a step without devices
job -N2 -n4 <<'E'
srun --test-only -n1 hostname; echo $?
srun --test-only hostname; echo $?
srun --test-only -n9 hostname; echo $?
srun --gres=none -n1 -N1 hostname; echo $?
srun --gres=none hostname | sort
E
ended
out
t srun --test-only -n2 hostname

#: scontrol: scripts, names, lists, nothing to show
t sbatch --hold -J abc --wrap 'echo hello there'
t scontrol write batch_script $id -
t scontrol update JobId=$id Name=newname
t scontrol update job=$id NumNodes=2
t scontrol update jobid $id comment=x
t scontrol show job=$id -o | grep -o 'JobName=[a-z]*'
t scontrol show JobId=$id --oneliner | grep -o 'NumNodes=[0-9-]*'
t scontrol release name=newname
ended
t scontrol show hostlist node1,node2,node3
t scontrol show hostlistsorted node3,node1
t scontrol show hostnames 'node[1-3,7]'
t scontrol show daemons
t scontrol show topology
t scontrol show licenses
t scontrol show reservation
t scontrol uhold $id


#: scontrol update names a job in every way
t sbatch --hold -J abc --wrap true
t scontrol update jobid $id comment=x
t scontrol update JOB $id comment=y
t scontrol update jobI=$id comment=z
t scontrol update jobs=$id comment=z
t scontrol show topology
t scontrol show topo

#: tasks over nodes with more CPUs than tasks
for shape in "-N2 -n4 -c2" "-N2 -n4" "-N2 -n6 -c2" "-N2 -n5 -c2" "-N2 -n10" "-N2 -n7 -c1"; do
    job $shape <<'E'
echo $SLURM_TASKS_PER_NODE $SLURM_JOB_CPUS_PER_NODE
srun bash -c 'echo $SLURM_STEP_TASKS_PER_NODE' | sort -u
srun -n4 bash -c 'echo $SLURM_STEP_TASKS_PER_NODE' | sort -u
srun -n4 -c1 bash -c 'echo $SLURM_STEP_TASKS_PER_NODE $SLURM_CPUS_ON_NODE' | sort -u
E
    ended
done
out

#: a step that says its CPUs leaves the others
job -N1 -n4 <<'E'
srun -n1 -c1 bash -c 'touch one; while [ ! -e two ]; do sleep 0.1; done; echo one' &
srun -n1 -c1 bash -c 'touch two; while [ ! -e one ]; do sleep 0.1; done; echo two' &
wait
srun --cpu-bind=nosuch -n1 hostname; echo $?
srun -n2 -m plane=1 bash -c 'env | grep ^SLURM_DIST | sort' | sort -u
E
ended
sorted slurm-$id.out
