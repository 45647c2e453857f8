"""Registers whose read values have one write each, decided without a search.

Claims: HOLDS iff some order of the reads and writes of one register explains every value read.
Assumes: a failed operation had no effect; a write of unknown outcome took effect at some time after
    its invocation, or never.
Blind to: nothing beyond the register; histories that it does not decide go to the search.
Cost: O(n log n).

After P. B. Gibbons and E. Korach, "Testing shared memories", SIAM Journal on Computing 26(4), 1997.
A cluster is a write with the reads of its value; the register's first value is one with a write
before all. In an order that explains the reads every cluster is a block: its write, then its reads.
So a cluster A comes before B as a whole if an operation of A ended before one of B began: if the
earliest end of A, `low`, precedes the latest begin of B, `high`. Such an order exists iff no read
ended before its write began, and no two clusters have to come before each other:

    low(A) < high(B) and low(B) < high(A)

Two suffice: of a longer cycle, let M be the cluster with the smallest `low`, P the one that must
come before it, and Q the predecessor of P. Then low(M) <= low(Q) < high(P), so M and P are a cycle
of two. If low < high, the register had the cluster's value throughout [low, high] (a forward zone);
else its operations all overlap at one moment (a backward zone). Two backward zones are never in
conflict, two forward zones are if they overlap, and a backward zone is with a forward one that
encloses it.

A write of unknown outcome that no read explains is left out: an order with it stays one without it.
One whose value was read did take effect; only its reads bound its end.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from holdfast.checkers.linearizability.exact.register_zones import explained
from holdfast.checkers.linearizability.judgement import (
    EXPLAINED,
    ModelJudgement,
    joined,
    said,
    shown,
)
from holdfast.harness.core.operations import Status
from holdfast.harness.core.verdict import Finding, Verdict
from holdfast.harness.foreign.op_columns import OpColumns
from holdfast.harness.foreign.operations import OPEN, ForeignOp, distinct

BEFORE_ALL = -(1 << 62)
"""The end of the write of the first value."""


@dataclass(slots=True)
class _Cluster:
    """A write, None for that of the first value, and the reads of its value.

    low, high     the earliest end and the latest begin of its operations
    first, last   the operations that these are of; None for the write of the first value
    """

    write: ForeignOp | None
    low: int = OPEN
    high: int = BEFORE_ALL
    first: ForeignOp | None = None
    last: ForeignOp | None = None

    def add(self, op: ForeignOp) -> None:
        if op.end < self.low:
            self.low, self.first = op.end, op
        if self.last is None or op.begin > self.high:
            self.high, self.last = op.begin, op

    @property
    def forward(self) -> bool:
        """Whether the register had its value for a time that the history proves."""
        return self.low < self.high


def zoned(
    ops: Sequence[ForeignOp], read: str = "read", write: str = "write", initial: Hashable = None
) -> tuple[ModelJudgement, int] | None:
    """The judgement of one register, and how many responses an order has to explain.

    None if this rule does not decide it: an operation is no read or write, or a value that was read
    has two writes that may have taken effect. read, write: the names of these operations; a read
    without a value returned `initial`.
    """
    acts = [op for op in ops if op.status in (Status.OK, Status.INFO)]
    if any(op.f not in (read, write) for op in acts):
        return None
    reads = [(op, _seen(op, initial)) for op in acts if op.f == read and op.status is Status.OK]
    writes = [op for op in acts if op.f == write]
    written = Counter(distinct(op.value) for op in writes)
    written[distinct(initial)] += 1
    if any(written[value] > 1 for _, value in reads):
        return None
    clusters, findings = _clusters(reads, writes, initial)
    if not findings:
        findings = [_conflict(one, other) for one, other in _conflicts(clusters)]
    judgement = ModelJudgement(
        verdict=Verdict.VIOLATED if findings else Verdict.HOLDS,
        reason=findings[0].sentence if findings else "",
        exercised={"zones": len(clusters)},
        findings=tuple(findings),
    )
    return judgement, len(reads) + sum(op.status is Status.OK for op in writes)


def certainly(
    ops: Sequence[ForeignOp], read: str = "read", write: str = "write", initial: Hashable = None
) -> ModelJudgement | None:
    """The judgement of all registers of a history in columns, if it holds by this rule."""
    whole = explained(ops, read, write, initial) if isinstance(ops, OpColumns) else None
    if whole is None:
        return None
    holds = ModelJudgement(verdict=Verdict.HOLDS, reason="", exercised={"zones": whole.zones})
    return joined([holds], ops, EXPLAINED, whole.responses)


_Reads = Sequence[tuple[ForeignOp, Hashable]]
"""Reads with the value that each returned."""


def _seen(op: ForeignOp, initial: Hashable) -> Hashable:
    return distinct(initial if op.result is None else op.result)


def _clusters(
    reads: _Reads, writes: Sequence[ForeignOp], initial: Hashable
) -> tuple[list[_Cluster], list[Finding]]:
    """The clusters that took effect, and the reads of a value before its write began."""
    first = _Cluster(None, low=BEFORE_ALL)
    wanted = {value for _, value in reads}
    of: dict[Hashable, _Cluster] = {distinct(initial): first}
    clusters = [first]
    for op in writes:
        value = distinct(op.value)
        if op.end == OPEN and value not in wanted:
            continue
        cluster = _Cluster(op)
        cluster.add(op)
        clusters.append(cluster)
        if value in wanted:
            of[value] = cluster
    return clusters, list(_joined(reads, of))


def _joined(reads: _Reads, of: Mapping[Hashable, _Cluster]) -> Iterator[Finding]:
    """Adds each read to its cluster; yields those that no write explains."""
    for op, value in reads:
        cluster = of.get(value)
        if cluster is None or (cluster.write is not None and op.end < cluster.write.begin):
            yield _finding(
                f"{said(op)} returned before any write of that value began", op.end, [op]
            )
        else:
            cluster.add(op)


def _conflicts(clusters: Sequence[_Cluster]) -> Iterator[tuple[_Cluster, _Cluster]]:
    """Pairs of which each must come before the other, one for each later cluster of a pair."""
    forward = sorted((one for one in clusters if one.forward), key=lambda one: one.low)
    lows = [one.low for one in forward]
    # furthest[n]: of the first n + 1 forward zones, the one with the latest `high`.
    furthest = list[_Cluster]()
    for one in forward:
        if furthest and one.low < furthest[-1].high:
            yield furthest[-1], one
        later = not furthest or one.high > furthest[-1].high
        furthest.append(one if later else furthest[-1])
    for one in clusters:
        if one.forward:
            continue
        # A forward zone that encloses it began before its `high` and ends after its `low`.
        at = bisect_left(lows, one.high) - 1
        if at >= 0 and one.low < furthest[at].high:
            yield furthest[at], one


def _conflict(one: _Cluster, other: _Cluster) -> Finding:
    """The finding about two clusters that must come before each other; `one` is forward."""
    kept = f"{_named(one)} was the value {_span(one)}"
    if other.forward:
        sentence = f"{kept}, and {_named(other)} {_span(other)}: these overlap"
    else:
        sentence = f"{kept}, but {_called(other)} falls inside that time"
    ends = (one.first, one.last, other.first, other.last)
    proof = list(dict.fromkeys(op for op in ends if op is not None))
    return _finding(sentence, max(one.low, other.low), proof)


def _span(one: _Cluster) -> str:
    """The time for which a forward zone proves its value, by the operations at its edges."""
    assert one.last is not None
    until = f"to the begin of {said(one.last)}"
    if one.first is None:
        return f"from the start {until}"
    return f"from the end of {said(one.first)} {until}"


def _called(one: _Cluster) -> str:
    assert one.write is not None
    read = "" if one.last is one.write and one.first is one.write else " with its reads"
    return f"{said(one.write)}{read}"


def _named(one: _Cluster) -> str:
    return "the first value" if one.write is None else shown(one.write.value, 30)


def _finding(sentence: str, at: int, proof: Sequence[ForeignOp]) -> Finding:
    key = proof[0].key
    return Finding(
        kind="not-linearizable",
        sentence=sentence,
        witnesses=tuple(op.place for op in proof),
        lock="" if key is None else str(key),
        t_ns=max(at, 0),
    )
