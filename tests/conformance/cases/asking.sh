# More ways to ask, and what is answered to those who ask wrongly.

#: squeue -O: widths, letters, what it does not know
t sbatch --hold -J abcdefghijklmnop --wrap true
t squeue -O 'JobID:8,Name:5,Name:.5,State'
t squeue -h -O 'name:0'
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
