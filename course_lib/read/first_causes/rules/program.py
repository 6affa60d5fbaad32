"""How programs, numbers and launchers announce that something broke."""

from __future__ import annotations

from course_lib.read.first_causes.rules.rule import REPORT, ROOT, SECONDARY, rule

NUMBERS = (
    rule(
        "nan_loss",
        ROOT,
        rb"Rank (?P<rank>\d{1,7}), node (?P<node>[^,\s]{1,100}), device (?P<device>\d{1,5}), "
        rb"iteration (?P<iteration>\d{1,12}): Unexpected result (?:nan|inf)",
    ),
    rule(
        "nan_loss",
        ROOT,
        rb"(?:[Rr]ank (?P<rank>\d{1,7}): )?found NaN in (?:local )?(?P<what>[\w \-#]{1,60}?)"
        rb"(?: in (?P<during>\w{1,20} pass)[^.,]{0,100})?[.,](?: Device: (?P<device>\d{1,5}))?"
        rb"(?:, node: (?P<node>[^,\s]{1,100}))?",
    ),
    rule(
        "nan_loss",
        ROOT,
        rb"[Ll]oss is (?:nan|NaN|inf)|Unexpected result (?:nan|inf)|NaN (?:or Inf )?(?:in|"
        rb"found in) loss|"
        rb"(?:encountered|detected|found) (?:a )?(?:NaN|nan|Inf|inf)(?:/Inf|/inf)?\b|"
        rb"Function '\w{1,60}' returned nan values|non-finite loss|[Ll]oss (?:became|"
        rb"diverged to) (?:nan|NaN)",
        unless=rb"NaN or Inf found in input tensor",
    ),
    rule("loss_scale", ROOT, rb"loss scale already at minimum|[Mm]inimum loss scale reached"),
)

_ONLY_TRIED = rb"Warning:|WARNING|plugin|ImportError\("
PROGRAM = (
    rule(
        "missing_module",
        ROOT,
        rb"ModuleNotFoundError: No module named '?(?P<module>[\w.]{1,120})|"
        rb"^(?:\S{0,200}: )?No module named '?(?P<module2>[\w.]{1,120})|"
        rb"ImportError: (?P<library>\S{1,200}): cannot open shared object",
        unless=_ONLY_TRIED,
    ),
    rule(
        "other_module",
        ROOT,
        rb"ImportError: cannot import name '(?P<name>\w{1,80})'(?: from (?:partially initialized "
        rb"module )?'(?P<module>[\w.]{1,120})')?",
        unless=_ONLY_TRIED,
    ),
    rule(
        "missing_file",
        ROOT,
        rb"FileNotFoundError: (?:\[Errno 2\] )?No such file or directory: '?"
        rb"(?P<path>[^'\n]{1,500})|"
        rb"cannot be found at the path prefix (?P<prefix>\S{1,500})|"
        rb"FileNotFoundError\b|can't open file '(?P<script>[^'\n]{1,500})'",
    ),
    rule(
        "missing_command",
        ROOT,
        rb"execve\(\): (?P<command>.{1,200}): (?:No such file or directory|Permission denied)",
    ),
    rule(
        "missing_command",
        REPORT,
        rb"line \d{1,6}: (?P<command>[^:]{1,300}): (?:command not found|No such file or directory)|"
        rb"(?P<command2>\S{1,100}): command not found",
    ),
    rule("data_exhausted", ROOT, rb"^StopIteration\b"),
    rule(
        "file_system",
        ROOT,
        rb"checkpoint (?:of iteration \d{1,12}|could not be written): "
        rb"rank (?P<named_rank>\d{1,7}): \[Errno \d{1,3}\]",
    ),
    rule(
        "file_system",
        ROOT,
        rb"PytorchStreamWriter failed|enforce fail at inline_container\.cc|"
        rb"Stale file handle|No space left on device|Disk quota exceeded|Read-only file system|"
        rb"Input/output error",
    ),
    rule("file_system", ROOT, rb"PermissionError|[Pp]ermission denied"),
    rule(
        "bad_layout",
        ROOT,
        rb"LayoutError\b|(?:is )?not (?:evenly )?divisible by|"
        rb"(?:must|should) be (?:a )?(?:divisible by|multiple of)|"
        rb"(?:is )?not a multiple of|world.?size .{0,60}(?:does not match|!=|must (?:be|equal)|"
        rb"is smaller)|"
        rb"mesh .{0,60}(?:not compatible|does not (?:match|fit))|"
        rb"(?:world size|[Ll]ayout) .{0,80}(?:does not fit|do not fit|not equal)",
        unless=rb"Warning|WARNING",
    ),
    rule(
        "old_device",
        ROOT,
        rb"(?i)(?:bfloat16|\bbf16\b|CUDA_R_16BF)[^\n]{0,200}"
        rb"(?:not support|unsupported|only supported|n't support|NOT_SUPPORTED|requires? \.target)|"
        rb"(?:not support|unsupported|n't support|NOT_SUPPORTED)[^\n]{0,200}"
        rb"(?:bfloat16|\bbf16\b|CUDA_R_16BF)|"
        rb"only supports Ampere GPUs or newer|"
        rb"compute capability \(?(?:of at least )?8\.[0x]?\)? ?(?:or higher|or above|required)|"
        rb"requires \.target sm_[89]\d",
    ),
    rule("bad_argument", ROOT, rb"\.py: error: (?P<reason>.{1,300})"),
    rule(
        "device_shared", ROOT, rb"CUDA-capable devices?(?:\(s\))? (?:is/)?are busy or unavailable"
    ),
    rule(
        "cuda_error",
        ROOT,
        rb"CUDA error: (?P<error>.{1,200})|device-side assert|illegal memory access|"
        rb"uncorrectable ECC|"
        rb"invalid device ordinal|no CUDA-capable device|No CUDA GPUs are available|"
        rb"(?:(?P<node>[\w.-]{1,100}) kernel: (?:\[[\d. ]{1,30}\] )?)?NVRM: Xid|"
        rb"Found no NVIDIA driver|"
        rb"CUDA driver version is insufficient|HIP error: ",
    ),
)

