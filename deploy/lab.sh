#!/usr/bin/env bash
# Opens JupyterLab on the learner's copy of lesson 00, also as root (in a container) and without a display.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
PATH="$PWD/.venv/bin:$PATH"

COURSE_WORKSPACE=$PWD course lessons update || true # the error is printed; existing copies are sufficient
. deploy/jupyter/options.sh
options=("${course_options[@]}" --ServerApp.root_dir="$PWD" --LabApp.default_url=/lab/tree/my_notebooks/00_the_lab.ipynb)
[ "$(id -u)" -ne 0 ] || options+=(--allow-root)
if [ "${BROWSER:-}" = none ] || { [ "$(uname)" = Linux ] && [ -z "${DISPLAY:-}${WAYLAND_DISPLAY:-}" ]; }; then
    options+=(--no-browser)
    unset BROWSER
fi
echo "JupyterLab starts; Control-C twice ends it."
exec jupyter lab --log-level=WARN "${options[@]}" # only the lines with the address, of about thirty
