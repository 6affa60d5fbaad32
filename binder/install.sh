#!/usr/bin/env bash
# The steps of the Dockerfile, for an ordinary account: ~/.venv with the course, and lessons in ~/course.
# TORCH_WHEELS: the index (https://…) or folder of wheels for torch.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
python3 -m venv "$HOME/.venv"
PATH="$HOME/.venv/bin:$PATH"
pip=(python -m pip install --no-cache-dir --disable-pip-version-check --quiet)

from=(--no-index --find-links "$TORCH_WHEELS")
[[ $TORCH_WHEELS != *://* ]] || from=(--index-url "$TORCH_WHEELS")
"${pip[@]}" --no-deps "${from[@]}" "$(grep '^torch==' requirements.lock)"
"${pip[@]}" --requirement requirements.lock
"${pip[@]}" --no-deps --no-build-isolation .
mkdir -p "$HOME/.local/share/course"
cp binder/start.sh "$HOME/.local/share/course/"
course start --no-lab "$HOME/course"
