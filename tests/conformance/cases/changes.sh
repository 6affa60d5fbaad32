# Jobs that are changed after their submission: scontrol update.

#: an ended job is changed
job <<'X'
true
X
ended
t scontrol update jobid="$id" timelimit=5
