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

#: login shells, fresh environments and paths within a job (namespaces)
job -n2 -J fresh <<'E'
bash -lc 'srun -n1 hostname; squeue -h -o "%j %T"'
bash --login -c 'scontrol show job $SLURM_JOB_ID | grep -o "JobName=.*"'
env -i SLURM_JOB_ID=$SLURM_JOB_ID /bin/bash -c 'srun -n1 /bin/hostname'
env -i SLURM_JOB_ID=$SLURM_JOB_ID /bin/bash -lc 'srun -n1 /bin/hostname' 2>/dev/null
env -i SLURM_JOB_ID=$SLURM_JOB_ID /bin/sh -c 'srun -n1 /bin/hostname'
env PATH=/usr/bin:/bin squeue -h -o '%j %T'
env PATH=/bin scontrol show hostnames $SLURM_JOB_NODELIST
env -u PATH squeue -h -o '%j'
(PATH=/usr/bin:/bin; srun -n1 hostname)
(export PATH=/usr/bin; timeout 20 srun -n2 hostname)
/usr/bin/srun -n1 hostname
/bin/squeue -h -o %j
python3 -c 'import subprocess; subprocess.run(["squeue", "-h", "-o", "%j"], env={"PATH": "/usr/bin"})'
srun -n1 bash -lc 'squeue -h -o %j'
srun -n1 env PATH=/usr/bin:/bin squeue -h -o %j
echo 'squeue -h -o %j' | bash -l
E
ended
out

#: srun outside of a job gives its tasks the commands (namespaces)
t srun -J outside bash -lc 'squeue -h -o %j'
t srun -J outside env PATH=/usr/bin:/bin squeue -h -o %j
t sbatch -J none --export=NONE --wrap 'squeue -h -o %j; bash -lc "squeue -h -o %j"'
ended $id
t sbatch -J path --export=PATH=/usr/bin:/bin --wrap 'squeue -h -o %j; srun squeue -h -o %j'
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
