# Which of its job's devices a step gets.

#: steps that ask for some of the devices of one node
job -N1 -n2 --gpus-per-node=2 <<'E'
for shape in '-n1' '-n2' '-n1 --gpus=1' '-n1 --gpus=2' '-n1 --gpus=3' '-n1 --gpus=0' '-n2 --gpus=1' '-n2 --gpus=2' '-n1 --gres=gpu:1' '-n1 --gres=gpu:2' '-n1 --gres=gpu:3' '-n2 --gres=gpu:1' '-n1 --gres=none' '-n1 --gres=gpu:0' '-n1 --gres=gpu' '-n1 --gpus-per-node=1' '-n1 --gpus-per-node=2' '-n1 --gpus-per-node=3' '-n1 --gpus-per-node=0' '-n2 --gpus-per-task=1' '-n1 --gpus-per-task=1' '-n1 --gpus-per-task=2' '-n1 --gpus-per-task=0' '-n2 --gpus-per-task=2' '-n1 --exact' '-n1 --exact --gpus=1' '-n1 --exclusive --gpus=1' '-n1 --overlap --gpus=1' '-n1 -G1' '-n1 --gpus=gpu:1' '-n1 --gpus=a100:1' '-n1 --gres=mps:1' '-n2 --ntasks-per-gpu=1' '--gpus=x'; do
    echo "== $shape"
    srun $shape -l bash -c 'echo cuda=${CUDA_VISIBLE_DEVICES-unset} step=${SLURM_STEP_GPUS-unset} here=${SLURM_GPUS_ON_NODE-unset}' 2>&1 | sort
done
E
longest=60 ended
out

#: variables by which a step asks for devices
job -N1 -n2 --gpus-per-node=2 <<'E'
for shape in SLURM_GPUS=1 SLURM_GPUS=0 SLURM_GPUS=3 SLURM_GPUS_PER_NODE=1 SLURM_GPUS_PER_TASK=1 SLURM_GRES=gpu:1 SLURM_GRES=none SLURM_EXACT=1 SLURM_EXACT=yes SLURM_EXCLUSIVE= SLURM_OVERLAP=1 SLURM_GPU_BIND=single:1 SLURM_GPU_BIND=map_gpu:1; do
    echo "== $shape"
    env $shape srun -n1 -l bash -c 'echo cuda=${CUDA_VISIBLE_DEVICES-unset} step=${SLURM_STEP_GPUS-unset} here=${SLURM_GPUS_ON_NODE-unset}' 2>&1 | sort
done
env | grep -E 'GPU|GRES|CUDA' | sort
srun -n1 --gpus=1 env | grep -E 'GPU|GRES|CUDA' | sort
echo; srun -n1 --gpus-per-task=1 env | grep -E 'GPU|GRES|CUDA' | sort
echo; srun -n1 --gres=gpu:1 env | grep -E 'GPU|GRES|CUDA' | sort
echo; srun -n1 --gpus-per-node=1 --exact env | grep -E 'GPU|GRES|CUDA' | sort
E
ended
out

#: steps over two nodes that ask for some of the devices
job -N2 -n4 --gpus-per-node=2 <<'E'
for shape in '' '-n4 --gpus=2' '-n4 --gpus=3' '-n4 --gpus=4' '-n4 --gpus=5' '-n4 --gpus=1' '-n2 --gpus=2' '-N2 --gpus=2' '-N1 -n2 --gpus=2' '-N1 -n1 --gpus=3' '-n4 --gpus-per-node=1' '-n4 --gres=gpu:1' '-n4 --gres=gpu:2' '-n4 --gpus-per-task=1' '-n3 --gpus-per-task=1' '-n2 --gpus-per-task=2' '-n2 --gpus-per-task=1' '-n4 --gres=none' '-n4 --gpus=0' '-N1 -n1 -w node2 --gpus=1' '-N1 -n1 --gpus=1' '-N1 -n1 -r1 --gres=gpu:1' '-n1 --gpus=1' '-n1 --gres=gpu:1' '-n1'; do
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
for shape in '--exact -n1 --gpus=1' '-n1 --gpus=1 -c1' '--exact -n1 --gres=gpu:1' '--exclusive -n1 --gpus-per-node=1' '--exact -n1 --gpus-per-task=1' '--overlap -n1 --gpus=1' '--exact -n1' '--overlap -n1' '--exact -n1 --gpus=0' '--exact -n1 --gres=none' '--exact -n1 --gpus=2' '--overlap -n1 --gpus=2'; do
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

