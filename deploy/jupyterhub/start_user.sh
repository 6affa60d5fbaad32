#!/usr/bin/env bash
# What the hub starts for a user, as that user: limits, a workspace of their own, their server.
# COURSE_USER_PROCESSES, COURSE_USER_PROCESS_GIB, COURSE_USER_FILE_GIB come from jupyterhub_config.py.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../jupyter/options.sh" # sets course and course_options

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
    course lessons update || true # said; the copies that are there will do
fi
exec nice -n 5 "$course/.venv/bin/jupyterhub-singleuser" "${course_options[@]}" "$@"
