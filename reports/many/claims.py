"""What is commonly said of each lock, how it is meant to come about, and where that ends.

Data beside measured cells; nothing here was measured. Each row is told in our own words from the
published descriptions of the system.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Claim:
    """One row of the table that textbooks print from memory."""

    claim: str
    mechanism: str
    caveat: str


CLAIMS: Mapping[str, Claim] = {
    "reference": Claim(
        claim="exclusive as long as a majority of the servers lives, whatever the network does",
        mechanism="every grant is an entry of a replicated log; tokens are its positions",
        caveat="a paused owner goes on believing; only a resource that checks tokens stops it",
    ),
    "chubby": Claim(
        claim="exclusive while a majority lives; a dead client's lock is closed for a while",
        mechanism="sessions with heartbeats, a lock-delay, sequencers that the resource compares",
        caveat="what a dead client sent may take longer than the delay; then only sequencers help",
    ),
    "single": Claim(
        claim="exclusive while its one server runs",
        mechanism="a table of leases in memory and a counter for tokens",
        caveat="a restart forgets every hold and begins the tokens again",
    ),
    "majority": Claim(
        claim="exclusive because two majorities share a member",
        mechanism="a client asks independent servers and counts the grants",
        caveat="a member that restarts or lets a lease run out votes twice; tokens have no order",
    ),
    "redis": Claim(
        claim="exclusive while the server lives and its clock keeps time",
        mechanism="SET NX PX with a value of the owner's own, compare-and-delete to release",
        caveat="no fencing token; a failover or an unsynced restart forgets the lock",
    ),
    "redis-sentinel": Claim(
        claim="available, because sentinels promote a replica when the primary is gone",
        mechanism="the same key, copied to a replica after the owner has its answer",
        caveat="a promotion forgets what was not copied yet, and with it the lock; no token",
    ),
    "redlock": Claim(
        claim="exclusive although some of N independent Redis servers are down",
        mechanism="the same key on a majority, and what is left of the lease after asking",
        caveat="leans on clocks that do not step and on pauses shorter than the lease; no token",
    ),
    "program": Claim(
        claim="what its author says of it",
        mechanism="whatever the client program talks to",
        caveat="nothing is known of its server but what its clients were told",
    ),
    "etcd": Claim(
        claim="exclusive under partitions; holds end with their lease",
        mechanism="keys bound to a lease, ordered by the revision that created them",
        caveat="the owner may learn late that its lease ended; the revision has to be checked",
    ),
    "zookeeper": Claim(
        claim="exclusive and in order of arrival under partitions",
        mechanism="ephemeral sequential nodes; each waiter watches the one before it",
        caveat="a session may be over before its owner knows; the zxid serves as a token",
    ),
    "postgres-advisory": Claim(
        claim="exclusive while the connection and the primary live",
        mechanism="a lock in the memory of the server, bound to session or transaction",
        caveat="ends with the connection, unseen by an owner that is cut off; no token",
    ),
    "postgres-row": Claim(
        claim="exclusive for the length of a transaction",
        mechanism="SELECT ... FOR UPDATE locks the row until commit or rollback",
        caveat="what the owner does outside of the database is not covered",
    ),
    "mariadb-row": Claim(
        claim="exclusive for the length of a transaction",
        mechanism="SELECT ... FOR UPDATE locks index records until commit or rollback",
        caveat="a wait that times out rolls back a statement, not always the transaction",
    ),
    "dynamodb": Claim(
        claim="exclusive while owners send heartbeats",
        mechanism="conditional writes on a record version number that waiters watch for change",
        caveat="the version is random: it tells owners apart and puts them in no order",
    ),
    "cockroachdb": Claim(
        claim="exclusive for the length of a transaction, on a database that survives its nodes",
        mechanism="SELECT ... FOR UPDATE over the wire of PostgreSQL, on a replicated store",
        caveat="such a lock may be lost when another node serves the row; no token",
    ),
    "nats-kv": Claim(
        claim="exclusive: a key is created only where there is none, decided by one log",
        mechanism="conditional writes on a key's newest revision, in a bucket with an age limit",
        caveat="keys age by the servers' wall clocks, all after one time; the owner is not told",
    ),
    "cas": Claim(
        claim="no lock, and yet no update is lost where each names the version it builds on",
        mechanism="the resource takes a write only on its newest version",
        caveat="owners work side by side; what is outside the one register is not protected",
    ),
    "idempotent": Claim(
        claim="no lock, and yet a command that is sent again takes effect once",
        mechanism="the resource knows a command by its key and remembers that it carried it out",
        caveat="only for what has such a key: two different updates still overwrite each other",
    ),
    "none": Claim(
        claim="nothing is excluded",
        mechanism="every acquire is granted",
        caveat="the control: what the others are compared with",
    ),
}


def claim_of(label: str) -> Claim | None:
    """The claim of a system as a result names it: "redis persistence=always"."""
    return CLAIMS.get(label.split(" ", 1)[0])
