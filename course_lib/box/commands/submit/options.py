"""Options of sbatch, srun and salloc: their sources and their effects on a job."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

from course_lib.box import hostlist, settings, with_bin_dir
from course_lib.box.commands.command_line import NONE, Failure, Syntax, Unsupported
from course_lib.box.queue.records import exported, joined_environment
from course_lib.box.settings import UNLIMITED, is_number

BAD_OPTION_CODE = 255
SUFFIXES = {"": 1, "K": 1 / 1024, "M": 1, "G": 1024, "T": 1024 * 1024}


LAYOUTS = ("block", "cyclic", "fcyclic", "*")


def layout(text: str, option: str) -> str:
    """Check a task distribution such as block, cyclic or block:cyclic."""
    if not {*text.replace(",", ":").lower().split(":")} <= {*LAYOUTS}:
        raise Unsupported(f"--distribution={text}", "Use block or cyclic.")
    return text


def number(text: str, option: str, least: int = 1) -> int:
    """Return a whole number of at least `least`, or fail with Slurm's message."""
    value = int(text) if is_number(text.strip(" ").lstrip("+-")) else least - 1
    if value < least or value >= 2**31:
        raise Failure(f'Invalid numeric value "{text}" for --{option}.')
    return value


def devices(text: str, option: str) -> int:
    """Read `2`, or for --gres `gpu:2`, `gpu` or `none`. The devices of the box have no type."""
    digits = text
    if option == "gres":
        name, _, digits = text.removeprefix("gres:").partition(":")
        if name not in ("gpu", "none"):
            raise Failure("Invalid generic resource (gres) specification")
        digits = digits or str(int(name == "gpu"))
    if not is_number(digits):
        raise Unsupported(f"--{option}={text}", "Ask for a number of devices, without a type.")
    return int(digits)


def time_limit(text: str, option: str = "time") -> int:
    """Return minutes, rounded up. 0 and UNLIMITED mean no limit."""
    if text.startswith("-") and is_number(text[1:]):
        return UNLIMITED
    try:
        found = settings.minutes(text)
    except settings.SettingsError:
        raise invalid(option) from None
    return found or UNLIMITED


def invalid(option: str) -> Failure:
    return Failure(f"Invalid --{option} specification", code=BAD_OPTION_CODE)


