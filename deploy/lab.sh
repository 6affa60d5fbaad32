#!/usr/bin/env bash
# Opens JupyterLab on lesson 00. As root (in a container) and without a display too.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
PATH="$PWD/.venv/bin:$PATH"

. deploy/jupyter/options.sh
options=("${course_options[@]}" --ServerApp.root_dir="$PWD" --LabApp.default_url=/lab/tree/notebooks/00_the_lab.ipynb)
[ "$(id -u)" -ne 0 ] || options+=(--allow-root)
if [ "${BROWSER:-}" = none ] || { [ "$(uname)" = Linux ] && [ -z "${DISPLAY:-}${WAYLAND_DISPLAY:-}" ]; }; then
    options+=(--no-browser)
    unset BROWSER
fi
exec jupyter lab "${options[@]}"
