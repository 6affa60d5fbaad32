"""sshare: shares of accounts in the cluster. The box has none but the root of all."""

from __future__ import annotations

from course_lib.box.commands.shared.getopt import Syntax

USAGE = "sshare [options]"
SYNTAX = Syntax(
    "sshare",
    "accounts,A= all,a helpformat,e help format,o= long,l clusters,M= partition,m noheader,n"
    " parsable,p parsable2,P users,u= Users,U usage verbose,v version,V",
)
SHORT = (
    *(("Account", 20, ""), ("User", 10, ""), ("RawShares", 10, ""), ("NormShares", 11, "")),
    *(("RawUsage", 11, "0"), ("EffectvUsage", 13, "0.000000"), ("FairShare", 10, "")),
)
LONG = (
    *SHORT[:5],
    *(("NormUsage", 11, ""), *SHORT[5:], ("LevelFS", 10, "0.000000")),
    *(("GrpTRESMins", 30, ""), ("TRESRunMins", 30, "cpu=0,mem=0,energy=0,node=0,b+")),
)


def run(arguments: list[str]) -> int:
    pairs, _ = SYNTAX.parse(arguments)
    options = {name for name, _ in pairs}
    columns = LONG if "long" in options else SHORT
    rows = [] if "Users" in options else [["root", *(text for _, _, text in columns[1:])]]
    names = [name for name, _, _ in columns]
    if {"parsable", "parsable2"} & options:
        end = "|" if "parsable" in options else ""
        lines = [[*names] if "noheader" not in options else [], *rows]
        print("".join("|".join(line) + end + "\n" for line in lines if line), end="")
        return 0
    widths = [width for _, width, _ in columns]
    if "noheader" not in options:
        print("".join(_cell(text, place, widths) for place, text in enumerate(names)))
        print("".join("-" * width + " " for width in widths))
    for row in rows:
        print("".join(_cell(text, place, widths) for place, text in enumerate(row)))
    return 0


def _cell(text: str, place: int, widths: list[int]) -> str:
    return (text.rjust(widths[place]) if place else text.ljust(widths[place])) + " "
