# Which of its job's devices a step gets.

#: steps that ask for some of the devices of one node
job -N1 -n2 --gpus-per-node=2 <<'E'
for shape in '-n1' '-n2' '-n1 --gpus=1' '-n1 --gpus=2' '-n1 --gpus=3' '-n1 --gpus=0' '-n2 --gpus=1' '-n2 --gpus=2' '-n1 --gres=gpu:1' '-n1 --gres=gpu:2' '-n2 --gres=gpu:1' '-n1 --gres=gpu' '-n1 --gpus-per-node=1' '-n1 --gpus-per-node=2' '-n1 --gpus-per-node=0' '-n2 --gpus-per-task=1' '-n1 --gpus-per-task=1' '-n1 --gpus-per-task=2' '-n1 --gpus-per-task=0' '-n2 --gpus-per-task=2' '-n1 --exact' '-n1 --exact --gpus=1' '-n1 --exclusive --gpus=1' '-n1 --overlap --gpus=1' '-n1 -G1'; do
    echo "== $shape"
    srun $shape -l bash -c 'echo cuda=${CUDA_VISIBLE_DEVICES-unset} step=${SLURM_STEP_GPUS-unset} here=${SLURM_GPUS_ON_NODE-unset}' 2>&1 | sort
done
E
longest=60 ended
out

#: steps over two nodes that ask for some of the devices
job -N2 -n4 --gpus-per-node=2 <<'E'
for shape in '' '-n4 --gpus=2' '-n4 --gpus=3' '-n4 --gpus=4' '-n4 --gpus=5' '-n2 --gpus=2' '-N2 --gpus=2' '-N1 -n2 --gpus=2' '-N1 -n1 --gpus=3' '-n4 --gpus-per-node=1' '-n4 --gres=gpu:1' '-n4 --gres=gpu:2' '-n4 --gpus-per-task=1' '-n3 --gpus-per-task=1' '-n2 --gpus-per-task=2' '-n2 --gpus-per-task=1' '-n4 --gpus=0' '-N1 -n1 -w node2 --gpus=1' '-N1 -n1 --gpus=1' '-n1 --gpus=1' '-n1 --gres=gpu:1' '-n1'; do
    echo "== $shape"
    srun $shape -l bash -c 'echo $(hostname) cuda=${CUDA_VISIBLE_DEVICES-unset} step=${SLURM_STEP_GPUS-unset} here=${SLURM_GPUS_ON_NODE-unset}' 2>&1 | sort
done
E
longest=60 ended
out

#: pairs of steps, each with a device of its own
cat >one.sh <<'E'
touch began-$1-$2; i=0 # the other one has begun, or was told to wait
until [ -e began-$1-$3 ] || grep -qsE 'temporarily disabled|error' said-$1-$3 || [ $((++i)) -gt 100 ]; do sleep 0.1; done
echo "$1: cuda=${CUDA_VISIBLE_DEVICES-unset} step=${SLURM_STEP_GPUS-unset}" $([ -e began-$1-$3 ] && echo together || echo alone)
E
job -N1 -n2 --gpus-per-node=2 <<'E'
k=0
for shape in '--exact -n1 --gpus=1' '-n1 --gpus=1 -c1' '--exact -n1 --gres=gpu:1' '--exclusive -n1 --gpus-per-node=1' '--exact -n1 --gpus-per-task=1' '--overlap -n1 --gpus=1' '--exact -n1' '--overlap -n1' '--exact -n1 --gpus=0' '--exact -n1 --gpus=2' '--overlap -n1 --gpus=2'; do
    k=$((k+1))
    echo "== $shape" >>pairs.txt
    { srun $shape bash one.sh $k a b 2>said-$k-a & srun $shape bash one.sh $k b a 2>said-$k-b & wait; cat said-$k-?; } 2>&1 | grep -v -E 'step creation|Step created' | sort >>pairs.txt
done
E
longest=100 ended
log pairs.txt

#: three steps for two devices, and devices that come free
job -N1 -n4 --gpus-per-node=2 <<'E'
for n in 1 2 3; do srun --exact -n1 --gpus=1 bash -c 'echo $CUDA_VISIBLE_DEVICES; sleep 0.5' 2>/dev/null >>three.txt & sleep 0.3; done; wait
srun --exact -n1 --gpus=1 bash -c 'echo $CUDA_VISIBLE_DEVICES; sleep 2' >first.txt & sleep 1
srun --exact -n1 --gpus=1 bash -c 'echo $CUDA_VISIBLE_DEVICES'
srun --exact -n1 --gpus=2 bash -c 'echo $CUDA_VISIBLE_DEVICES' 2>/dev/null
wait; cat first.txt
srun --exact -n1 --gpus=3 true; echo $?
E
ended
out
sorted three.txt

#: devices of the tasks of a job that asked for some per task
job -N1 -n2 --gpus-per-task=1 <<'E'
env | grep -E 'GPU|CUDA|TRES' | sort
srun -l bash -c 'echo cuda=$CUDA_VISIBLE_DEVICES'  2>&1 | sort
srun -n1 bash -c 'echo cuda=$CUDA_VISIBLE_DEVICES'  2>&1 | sort
srun -n2 --gpus-per-task=1 bash -c 'echo cuda=$CUDA_VISIBLE_DEVICES'  2>&1 | sort
srun -n1 --gpus=2 bash -c 'echo cuda=$CUDA_VISIBLE_DEVICES'  2>&1 | sort
E
ended
out
