# Shapes of steps, and more of the commands' small print.

#: a step without devices
job -N2 -n4 <<'E'
srun --gres=none -n1 -N1 hostname; echo $?
srun --gres=none hostname | sort
E
ended
out

#: a step that says its CPUs leaves the others
job -N1 -n4 <<'E'
srun -n1 -c1 bash -c 'touch one; while [ ! -e two ]; do sleep 0.1; done; echo one' &
srun -n1 -c1 bash -c 'touch two; while [ ! -e one ]; do sleep 0.1; done; echo two' &
wait
E
ended
sorted slurm-$id.out
