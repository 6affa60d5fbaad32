# Writes the configuration of every daemon below $state/etc; sourced by start.sh.
# shellcheck shell=bash disable=SC2154

write_slurm_conf() {
    cat <<CONF
ClusterName=course
SlurmctldHost=$(hostname -s)($head_address)
SlurmctldPort=$port
SlurmdPort=$((port + 1))
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$state/munge/socket
CredType=cred/munge
StateSaveLocation=$state/ctld
SlurmdSpoolDir=$state/spool-%n
SlurmctldPidFile=$state/slurmctld.pid
SlurmdPidFile=$state/slurmd-%n.pid
SlurmctldLogFile=$state/log/slurmctld.log
SlurmdLogFile=$state/log/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
ReturnToService=2
SlurmdParameters=config_overrides
FirstJobId=$first_job
KillWait=$kill_wait_s
EnforcePartLimits=ALL
# First come, first served, with short delays, as a course has no long queue.
SchedulerType=sched/builtin
SchedulerParameters=batch_sched_delay=0,sched_interval=2,sched_min_interval=20000,default_queue_depth=1000
PriorityType=priority/basic
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
GresTypes=gpu
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=task=10
AccountingStorageType=$1
AccountingStorageHost=127.0.0.1
AccountingStoragePort=$((port + 2))
AccountingStoragePass=$state/munge/socket
CONF
    # Slurm counts devices only if it can record them.
    [ "$1" = accounting_storage/none ] || echo "AccountingStorageTRES=gres/gpu"
    local node
    for node in "${nodes[@]}"; do
        echo "NodeName=$node NodeAddr=$(node_address "$node") CPUs=$cpus_per_node" \
            "Boards=1 SocketsPerBoard=1 CoresPerSocket=$cpus_per_node ThreadsPerCore=1" \
            "RealMemory=$memory_mib Gres=gpu:$gpus_per_node"
    done
    echo "PartitionName=course Nodes=ALL Default=YES DefaultTime=01:00:00 MaxTime=1-00:00:00 State=UP"
}

# Slurm needs device files, which it counts, allocates and numbers by the digits in their names;
# without GPUs they are copies of /dev/null.
write_gres_conf() {
    local node device
    for node in "${nodes[@]}"; do
        for ((device = 0; device < gpus_per_node; device++)); do
            echo "NodeName=$node Name=gpu File=$state/devices/$node/gpu$device"
            mkdir -p "$state/devices/$node"
            mknod "$state/devices/$node/gpu$device" c 1 3
        done
    done
}

write_slurmdbd_conf() {
    cat <<CONF
AuthType=auth/munge
AuthInfo=socket=$state/munge/socket
DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort=$((port + 2))
SlurmUser=root
LogFile=$state/log/slurmdbd.log
PidFile=$state/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=root
StorageLoc=slurm
CONF
}

# The database is not kept after this Slurm ends, so it need not wait for a busy disk.
write_mariadb_conf() {
    cat <<CONF
[mysqld]
datadir=$state/mariadb
socket=$state/mariadb/socket
pid-file=$state/mariadb.pid
log-error=$state/log/mariadb.log
user=root
skip-networking
skip-grant-tables
innodb_buffer_pool_size=64M
innodb_log_file_size=16M
innodb_lock_wait_timeout=900
innodb_flush_log_at_trx_commit=0
innodb_flush_method=nosync
innodb_doublewrite=0
sync_frm=0
CONF
}

write_hosts() {
    local node
    echo "127.0.0.1 localhost"
    echo "$head_address $(hostname -s)"
    for node in "${nodes[@]}"; do echo "$(node_address "$node") $node"; done
}
