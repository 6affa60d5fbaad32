# Options that fewer people use, and ways to write the usual ones.

#: where tasks are bound
job -n2 <<'E'
srun --cpu-bind=none -l echo none | sort
srun --cpu-bind=cores --mem-bind=local -l echo bound | sort
E
tell

#: how tasks are not bound
job -n2 <<'E'
for bind in nonsense cores,nonsense no off yes '' q quiet v verbose,cores rank rank_ldom ldoms sockets threads \
    map_cpu:0,1 map_cpu map_cpu: map_cpu:x mask_cpu:0x1,0x2 mask_cpu: mask_cpu:zz map_ldom:0 mask_ldom: none,v \
    NONE core boards cores,sockets; do
    echo "$bind"
    srun --cpu-bind="$bind" true || echo $?
done
srun --cpu_bind=nonsense true || echo $?
SLURM_CPU_BIND=nonsense srun true || echo $?
E
tell

#: values that options without effect do not take
for option in mem-bind=nonsense hint=nonsense gres-flags=nonsense mail-type=nonsense switches=x \
    threads-per-core=x threads-per-core=0; do
    t sbatch --hold --$option --wrap true
done

#: where nodes lie
job -N2 --contiguous --switches=1 <<'E'
echo $SLURM_JOB_NODELIST
E
job -N1 --spread-job --use-min-nodes <<'E'
echo ok
E
job --no-kill --gres-flags=enforce-binding <<'E'
echo ok
E
tell

#: jobs of several components or their refusal
script job.sh <<'E'
#!/bin/bash
#SBATCH -n1
#SBATCH hetjob
#SBATCH -n2
true
E
t sbatch --hold job.sh
t sbatch --hold -n1 : -n2 --wrap true
job -n2 <<'E'
srun -n1 true : -n1 true
E
ended
states

#: --wrap with every kind of quote
t sbatch -o 1.txt --wrap 'echo "a  b" '"'"'c  $HOME'"'"' `echo tick` $((1+1)) \\ \$x'
t sbatch -o 2.txt --wrap $'echo one\necho two | tr a-z A-Z'
t sbatch -o 3.txt --wrap='echo $0 $# "$@"' 
t sbatch -o 4.txt --wrap 'exec bash -c "exit 4"'
t sbatch --wrap 'echo x' argument
ended
states
sed -i 's/ [^ ]*slurm_script/ slurm_script/' ./*.txt
log 1.txt 2.txt 3.txt 4.txt

#: options in several words, in one, shortened, in any order
script job.sh <<'E'
#!/bin/bash
echo "$SLURM_JOB_NAME $SLURM_NTASKS $SLURM_NNODES $*"
E
t sbatch -Jone -n2 -N1 job.sh -n 9
t sbatch --job-name two --ntasks 2 --nodes=1 job.sh --job-name=x
t sbatch --job-name='three' -n=3 job.sh
t sbatch -n 2 -N 1 -J four -- job.sh a
t sbatch -n2 -Jfive job.sh
tell

#: export with commas, equals signs, blanks and quotes
export A=1 B='two words' C='x=y,z' D='$HOME "q"'
job --export=ALL <<'E'
printf '[%s]\n' "$A" "$B" "$C" "$D"
E
job --export=A,B,C,D <<'E'
printf '[%s]\n' "$A" "$B" "$C" "$D" "${USER-unset}"
E
job --export='A=a=b,B=c d,E' <<'E'
printf '[%s]\n' "$A" "$B" "${E-unset}"
E
job --export=ALL,A= <<'E'
printf '[%s]\n' "${A-unset}"
E
SBATCH_EXPORT=NONE job <<'E'
printf '[%s]\n' "${A-unset}" "${SLURM_EXPORT_ENV-unset}"
E
tell

#: a dependency written in every way
t sbatch --hold --wrap true
first=$id
script job.sh <<<'#!/bin/bash'
t sbatch -d afterok:$first job.sh
show Dependency
t sbatch --dependency=afterok:$first:$first job.sh
show Dependency
t sbatch --dependency=afterok:$first,afterany:$first job.sh
show Dependency
t sbatch --dependency=$first job.sh
show Dependency
t sbatch --dependency=AFTEROK:$first job.sh
t sbatch --dependency=afterok: job.sh
t sbatch --dependency=: job.sh
t sbatch --dependency=singleton,afterany:$first job.sh
show Dependency

#: memory and CPUs in every unit
script job.sh <<<'#!/bin/bash'
for option in --mem=100 --mem=100K --mem=100M --mem=1G --mem=0 --mem-per-cpu=10 --mem-per-cpu=1G; do
    t sbatch --hold --gpus=1 $option job.sh
    show MinMemoryNode MinMemoryCPU MinCPUsNode
done
t sbatch --mem=1T job.sh
t sbatch --mem=1X job.sh
t sbatch --mem=100 --mem-per-cpu=100 --hold job.sh

#: a signal before the end, in every way
script job.sh <<<'#!/bin/bash'
for text in USR1 10 USR1@20 B:USR1 B:12@30 SIGUSR2@5 R:USR1@5 RB:USR1@5 KILL@3; do
    t sbatch --hold --signal=$text job.sh
done

#: streams of a step in every way
job -n2 <<'E'
srun -o none echo nothing
srun -o all -l echo all | sort
srun -e err.%t -o out.%t bash -c 'echo o; echo e >&2'
srun -o both.%t -e both.%t bash -c 'echo o; echo e >&2'
srun --error=none bash -c 'echo o; echo e >&2'
srun -i all -l head -n1 <<<'to all' | sort
E
tell
log out.0 err.1
sorted both.0

#: what srun needs not do
t srun --version
t srun --mpi=none echo none
t srun --mpi=pmi2 echo pmi2
t srun --multi-prog nosuchfile
t srun --bcast true
t srun -n0 true
t srun -N0 true
t srun -c0 true
t srun -t0 echo unlimited

#: exit codes of steps and scripts
job -n3 <<'E'
srun -n1 bash -c 'exit 300'; echo $?
srun -n1 bash -c 'exit -1'; echo $?
srun -n3 bash -c 'exit $SLURM_PROCID'; echo $?
srun -n1 nosuchprogram; echo $?
srun -n1 /etc/passwd; echo $?
! srun -n1 false; echo $?
E
ended
states
sorted "slurm-$id.out"
steps

#: time limits of 0 and without limit
t sbatch --hold -t 0 --wrap true
show TimeLimit
t sbatch --hold -t 10 --wrap true
t sbatch --hold -t UNLIMITED --wrap true
t sbatch --hold -t 1-1 --wrap true

#: names of all options
for command in sbatch srun salloc squeue sinfo sacct scancel; do
    echo "$command:"
    for letter in {a..z} F N; do
        # getopt lists every name that begins like this one, if there are several
        timeout 20 "$command" --$letter </dev/null 2>&1 | grep -o "'--[A-Za-z_-]*'" |
            sed "s/clusters/cluster/; s/'//g" | sort -u | paste -sd ' '
    done
done

#: a step of whole nodes
job -n2 -c2 <<'E'
srun -n1 --whole echo whole
srun -n1 --whole --exact true || echo $?
srun -n1 --whole --exclusive true || echo $?
srun -n1 --whole -c2 echo given
E
tell
