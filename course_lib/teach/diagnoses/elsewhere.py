"""Faults that learners think of and no blind case has: each meets what a run with it would show."""

from __future__ import annotations

from course_lib.teach.diagnoses.kind import Kind

LINK = r"(?:network|link|cable|interconnect|switch|infiniband|ethernet|connection)"
DEVICE = r"(?:gpus?|devices?|hardware|card|accelerator|processor|chip|memory chip|ram)"
ELSEWHERE: dict[str, Kind] = {
    "wall": Kind(
        "a firewall stands between the nodes",
        r"fire.?wall\w*|iptables|packets?\b|traffic|security group|block\w* (?:the |a |its |our )?"
        r"(?:\w+ )?(?:port|connection)s?\b|ports?\b (?:\S+ ){0,4}block\w*",
        "",
        "the ranks behind it use the right name and port and have no answer there until the "
        "meeting's time is over",
        "",
        unlike=r"internet|outbound|outside|download|\burl|http|\bweb\b|blocked by (?:another|"
        r"an old|some)|packet loss",
    ),
    "slow-network": Kind(
        "the network is slow",
        rf"slow\w* (?:\w+ )?{LINK}|{LINK}\b (?:\S+ ){{0,6}}(?:slow|congest|overload|lossy)\w*|"
        rf"slow\w*|bandwidth|latency|congest\w*|packet loss|(?:bad|broken|loose) (?:\w+ )?{LINK}|"
        rf"{LINK}\b (?:is|was) (?:bad|broken|loose)",
        "",
        "collectives take longer on all ranks alike, while each rank's own time is as long as "
        "before",
        "",
        unlike=rf"\A(?!.*(?:{LINK}|bandwidth|latency|congest|packet loss))",
    ),
    "broken-device": Kind(
        "a device computes wrongly",
        rf"(?:bad|broken|faulty|defective|damaged|flaky|failing) (?:\w+ )?{DEVICE}\b|damag\w*|"
        rf"{DEVICE}\b (?:\S+ ){{0,5}}(?:broken|faulty|defective|damaged|flaky|broke|wrong\w*)|"
        r"comput\w* (?:\S+ )?(?:wrong|false|incorrect)\w*|(?:wrong|false|incorrect)\w* comput\w*|"
        r"miscomput\w*|bit.?flips?|flipped bits?|silent data corruption|\becc\b|wrong results",
        "",
        "one rank's numbers leave the others' in the middle of the run, though until then its "
        "weights and samples were theirs",
        "",
        unlike=rf"\A(?!.*(?:{DEVICE}\b|comput|flip|corruption|\becc\b|wrong results))|"
        r"(?:out of|memory) (?:limit|full)",
    ),
}  # fmt: skip