#: words of --gpu-bind
job -N1 -n2 --gpus-per-node=2 <<'E'
for word in none closest single single:1 single:2 per_task per_task:1 per_task:2 map_gpu:0,1 map_gpu:1,0 map_gpu:1 map_gpu:0x1,0 map_gpu:0*2 map_gpu:5 map_gpu:x mask_gpu:1,2 mask_gpu:0x2,0x1 mask_gpu:3 mask_gpu:0x1 mask_gpu:8 mask_gpu:zz verbose verbose,none v,single:1 verbose,closest quiet nosuch '' single:0 single:x CLOSEST; do
    echo "== $word"
    srun -n2 -l --gpu-bind="$word" bash -c 'echo cuda=${CUDA_VISIBLE_DEVICES-unset} step=${SLURM_STEP_GPUS-unset} $SLURM_GPU_BIND' 2>&1 | sort
done
for shape in '-n1 --gpu-bind=none' '-n1 --gpu-bind=closest' '-n1 --gpu-bind=nosuch' '-n1 --gpu-bind=single:x' '-n1 --gpu-bind=single' '-n2 --gpu-bind=verbose,single:1' '-n2 --gpu-bind=verbose,map_gpu:1,0' '-n1 --gpu-bind=verbose,closest' '-n2 --gres=gpu:1 --gpu-bind=single:1' '-n2 --gpus-per-task=1 --gpu-bind=none' '-n2 --gpus-per-task=1 --gpu-bind=closest' '-n2 --gpus=2 --gpu-bind=single:1' '-n1 --gpus=1 --gpu-bind=map_gpu:0' '-n1 --gpus=1 --gpu-bind=map_gpu:1' '-n2 --ntasks-per-gpu=1' '-n2 --gpus-per-task=1 --gpu-bind=map_gpu:1,0'; do
    echo "== $shape"
    srun -l $shape bash -c 'echo cuda=${CUDA_VISIBLE_DEVICES-unset} step=${SLURM_STEP_GPUS-unset}' 2>&1 | sort
done
E
longest=60 ended
out

#: --gpu-bind of a job is for its steps
job -N1 -n2 --gpus-per-node=2 --gpu-bind=single:1 <<'E'
env | grep -E 'GPU_BIND|CUDA' | sort
srun -l bash -c 'echo cuda=$CUDA_VISIBLE_DEVICES'  2>&1 | sort
E
job -N1 -n2 --gpus-per-task=1 <<'E'
env | grep -E 'GPU|CUDA|TRES' | sort
srun -l bash -c 'echo cuda=$CUDA_VISIBLE_DEVICES'  2>&1 | sort
srun -n1 bash -c 'echo cuda=$CUDA_VISIBLE_DEVICES'  2>&1 | sort
srun -n2 --gpus-per-task=1 bash -c 'echo cuda=$CUDA_VISIBLE_DEVICES'  2>&1 | sort
srun -n1 --gpus=2 bash -c 'echo cuda=$CUDA_VISIBLE_DEVICES'  2>&1 | sort
E
t sbatch --gpu-bind=nosuch --wrap true
t sbatch --gpu-bind=single --wrap true
t sbatch --gpu-bind=none -n2 --gpus=2 -o none.txt --wrap 'echo $CUDA_VISIBLE_DEVICES; srun bash -c "echo \${CUDA_VISIBLE_DEVICES-unset}"'
t sbatch --gpu-bind=map_gpu:0,1 -n2 --gpus=2 -o bind.txt --wrap 'srun -l bash -c "echo \$CUDA_VISIBLE_DEVICES" | sort'
ended
out
log bind.txt none.txt
t srun --gpu-bind=nosuch true
t srun --gpu-bind=map_gpu:x true

#: steps of a job of one or no device
job -N1 -n2 --gpus=1 <<'E'
for shape in '-n1' '-n2' '-n1 --gpus=1' '-n1 --gpus=2' '-n1 --gres=gpu:1' '-n2 --gpus-per-task=1' '-n1 --gpus-per-node=1' '-n1 --gpus=0' '-n1 --gres=none'; do
    echo "== $shape"
    srun $shape -l bash -c 'echo cuda=${CUDA_VISIBLE_DEVICES-unset} step=${SLURM_STEP_GPUS-unset}' 2>&1 | sort
