"""How English denies a fault: "memory isn't to blame", "set_epoch was called correctly".

Each takes its subject along: what is left of "set_epoch was not forgotten" without its "not
forgotten" is a word of the fault.
"""

from __future__ import annotations

import re

FAULTS = (
    r"(?:hang\w*|hung|dead.?lock\w*|leak\w*|oom|out.of.memory|stragglers?|crash\w*|nan|diverg\w*|"
    r"memory (?:problem|issue)s?|skip\w*|(?:shape|size) mismatch\w*|port (?:conflict|clash)\w*|"
    r"stuck|slow|killed|full|dead|frozen|missing|taken|in use|waiting|overheat\w*|left out|leave "
    r"out|wait\w*|explod\w*|explosion)"
)
BROKEN = (
    rf"(?:{FAULTS}|forgot\w*|omitted|wrong|broken|corrupt\w*|damaged|mis.?spel\w*|mistyped|lost|"
    r"absent|bad|stale|outdated|occupied|busy|blocked|throttled|duplicated|exhausted|"
    r"too (?:high|large|big|low|old|small|slow|hot))"
)
INNOCENT = (
    r"(?:to blame|at fault|guilty|responsible|involved|concerned|affected|relevant|"
    r"(?:the|an?|its|our|my) (?:\w+ )?(?:cause|culprit|reason|problem|point|fault|issue|matter|"
    r"trouble)|(?:what|why|where|that|about)\b)"
)
NO_TROUBLE = (
    r"without (?:any |an? |the (?:least|slightest) )?(?:trouble|problem|error|issue|difficult)"
)
OFTEN = (
    r"(?:lack|shortage|want|sign|trace|hint|evidence|indication|problem|trouble|issue|question)s?"
)
BE = r"(?:is|was|are|were|has|have|had|did|does|do)"
NOT = rf"(?:{BE}(?: not| never|n't)|never)(?: been)?"
START = r"(?:^|(?<=[,;:.(] )|(?<=\()|(?<= and )|(?<= but )|(?<= nor ))"
JOINT = r"(?! (?:and|but|so|because|since|while) )[^,;:.()—–]"
TO = rf"(?:(?:the|its|their) \w+ (?:and|or|nor) (?=(?:the|its|their) ))?(?:{JOINT})*?"
REST = rf"(?:{JOINT})*"
GLAD = (
    r"(?:(?!\b(?:not|never|cannot|unable|hardly|only|should|must|needs?|wrong)\b|n't\b|\bno\b|"
    rf"\b(?:fail|forg|miss|die|dead|end|hang|hung|stuck|stop|kill|vanish|gone|crash|exit|slow)|"
    rf"without (?!any|an? |the |trouble|problem|error|issue|difficult)){JOINT})*?"
)
"""Up to here a clause has said nothing bad."""
DENIED = re.compile(
    rf"{START}{TO}\b{NOT} (?:\w+ )?(?:{INNOCENT}|{BROKEN}\b){REST}"
    rf"|{START}{TO}\b(?:ha[sd]|have|plays?|played) (?:nothing to do|no (?:part|role|say|"
    rf"share|influence|effect|fault)\b){REST}"
    rf"|{START}{TO}\b(?:ruled out|excluded as|unaffected|unrelated|irrelevant)\b{REST}"
    rf"|{START}{GLAD}\b(?:correctly|properly|duly|{NO_TROUBLE}|"
    rf"as (?:it|they) should|as (?:intended|planned|expected))\b{REST}"
    rf"|{START}{GLAD}\b(?:ha[sd]|have) (?:enough|plenty|sufficient)\b{REST}"
    rf"|{START}{GLAD}\b(?:ok|okay|fine)(?=$|[,;:.)])"
    rf"|\b(?:there (?:is|was|are|were) )?no {OFTEN}\b{REST}"
    rf"|\b(?:there (?:is|was) )?nothing (?:is |was )?(?:wrong|bad|amiss|odd|strange)\b{REST}"
    rf"|\b(?:no|none of) (?:[\w'-]+ ){{0,5}}?(?:is|was|are|were|has been|had been|got) "
    rf"(?:{INNOCENT}|{BROKEN}\b){REST}"
    rf"|\b(?:there (?:is|was|are|were) )?(?:no|without) (?:a |any )?(?:{FAULTS}|typos?|overflow|"
    rf"collision|corruption|duplicates?)\b(?: (?:in|of|on|at|with|among|between)\b{REST})?"
    rf"|\b(?:nobody|no one|no rank|none) (?:has )?forg[eo]t\w*{REST}"
    rf"|\b(?:(?:did|does|do|has|have)(?: not|n't)|never) (?:\w+ )?(?:forg[eo]t\w*|gr[eo]w|"
    rf"rise|creep|climb|swell|drift|fail\w*|crash|die){REST}"
    r"|\b(?:it|this|that) ?(?:is|was|'s) ?(?:not|n't) (?:memory|dropout|weights|data|dns|"
    rf"(?:the )?network|disk|port)\b{REST}",
    re.IGNORECASE,
)
