# More ways to ask, and what is answered to those who ask wrongly.

#: squeue -o with a tab and a backslash
t sbatch --hold -J abcdefghijklmnop --wrap true
t squeue -o $'a\tb\\n%j'

#: scontrol requeue, in every state
t sbatch --hold -J held --wrap true
t scontrol requeue $id
job -J done <<'E'
true
E
ended $id
job -J norequeue --no-requeue <<'E'
touch up
while [ ! -e go ]; do sleep 0.1; done
E
appears up
t scontrol requeue $id
t scontrol requeue $id,99999999
t scontrol requeue
touch go

#: scancel in more forms
t sbatch --hold -J one --wrap true
t sbatch --hold -J two --wrap true
t sbatch --hold -J three --wrap true
t scancel --name two --user nobody
t scancel -p course -t PD -n three
t scancel -Q 99999999
t scancel -f ${ids[0]}
t scancel -b ${ids[0]}
t scancel -s INT ${ids[0]}
t scancel -s 0 ${ids[0]}
t scancel ${ids[0]}.0
t scancel ${ids[0]}_1
t scancel "${ids[0]},${ids[1]}"
states

#: filters that name nothing, or somebody who does not exist
t sbatch --hold -J kept -o /dev/null --wrap true
for filter in --name= --user= --partition= --states= --jobs= --user=99999 --users=root --user=99999999999 --name=kept,; do
    t squeue -h -o %j "$filter"
done
t squeue -h -o %j -j
t squeue -h -o %j -j ''
t sacct -n -X -o jobname --name=
t sacct -n -X -o jobname --user=99999
for filter in --name= --name=, --partition= --user= --user=99999 --state=; do t scancel "$filter"; done
reason

#: hold and release by name
for name in one one two; do t sbatch --hold -J $name -o /dev/null --wrap true; done
for words in name=one jobname=none name= NAME=two,one jobid= job= name; do t scontrol hold $words; done
reason
t scontrol release name=one
because None "${ids[@]:0:2}" || true
ended "${ids[@]:0:2}"
t scontrol release Name=one
t scontrol hold "${ids[0]}" name=two
t scontrol release "${ids[0]},700999"
t scontrol release "${ids[2]}" 700999
t scontrol requeue name=one
