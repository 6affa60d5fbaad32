"""Options of sbatch, srun and salloc: their sources and their effects on a job."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

from course_lib.box import bin_dir, settings
from course_lib.box.commands.command_line import NONE, Failure, Syntax, Unsupported
from course_lib.box.queue.records import exported, joined_environment
from course_lib.box.settings import UNLIMITED

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
    value = int(text) if text.strip().lstrip("+-").isdecimal() else least - 1
    if value < least or value >= 2**31:
        raise Failure(f'Invalid numeric value "{text}" for --{option}.')
    return value


def node_counts(text: str) -> tuple[int, int]:
    """Read `2` or `1-2`, with k and m as units. The minimum may be 0, as in Slurm."""
    least, dash, most = text.partition("-")
    try:
        low = _scaled(least)
        high = _scaled(most) if dash else low
    except ValueError:
        raise Failure(f'"{text}" is not a valid node count', code=BAD_OPTION_CODE) from None
    if high < low:
        raise Failure(
            f"Maximum node count {high} is less than minimum node count {low}",
            code=BAD_OPTION_CODE,
        )
    return low, high


def _scaled(text: str) -> int:
    factor = {"k": 1024, "m": 1024 * 1024}.get(text[-1:].lower(), 1)
    digits = text if factor == 1 else text[:-1]
    if not digits.isdigit():
        raise ValueError(text)
    return int(digits) * factor


def time_limit(text: str, option: str = "time") -> int:
    """Return minutes, rounded up. 0 and UNLIMITED mean no limit."""
    if text.startswith("-") and text[1:].isdigit():
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
    if not digits.isdigit() or unit not in SUFFIXES:
        raise invalid(option)
    return str(int(-(-int(digits) * SUFFIXES[unit] // 1)))


def signal_wanted(text: str) -> tuple[int, int, str]:
    """Read `[B:][R:]NAME[@seconds]` as (number, seconds before the limit, `batch` or "")."""
    flags, colon, rest = text.rpartition(":")
    name, at, seconds = rest.partition("@")
    number_ = signal_number(name)
    flags_ok = not colon or set(flags.upper()) <= set("BR")
    seconds_ok = not at or (seconds.isdigit() and int(seconds) < 65536)
    if not number_ or not flags_ok or not seconds_ok:
        raise invalid("signal")
    return number_, int(seconds) if at else 60, "batch" if "B" in flags.upper() else ""


def signal_number(text: str) -> int:
    """Return the number of a signal, or 0 if the text names none."""
    import signal

    if text.isdigit():
        return int(text) if int(text) < 65 else 0
    name = text.upper().removeprefix("SIG")
    found = getattr(signal, f"SIG{name}", None)
    return int(found) if isinstance(found, signal.Signals) else 0


def hosts(text: str, _: str) -> str:
    """Expand a host list into names separated by commas."""
    from course_lib.box import hostlist

    try:
        return ",".join(dict.fromkeys(hostlist.expand(text)))
    except hostlist.HostListError:
        return text  # admission refuses it as an unknown node, as Slurm does


Fields = dict[str, object]


def _nodes(value: str, fields: Fields) -> None:
    fields["nodes_min"], fields["nodes_max"] = node_counts(value)
    fields["nodes_given"] = 1


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


def begin(text: str, option: str) -> float:
    from course_lib.box.commands import dates

    try:
        return dates.parse_or_fail(text)
    except Failure:
        raise invalid(option) from None


def open_mode(text: str, option: str) -> str:
    known = {"a": "append", "append": "append", "t": "truncate", "truncate": "truncate"}
    if text not in known:
        raise invalid(option)
    return known[text]


def _signal(value: str, fields: Fields) -> None:
    fields["signal_number"], fields["signal_before_s"], fields["signal_to"] = signal_wanted(value)


# Functions that convert an option's text to a field value. They also get the option's name.
READERS: dict[str, Callable[[str, str], object]] = {
    "0": lambda text, option: 0,
    "1": lambda text, option: 1,
    "begin": begin,
    "bytes": lambda text, option: text.encode("utf-8", "surrogateescape"),
    "count": number,
    "count0": lambda text, option: number(text, option, 0),
    "hosts": hosts,
    "layout": layout,
    "memory": memory,
    "nice": lambda text, option: number(text or "100", option, -(2**31)),
    "open-mode": open_mode,
    "text": lambda text, option: text,
    "time": time_limit,
    "user": lambda text, option: "user",
    "yes-or-no": lambda text, option: int(text.lower() == "yes"),
}
# Options that set several fields.
SETTERS: dict[str, Callable[[str, Fields], None]] = {
    "array": _array,
    "exclusive": _exclusive,
    "nodes": _nodes,
    "ntasks": _ntasks,
    "signal": _signal,
}
# Values that switch off an option that has no effect here.
HARMLESS = ("none", "no", "off", "n")
CPU_BIND = "cpu-bind"


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
        if option.fate == "note" and (value not in HARMLESS or name == CPU_BIND):
            self.notes.append(name)
        count = int(self.given.get("verbose", "0")) + 1
        self.given[name] = str(count) if name in ("verbose", "quiet") else value
        self.sources[name] = source
        if name in SETTERS:
            SETTERS[name](value, self.fields)
        elif option.field != "-":
            self.fields[option.field] = READERS[option.kind](value, name)

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
        reason = why or f"the box does not do --{name}"
        print(f"{self.command}: note: {variable}={value} is left aside: {reason}", file=sys.stderr)

    def say_notes(self) -> None:
        for name in dict.fromkeys(self.notes):
            said = f"note: the box accepts --{name} and does nothing with it"
            if name == CPU_BIND:
                said = "cluster configuration lacks support for cpu binding"  # Slurm's own words
            print(f"{self.command}: {said}", file=sys.stderr)


def _is_on(value: str) -> bool:
    return value in ("", "yes") or (value.lstrip("-").isdigit() and int(value) != 0)


# Options that are refused by name. Each line begins with the commands (salloc a, sbatch b, srun r).
# A variable such as SBATCH_GPU_BIND that sets one is ignored with a note.
REFUSED = """
abr acctg-freq= bb= bbf= cluster-constraint= clusters,M= container= core-spec,S= cores-per-socket=
abr cpu-freq= deadline= delay-boot= extra-node-info,B= gid= gpu-bind= gpu-freq= gpus-per-socket=
abr licenses,L= mcs-label= mincpus= network= nodefile,F= ntasks-per-core= ntasks-per-gpu=
abr ntasks-per-socket= power= prefer= profile= reboot sockets-per-node= thread-spec= time-min= tmp=
abr uid= wckey=
ab wait-all-nodes=
ar immediate,I? x11?
br propagate?
a bell kill-command,K? no-bell
b batch= export-file= get-user-env? ignore-pbs
r accel-bind= bcast-exclude= bcast? compress? disable-status,X epilog= het-group= msg-timeout=
r multi-prog no-allocate,Z preserve-env,E prolog= quit-on-interrupt relative,r= resv-ports?
r send-libs? slurmd-debug= task-epilog= task-prolog= threads,T=
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
cpu-bind|cpu_bind= r note CPU_BIND - -
cpus-per-gpu= abr do CPUS_PER_GPU cpus_per_gpu count
cpus-per-task,c= ab do - cpus_per_task count
cpus-per-task,c= r do CPUS_PER_TASK cpus_per_task count
dependency,d= ab do - dependency text
dependency,d= r do DEPENDENCY dependency text
distribution,m= abr do DISTRIBUTION distribution layout
error,e= br do ERROR stderr bytes
exact r do EXACT - -
exclude,x= abr do - exclude_nodes hosts
exclusive? abr do EXCLUSIVE * exclusive
export= br do EXPORT - -
gpus,G= abr do GPUS gpus text
gpus-per-node= abr do GPUS_PER_NODE gpus_per_node text
gpus-per-task= abr do GPUS_PER_TASK gpus_per_task text
gres= abr do GRES gres text
gres-flags= abr note GRES_FLAGS - -
help,h abr do - - -
hint= abr note HINT - -
hold,H abr do - hold user
input,i= br do INPUT stdin bytes
job-name,J= a do - name text
job-name,J= br do JOB_NAME name text
jobid= r do JOB_ID - -
kill-on-bad-exit,K? r do KILL_BAD_EXIT - -
kill-on-invalid-dep= b do - kill_on_invalid_dependency yes-or-no
label,l r do LABELIO - -
mail-type= abr note - - -
mail-user= abr note - - -
mem= abr do MEM_PER_NODE memory memory
mem-bind= abr note MEM_BIND - -
mem-per-cpu= abr do MEM_PER_CPU memory_per_cpu memory
mem-per-gpu= abr do MEM_PER_GPU memory_per_gpu memory
mpi= r do MPI_TYPE - -
nice? abr do - nice nice
no-kill,k? abr note NO_KILL - -
no-requeue b do NO_REQUEUE requeue 0
no-shell a do - - -
nodelist,w= abr do - want_nodes hosts
nodes,N= abr do - * nodes
ntasks,n= abr do - * ntasks
ntasks-per-node|tasks-per-node= abr do - tasks_per_node count
open-mode= br do OPEN_MODE open_mode open-mode
output,o= br do OUTPUT stdout bytes
overcommit,O abr do OVERCOMMIT overcommit 1
overlap r do OVERLAP - -
oversubscribe,s abr do - oversubscribe 1
parsable b do - - -
partition,p= abr do PARTITION partition text
priority= abr do - priority count0
pty r do - - -
qos,q= abr do QOS qos text
quiet,Q abr do - - -
requeue b do REQUEUE requeue 1
reservation= abr note RESERVATION - -
signal= abr do SIGNAL * signal
spread-job abr note SPREAD_JOB - -
switches= abr note REQ_SWITCH - -
test-only br do - - -
threads-per-core= abr note THREADS_PER_CORE - -
time,t= abr do TIMELIMIT time_limit_min time
unbuffered,u r do UNBUFFEREDIO - -
usage abr do - - -
use-min-nodes abr note USE_MIN_NODES - -
verbose,v abr do DEBUG - -
version,V abr do - - -
wait,W b do WAIT - -
wait,W= r do WAIT - -
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