done
E
job -N1 -n2 <<'E'
for shape in '-n1' '-n1 --gpus=1' '-n1 --gres=gpu:1' '-n2 --gpus-per-task=1' '-n1 --gpus-per-node=1' '-n1 --gpus=0' '-n1 --gres=none' '-n1 --gpus-per-node=0' '-n1 --gpu-bind=single:1'; do
    echo "== $shape"
    srun $shape -l bash -c 'echo cuda=${CUDA_VISIBLE_DEVICES-unset} step=${SLURM_STEP_GPUS-unset}' 2>&1 | sort
done
E
ended
out

#: steps of one node's job that asked with a count of devices for all nodes
job -N1 -n2 --gpus=2 <<'E'
for shape in '-n1' '-n2' '-n1 --gpus=1' '-n1 --gpus=2' '-n1 --gpus=3' '-n1 --gpus=0' '-n2 --gpus=1' '-n2 --gpus=2' '-n1 --gres=gpu:1' '-n1 --gres=gpu:3' '-n2 --gres=gpu:1' '-n1 --gres=none' '-n1 --gres=gpu:0' '-n1 --gpus-per-node=1' '-n1 --gpus-per-node=3' '-n1 --gpus-per-node=0' '-n2 --gpus-per-task=1' '-n1 --gpus-per-task=1' '-n1 --gpus-per-task=2' '-n1 --gpus-per-task=0' '-n2 --gpus-per-task=2' '-n1 --exact' '-n1 --exact --gpus=1' '-n2 --ntasks-per-gpu=1'; do
    echo "== $shape"
    srun $shape -l bash -c 'echo cuda=${CUDA_VISIBLE_DEVICES-unset} step=${SLURM_STEP_GPUS-unset} here=${SLURM_GPUS_ON_NODE-unset}' 2>&1 | sort
done
E
longest=60 ended
out

#: steps of one node's job that asked with --gres
job -N1 -n2 --gres=gpu:2 <<'E'
for shape in '-n1' '-n2' '-n1 --gpus=1' '-n1 --gpus=2' '-n1 --gpus=3' '-n1 --gpus=0' '-n2 --gpus=1' '-n2 --gpus=2' '-n1 --gres=gpu:1' '-n1 --gres=gpu:3' '-n2 --gres=gpu:1' '-n1 --gres=none' '-n1 --gres=gpu:0' '-n1 --gpus-per-node=1' '-n1 --gpus-per-node=3' '-n1 --gpus-per-node=0' '-n2 --gpus-per-task=1' '-n1 --gpus-per-task=1' '-n1 --gpus-per-task=2' '-n1 --gpus-per-task=0' '-n2 --gpus-per-task=2' '-n1 --exact' '-n1 --exact --gpus=1' '-n2 --ntasks-per-gpu=1'; do
    echo "== $shape"
    srun $shape -l bash -c 'echo cuda=${CUDA_VISIBLE_DEVICES-unset} step=${SLURM_STEP_GPUS-unset} here=${SLURM_GPUS_ON_NODE-unset}' 2>&1 | sort
done
E
longest=60 ended
out

#: steps of one node's job that asked with --gpus-per-task
job -N1 -n2 --gpus-per-task=1 <<'E'
for shape in '-n1' '-n2' '-n1 --gpus=1' '-n1 --gpus=2' '-n1 --gpus=3' '-n1 --gpus=0' '-n2 --gpus=1' '-n2 --gpus=2' '-n1 --gres=gpu:1' '-n1 --gres=gpu:3' '-n2 --gres=gpu:1' '-n1 --gres=none' '-n1 --gres=gpu:0' '-n1 --gpus-per-node=1' '-n1 --gpus-per-node=3' '-n1 --gpus-per-node=0' '-n2 --gpus-per-task=1' '-n1 --gpus-per-task=1' '-n1 --gpus-per-task=2' '-n1 --gpus-per-task=0' '-n2 --gpus-per-task=2' '-n1 --exact' '-n1 --exact --gpus=1' '-n2 --ntasks-per-gpu=1'; do
    echo "== $shape"
    srun $shape -l bash -c 'echo cuda=${CUDA_VISIBLE_DEVICES-unset} step=${SLURM_STEP_GPUS-unset} here=${SLURM_GPUS_ON_NODE-unset}' 2>&1 | sort
done
E
longest=60 ended
out

