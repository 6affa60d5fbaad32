# Common names and addresses, sourced by start.sh, stop.sh and node.sh.
# shellcheck shell=bash disable=SC2034

instance=${COURSE_SLURM_INSTANCE:-0}
state=/run/course-slurm
((instance == 0)) || state+=-$instance
in_memory=/dev/shm/course-slurm-$instance     # the database, if there is room
nodes=(node1 node2)
link_mbit=${COURSE_SLURM_LINK_MBIT:-1000}     # bandwidth of each node's link, both ways
gpus_per_node=${COURSE_SLURM_GPUS:-2}
cpus_per_node=${COURSE_SLURM_CPUS:-8}         # may be more than the machine has
memory_mib=${COURSE_SLURM_MEMORY_MIB:-16000}  # per node, as Slurm shows it
kill_wait_s=${COURSE_SLURM_KILL_WAIT:-5}      # between SIGTERM and SIGKILL

first_job=${COURSE_SLURM_FIRST_JOB:-1}

bridge=course-br$instance
subnet=10.213.$((77 + instance))
port=$((16800 + 10 * instance))               # and the two above it
head_address=$subnet.1
node_address() { echo "$subnet.$((10 + ${1#node}))"; }
host_end() { echo "course$instance-$1"; }     # of the veth pair; its other end is the node's eth0

say() { echo "slurm: $*"; }
fail() {
    echo "slurm: $*" >&2
    exit 1
}

# A process is identified by its id and its start tick, so that no other process with a reused id is
# ever signalled.
started_at() { sed 's/.*) //' "/proc/$1/stat" 2>/dev/null | cut -d' ' -f20; }
remember() { echo "$2 $(started_at "$2")" >"$state/pids/$1"; }
alive() {
    local pid tick
    [ -r "$state/pids/$1" ] && read -r pid tick <"$state/pids/$1" && [ -n "$tick" ] &&
        [ "$(started_at "$pid")" = "$tick" ]
}
pid_of() { cut -d' ' -f1 "$state/pids/$1"; }

# wait_until SECONDS COMMAND…: tries ten times a second.
wait_until() {
    local end=$((SECONDS + $1))
    shift
    until "$@" >/dev/null 2>&1; do
        ((SECONDS < end)) || return 1
        sleep 0.1
    done
}

# The node's and the bridge's end have equal shaping; the queue holds at least 50 ms.
shape() {
    tc qdisc replace dev "$1" root tbf rate "${link_mbit}mbit" \
        burst $((link_mbit * 125 > 65536 ? link_mbit * 125 : 65536)) latency 50ms
}
