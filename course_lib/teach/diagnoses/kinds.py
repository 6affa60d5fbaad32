"""One entry for each kind of fault of the blind cases."""

from __future__ import annotations

from course_lib.teach.diagnoses.kind import Kind

RISES = (
    r"leak\w*|gr[eo]w\w*|\bris\w*|climb\w*|creep\w*|increas\w*|accumulat\w*|fills?\b|goes up|"
    r"never free\w*|"
    r"(?:each|every|per) (?:step|iteration)|retain\w*"
)
LOG = "Read the log from its first line that is no setting on: run.failure says which."
DIARY = "Nothing printed an error. Lay the diaries side by side: run.diary.findings."
STACKS = (
    "The run stood still before it ended. Who of the ranks was not in a collective, and where was "
    "it? lab.stacks(run) asks while it hangs; the note near the end of the log says it afterwards."
)
MEETING = (
    "No iteration was made. Which ranks came to the meeting point, which did not, and to which "
    "name and port did those connect?"
)
NUMBERS = (
    "A number is no number any more. Whose loss was it first, and what was it the step before? "
    'run.diary.beside("loss") says.'
)
KINDS: dict[str, Kind] = {
    "stuck": Kind(
        "a rank hangs while it waits for data",
        r"stuck|dead.?lock|\bhang|\bhung|freez\w*|froze\b|\bstall\w*|block\w*|data ?load\w*|"
        r"data pipeline|input|reader|queue|worker|next_batch|wait_for_batch|never gets|(?:n.t|"
        r"not) get|for ?ever|"
        r"starv\w*|not leave|"
        r"wait\w* (?:for|on) (?:a |its |the )?(?:batch|data|input)",
        r"reader|loader|worker|time.?out|data|queue|restart|thread",
        "all ranks but one wait in a collective, and the one waits for something else",
        STACKS,
    ),
    "skipped": Kind(
        "a rank leaves a step out",
        r"skip\w*|left out|leaves? out|miss\w* (?:an?|one|the)\b|jump\w*|ahead|\bearly|"
        r"(?:an?|one) (?:step|batch|collective|iteration) (?:fewer|less|short|missing)|continue|"
        r"(?:uneven|unequal|fewer|different) (?:number of )?(?:steps|batches|iterations)|"
        r"(?:fewer|less) (?:\w+ )?(?:step|batch|iteration)|out of step|(?:step|iteration) missing|"
        r"de.?synchroni\w*|finished (?:first|before)|rather than \d+|not take part|"
        r"missing (?:call|collective)",
        r"same number|equal|every rank|all ranks|even|join|pad|drop|continue|skip|zero",
        "a rank is through before the others, which wait for it in their last step",
        STACKS,
    ),
    "shape": Kind(
        "a rank calls a collective with another shape",
        r"shape|mismatch\w*|sizes?\b|lengths?\b|numel|dimension|fewer (?:gradients|elements)|"
        r"smaller|frozen|"
        r"half|different (?:tensor|number of (?:elements|gradients|parameters))",
        r"same (?:shape|model|gradients|size|parameters|layers)|all ranks|DETAIL|freez|froz|equal|"
        r"unused",
        "gloo says that sizes do not match, and TORCH_DISTRIBUTED_DEBUG=DETAIL names both",
        "A process ended inside a collective. What does the library say of the sizes? Run the same "
        'recipe with environment={"TORCH_DISTRIBUTED_DEBUG": "DETAIL"}.',
        unlike=r"\bports?\b|step size|versions?\b",
    ),
    "hoard": Kind(
        "a rank runs out of memory at once",
        r"out ?of ?memory|\boom\b|memory|hoard|keeps? (?:all|the) (?:logits|guesses|outputs)|"
        r"logits|alloc\w*|too many tensors",
        r"keep|free|smaller|micro|less|limit|delete|detach|shard|memory|batch",
        "one rank's allocation is refused, and its memory was level until then",
        "A rank was refused memory. Was its memory level before, or did it rise? "
        'run.diary.beside("memory_mib") says.',
        unlike=RISES + r"|kernel|oom.?kill|something",
    ),
    "leak": Kind(
        "the memory of a rank grows with each step",
        RISES + r"|slope|keeps? (?:its |the |a copy of )?(?:grad\w*|weights|graph)",
        r"detach|free|keep|list|item|clear|delete|clone|leak|store|hold",
        "one rank's memory rises by the same amount each step, until it is refused",
        "A rank was refused memory. Was its memory level before, or did it rise? "
        'run.diary.beside("memory_mib") says.',
    ),
    "killed": Kind(
        "a process was killed",
        r"kill\w*|signal 9|-9|\bshot\b|(?:process|rank|task)(?: \d+)?(?: is| has| was)? (?:gone|"
        r"died|vanished|dead|disappeared|crashed|terminated|lost)|oom.?kill",
        r"checkpoint|resum|restart|requeue|memory|load|sacct|again|kernel",
        "srun tells of one task that was killed, the others of a peer that is gone",
        LOG + " How many tasks were killed, and on which nodes?",
        unlike=r"(?:all|both) (?:\w+ ){0,2}(?:ranks|tasks|processes)|whole node",
    ),
    "node-dies": Kind(
        "a whole node is gone",
        r"(?:node|host|machine)\w* (?:\S+ ){0,2}(?:die|dead|gone|down|lost|fail|fault|crash|vanish|"
        r"kill|disappear|reboot|outage)\w*|(?:dead|lost|whole|broken|failed|killed) (?:node|host|"
        r"machine)|"
        r"(?:both|all) (?:its |the )?(?:ranks|tasks|processes)\b.{0,20}(?:node|gone|kill|dead|"
        r"lost)|both its ranks",
        r"exclude|checkpoint|resum|restart|requeue|other node|replace|drain|again|load",
        "srun tells of all tasks of one node that were killed",
        LOG + " How many tasks were killed, and on which nodes?",
        "node",
    ),
    "slow-rank": Kind(
        "a rank is slower than the others",
        r"slow\w*|straggl\w*|\w*clock\w*|throttl\w*|\bhot\b|\w*heat\w*|frequency|lags?\b|behind|"
        r"degrad\w*|bottleneck|own time|"
        r"(?:takes?|computes?|times) (?:\S+ ){0,3}longer|thermal",
        r"exclude|replace|node|clock|cool|other device|without|drain|report|power",
        "steps are longer, and one rank computes longer than the others",
        DIARY,
        unlike=r"memory|host ?name",
    ),
    "wrong-port": Kind(
        "a rank was given another port",
        r"wrong port|other port|another port|different port|port\b(?! (?:is |was )?(?:taken|in use|"
        r"busy|occupied))|MASTER_PORT",
        r"same port|port|MASTER_PORT|export|all ranks",
        "one rank connects to another port than the one at which the others meet",
        MEETING,
        unlike=r"in use|taken|occupied|busy|conflict|collision|clash|not free|EADDRINUSE|"
        r"uses the same|"
        r"(?:some(?:one|body)|another (?:job|program|process))",
    ),
    "wrong-master": Kind(
        "the ranks of a node take another machine for the master",
        r"MASTER_ADDR|wrong (?:master|address|host|machine)|other (?:master|address)|127\.0\.0\.1|"
        r"localhost|own (?:node|address)|master address|itself|"
        r"(?:is|be|for|as) (?:the )?master|(?:different|another) master",
        r"MASTER_ADDR|first node|scontrol|hostnames|same (?:master|address)|address",
        "all ranks of a node connect to another address, such as their own",
        MEETING,
        "node",
        r"resol\w*|\bdns\b|unknown|not (?:a )?known|\bname\b|typo|exist|misspel\w*",
    ),
    "bad-name": Kind(
        "a name does not resolve",
        r"resol\w*|\bdns\b|(?:host ?)?\bnames?\b|hostname|unknown|not (?:a )?known|getaddrinfo|"
        r"\.invalid|misspel\w*|"
        r"typo|does ?n[o']t exist",
        r"name|address|dns|hosts|MASTER_ADDR|spell|ip\b|scontrol",
        "a rank connects to a name that its node does not know",
        MEETING,
        unlike=r"on each node|internet|models\.|import|module|fused",
    ),
    "port-taken": Kind(
        "the port is taken by somebody else",
        r"in use|taken|occupied|busy|EADDRINUSE|another (?:job|program|process)|two jobs|conflict|"
        r"some(?:one|body)|clash|collision|not free|port(?: is| was)? (?:in use|taken|busy|used)|"
        r"already",
        r"port|job id|other|another|end|free|kill",
        "rank 0 cannot open its port: the address is in use",
        LOG,
        "first",
    ),
    "bad-sample": Kind(
        "one sample makes the loss NaN",
        r"(?:bad|broken|empty|corrupt\w*|odd|one|padded|masked\S*) (?:\w+ )?(?:sample|data|record|"
        r"batch|sequence|example|document)|0 ?/ ?0|zero (?:tokens|length)|no tokens?|of nothing|"
        r"divi\w+ by zero|sample|\bdata\b",
        r"sample|data|filter|skip|mask|clamp|leave|remove|check|divisor|token",
        "the first loss that is no number is one rank's, and comes again with the same sample",
        NUMBERS,
        unlike=r"same|identical|equal|sampler|shard|duplicat\w*|split|order|\w*shuffl\w*|load\w*|"
        r"pipeline|reader|wait\w*|starv\w*|continue|size|something",
    ),
    "exploding": Kind(
        "the training explodes: its learning rate is too high",
        r"explod\w*|explosion|diverg\w*|learning rate|\blr\b|too (?:high|large)|overflow\w*|"
        r"blow\w*|unstable|step size",
        r"learning rate|\blr\b|warm|clip|lower|smaller|bf16|checkpoint",
        "the loss of all ranks jumps within a step or two before it is no number",
        NUMBERS,
        "none",
        r"replica|memory",
    ),
    "same-data": Kind(
        "all ranks read the same samples",
        r"(?:same|equal|identical) (?:data|samples?|batch\w*)|duplicat\w*|sampler|whole data|"
        r"not (?:shard|split|divid)\w*",
        r"sampler|rank|split|shard|different|distributed|divide",
        "in each step all ranks read samples with the same checksums",
        DIARY,
        "none",
        r"order|epoch|shuffl\w*|again|steps",
    ),
    "unequal-weights": Kind(
        "a rank began with other weights",
        r"(?:other|different|unequal|unsynchroni\w*|inconsistent|own) (?:\w+ )?(?:weights|"
        r"parameters|init\w*|seed)|(?:weights|parameters|replicas?|copies|model)(?: \w+)? (?:"
        r"differ\w*|are|is|diverge\w*)|out of sync|replica|seed|initiali\w*|not broadcast|"
        r"unsync\w*|"
        r"own init|weights\b|(?:models?|copies)\b.{0,20}(?:not|un)",
        r"broadcast|seed|same|synchroni|load|checkpoint|copy",
        "the checksum of one rank's weights differs from that of the others",
        DIARY,
        unlike=r"dropout|masks?\b|\brng\b|generator|keep\w*|memory|random (?:numbers|state)",
    ),
    "same-dropout": Kind(
        "all ranks draw the same dropout masks",
        r"dropout|same (?:mask|random|seed)\w*|random (?:numbers|state|generator)|\brng\b|masks?\b|"
        r"generator",
        r"seed|rank|generator|different|own|rng|offset",
        "the generators of all ranks are in the same state after each step",
        DIARY,
        "none",
        r"masked|loss mask|sample",
    ),
    "same-order": Kind(
        "each epoch has the order of the first",
        r"same order|set_epoch|epoch\w*|order|\w*shuffl\w*|repeat\w*|period\w*|(?:samples?|"
        r"data) come "
        r"again",
        r"set_epoch|shuffl|epoch|seed",
        "after some steps the same samples come again in the same order",
        DIARY,
        "none",
    ),
    "disk-full": Kind(
        "the disk is full",
        r"disk|no (?:space|room)|space left|quota|ENOSPC|storage|file ?system|full",
        r"space|disk|quota|delete|free|clean|other (?:disk|folder)|scratch|room",
        "checkpoints fail with the operating system's word for a full disk",
        LOG,
        "first",
        "memory",
    ),
    "no-internet": Kind(
        "something is to be fetched from the internet",
        r"internet|download\w*|fetch\w*|url\w*|https?|outside\b|web\b|o[nf]f?line|models\.",
        r"before|beforehand|login|download|fetch|cache|local|offline|copy",
        "a request to the internet fails before the ranks meet",
        LOG,
        "none",
        r"kill\w*|terminat\w*",
    ),
    "missing-module": Kind(
        "a node lacks a module",
        r"(?:missing|no|not installed|without|lacks?).{0,20}(?:module|package|library|"
        r"dependenc\w*)|ModuleNotFound\w*|not installed|absent|module|package|library|"
        r"dependenc\w*|environment|import|fused_norms",
        r"install|environment|module load|activate|same|conda|venv|pip",
        "Python says on one node that a module does not exist",
        LOG,
        "node",
        r"\bold(?:er)?\b|version|stale|outdated|cannot import|function",
    ),
    "old-module": Kind(
        "a node has an old version of a module",
        r"\bold(?:er)?\b|version\w*|stale|outdated|cannot import name|ImportError|environment|"
        r"function|module",
        r"version|update|install|environment|same|module load|activate|pin|upgrade",
        "Python finds the module on one node, but not the function in it",
        LOG,
        "node",
        r"\bport|not ?found|n.t installed|not installed|no module|absent|missing (?:module|"
        r"package)",
    ),
}  # fmt: skip
