"""What is commonly claimed of one property of one lock, and under which faults it is not claimed.

Data beside measured cells; nothing here was measured. Told in our own words from the published
descriptions of each system: that nothing is claimed is said of what its documentation leaves open.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

TEXTBOOK = (
    "mutual-exclusion",
    "deadlock-freedom",
    "starvation-freedom",
    "bounded-wait",
    "no-stale-write",
)
"""The properties that textbooks have a column for, in their order."""
PARTITIONED = {
    "safety under partition": ("mutual-exclusion", "partition"),
    "liveness under partition": ("deadlock-freedom", "partition"),
}
"""Columns of one property under one kind of fault: what a lock gives up when it is cut apart."""
CLAIMED, NOT_CLAIMED = "claimed", "not claimed"


@dataclass(frozen=True, kw_only=True, slots=True)
class CellClaim:
    """One claim.

    claimed   whether the property is claimed at all
    says      why, or why not
    lost      kinds of fault under which it is not claimed
    """

    claimed: bool
    says: str
    lost: tuple[str, ...] = ()

    def under(self, fault: str) -> str:
        """CLAIMED or NOT_CLAIMED of one kind of fault; "" of several and of a scenario's."""
        if fault == "several" or fault.startswith("scenario "):
            return ""
        if not self.claimed or fault in self.lost:
            return NOT_CLAIMED
        return CLAIMED

    def sentence(self) -> str:
        """The claim in words."""
        head = CLAIMED if self.claimed else NOT_CLAIMED
        unless = f", but not under {', '.join(self.lost)}" if self.lost else ""
        return f"{head}{unless}: {self.says}"


def _yes(says: str, *lost: str) -> CellClaim:
    return CellClaim(claimed=True, says=says, lost=lost)


def _no(says: str) -> CellClaim:
    return CellClaim(claimed=False, says=says)


def _table(
    exclusion: CellClaim, deadlock: CellClaim, starvation: CellClaim, wait: CellClaim
) -> dict[str, CellClaim]:
    return dict(zip(TEXTBOOK, (exclusion, deadlock, starvation, wait), strict=False))


_RACE = _no("the first poll after a release gets it: clients poll, there is no queue")
_UNBOUNDED = _no("without a queue no number of grants to others bounds a wait")
_EXPIRES = _yes("a dead owner's key or lease expires by itself")
_QUEUED = _yes("waiters are queued, and served in order")
_IN_TURN = _yes("at most as many grants to others as requests ahead in the queue")
_NO_LOCK = _no("nothing is locked")
_AUTHOR = _no("whatever its author claims")

_ROW_LEASE = _table(
    _yes("one conditional write decides, by a wall clock", "clock"), _EXPIRES, _RACE, _UNBOUNDED
)

