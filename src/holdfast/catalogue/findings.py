"""The track record: real bugs found again in published packages, and the page that tells them."""

from __future__ import annotations

from holdfast.catalogue.findings_elsewhere import ELSEWHERE
from holdfast.catalogue.findings_on_redis import ON_REDIS
from holdfast.catalogue.rows import Finding

FINDINGS: dict[str, Finding] = {**ON_REDIS, **ELSEWHERE}

NOT_SHOWN = (
    "redlock-py==1.0.8: an acquire that raises although it has its quorum (redlock-py PR 27): while"
    " one server is dead nobody is granted, but liveness is not judged while a fault lasts, and the"
    " keys it leaves are gone with their lease (2 tries with one server killed: UNKNOWN)",
    "tooz==9.1.0 on PostgreSQL: its source makes the lock's key of two bytes of an MD5, so that one"
    " pair of names in 65,536 is one lock; not put to the test in 5 tries with 137 locks",
    "python-etcd==0.4.5, a waiter whose own queue key expires (python-etcd#181): the endless loop"
    " of that report is gone, the waiter is told at its turn that its key is not found; nothing"
    " violated in 4 tries with holds longer than the lease",
    "redlock-ng==2.0.4: one hung server of five: nothing violated in 2 tries (one was UNKNOWN)",
)
"""What was tried and did not come out violated."""


def command(finding: Finding) -> str:
    """The whole command line, but for the seed."""
    return f"holdfast run {finding.command}"


def page() -> str:
    """docs/findings/libraries.md, whole."""
    lines = [
        "# Bugs found again in published packages",
        "",
        "Written from `catalogue/findings.py`; `holdfast list findings` is the short form.",
        "Packages are unmodified and no command knows the bug. *Shows* is how many of how many",
        "tries with seeds 1 and on came out violated, on a busy machine of two cores. Locks with",
        "a lease promise nothing after it: overlaps are judged inside the time claimed only.",
        "Where no release without the bug is named we know of none.",
        "",
        "| id | package | breaks | what happens | shows | reported | without the bug |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name, found in FINDINGS.items():
        shows = f"{found.seen[0]} of {found.seen[1]}"
        clean = f"{found.fixed}: {found.clean[0]} of {found.clean[1]}" if found.fixed else ""
        lines.append(
            f"| {name} | {found.package} | {found.breaks} | {found.says} | {shows} |"
            f" {found.cited} | {clean} |"
        )
    lines += ["", "Tried, and not shown:", "", *(f"- {tried}" for tried in NOT_SHOWN)]
    lines += ["", "The commands, short and in full, both without their `--seed`:", ""]
    for name, found in FINDINGS.items():
        shown = [f"$ holdfast scenario finding:{name}", f"$ {command(found)}"]
        lines += [f"## {name}", "", "```console", *shown, "```", ""]
    return "\n".join(lines)
