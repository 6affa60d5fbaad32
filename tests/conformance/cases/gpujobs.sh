# Jobs that ask for devices, in every way.

#: one device for each task
for shape in '-n4' '-n4 -N2' '-n4 -c2' '-N2 --ntasks-per-node=2' '-n4 --ntasks-per-node=2' '-n3' '-n3 -N2' '-n2' '-n2 -N2' '-n2 -N1' '-n1' '-n4 -c4' '-n4 -c3 -N2'; do
    job $shape --gpus-per-task=1 <<'E'
echo $SLURM_JOB_NODELIST $SLURM_TASKS_PER_NODE $SLURM_JOB_CPUS_PER_NODE ntasks=$SLURM_NTASKS gpus=$SLURM_GPUS here=$SLURM_GPUS_ON_NODE job=$SLURM_JOB_GPUS cuda=$CUDA_VISIBLE_DEVICES
srun -l bash -c 'echo $(hostname) ${CUDA_VISIBLE_DEVICES-unset} step=${SLURM_STEP_GPUS-unset} here=${SLURM_GPUS_ON_NODE-unset}' | sort
E
    ended $id
done
out

#: memory and threads that no node has
for shape in '--mem-per-cpu=16001' '--mem-per-cpu=16000' '--mem-per-cpu=9000 -c2' '--mem-per-cpu=8000 -c2' '-n8 --mem-per-cpu=2001' '-n8 --mem-per-cpu=2000' '-n16 --mem-per-cpu=2001' '-n2 --mem-per-cpu=9000' '-N2 -n2 --mem-per-cpu=9000' '-N1 -n2 --mem-per-cpu=9000' '--mem-per-cpu=20G' '-n2 -N1 --mem-per-cpu=8000' '--mem=16001' '--mem-per-cpu=0' '--mem=0' '--ntasks-per-node=2 --mem-per-cpu=9000' '-c4 --mem-per-cpu=4001 -n2' '--exclusive --mem-per-cpu=2001'; do
    t sbatch $shape --wrap true
done
ended
states
t srun --mem-per-cpu=16001 true
t srun --mem=16001 true

#: srun outside of a job, with devices
for shape in '--gpus=1' '--gpus=2' '-n2 --gpus=2' '-n2 --gpus-per-task=1' '-n4 --gpus-per-task=1' '-N2 --gpus-per-node=1' '-N2 --gres=gpu:2' '-N2 --gpus=3' '--gres=gpu:1' '--gpus-per-node=2'; do
    t srun -l $shape bash -c 'echo $(hostname) cuda=${CUDA_VISIBLE_DEVICES-unset} step=${SLURM_STEP_GPUS-unset} job=${SLURM_JOB_GPUS-unset} here=${SLURM_GPUS_ON_NODE-unset} gpus=$SLURM_GPUS/$SLURM_GPUS_PER_NODE/$SLURM_GPUS_PER_TASK'
done

#: a job that a job with devices submits
cat >seen.sh <<'E'
#!/bin/bash
echo "$SLURM_JOB_NAME"
env | grep -v ^COURSE_ | grep -E 'CUDA|GPU|ROCR|ZE_AFF' | sort
srun -l bash -c 'echo step ${CUDA_VISIBLE_DEVICES-unset}' 2>&1 | sort
E
script submit.sh <<'E'
sbatch --parsable -d afterany:$(cat last) -o "child-$2.txt" -J "$2" $1 seen.sh >new
mv new last # one after the other, so that each finds all devices free
E
job -J parent -N1 --gpus-per-node=2 <<'E'
echo $SLURM_JOB_ID >last
bash submit.sh '' none
bash submit.sh --gpus=1 one
bash submit.sh --gres=gpu:2 gres
bash submit.sh '-N2 --gpus-per-node=1' each
bash submit.sh --export=NONE clean
srun bash -c 'bash submit.sh "" step'
CUDA_VISIBLE_DEVICES=7 bash submit.sh '' set
E
patience 40 bash -c '[[ -z $(squeue -h -o %i) ]]'
log child-*.txt
export CUDA_VISIBLE_DEVICES=7 ROCR_VISIBLE_DEVICES=7 ZE_AFFINITY_MASK=7 GPU_DEVICE_ORDINAL=7
export SLURM_GPUS_ON_NODE=7 SLURM_JOB_GPUS=7
t sbatch -J outside -o outside.txt seen.sh
ended $id
log outside.txt
t srun bash -c 'echo ${CUDA_VISIBLE_DEVICES-unset}'
