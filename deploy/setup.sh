#!/usr/bin/env bash
# Makes .venv with everything that requirements.lock pins, the package itself (editable), and the
# sample text in data/.
# Safe to interrupt at any point: the stamp is written last, and a half-made .venv is made anew.
# TORCH_WHEELS: another index (https://…) or folder of wheels to take torch from.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

python=${PYTHON:-python3}
stamp=.venv/.complete
wanted=$(cat requirements.lock pyproject.toml deploy/setup.sh | cksum)${TORCH_WHEELS:-}
say() { printf 'set-up: %s\n' "$*" >&2; }

if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$wanted" ] && .venv/bin/python -c pass 2>/dev/null; then
    exit 0
fi

if command -v flock >/dev/null; then # not on macOS, where two set-ups at once are the user's affair
    exec 9>.setup.lock
    flock -n 9 || { say "another set-up is at work here, waiting for it"; flock 9; }
fi
if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$wanted" ]; then exit 0; fi

"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
    say "$("$python" --version 2>&1) is too old: the course needs Python 3.11 or later."
    say "Name another one with: make PYTHON=/path/to/python3.11 lab"
    exit 1
}
rm -f "$stamp"
if ! .venv/bin/python -m pip --version >/dev/null 2>&1; then
    say "1/5 making .venv with $("$python" --version)"
    rm -rf .venv
    "$python" -m venv .venv
fi

say "2/5 installing the pinned packages (the first time this takes some minutes, mostly torch)"
pip=(.venv/bin/python -m pip install --quiet --disable-pip-version-check --no-compile)
torch_pin=$(grep '^torch==' requirements.lock)
case "${TORCH_WHEELS:-}" in
    '') ;;
    *://*) "${pip[@]}" --no-deps --index-url "$TORCH_WHEELS" "$torch_pin" ;;
    *) "${pip[@]}" --no-deps --no-index --find-links "$TORCH_WHEELS" "$torch_pin" ;;
esac
"${pip[@]}" --requirement requirements.lock
# By all cores, where pip would take one; not left to the first import, as users of a hub may not
# write here, and containers often forbid it by PYTHONDONTWRITEBYTECODE. Some packages bring files
# for other versions of Python, which fail.
.venv/bin/python -m compileall -q -j 0 .venv/lib course_lib code >/dev/null 2>&1 || true

say "3/5 installing the course itself"
"${pip[@]}" --no-deps --no-build-isolation --editable .

say "4/5 preparing the sample text that the lessons train on"
.venv/bin/python code/sample_text.py --out data >/dev/null

if command -v npm >/dev/null; then
    say "5/5 fetching what the trace view of TensorBoard would otherwise load from the web"
    mkdir -p .venv/share/course && cp -R deploy/webcomponents .venv/share/course/
    npm ci --prefix .venv/share/course/webcomponents --silent --no-audit --no-fund ||
        say "npm could not; TensorBoard works all the same, but for its trace view"
else
    say "5/5 no npm here: TensorBoard works all the same, but for its trace view"
fi
printf '%s' "$wanted" >"$stamp"
say "done"
