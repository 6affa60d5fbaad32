#!/usr/bin/env bash
# Creates .venv with the packages in requirements.lock and this package (editable), and the sample text
# in data/.
# Safe to interrupt at any point: the stamp is written last, and an incomplete .venv is created anew.
# TORCH_WHEELS: another index (https://…) or folder of wheels for torch.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

python=${PYTHON:-python3}
stamp=.venv/.complete
wanted=$(cat requirements.lock pyproject.toml deploy/setup.sh | cksum)${TORCH_WHEELS:-}
say() { printf 'set-up: %s\n' "$*" >&2; }

if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$wanted" ] && .venv/bin/python -c pass 2>/dev/null; then
    exit 0
fi

if command -v flock >/dev/null; then # macOS lacks it; there the user has to avoid two set-ups at once
    exec 9>.setup.lock
    flock -n 9 || { say "another set-up is at work here, waiting for it"; flock 9; }
fi
if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$wanted" ]; then exit 0; fi

"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
    say "$("$python" --version 2>&1) is too old: the course needs Python 3.11 or later."
    say "Name another one with: make PYTHON=/path/to/python3.11 lab"
    exit 1
}
"$python" -c 'import ensurepip, venv' 2>/dev/null || {
    version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    say "$python has no venv, with which .venv is made; on Debian and Ubuntu: sudo apt-get install python$version-venv"
    exit 1
}
rm -f "$stamp"
# Some downloads take minutes and print nothing meanwhile.
if [ -t 2 ]; then
    while kill -0 $$ && sleep 1; do printf 'set-up: %d s\r' "$SECONDS"; done 9>&- >&2 2>/dev/null &
    trap 'kill '$! EXIT
fi
if ! .venv/bin/python -m pip --version >/dev/null 2>&1; then
    say "1/5 making .venv with $("$python" --version)"
    rm -rf .venv
    "$python" -m venv .venv
fi

# From pip's output, each line when it comes (awk may wait for 4 kB): downloads of a megabyte and more, each
# with its size when it begins, and the unpacking.
name_downloads() {
    local word file size unit
    while read -r word file size unit _; do
        case "$word $unit" in
            "Downloading "[MG]B*) say "    ${file##*/} $size $unit" ;;
            "Installing "*) say "    unpacking them" ;;
        esac
    done
}
count=$(grep -c == requirements.lock)
say "2/5 installing $count pinned packages; those that must be downloaded and have 1 MB or more:"
pip=(.venv/bin/python -m pip install --disable-pip-version-check --no-compile --progress-bar off)
torch_pin=$(grep '^torch==' requirements.lock)
case "${TORCH_WHEELS:-}" in
    '') ;;
    *://*) "${pip[@]}" --no-deps --index-url "$TORCH_WHEELS" "$torch_pin" | name_downloads ;;
    *) "${pip[@]}" --no-deps --no-index --find-links "$TORCH_WHEELS" "$torch_pin" | name_downloads ;;
esac
"${pip[@]}" --requirement requirements.lock | name_downloads
# On all cores (pip uses one), and not at the first import, as users of a hub may not write here, and
# containers often forbid it by PYTHONDONTWRITEBYTECODE. Some packages contain files for other
# versions of Python, which fail.
say "    compiling them, so that the first import of each is fast"
.venv/bin/python -m compileall -q -j 0 .venv/lib course_lib code >/dev/null 2>&1 || true

say "3/5 installing the course itself"
"${pip[@]}" --quiet --no-deps --no-build-isolation --editable .

say "4/5 preparing the sample text that the lessons train on"
.venv/bin/python code/sample_text.py --out data >/dev/null

if command -v npm >/dev/null; then
    say "5/5 fetching webcomponents.js 0.7.24 by npm (1 MB), which TensorBoard's trace view would load from the web"
    mkdir -p .venv/share/course && cp -R deploy/webcomponents .venv/share/course/
    npm ci --prefix .venv/share/course/webcomponents --silent --no-audit --no-fund \
        --fetch-timeout=10000 --fetch-retries=0 ||
        say "npm could not; TensorBoard works all the same, but for its trace view (rm $stamp; make setup tries again)"
else
    say "5/5 no npm here: TensorBoard works all the same, but for its trace view"
fi
printf '%s' "$wanted" >"$stamp"
say "done after $SECONDS s"
