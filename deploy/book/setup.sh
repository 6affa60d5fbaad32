#!/usr/bin/env bash
# Adds Sphinx and the book's other tools to the environment of the course, once.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
bash deploy/setup.sh
stamp=.venv/.book
wanted=$(cat .venv/.complete requirements.lock deploy/book/requirements.lock | cksum)
if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$wanted" ]; then exit 0; fi
.venv/bin/python -m pip install --quiet --disable-pip-version-check \
    --constraint requirements.lock --requirement deploy/book/requirements.lock
printf '%s' "$wanted" >"$stamp"
