# Jobs that no node could ever run: held, waiting for others, or for a time.

#: a held job that can never run is taken, and told so once it is released
for shape in '--gpus-per-node=16' '-N2 --gpus-per-node=3' '--gres=gpu:3' '--gpus=5' '--mem=1000G' '-c9' '--mincpus=9' '-N2 --ntasks-per-node=9' '-n4 --gpus-per-task=2' '--gpus-per-node=a100:1'; do
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

#: a held job beyond the partition is refused all the same
for shape in '-N3' '-n17' '-c17' '-t 2-0' '-w node3' '-N2-1' '-w node1 -x node1' '-n9 -c2'; do
    t sbatch --hold $shape --wrap true
done

#: a job that can never run and waits for another, or for a time
t sbatch --hold -J first --wrap true
first=$id
for shape in "-d afterany:$first" '--begin=now+1hour' '--begin=now+1' '--priority=0' '-n2 --nice=5' '-d singleton -J first'; do
    t sbatch $shape --gpus-per-node=16 --wrap true
done
reason

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

#: srun, held and too large
t srun --hold --gpus-per-node=16 --test-only true
t srun --gpus-per-node=16 true
t sbatch --hold --gpus-per-node=16 --test-only --wrap true
t sbatch --gpus-per-node=16 --test-only --wrap true