#: steps of two nodes' job that asked with a count of devices for all nodes
job -N2 -n4 --gpus=4 <<'E'
for shape in '' '-n4 --gpus=2' '-n4 --gpus=3' '-n4 --gpus=4' '-n4 --gpus=5' '-n2 --gpus=2' '-N2 --gpus=2' '-N1 -n2 --gpus=2' '-n4 --gpus-per-node=1' '-n4 --gres=gpu:1' '-n4 --gres=gpu:2' '-n3 --gpus-per-task=1' '-n2 --gpus-per-task=2' '-n2 --gpus-per-task=1' '-n4 --gres=none' '-n4 --gpus=0' '-N1 -n1 -w node2 --gpus=1' '-N1 -n1 --gpus=1' '-N1 -n1 -r1 --gres=gpu:1' '-n1 --gpus=1' '-n1 --gres=gpu:1' '-n1'; do
    echo "== $shape"
    srun $shape -l bash -c 'echo $(hostname) cuda=${CUDA_VISIBLE_DEVICES-unset} step=${SLURM_STEP_GPUS-unset} here=${SLURM_GPUS_ON_NODE-unset}' 2>&1 | sort
done
E
longest=60 ended
out

#: steps of two nodes' job that asked with an uneven count
job -N2 -n4 --gpus=3 <<'E'
for shape in '' '-n4 --gpus=2' '-n4 --gpus=3' '-n4 --gpus=4' '-n4 --gpus=5' '-n2 --gpus=2' '-N2 --gpus=2' '-N1 -n2 --gpus=2' '-n4 --gpus-per-node=1' '-n4 --gres=gpu:1' '-n4 --gres=gpu:2' '-n3 --gpus-per-task=1' '-n2 --gpus-per-task=2' '-n2 --gpus-per-task=1' '-n4 --gres=none' '-n4 --gpus=0' '-N1 -n1 -w node2 --gpus=1' '-N1 -n1 --gpus=1' '-N1 -n1 -r1 --gres=gpu:1' '-n1 --gpus=1' '-n1 --gres=gpu:1' '-n1'; do
    echo "== $shape"
    srun $shape -l bash -c 'echo $(hostname) cuda=${CUDA_VISIBLE_DEVICES-unset} step=${SLURM_STEP_GPUS-unset} here=${SLURM_GPUS_ON_NODE-unset}' 2>&1 | sort
done
E
longest=60 ended
out

#: steps of two nodes' job that asked with --gres
job -N2 -n4 --gres=gpu:2 <<'E'
for shape in '' '-n4 --gpus=2' '-n4 --gpus=3' '-n4 --gpus=4' '-n4 --gpus=5' '-n2 --gpus=2' '-N2 --gpus=2' '-N1 -n2 --gpus=2' '-n4 --gpus-per-node=1' '-n4 --gres=gpu:1' '-n4 --gres=gpu:2' '-n4 --gpus-per-task=1' '-n3 --gpus-per-task=1' '-n2 --gpus-per-task=2' '-n2 --gpus-per-task=1' '-n4 --gres=none' '-n4 --gpus=0' '-N1 -n1 -w node2 --gpus=1' '-N1 -n1 --gpus=1' '-N1 -n1 -r1 --gres=gpu:1' '-n1 --gpus=1' '-n1 --gres=gpu:1' '-n1'; do
    echo "== $shape"
    srun $shape -l bash -c 'echo $(hostname) cuda=${CUDA_VISIBLE_DEVICES-unset} step=${SLURM_STEP_GPUS-unset} here=${SLURM_GPUS_ON_NODE-unset}' 2>&1 | sort
done
E
longest=60 ended
out

#: steps of two nodes' job that asked with --gpus-per-task
job -N2 -n4 --gpus-per-task=1 <<'E'
for shape in '' '-n4 --gpus=2' '-n4 --gpus=3' '-n4 --gpus=4' '-n4 --gpus=5' '-n2 --gpus=2' '-N2 --gpus=2' '-N1 -n2 --gpus=2' '-n4 --gpus-per-node=1' '-n4 --gres=gpu:1' '-n4 --gres=gpu:2' '-n4 --gpus-per-task=1' '-n3 --gpus-per-task=1' '-n2 --gpus-per-task=2' '-n2 --gpus-per-task=1' '-n4 --gres=none' '-n4 --gpus=0' '-N1 -n1 -w node2 --gpus=1' '-N1 -n1 --gpus=1' '-N1 -n1 -r1 --gres=gpu:1' '-n1 --gpus=1' '-n1 --gres=gpu:1' '-n1'; do
    echo "== $shape"
    srun $shape -l bash -c 'echo $(hostname) cuda=${CUDA_VISIBLE_DEVICES-unset} step=${SLURM_STEP_GPUS-unset} here=${SLURM_GPUS_ON_NODE-unset}' 2>&1 | sort
