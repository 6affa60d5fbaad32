#!/usr/bin/env bash
# Adds the packages of another lock to the environment of the course, once: packages.sh LOCK
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
bash deploy/setup.sh
stamp=.venv/.${1//\//-}
wanted=$(cat .venv/.complete "$1" | cksum)
if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$wanted" ]; then exit 0; fi
.venv/bin/python -m pip install --quiet --disable-pip-version-check \
    --constraint requirements.lock --requirement "$1"
printf '%s' "$wanted" >"$stamp"
