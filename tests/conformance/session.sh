# What a case of cases/ may use, besides plain bash; `harness/lanes.py` runs `bash session.sh CASE`
# in an empty folder, and everything that is printed is the transcript that gets compared.
# shellcheck shell=bash
#
# t COMMAND…          runs it; the transcript gets the command, its output, its errors ("! ") and a
#                     code that is not 0. Ids of jobs that sbatch submits are kept: $id is the last.
# job OPTIONS… <<X    writes job.sh ("#!/bin/bash" and the text) and submits it: t sbatch OPTIONS job.sh
# becomes STATE [ID]  waits until the job is in that state         appears FILE  waits for a file
# ended [ID…]         waits until the jobs (all of the case) have ended
# states [ID…]        name, state, reason and exit code of the jobs, from `scontrol show job`
# steps [ID…]         what sacct says of them and their steps, once they have ended
# reason [ID…]        state and reason of the jobs in the queue
# because REASON [ID…]  waits until that is the reason of the jobs in the queue
# show FIELD…         those fields of `scontrol show job` of the last job
# out [ID…]           what the jobs wrote to slurm-<id>.out; `log FILE…` other files
# sorted FILE…        files whose lines come from several processes, in no order
# vars FILE…          variables that `env` wrote there, sorted
# terminal COMMAND…   like t, with a terminal of its own        newest  the newest job in the queue
# tell                ended, states and out for all jobs of the case

aux=$1
ids=()
id=
longest=40 # seconds that `ended` waits

quoted() {
    local word
    for word; do
        if [[ $word =~ ^[][A-Za-z0-9_./:,=@%+-]+$ ]]; then printf ' %s' "$word"; else printf ' %s' "${word@Q}"; fi
    done
}

t() {
    local code=0
    printf '$%s\n' "$(quoted "$@")"
    "$@" >"$aux/out" 2>"$aux/err" || code=$?
    if [[ $1 == srun ]]; then # several processes print, in no order
        sort -o "$aux/out" "$aux/out"
        sort -o "$aux/err" "$aux/err"
    fi
    indented '  ' <"$aux/out"
    indented '! ' <"$aux/err"
    if ((code)); then echo "[exit $code]"; fi
    if [[ $1 == sbatch ]]; then submitted; fi
    return 0
}
indented() { sed "s/^/$1/; \$a\\"; }

submitted() {
    local new
    new=$(grep -oE '\b70[0-9]{4}\b' "$aux/out" | tail -n 1)
    if [[ $new ]]; then
        ids+=("$new")
        id=$new
    fi
}

# terminal COMMAND…: like t, in a pseudo-terminal of its own
terminal() {
    local code=0
    printf '$%s [terminal]\n' "$(quoted "$@")"
    command script -qefc "${*@Q}" /dev/null >"$aux/out" 2>&1 </dev/null || code=$?
    tr -d '\r' <"$aux/out" | sed '/has been revoked/d; s/\^@//g' | sort | indented '  ' # of the empty input
    if ((code)); then echo "[exit $code]"; fi
}
# newest: number of the newest job in the queue, which salloc or srun made
newest() { squeue -h -o %A -S -i | head -n 1; }
appeared() { [[ $(newest) ]]; }

script() { cat >"$1"; }
job() {
    { echo '#!/bin/bash'; cat; } >job.sh
    t sbatch "$@" job.sh
}

