#!/usr/bin/env bash
# Ends the Slurm that start.sh started: its processes, nodes, bridge and folder, and no other's.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
source ./common.sh

[ -d "$state/pids" ] || exit 0
[ "$(id -u)" -eq 0 ] || fail "needs root: sudo make slurm-stop"

end() {
    alive "$1" || return 0
    kill -"$2" "$(pid_of "$1")" 2>/dev/null || true
    wait_until 10 gone "$1" || kill -KILL "$(pid_of "$1")" 2>/dev/null || true
    wait_until 10 gone "$1" || fail "$1 (process $(pid_of "$1")) does not end"
}
gone() { ! alive "$1"; }

# A node's outer process takes its first process with it, and the kernel takes the rest.
for node in "${nodes[@]}"; do end "$node" KILL; done
for name in slurmctld slurmdbd mariadb munged; do end "$name" TERM; done
for node in "${nodes[@]}"; do
    if ip link show "$(host_end "$node")" >/dev/null 2>&1; then ip link delete "$(host_end "$node")"; fi
done
if ip link show "$bridge" >/dev/null 2>&1; then ip link delete "$bridge"; fi
rm -rf "$state"
say "ended"
