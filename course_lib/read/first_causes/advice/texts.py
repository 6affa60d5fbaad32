"""What each cause means and what to try: for somebody who sees it for the first time."""

from course_lib.read.first_causes.advice.cluster_texts import CLUSTER_TEXTS

TEXTS: dict[str, tuple[str, str, str]] = CLUSTER_TEXTS | {
    "cuda_oom": (
        "the device ran out of memory",
        "One allocation did not fit beside what the process already held. Other ranks usually "
        "follow, because they wait for this one.",
        "Halve the micro-batch and double the gradient accumulation; or switch on activation "
        "checkpointing, shard the optimizer, or use more tensor or pipeline parallelism. If much "
        "is reserved but not allocated, memory is fragmented: try "
        "PYTORCH_ALLOC_CONF=expandable_segments:True.",
    ),
    "device_shared": (
        "other processes hold the device's memory",
        "Most of the device was taken by processes that are not this rank: what an earlier run "
        "left, another user's, or a second rank that was bound to the same device.",
        "`nvidia-smi` on that node shows who they are; end what is yours and was left over, bind "
        "one rank to each device (LOCAL_RANK, --gpus-per-task), or exclude the node "
        "(--exclude=<node>). A smaller batch would only hide it.",
    ),
    "device_limit": (
        "the limit of device memory was reached",
        "This rank computes on the CPU with the memory of a small device; the allocation went "
        "beyond that limit.",
        "The same as on a GPU: a smaller micro-batch, activation checkpointing, a sharded "
        "optimizer, or more parallelism of the model.",
    ),
    "cpu_oom": (
        "the host allocator was refused memory",
        "The operating system did not give the process the memory that it asked for: the limit of "
        "the job or of the process is reached.",
        "Ask for more memory per node (--mem), load less data at once, use fewer data workers, or "
        "keep less on the host (CPU offloading, pinned buffers).",
    ),
    "host_oom_kill": (
        "the kernel killed the job: host memory exhausted",
        "The processes of the job together used more host memory than the job was given, so the "
        "kernel ended one of them without warning.",
        "Ask for more memory (--mem or --mem-per-cpu), or use less: fewer data workers, smaller "
        "prefetch, no CPU offloading, no whole data set in memory on each rank.",
    ),
    "killed": (
        "a process was killed with SIGKILL",
        "Nothing in the log says who sent it. One process alone: most often the kernel, because "
        "the host's memory was exhausted. All of a node at once: the node, the scheduler or a "
        "person.",
        "Look at `sacct -j <job> -o State,MaxRSS,ReqMem` and at the node's kernel log; then ask "
        "for more host memory or use less of it.",
    ),
    "missing_module": (
        "a Python module is missing",
        "The Python that ran on the node cannot import it: it is not installed in that "
        "environment, or another environment is active in the job than in your shell.",
        "Activate the environment inside the job script, check `which python` there, and install "
        "the module into it.",
    ),
    "other_module": (
        "a Python module is another one than the program needs",
        "It is there, and lacks a name that the program takes from it: an older or a newer "
        "version, a file of the same name that is found first, or two modules that import each "
        "other.",
        "Compare `python -c 'import <module>; print(<module>.__file__)'` and its version on each "
        "node; bring all to the version that the program was written for.",
    ),
    "missing_file": (
        "a file is missing",
        "The path does not exist on that node, or not yet: another rank may still be writing it.",
        "Check the path from a compute node (file systems differ from the login node); let one "
        "rank build shared files while the others wait at a barrier.",
    ),
    "missing_command": (
        "a command was not found",
        "The job script calls a program that is not on the PATH of the node, or not executable.",
        "Load the module or activate the environment inside the job script, or give the full path.",
    ),
    "data_exhausted": (
        "the data ran out",
        "A rank asked its data loader for another batch and there was none (StopIteration). Ranks "
        "that have no loader of their own then wait for it until they time out.",
        "Ask for fewer iterations or more samples; check the split and that the number of samples "
        "covers global batch × iterations.",
    ),
    "file_system": (
        "the file system refused",
        "Space, quota, permission, or a file that vanished under the reader (stale handle).",
        "Check quota and permissions; keep caches (Triton, compile, Hugging Face) on local disks "
        "with one folder per rank.",
    ),
    "nan_loss": (
        "the loss or the gradients became NaN",
        "Numbers left the range of their type: the learning rate is too high, the loss scale too "
        "large, the data broken, or a device computes wrongly.",
        "See whose loss it was first, before anything was summed over ranks. If it was one rank's, "
        "look at the samples that it had read, and repeat them on another node to exclude the "
        "device. If it was everybody's at once, lower the learning rate or warm up longer, use "
        "bfloat16, clip gradients.",
    ),
    "loss_scale": (
        "the loss scale fell to its minimum",
        "Every step overflowed, so the scale was halved until nothing was left: the training has "
        "diverged. (A few overflows at the start are normal.)",
        "The same as for NaN: lower learning rate, longer warm-up, bfloat16.",
    ),
    "bad_layout": (
        "the layout does not fit",
        "Sizes that must divide each other do not: devices, tensor and pipeline sizes, heads, "
        "layers or batches.",
        "Make world size = tensor × pipeline × context × data, heads divisible by tensor, layers "
        "by pipeline, and the global batch by micro-batch × data.",
    ),
    "bad_argument": (
        "the program refused an argument",
        "The command line holds an option that this version does not have, a wrong value, or one "
        "that does not go with the other options or with this device.",
        "Do as the message says. `--help` of the same version lists all options.",
    ),
    "cuda_error": (
        "a CUDA call failed",
        "Often an index out of range in a kernel, no visible device, or a broken device. Errors "
        "of kernels show up at a later call.",
        "Run with CUDA_LAUNCH_BLOCKING=1 to get the true place; check CUDA_VISIBLE_DEVICES; try "
        "another node.",
    ),
    "old_device": (
        "the device is too old for what was asked of it",
        "bfloat16, and the fused kernels written for it, need an Ampere GPU (A100) or a newer "
        "one; a V100 or a T4 has neither.",
        "Use --fp16 (with its loss scale) or fp32 instead of --bf16, and plain attention instead "
        "of FlashAttention; or ask for newer devices (`sinfo -o '%P %G'` lists them).",
    ),
    "python_error": (
        "the program raised an exception",
        "An error in the program or in how it was called.",
        "Read the message and the innermost line of the traceback.",
    ),
    "cut_off": (
        "the log ends within a traceback",
        "The program raised an exception, and which one is not in the log: it was cut off, as "
        "where the disk is full, the node is gone, or a copy was not finished.",
        "Look whether another rank's file, or the node's own, has the end; see the disk (`df`, "
        "`quota`) and `sacct`; then run it again. The last line shows what was going on.",
    ),
    "crashed": (
        "a process crashed",
        "It broke inside compiled code (segmentation fault or bus error), without a Python error.",
        "Too little shared memory (/dev/shm), mixed library versions or a broken device are "
        "usual; run with PYTHONFAULTHANDLER=1.",
    ),
    "aborted": (
        "a process aborted itself",
        "Compiled code gave up (SIGABRT), mostly after an error printed above.",
        "Look at what the same rank printed before.",
    ),
    "process_failed": (
        "a process ended with an error code",
        "The launcher saw it fail; its own message is not in this log.",
        "Look into the error stream of that rank, or start with torchrun --tee 3.",
    ),
}
"""cause -> title, meaning, what to try"""

SEVERAL_KILLED = (
    "Nothing in the log says who sent it. Several processes at once: their node was lost or "
    "restarted, the scheduler or a person ended what ran there, or the launcher itself was killed."
)
"""What `killed` means of more than one process; what to try is as of a rank that was lost."""
