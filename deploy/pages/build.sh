#!/usr/bin/env bash
# Writes build/pages: book, slides and executed solutions, in English and Korean. All pages are built twice
# and must be the same.
# RUN: the workspace of a course run; default: a new one, in which recorded runs stand in for all jobs.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
bash deploy/packages.sh deploy/book/requirements.lock
bash deploy/slides/setup.sh
PATH="$PWD/.venv/bin:$PATH"
# shellcheck source=deploy/jupyter/options.sh
. deploy/jupyter/options.sh
site=build/pages
run=${RUN:-build/recorded-run}
rm -rf "$site" "$site.again"

build() { # FOLDER
    for language in en ko; do
        local folder=$1/$language executed=$run/.course/executed
        [ $language = en ] || executed+=/$language
        course book --workspace "$run" --language $language --out "$folder/book"
        course slides --workspace "$run" --language $language --out "$folder/slides" --no-pdf # has a date
        jupyter nbconvert --log-level WARN --to html --output-dir "$folder/solutions" "$executed"/*.ipynb
        sed -i -E 's/href="([0-9]{2}[a-z]?_\w+)\.ipynb"/href="\1.html"/g' "$folder"/solutions/*.html
    done
    cp deploy/pages/index.html images/lesson.png "$1/"
}

if [ -z "${RUN:-}" ]; then
    rm -rf "$run"
    for language in en ko; do
        COURSE_SITE=recorded course run --workspace "$run" --language $language
    done
fi
build "$site"
build "$site.again"
diff -r "$site" "$site.again"
rm -r "$site.again"
python - "$site" <<'PYTHON'
import sys
from pathlib import Path
from course_lib.publish.book.check import broken_links
broken = broken_links(Path(sys.argv[1]))
print(*broken, sep="\n")
sys.exit(bool(broken))
PYTHON
echo "$site: the same twice, and no link is broken"
