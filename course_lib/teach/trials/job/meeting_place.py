"""Address and port at which the launchers of a job are to meet, on every node the same."""

from __future__ import annotations

from collections.abc import Sequence

from course_lib.teach.trials.job.false_cluster import Rehearsed
from course_lib.teach.trials.job.false_commands import FAST, NODES, SLOW, is_address

LEAST_PORT, MOST_PORT = 1024, 65535
"""Below, a port is the system's; above, there is none."""
ITSELF = ("localhost", "::1", "0.0.0.0")
NAME = (
    "A node has several networks, and which one its name leads to is the resolver's choice, on "
    "each node anew. Take its address on the fast one, a number: getent hosts."
)


def judged(jobs: Sequence[Rehearsed], has_suffix: bool) -> str:
    """(What is no place at all, an endpoint without a colon, is told of with the launchers.)"""
    for job in jobs:
        if not job.launches and job.unknown:
            return _unknown(job)
    places = {(job.job, job.suffix): place for job in jobs if (place := _place(job))}
    for (number, _), (host, _) in places.items():
        if said := _no_address(number, host):
            return said
    if said := _apart(jobs) or _ports([(key[0], port) for key, (_, port) in places.items()]):
        return said
    wrong = (_address(job, places[job.job, job.suffix][0], has_suffix) for job in jobs
             if (job.job, job.suffix) in places)  # fmt: skip
    return next((said for said in wrong if said), "")


def _unknown(job: Rehearsed) -> str:
    return (
        f"no host is called {job.unknown[0]!r}. Where $SUFFIX is {job.suffix!r}, the first node is "
        f"{NODES[0]}{job.suffix} on the fast network: the name, and the suffix behind it."
    )


def _place(job: Rehearsed) -> tuple[str, str] | None:
    ends = [launch.option("rdzv-endpoint") for launch in job.launches]
    host, colon, port = ends[0].rpartition(":") if ends else ("", "", "")
    return (host.strip("[]"), port) if colon else None


def _apart(jobs: Sequence[Rehearsed]) -> str:
    for job in jobs:
        ends = {launch.option("rdzv-endpoint"): launch.node for launch in job.launches}
        if len(ends) > 1:
            told = ", ".join(f"{node} goes to {end}" for end, node in ends.items())
            return f"the launchers of job {job.job} do not meet: {told}."
    return ""


def _no_address(number: int, host: str) -> str:
    if host in ITSELF or host.startswith("127."):
        return (
            f"the address is {host}, which is the node itself, whichever it is: each launcher "
            "waits at its own door for another that never comes."
        )
    if not host:
        return (
            f"as job {number}, torchrun is told no address: MASTER_ADDR is empty where it starts. "
            "Is it exported?"
        )
    return ""


def _ports(given: Sequence[tuple[int, str]]) -> str:
    for number, port in given:
        if not port.isdecimal():
            return f"as job {number}, {port!r} stands where the port is to be. Is it exported?"
    ports = dict(given)
    if len(given) > 1 and len(set(ports.values())) == 1:
        return (
            f"the port is always the same, {given[0][1]}. Two jobs whose first node is one (also "
            "two of yours) want it at once, and the second fails, or joins the first. Derive it "
            "from the job's number."
        )
    for number, port in given:
        if not LEAST_PORT <= int(port) <= MOST_PORT:
            return (
                f"the port of job {number} would be {port}. Ports end at {MOST_PORT}, and those "
                f"below {LEAST_PORT} are the system's; a job's number is small on a new cluster, "
                "and has seven digits on an old one: 10000 + SLURM_JOB_ID % 20000."
            )
    if chance := next((one for one in given if ports[one[0]] != one[1]), None):
        return (
            f"the port of job {chance[0]} was {chance[1]} once, and {ports[chance[0]]} when it ran "
            "again: by chance two jobs draw the same. Derive it from the job's number."
        )
    if len(set(ports.values())) < len(ports):
        told = ", ".join(f"job {number} {port}" for number, port in ports.items())
        return f"jobs of one node would take the same port: {told}."
    return ""


def _address(job: Rehearsed, host: str, has_suffix: bool) -> str:
    network = FAST if job.suffix and has_suffix else SLOW
    told = f"as job {job.job} where $SUFFIX is {job.suffix!r}, torchrun is told {host}"
    if host == f"{network}1":
        return ""
    if not is_address(host):
        known = [f"{name}{suffix}" for name in NODES for suffix in ("", job.suffix)]
        return (
            f"{told}. That is a name. {NAME}" if host in known else f"{told}, which is no address."
        )
    if host == f"{SLOW}1":
        return (
            "$SUFFIX is left out. Where a node's name on the fast network has one "
            f"({NODES[0]}{job.suffix}), what is found is an address on a slow one: {told}. (On the "
            "box there is none, and nothing shows.)"
        )
    return f"{told}; the first node's address there is {network}1."
