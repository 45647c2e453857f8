"""Advice by what happened before a second grant: for the user of a lock, then for its author."""

from __future__ import annotations

from typing import NamedTuple


class Advice(NamedTuple):
    """What to do about one kind of event.

    user     of the lock, who cannot change it
    author   of the lock; quorum: what is added where it has several servers
    """

    user: str
    author: str
    quorum: str = ""


FENCE = "let the resource compare fencing tokens, or make each write conditional"
EVENTS: dict[str, Advice] = {
    "forced": Advice(
        "free a lock by force only after its owner has stopped.",
        "notify the owner in the step that frees the lock.",
    ),
    "released": Advice(
        "release once per entry, and do not repeat a release that had no response.",
        "count the entries of an owner, free the lock with the last one, and let a repeated release"
        " change nothing.",
    ),
    "foreign-release": Advice(
        f"do not release after the lease is over, and {FENCE}.",
        "store a value unique to each attempt and release by compare-and-delete.",
    ),
    "other-release": Advice(
        f"{FENCE}; take the lock exclusively where two owners would do harm.",
        "check all that is still held, and in which mode, in the step that grants.",
    ),
    "no-token": Advice(
        "check what an acquire returns before the work begins.",
        "treat a response as a grant only if it says so, and carries the token of a grant.",
    ),
    "same-token": Advice(
        f"give each owner an identity of its own; {FENCE}.",
        "grant a request only by a new hold with a new token, never because of its client's name or"
        " of its place in the queue.",
    ),
    "resumed": Advice(
        f"{FENCE}; another process may have looked at the lock long before it acts on it.",
        "look whose lock it is and change it in one step, or hold a kernel lock on another file"
        " between the two.",
    ),
    "gave-up": Advice(
        f"wait without giving up where the lock allows it; until it is fixed, {FENCE}.",
        "when a waiter leaves the queue, let the next one look again who holds the lock.",
    ),
    "late-answer": Advice(
        "compare the age of a grant with its lease before the work begins.",
        "refuse each call of a hold that is over, also its owner's first one.",
    ),
    "late-ok": Advice(
        "count the lease from the request, and stop at its end, whatever a later call returns.",
        "compare owner and token in the step that renews or releases, and refuse what is over.",
    ),
    "clock-change": Advice(
        f"let no server's clock be stepped while locks are held; {FENCE}.",
        "measure leases on a monotonic clock.",
    ),
    "restart": Advice(
        "after a restart let no client in for one lease; see whether the service's configuration"
        " writes each change to disk before it answers.",
        "store a grant and its counter on disk before the response.",
        "Do so on a majority of the servers.",
    ),
    "election": Advice(
        f"{FENCE}: a new leader may not know what its predecessor granted.",
        "let a new leader keep every lease that it inherits, for its full length, and grant only"
        " what a majority has stored.",
    ),
    "session": Advice(
        f"stop the work when the session ends; {FENCE}.",
        "end a session only after its whole time without a heartbeat, and its holds only with it.",
    ),
    "killed": Advice(
        f"{FENCE}: requests of a killed process may still be on their way.",
        "free the lock of a dead owner only when its lease or its session is over.",
    ),
    "owner-died": Advice(
        "free the lock by hand after a crash of its owner, or use a lock with a lease.",
        "bind each hold to a lease or a session, which ends when its owner is dead.",
    ),
    "connection": Advice(
        f"{FENCE}: an owner whose connection is gone may still be at work.",
        "bind a hold to its lease, not to a connection.",
    ),
    "lease": Advice(
        "ask for a longer lease than the work takes, and stop in time; until it is fixed, "
        + FENCE
        + ".",
        "let a lease end no earlier than its whole time after the last acknowledged renewal.",
    ),
    "ran-out": Advice(
        f"renew before the lease ends, and stop when it is over; {FENCE}.",
        "notify the owner when its lease ends, and refuse its later calls.",
    ),
    "owner-fault": Advice(
        f"{FENCE}: no lock stops an owner that was stopped or cut off itself.",
        "count a lease in the client from its last request that was answered, on a clock that goes"
        " on while the process is stopped.",
    ),
    "server-fault": Advice(
        f"{FENCE} as long as the service may be degraded.",
        "grant only from state that is current: an instance that cannot know must refuse.",
        "That takes an agreement of a majority of the servers.",
    ),
    "unanswered": Advice(
        "treat a call without a response as one that may still take effect.",
        "identify each request, so that a retried or late one changes nothing that came after it.",
    ),
    "concurrent": Advice(
        f"this lock does not exclude requests made at once: {FENCE}, or use another lock.",
        "test and set in one atomic step, on state that all processes share.",
    ),
    "nothing": Advice(
        f"this lock does not exclude its owners by itself: {FENCE}, or use another lock.",
        "check all that is held in the step that grants: every process, mode, permit and path.",
    ),
}
"""Kinds of events between two grants -> advice."""


def advice_of(event: str, servers: int) -> str:
    """Advice about an event, for a lock with a number of servers."""
    one = EVENTS[event]
    quorum = f" {one.quorum}" if one.quorum and servers > 1 else ""
    return f"If you use this lock: {one.user} If you wrote it: {one.author}{quorum}"
