# Commands of Slurm in a job whose PATH is not that of its submission.

#: a login shell as the shell of the script
script login.sh <<'E'
#!/bin/bash -l
srun -n2 hostname
scontrol show job $SLURM_JOB_ID | grep -o 'JobName=.*'
squeue -h -o '%j %T'
scontrol show hostnames $SLURM_JOB_NODELIST
sinfo -h -o %N
sbatch -J child --wrap true >/dev/null && echo submitted
scancel --quiet --name nosuch; echo $?
E
t sbatch -n2 -J login login.sh
ended
out

#: tools of the machine are as they were
job -N2 <<'E'
env -i /bin/bash -c 'ls / >/dev/null && echo ls; date +%Y >/dev/null && echo date; command -v bash env sort'
python3 -c 'import sys; print(sys.prefix == sys.base_prefix)'
/usr/bin/env true && echo env
srun -l bash -c 'env -i /usr/bin/test -x /usr/bin/env && echo there' | sort
E
ended
out
