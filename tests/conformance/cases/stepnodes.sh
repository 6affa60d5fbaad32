# Which nodes of its job a step gets.

#: steps of fewer tasks than nodes
job -N2 -n4 <<'E'
for shape in '-N2 -n1' '-N2 -n2' '-N2 -n3' '-N1 -n1' '-N3 -n3' '-N0' '-N1 -n5' '-N2 -n1 -w node2' '-w node2' '-w node2 -n1' '-w node1,node2 -n4' '-w node3'; do
    echo "== $shape"
    srun $shape -l bash -c 'echo $(hostname) $SLURM_NNODES $SLURM_STEP_TASKS_PER_NODE' 2>&1 | sort
done
SLURM_NNODES=1 srun -l hostname 2>&1 | sort
SLURM_NTASKS=1 srun -l hostname 2>&1 | sort
SLURM_JOB_NUM_NODES=1 srun -n2 -l hostname 2>&1 | sort
SLURM_NODELIST=node2 srun -n1 -l hostname 2>&1 | sort
E
longest=60 ended
out
