"""More diagnoses of blind cases, tried from outside: right ones as people write them in haste, and
wrong ones in which the words of the right one stand."""

from __future__ import annotations

from .diagnoses_to_try import read

IN_HASTE = read("""
stuck
    rank 3's input thread died, everybody else sits in all_reduce; Rank 3 never comes out of
    its Data-Loader; rank 2 is waiting for something from disk that doesn't arrive; the
    data-loader thread of rank 3 is dead-locked; rank 3 HANGS before the all-reduce; reading
    thread gone, the queue stays empty; rank 3 does not reach the all-reduce because it
    waits for its next batch; one process waits on an empty queue; the barrier is never
    reached by rank 3, it still waits for data; hang: rank 1 blocks in queue.get; the
    prefetch thread ended silently; rank 3 sleeps in next_batch; not a crash, rank 2 hangs
    in its reader; the loader's worker thread died without an error; rank 3's batches
    stopped coming; rank 2 waits forever for a batch that isn't delivered; input pipeline of
    rank 1 is stuck; the reader of rank 3 gave up without telling anybody; rank 2 stalled
    while loading; DATALOADER HANG on rank 1
skipped
    rank 3 skipped the all-reduce; rank 3 did not call all_reduce in step 5; rank 2 is one
    iteration ahead of everybody; rank 1 forgot one step; rank 3 made 15 steps, the others
    16; rank 2 did one all-reduce less than the rest; one rank drops a batch and thus a
    collective; rank 3 omitted a step; one step was omitted by rank 2; rank 1 ran out of
    batches one step early; the number of steps is not equal on all ranks; rank 3 jumps to
    the next batch without all-reduce; Rank 2 left-out one step; rank 3 passed over a batch;
    rank 3 didn't take part in one all-reduce; rank 1 exits the loop a step too soon; one
    rank does fewer iterations; rank 2 SKIPS step 5; rank 3 missed a step; a collective is
    missing on rank 2
shape
    rank 3 all-reduces a tensor of another size; the all-reduce got different sized tensors;
    gradient tensor of rank 2 is too short; mis-matched tensor sizes; rank 3 sends fewer
    numbers than the others; the bucket of rank 2 has another length; some layers of rank 1
    don't require grad, so it reduces less; rank 2 froze half of its parameters; different
    number of gradients on rank 2; the buffers don't have the same size; Tensor-Shape
    differs on rank 3; part of the model frozen on rank 1; all_reduce with half as many
    elements on rank 3; rank 3 gives a smaller buffer to all_reduce; rank 3 brings a tensor
    with the wrong number of elements; dimension mismatch in the all reduce; rank 1's
    gradients have another shape; rank 2 only sends half its gradients; unequal tensor sizes
    across ranks; rank 3 contributes a shorter vector
hoard
    rank 3 ran out of memory; memory full because all logits of the validation are kept;
    Out-of-memory on rank 2; rank 1 asked for more memory than it has; allocation refused;
    rank 3 holds on to all outputs during validation and goes OOM; the guesses of the whole
    validation set are concatenated: OOM; too big an allocation; exceeded the device's
    memory limit in one go; it exhausted its device memory; Memory exceeded; OOM during
    validation; device memory is too small for all its logits; rank 2 stores the output of
    every batch and runs out of memory; OOM since all outputs are stored; too much memory
    allocated in one step; it needs more memory than the device has; out-of-memory error on
    rank 1; memory spike on rank 2; rank 3 keeps everything in memory during evaluation
leak
    memory of rank 3 goes up with every step; rank 2's memory keeps growing until OOM;
    memory-leak; rank 3 holds a reference to every old gradient; it appends the gradients to
    a list and never clears it; old tensors pile up; memory usage rises by the same amount
    per iteration; a list of tensors gets longer and longer; memory never released; step by
    step more memory until it is refused; more and more memory; its memory is not freed
    between steps; gradual memory growth; losses with their graphs are collected in a list;
    rank 2 hoards a copy each step; memory climbs step after step; something is retained
    every iteration; rank 1 leaks; gradients of old steps are not let go; memory consumption
    increases all the time; growing list of tensors on rank 2
killed
    rank 3 got signal 9; somebody killed rank 3's process; rank 2 received a SIG-KILL;
    process of rank 1 was terminated by the system; rank 3 died suddenly with no message;
    kill signal; rank 2 ended by signal 9, no traceback; the kernel's out-of-memory killer
    shot rank 3; rank 3's process is simply gone; one task was killed from outside; rank 3
    disappeared without traceback; one process crashed without any message (exit code 137);
    exit code 137 on rank 2; SIGKILL on rank 3; Rank 3 was killed.; rank 2 was SIGKILLed;
    rank 1 dead: signal 9; process 3 got shot by the OOM killer; the process of rank 2
    vanished; killed by someone; rank 3's process died
node-dies
    node2 went away; the node lost power; node2 crashed with both ranks; we lost node2; all
    tasks of node2 were killed together; the second machine rebooted; hardware failure of
    node2; node2 is not there any more; node 2 stopped responding; both processes of node2
    disappeared at the same time; node2 broke down; host node2 is offline; the complete
    node2 is lost; a whole machine failed; NODE_FAIL on node2; node2 is gone; the whole of
    node2 died; node crash (node2); node2 lost, with ranks 2 and 3; machine failure on
    node2; node2 has been switched off
slow-rank
    rank 3 computes twice as long as others; GPU of rank 2 is clocked down; rank 3 drags
    everyone; one slow GPU holds everybody back; everyone waits for rank 3, whose compute
    takes longest; rank 2's device is thermally limited; rank 3 needs more time per step
    than the rest; power cap on one device; Rank-3 is a straggler; the compute time of rank
    3 is larger; device 3 runs with half the clock; lagging rank 2; the other ranks wait for
    rank 3 since it is slow; lower frequency on one GPU; hot GPU; GPU throttling on rank 2;
    rank 3 is the slowest; one rank is much slower than the rest; rank 1 lags behind; slow
    node, clock too low; rank 2 takes twice as long to compute
wrong-port
    rank 3 knocks at another port; rank 2 tries port 29501 where the others use 29500; wrong
    MASTER-PORT on rank 3; the port number of rank 3 does not agree with the others; rank 3
    got the port of an old job; stale MASTER_PORT; rank 1 dials a different port; ports
    differ; rank 3 connects to a port where nobody listens; port typo; rank 2 has an
    incorrect port; mismatching port; Port is different on rank 3; MASTER_PORT was not
    exported to rank 3; MASTER_PORT is wrong on rank 3; rank 1 uses some other port; port
    number mismatch; rank 2 was told another port; rank 3 looks at the wrong door: another
    port; different ports
wrong-master
    node2 takes itself for the master; MASTER_ADDR is localhost on node2; each node uses its
    own address as the rendezvous; ranks 2 and 3 meet at node2 instead of node1; ranks of
    node2 connect to themselves; the rendezvous address differs between nodes; both nodes
    believe they are node 0; node2 has the wrong rendezvous address; ranks 2, 3 talk to
    127.0.0.1; MASTER-ADDR not the same on all nodes; node2's ranks look for the master on
    their own node; incorrect MASTER_ADDR on node2; two masters; MASTER_ADDR wrong on node2;
    the ranks on node2 connect to localhost; node2 thinks that it's the first node; wrong
    address of the master on node2; ranks 2 and 3 use node2 as master; the second node uses
    itself as rendezvous
bad-name
    the name in MASTER_ADDR cannot be looked up; rank 3 was given a hostname that nobody
    knows; DNS lookup error; misspelled host name; the master's name is unknown to node2;
    "Name or service not known"; gethostbyname failed; mistyped hostname of master;
    non-existent host; MASTER_ADDR contains a typo; rank 2 can't find the host; could not
    resolve host; invalid hostname; no such host; wrong name for the master; rank 3 has a
    wrong host name for the master; DNS can't resolve the master; name of the master is
    unknown; misspelt MASTER_ADDR; the hostname isn't known; hostname lookup failed
port-taken
    Address already in use; another process sits on the port; something else is listening on
    the master port; two jobs chose the same port; port 29500 is occupied; rank 0 couldn't
    bind to its port; the port is not free; old process still holds the port; port is
    blocked by another job; EADDRINUSE; Port-conflict with another job; bind error; somebody
    else has the port; port is being used already; the port is in use already; another
    program has the port; port 29500 not available, it's busy; address in use; port
    collision; someone else's process listens on this port
bad-sample
    NaN from bad sample; a corrupt sample makes rank 3's loss NaN; sample of length zero;
    rank 2 met a broken record; there is NaN in an input; one of the samples has no labels:
    0/0; padding-only sample; division by zero tokens; an all-masked sequence yields nan; a
    defective sample in the data set; one training example is damaged; the loss of rank 3 is
    NaN because of one bad example; rank 3 read a garbage sample; nan loss in one sample;
    empty sample; one sample gives 0/0; a broken example produced NaN; NaN caused by a
    sample without tokens; bad record in the data of rank 2; rank 1 read a corrupted sample;
    one sequence is empty
exploding
    lr much too high; the loss blew up; gradients exploded; numerical divergence because of
    the step size; training became unstable; LR too big; learning-rate too large; the
    optimizer took too large steps; loss shoots up and becomes nan on all ranks; diverging
    training; learning rate spike without warm-up; missing warmup; the loss went to infinity
    on all ranks; grad norm exploded; over-large learning rate; learning rate too large; it
    diverged; the loss explodes; exploding gradients, no clipping; lr is way too high; the
    steps are too big
same-data
    all ranks got the same batches; every GPU sees the same samples; DistributedSampler is
    missing; no DistributedSampler; data isn't split between ranks; each rank goes through
    the whole data set; the loader doesn't know its rank; identical samples on all ranks;
    all 4 ranks train on the same batch; sampler got rank 0 everywhere; the data is not
    distributed over the ranks; same mini-batch everywhere; all ranks use the same shard;
    each rank reads the same samples; sampler missing; data not sharded; every rank sees the
    whole dataset; the batches of all ranks are identical; all ranks load the same data
unequal-weights
    rank 2 started from a different initialisation: its checksum and its loss are already off at
    iteration 1 although it read the right sample, and it never comes back together with the other
    copies; rank 3 started with different weights; different initialisation on rank 2; rank 3 has
    another seed; the initial broadcast is missing for rank 2; parameters of rank 3 aren't
    those of rank 0; the replicas are not in sync; weights not synchronised; one replica has
    other weights; rank 1's model is initialised differently; weights differ between ranks;
    rank 3 loaded another checkpoint; checksums of the weights disagree; model of rank 2 is
    different; rank 3 doesn't have the same weights as others; the models diverged, since
    rank 2 began elsewhere; rank 2 has different parameters; no broadcast at the start;
    initial weights differ; rank 3 was seeded differently; weights out of sync on rank 1;
    rank 3's model isn't identical to the others
same-dropout
    the same dropout mask on every rank; all ranks drop the same neurons; RNG is identical
    across ranks; the seed of the random generator is the same on all ranks; dropout uses
    the same seed; ranks share their random numbers; identical dropout; every rank draws the
    same random numbers; random state not different by rank; dropout not independent between
    ranks; the same noise on all ranks; all ranks have equal RNG states; torch.manual_seed
    with the same seed on all ranks, so dropout is the same; same dropout pattern on all
    ranks; identical random masks; the ranks' generators are seeded equally; dropout seeds
    are the same; RNG not offset by rank; all ranks share one RNG state
same-order
    shuffle happens only once; forgotten set_epoch; the batches come in the same order every
    epoch; each epoch sees the samples in the identical order; epoch 2 is like epoch 1; no
    re-shuffling between epochs; sampler.set_epoch(epoch) missing; same permutation each
    epoch; data not shuffled between epochs; the order never changes; every epoch has the
    same sequence of samples; the sampler repeats its order; set-epoch is never called; the
    shuffling seed does not depend on the epoch; set_epoch isn't called; data order is
    identical each epoch; no shuffling after the first epoch; it's always the same order;
    every epoch repeats the same order; sampler not told the epoch
disk-full
    there is no space on the disk; the file system ran full; couldn't save the checkpoint:
    disk full; No space left on device; out of disk; over quota; the disk has no room left;
    /scratch is full; ENOSPC while saving; disk quota exceeded; not enough disk space;
    storage is full; writing the checkpoint failed since the disk is full; Disk-full; disk
    full; no disk space left; the filesystem is full; checkpoint can't be written as there's
    no space; quota reached; out of space
no-internet
    compute nodes can't reach the internet; it tries to download something on a compute
    node; tokenizer can't be downloaded; no network to the outside world; HTTP connection
    refused: node without internet; the job needs the internet; offline compute node;
    downloading the tokenizer failed; URLError; the download of the vocabulary fails; no
    outbound connection; compute nodes are cut off from the internet; it wants to fetch a
    file from the web; no internet on the compute node; download impossible from a compute
    node; tries to reach a web server; needs to fetch the tokenizer online; internet access
    missing; the URL isn't reachable
missing-module
    fused_norms isn't there on node2; ModuleNotFoundError on node1; a package isn't
    installed on node 2; node2 lacks a library; import error: no module called fused_norms;
    python environment differs on node2: module missing; the module is not installed;
    fused_norms not found on node2; can't import fused_norms; missing Python package;
    library not available on one node; module was never installed on node2; virtual
    environment of node2 misses a package; pip install was forgotten on node2; module
    missing on node2; node2 doesn't have fused_norms; package absent on one node; import
    fails, module not found; fused_norms isn't installed; wrong python environment on node2
old-module
    old version of fused_norms on node2; module out of date; an outdated package on node2;
    node2 has an older install; the function isn't in the installed version; fused_norms on
    node2 is too old; version mismatch of fused_norms; different versions on the nodes;
    cannot import name rms_norm; ImportError: cannot import name; obsolete module; the
    version of the package on node2 differs; stale package on one node; not the same version
    everywhere; module needs an upgrade on node2; too old version of the module on node2;
    node2 runs an outdated fused_norms; version differs on node2; function missing, since
    the module is old; old package; stale version of a library on one node
""")
DENIED = read("""
stuck
    not a hang: rank 3 ran out of memory; no deadlock, the disk is full; the loader is fine,
    rank 3 is slow; rank 3 was not stuck, it was killed; instead of hanging it diverged;
    hang or leak or disk full or killed; a network cable is broken; rank 3 skipped a step;
    the data is bad: NaN; the learning rate is too high; the cluster; NCCL bug; everything;
    all ranks read the same data; rank 2's GPU overheats; the port was wrong; rank 3 was
    killed, no hang; it's an out-of-memory error, not a hang; rank 2's port is wrong; shapes
    differ; everything is fine; the disk is full, so the loader can't write; rank 3 doesn't
    hang, it's just slow
skipped
    not skipped: the loader hangs; no rank skipped a step, rank 3 ran out of memory; it did
    not leave out anything, it was killed; rank 3 hangs in its data loader; rank 3 is slow;
    tensor shapes differ; all ranks skip the download, the disk is full; NaN; a tensor has
    another shape; killed
shape
    not a shape mismatch but a hang; rank 3 left a step out; version mismatch; wrong port;
    out of memory; sizes match, memory leaks; same shapes, different weights; rank 3 has an
    OOM and not a size mismatch; wrong learning rate
hoard
    not out of memory: rank 3 was killed; memory is fine, the disk is full; memory leak; the
    memory grows each step; no OOM, the loader hangs; rank 3 is slow since its memory is
    slow; it was killed by the kernel's oom killer; memory of the node broke; memory leak:
    it grows; plenty of memory, but the port is taken; killed by signal 9, memory was ok;
    disk out of space
leak
    not a leak: one huge allocation; there is no leak, the port is taken; the disk fills;
    rank 3 asked for too much at once; learning rate grows; OOM in one step, no growth;
    memory doesn't grow, a single big allocation failed; the disk fills with checkpoints
killed
    not killed: it hangs; nobody killed it, it ran out of device memory; the whole node
    died; rank 3 was stuck; all ranks were killed by the time limit; rank 3 hung and was not
    killed; the whole node2 died; rank 2 ran out of memory; slow GPU
node-dies
    the node is fine, only rank 3 was killed; not a node failure but a hang; the disk of the
    node is full; node2 is slow; node2 lacks a module; one process was killed; node2 lacks a
    package; rank 3 was killed
slow-rank
    not slow: rank 3 hangs; rank 3 isn't slow, it reads the same data; rank 3 ran out of
    memory; the network is slow; the disk is slow; all ranks are slow; rank 3 leaks memory;
    nobody is slow, weights differ; the node died; the loader is slow to start, then the
    disk is full; rank 2 hangs
wrong-port
    the port is right, the host name is wrong; not the port but the address; the port is
    already in use; DNS; firewall; the port is taken by another job; wrong MASTER_ADDR; the
    port is occupied; MASTER_ADDR is a bad name; port ok, host name wrong; internet blocked
    on port 443
wrong-master
    the master address is right, the port is wrong; not the master: the name doesn't
    resolve; port is taken; hostname has a typo; wrong port; wrong port on node2;
    MASTER_ADDR has a typo; the address is already in use
bad-name
    the name is right, the port is wrong; not DNS: the port is taken; node2 uses localhost;
    wrong port; module name unknown; MASTER_ADDR is localhost; the port is wrong, the name
    is ok; module name misspelt
port-taken
    the port is free but wrong; not in use, just the wrong port; the host name is unknown;
    wrong port on rank 3; wrong port number
bad-sample
    the data is fine, the learning rate is too high; not a bad sample: the lr is too high;
    the data loader hangs; all ranks read the same data; exploding gradients; overflow in
    fp16; data pipeline hangs; learning rate too high, samples are ok; all ranks get the
    same sample; weights are NaN because of the lr
exploding
    the learning rate is fine, a sample is bad; not the lr: a bad sample; NaN in the data;
    memory explodes; rank 3 got a broken sample; 0/0 in a sample, not an explosion; loss is
    fine, data are the same
same-data
    the data are different, the order is the same; not the data: the weights differ; the
    same dropout; same order each epoch; corrupt data; the data loader hangs; same order
    each epoch; same seed for dropout; different data on each rank, but same masks
unequal-weights
    not the weights: dropout is the same; the same seed for dropout; all ranks read the same
    data; the order repeats; dropout seed equal; all weights agree, the data don't
same-dropout
    dropout is fine, the weights differ; not dropout but the order of epochs; same data;
    different weights; all ranks read the same samples; weights differ by seed
same-order
    not the order: same data on all ranks; the order is fine, dropout is not; all ranks get
    the same samples; the weights differ; samples are the same on all ranks; dropout masks
    repeat
disk-full
    the disk is not full, memory is; not the disk: no internet; out of memory; memory is
    full; the queue is full; memory full; OOM, disk ok; no internet
no-internet
    the internet works, the module is missing; not the internet: the disk is full; DNS; port
    taken; the loader waits for data; the port to node1 is blocked; module missing, internet
    ok; the network between nodes is slow
missing-module
    the module is there but old; not missing, but outdated; wrong port; the disk is full;
    old version; version too old; the module exists in the wrong version; data missing
old-module
    the version is right, the package is missing; not old: missing; not installed on node2;
    old port; the node is old and slow; module not installed; old checkpoint
""")
CURED = read("""
stuck
    set num_workers to 0 and find out why the reader dies; a timeout in the data loader;
    restart the job when a worker dies; watch the loader
skipped
    make sure that every rank does the same number of steps; join() for uneven inputs; drop
    the last batch on all ranks; pad the batches
shape
    the same parameters must require grad on all ranks; unfreeze the layers on rank 2;
    find_unused_parameters
hoard
    don't keep the outputs; smaller micro-batch; compute the metric per batch and throw the
    logits away; free the tensors
leak
    call .item(); detach the loss; clear the list each step; don't store gradients
killed
    resume from the last checkpoint; request more memory; look in the kernel log; requeue
    the job
node-dies
    requeue without this node; restart from a checkpoint on another node; drain node2;
    exclude node2
slow-rank
    take another node; report the node to the admins; exclude node2; cool it
wrong-port
    give all ranks the same MASTER_PORT; export the port; one port for everybody; fix the
    port on rank 3
wrong-master
    use the first hostname of scontrol; set MASTER_ADDR to node1 everywhere; take the
    address of the first node; same master for all
bad-name
    correct the name; use the ip address; spell the hostname correctly; scontrol show
    hostnames
port-taken
    choose another port; derive the port from the job id; kill the other process; use a free
    port
bad-sample
    filter out empty samples; skip samples without tokens; clean the data
exploding
    reduce the learning rate; warm-up; gradient clipping; lower lr
same-data
    DistributedSampler; shard the data by rank; give each rank its own part; pass rank to
    the sampler
unequal-weights
    broadcast weights from rank 0; same seed on all ranks; use DDP, which broadcasts; load
    the same checkpoint on all ranks
same-dropout
    seed + rank; another seed per rank; seed the generator with the rank; different seeds
    for dropout
same-order
    call sampler.set_epoch(epoch); reshuffle every epoch; seed with the epoch; shuffle anew
disk-full
    delete old checkpoints; write to scratch; ask for more quota; free some space
no-internet
    download on the login node first; cache the tokenizer; use a local copy; HF offline mode
    with a local file
missing-module
    pip install it on node2; same environment on all nodes; activate the venv; install
    fused_norms
old-module
    upgrade fused_norms; pin the version; same version everywhere; reinstall the package
""")
