"""What is left of a diagnosis when all that it denies is taken out: "not a hang: it was killed"."""

from __future__ import annotations

import re

from course_lib.teach.diagnoses.denials import DENIED, FAULTS
from course_lib.teach.diagnoses.spoken import wording

REST = r"[^,;:.()—–]*?(?=[,;:.()—–]|\sbut\s|\ssince\s|\sbecause\s|$)"
FINE = (
    r"(?:(?:is|are|was|were|looks?|seems?) (?:all |just |perfectly )?(?:fine|ok|okay|right|correct|"
    r"healthy|good|normal|innocent|level)\b|(?<!t )(?:works?|match(?:es)?)\b|"
    r"(?:weights|parameters) are (?:equal|identical|the same)\b)"
)
MEANT = (
    r"same|right|correct|known|valid|first|only|number|shuffl|synchron|broadcast|enough|install|"
    r"shard|split|divid|distribut|set\b|freed|released|called|found|resolv|there\b|reach|exist"
)
"""What people rightly say with a "not" in front."""
DENIALS = re.compile(
    rf"(?:^|(?<=[,;:.] ))not (?!(?:the |a |an |all )?(?:{MEANT})){REST}(?=[,;:.—–]| but )"
    rf"|\b(?:it )?(?:is |was |are |were )?(?:not|isn't|wasn't|no) (?:a|an|the|due to|because of|"
    rf"caused by)\b(?! (?:{MEANT})){REST}"
    r"|(?:^|(?<=[,;:.] ))[^,;:.]*?"
    r"\b(?:says?|reads?|claims?|blames?|complains?|looks? like|pretends?)\b"
    r"[^,;:.]*?(?=,? (?:but|yet|though)\b)"
    rf"|\b(?:although|though|even though|despite|while) {REST}"
    r"|\b(?:it |they |which |rank \d+ )?(?:reads?|had|has|got|gets|sees|saw) (?:the |its )?"
    r"(?:right|correct|proper|expected|good) (?:own )?(?:samples?|data|batch\w*|shards?)\b"
    rf"|\b(?:rather than|instead of)\b(?! \d){REST}"
    rf"|\b(?:no|without|neither|nor|nothing) (?:(?:sign|trace) of )?(?:a |an )?{FAULTS}\b"
    rf"|\b(?:nobody|no one|no rank|no process|none|nothing)(?: was| is| has)? "
    rf"(?:skip|kill|left|hang|leak|hung|slow|use)\w*{REST}"
    rf"|\b\w+ (?:ok|okay|fine)(?=$|[,;:.])|\bno growth\b|\bplenty of {REST}"
    rf"|\b(?:doesn't|does not|don't|didn't|isn't|aren't) (?:grow|rise|increas|climb|skip|hang|leak)"
    rf"\w*"
    rf"|\b(?:is|was|are|were|did|does|has|do)(?:n't| not) (?:\w+ )?{FAULTS}\b"
    rf"|(?:^|(?<=[,;:.] )|(?<= and )|(?<= but ))[^,;:.]*?\b{FINE}{REST}",
    re.IGNORECASE,
)
HYPHENS = re.compile(r"(?<=\w)-(?=[^\W\d])")
SEVERAL = re.compile(r"\b(?:or|maybe|either|perhaps)\b| / ", re.IGNORECASE)

BECAUSE = re.compile(
    r"\b(?:because(?: of)?|since|due to|caused by|as a result of|owing to)\b", re.I
)
SO = re.compile(
    r",? \b(?:so(?! (?:i|we|it is|it's|this is|that is|the cause)\b)|therefore|thus|hence|"
    r"which (?:makes?|made|lets?|caus\w+))\b",
    re.IGNORECASE,
)
OWNER = r"(?:(?:rank|node|process) ?\d(?:'s)?|(?:all|the|some|one|a) (?:ranks?|nodes?)|its)"
BARE = re.compile(
    rf"(?:something (?:with|about) )?(?:{OWNER} )?(?:the |its |a |an |some )?(?:weights?|memory|"
    r"data|samples?|batch(?:es)?|ports?|orders?|dropout|masks?|modules?|packages?|seeds?|names?|"
    r"host ?names?|epochs?|inputs?|environment|parameters?|gradients?|initiali[sz]ation|"
    r"checkpoints?|dis[ck]s?|learning.rate|lr|queue|readers?|(?:data ?)?loaders?|samplers?|clocks?|"
    r"shapes?|sizes?|storage|addresses|address|master.addr|master.port|steps?|shuffling|versions?)"
    rf"(?: (?:of|on|in|at) (?:the )?{OWNER})?"
)


def on_one_line(text: str) -> str:
    return re.sub(r"\s+", " ", text.replace("’", "'")).strip()


def claimed(text: str) -> str:
    return wording().without_denied(DENIALS.sub(" ", DENIED.sub(" ", on_one_line(text))))


def clauses(text: str) -> list[str]:
    return re.split(r"[,;:.()—–] ?| but ", text)


def spellings(text: str) -> set[str]:
    """With each way to write what has a hyphen: data-loader, data loader, dataloader."""
    return {text, *(HYPHENS.sub(other, text) for other in (" ", "", "_"))}


def names_several(text: str) -> bool:
    """Whoever says "a hang or a leak" has not said which."""
    return any(one.search(text) for one in (SEVERAL, wording().several))


def cause_in(claim: str) -> str:
    """The part that the rest is said to follow from; all of it where nothing is."""
    *_, reason = BECAUSE.split(claim)
    return reason if reason.strip() != claim.strip() else SO.split(claim, maxsplit=1)[0]


def is_bare(claim: str) -> bool:
    """Whether it names a part and says nothing of it: "the weights of rank 2"."""
    return BARE.fullmatch(claim.strip(" .!?").lower()) is not None
