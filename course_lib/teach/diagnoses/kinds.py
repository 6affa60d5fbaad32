"""One entry for each kind of fault of the blind cases.

`words` are patterns of what people call it, `cure` of what helps; `looks` says what a run with it
would show, and `look` where the evidence of it lies, without naming it. `one` says whether one rank
has it, one node, or none in particular.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Kind:
    title: str
    words: str
    cure: str
    looks: str
    look: str
    one: str = "rank"

    def is_named_in(self, text: str) -> int:
        """How many of its words are in there."""
        return len({found.group().lower() for found in re.finditer(self.words, text, re.I)})

    def is_cured_by(self, text: str) -> bool:
        return re.search(self.cure, text, re.I) is not None


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
        r"stuck|dead.?lock|\bhang|\bhung|data ?loader|reader|queue|wait\w* for (?:a |its |the )?"
        r"(?:batch|data)|worker",
        r"reader|loader|worker|time.?out|data|queue|restart|thread",
        "all ranks but one wait in a collective, and the one waits for something else",
        STACKS,
    ),
    "skipped": Kind(
        "a rank leaves a step out",
        r"skip\w*|left out|leaves? out|missed a|one (?:step|batch|collective|iteration) (?:fewer|"
        r"less|ahead)|continue|uneven|fewer (?:steps|batches)|finished (?:early|first)|ahead",
        r"same number|equal|every rank|all ranks|even|join|pad|drop|continue|skip|zero",
        "a rank is through before the others, which wait for it in their last step",
        STACKS,
    ),
    "shape": Kind(
        "a rank calls a collective with another shape",
        r"shape|mismatch\w*|size|fewer gradients|smaller|frozen|half|different (?:tensor|number)",
        r"same (?:shape|model|gradients|size|parameters|layers)|all ranks|DETAIL|freez|froz|equal|"
        r"unused",
        "gloo says that sizes do not match, and TORCH_DISTRIBUTED_DEBUG=DETAIL names both",
        "A process ended inside a collective. What does the library say of the sizes? Run the same "
        'recipe with environment={"TORCH_DISTRIBUTED_DEBUG": "DETAIL"}.',
    ),
    "hoard": Kind(
        "a rank runs out of memory at once",
        r"out of memory|\boom\b|memory|hoard|keeps? (?:all|the) (?:logits|guesses|outputs)|logits",
        r"keep|free|smaller|micro|less|limit|delete|detach|shard|memory|batch",
        "one rank's allocation is refused, and its memory was level until then",
        "A rank was refused memory. Was its memory level before, or did it rise? "
        'run.diary.beside("memory_mib") says.',
    ),
    "leak": Kind(
        "the memory of a rank grows with each step",
        r"leak\w*|grow\w*|ris\w*|slope|accumulat\w*|each step|every step|keeps? (?:its |the )?grad",
        r"detach|free|keep|list|item|clear|delete|clone|leak|store|hold",
        "one rank's memory rises by the same amount each step, until it is refused",
        "A rank was refused memory. Was its memory level before, or did it rise? "
        'run.diary.beside("memory_mib") says.',
    ),
    "killed": Kind(
        "a process was killed",
        r"kill\w*|sigkill|signal 9|-9|process (?:is )?(?:gone|died|vanished|dead)|rank (?:died|is "
        r"dead|vanished|is gone)|oom.?kill",
        r"checkpoint|resum|restart|requeue|memory|load|sacct|again|kernel",
        "srun tells of one task that was killed, the others of a peer that is gone",
        LOG + " How many tasks were killed, and on which nodes?",
    ),
    "node-dies": Kind(
        "a whole node is gone",
        r"node\w* (?:\S+ ){0,2}(?:die|dead|gone|down|lost|fail|crash|vanish|kill)\w*|"
        r"(?:dead|lost|whole|broken|failed|killed) node|node.?fail\w*|"
        r"(?:both|all) (?:ranks|tasks|processes) of (?:a|one|the) node",
        r"exclude|checkpoint|resum|restart|requeue|other node|replace|drain|again|load",
        "srun tells of all tasks of one node that were killed",
        LOG + " How many tasks were killed, and on which nodes?",
        "node",
    ),
    "slow-rank": Kind(
        "a rank is slower than the others",
        r"slow\w*|straggl\w*|clock|throttl\w*|hot\b|lags?\b|behind",
        r"exclude|replace|node|clock|cool|other device|without|drain|report|power",
        "steps are longer, and one rank computes longer than the others",
        DIARY,
    ),
    "wrong-port": Kind(
        "a rank was given another port",
        r"wrong port|other port|another port|different port|port\b(?! (?:is |was )?(?:taken|in use|"
        r"busy|occupied))|MASTER_PORT",
        r"same port|port|MASTER_PORT|export|all ranks",
        "one rank connects to another port than the one at which the others meet",
        MEETING,
    ),
    "wrong-master": Kind(
        "the ranks of a node take another machine for the master",
        r"MASTER_ADDR|wrong (?:master|address|host|machine)|other (?:master|address)|127\.0\.0\.1|"
        r"localhost|own node|master address|itself",
        r"MASTER_ADDR|first node|scontrol|hostnames|same (?:master|address)|address",
        "all ranks of a node connect to another address, such as their own",
        MEETING,
        "node",
    ),
    "bad-name": Kind(
        "a name does not resolve",
        r"resol\w*|\bdns\b|(?:host ?)?name|unknown host|\.invalid|misspel\w*|typo",
        r"name|address|dns|hosts|MASTER_ADDR|spell|ip\b|scontrol",
        "a rank connects to a name that its node does not know",
        MEETING,
    ),
    "port-taken": Kind(
        "the port is taken by somebody else",
        r"in use|taken|occupied|busy|EADDRINUSE|another (?:job|program|process)|two jobs|port"
        r"(?: is| was)? (?:in use|taken|busy|used)|already",
        r"port|job id|other|another|end|free|kill",
        "rank 0 cannot open its port: the address is in use",
        LOG,
        "first",
    ),
    "bad-sample": Kind(
        "one sample makes the loss NaN",
        r"(?:bad|broken|empty|corrupt\w*|odd|one|padded) (?:sample|data|record|batch|sequence)|"
        r"0 ?/ ?0|zero tokens|no tokens?|divi\w+ by zero|sample|data",
        r"sample|data|filter|skip|mask|clamp|leave|remove|check|divisor|token",
        "the first loss that is no number is one rank's, and comes again with the same sample",
        NUMBERS,
    ),
    "exploding": Kind(
        "the training explodes: its learning rate is too high",
        r"explod\w*|explosion|diverg\w*|learning rate|\blr\b|too (?:high|large)|overflow\w*|"
        r"blow\w*",
        r"learning rate|\blr\b|warm|clip|lower|smaller|bf16|checkpoint",
        "the loss of all ranks jumps within a step or two before it is no number",
        NUMBERS,
        "none",
    ),
    "same-data": Kind(
        "all ranks read the same samples",
        r"same (?:data|samples?|batch\w*)|identical (?:data|samples?)|duplicat\w*|sampler|"
        r"not (?:shard|split|divid)\w*",
        r"sampler|rank|split|shard|different|distributed|divide",
        "in each step all ranks read samples with the same checksums",
        DIARY,
        "none",
    ),
    "unequal-weights": Kind(
        "a rank began with other weights",
        r"(?:other|different|unequal|unsynchroni\w*|own) (?:\w+ )?(?:weights|parameters|init\w*|"
        r"seed)|weights (?:differ|are)|seed|initiali\w*|not broadcast|unsync\w*",
        r"broadcast|seed|same|synchroni|load|checkpoint|copy",
        "the checksum of one rank's weights differs from that of the others",
        DIARY,
    ),
    "same-dropout": Kind(
        "all ranks draw the same dropout masks",
        r"dropout|same (?:mask|random|seed)\w*|random (?:numbers|state|generator)|\brng\b|masks?",
        r"seed|rank|generator|different|own|rng|offset",
        "the generators of all ranks are in the same state after each step",
        DIARY,
        "none",
    ),
    "same-order": Kind(
        "each epoch has the order of the first",
        r"same order|set_epoch|epoch\w*|order|shuffl\w*|repeat\w*|period\w*",
        r"set_epoch|shuffl|epoch|seed",
        "after some steps the same samples come again in the same order",
        DIARY,
        "none",
    ),
    "disk-full": Kind(
        "the disk is full",
        r"disk|no space|space left|quota|ENOSPC|storage|full",
        r"space|disk|quota|delete|free|clean|other (?:disk|folder)|scratch|room",
        "checkpoints fail with the operating system's word for a full disk",
        LOG,
        "first",
    ),
    "no-internet": Kind(
        "something is to be fetched from the internet",
        r"internet|download\w*|fetch\w*|url\w*|https?|outside|web\b|online",
        r"before|beforehand|login|download|fetch|cache|local|offline|copy",
        "a request to the internet fails before the ranks meet",
        LOG,
        "none",
    ),
    "missing-module": Kind(
        "a node lacks a module",
        r"(?:missing|no|not installed|without|lacks?).{0,20}(?:module|package|library)|"
        r"ModuleNotFound\w*|not installed|module|package|environment|import",
        r"install|environment|module load|activate|same|conda|venv|pip",
        "Python says on one node that a module does not exist",
        LOG,
        "node",
    ),
    "old-module": Kind(
        "a node has an old version of a module",
        r"old(?:er)?\b|version\w*|stale|outdated|cannot import name|ImportError|environment|module",
        r"version|update|install|environment|same|module load|activate|pin|upgrade",
        "Python finds the module on one node, but not the function in it",
        LOG,
        "node",
    ),
}  # fmt: skip
