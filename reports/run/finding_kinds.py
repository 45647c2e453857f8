"""Name, meaning and remedy of each kind of finding."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Kind:
    """A kind of finding: name, mechanism, remedy."""

    name: str
    means: str
    remedy: str


KINDS: dict[str, Kind] = {
    "double-grant": Kind(
        name="Double grant",
        means="the service granted a lock while its own responses prove that another client"
        " still held it, without any assumption about clocks (split brain)",
        remedy="Grant only from state that a quorum has agreed on and written to disk;"
        " check it in the same step. Look at failovers, restarts and partial quorums first.",
    ),
    "broken-lease": Kind(
        name="Broken lease",
        means="the service granted a lock to another client before a lease that it had granted"
        " had expired",
        remedy="Expire a lease no earlier than the clock error and the network delay"
        " of a renewal allow, and never shorten it across a restart or a failover.",
    ),
    "double-holder": Kind(
        name="Double holder",
        means="two clients held a lock at the same time: the first had neither released it nor been"
        " notified of a loss (split brain)",
        remedy="Grant it again only after a release by the same attempt, or after the holder was"
        " notified. A holder that renews needs a timeout on every request, and stops before a lease"
        " that it counts from its last acknowledged renewal, on a monotonic clock.",
    ),
    "dead-grant": Kind(
        name="Dead grant",
        means="the service granted a lock to a session or attempt whose end it had already"
        " acknowledged, so no client will release it",
        remedy="Remove the waiters of a session in the step that ends the session.",
    ),
    "stale-belief": Kind(
        name="Stale belief",
        means="a client still believed that it held the lock after its lease expired, while another"
        " client held it; no lock can prevent this, fencing makes it harmless",
        remedy="Send the fencing token with every request and let the resource reject old ones.",
    ),
    "stale-accepted-write": Kind(
        name="Stale accepted write",
        means="the resource accepted a write of an earlier owner after it had served a"
        " later one, because the request did not identify the earlier owner as outdated",
        remedy="Send a fencing token with every write and let the resource reject any token that"
        " is smaller than the largest it has seen; a longer lease does not make a lock without"
        " tokens safe.",
    ),
    "expired-owner-write": Kind(
        name="Expired-owner write",
        means="the resource accepted a write whose owner's hold had already ended",
        remedy="Compare fencing tokens: they stop the write once a newer owner was served. Before"
        " that, keep writes well inside the lease (check the remaining time before each), or let"
        " the resource ask the lock service whether the hold is in force.",
    ),
    "lost-update": Kind(
        name="Lost update",
        means="two accepted writes were built on the same version, so one of them silently"
        " overwrote the other",
        remedy="Make the write conditional on the version that was read (compare-and-set), or"
        " fence it.",
    ),
    "applied-twice": Kind(
        name="Applied twice",
        means="one command was executed twice, most likely after a retry whose first try had"
        " succeeded without a response",
        remedy="Give every command an idempotency key and let the receiver store applied keys.",
    ),
    "false-rejection": Kind(
        name="False rejection",
        means="the resource rejected the valid token of the current holder",
        remedy="Reject only tokens < the largest seen, and persist that largest token.",
    ),
    "job-done-twice": Kind(
        name="Job done twice",
        means="a singleton job took effect twice, because its second owner"
        " could not see what the first owner had done or was still doing",
        remedy="Make the effect itself the mark that the job is done, and fence it, or give it an"
        " idempotency key; a separate mark can be lost between the two.",
    ),
    "job-never-done": Kind(
        name="Job never done",
        means="a job was considered done although it never took effect",
        remedy="Mark a job as done with its effect or after it, never before; treat a missing"
        " response as unknown, and check again.",
    ),
    "token-inversion": Kind(
        name="Token went backwards",
        means="a later grant carried a fencing token that is not larger than an earlier one, so a"
        " resource that compares tokens rejects the current owner or admits an outdated one",
        remedy="Take tokens from one ordered, durable counter; the largest of several independent"
        " counters is not ordered when servers drop out or restart.",
    ),
    "token-repeated": Kind(
        name="Token used twice",
        means="two grants carried the same fencing token, so the resource cannot distinguish their"
        " owners",
        remedy="Increment the counter in the same durable step that records the grant.",
    ),
    "lost-grant": Kind(
        name="Grant lost with the power",
        means="a power loss removed a grant that the service had acknowledged, and it granted the"
        " lock to another client (split brain)",
        remedy="Sync the grant to disk before the response (fsync, not only a write), on a majority"
        " of the servers; check what the configured durability mode really promises.",
    ),
    "token-after-power-loss": Kind(
        name="Token issued again after a power loss",
        means="a power loss set back the token counter, so a later owner carries a token that is"
        " not larger than an earlier one",
        remedy="Sync the counter before a token leaves the server, or begin after every restart far"
        " beyond the largest token that can have been issued.",
    ),
    "revived-hold": Kind(
        name="Released hold revived",
        means="a power loss undid an acknowledged release, so the former owner holds again",
        remedy="Sync a release before its response, or bind holds to sessions that end with a"
        " restart.",
    ),
    "grant-before-sync": Kind(
        name="Grant before its sync",
        means="the service acknowledged a grant while no disk of a majority took a write, so a"
        " power loss would have undone it",
        remedy="Send the response only after the sync of the record that it depends on.",
    ),
    "foreign-release": Kind(
        name="Foreign release",
        means="a release by a client that did not hold the lock succeeded and may have freed"
        " the lock of a later owner",
        remedy="Store a value unique to each attempt and release by compare-and-delete.",
    ),
    "foreign-renewal": Kind(
        name="Foreign renewal",
        means="a renewal by a client that did not hold the lock succeeded",
        remedy="Renew by attempt and token, never by client name or by key alone.",
    ),
    "lost-without-notice": Kind(
        name="Lost without notice",
        means="a client lost its lock and was never notified, although it was reachable",
        remedy="Notify the holder when its lease expires, and let its own timer assume the loss if"
        " there is no response.",
    ),
    "late-grant-notice": Kind(
        name="Late grant notice",
        means="a waiting client was granted the lock and notified later than the system promises,"
        " while its lease ran and other clients waited",
        remedy="Notify the waiter in the step that grants, and let it poll if there is no"
        " notification for a while.",
    ),
    "wrong-reason": Kind(
        name="Wrong reason",
        means="a loss notification carried a reason that cannot have been the cause",
        remedy="Store the reason in the step that ends the hold, and report that"
        " reason, however late the holder asks.",
    ),
    "late-notice": Kind(
        name="Late notice",
        means="a client was notified of the loss of its lock later than the system promises",
        remedy="Query the state of every hold as soon as a connection is back.",
    ),
    "write-after-notice": Kind(
        name="Write after notice",
        means="a client continued to write after it was notified that its lock was lost",
        remedy="Stop the work, not only the renewals, when the loss is reported.",
    ),
    "deadlock": Kind(
        name="Deadlock",
        means="clients waited for a lock that its holder had released or lost, and no request was"
        " granted",
        remedy="Wake the next waiter in the same step that frees the lock; look for lost wake-ups"
        " and for dead waiters that are still in the queue.",
    ),
    "livelock": Kind(
        name="Livelock",
        means="clients kept retrying while no client could hold the"
        " lock, and no request was granted",
        remedy="Retry with randomized exponential backoff, or queue; look for failed"
        " tries that block each other.",
    ),
    "early-grant": Kind(
        name="Early grant",
        means="a lock was granted within its lock-delay, after the session of its holder had died",
        remedy="Start the lock-delay in the step that ends the session; a new leader restarts it.",
    ),
    "over-admission": Kind(
        name="Over-admission",
        means="more permits of a semaphore were held at the same time than exist",
        remedy="Count permits, not holders, and admit in the step that counts.",
    ),
    "overtaken": Kind(
        name="Overtaken",
        means="later requests were granted the lock before a queued one, more often"
        " than the declared order allows",
        remedy="Serve the queue from its head; grant no new request while it is not empty.",
    ),
    "beyond-queue": Kind(
        name="Served after its queue",
        means="a request was granted after more grants to others than there can have been requests"
        " ahead of it in the queue",
        remedy="Serve the queue from its head.",
    ),
    "starved": Kind(
        name="Starved",
        means="a request waited while the lock was repeatedly granted to later requests",
        remedy="Admit no reader while a writer waits, and give priority to overtaken requests.",
    ),
    "false-answer": Kind(
        name="False answer",
        means="a query result contradicts the grants and releases of the lock",
        remedy="Answer queries from the same agreed state that grants, not from a copy.",
    ),
    "false-length": Kind(
        name="False queue length",
        means="the service reported a queue longer than it can be, or shorter than it was",
        remedy="Count the queue in the same agreed state that grants, without the holder.",
    ),
    "false-entries": Kind(
        name="False entry count",
        means="a release reported more entries left for its owner than there can be, or fewer than"
        " there were, such as a lock that is fully released",
        remedy="Count the entries of an owner in the step that ends one, and return that count.",
    ),
    "false-condition": Kind(
        name="False condition",
        means="a conditional acquire was granted or rejected contrary to its condition",
        remedy="Check the condition in the step that grants, also for queued requests.",
    ),
    "orphan": Kind(
        name="Orphaned lock",
        means="a lock that no client can hold any more was still refused",
        remedy="Give every lock an owner that can die: a lease or a session that expires.",
    ),
    "not-linearizable": Kind(
        name="Not linearizable",
        means="no order of the operations, each taking effect between its call and its return, is"
        " one that the object allows",
        remedy="Look at the first operation named, and at those concurrent with it.",
    ),
    "hung-request": Kind(
        name="Hung request",
        means="a request was neither granted nor rejected within its timeout",
        remedy="Give every call its own deadline, in the client and in the service.",
    ),
    "multi-lock-deadlock": Kind(
        name="Multi-lock deadlock",
        means="clients waited for each other's locks in a wait-for cycle that was not resolved",
        remedy="Acquire locks in one agreed order, or detect the cycle and abort one request.",
    ),
    "spurious-refusal": Kind(
        name="Spurious refusal",
        means="the service responded that a lock was held although no client can have held it",
        remedy="Check for state that outlives its owner, such as the partial grants of a failed"
        " quorum.",
    ),
}


CAUSES: dict[str, tuple[str, str]] = {
    "foreign-release": (
        "foreign-release",
        "a client that did not hold the lock released it, which freed another client's hold; the"
        " next grant then met that hold:",
    ),
    "late-release": (
        "foreign-release",
        "a release returned ok after its lease may have expired; either it freed another client's"
        " hold, or",
    ),
}
"""Cause of a finding -> the kind of finding that the cause is itself, and the words for it."""


def kind(name: str, cause: str = "") -> Kind:
    """The entry of a kind of finding, or a generic one for an unknown kind.

    cause   of CAUSES: it is named first, and its remedy is shown
    """
    known = KINDS.get(name)
    if known and cause in CAUSES:
        own, first = CAUSES[cause]
        return Kind(name=known.name, means=f"{first} {known.means}", remedy=KINDS[own].remedy)
    if known:
        return known
    title = name.replace("-", " ").strip() or "finding"
    return Kind(
        name=title[:1].upper() + title[1:],
        means="the recorded history contradicts the property",
        remedy="Read the events that prove it, in their order.",
    )
