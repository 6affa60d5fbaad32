#!/usr/bin/env bash
# Installs reveal.js by npm into the environment of the course, once; slides then need no internet.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
bash deploy/setup.sh
place=.venv/share/course/slides
stamp=$place/.complete
wanted=$(cksum <deploy/slides/package-lock.json)
if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$wanted" ]; then exit 0; fi
command -v npm >/dev/null || {
    echo "slides: npm is needed once, to fetch reveal.js; on Debian and Ubuntu: sudo apt-get install npm" >&2
    exit 1
}
mkdir -p "$place"
cp deploy/slides/package.json deploy/slides/package-lock.json "$place"
npm ci --prefix "$place" --silent --ignore-scripts --no-audit --no-fund
printf '%s' "$wanted" >"$stamp"
