"""Specification of the end of a run: a server catches up with its leader.

The other rules say what a server may do. This one says what it must have done once no fault is in
force and servers reach each other: while one node leads, every server gets the entries that were
committed a bound of time ago, or a snapshot that covers them, and takes them as committed.

The bound, from the protocol's intervals. A leader sends each follower something in every heartbeat
interval H, a third of the election timeout E. It tells the follower where the leader's log goes on
and how far it is committed, and the answer tells the leader what is missing. So a follower has all

    after one heartbeat, its answer, a snapshot, its answer, and the entries after that: five
    messages, before which the leader waits H once, and at most E + H with the snapshot, since it
    sends the next one E after the last;

    and later by E + H, or H and two messages if that is longer, which is when it is tried again:
    for tries of which a message is lost, as many as are exceeded less often than `UNLIKELY`; for
    each term of which the follower has entries that the leader lacks, since an answer goes back by
    one term; and for each `BATCH` entries that it lacks.

Nothing is said of a server that started, or of a leader that was elected, less than that bound
before the end, and of a server in a later term than the leader.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from math import ceil, log
from operator import itemgetter
from typing import NamedTuple

from holdfast.clusters.systems.reference.specification.leadership import LeadersView
from holdfast.clusters.systems.reference.specification.replication import Departs, Disk, Replication
from holdfast.harness.verdicts.specification import Settled

ELECTION_MS = "400"
"""The documented default."""
BATCH = 128
UNLIKELY = 1e-9


class Intervals(NamedTuple):
    """What the bound is made of.

    from_ns    since when no fault is in force and all servers are reached
    once_ns    until a follower that lacks a few entries has them, if no message is lost
    again_ns   how much longer it takes with one more try; failures: how many tries may fail
    """

    from_ns: int
    once_ns: int
    again_ns: int
    failures: int

    @staticmethod
    def of(options: Mapping[str, str], settled: Settled) -> Intervals:
        """Of a service with these options."""
        election_ns = int(options.get("election_ms", ELECTION_MS)) * 1_000_000
        heartbeat_ns, trip_ns = election_ns // 3, settled.trip_ns
        # A try fails if its heartbeat, the answer, or what is sent then is lost.
        fails = 1 - (1 - settled.loss) ** 3
        return Intervals(
            from_ns=settled.from_ns,
            once_ns=election_ns + 2 * heartbeat_ns + 5 * trip_ns,
            again_ns=heartbeat_ns + max(election_ns, 2 * trip_ns),
            failures=ceil(log(UNLIKELY) / log(fails)) if fails else 0,
        )


def find_behind(
    log: Replication,
    leaders: Mapping[str, LeadersView],
    committed: Sequence[tuple[int, int]],
    booted: Mapping[str, int],
    intervals: Intervals,
) -> tuple[str, int, Departs] | None:
    """A server that has not caught up, when its leader was last seen to lead, and how it departs.

    committed   index -> (time, event) at which the entry was first committed
    booted      node -> when it last started
    """
    for name, leader in leaders.items():
        if not leader.serving or leader.term != log.disks[name].term:
            continue
        for node, disk in log.disks.items():
            if node == name or disk.term > leader.term or node not in booted:
                continue
            since_ns = max(intervals.from_ns, leader.from_ns, booted[node])
            again = intervals.failures + _more(log, disk, name)
            bound_ns = intervals.once_ns + intervals.again_ns * again
            until_ns = leader.led_ns - bound_ns
            due = bisect_right(committed, until_ns, key=itemgetter(0)) - 1
            if until_ns >= since_ns and not _has(disk, due, log.agreed):
                return node, leader.led_ns, _behind(name, disk, due, committed[due], bound_ns)
    return None


def _more(log: Replication, disk: Disk, leader: str) -> int:
    """Tries more than usual: one per term of entries that the leader lacks, and per batch."""
    leads = log.disks[leader]
    other = {disk.at(n) for n in range(disk.base + 1, disk.last + 1) if disk.at(n) != leads.at(n)}
    return len(other) + max(0, leads.last - disk.last) // BATCH


def _has(disk: Disk, index: int, agreed: Sequence[int]) -> bool:
    there = disk.base >= index or disk.at(index) == agreed[index]
    return there and disk.committed >= index


def _behind(
    leader: str, disk: Disk, due: int, committed: tuple[int, int], bound_ns: int
) -> Departs:
    return Departs(
        "a server catches up with its leader",
        str(disk),
        f"entry {due}, or a snapshot that covers it, taken as committed: it was committed at"
        f" {committed[0] / 1e9:.6f} s, and {leader} leads",
        f"at the end of the run it is committed to {disk.committed}, {bound_ns / 1e9:.3f} s and"
        " more after that, without a fault",
        began=committed[1],
        set_by=f"entry {due} is committed, which it should get",
    )
