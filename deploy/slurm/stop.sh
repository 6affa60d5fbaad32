#!/usr/bin/env bash
# Ends the Slurm that start.sh started: its own processes, nodes, bridge and folder only.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
source ./common.sh

[ -d "$state/pids" ] || exit 0
[ "$(id -u)" -eq 0 ] || fail "needs root: sudo make slurm-stop"

# The state is deleted, so processes are killed at once. A node's outer process ends its first
# process, and the kernel then ends all others of the node.
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