def job_environment(given: dict[str, str]) -> bytes:
    """Return NUL-terminated NAME=value pairs: variables passed by --export, and sbatch's own."""
    own = dict(os.environb)
    choice = given.get("export", "ALL")
    login = {} if "ALL" in choice.upper().split(",") else _login(own)
    kept = {**login, **exported(choice, own), **_added(given)}
    folder = os.fsencode(bin_dir())
    path = kept.get(b"PATH", b"")
    if folder not in path.split(b":"):  # otherwise a job would find another Slurm's srun, or none
        kept[b"PATH"] = folder + b":" + path if path else folder
    return joined_environment(kept)


def _added(given: dict[str, str]) -> Variables:
    """Return the variables that come from the submission itself."""
    choice = given.get("export", "ALL")
    pairs = {
        "SLURM_SUBMIT_DIR": os.getcwd(),
        "SLURM_SUBMIT_HOST": os.uname().nodename.partition(".")[0],
        "SLURM_EXPORT_ENV": "" if "export" not in given else choice,
        "SLURM_GET_USER_ENV": "" if "ALL" in choice.upper().split(",") else "1",
        "SLURM_CPUS_PER_GPU": given.get("cpus-per-gpu", ""),
    }
    return {os.fsencode(name): os.fsencode(value) for name, value in pairs.items() if value}


def _login(own: Variables) -> Variables:
    """Return the variables of a fresh login shell. Real Slurm gets them from `su -`."""
    import pwd

    try:
        user = pwd.getpwuid(os.getuid())
    except KeyError:
        return {name: own[name] for name in (b"HOME", b"PATH", b"USER") if name in own}
    folders = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    if user.pw_uid:
        folders = "/usr/local/bin:/usr/bin:/bin:/usr/local/games:/usr/games"
    pairs = {
        "HOME": user.pw_dir,
        "LOGNAME": user.pw_name,
        "PATH": folders,
        "SHELL": user.pw_shell or "/bin/sh",
        "USER": user.pw_name,
    }
    return {os.fsencode(name): os.fsencode(value) for name, value in pairs.items()}
