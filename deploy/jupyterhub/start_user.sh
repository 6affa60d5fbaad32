#!/usr/bin/env bash
# Started by the hub for each user, as that user: sets limits, prepares a workspace, starts the server.
# COURSE_USER_PROCESSES, COURSE_USER_PROCESS_GIB, COURSE_USER_FILE_GIB come from jupyterhub_config.py.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../jupyter/options.sh" # sets course

ulimit -u "$COURSE_USER_PROCESSES"
ulimit -d $((COURSE_USER_PROCESS_GIB * 1024 * 1024))
ulimit -f $((COURSE_USER_FILE_GIB * 1024 * 1024))
umask 077

workspace=$HOME/course
mkdir -p "$workspace"
if [ -f "$course/site.toml" ] && [ ! -e "$workspace/site.toml" ]; then
    install -m 600 "$course/site.toml" "$workspace/site.toml"
fi

cd "$workspace"
export COURSE_WORKSPACE=$workspace PATH=$course/.venv/bin:$PATH
if [ "$COURSE_COPY_LESSONS" = 1 ]; then
    course lessons update || true # the error is printed; existing copies are sufficient
fi
exec nice -n 5 "$course/.venv/bin/jupyterhub-singleuser" "$@"
