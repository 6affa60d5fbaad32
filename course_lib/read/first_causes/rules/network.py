"""How PyTorch, NCCL and gloo announce that ranks do not find, hear or match each other."""

from __future__ import annotations

from course_lib.read.first_causes.rules.rule import ROOT, SECONDARY, rule

_MISMATCH = (
    rb"Detected mismatch between collectives on ranks\. Rank (?P<rank>\d{1,7}) is running "
    rb"(?:inconsistent )?collective: CollectiveFingerPrint\((?P<mine>.{0,1500}?)"
    rb"(?:, but Rank (?P<other_rank>\d{1,7}) is running (?:inconsistent )?"
    rb"collective: CollectiveFingerPrint\((?P<theirs>.{0,1500})|$)"
)
_MEETING = rb"(?:MASTER_ADDR|MASTER_PORT|WORLD_SIZE|LOCAL_RANK|RANK)"
NETWORK = (
    rule(
        "no_internet",
        ROOT,
        rb"<?urlopen error|HTTPSConnectionPool\(host=|"
        rb"[Cc]ouldn't connect to .?https?://|outgoing traffic has been disabled|"
        rb"LocalEntryNotFoundError|OfflineModeIsEnabled|httpx\.Connect(?:Error|Timeout)",
        unless=rb"Warning|WARNING|\b[Rr]etry",
    ),
    rule(
        "missing_master",
        ROOT,
        rb"environment variable (?P<variable>[A-Z_]{4,20}) expected, but not set|"
        rb"KeyError: '(?P<variable2>" + _MEETING + rb")'|"
        rb"\b(?P<variable3>"
        + _MEETING
        + rb"): (?:unbound variable|parameter (?:null or )?not set)|"
        rb"(?P<variable4>" + _MEETING + rb") (?:is|was|must be|should be|has to be|environment)"
        rb".{0,40}(?:not set|not defined|unset|set\b|missing|empty)",
        unless=rb"Warning|WARNING",
    ),
    rule(
        "port_forbidden",
        ROOT,
        rb"(?:bind|listen).{0,200}(?:errno: 13\b|Permission denied|EACCES)",
    ),
    rule(
        "rendezvous_timeout",
        ROOT,
        rb"(?:bind|listen).{0,200}(?:errno: 99\b|Cannot assign requested address|EADDRNOTAVAIL)",
    ),
    rule(
        "port_in_use",
        ROOT,
        rb"EADDRINUSE|[Aa]ddress already in use|server socket has failed to (?:listen|bind)",
    ),
    rule("collective_mismatch", ROOT, _MISMATCH),
    rule(
        "collective_mismatch",
        ROOT,
        rb"mismatch(?:ed)? (?:between )?collective|Is there a distributed collective mismatch",
    ),
    rule(
        "collective_timeout",
        SECONDARY,
        rb"(?:\[Rank (?P<group_rank>\d{1,7})\] )?Watchdog caught collective operation timeout: "
        rb"WorkNCCL\((?:SeqNum=(?P<sequence>\d{1,18}), )?OpType=(?P<op>\w{1,40}).{0,200}?"
        rb"Timeout\(ms\)=(?P<timeout_ms>\d{1,15})\)(?: ran for (?P<ran_ms>\d{1,15}) milliseconds)?",
        unless=rb"what\(\)",
    ),
    rule(
        "collective_timeout",
        SECONDARY,
        rb"Timed out waiting (?P<timeout_ms>\d{1,15})ms for (?P<op>send|recv) operation|"
        rb"Application timeout caused pair closure|"
        rb"[Rr]ank \d+ .{0,40}failed to (?:pass|"
        rb"reach) monitoredBarrier in (?P<barrier_ms>\d{1,15}) ms|"
        rb"Ranks? (?:(?P<named_rank>\d{1,7})|[\d, ]{1,200}) failed to pass monitoredBarrier|"
        rb"collective operation timeout|"
        rb"reached monitoredBarrier, but received errors .{0,60}rank (?P<faulty_rank>\d{1,7})|"
        rb"[Rr]ank (?P<group_rank>\d{1,7})\] .{0,60}watchdog got stuck for (?P<stuck_s>\d{1,9}) s|"
        rb"Collective operation timed out",
    ),
    rule(
        "stayed_away",
        ROOT,
        rb"\bnot in a collective, but at (?P<place>.{1,300}?) when others gave up waiting",
    ),
    rule(
        "rendezvous_timeout",
        SECONDARY,
        rb"ranks? (?P<named_rank>\d{1,7})(?:, \d{1,7}){0,600} did not come to the meeting point "
        rb"(?P<meeting>[\w.:\[\]-]{1,100}):",
    ),
    rule(
        "rendezvous_timeout",
        SECONDARY,
        rb"RendezvousTimeoutError|RendezvousConnectionError|RendezvousClosedError|"
        rb"Timed out after (?P<after_s>\d{1,9}) seconds waiting for clients\."
        rb"(?: (?P<joined>\d{1,9})/(?P<expected>\d{1,9}) clients joined)?|"
        rb"client socket has timed out after (?P<timeout_text>\d{1,12} ?m?s"
        rb"(?:ec)?) while trying to connect"
        rb"(?: to \(?(?P<endpoint>[^)\s,]{1,100}(?:, ?\d{1,6})?)\)?)?|"
        rb"client socket has failed to connect to (?:any network address of )?\(?"
        rb"(?P<address>[^).]{1,100})|"
        rb"rendezvous.{0,80}(?:timed out|time-?out)|wait timeout after \d{1,12}ms|"
        rb"Timed out initializing process group in store based barrier on rank: (?P<rank>\d{1,7})|"
        rb"connect\(\) timed out\. Original timeout|"
        rb"[Ss]ocket [Tt]imeout|Name or service not known|nodename nor servname|"
        rb"Temporary failure in name resolution",
    ),
    rule(
        "network_interface",
        ROOT,
        rb"neither AF_INET\(|[Nn]o (?:socket )?interface found|"
        rb"Unable to find interface(?: for)?|ifname .{0,60} not found|"
        rb"Unable to find address for: (?P<interface>\S{1,60})",
    ),
    rule(
        "connect_failed",
        SECONDARY,
        rb"WARN Call to connect (?:to \S{1,80} )?failed|Call to connect returned .{0,80}|"
        rb"connectFullMesh failed|"
        rb"[Cc]onnect.{0,60}(?:timed out|Connection refused|No route to host)|socketStartConnect",
    ),
    rule(
        "duplicate_device",
        ROOT,
        rb"Duplicate GPU detected ?: rank (?P<rank>\d{1,7}) and rank (?P<other_rank>\d{1,7}) "
        rb"both on CUDA device (?P<device>\w{1,20})",
    ),
    rule(
        "lost_peer",
        SECONDARY,
        rb"[Cc]onnection (?:closed|reset) by (?:remote )?peer|ncclRemoteError|"
        rb"remote process exited|"
        rb"NCCL communicator was aborted|Broken ?pipe|BrokenPipeError|ConnectionResetError|"
        rb"Socket closed|Received a dump signal|TCPStore server has shut down|recvValue failed|"
        rb"[Cc]onnection was likely closed|transport retry counter exceeded|IBV_WC_\w{1,40}|"
        rb"Got completion .{0,80}error|NCCL error: remote|sendBytes failed",
        unless=rb"destroy_process_group|\[W\d{3,4} ",
    ),
)
