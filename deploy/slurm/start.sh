#!/usr/bin/env bash
# Starts a real two-node Slurm on this machine: a controller, accounting, and two slurmd, each in its
# own network, mount, host name and process namespaces, connected by a shaped link.
# All files are below one folder; stop.sh ends everything. A second start finds the first running.
# COURSE_SLURM_LINK_MBIT   bandwidth between the nodes (1000)
# COURSE_SLURM_GPUS, COURSE_SLURM_CPUS, COURSE_SLURM_MEMORY_MIB   of each node (2, 8, 16000)
# COURSE_SLURM_KILL_WAIT   seconds between SIGTERM and SIGKILL (5)
# COURSE_SLURM_FIRST_JOB   id of the first job (1)
# COURSE_SLURM_INSTANCE    0 to 99: several instances may run at the same time (0)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
source ./common.sh
source ./configure.sh
# The box's commands, which come first in a shell of the course, have the same names.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:$PATH

check_machine() {
    [ "$(id -u)" -eq 0 ] || fail "needs root for namespaces and slurmd: sudo make slurm"
    local command absent=()
    for command in slurmctld slurmd munged ip tc unshare; do
        command -v "$command" >/dev/null || absent+=("$command")
    done
    [ ${#absent[@]} -eq 0 ] || fail "not installed: ${absent[*]}. On Debian and Ubuntu:" \
        "apt-get install slurm-wlm munge iproute2 (and slurmdbd mariadb-server-core for sacct)"
}

has_accounting() { command -v slurmdbd >/dev/null && command -v mariadbd >/dev/null; }

configure() {
    rm -rf "$state"
    mkdir -p "$state"/{etc,pids,log,ctld,munge}
    make_database_folder
    chmod 700 "$state/ctld" "$state/mariadb"
    echo "$link_mbit" >"$state/link_mbit"
    local storage=accounting_storage/none
    if has_accounting; then storage=accounting_storage/slurmdbd; fi
    write_slurm_conf "$storage" >"$state/etc/slurm.conf"
    write_gres_conf >"$state/etc/gres.conf"
    write_hosts >"$state/hosts"
    (umask 077 && write_slurmdbd_conf >"$state/etc/slurmdbd.conf" &&
        write_mariadb_conf >"$state/etc/mariadb.cnf" &&
        head -c 128 /dev/urandom >"$state/munge/key")
}

# In memory if there is room: each start creates its tables anew, and each table waits for the disk.
make_database_folder() {
    rm -rf "$in_memory"
    if [ "$(stat -f -c %T /dev/shm 2>/dev/null)" = tmpfs ] &&
        [ "$(df --output=avail -k /dev/shm | tail -n 1)" -gt $((512 << 10)) ]; then
        mkdir "$in_memory"
        chmod 700 "$in_memory"
        ln -s "$in_memory" "$state/mariadb"
    else
        mkdir "$state/mariadb"
    fi
}

# launch NAME COMMAND…: runs it in the background, in its own session, and records it for stop.sh.
launch() {
    local name=$1
    shift
    setsid "$@" </dev/null >>"$state/log/$name.out" 2>&1 &
    remember "$name" $!
}

start_munge() {
    launch munged munged --foreground --socket="$state/munge/socket" --key-file="$state/munge/key" \
        --pid-file="$state/munge/pid" --log-file="$state/log/munged.log" \
        --seed-file="$state/munge/seed"
    wait_until 10 test -S "$state/munge/socket" || fail "munged did not start: $state/log/munged.out"
}

start_accounting() {
    launch mariadb mariadbd --defaults-file="$state/etc/mariadb.cnf"
    wait_until 20 test -S "$state/mariadb/socket" ||
        fail "the database did not start: $state/log/mariadb.log"
    export MYSQL_UNIX_PORT=$state/mariadb/socket
    launch slurmdbd slurmdbd -D
    wait_until 60 timeout 2 sacctmgr -n show cluster || {
        timeout 2 sacctmgr -n show cluster || true
        fail "slurmdbd did not start: $state/log/slurmdbd.log"
    }
    # This creates the tables of the cluster. Without the default entry for root, root too has only the
    # account that it requests.
    { timeout 60 sacctmgr -iQ add cluster course && timeout 60 sacctmgr -iQ delete user root; } \
        >/dev/null || fail "slurmdbd did not take the cluster within a minute: $state/log/slurmdbd.log"
}

start_network() {
    ip link add "$bridge" type bridge
    ip address add "$head_address/24" dev "$bridge"
    ip link set "$bridge" up
}

start_node() {
    local node=$1 pid
    launch "$node" unshare --net --mount --uts --pid --fork --kill-child --mount-proc \
        bash "$PWD/node.sh" "$node"
    pid=$(pid_of "$node")
    wait_until 5 own_network "$pid" || fail "$node: no network namespace: $state/log/$node.out"
    ip link add "$(host_end "$node")" type veth peer name eth0 netns "$pid"
    ip link set "$(host_end "$node")" master "$bridge" up
    shape "$(host_end "$node")"
}
own_network() { [ "$(readlink "/proc/$1/ns/net")" != "$(readlink /proc/self/ns/net)" ]; }

all_up() {
    local name
    for name in munged slurmctld "${nodes[@]}"; do alive "$name" || return 1; done
    ! has_accounting || { alive mariadb && alive slurmdbd; }
}
all_idle() { [ "$(timeout 3 sinfo -h -N -t idle,alloc,mix -o %N | wc -l)" -eq ${#nodes[@]} ]; }

usage() {
    cat <<TEXT
slurm: running: $(sinfo -h -o '%D nodes %N, %c CPUs and %G each, partition %P'), link $(cat "$state/link_mbit") Mbit/s
slurm: use it from any shell, as any user:  export SLURM_CONF=$state/etc/slurm.conf
slurm: logs: $state/log   end it: make slurm-stop
TEXT
}

give_up() {
    local kept
    kept=$(mktemp -d -t course-slurm-logs.XXXXXX)
    cp "$state"/log/* "$kept"/ 2>/dev/null || true
    say "could not start; ending what was started; its logs are kept in $kept"
    bash ./stop.sh
}

check_machine
export SLURM_CONF=$state/etc/slurm.conf
if [ -d "$state/pids" ]; then
    if all_up; then
        usage
        exit 0
    fi
    say "found one that is half there, starting anew"
    bash ./stop.sh
fi
trap '[ $? -eq 0 ] || give_up' EXIT
configure
start_munge
start_network
for node in "${nodes[@]}"; do start_node "$node"; done
if has_accounting; then
    start_accounting
else
    say "slurmdbd and mariadb-server-core are not installed: sacct will not work"
fi
launch slurmctld slurmctld -D
wait_until 20 all_idle || {
    timeout 3 sinfo -N -l || true
    tail -n 3 "$state"/log/slurm*.log >&2
    fail "the nodes did not come up within 20 s: $state/log"
}
usage
