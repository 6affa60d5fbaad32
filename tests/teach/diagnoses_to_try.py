"""Right diagnoses of blind cases, as people word them."""

from __future__ import annotations

TEXT = """
stuck
    the data loading thread of rank 2 died and it waits forever; blocked on next_batch; rank 2
    never gets a batch; waiting on an empty queue; data pipeline stalled; input pipeline
    froze; freeze in data loading; infinite wait in wait_for_batch; the rank is idle waiting
    for input; a hang in the data reader; rank 2 is waiting for data that never comes; data
    starvation on one rank; its DataLoader worker crashed so the rank sits there; rank stalls
    before step 5 waiting on its reader; the batch queue is empty; one process does not leave
    get(); the dataloader of rank 2 hung; rank 2 got stuck before all_reduce; one rank doesn't
    get its next batch and waits
skipped
    rank 2 did an iteration less than others; it missed one all_reduce; one rank ran ahead of
    the rest by a step; a rank jumped over a batch; out of step: one fewer training step; rank
    1 ended too early; unequal number of iterations; rank 3 has executed one collective less;
    desynchronised: one iteration missing; rank 2 made fewer steps; one rank did not take part
    in one step; it left out an iteration; missing call to a collective; rank 2 executed
    `continue` for one batch; rank 2 finished before the others; one rank skips a training
    step; rank 2 is one step ahead; rank 2 performs 15 rather than 16 steps
shape
    tensor sizes don't match in the all-reduce; rank 2 reduces a smaller tensor; collective
    mismatch: half the elements; the ranks call all_reduce with different lengths; different
    numel on one rank; inconsistent tensor shapes; wrong dimension in allreduce; part of the
    parameters frozen on one rank; received data size doesn't match expected; tensors of
    different size; the shapes do not agree; rank 2 contributes fewer elements; one rank sends
    half of the gradient buffer; different shapes in a collective; wrong shape in all_reduce
    on rank 2; gradient buffers of unequal size; rank 2 passes only half of its gradients
hoard
    CPU out of memory on rank 2; ran out of device memory; allocation failed: too much memory
    used at once; memory exhausted by storing logits; OutOfMemoryError; a huge allocation; too
    many tensors kept at once on one rank, OOM; out of memory; it runs OOM in one step; the
    device memory overflowed; it stores all the outputs, memory full; memory overflow; OOM on
    one rank; the rank requests too much memory; out of device memory because all logits are
    kept
leak
    memory leak on rank 2; gradients are retained every step; memory use climbs steadily until
    OOM; memory increases linearly; it accumulates tensors; keeps a copy of weights per step;
    creeping memory; slowly fills memory; retains graph every iteration; its memory rises by 5
    MB per step; something is kept each step until memory is full; leaking tensors; steady
    growth of memory; a list that grows; memory consumption goes up with every step; a memory
    leak; memory goes up step by step; it never frees its gradients
killed
    process got SIGKILL; the OOM killer of the kernel killed the rank; one task was shot;
    process 2 crashed with -9; rank 2's process terminated by signal 9; rank 2 disappeared;
    someone sent SIGKILL to rank 2; killed by the kernel; the process died without a word;
    rank 2 was killed; the process vanished; a rank has been killed; kill -9 of a process; one
    process was terminated from outside
node-dies
    node 2 crashed; node2 went down; host failure; all processes on one node were killed;
    machine lost; the second node vanished; node power failure; node fault: both its ranks are
    gone; node2 is dead; a node was lost; node crash; both tasks of node2 were killed;
    complete node outage; all ranks on node 2 died; node2 failed; the node is down; one of the
    nodes died
slow-rank
    rank 2 is a straggler; overheating device; device 2 runs at reduced frequency; compute of
    rank 3 takes 2x longer; thermal throttling; one device is slower; underclocked GPU; slow
    GPU; one rank takes longer to compute; a straggler: rank 2; clock lowered; hot device;
    performance of one device degraded; rank 2 is the bottleneck, its own time is twice the
    others; one GPU is slow; rank 2 slows everybody down; a device that is throttled
wrong-port
    rank 2 uses the wrong port; port mismatch; MASTER_PORT differs on one rank; rank 3
    connects to port 10010 and not 10009; stale port number; incorrect rendezvous port; it
    used another port than the others; rank 2 has yesterday's port; bad MASTER_PORT; wrong
    rendezvous port on rank 3; port is not the same on all ranks; rank 2 listens at another
    port; port number wrong; the port differs between ranks
wrong-master
    node 2 thinks it is the master; MASTER_ADDR points to localhost on the second node;
    incorrect master address; the second node connects to itself; 127.0.0.1 used as rendezvous
    host; master address set with hostname on each node; ranks of one node try to meet at
    their own node; node2 uses its own address as master; ranks 2 and 3 connect to 127.0.0.1;
    wrong MASTER_ADDR on node2; different master on one node; localhost instead of the first
    node; master address is wrong on one node; node2 uses localhost; the second node calls
    itself master
bad-name
    master's hostname cannot be resolved; name resolution fails on rank 2; DNS error; hostname
    typo; MASTER_ADDR is a name that doesn't exist; Name or service not known; getaddrinfo
    failed; the host is unknown; cannot resolve the name of the master; unknown hostname; the
    name of the master is misspelt; DNS lookup fails; wrong host name on one rank; MASTER_ADDR
    of rank 2 is not a known host; host name does not resolve; name not known; a typo in the
    master's name
port-taken
    address already in use; the port is occupied by another process; port conflict; port
    collision between two jobs; cannot bind: EADDRINUSE; port was not free; the port is in
    use; someone else listens on our port; another job uses the same port; bind failed:
    address in use; port clash; port already taken; the port is used by another program;
    EADDRINUSE on rank 0
bad-sample
    a sample with no tokens; NaN loss from division by zero in one sample; corrupted training
    example; an empty document; bad data on rank 2; broken batch; one record has zero length;
    masked-out sample: mean of nothing; one sample without valid tokens produces nan; bad
    data; loss is 0/0 for one sample; a sample whose loss mask is all zero; a broken sample;
    NaN in the data of rank 2; a sample with zero tokens gives nan; NaN from one bad record
exploding
    learning rate far too large; training diverges; loss blows up; gradient explosion; LR
    spike; step size too big; unstable training; the learning rate is too high; gradients
    explode; loss diverged; overflow because of too large lr; too aggressive learning rate; no
    gradient clipping and huge lr; lr too high; exploding loss; the training diverged after a
    large learning rate
same-data
    every rank trains on the same samples; DistributedSampler missing; data is not sharded
    over ranks; all ranks see identical batches; sampler without rank; no data parallel split,
    duplicates; the ranks read equal samples; same batch on all ranks; data not split among
    ranks; the sampler ignores the rank; each rank reads the whole data set in the same way;
    same data everywhere; no DistributedSampler; ranks do not split the data
unequal-weights
    rank 2 was initialised with another seed; model replicas differ; weights out of sync;
    parameters not broadcast; different initialization on one rank; checksum of weights is
    different on rank 3; replica diverged: own init; inconsistent parameters; one rank started
    from different weights; the models are not the same on all ranks; different seed on rank
    2; initial weights not synchronised; the weights of rank 2 differ; model copies are not
    identical; different initial weights; rank 2 has other weights; unequal seeds at
    initialisation
same-dropout
    dropout masks identical on all ranks; RNG seeded the same everywhere; same random numbers
    for dropout; generator not seeded per rank; dropout is the same on all ranks; same dropout
    seed; identical masks; random generators in the same state; same rng state; equal dropout
    masks; the dropout seed does not depend on the rank; same random state on each rank
same-order
    set_epoch not called; data order repeats each epoch; no reshuffling; the samples come in
    the same order again; shuffle is the same in each epoch; forgot set_epoch; epochs repeat
    in the same order; same shuffle every epoch; data is not reshuffled; every 4 steps the
    same samples come again; set_epoch is missing; same sample order each epoch; the sampler
    does not shuffle anew
disk-full
    no space left on device; the disk is full; quota exceeded; checkpoint could not be
    written: ENOSPC; filesystem full; out of disk space; storage exhausted; disk full; no room
    on the file system; quota; file system is full; cannot write a checkpoint, no space; full
    disk; the file system has no space
no-internet
    compute nodes have no internet access; tokenizer download fails; cannot reach the web; URL
    cannot be fetched; offline node; no network access to the outside; urlopen error; HTTP
    request fails on compute node; connection to models.invalid impossible; download from the
    internet; compute node is offline; tokenizer is fetched during the job; no route to the
    internet; url error; needs internet; no connection to the internet from the compute node;
    it wants to download a tokenizer
missing-module
    fused_norms is not installed on node 1; ModuleNotFoundError; a python package is missing;
    different environment on one node; missing dependency; import fails: no module named
    fused_norms; library absent; module not found; missing package on node 1; import error:
    module missing; wrong environment on one node; fused_norms does not exist there; a module
    isn't installed on one node; no module named fused_norms; the package is missing there
old-module
    outdated version of fused_norms; ImportError: cannot import name; older package on one
    node; version mismatch of a module; stale install; wrong version of the library; function
    missing from the module; old version; module version is different on node 2; function not
    in the module: too old; outdated package; one node has an older fused_norms; an older
    version of fused_norms on one node; import fails since the module is old; stale module
"""


def read(text: str) -> dict[str, tuple[str, ...]]:
    """A kind at the margin, then, indented, what is said of it."""
    said: dict[str, str] = {}
    kind = ""
    for line in text.split("\n"):
        if line.startswith(" "):
            said[kind] += " " + line.strip()
        elif line:
            kind = line
            said[kind] = ""
    return {kind: tuple(one.strip() for one in many.split(";")) for kind, many in said.items()}


IN_OTHER_WORDS = read(TEXT)
