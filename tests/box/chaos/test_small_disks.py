# ruff: noqa: E501  lines of shell
"""Each folder of a job and its box lies on a disk of 400 KiB, which is filled while jobs run."""

from __future__ import annotations

import pytest

BEGIN = r"""
set -u
small=$1; settings=$2
until_gone() { for i in $(seq 900); do [ -e "$1" ] || return; sleep 0.1; done; echo "never gone: $1"; }
until_there() { for i in $(seq 900); do [ -e "$1" ] && return; sleep 0.1; done; echo "never there: $1"; }
ended() { for i in $(seq 900); do s=$(sacct -nPX -j "$1" -o State 2>/dev/null); case $s in
    COMPLETED|FAILED|NODE_FAIL|CANCELLED|TIMEOUT) break;; esac; sleep 0.1; done; echo "$2 $s"; }
fill() { cat /dev/zero > "$small/filler" 2>/dev/null; mkdir "$small/d" 2>/dev/null; while : > "$small/d/$((n++))"; do [ $n -gt 300 ] && break; done 2>/dev/null; }
n=0
mount -t tmpfs -o size=400k,nr_inodes=200 tmpfs "$small"
[ -e "$COURSE_BOX_HOME/box.toml" ] || cp "$settings" "$COURSE_BOX_HOME/box.toml"
chmod 700 "$COURSE_BOX_HOME"
"""

RUNNING = r"""
signs=$3; cd "$small/.." || exit
job=$(sbatch --parsable -N2 -n2 -D "$signs" -o "$signs/out" --wrap 'touch begun; until [ -e go ]; do sleep 0.1; done
    srun -N2 -n2 echo step while full; echo code $?; echo script ends')
next=$(sbatch --parsable -d "afterany:$job" -D "$signs" -o /dev/null --wrap 'srun true')
until_there "$signs/begun"
fill
touch "$signs/go"
sleep 5
rm -rf "$small/filler" "$small/d"
ended "$job" first; ended "$next" next
sacct -nP -j "$job.0" -o 'State,ExitCode'
cat "$signs/out"
squeue -h | wc -l
"""


def _run(box, mounts: list[str], script: str, small, *words: str) -> str:
    settings = box.work / "settings.toml"
    settings.write_text((box.home / "box.toml").read_text())
    signs = box.work.parent / "signs"
    signs.mkdir()
    command = [*mounts, "bash", "-c", script, "small"]
    done = box.run(*command, str(small), str(settings), str(signs), *words, check=False)
    return done.stdout + done.stderr


@pytest.mark.many(2)
@pytest.mark.parametrize("options", [{}, {"warm": True}, {"mode": "flat"}], ids=str)
@pytest.mark.parametrize("folder", ["state", "workspace", "TMPDIR", "HOME"])
def test_a_full_disk_ends_no_job_and_loses_no_step(make_box, private_mounts, folder, options):
    box = make_box(**options)
    small = {"state": box.home, "workspace": box.work}.get(folder)
    if small is None:
        small = box.work.parent / folder
        small.mkdir()
        box.environment[folder] = str(small)
    text = _run(box, private_mounts, BEGIN + RUNNING, small)
    for line in ("step while full\nstep while full\ncode 0", "script ends",
                 "first COMPLETED", "next COMPLETED", "COMPLETED|0:0"):  # fmt: skip
        assert line in text, text
    assert "never" not in text, text
