"""One entry for each kind of fault of the blind cases."""

from __future__ import annotations

from course_lib.teach.diagnoses.kind import Kind
from course_lib.teach.diagnoses.stopping import DIARY, LOG, MEETING, NUMBERS, STOPPING

KINDS: dict[str, Kind] = STOPPING | {
    "wrong-port": Kind(
        "a rank was given another port",
        r"wrong port|other port|another port|different port|ports?\b(?! (?:is |was )?(?:taken|"
        r"in use|"
        r"busy|occupied))|MASTER_PORT",
        r"ports?\b|MASTER_PORT|export",
        "one rank connects to another port than the one at which the others meet",
        MEETING,
        unlike=r"in use|taken|occupied|busy|conflict|collision|clash|not free|EADDRINUSE|"
        r"uses the same|two (?:jobs|programs)|\bbind\w*|holds|sits on|blocked|too (?:large|big)|"
        r"address is wrong|"
        r"(?:some(?:one|body|thing else)|another (?:job|program|process))",
    ),
    "wrong-master": Kind(
        "the ranks of a node were told another address of the master",
        r"MASTER.ADDR|(?:the|is) first node|rendezvous (?:address|host)|(?:two|both) masters|"
        r"themselves|own node|node 0\b|"
        r"meet\w* (?:\S+ )?(?:at|on) node ?\d|address(?:es)? (?:differ|is different)|"
        r"wrong (?:rendezvous |master )?(?:address|host|machine|master)|other (?:master(?!.port)|"
        r"address)|127\.0\.0\.1|"
        r"localhost|own (?:node|address)|master address|itself|meeting (?:point|place)|"
        r"\$\(?hostname|rendezvous (?:point|place)|"
        r"(?:is|be|for|as) (?:the )?master|(?:different|another) master\b(?!.port)",
        r"MASTER_ADDR|(?:first|head) node|node's name|scontrol|hostnames|same (?:master|address)|"
        r"address|host ?name|(?:real|right|routable|reachable|proper|actual|correct) "
        r"(?:\w+ )?(?:name|host|master|machine)|node ?1|rank 0",
        "all ranks of a node connect to another address than the rest, such as their own",
        MEETING,
        "node",
        r"resol\w*|\bdns\b|unknown|not (?:a )?known|\bname\b|typo|exist|mis.?spel\w*|mistyped",
        explains="wrong-port",
    ),
    "bad-name": Kind(
        "a name does not resolve",
        r"resol\w*|\bdns\b|(?:host ?)?\bnames?\b|hostname|unknown|not (?:a )?known|getaddrinfo|"
        r"\.invalid|mis.?spel\w*|mistyped|look(?:ed)?.?up|gethostby\w*|(?:find|no such|"
        r"non.?existent|"
        r"non.?existing|invalid|unknown) (?:the |a )?host|"
        r"typo|does ?n[o']t exist",
        r"name|address|dns|hosts|MASTER_ADDR|spell|ip\b|scontrol",
        "a rank connects to a name that its node does not know",
        MEETING,
        unlike=r"on each node|internet|models\.|import|module|fused|\$\(?hostname",
    ),
    "port-taken": Kind(
        "the port is taken by somebody else",
        r"in use|taken|occupied|busy|EADDRINUSE|another (?:job|program|process)|two jobs|conflict|"
        r"some(?:one|body)|clash|collision|not free|port(?: is| was)? (?:in use|taken|busy|used)|"
        r"already (?!off|differ|diverg|wrong|at (?:step|iter))|already$|"
        r"\bbind\w*|hold\w* (?:the|its|that|our|this) port|(?:some|every)thing else|old "
        r"process|blocked by|sits? on|held by",
        r"port|job id|other|another|end|free|kill",
        "rank 0 cannot open its port: the address is in use",
        LOG,
        "first",
        r"samples?\b|shards?\b|\bdata\b|weights",
    ),
    "bad-sample": Kind(
        "one sample makes the loss NaN",
        r"(?:bad|broken|empty|corrupt\w*|odd|one|padded|masked\S*) (?:\w+ )?(?:sample|data|record|"
        r"batch|sequence|example|document)|0 ?/ ?0|zero (?:tokens|length)|no tokens?|of nothing|"
        r"divi\w+ by zero|sample|\bdata\b|nan in (?:\w+ )?(?:input|target|label|record|example)\w*|"
        r"(?:damaged|garbage|defective) \w+|no labels",
        r"samples?\b|\bdata|filter|skip|mask|clamp|remove|check(?!point)|divisor|token|clean|"
        r"denominator|epsilon|\beps\b|(?:drop|exclud|discard|ignor|repair|fix|delet|reject|leave|"
        r"throw)\w* .{0,20}(?:records?|examples?|sequences?|documents?|batch)\b|valid|sanit|"
        r"nan_to_num|guard|division|divid",
        "the first loss that is no number is one rank's, and comes again with the same sample",
        NUMBERS,
        unlike=r"same|identical|equal|sampler|shard|duplicat\w*|split|order|\w*shuffl\w*|load\w*|"
        r"pipeline|reader|wait\w*|starv\w*|continue|size|something|stuck|froze\w*|hang\w*|"
        r"whole|entire|too early|the loop|"
        r"(?:also|twice|two|both|another|other)\b.{0,20}(?:rank|read)",
    ),
    "exploding": Kind(
        "the training explodes: its learning rate is too high",
        r"explod\w*|explosion|diverg\w*|learning.?rate|\blr\b|too (?:high|large)|overflow\w*|"
        r"bl[eo]w\w*|unstable|step size|shoots? up|(?:to|loss is) infinit\w*|warm.?up|"
        r"too (?:large|big) steps|steps? (?:is|are) (?:\w+ )?too (?:large|big)",
        r"learning.?rate|\blr\b|warm|clip|(?:lower|smaller|reduc\w*|decreas\w*) (?:the |"
        r"a )?(?:rate|"
        r"step)|\brate\b|smaller steps|bf16",
        "the loss of all ranks jumps within a step or two before it is no number",
        NUMBERS,
        "none",
        r"replica|memory",
    ),
    "same-data": Kind(
        "all ranks read the same samples",
        r"(?:same|equal|identical) (?:mini.?|\w+ )?(?:data|samples?|batch\w*|shard|part)|"
        r"duplicat\w*|"
        r"sampler|(?:whole|entire|full|complete) data|(?:samples?|data|batch\w*|"
        r"shard)\b.{0,25}(?:also read|twice|"
        r"by (?:two|both|"
        r"several|all|another|other)|(?:of|from) another)|(?:another|other|somebody|someone|"
        r"else)\S* "
        r"(?:\S+ ){0,3}(?:data|samples?|shard|part|slice)\b|overlap\w*|(?:batch\w*|"
        r"data)\b (?:\w+ ){0,4}identical|(?:not|n.t) (?:shard|"
        r"split|divid|distribut|know its rank)\w*",
        r"sampler|split|shard|distribut|divid|(?:different|other|own) (?:data|samples?|batch\w*|"
        r"part|"
        r"shard|slice)|(?:by|with|tell|give|know)\w*\b.{0,25}rank|rank::",
        "in each step all ranks read samples with the same checksums",
        DIARY,
        "none",
        r"order|epoch|shuffl\w*|again|steps|random|seed|dropout|wait\w*|stuck|nan\b",
    ),
    "unequal-weights": Kind(
        "a rank began with other weights",
        r"(?:other|different|unequal|unsynchroni\w*|inconsistent|own) (?:\w+ )?(?:weights|"
        r"parameters|init\w*|seed|checkpoint)|(?:weights|parameters|replicas?|copies|models?)"
        r"(?: \w+){0,3} (?:differ\w*|are|is|aren.t|isn.t|diverged?|disagree\w*|mismatch\w*|"
        r"unlike|unequal)"
        r"\b|weights? (?:check.?sums?|hash\w*)|check.?sums? of (?:\S+ ){0,3}weights|broadcast|"
        r"(?:began|started) "
        r"(?:elsewhere|differently)|another checkpoint|out of sync|replica|seed|initiali\w*|"
        r"not broadcast|"
        r"unsync\w*|"
        r"own init|weights\b|(?:models?|copies)\b.{0,20}(?:not|un)",
        r"broadcast|(?:same|equal|one|common) (?:\w+ )?(?:seed|weights|init\w*|start\w*)|synchroni|"
        r"load .{0,20}(?:checkpoint|weights)|copy|seed\b(?! ?\+)|\bddp\b|DistributedDataParallel|"
        r"state_dict|checkpoint for all",
        "the checksum of one rank's weights differs from that of the others",
        DIARY,
        unlike=r"dropout|masks?\b|\brng\b|generator|keep\w*|memory|random (?:numbers|state)|"
        r"damag\w*|optimi[sz]er|(?:skip|miss|omit|left out|leaves out)\w* (?:an?|one|the|its) "
        r"(?:\w+ )?(?:step|update|batch|iteration)",
    ),
    "same-dropout": Kind(
        "all ranks draw the same dropout masks",
        r"dropout|same (?:mask|random|seed|noise|neurons)\w*|random (?:numbers|state|generator)|"
        r"\brng\b|masks?\b|"
        r"generator",
        r"seed\b.{0,25}(?:rank|differ|own|each)|(?:rank|differ\w*|own|each|per)\b.{0,25}(?:seed|"
        r"random|"
        r"mask|noise)|seed ?\+|(?:separate|unique) seed|generator|rng|offset",
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
        r"set_epoch|shuffl|epoch|permut",
        "after some steps the same samples come again in the same order",
        DIARY,
        "none",
        r"set_epoch (?:is|was|gets|got) called (?:\w+ )?(?:each|every)",
    ),
    "disk-full": Kind(
        "the disk is full",
        r"dis[kc]\b|out of space|no (?:space|room)|space left|quota|ENOSPC|storage|file ?system|"
        r"(?:/\w+|scratch|volume|"
        r"partition|folder) (?:is |ran )?full",
        r"space|dis[kc]\b|quota|delete|remov\w*|prun\w*|free|clean|other (?:disk|folder)|scratch|"
        r"room",
        "checkpoints fail with the operating system's word for a full disk",
        LOG,
        "disk",
        "memory",
    ),
    "no-internet": Kind(
        "something is to be fetched from the internet",
        r"internet|download\w*|(?<!pre)fetch\w*|url\w*|https?|outside\b|web\b|o[nf]f?line|models\.|"
        r"outbound",
        r"before|beforehand|(?:disk|there|it) first|prefetch|shared|login|download|fetch|cache|"
        r"local|offline|copy",
        "a request to the internet fails before the ranks meet",
        LOG,
        "none",
        r"kill\w*|terminat\w*|fetch\w* (?:the |its )?(?:next )?(?:data|batch\w*|samples?)\b"
        r"(?!.*(?:web|net|online|outside|url|http))",
    ),
    "missing-module": Kind(
        "a node lacks a module",
        r"(?:missing|no|not installed|without|lacks?).{0,20}(?:module|package|library|"
        r"dependenc\w*)|ModuleNotFound\w*|not installed|absent|module|package|library|"
        r"dependenc\w*|environment|import|fused_norms|pip install",
        r"install|environment|module load|activate|conda|venv|\bpip\b|container|image|PYTHONPATH|"
        r"same (?:\w+ )?(?:modules?|packages?)|copy .{0,20}(?:module|package)",
        "Python says on one node that a module does not exist",
        LOG,
        "node",
        r"\bold(?:er)?\b|version|stale|out.?(?:of.?)?date|cannot import|function|host.?name|"
        r"address|MASTER",
    ),
    "old-module": Kind(
        "a node has an old version of a module",
        r"\bold(?:er)?\b|version\w*|stale|out.?(?:of.?)?date|cannot import name|ImportError|"
        r"environment|"
        r"function|module",
        r"version|updat\w*|install|environment|module load|activate|\bpin\b|upgrade(?! the gpu)|"
        r"container|image|newer|same (?:\w+ )?(?:modules?|packages?)",
        "Python finds the module on one node, but not the function in it",
        LOG,
        "node",
        r"\bport|slow|checkpoint|not ?found|n.t installed|not installed|no module|absent|"
        r"missing (?:module|package)|(?:module|package|library) (?:is|was) missing|host.?name|"
        r"address|"
        r"MASTER|(?:cannot|can.t|not) find|ImportError on",
    ),
}  # fmt: skip
