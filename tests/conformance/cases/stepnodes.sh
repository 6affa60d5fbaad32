# Which nodes of its job a step gets.

#: steps that pass over nodes
job -N2 -n4 <<'E'
for shape in '-x node1' '-x node2' '-x node1 -n1' '-x node1 -n2' '-x node1 -N1' '-x node1 -N2' '-x node1 -N1 -n2' '-x node1,node2' '-x node3' '-x node1 -w node2' '-x node1 -w node1' '-x node1 -n4' '-x node1 -n5' '--exclude=node[1-1] -n1' '-x node1 -n1 -c2' '-x node1 -N1-2' '-x node1 -r1 -n1' '-x node2 -n1 --exact'; do
    echo "== $shape"
    srun $shape -l bash -c 'echo $(hostname) $SLURM_NNODES $SLURM_STEP_TASKS_PER_NODE' 2>&1 | sort
    srun $shape true >/dev/null 2>&1; echo "exit $?"
done
E
longest=60 ended
out

#: steps of fewer tasks than nodes, and ranges of nodes
job -N2 -n4 <<'E'
for shape in '-N2 -n1' '-N2 -n2' '-N2 -n3' '-N1 -n1' '-N1-2 -n4' '-N1-2 -n1' '-N1-2 -n2' '-N1-2' '-N1-1 -n2' '-N2-2 -n2' '-N2-3 -n2' '-N1-3 -n4' '-N3 -n3' '-N3-4' '-N2-1' '-N0' '-N1-2 -n5' '-N1 -n5' '-N2 -n1 -w node2' '-N1 -w node1,node2' '-w node1,node2 -n1' '-w node2' '-w node2 -n1' '-w node1,node2 -n4' '-w node3' '-N1-2 -w node2 -n2' '-N 1-2 -n 2 -c2' '-N1-2 -n4 --exact'; do
    echo "== $shape"
    srun $shape -l bash -c 'echo $(hostname) $SLURM_NNODES $SLURM_STEP_TASKS_PER_NODE' 2>&1 | sort
done
SLURM_NNODES=1 srun -l hostname 2>&1 | sort
SLURM_NNODES=1-2 srun -l hostname 2>&1 | sort
SLURM_NTASKS=1 srun -l hostname 2>&1 | sort
SLURM_JOB_NUM_NODES=1 srun -n2 -l hostname 2>&1 | sort
SLURM_EXCLUDE=node1 srun -n1 -l hostname 2>&1 | sort
SLURM_NODELIST=node2 srun -n1 -l hostname 2>&1 | sort
E
longest=60 ended
out

#: nodes of an srun outside of a job
for shape in '-N2 -n1' '-N1-2 -n4' '-N1-2 -n1' '-N1-2' '-x node1' '-x node1 -N2' '-x node1,node2' '-N2-1' '-N3' '-N1-3 -n2' '-w node2' '-w node1 -x node1' '-N2 -n3' '-w node1,node2 -n1' '-w node1,node2' '-N1 -w node1,node2' '-x node3'; do
    t srun $shape -l bash -c 'echo $(hostname) $SLURM_NNODES $SLURM_STEP_TASKS_PER_NODE'
done

#: nodes of a step in a job of one node
job -N1 -n4 <<'E'
for shape in '-N2' '-N1-2 -n2' '-N2-3' '-x node1' '-x node2' '-N1 -n1' '-r1' '-r0' '-w node2' '-w node1'; do
    echo "== $shape"
    srun $shape -l hostname 2>&1 | sort
done
E
ended
out

#: tasks at places that are not named
job -N2 -n4 <<'E'
srun -m arbitrary -l hostname 2>&1 | sort
srun -m arbitrary -n2 -l hostname 2>&1 | sort
E
ended
out

#: steps of more tasks than a job of one task a node has processors
for asked in '-N2' '-N2 --ntasks-per-node=1' '-N2 --ntasks-per-node=1 --cpus-per-task=1' '-N2 --ntasks-per-node=1 --cpus-per-task=2' '-N2 --gpus-per-node=2' '-N2 -n2 --ntasks-per-node=1 --gpus-per-node=2'; do
    job $asked <<'E2'
for shape in '-n4' '-N2 -n4' '-N2 -n4 --cpus-per-task=1' '-N2 -n4 --ntasks-per-node=2' '-N2 -n4 --ntasks-per-node=2 --cpus-per-task=1' '--ntasks-per-node=2' '-N2 --ntasks-per-node=2' '-n3' '-n4 --overlap' '-n4 -O' '-N1 -n2' '-n2 -c2'; do
    echo "== $shape"
    srun $shape -l bash -c 'echo $(hostname) $SLURM_NNODES $SLURM_STEP_TASKS_PER_NODE' 2>&1 | sort
done
E2
done
longest=60 ended
out

#: steps whose tasks do not divide by the nodes of a job with tasks per node
for asked in '-N2 --ntasks-per-node=2 --cpus-per-task=2' '-N2 --ntasks-per-node=3'; do
    job $asked <<'E2'
for shape in '-n3' '-n5' '-n7' '-n5 -O' '-n3 -N1' '-n5 --ntasks-per-node=2' '-n3 -m cyclic' '-n7 --overlap'; do
    echo "== $shape"
    srun $shape -l bash -c 'echo $(hostname) $SLURM_NNODES $SLURM_STEP_TASKS_PER_NODE' 2>&1 | sort
done
E2
done
longest=60 ended
out