done
E
longest=60 ended
out

#: pairs of steps in a job that asked with a count of devices
cat >one.sh <<'E'
touch began-$1-$2; i=0 # the other one has begun, or was told to wait
until [ -e began-$1-$3 ] || grep -qsE 'temporarily disabled|error' said-$1-$3 || [ $((++i)) -gt 100 ]; do sleep 0.1; done
echo "$1: cuda=${CUDA_VISIBLE_DEVICES-unset} step=${SLURM_STEP_GPUS-unset}" $([ -e began-$1-$3 ] && echo together || echo alone)
E
job -N1 -n2 --gpus=2 <<'E'
k=0
for shape in '--exact -n1 --gpus=1' '-n1 --gpus=1 -c1' '--exact -n1 --gres=gpu:1' '--exclusive -n1 --gpus-per-node=1' '--exact -n1 --gpus-per-task=1' '--overlap -n1 --gpus=1' '--exact -n1 --gpus=0' '--exact -n1 --gres=none'; do
    k=$((k+1))
    echo "== $shape" >>pairs.txt
    { srun $shape bash one.sh $k a b 2>said-$k-a & srun $shape bash one.sh $k b a 2>said-$k-b & wait; cat said-$k-?; } 2>&1 | grep -v -E 'step creation|Step created' | sort >>pairs.txt
done
E
longest=100 ended
log pairs.txt

#: pairs of steps in a job that asked with --gres
cat >one.sh <<'E'
touch began-$1-$2; i=0 # the other one has begun, or was told to wait
until [ -e began-$1-$3 ] || grep -qsE 'temporarily disabled|error' said-$1-$3 || [ $((++i)) -gt 100 ]; do sleep 0.1; done
echo "$1: cuda=${CUDA_VISIBLE_DEVICES-unset} step=${SLURM_STEP_GPUS-unset}" $([ -e began-$1-$3 ] && echo together || echo alone)
E
job -N1 -n2 --gres=gpu:2 <<'E'
k=0
for shape in '--exact -n1 --gpus=1' '-n1 --gpus=1 -c1' '--exact -n1 --gres=gpu:1' '--exclusive -n1 --gpus-per-node=1' '--exact -n1 --gpus-per-task=1' '--overlap -n1 --gpus=1' '--exact -n1 --gpus=0' '--exact -n1 --gres=none'; do
    k=$((k+1))
    echo "== $shape" >>pairs.txt
    { srun $shape bash one.sh $k a b 2>said-$k-a & srun $shape bash one.sh $k b a 2>said-$k-b & wait; cat said-$k-?; } 2>&1 | grep -v -E 'step creation|Step created' | sort >>pairs.txt
done
E
longest=100 ended
log pairs.txt

#: three steps for two devices of a job that asked with --gres
job -N1 -n4 --gres=gpu:2 <<'E'
for n in 1 2 3; do srun --exact -n1 --gpus=1 bash -c 'echo $CUDA_VISIBLE_DEVICES; sleep 0.5' 2>/dev/null >>three.txt & sleep 0.3; done; wait
srun --exact -n1 --gpus=1 bash -c 'echo $CUDA_VISIBLE_DEVICES; sleep 2' >first.txt & sleep 1
srun --exact -n1 --gpus=1 bash -c 'echo $CUDA_VISIBLE_DEVICES'
srun --exact -n1 bash -c 'echo all $CUDA_VISIBLE_DEVICES' 2>/dev/null
srun --exact -n1 --gpus=2 bash -c 'echo $CUDA_VISIBLE_DEVICES' 2>/dev/null
wait; cat first.txt
srun --exact -n1 --gpus=3 true; echo $?
E
ended
out
sorted three.txt

#: what a step's devices put into its environment
for shape in --gres=gpu:2 --gpus=2 '--gpus-per-task=1 -n2'; do
    job -N1 -n2 $shape <<'E'
env | grep -E 'GPU|GRES|CUDA|TRES' | sort
for shape in '-n1' '-n1 --gpus=1' '-n1 --gpus-per-task=1' '-n2 --gpus-per-task=1' '-n1 --gres=gpu:1' '-n1 --gres=none'; do
    echo "== $shape"
    srun -l $shape bash -c 'env | grep -E "GPU|GRES|CUDA|TRES|ROCR|ZE_"' | LC_ALL=C sort
done
E
    ended
done
out
