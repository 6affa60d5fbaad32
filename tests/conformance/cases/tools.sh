# sstat.

#: sstat of a running job
job -n2 <<'X'
srun bash -c 'touch up; while [ ! -e go ]; do sleep 0.1; done'
X
appears up
sleep 2
t sstat -n -P -o jobid,ntasks,nodelist -j "$id"
t sstat -n -P -o jobid,ntasks -j "$id.0"
t sstat -n -P -o jobid,ntasks -j "$id.batch"
t sstat -n -P -a -o jobid,ntasks -j "$id"
t sstat -P -a -o JobID,NTasks,MaxRSSNode -j "$id" 
t sstat -j "$id" -o jobid,ntasks
t sstat -j "$id.7" -n -P -o jobid
t sstat -n -p -o jobid,ntasks "$id"
touch go
ended

#: sstat of nothing
t sstat
t sstat -j x
t sstat --nosuch
t sstat -V

#: sstat of an ended job
job <<'X'
true
X
ended
t sstat -j "$id" -n -P -o jobid
