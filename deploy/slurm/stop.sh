#!/usr/bin/env bash
# Ends the Slurm that start.sh started: its processes, nodes, bridge and folder, and no other's.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
source ./common.sh

[ -d "$state/pids" ] || exit 0
[ "$(id -u)" -eq 0 ] || fail "needs root: sudo make slurm-stop"

# The state is thrown away, so nobody is asked politely. A node's outer process takes its first
# process with it, and the kernel then takes all others of the node.
for name in "${nodes[@]}" slurmctld slurmdbd mariadb munged; do
    if alive "$name"; then kill -KILL "$(pid_of "$name")"; fi
done
gone() { ! alive "$1"; }
for name in "${nodes[@]}" slurmctld slurmdbd mariadb munged; do
    wait_until 10 gone "$name" || fail "$name (process $(pid_of "$name")) does not end"
done
for node in "${nodes[@]}"; do
    if ip link show "$(host_end "$node")" >/dev/null 2>&1; then ip link delete "$(host_end "$node")"; fi
done
if ip link show "$bridge" >/dev/null 2>&1; then ip link delete "$bridge"; fi
rm -rf "$state" "$in_memory"
say "ended"
