#!/usr/bin/env bash
# Installs axe-core by npm into the environment of the course, for tests/browser/test_accessibility.py.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."
place=.venv/share/course/axe
mkdir -p "$place"
cp tests/browser/axe/package.json tests/browser/axe/package-lock.json "$place"
npm ci --prefix "$place" --silent --ignore-scripts --no-audit --no-fund