# patience SECONDS COMMAND…: until it succeeds. A look costs the box a start of Python, and most
# things that did not happen at once take a while: three times as long where the machine is busy.
patience() {
    local until=$((SECONDS + 3 * $1)) pauses=(.1 .15 .2 .3)
    shift
    until "$@"; do
        if ((SECONDS > until)); then
            echo "[waited in vain: $*]"
            return 1
        fi
        sleep "${pauses[0]}"
        if ((${#pauses[@]} > 1)); then pauses=("${pauses[@]:1}"); fi
    done
}
joined() { local IFS=,; echo "$*"; }
state_of() { squeue -h -t all -o %T -j "$1" 2>/dev/null; }
becomes() { patience 20 is_now "$1" "${2:-$id}"; }
is_now() { [[ $(state_of "$2") == "$1" ]]; }
appears() { patience 20 test -e "$1"; }
have_ended() {
    local found
    # a controller that was too busy to answer has not said that they are gone
    found=$(squeue -h -t all -o %T -j "$(joined "$@")" 2>&1) || {
        grep -q 'Invalid job id' <<<"$found"
        return
    }
    ! grep -qE 'PENDING|RUNNING|COMPLETING|SUSPENDED|CONFIGURING|REQUEUE' <<<"$found"
}
ended() {
    if (($# == 0)); then set -- "${ids[@]}"; fi
    (($# == 0)) || patience "$longest" have_ended "$@"
}

states() {
    local one
    if (($# == 0)); then set -- "${ids[@]}"; fi
    for one; do
        scontrol -o show job "$one" | grep -oE '^JobId=[0-9]+|\b(JobName|JobState|Reason|ExitCode)=[^ ]*' |
            paste -sd ' ' | indented 's '
    done
}
steps() {
    if (($# == 0)); then set -- "${ids[@]}"; fi
    (($# == 0)) && return
    patience 15 accounted "$@"
    sacct -n -P -j "$(joined "$@")" -o jobid,jobname,state,exitcode | indented 'a '
}
accounted() {
    local found
    found=$(sacct -n -P -j "$(joined "$@")" -o jobid,jobname,state)
    ! grep -qE 'PENDING|RUNNING|COMPLETING|[|]allocation[|]' <<<"$found" &&
        (($(grep -cE '^[0-9]+(_[][0-9,%:-]+)?[|]' <<<"$found") >= $#))
}

reason() {
    if (($# == 0)); then set -- "${ids[@]}"; fi
    squeue -h -t all -o '%i %T %r' -S i -j "$(joined "$@")" | indented 'q '
}
because() { patience 20 all_because "$1" "${@:2}"; }
all_because() {
    local reason=$1 found
    shift
    if (($# == 0)); then set -- "$id"; fi
    found=$(squeue -h -t all -o %r -j "$(joined "$@")")
    [[ $found ]] && ! grep -qvx "$reason" <<<"$found"
}
show() {
    local field
    [[ $id ]] || return
    scontrol show job "$id" >"$aux/show"
    for field; do grep -oE "(^|[[:space:]])$field=.*" "$aux/show" | sed -E 's/^ +//; s/ [A-Za-z/:&]+=.*//'; done | indented 'f '
}
out() {
    local one
    if (($# == 0)); then set -- "${ids[@]}"; fi
    for one; do log "slurm-$one.out"; done
}
log() {
    local file
    for file; do
        echo "> $file"
        if [[ -e $file ]]; then indented '  ' <"$file"; else echo "  (absent)"; fi
    done
}
# What srun says last depends on whether its own clock or the end of the tasks comes first.
untimely() { grep -vE 'step aborted|Force Terminated|forcing job' "$1" | sort; }
# What a cluster puts there for itself is not compared: its own files, and how its processes talk.
vars() {
    local file
    for file; do
        echo "> $file"
        grep -vE '^(COURSE_|LD_PRELOAD=|TORCHINDUCTOR_CACHE_DIR=|SLURM_CONF=|_=|SHLVL=|BASH_|SLURM_PRIO_PROCESS=|SLURM_TOPOLOGY_ADDR|SLURM_WORKING_CLUSTER=|SLURM_SRUN_COMM_|SLURM_STEP_LAUNCHER_PORT=|SLURM_JOB_CPUS_PER_NODE_PACK|SLURM_NODE_ALIASES=|SRUN_DEBUG=)' "$file" | sort | indented '  '
    done
}
sorted() {
    local file
    for file; do
        echo "> $file, sorted"
        sort "$file" | indented '  '
    done
}
tell() {
    ended
    states
    out
}

# shellcheck source=/dev/null
source "$2"
