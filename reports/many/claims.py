"""The common claim about each lock service, its mechanism and its limit.

Shown beside measured cells; nothing here was measured. Each row is our own summary of the published
descriptions of the system.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Claim:
    """The claim about one system; `caveat` is printed as its limit."""

    claim: str
    mechanism: str
    caveat: str


CLAIMS: Mapping[str, Claim] = {
    "reference": Claim(
        claim="mutual exclusion under any network fault, while a majority of servers is up",
        mechanism="every grant is an entry in a replicated log; tokens are log positions",
        caveat="a paused owner resumes with a stale belief; only fencing by the resource stops it",
    ),
    "chubby": Claim(
        claim="mutual exclusion while a majority is up; a dead client's lock has a lock-delay",
        mechanism="sessions with heartbeats, a lock-delay, sequencers checked by the resource",
        caveat="requests of a dead client may outlast the lock-delay; then only sequencers help",
    ),
    "single": Claim(
        claim="mutual exclusion while its only server runs",
        mechanism="an in-memory table of leases and a token counter",
        caveat="a restart loses all holds and resets the tokens",
    ),
    "majority": Claim(
        claim="mutual exclusion, because two majorities share a member",
        mechanism="a client requests the lock from independent servers and counts the grants",
        caveat="a member votes twice after a restart or a lease expiry; tokens are not ordered",
    ),
    "redis": Claim(
        claim="mutual exclusion while the server is up and its clock is correct",
        mechanism="SET NX PX with a unique value per owner, compare-and-delete to release",
        caveat="no fencing token; a failover or an unsynced restart loses the lock",
    ),
    "redis-sentinel": Claim(
        claim="availability, because sentinels promote a replica when the primary fails",
        mechanism="the same key, replicated asynchronously, after the response to the owner",
        caveat="a promotion loses keys not yet replicated, including the lock; no token",
    ),
    "redlock": Claim(
        claim="mutual exclusion even if a minority of N independent Redis servers is down",
        mechanism="the same key on a majority; validity is the rest of the lease after the round",
        caveat="assumes clocks that do not step and pauses shorter than the lease; no token",
    ),
    "program": Claim(
        claim="as declared by its author",
        mechanism="unknown: the service behind the client program",
        caveat="only the responses that its clients receive are known, not its server",
    ),
    "etcd": Claim(
        claim="mutual exclusion under partitions; holds end with their lease",
        mechanism="keys bound to a lease, ordered by create revision",
        caveat="the owner may learn late that its lease expired; resources must check the revision",
    ),
    "zookeeper": Claim(
        claim="mutual exclusion and FIFO order under partitions",
        mechanism="ephemeral sequential nodes; each waiter watches its predecessor",
        caveat="a session may expire before its owner knows; the zxid serves as a token",
    ),
    "postgres-advisory": Claim(
        claim="mutual exclusion while the connection and the primary are up",
        mechanism="an in-memory lock of the server, bound to a session or a transaction",
        caveat="ends with the connection, which a partitioned owner does not notice; no token",
    ),
    "postgres-row": Claim(
        claim="mutual exclusion for the duration of a transaction",
        mechanism="SELECT ... FOR UPDATE locks the row until commit or rollback",
        caveat="actions of the owner outside the database are not protected",
    ),
    "mariadb-row": Claim(
        claim="mutual exclusion for the duration of a transaction",
        mechanism="SELECT ... FOR UPDATE locks index records until commit or rollback",
        caveat="a lock wait timeout rolls back the statement, not always the transaction",
    ),
    "mariadb-get-lock": Claim(
        claim="mutual exclusion while the session and the one server are up",
        mechanism="a named lock in the memory of the server, bound to a session",
        caveat="ends with the session, which a partitioned owner does not notice; no token; not"
        " replicated",
    ),
    "memcached": Claim(
        claim="avoids duplicate work; the key expires if the owner crashes",
        mechanism="add stores a key only if it is absent, with a time to live",
        caveat="a restart or eviction loses the key; lifetimes are whole seconds; no token",
    ),
    "postgres-lease": Claim(
        claim="one owner at a time, for as long as the time in its row lasts",
        mechanism="a conditional write of a row with owner and time (ShedLock, pg-boss, Quartz)",
        caveat="a wall clock decides: a step of it ends a lease early; no token",
    ),
    "mariadb-lease": Claim(
        claim="one owner at a time, for as long as the time in its row lasts",
        mechanism="a conditional write of a row with owner and time (ShedLock, pg-boss, Quartz)",
        caveat="a wall clock decides: a step of it ends a lease early; no token",
    ),
    "dynamodb": Claim(
        claim="mutual exclusion while owners send heartbeats",
        mechanism="conditional writes on a record version number that waiters poll for changes",
        caveat="the version is random: it identifies owners but does not order them",
    ),
    "cockroachdb": Claim(
        claim="mutual exclusion for a transaction, on a database that survives node failures",
        mechanism="SELECT ... FOR UPDATE over the PostgreSQL protocol, on a replicated store",
        caveat="the lock may be lost when another node takes over the row; no token",
    ),
    "nats-kv": Claim(
        claim="mutual exclusion: a key is created only if absent, decided by one log",
        mechanism="conditional writes on a key's latest revision, in a bucket with an age limit",
        caveat="keys expire by the servers' wall clocks, all after the same time; no loss notice",
    ),
    "kubernetes": Claim(
        claim="one leader at a time, as far as the monotonic clocks of candidates agree in rate",
        mechanism="compare-and-replace of a record that candidates watch for changes",
        caveat="a leader that cannot renew has to stop by itself; no token unless it is checked",
    ),
    "flock": Claim(
        claim="mutual exclusion between processes of one host, ended by the kernel with the owner",
        mechanism="a kernel lock on a file (flock, fcntl), or the file's exclusive creation (excl)",
        caveat="advisory; closing any descriptor of the file ends an fcntl lock; excl must guess"
        " whether an owner is dead",
    ),
    "cas": Claim(
        claim="no lock, but no lost update if each write names the version it is based on",
        mechanism="the resource accepts a write only on its latest version",
        caveat="owners work concurrently; nothing outside the one register is protected",
    ),
    "idempotent": Claim(
        claim="no lock, but a repeated command takes effect once",
        mechanism="the resource stores the key of each command it has applied",
        caveat="only commands with such a key: two different updates still overwrite each other",
    ),
    "none": Claim(
        claim="no mutual exclusion",
        mechanism="every acquire is granted",
        caveat="the control, for comparison",
    ),
}


def claim_of(label: str) -> Claim | None:
    """The claim of a system as a result names it: "redis persistence=always"."""
    return CLAIMS.get(label.split(" ", 1)[0])
