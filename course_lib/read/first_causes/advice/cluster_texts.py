"""What each cause means and what to try, where Slurm or the network between ranks had it."""

CLUSTER_TEXTS = {
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
    "port_in_use": (
        "the rendezvous port is taken",
        "Another process on that host listens on the port already: another job, or the rest of an "
        "earlier run.",
        "Use another MASTER_PORT, best derived from the job id; end leftovers of earlier runs.",
    ),
    "port_forbidden": (
        "the rendezvous port may not be used",
        "The system refused the port itself (13, Permission denied): ports below 1024 are for the "
        "administrator. Nobody else has it, so waiting does not help.",
        "Use a MASTER_PORT between 1024 and 65535, best derived from the job id.",
    ),
    "missing_master": (
        "the program was not told where the processes meet",
        "It takes the address, the port, its rank and the number of ranks from the environment, "
        "and a variable is not set: nothing that sets them has started it.",
        "Start it with torchrun; or export MASTER_ADDR (the first of `scontrol show hostnames "
        "$SLURM_JOB_NODELIST`) and MASTER_PORT in the job script, and RANK, LOCAL_RANK and "
        "WORLD_SIZE from SLURM_PROCID, SLURM_LOCALID and SLURM_NTASKS in each task.",
    ),
    "no_internet": (
        "the program could not fetch something from the internet",
        "Compute nodes mostly have no way out; login nodes have one.",
        "Fetch it before the job, on the login node, into a folder that the nodes see, and give "
        "the program its path.",
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
    "stayed_away": (
        "a rank did not come to a collective",
        "The others waited for it until their time-out. It was alive, and busy or stuck at another "
        "place of the program.",
        "Look at that place, and at what it waits for: data, a lock, a file, a branch that only "
        "this rank takes. lab.stacks(run) shows the same while the job still hangs.",
    ),
    "lost_rank": (
        "a rank ended without a word",
        "Its process is gone and has printed nothing: it was killed (mostly by the kernel, for the "
        "host's memory), its node is gone, or compiled code ended it.",
        "Look at `sacct -j <job> -o State,ExitCode,MaxRSS,NodeList` and that node's kernel log; "
        "go on from the last checkpoint, without the node if it happens there again "
        "(--exclude=<node>).",
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
        "The interface that was asked for has no usable address on this node, so no address could "
        "be exchanged.",
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
    "controller_unreachable": (
        "Slurm's controller did not answer",
        "The command could not reach the daemon that keeps the queue (slurmctld), its database or "
        "the key service on this machine: it is down or busy, or this is no node of the cluster. "
        "The request itself was not looked at.",
        "`scontrol ping` shows whether it is back; ask for the state with `squeue` before you "
        "submit again, since the request may have arrived; tell the administrators if it lasts.",
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
