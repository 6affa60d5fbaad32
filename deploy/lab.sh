#!/usr/bin/env bash
# Opens JupyterLab on the learner's copy of lesson 00 in this clone.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
if [ "${BROWSER:-}" = none ]; then
    unset BROWSER
    set -- --no-browser
fi
exec .venv/bin/course start "$PWD" "$@"
