# Jobs that no node could ever run: held, waiting for others, or for a time.

#: a held job that can never run is taken, and told so once it is released
for shape in '--gpus-per-node=16' '-N2 --gpus-per-node=3' '--gres=gpu:3' '--gpus=5' '--mem=1000G' '-c9' '-N2 --ntasks-per-node=9' '-n4 --gpus-per-task=2'; do
    t sbatch --hold $shape --wrap true
done
reason
for id in "${ids[@]}"; do t scontrol release $id; done
because BadConstraints "${ids[@]}"
reason
patience 20 bash -c "scontrol show job $id | grep -q StartTime=Unknown"
show Reason JobState Priority StartTime
t squeue -h -o '%i %T %R' -S i
t sbatch -J fits --wrap 'echo ran'
ended $id
out $id
reason
t scancel ${ids[@]}

#: a job that was released and cannot run is held, changed and released again
t sbatch --hold --gpus-per-node=3 --wrap 'echo ran'
t scontrol release $id
because BadConstraints
reason
t scontrol hold $id
reason
t scontrol release $id
because BadConstraints
reason
t scancel $id
states
