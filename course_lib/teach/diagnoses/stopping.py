"""Kinds of faults by which a run stops or slows down, and where the evidence of each lies."""

from __future__ import annotations

from course_lib.teach.diagnoses.kind import Kind

RISES = (
    r"leak\w*|gr[eo]w\w*|\bris\w*|climb\w*|creep\w*|increas\w*|accumulat\w*|fills?\b|goes up|"
    r"never (?:free|releas|clear)\w*|(?:not|n.t) (?:freed|released)|more and more|pile\w* up|"
    r"longer and longer|step by step|append\w*|in a list|(?:every|each|all|old) (?:\w+ )?"
    r"(?:gradient|tensor)s?\b|(?:each|every|per) (?:step|iteration)|retain\w*|let go"
)
AT_ONCE = r"\b(?:(?:in|within) (?:one|a single) (?:\w+ )?(?:step|iteration|go)|at once)\b"
LOG = "Read the log from its first line that is no setting on: run.failure says which."
DIARY = "Nothing printed an error. Lay the diaries side by side: run.diary.findings."
STACKS = (
    "The run stood still before it ended. Who of the ranks was not in a collective, and where was "
    "it? lab.stacks(run) asks while it hangs; the note near the end of the log says it afterwards."
)
MEETING = (
    "Before the first step all ranks meet. Which of them came to the meeting point, which did not, "
    "and to which name and port did each connect?"
)
NUMBERS = (
    "A number is no number any more. Whose loss was it first, and what was it the step before? "
    'run.diary.beside("loss") says.'
)
STOPPING: dict[str, Kind] = {
    "stuck": Kind(
        "a rank hangs while it waits for data",
        r"stuck|dead.?lock|\bhang|\bhung|freez\w*|froze\b|\bstall\w*|block\w*|data ?load\w*|"
        r"data pipeline|input|reader|queue|worker|next_batch|wait_for_batch|never gets|(?:n.t|"
        r"not) get|for ?ever|"
        r"batch\w* stop\w*|stop\w* coming|starv\w*|not leave|"
        r"never (?:comes(?! back)|leaves|return\w*|"
        r"reach\w*)|not reach the (?:all|coll|barrier|meet)|"
        r"(?:prefetch|fetch|read|load)\w* thread|thread (?:\w+ )?(?:died|dead|end\w*|gone)|"
        r"sleeps?\b|(?:reading|loading|fetching|reads|loads) (?:\w+ ){0,3}(?:stop|ceas|end|"
        r"died)\w*|"
        r"(?:stop|ceas)\w* (?:to )?(?:read|load|fetch)\w*|(?:data|batch\w*|samples?)\b"
        r"[^,;]{0,25} (?:no longer|never|not) (?:com|arriv)\w*|prefetch\w*|never finish\w*|"
        r"wait\w* (?:for|on) (?:an? |its |the )?(?:next )?(?:batch|"
        r"data|input|sample|something)",
        r"reader|loader|worker|time.?out|queue|restart|(?<!num_)thread|prefetch|(?:read|load|"
        r"fetch|wait)"
        r"\w* (?:for )?(?:the |its )?(?:data|batch|input)|watch",
        "all ranks but one wait in a collective, and the one waits for something else",
        STACKS,
        unlike=r"know\w* (?:its|the|their|about) ranks?|(?:^|one |a )worker process (?:died|was|"
        r"van)",
    ),
    "skipped": Kind(
        "a rank leaves a step out",
        r"skip\w*|left out|leaves? out|miss\w* (?:an?|one|the)\b|jump\w*|ahead|\bearly|"
        r"(?:an?|one) (?:step|batch|collective|iteration) (?:fewer|less|short|missing)|continue|"
        r"(?:uneven|unequal|fewer|different|differing) (?:numbers? of )?(?:steps|batches|"
        r"iterations)|(?:steps|batches|iterations) (?:\w+ )?(?:differ|unequal|uneven)\w*|"
        r"(?:fewer|less) (?:\w+ )?(?:step|batch|iteration|all.?reduce|collective|call)|"
        r"out of step|(?:step|iteration) missing|"
        r"de.?synchroni\w*|finished (?:first|before)|rather than \d+|(?:not|n.t) take part|"
        r"too soon|"
        r"missing (?:call|collective)|collective (?:is )?missing|not (?:call|join|"
        r"make)\w* (?:an? |the |its |one )?(?:all.?reduce|"
        r"collective|step|barrier)|forg[eo]t\w* (?:an?|one|its|the) "
        r"(?:\w+ )?(?:step|batch|call|collective|all.?reduce)|omi(?:t|ss)\w*|pass\w* over|"
        r"left.?out|"
        r"drops? (?:an?|one) (?:\w+ )?(?:batch|step)|number of (?:steps|iterations|batches)|"
        r"rank \d "
        r"(?:made|makes|did) (?:only )?\d+ (?:steps|iterations)|(?:step|batch|iteration|"
        r"collective|all.?reduce) "
        r"(?:less|fewer|too few|short)",
        r"(?:same|equal) (?:number|count|amount)|as many|equal|every rank|"
        r"all ranks (?:\w+ ){0,3}(?:call|"
        r"make|do|take|step|join|skip|stop)|even|join|pad|drop|continue|skip|zero",
        "a rank is through before the others, which wait for it in their last step",
        STACKS,
        unlike=r"learning.?rate|\blr\b",
    ),
    "shape": Kind(
        "a rank calls a collective with another shape",
        r"shape|mismatch\w*|size[sd]?\b|lengths?\b|numel|dimension|(?:fewer|less) (?:gradients|"
        r"elements|numbers|values)|too short|number of elements|shorter|(?:n.t|"
        r"not) require.?s? grad\w*|reduces? less|"
        r"smaller|frozen|"
        r"half|different (?:tensor|number of (?:elements|gradients|parameters))|(?:without|lacks?|"
        r"no|missing) (?:\w+ )?grad\w*|(?:not|n.t) fit together",
        r"same (?:shape|model|gradients|size|parameters|layers)|all ranks|DETAIL|freez|froz|equal|"
        r"same number of (?:grad|tensor|element|param)|identical|unused|zeros?\b|"
        r"without (?:a )?grad|pad",
        "gloo says that sizes do not match, and TORCH_DISTRIBUTED_DEBUG=DETAIL names both",
        "A process ended inside a collective. What does the library say of the sizes? Run the same "
        'recipe with environment={"TORCH_DISTRIBUTED_DEBUG": "DETAIL"}.',
        unlike=r"\bports?\b|\bspeed|step size|versions?\b|batch.?size",
    ),
    "hoard": Kind(
        "a rank runs out of memory at once",
        r"out ?of ?memory|\boom\b|memory|hoard|(?:keep|stor|collect|hold|gather)\w* "
        r"(?:all|the|its|every|each|whole) (?:\w+ )?(?:logits|guesses|outputs|predictions|results)|"
        r"logits|alloc\w*|(?:too many|huge|large|big) tensors|"
        r"(?:shot|shoots?|jump\w*) (?:up )?to the|ceiling|"
        r"(?:did|does) not fit (?:on|into|in)|refused \d+ [MG]i?B",
        r"on the fly|only what|at once|running (?:mean|sum|total)|stor\w*|throw|drop|release|"
        r"sav\w*|"
        r"keep|free|smaller|micro|less|limit|delete|detach|shard|memory|batch|checkpointing|"
        r"recomput|short|(?:cut|trim|truncat|split|chop|bucket)\w* .{0,25}(?:sample|sequence|"
        r"document|input|record|context)|offload|chunk|stream|sequence length",
        "one rank's allocation is refused, and its memory was level until then",
        "A rank was refused memory. Was its memory level before, or did it rise? "
        'run.diary.beside("memory_mib") says.',
        unlike=rf"(?:{RISES})(?!.*{AT_ONCE})" + r"|kernel|oom.?kill|something|\bflip|"
        r"memory\b.{0,15}(?:slow|broke\w*|defect\w*)",
    ),
    "leak": Kind(
        "the memory of a rank grows with each step",
        RISES + r"|slope|keeps? (?:its |the |a copy of )?(?:grad\w*|weights|graph)",
        r"releas\w*|detach|free|keep|list|item|clear|delete|clone|leak|store|hold",
        "one rank's memory rises by the same amount each step, until it is refused",
        "A rank was refused memory. Was its memory level before, or did it rise? "
        'run.diary.beside("memory_mib") says.',
        unlike=rf"\bdisk|learning rate|\blr\b|quota|file ?system|{AT_ONCE}",
    ),
    "killed": Kind(
        "a process was killed",
        r"kill\w*|signal 9|-9|\b137\b|\bshot\b|(?:process|rank|task)(?:'s process)?(?: \d+)?"
        r"(?: is| has| was)?(?: simply| just| suddenly| silently)? (?:gone|"
        r"died|vanished|dead|disappeared|crashed|terminated|lost)|oom.?kill",
        r"checkpoint|resum|restart|requeue|memory|load .{0,15}(?:state|weights)|sacct|kernel|"
        r"(?:start|submit|run|go)\w* (?:\w+ )?(?:again|on)\b",
        "srun tells of one task that was killed, the others of a peer that is gone",
        LOG + " How many tasks were killed, and on which nodes?",
        unlike=r"(?:all|both) (?:\w+ ){0,2}(?:ranks|tasks|processes)|(?:whole|entire|complete) "
        r"(?:node|machine)|time.?limit",
        explains="hoard",
    ),
    "node-dies": Kind(
        "a whole node is gone",
        r"\b(?:node|host|machine)\w* (?:\S+ ){0,3}(?:die|dead|gone|down|lost|fail|fault|crash|"
        r"vanish|kill|disappear|reboot|outage|away|respond|any ?more)\w*|NODE_FAIL|"
        r"node ?\d (?:\S+ )"
        r"{0,2}(?:broke\w*|offline|unreachable|switched|powered)|failure (?:of|on|in) (?:the |"
        r"a )?(?:node|host|machine)|"
        r"lost (?:the )?(?:node|host|machine)|(?:dead|lost|whole|broken|failed|killed) (?:node|"
        r"host|"
        r"machine)|"
        r"(?:both|all) (?:its |the )?(?:ranks|tasks|processes)\b.{0,20}"
        r"(?:node (?:are|were|is|was|went|got)|gone|kill|dead|"
        r"lost)|both its ranks",
        r"exclude|checkpoint|resum|restart|requeue|(?:other|another|spare) node|replace|drain|"
        r"(?:start|submit|run|go)\w* (?:\w+ )?(?:again|on)\b|load .{0,15}(?:state|weights)",
        "srun tells of all tasks of one node that were killed",
        LOG + " How many tasks were killed, and on which nodes?",
        "node",
        explains="killed",
    ),
    "slow-rank": Kind(
        "a rank is slower than the others",
        r"slow\w*|straggl\w*|\w*clock\w*|throttl\w*|\bhot\b|\w*heat\w*|frequency|lags?\b|behind|"
        r"degrad\w*|bottleneck|own time|"
        r"(?:takes?|computes?|times|needs?) (?:\S+ ){0,4}long\w*|thermal|drag\w*|more time|"
        r"power.?cap|"
        r"(?:twice|double) the time|comput\w* (?:time )?(?:\S+ ){0,4}(?:larger|long\w*|higher)|"
        r"lagg\w*|speed|sluggish|crawl\w*|"
        r"hold\w* (?:\S+ )?(?:back|up)",
        r"exclud|replac|(?:other|another|different|avoid|leave out|without) (?:the |this |that |"
        r"a )?"
        r"(?:node|device|gpu|machine|host)|clock|cool|drain|take .{0,15}\bout|remov\w*|swap|"
        r"avoid|report|power|throttl|repair|\bfan",
        "steps are longer, and one rank computes longer than the others",
        DIARY,
        unlike=r"memory|host ?name|(?:network|link|cable)\b (?:(?!since|because|rank|gpu|device)"
        r"\S+ ){0,6}(?:is|are) (?:too )?slow|(?:network|disk|link|file ?system|all ranks|"
        r"every rank|everything)"
        r"\S* (?:is|are) (?:too )?slow|slow (?:network|disk|link)|slow (?:on|for) (?:all|every|"
        r"each|both)|data.?load\w*",
    ),
}  # fmt: skip
