"""What each cause means and what to try: for somebody who sees it for the first time."""

from __future__ import annotations

TEXTS: dict[str, tuple[str, str, str]] = {
    "cuda_oom": (
        "the device ran out of memory",
        "One allocation did not fit beside what the process already held. Other ranks usually "
        "follow, because they wait for this one.",
        "Halve the micro-batch and double the gradient accumulation; or switch on activation "
        "checkpointing, shard the optimizer, or use more tensor or pipeline parallelism. If much "
        "is reserved but not allocated, memory is fragmented: try "
        "PYTORCH_ALLOC_CONF=expandable_segments:True.",
    ),
    "device_limit": (
        "the rank reached its device memory limit",
        "This rank computes on the CPU with the memory of a small device; the allocation went "
        "beyond that limit.",
        "The same as on a GPU: a smaller micro-batch, activation checkpointing, a sharded "
        "optimizer, or more parallelism of the model.",
    ),
    "cpu_oom": (
        "the host allocator was refused memory",
        "The operating system did not give the process the memory that it asked for: the limit "
        "of the job or of the process is reached.",
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
        "Nothing in the log says who sent it. Most often it is the kernel because the host's "
        "memory was exhausted; it may also be the scheduler or a person.",
        "Look at `sacct -j <job> -o State,MaxRSS,ReqMem` and at the node's kernel log; then ask "
        "for more host memory or use less of it.",
    ),
    "time_limit": (
        "the job reached its time limit",
        "The scheduler ended it; the program itself had no error.",
        "Ask for more time (--time), or save checkpoints often enough to go on from the last one "
        "(and ask for a warning with --signal).",
    ),
    "cancelled": (
        "the job was cancelled",
        "Somebody, or a script, called scancel. What ranks print afterwards is the end of that.",
        "If it was not you, ask the administrators; `sacct -j <job> -o State%30` names the user.",
    ),
    "preempted": (
        "the job was preempted",
        "A job of higher priority took its nodes.",
        "Submit it again (--requeue does so by itself) and go on from the last checkpoint.",
    ),
    "node_failure": (
        "a node failed",
        "The scheduler lost a node of the job; the program is not at fault.",
        "Submit it again, excluding the node (--exclude=<node>) if it fails twice.",
    ),
    "missing_module": (
        "a Python module is missing",
        "The Python that ran on the node cannot import it: it is not installed in that "
        "environment, or another environment is active in the job than in your shell.",
        "Activate the environment inside the job script, check `which python` there, and install "
        "the module into it.",
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
    "port_in_use": (
        "the rendezvous port is taken",
        "Another process on that host listens on the port already: another job, or the rest of "
        "an earlier run.",
        "Use another MASTER_PORT, best derived from the job id; end leftovers of earlier runs.",
    ),
    "rendezvous_timeout": (
        "the processes did not find each other",
        "Some ranks waited for others that never came: wrong master address, blocked port, wrong "
        "number of processes, or a process that died before it could join.",
        "Look for an earlier error on the missing ranks; check MASTER_ADDR from each node, the "
        "number of nodes and tasks, and the network interface.",
    ),
    "collective_timeout": (
        "a collective operation timed out",
        "The ranks named here waited in it; the cause is on a rank that did not arrive. All that "
        "the log shows is who waited.",
        "Look at the ranks that are NOT among the waiting ones: an earlier error, a different "
        "branch of the program, a hang in data loading. TORCH_NCCL_TRACE_BUFFER_SIZE records what "
        "each rank did last.",
    ),
    "collective_mismatch": (
        "ranks called different collectives",
        "At the same point of the run, two ranks asked for different operations or shapes.",
        "Look for a branch that depends on the rank (or on its data) around a collective; uneven "
        "last batches and conditional logging are the usual places.",
    ),
    "lost_peer": (
        "a peer went away",
        "The connection to another rank broke, because that rank had ended. Its own log holds the "
        "reason.",
        "Look for the first error on the other ranks and nodes; give this reader all their logs.",
    ),
    "connect_failed": (
        "a connection between ranks could not be made",
        "NCCL or gloo tried an address that does not answer: a firewall, a wrong interface, or a "
        "process that is gone.",
        "Set NCCL_SOCKET_IFNAME (GLOO_SOCKET_IFNAME) to an interface that all nodes share; test "
        "with a ping between the nodes.",
    ),
    "network_interface": (
        "the network interface does not exist",
        "The interface that was asked for has no usable address on this node, so no address "
        "could be exchanged.",
        "List the interfaces (`ip address`) and set NCCL_SOCKET_IFNAME to one that exists on all.",
    ),
    "duplicate_device": (
        "two ranks use the same GPU",
        "Each rank needs its own device; here several were bound to one.",
        "Call torch.cuda.set_device(local_rank), or start one task per GPU with a binding.",
    ),
    "nccl_error": (
        "NCCL reported an error",
        "A collective failed; the message names the layer, rarely the reason.",
        "Run again with NCCL_DEBUG=INFO and look at the first WARN line of each rank.",
    ),
    "nan_loss": (
        "the loss or the gradients became NaN",
        "Numbers left the range of their type: the learning rate is too high, the loss scale too "
        "large, the data broken, or a device computes wrongly.",
        "Lower the learning rate or warm up longer, use bfloat16, clip gradients, look at the "
        "batch in question; repeat it on another node to exclude the device.",
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
        "the program does not know an argument",
        "The command line holds an option that this version does not have, or a wrong value.",
        "Compare with `--help` of the same version of the program.",
    ),
    "bad_account": (
        "the scheduler refused account or QOS",
        "The account does not exist, or may not use this partition.",
        "`sacctmgr show assoc user=$USER` lists what you may use; set --account accordingly.",
    ),
    "bad_partition": (
        "the partition does not exist",
        "There is no partition of that name on this cluster.",
        "`sinfo -s` lists the partitions.",
    ),
    "bad_request": (
        "the scheduler refused the request",
        "The job asks for something that no node of the partition offers.",
        "`sinfo -o '%P %c %m %G %l'` shows cores, memory, devices and limits.",
    ),
    "cuda_error": (
        "a CUDA call failed",
        "Often an index out of range in a kernel, no visible device, or a broken device. Errors "
        "of kernels show up at a later call.",
        "Run with CUDA_LAUNCH_BLOCKING=1 to get the true place; check CUDA_VISIBLE_DEVICES; try "
        "another node.",
    ),
    "python_error": (
        "the program raised an exception",
        "An error in the program or in how it was called.",
        "Read the message and the innermost line of the traceback.",
    ),
    "crashed": (
        "a process crashed",
        "It broke inside compiled code (segmentation fault or bus error), without a Python error.",
        "Too little shared memory (/dev/shm), mixed library versions or a broken device are usual; "
        "run with PYTHONFAULTHANDLER=1.",
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
    "task_failure": (
        "the step was ended because a task failed",
        "Slurm ended all tasks after one had failed; this is not the cause.",
        "Look at the output of the task that failed first.",
    ),
    "step_failed": (
        "srun could not start the step",
        "The resources of the job do not cover what srun asked for, or the job is ending.",
        "Check --ntasks, --cpus-per-task and --gres of srun against those of the job.",
    ),
    "terminated": (
        "the processes were told to stop",
        "A launcher or the scheduler sent SIGTERM; the log does not say why.",
        "`sacct -j <job> -o State,ExitCode,Reason` tells how the job ended.",
    ),
}
"""cause -> title, meaning, what to try"""
