#!/usr/bin/env bash
# Runs a command (start.sh COMMAND…) with the options of the course's JupyterLab. Jobs run on the box if
# this container may have user namespaces; otherwise recorded runs stand in for them.
set -euo pipefail
jupyter=$(python -P -c 'from course_lib.classroom.start import JUPYTER; print(JUPYTER)')
export JUPYTER_CONFIG_PATH="$jupyter/config" JUPYTER_PATH="$jupyter/data"
export COURSE_WORKSPACE="$HOME/course"
nodes_fail='from course_lib.box.nodes import probe; raise SystemExit(bool(probe.refusal()))'
[ -n "${COURSE_SITE:-}" ] || python -P -c "$nodes_fail" || export COURSE_SITE=recorded
exec "$@"
