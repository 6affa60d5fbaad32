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