CELLS: Mapping[str, Mapping[str, CellClaim]] = {
    "reference": _table(
        _yes("a grant is an entry that a majority has on disk"), _EXPIRES, _QUEUED, _IN_TURN
    ),
    "chubby": _table(
        _yes("a grant is an entry that a majority has on disk"),
        _yes("the locks of a dead session are freed, after a lock-delay"),
        _no("published designs of this kind promise no order among waiters"),
        _no("without a promised order no number of grants to others bounds a wait"),
    ),
    "single": _table(_yes("one process decides, from memory", "kill"), _EXPIRES, _RACE, _UNBOUNDED),
    "majority": _table(
        _yes("two majorities share a member, which votes once", "kill", "clock"),
        _yes("a vote without a majority expires or is released, and is retried"),
        _RACE,
        _UNBOUNDED,
    ),
    "redis": _table(
        _yes("one server decides, by a key that only its owner deletes", "kill", "clock"),
        _EXPIRES,
        _RACE,
        _UNBOUNDED,
    ),
    "redis-sentinel": _table(
        _yes("one primary decides; what was not copied is lost with it", "kill", "clock", "pause"),
        _EXPIRES,
        _RACE,
        _UNBOUNDED,
    ),
    "redis-cluster": _table(
        _yes("the slot's primary decides; what was not copied is lost", "kill", "clock", "pause"),
        _EXPIRES,
        _RACE,
        _UNBOUNDED,
    ),
    "redlock": _table(
        _yes("a majority of independent servers has the key, and keeps it", "kill", "clock"),
        _EXPIRES,
        _RACE,
        _UNBOUNDED,
    ),
    "program": _table(_AUTHOR, _AUTHOR, _AUTHOR, _AUTHOR),
    "etcd": _table(
        _yes("the lowest creation revision holds, agreed by a majority"),
        _EXPIRES,
        _yes("waiters are ordered by the revision that created their keys"),
        _IN_TURN,
    ),
    "zookeeper": _table(
        _yes("the lowest sequence number holds, agreed by a majority"),
        _yes("a dead session's node is removed, and its successor is notified"),
        _yes("waiters are ordered by the sequence number of their nodes"),
        _IN_TURN,
    ),
    "postgres-advisory": _table(
        _yes("one server decides, for as long as the connection lives", "kill"),
        _yes("a dead connection's locks are freed; a wait-for cycle ends with an error"),
        _yes("waiters are in the server's queue"),
        _no("the queue may be reordered to end a wait-for cycle"),
    ),
    "postgres-row": _table(
        _yes("one server decides, for the length of a transaction", "kill"),
        _yes("a dead transaction is rolled back; a wait-for cycle ends with an error"),
        _no("no order of the waiters for a row is documented"),
        _UNBOUNDED,
    ),
    "mariadb-row": _table(
        _yes("one server decides, for the length of a transaction", "kill"),
        _yes("a dead transaction is rolled back; a wait-for cycle ends with an error"),
        _no("a wait ends with a timeout, and starts again behind others"),
        _UNBOUNDED,
    ),
    "mariadb-get-lock": _table(
        _yes("one server decides, for as long as the session lives", "kill"),
        _yes("a dead session's locks are freed; a wait-for cycle ends with an error"),
        _no("no order of the waiters for a name is documented"),
        _UNBOUNDED,
    ),
    "galera-lease": _ROW_LEASE,
    "galera-get-lock": _table(
        _no("each server has names of its own, and clients may use any server"),
        _yes("a dead session's locks are freed; a wait-for cycle ends with an error"),
        _no("no order of the waiters for a name is documented"),
        _UNBOUNDED,
    ),
    "memcached": _table(
        _yes("one server stores a key once, and forgets it with a restart", "kill", "pause"),
        _EXPIRES,
        _RACE,
        _UNBOUNDED,
    ),
    "postgres-lease": _ROW_LEASE,
    "postgres-patroni": _table(
        _yes("one primary decides; what was not copied is lost with it", "kill", "clock", "pause"),
        _EXPIRES,
        _RACE,
        _UNBOUNDED,
    ),
    "mariadb-lease": _ROW_LEASE,
    "dynamodb": _table(
        _yes("a conditional write decides, on one item"),
        _yes("an item whose version does not change is taken over"),
        _RACE,
        _UNBOUNDED,
    ),
    "s3": _table(
        _yes("a conditional write decides, on one object"),
        _no("an object does not expire: a dead owner's is deleted by hand"),
        _RACE,
        _UNBOUNDED,
    ),
    "gcs": _table(
        _yes("a conditional write decides, on one object"),
        _no("an object does not expire, unless its clients agree on a time in it"),
        _RACE,
        _UNBOUNDED,
    ),
    "azure-blob": _table(
        _yes("one service grants a lease, by its clock", "clock"),
        _yes("a lease ends after at most 60 s, unless it is infinite"),
        _RACE,
        _UNBOUNDED,
    ),
    "cockroachdb": _table(
        _yes("a replicated store decides; the lock itself may be lost with its node", "kill"),
        _yes("a dead transaction is rolled back; a wait-for cycle ends with an error"),
        _yes("requests wait in a queue per key"),
        _no("no bound is documented"),
    ),
    "nats-kv": _table(
        _yes("one log decides on each condition", "clock"), _EXPIRES, _RACE, _UNBOUNDED
    ),
    "kubernetes": _table(
        _yes("a record is replaced only under the version that was read"),
        _yes("a record that does not change for its duration is taken over"),
        _RACE,
        _UNBOUNDED,
    ),
    "flock": _table(
        _yes("the kernel of one host decides"),
        _yes("the kernel ends the locks of a process with the process"),
        _RACE,
        _UNBOUNDED,
    ),
    "cas": _table(_NO_LOCK, _NO_LOCK, _NO_LOCK, _NO_LOCK),
    "idempotent": _table(_NO_LOCK, _NO_LOCK, _NO_LOCK, _NO_LOCK),
    "none": _table(_NO_LOCK, _NO_LOCK, _NO_LOCK, _NO_LOCK),
}
_FENCED = _yes("the resource refuses a token that is older than the newest it has seen")
_UNFENCED = _no("a resource that compares no tokens takes a late write, whatever the lock does")
_FENCED_BY: Mapping[str, CellClaim] = {
    "single": _yes("the resource compares tokens, which a restart of the server resets", "kill"),
    "redis": _yes("the resource compares numbers of a counter beside the key", "kill"),
    "majority": _no("tokens are the largest of several counters, which has no order"),
}
SYNCED = "persistence=always"
"""Of a server that syncs each write: a crash loses no acknowledged write."""


def cell_claim(label: str, prop: str) -> CellClaim | None:
    """What is claimed of a property of a system as a result names it; None: nothing is known."""
    system, *options = label.split(" ")
    if system not in CELLS:
        return None
    claim = CELLS[system].get(prop)
    if prop == "no-stale-write":
        claim = _UNFENCED if "unfenced" in options else _FENCED_BY.get(system, _FENCED)
    if claim is None:
        return None
    if "queue=racing" in options and prop in ("starvation-freedom", "bounded-wait"):
        return _RACE if prop == "starvation-freedom" else _UNBOUNDED
    if "leases=none" in options and prop == "deadlock-freedom":
        return _no("a hold ends by its release only: a crashed owner's lock is held forever")
    lost = tuple(kind for kind in claim.lost if kind != "kill" or SYNCED not in options)
    return CellClaim(claimed=claim.claimed, says=claim.says, lost=lost)