_BY_MPIRUN = (
    rb"rank (?P<rank>\d{1,7}) with PID \d{1,9} on node (?P<node>[\w.-]{1,100}) exited on signal "
)
_BY_SPAWN = rb"process (?P<process>\d{1,6}) terminated with signal "
LAUNCHER = (
    rule("killed", SECONDARY, _BY_MPIRUN + rb"9\b"),
    rule("crashed", SECONDARY, _BY_MPIRUN + rb"(?:4|7|8|11)\b"),
    rule("aborted", REPORT, _BY_MPIRUN + rb"6\b"),
    rule("killed", SECONDARY, _BY_SPAWN + rb"SIGKILL"),
    rule("crashed", SECONDARY, _BY_SPAWN + rb"SIG(?:SEGV|BUS|FPE|ILL)"),
    rule("killed", SECONDARY, rb"KILLED BY SIGNAL: 9\b|exits with return code = -9\b"),
    rule(
        "crashed",
        SECONDARY,
        rb"KILLED BY SIGNAL: (?:4|7|8|11)\b|exits with return code = -(?:4|7|8|11)\b",
    ),
    rule(
        "process_failed",
        REPORT,
        rb"RANK (?P<rank>\d{1,7}) PID \d{1,9} RUNNING AT (?P<node>[\w.-]{1,100})|"
        rb"Process name: \[\[\d{1,9},\d{1,9}\],(?P<rank2>\d{1,7})\]",
    ),
    rule(
        "aborted",
        REPORT,
        rb"srun: error: (?P<node>[\w.-]{1,100}): tasks? (?P<task>[\d,-]{1,60}): Aborted",
    ),
    rule(
        "killed",
        SECONDARY,
        rb"failed \(exitcode: -9\)(?: local_rank: (?P<local_rank>\d{1,5}))?(?: \(pid: "
        rb"(?P<pid>\d{1,9})\))?|"
        rb"Signal 9 \(SIGKILL\) received by PID (?P<pid2>\d{1,9})|"
        rb"DataLoader worker \(pid\(?s?\)? ?\d{0,9}.{0,20}\) is killed by signal: Killed|"
        rb"DataLoader worker .{0,40}exited unexpectedly|line \d{1,6}: +(?P<pid3>\d{1,9}) Killed\b|"
        rb"died with <Signals\.SIGKILL|"
        rb"srun: error: (?P<node>[\w.-]{1,100}): tasks? (?P<task>[\d,-]{1,60}): "
        rb"(?:Killed|Exited with exit code 137\b)|"
        rb"\*\*\* (?:JOB|STEP) .{1,120} KILLED AT|\b(?P<pid4>\d{1,9}) (?:Killed|"
        rb"\xe5\xb7\xb2\xe6\x9d\x80\xe6\xad\xbb)\s",
    ),
    rule(
        "crashed",
        SECONDARY,
        rb"srun: error: (?P<node>[\w.-]{1,100}): tasks? (?P<task>[\d,-]{1,60}): "
        rb"(?:Segmentation fault|Bus error|Floating point exception|Illegal instruction)|"
        rb"Segmentation fault|SIGSEGV|exitcode: -11|SIGBUS|Bus error|SIGFPE|"
        rb"Fatal Python error: (?P<what>.{1,100})",
    ),
    rule(
        "aborted",
        REPORT,
        rb"MPI_ABORT was invoked on rank (?P<rank>\d{1,7})|"
        rb"exitcode: -6|SIGABRT|: Aborted|\(core dumped\)|terminate called after",
    ),
    rule(
        "nccl_error",
        SECONDARY,
        rb"nccl(?P<kind>UnhandledCudaError|SystemError|InternalError|InvalidUsage|InvalidArgument)|"
        rb"NCCL error|DistBackendError|NCCL WARN (?!.{0,200}(?:iommu|ibverbs|CollNet|"
        rb"plugin))(?P<warning>.{0,200}(?:rror|ailed|abort).{0,100})",
    ),
    rule(
        "process_failed",
        REPORT,
        rb"ChildFailedError|CalledProcessError|failed \(exitcode: (?P<exit_code>\d{1,3})\)|"
        rb"exits with return code|"
        rb"tasks? (?P<task>[\d,-]{1,60}): Exited with exit code (?P<code>\d{1,3})|"
        rb"returned non-zero exit status",
    ),
    rule(
        "terminated",
        REPORT,
        rb"SignalException|received SIGTERM|closing signal SIGTERM|exitcode: -15|\(SIGTERM\)|"
        rb"Killing subprocess|KeyboardInterrupt|SystemExit|Force Terminated|Terminating StepId|"
        rb"Job step aborted|: Terminated",
    ),
)
