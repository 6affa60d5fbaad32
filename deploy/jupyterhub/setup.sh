#!/usr/bin/env bash
# Adds JupyterHub and its proxy to the environment of the course, which users of the hub share.
# The admin runs this once in the shared checkout; README.md in this folder has all steps.
# --packages-only: does not test access for learners (for tests, which open the folders themselves).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
command -v npm >/dev/null || {
    echo "hub: npm is missing; the hub's proxy comes as an npm package (Debian: apt-get install npm)" >&2
    exit 1
}
try() { [ "$only_packages" ] || "$1" deploy/jupyterhub/access.py; }
only_packages=
[ "${1:-}" != --packages-only ] || only_packages=yes
python=.venv/bin/python
[ -e "$python" ] || python=${PYTHON:-python3}
try "$python" # before minutes are spent on an environment that learners cannot use
bash deploy/setup.sh
.venv/bin/python -m pip install --quiet --disable-pip-version-check \
    --constraint requirements.lock --requirement deploy/jupyterhub/requirements.lock
proxy=.venv/share/course/hub
mkdir -p "$proxy" && cp deploy/jupyterhub/package*.json "$proxy"
npm ci --prefix "$proxy" --silent --no-audit --no-fund
try .venv/bin/python
echo "hub: ready. Next: .venv/bin/jupyterhub --config deploy/jupyterhub/jupyterhub_config.py" >&2
