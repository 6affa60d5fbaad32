#!/usr/bin/env bash
# First process of a node's namespaces (network, mount, host name, processes); start.sh adds eth0.
# When it ends, the kernel ends all processes of the node and removes eth0.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
source ./common.sh
node=$1

hostname "$node"
mount --bind "$state/hosts" /etc/hosts
mount --bind "$state/etc" /etc/slurm # so that a job with --export=NONE finds its Slurm
wait_until 10 ip link show eth0 || fail "$node: got no eth0 within 10 s"
ip link set lo up
ip address add "$(node_address "$node")/24" dev eth0
ip link set eth0 up
shape eth0
unset SLURM_CONF
/usr/sbin/slurmd -D -N "$node" &
daemon=$!
trap 'kill $daemon' TERM
while kill -0 $daemon 2>/dev/null; do wait -n || true; done # also reaps orphans of jobs
