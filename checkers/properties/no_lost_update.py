"""No lost update: every accepted write is a predecessor of the last one, or the last itself.

Claims
    VIOLATED: an accepted write is missing from the final chain. The chain is followed back from the
    last accepted write of a key: each names the version that it is based on (a blind one is based
    on the version before it). Two different writes that name one predecessor can never both be in
    it. A register whose version decreases has lost the writes between.
Assumes
    A write names the version that its client had read and computed from.
Blind to
    The values written: only versions are followed. One op accepted twice is not a lost update as
    long as one of its two writes is in the chain.
Cost
    O(n) in the accepted writes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import numpy as np

from holdfast.checkers.coverage.requirements import conclude, exercise
from holdfast.checkers.facts import resource_log
from holdfast.checkers.facts.wording import drawn, name, seconds
from holdfast.checkers.holds.attempt_table import table
from holdfast.checkers.holds.history_index import Indices, column
from holdfast.checkers.opportunities.places.near_faults import Where, near_faults
from holdfast.checkers.opportunities.places.served_again import outdated_updates
from holdfast.checkers.opportunities.row import OpportunityRow, of_any_fault
from holdfast.harness.core.case import Case
from holdfast.harness.core.operations import Op, Status
from holdfast.harness.core.verdict import Finding, PlanChange, Proof, PropertyVerdict

PROPERTY = "no-lost-update"
NEEDS = ("contention", "requests", "updates", "faults")

Lost = tuple[resource_log.Request, resource_log.Request]
"""An accepted write that is not in the final chain, and the write that superseded it."""
OPPORTUNITIES: Sequence[OpportunityRow] = (
    of_any_fault(
        id="no-lost-update/old-version/any",
        property="no-lost-update",
        defect="admits an update that builds on an old version",
        sentence="an update that built on an old version reached the resource",
        twin="reference:unchecked-tokens",
        look=partial(
            near_faults,
            where=Where(outdated_updates, "no update built on an old version", extra=True),
        ),
        change=PlanChange(),
    ),
)


def check(case: Case) -> PropertyVerdict:
    """The verdict on no-lost-update."""
    findings = [_finding(case, *lost) for lost in lost_updates(case)]
    return conclude(case, PROPERTY, findings, (), exercise(case, needs=NEEDS))


def lost_updates(case: Case) -> Iterator[Lost]:
    """Every lost write with the one that superseded it, key by key in the order of versions."""
    by_key: defaultdict[int, list[resource_log.Request]] = defaultdict(list)
    for request in resource_log.requests(case, _doubtful(case)):
        by_key[request.key].append(request)
    for writes in by_key.values():
        at, gone = _fallen_back(writes)
        chain = _chain(at, writes[-1].version)
        kept = {write.name for write in chain}
        for lost, over in (*gone, *_passed_over(at, chain)):
            if lost.name not in kept:
                yield lost, over


def _doubtful(case: Case) -> Indices:
    """Places of the accepted writes of keys in which a write is not based on its predecessor."""
    rows = resource_log.log(case).rows
    written = column(case, "f")[rows] == Op.SERVED_WRITE
    places = np.flatnonzero(written & (column(case, "status")[rows] == Status.OK))
    key = column(case, "key")[rows[places]]
    order = np.argsort(key, kind="stable")
    version = column(case, "res")[rows[places[order]]]
    base = column(case, "arg")[rows[places[order]]]
    base = np.where((base >= 0) & (base < version), base, version - 1)
    torn = (base[1:] != version[:-1]) & (np.diff(key[order]) == 0)
    doubtful = np.unique(key[order][1:][torn])
    return np.compress(np.isin(key, doubtful), places)


def _fallen_back(
    writes: Sequence[resource_log.Request],
) -> tuple[dict[int, resource_log.Request], list[Lost]]:
    """The writes that the register kept, by version, and those lost by a reused version."""
    at: dict[int, resource_log.Request] = {}
    lost = []
    last = -1
    for write in writes:
        for version in range(write.version, last + 1):
            gone = at.pop(version, None)
            if gone is not None and gone.name != write.name:
                lost.append((gone, write))
        at[write.version] = write
        last = write.version
    return at, lost


def _chain(at: Mapping[int, resource_log.Request], last: int) -> list[resource_log.Request]:
    """The last write and its chain of predecessors, oldest first."""
    chain = []
    version = last
    while version in at:
        chain.append(at[version])
        version = _predecessor(at[version])
    return chain[::-1]


def _passed_over(
    at: Mapping[int, resource_log.Request], chain: Sequence[resource_log.Request]
) -> Iterator[Lost]:
    """The writes between a write of the chain and the one that it is based on."""
    for write in chain:
        for version in range(_predecessor(write) + 1, write.version):
            if version in at:
                yield at[version], write


def _predecessor(write: resource_log.Request) -> int:
    """The version that a write is based on; for a blind one the version before its own."""
    return write.base if 0 <= write.base < write.version else write.version - 1


def _finding(case: Case, lost: resource_log.Request, over: resource_log.Request) -> Finding:
    lock = case.history.strings[lost.key]
    sent = tuple(row for row in (lost.sent, over.sent) if row >= 0)
    entries = table(case).of_id([lost.attempt, over.attempt])
    owners = table(case).pick(entries[entries >= 0])
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
            f" version {lost.version} at {seconds(case, lost.from_ns)}, is lost"
        ),
        witnesses=(*sent, lost.row, over.row),
        lock=lock,
        t_ns=over.from_ns,
        spans=tuple(drawn(case, a, a.end_ns) for a in dict.fromkeys(owners)),
        proof=_proof(lost, over),
    )


def _proof(lost: resource_log.Request, over: resource_log.Request) -> Proof:
    roles = {"lost": lost.row, "over": over.row}
    if over.version <= lost.version:
        return Proof(rule="lost-update/again", roles=roles)
    return Proof(rule="lost-update/passed", roles=roles, values={"over_base": _predecessor(over)})


def _client(case: Case, request: resource_log.Request) -> str:
    return name(case, int(case.history.rows["process"][request.row]))
