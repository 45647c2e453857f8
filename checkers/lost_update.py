"""No lost update: every accepted write is part of what the last one was built upon.

Claims
    VIOLATED: an accepted write is missing from the final chain. The chain is followed back from
    the last accepted write of a key: each names the version that it builds on (a blind one builds
    on what was there). Two different writes that name one predecessor can never both be in it.
    A register whose version falls back has lost the writes between.
Assumes
    A write names the version that its author had read and computed from.
Blind to
    What was written: only versions are followed. One op accepted twice is not a lost update as
    long as one of its two writes is in the chain.
Cost
    O(n) in the accepted writes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from holdfast.checkers import served
from holdfast.checkers.exercise import conclude, exercise
from holdfast.checkers.holds import by_id
from holdfast.checkers.sentences import seconds
from holdfast.checkers.spans import believed
from holdfast.harness.case import Case
from holdfast.harness.verdict import Finding, PropertyVerdict

PROPERTY = "no-lost-update"
NEEDS = ("contention", "requests", "updates", "faults")

Lost = tuple[served.Request, served.Request]
"""An accepted write that is not in the final chain, and the write that passed over it."""


def check(case: Case) -> PropertyVerdict:
    """The verdict on no-lost-update."""
    findings = [_finding(case, *lost) for lost in lost_updates(case)]
    return conclude(case, PROPERTY, findings, (), exercise(case, needs=NEEDS))


def lost_updates(case: Case) -> Iterator[Lost]:
    """Every lost write with the one that passed over it, key by key in the order of versions."""
    by_key: defaultdict[int, list[served.Request]] = defaultdict(list)
    for request in served.requests(case):
        if request.write and request.accepted:
            by_key[request.key].append(request)
    for writes in by_key.values():
        yield from _fallen_back(writes)
        yield from _passed_over(writes)


def _fallen_back(writes: Sequence[served.Request]) -> Iterator[Lost]:
    """Writes whose version a later write of another op took again."""
    for before, after in zip(writes, writes[1:], strict=False):
        if after.version <= before.version and after.name != before.name:
            yield before, after


def _passed_over(writes: Sequence[served.Request]) -> Iterator[Lost]:
    """Walk back from the last write; what lies between a write and its predecessor is lost."""
    at = {write.version: write for write in writes}
    version = max(at)
    kept: set[int] = set()
    steps: list[tuple[served.Request, int, int]] = []
    while version in at:
        write = at[version]
        base = write.base if 0 <= write.base < version else version - 1
        kept.add(write.name)
        steps.append((write, base, version))
        version = base
    for write, base, version in reversed(steps):
        for between in range(base + 1, version):
            lost = at.get(between)
            if lost is not None and lost.name not in kept:
                yield lost, write


def _finding(case: Case, lost: served.Request, over: served.Request) -> Finding:
    lock = case.history.strings[lost.key]
    sent = tuple(row for row in (lost.sent, over.sent) if row >= 0)
    owners = [by_id(case)[r.attempt] for r in (lost, over) if r.attempt in by_id(case)]
    at = seconds(case, over.from_ns)
    if over.version <= lost.version:
        what = f"took version {over.version} of '{lock}' again at {at}"
    else:
        basis = f"on version {over.base}" if over.base >= 0 else "blindly"
        what = f"wrote version {over.version} of '{lock}' {basis} at {at}"
    return Finding(
        kind="lost-update",
        sentence=(
            f"{_client(case, over)} {what}; the update of {_client(case, lost)}, accepted as"
            f" version {lost.version} at {seconds(case, lost.from_ns)}, is lost."
        ),
        witnesses=(*sent, lost.row, over.row),
        lock=lock,
        t_ns=over.from_ns,
        spans=believed(case, *dict.fromkeys(owners)),
    )


def _client(case: Case, request: served.Request) -> str:
    row: Any = case.history.rows[request.row]
    process = int(row["process"])
    return case.nodes.get(process, f"client {process}")