def memory(text: str, option: str) -> str:
    """Return mebibytes as digits. Units other than K, M, G and T are refused."""
    digits = text.rstrip("bBkKmMgGtT")
    unit = text[len(digits) :].upper().removesuffix("B")
    if not is_number(digits) or unit not in SUFFIXES:
        raise invalid(option)
    return str(int(-(-int(digits) * SUFFIXES[unit] // 1)))


def signal_wanted(text: str) -> tuple[int, int, str]:
    """Read `[B:][R:]NAME[@seconds]` as (number, seconds before the limit, `batch` or "")."""
    flags, colon, rest = text.rpartition(":")
    name, at, seconds = rest.partition("@")
    number_ = signal_number(name)
    flags_ok = not colon or set(flags.upper()) <= set("BR")
    seconds_ok = not at or (is_number(seconds) and int(seconds) < 65536)
    if not number_ or not flags_ok or not seconds_ok:
        raise invalid("signal")
    return number_, int(seconds) if at else 60, "batch" if "B" in flags.upper() else ""


def signal_number(text: str) -> int:
    """Return the number of a signal, or 0 if the text names none."""
    import signal

    if is_number(text):
        return int(text) if int(text) < 65 else 0
    name = text.upper().removeprefix("SIG")
    found = getattr(signal, f"SIG{name}", None)
    return int(found) if isinstance(found, signal.Signals) else 0


def hosts(text: str, _: str) -> str:
    """Expand a host list into names separated by commas."""
    try:
        return ",".join(dict.fromkeys(hostlist.expand(text)))
    except hostlist.HostListError:
        return text  # admission refuses it as an unknown node, as Slurm does


Fields = dict[str, object]


def _nodes(value: str, fields: Fields) -> None:
    least, dash, most = value.partition("-")
    if dash and is_number(least) and is_number(most):
        raise Unsupported(f"--nodes={value}", "Ask for one number of nodes.")
    if not is_number(value):
        raise Failure(f'"{value}" is not a valid node count', code=BAD_OPTION_CODE)
    fields |= {"nodes_min": int(value), "nodes_given": 1}


def _ntasks(value: str, fields: Fields) -> None:
    fields["tasks"] = number(value, "ntasks")
    fields["tasks_given"] = 1


def _array(value: str, fields: Fields) -> None:
    from course_lib.box.queue import arrays

    try:
        tasks, most = arrays.parse(value)
    except arrays.ArrayError:
        raise Failure("Batch job submission failed: Invalid job array specification") from None
    fields |= {"array_asked": value.strip("[] "), "array_waiting": tasks, "array_most": most}


def _exclusive(value: str, fields: Fields) -> None:
    if value:
        raise Unsupported(f"--exclusive={value}", "Use --exclusive.")
    fields["exclusive"] = 1


def _export(value: str, fields: Fields) -> None:
    if "'" in value or '"' in value:
        raise Unsupported("quotes in --export", "Export the variable, and give --export its name.")


def begin(text: str, option: str) -> float:
    from course_lib.box.commands import dates

    try:
        return dates.parse_or_fail(text)
    except Failure as error:
        raise error if error.lines else invalid(option) from None


def open_mode(text: str, option: str) -> str:
    known = {"a": "append", "append": "append", "t": "truncate", "truncate": "truncate"}
    if text not in known:
        raise invalid(option)
    return known[text]


def _signal(value: str, fields: Fields) -> None:
    fields["signal_number"], fields["signal_before_s"], fields["signal_to"] = signal_wanted(value)


BINDS = {
    "cpu": "no(ne)?|q(uiet)?|v(erbose)?|rank(_ldom)?|(socket|core|thread|ldom)s?|one_thread",
    "mem": "no(ne)?|q(uiet)?|v(erbose)?|rank|local|(no)?sort|p(refer)?",
}
WORDS = {
    "gres-flags": "disable-binding enforce-binding",
    "hint": "compute_bound memory_bound multithread nomultithread",
    "mail-type": "none begin end fail requeue all stage_out invalid_depend array_tasks "
    "time_limit time_limit_50 time_limit_80 time_limit_90",
}


def cpu_bind(text: str, option: str) -> str:
    """Check a binding. The box ignores it, with the message of a Slurm without the plugin."""
    print("srun: cluster configuration lacks support for cpu binding", file=sys.stderr)
    if said := _misread(text, "cpu"):
        print(f"srun: error: {said}", file=sys.stderr)
        raise Failure("Failed to parse --cpu-bind= values.", fatal=True)
    return text


def mem_bind(text: str, option: str) -> str:
    if said := _misread(text, "mem"):
        raise Failure(said, code=BAD_OPTION_CODE)
    return text


def _misread(text: str, what: str) -> str:
    """Return Slurm's words about the first wrong part of a binding."""
    import re

    for word in re.split(r",(?![0-9])", text):
        kind, colon, numbers = word.lower().partition(":")
        if not re.fullmatch(f"(map|mask)_({what}|ldom)", kind):
            if colon or not re.fullmatch(BINDS[what], kind):
                return f'unrecognized --{what}-bind argument "{word}"'
        elif not numbers:
            return f'missing list for "--{what}-bind={kind}:<list>"'
        for one in numbers.split(",") if numbers else ():
            if rest := re.sub(r"^(0x[0-9a-f]+|[0-9]+)(\*[0-9]+)?", "", one):
                return f"Failed to validate number: {one}, the offending character is {rest[0]}"
    return ""


def words(text: str, option: str) -> str:
    """Fail if no word is a valid value of this option, which has no effect."""
    if {*text.lower().split(",")} & {*WORDS[option].split()}:
        return text
    if option == "hint":
        raise Failure(f'unrecognized --hint argument "{text}", see --hint=help')
    raise invalid(option)


# Functions that convert an option's text to a field value. They also get the option's name.
READERS: dict[str, Callable[[str, str], object]] = {
    "0": lambda text, option: 0,
    "1": lambda text, option: 1,
    "begin": begin,
    "bytes": lambda text, option: text.encode("utf-8", "surrogateescape"),
    "count": number,
    "cpu-bind": cpu_bind,
    "devices": devices,
    # Without a name it is the working folder, which cannot be written.
    "file": lambda text, _: os.fsencode("/dev/null" if text.lower() == "none" else text or "."),
    "hosts": hosts,
    "layout": layout,
    "mem-bind": mem_bind,
    "memory": memory,
    "open-mode": open_mode,
    "switches": lambda text, option: number(text.partition("@")[0], option),
    "text": lambda text, option: text,
    "time": time_limit,
    "user": lambda text, option: "user",
    "words": words,
}
# Options that set several fields.
SETTERS: dict[str, Callable[[str, Fields], None]] = {
    "array": _array,
    "exclusive": _exclusive,
    "export": _export,
    "nodes": _nodes,
    "ntasks": _ntasks,
    "signal": _signal,
}
# Values that switch off an option that has no effect here.
HARMLESS = ("none", "no", "off", "n")


class Gathered:
    """The request so far: job fields, and options that the command handles itself."""

    def __init__(self, command: str, letter: str, prefix: str) -> None:
        self.command = command
        self.prefix = prefix
        self.options: dict[str, Option] = {option.name: option for option in options_of(letter)}
        spec = " ".join(option.spelling for option in self.options.values())
        self.syntax = Syntax(command, spec, stop_at_word=True)
        self.fields: Fields = {}
        self.given: dict[str, str] = {}
        self.sources: dict[str, str] = {}
        self.notes: list[str] = []

    def apply(self, pairs: list[tuple[str, str | None]], source: str) -> None:
        for name, value in pairs:
            self._apply_one(self.options[name], value or "", source)

    def _apply_one(self, option: Option, value: str, source: str) -> None:
        name = option.name
        if option.fate == "no" and source == "environment":
            self.say_left_aside(name, value)
            return
        if option.fate == "no":
            raise Unsupported(f"--{name}")
        if option.fate == "note" and value not in HARMLESS:
            self.notes.append(name)
        count = int(self.given.get("verbose", "0")) + 1
        self.given[name] = str(count) if name in ("verbose", "quiet") else value
        self.sources[name] = source
        if name in SETTERS:
            SETTERS[name](value, self.fields)
        elif option.kind != "-":
            read = READERS[option.kind](value, name)
            if option.field != "-":
                self.fields[option.field] = read

    def apply_environment(self, skip: tuple[str, ...] = ()) -> None:
        """Apply SBATCH_* or SLURM_* variables. "", `yes` and nonzero numbers set a flag."""
        for option in self.options.values():
            if option.variable == "-" or option.name in skip:
                continue
            value = os.environ.get(self.prefix + option.variable)
            if value is None:
                continue
            if self.syntax.kind[option.name] == NONE and not _is_on(value):
                continue
            self._apply_one(option, value, "environment")

    def say_left_aside(self, name: str, value: str, why: str = "") -> None:
        """Report an ignored variable. A profile for another cluster must not stop every job."""
        variable = self.prefix + self.options[name].variable
        reason = why or f"the box does not support --{name}"
        print(f"{self.command}: note: {variable}={value} is ignored: {reason}", file=sys.stderr)

    def say_notes(self) -> None:
        for name in dict.fromkeys(self.notes):
            print(f"{self.command}: note: the box accepts --{name} but ignores it", file=sys.stderr)


def _is_on(value: str) -> bool:
    return value in ("", "yes") or (is_number(value.lstrip("-")) and int(value) != 0)


# Options that are refused by name. Each line begins with the commands (salloc a, sbatch b, srun r).
# A variable such as SBATCH_GPU_BIND that sets one is ignored with a note.
REFUSED = """
abr acctg-freq= bb= bbf= cluster-constraint= clusters|cluster,M= container= context= core-spec,S=
abr cores-per-socket= cpu-freq= cpus-per-gpu= deadline= delay-boot= extra-node-info,B= gid=
abr gpu-bind= gpu-freq= gpus-per-socket= licenses,L= mcs-label= mem-per-gpu= mincpus= network= nice?
abr nodefile,F= ntasks-per-core= ntasks-per-gpu= ntasks-per-socket= ntasks-per-tres= overcommit,O
abr power= prefer= priority= profile= reboot sockets-per-node= thread-spec= time-min= tmp= uid=
abr wckey=
ab get-user-env? wait-all-nodes=
ar immediate,I? x11?
br propagate?
a bell kill-command,K? no-bell no-shell
b batch= export-file= ignore-pbs kill-on-invalid-dep=
r accel-bind= bcast-exclude= bcast? compress? debugger-test disable-status,X epilog=
r het-group|pack-group= interactive msg-timeout= multi-prog no-allocate,Z preserve-env,E prolog=
r quit-on-interrupt relative,r= resv-ports? send-libs? slurmd-debug= task-epilog= task-prolog=
r test-only threads,T= wait,W=
"""
# Columns: spelling, commands, fate, variable, job field, kind of value. The field `*` means several
# fields; `-` means that the command handles the option itself.
TABLE = """
account,A= abr do ACCOUNT account text
array,a= b do ARRAY_INX * array
begin,b= abr do - begin_s begin
chdir,D= abr do - work_dir bytes
comment= abr do - comment text
constraint,C= abr note CONSTRAINT - -
contiguous abr note - - -
cpu-bind|cpu_bind= r do CPU_BIND - cpu-bind
cpus-per-task,c= ab do - cpus_per_task count
cpus-per-task,c= r do CPUS_PER_TASK cpus_per_task count
dependency,d= ab do - dependency text
dependency,d= r do DEPENDENCY dependency text
distribution,m= abr do DISTRIBUTION distribution layout
error,e= br do ERROR stderr file
exact r do EXACT - -
exclude,x= abr do - exclude_nodes hosts
exclusive? abr do EXCLUSIVE * exclusive
export= br do EXPORT - -
gpus,G= abr do GPUS gpus devices
gpus-per-node= abr do GPUS_PER_NODE gpus_per_node devices
gpus-per-task= abr do GPUS_PER_TASK gpus_per_task devices
gres= abr do GRES gres devices
gres-flags= abr note GRES_FLAGS - words
help,h abr do - - -
hint= abr note HINT - words
hold,H abr do - hold user
input,i= br do INPUT stdin file
job-name,J= a do - name text
job-name,J= br do JOB_NAME name text
jobid= r do JOB_ID - -
kill-on-bad-exit,K? r do KILL_BAD_EXIT - -
label,l r do LABELIO - -
mail-type= abr note - - words
mail-user= abr note - - -
mem= abr do MEM_PER_NODE memory memory
mem-bind= abr note MEM_BIND - mem-bind
mem-per-cpu= abr do MEM_PER_CPU memory_per_cpu memory
mpi= r do MPI_TYPE - -
no-kill,k? abr note NO_KILL - -
no-requeue b do NO_REQUEUE requeue 0
nodelist,w= abr do - want_nodes hosts
nodes,N= abr do - * nodes
ntasks,n= abr do - * ntasks
ntasks-per-node|tasks-per-node= abr do - tasks_per_node count
open-mode= br do OPEN_MODE open_mode open-mode
output,o= br do OUTPUT stdout file
overlap r do OVERLAP - -
oversubscribe,s abr note - - -
parsable b do - - -
partition,p= abr do PARTITION partition text
pty r do - - -
qos,q= abr do QOS qos text
quiet,Q abr do - - -
requeue b do REQUEUE requeue 1
reservation= abr note RESERVATION - -
signal= abr do SIGNAL * signal
spread-job abr note SPREAD_JOB - -
switches= abr note REQ_SWITCH - switches
test-only b do - - -
threads-per-core= abr note THREADS_PER_CORE - count
time,t= abr do TIMELIMIT time_limit_min time
unbuffered,u r do UNBUFFEREDIO - -
usage abr do - - -
use-min-nodes abr note USE_MIN_NODES - -
verbose,v abr do DEBUG - -
version,V abr do - - -
wait,W b do WAIT - -
whole r do - - -
wrap= b do - - -
"""


class Option:
    """One option of a command. `fate` is do, note (accepted without effect) or no (refused)."""

    def __init__(
        self, spelling: str, fate: str, variable: str, field: str = "-", kind: str = "-"
    ) -> None:
        self.spelling, self.fate, self.variable = spelling, fate, variable
        self.field, self.kind = field, kind
        self.name = spelling.rstrip("=?").partition(",")[0].partition("|")[0]


def options_of(letter: str) -> list[Option]:
    """Return the options of salloc (`a`), sbatch (`b`) or srun (`r`)."""
    rows = [line.split() for line in TABLE.split("\n") if line]
    found = [Option(row[0], *row[2:]) for row in rows if letter in row[1]]
    for line in REFUSED.strip().split("\n"):
        commands, *spellings = line.split()
        for option in (Option(spelling, "no", "-") for spelling in spellings):
            option.variable = option.name.upper().replace("-", "_")
            if letter in commands:
                found.append(option)
    return sorted(found, key=lambda option: option.name)


Variables = dict[bytes, bytes]
# Variables that a login shell sets. Real Slurm gets them from `su -`.
OF_LOGIN = (b"HOME", b"LANG", b"LOGNAME", b"PATH", b"SHELL", b"USER")


def job_environment(given: dict[str, str]) -> bytes:
    """Return NUL-terminated NAME=value pairs: variables passed by --export, and sbatch's own."""
    own = dict(os.environb)
    choice = given.get("export", "ALL")
    login = () if "ALL" in choice.upper().split(",") else OF_LOGIN
    kept = {name: own[name] for name in login if name in own}
    kept |= {**exported(choice, own), **_added(given)}
    kept[b"PATH"] = with_bin_dir(kept.get(b"PATH", b""))
    return joined_environment(kept)


def _added(given: dict[str, str]) -> Variables:
    """Return the variables that come from the submission itself."""
    choice = given.get("export", "ALL")
    pairs = {
        "SLURM_SUBMIT_DIR": os.getcwd(),
        "SLURM_SUBMIT_HOST": os.uname().nodename.partition(".")[0],
        "SLURM_EXPORT_ENV": "" if "export" not in given else choice,
        "SLURM_GET_USER_ENV": "" if "ALL" in choice.upper().split(",") else "1",
    }
    return {os.fsencode(name): os.fsencode(value) for name, value in pairs.items() if value}
