# Lists of host names, folded and unfolded.

#: lists are unfolded
t scontrol show hostnames 'node[1-3,7]'
t scontrol show hostnames 'node1,node2'
t scontrol show hostnames 'x[01-03],y[9-11]'
t scontrol show hostnames 'a[1-2]b'
t scontrol show hostnames 'n[08-11]'
t scontrol show hostnames login
t scontrol show hostname node1
t scontrol show hostnames node2,node1,node2
t scontrol show hostnames 'n[1,3,5-6]-ib'
t scontrol show hostnames 'n1 n2'

#: broken lists
t scontrol show hostnames 'node[1-'
t scontrol show hostnames 'node1-2]'
t scontrol show hostnames ''
t scontrol show hostnames
t scontrol show hostnames ,,node1,

#: the list of the job, when there is one
SLURM_JOB_NODELIST='node[1-2]' t scontrol show hostnames
SLURM_NODELIST='node[1-2]' t scontrol show hostnames
