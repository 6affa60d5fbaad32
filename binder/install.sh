#!/usr/bin/env bash
# The steps of the Dockerfile, for an ordinary account: ~/.venv with the course, and lessons in ~/course.
# TORCH_WHEELS: an index (https://…) or folder of wheels for torch; without it, pip's own index.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
python3 -m venv "$HOME/.venv"
PATH="$HOME/.venv/bin:$PATH"
pip=(python -m pip install --no-cache-dir --disable-pip-version-check --quiet)

case ${TORCH_WHEELS:-} in
'') from=() ;;
*://*) from=(--index-url "$TORCH_WHEELS") ;;
*) from=(--no-index --find-links "$TORCH_WHEELS") ;;
esac
[ ${#from[@]} -eq 0 ] || "${pip[@]}" --no-deps "${from[@]}" "$(grep '^torch==' requirements.lock)"
"${pip[@]}" --requirement requirements.lock
"${pip[@]}" --no-deps --no-build-isolation .
mkdir -p "$HOME/.local/share/course"
cp binder/start.sh "$HOME/.local/share/course/"
course start --no-lab "$HOME/course"
