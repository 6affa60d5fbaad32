"""How memory exhaustion and the scheduler announce themselves, in old and new versions."""

from __future__ import annotations

from course_lib.read.first_causes.rules.rule import REPORT, ROOT, SECONDARY, rule

MEMORY = (
    rule(
        "device_limit",
        ROOT,
        rb"CPU out of memory\. Tried to allocate "
        rb"(?:.{1,40}?\. Rank \d{1,7} on (?P<node>\S{1,100}) has)?",
    ),
    rule(
        "cuda_oom",
        ROOT,
        rb"(?:CUDA|HIP|XPU|MPS|NPU|MLU|HPU) ?(?:backend )?(?:error: )?out of memory",
        unless=rb"^\s*(?:if|#|WARNING|warn)",
    ),
    rule(
        "cuda_oom",
        ROOT,
        rb"OutOfMemoryError|CUBLAS_STATUS_ALLOC_FAILED|cudaErrorMemoryAllocation|"
        rb"C(?:uda|UDA) failure (?:2 )?'out of memory'|"
        rb"(?:PI|UR_RESULT)_ERROR_OUT_OF_(?:RESOURCES|DEVICE_MEMORY)",  # Intel's devices
    ),
    rule(
        "cpu_oom",
        ROOT,
        rb"DefaultCPUAllocator: (?:can't allocate|not enough) memory: "
        rb"you tried to allocate (?P<tried>\d{1,20}) bytes",
    ),
    rule("cpu_oom", ROOT, rb"posix_memalign\(.{0,80}\) == 0\. 12 vs 0"),
    rule("cpu_oom", ROOT, rb"MemoryError\b|std::bad_alloc|\[Errno 12\] Cannot allocate memory"),
    rule(
        "host_oom_kill",
        ROOT,
        rb"Detected (?P<kills>\d{1,9}) oom[-_]kill event(?:\(s\)|s)? in "
        rb"(?:StepId=|step )?(?P<step>[\w.+]{0,60})",
    ),
    rule(
        "host_oom_kill",
        ROOT,
        rb"srun: error: (?P<node>[\w.-]+): tasks? (?P<task>[\d,-]+): Out Of Memory",
    ),
    rule(
        "host_oom_kill",
        ROOT,
        rb"[Ee]xceeded (?:job |step |virtual )?memory limit|oom-kill:constraint|"
        rb"Reason: {1,20}OOMKilled",
    ),
    rule(
        "lost_rank",
        ROOT,
        rb"\blost rank (?P<named_rank>\d{1,7}) \(on (?P<node>[\w.-]{1,100})"
        rb"(?:, process (?P<pid>\d{1,9}))?\)",
    ),
    rule("host_oom_kill", ROOT, rb"[Oo]ut of memory: Kill(?:ed)? process (?P<pid>\d{1,9})"),
    rule("host_oom_kill", ROOT, rb"DUE TO (?:MEMORY|OUT OF MEMORY)|OUT_OF_MEMORY"),
)

_STEP = (
    rb"\*\*\* (?:JOB|STEP) (?P<step>[\w.+]{1,60}) ON (?P<node>\S{1,100})"
    rb"(?: CANCELLED)?(?: AT (?P<at>\S{0,30}))?"
)
_NO_ANSWER = (
    rb"Unable to contact (?:the )?(?:slurm controller|slurmctld)|"
    rb"Socket timed out on send/recv|Zero Bytes were transmitted or received|"
    rb"Transport endpoint is not connected|[Ss]lurm backup controller in standby mode|"
    rb"resolve_ctls_from_dns_srv|DNS SRV lookup failed|"
    rb"(?:establish|find) a configuration source|"
    rb"persistent connection to (?:host:)?\S{1,100}: (?:Connection refused|Connection timed out)|"
    rb"Munge encode failed: Failed to (?:access|connect)"
)
SCHEDULER = (
    rule("time_limit", ROOT, _STEP + rb".{0,60}DUE TO (?:TIME LIMIT|TIMELIMIT)"),
    rule("time_limit", ROOT, rb"PBS: job killed: walltime|DUE TO TIME LIMIT|TERM_RUNLIMIT"),
    rule("preempted", ROOT, _STEP + rb".{0,60}DUE TO (?:PREEMPTION|JOB REQUEUE)"),
    rule("preempted", ROOT, rb"DUE TO PREEMPTION|JobState=PREEMPTED"),
    rule("node_failure", ROOT, _STEP + rb".{0,60}DUE TO NODE FAIL(?:URE)?(?:, SEE SLURMCTLD LOG)?"),
    rule(
        "node_failure",
        ROOT,
        rb"[Nn]ode failure on (?P<node>[\w.,\[\]-]{1,200})|DUE TO NODE FAIL|NODE_FAIL",
    ),
    rule("task_failure", REPORT, _STEP + rb".{0,60}DUE TO (?P<reason>TASK FAILURE|[A-Z ]{3,40})"),
    rule("cancelled", ROOT, _STEP.replace(rb"(?: CANCELLED)?", rb" CANCELLED")),
    rule(
        "cancelled", ROOT, rb"(?:JOB|STEP) \S{1,60} CANCELLED|Cancelled by (?:user|uid)|scancel: "
    ),
    rule(
        "controller_unreachable",
        ROOT,
        rb"(?:submission failed|Unable to (?:allocate|create|confirm).{0,60}): (?:"
        + _NO_ANSWER
        + rb")",
    ),
    rule("controller_unreachable", SECONDARY, _NO_ANSWER),
    rule(
        "bad_account",
        ROOT,
        rb"Invalid account(?: or account/partition combination)?(?: specified)?|"
        rb"Job violates accounting/QOS policy|Invalid qos specification|"
        rb"User's group not permitted to use this partition|not allowed to use .{0,40}account",
    ),
    rule("bad_partition", ROOT, rb"invalid partition specified(?:: (?P<partition>\S{1,100}))?"),
    rule(
        "bad_request",
        ROOT,
        rb"Requested node configuration is not available|More processors requested than permitted|"
        rb"Requested partition configuration not available|Requested time limit is invalid|"
        rb"Invalid generic resource|Batch job submission failed: (?P<reason>.{1,200})|"
        rb"(?:sbatch|srun): (?:unrecognized|invalid) option|sbatch: error: (?:Unable|invalid|"
        rb"Invalid)",
    ),
    rule(
        "step_failed",
        REPORT,
        rb"srun: (?:fatal|error): Unable to (?:create|allocate|confirm).{0,200}",
    ),
)
