"""The track record: real bugs reproduced in published packages, and the page that lists them."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import msgspec


class ReproducedBug(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A bug reproduced in a published package.

    breaks   the property that comes out VIOLATED
    says     the bug, one sentence
    command  the words after `holdfast run`, without --seed
    seen     (k, n): violated in k of n runs, with seeds 1 to n
    cited    where it was reported
    fixed    release in which it is fixed, "" if unknown; clean: (k, n) violated with it
    quick    `make test-long` reproduces it
    clean_command  the command with the fixed release, where the name of the package is not in it
    """

    package: str
    breaks: str
    says: str
    command: str
    seen: tuple[int, int]
    cited: str
    fixed: str = ""
    clean: tuple[int, int] = (0, 0)
    quick: bool = False
    clean_command: str = ""

    def without_bug(self) -> str:
        """The command with the release in which it is fixed."""
        return self.clean_command or self.command.replace(self.package, self.fixed)


FINDINGS = msgspec.toml.decode(
    Path(__file__).with_name("findings.toml").read_bytes(), type=dict[str, ReproducedBug]
)


class Shown(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When a finding's command was last run again and showed it.

    seen       (k, n): violated in k of n runs, with seeds 1 to n
    versions   of the server, the libraries and the interpreter
    """

    last: date
    seen: tuple[int, int]
    versions: tuple[str, ...]


RECORD = Path(__file__).with_name("track_record.toml")
TRACK_RECORD = msgspec.toml.decode(RECORD.read_bytes(), type=dict[str, Shown])
"""Written by `make corpus`; a finding that it has not run yet is missing."""

NOT_SHOWN = (
    "redlock-py==1.0.8: an acquire raises although it has a quorum (redlock-py PR 27): while one"
    " server is down no request is granted, but liveness is not judged during a fault, and the"
    " keys it leaves expire with their lease (2 runs with one server killed: UNKNOWN)",
    "tooz==9.1.0 on PostgreSQL: its source derives the lock's key from two bytes of an MD5, so 1"
    " in 65,536 pairs of names shares a lock; not exercised in 5 runs with 137 locks",
    "python-etcd==0.4.5, a waiter whose own queue key expires (python-etcd#181): the endless loop"
    " of that report is fixed; at its turn the waiter gets an error that its key is not found; no"
    " violation in 4 runs with holds longer than the lease",
    "redlock-ng==2.0.4: one hung server of five: no violation in 2 runs (one was UNKNOWN)",
)
"""Bugs that were tried and not reproduced."""


def command(finding: ReproducedBug) -> str:
    """The complete command line, without the seed."""
    return f"holdfast run {finding.command}"


def last_shown(name: str) -> str:
    """Date and runs of the last time that a finding was run again; "" if it was not."""
    shown = TRACK_RECORD.get(name)
    return f"{shown.last.isoformat()}: {shown.seen[0]} of {shown.seen[1]}" if shown else ""


def page() -> str:
    """The text of docs/findings/libraries.md."""
    lines = [
        "# Bugs reproduced in published packages",
        "",
        "Generated from `catalogue/findings.toml`; `holdfast list findings` is the short form.",
        "Packages are unmodified, and no command contains knowledge of the bug, except that those",
        "of servers may name a function at which a thread is held ([how](servers.md)).",
        "*Reproduced* is the number of violated runs, each with another seed, on a busy machine;",
        "*last shown* is when `make corpus` ran the command again, and in how many of its runs it",
        "showed.",
        "Locks with a lease promise nothing after its end, so overlaps are judged within the",
        "claimed time only. If no fixed release is listed, we know of none.",
        "",
        "| id | package | violates | bug | reproduced | last shown | reported | fixed release |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name, found in FINDINGS.items():
        shows = f"{found.seen[0]} of {found.seen[1]}"
        clean = f"{found.fixed}: {found.clean[0]} of {found.clean[1]}" if found.fixed else ""
        lines.append(
            f"| {name} | {found.package} | {found.breaks} | {found.says} | {shows} |"
            f" {last_shown(name)} | {found.cited} | {clean} |"
        )
    lines += ["", "Not reproduced:", "", *(f"- {tried}" for tried in NOT_SHOWN)]
    lines += ["", "The commands, short and in full, without `--seed`:", ""]
    for name, found in FINDINGS.items():
        shown = [f"$ holdfast scenario finding:{name}", f"$ {command(found)}"]
        lines += [f"## {name}", "", "```console", *shown, "```", ""]
    return "\n".join(lines)
