# The smaller commands: sstat, sbcast, sprio, sshare.

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
t sstat -a -j "$id" -n -P -o nosuch
touch go
ended

#: sstat of nothing
t sstat
t sstat -j 999
t sstat -j x
t sstat -n -j 999
t sstat --nosuch
t sstat -e
t sstat -V

#: sstat headings
job <<'X'
touch up
while [ ! -e go ]; do sleep 0.1; done
X
appears up
sleep 1
sstat -a -P -j "$id" | head -1
sstat -a -j "$id" | head -2
echo end
touch go

#: sstat of an ended job
job <<'X'
true
X
ended
t sstat -j "$id" -n -P -o jobid

#: sbcast
job <<'X'
echo content >source
chmod 750 source
there=/tmp/sbcast-test-$SLURM_JOB_ID
sbcast source "$there"; echo "code $?"
srun bash -c "cat $there; stat -c %a $there"
sbcast source "$there"; echo "code $?"
sbcast -f source "$there"; echo "code $?"
sbcast nosuch "$there"; echo "code $?"
sbcast source; echo "code $?"
sbcast source /nosuchfolder/x; echo "code $?"
sbcast -fp source "$there"; echo "code $?"
srun rm -f "$there"
X
tell

#: sbcast outside of a job
echo x >source
t sbcast source /tmp/sbcast-nothing
t sbcast -j 999 source /tmp/sbcast-nothing
t sbcast

#: sprio
t sprio
t sprio -l
t sprio -w
t sprio -n
t sprio -j 5

#: sshare
t sshare
t sshare -l
t sshare -a
t sshare -n
t sshare -P -U
t sshare --nosuch
