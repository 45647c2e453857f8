"""What each kind of finding means, and what whoever owns the lock can do about it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Kind:
    """A kind of finding in words: its name, its mechanism, the remedy."""

    name: str
    means: str
    remedy: str


KINDS: dict[str, Kind] = {
    "double-grant": Kind(
        name="Double grant",
        means="the service granted a lock while its own answers prove that another client"
        " still held it, so it contradicted itself without any help from clocks",
        remedy="Grant only from state that a quorum has agreed on and written to disk, and"
        " check it in the same step; look at failovers, restarts and partial quorums first.",
    ),
    "broken-lease": Kind(
        name="Broken lease",
        means="the service granted a lock to someone else before a lease that it had promised"
        " was over",
        remedy="Let the service end a lease no earlier than its clock error and the travel time"
        " of a renewal allow, and never shorten one across a restart or a failover.",
    ),
    "double-holder": Kind(
        name="Double holder",
        means="two clients held one lock at once although only a release can free it",
        remedy="Bind the lock to the session or connection that took it, and grant it again"
        " only after a release by that very attempt.",
    ),
    "dead-grant": Kind(
        name="Dead grant",
        means="the service granted a lock to a session or attempt whose end it had already"
        " acknowledged, so nobody is there to give it back",
        remedy="Remove the waiters of a session in the same step that ends the session.",
    ),
    "stale-belief": Kind(
        name="Stale belief",
        means="a client went on believing in a hold whose lease was over while another client"
        " held the lock; no lock can prevent this, fencing makes it harmless",
        remedy="Send the fencing token with every request and let the resource refuse old ones.",
    ),
    "stale-accepted-write": Kind(
        name="Stale accepted write",
        means="the resource accepted a write of an earlier owner after it had already served a"
        " later one, because nothing in the request told it that the earlier owner was outdated",
        remedy="Send a fencing token with every write and let the resource refuse any token that"
        " is smaller than the largest it has seen; a lock without tokens cannot be made safe by"
        " a longer lease.",
    ),
    "expired-owner-write": Kind(
        name="Expired-owner write",
        means="the resource accepted a write whose owner's hold had already ended",
        remedy="Compare fencing tokens: they stop the write once a newer owner was served. Before"
        " that only the lock service knows: keep the writes well inside the lease (check the time"
        " left before each), or let the resource ask whether the hold still stands.",
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
        means="one command was carried out twice, most likely after a retry whose first try had"
        " succeeded unseen",
        remedy="Give every command an identity and let the receiver remember those it has done.",
    ),
    "false-rejection": Kind(
        name="False rejection",
        means="the resource refused the valid token of the current holder",
        remedy="Compare with 'smaller than the largest seen', and persist that largest token.",
    ),
    "job-done-twice": Kind(
        name="Job done twice",
        means="a job that one of many was to do had its effect two times, because its second owner"
        " could not see what the first one had done or was still to do",
        remedy="Let the effect itself say that the job is done, and fence it, or give it a key by"
        " which the receiver knows it again; a mark beside it can be lost between the two.",
    ),
    "job-never-done": Kind(
        name="Job never done",
        means="a job was taken for done although it never had its effect",
        remedy="Mark a job as done with its effect or after it, never before; take an answer that"
        " did not come for unknown, and look again.",
    ),
    "token-inversion": Kind(
        name="Token went backwards",
        means="a later grant carried a fencing token that is not larger than an earlier one, so a"
        " resource that compares tokens refuses the true owner or lets an outdated one in",
        remedy="Draw tokens from one ordered, durable counter; the largest of several independent"
        " counters is not ordered when servers drop out or restart.",
    ),
    "token-repeated": Kind(
        name="Token used twice",
        means="two grants carried the same fencing token, so the resource cannot tell their"
        " owners apart",
        remedy="Count up once per grant in the same durable step that records the grant.",
    ),
    "foreign-release": Kind(
        name="Foreign release",
        means="a release succeeded for someone who did not hold the lock, and so may have freed"
        " the lock of a later owner",
        remedy="Store a value unique to each attempt and release by compare-and-delete.",
    ),
    "foreign-renewal": Kind(
        name="Foreign renewal",
        means="a renewal succeeded for someone who did not hold the lock",
        remedy="Renew by attempt and token, never by client name or by key alone.",
    ),
    "lost-without-notice": Kind(
        name="Lost without notice",
        means="a client lost its lock and was never told, although it could be reached",
        remedy="Tell the holder when a lease ends, and let its own timer assume the loss when no"
        " answer comes.",
    ),
    "late-grant-notice": Kind(
        name="Late grant notice",
        means="a client that waited was granted the lock and heard of it later than the system"
        " promises, while its lease ran and others waited",
        remedy="Tell the waiter in the step that grants, and let it ask again where it heard"
        " nothing for a while.",
    ),
    "wrong-reason": Kind(
        name="Wrong reason",
        means="a client was told of a loss with a reason that cannot have been the cause",
        remedy="Keep the reason of every end in the same step that ends the hold, and tell that"
        " one, however late the holder asks.",
    ),
    "late-notice": Kind(
        name="Late notice",
        means="a client was told of the loss of its lock later than the system promises",
        remedy="Re-ask for the state of every hold as soon as a connection is back.",
    ),
    "write-after-notice": Kind(
        name="Write after notice",
        means="a client went on writing after it had been told that its lock was lost",
        remedy="Stop the work, not only the renewals, when the loss is reported.",
    ),
    "deadlock": Kind(
        name="Deadlock",
        means="clients waited for a lock that its holder had given back or lost, and nobody was"
        " granted it",
        remedy="Wake the next waiter in the same step that frees the lock; look for lost wake-ups"
        " and for waiters that are gone but still stand in the queue.",
    ),
    "livelock": Kind(
        name="Livelock",
        means="clients tried again and again, no less often in the end, while nobody could hold the"
        " lock and nobody was granted it",
        remedy="Let whoever is refused wait for a random time that grows, or queue; look for failed"
        " tries that keep each other out.",
    ),
    "early-grant": Kind(
        name="Early grant",
        means="a lock was granted within the time for which it was to be closed, because the"
        " session of its holder had died",
        remedy="Close the lock in the same step that ends the session, and count the delay from"
        " there; a new leader counts it anew.",
    ),
    "over-admission": Kind(
        name="Over-admission",
        means="more permits of a semaphore were held at once than there are",
        remedy="Count what is taken, not who holds, and admit in the same step that counts.",
    ),
    "overtaken": Kind(
        name="Overtaken",
        means="somebody who asked later was granted the lock before one who had queued, more often"
        " than the declared order allows",
        remedy="Serve the queue from its head, and let nobody in past a queue that is not empty.",
    ),
    "beyond-queue": Kind(
        name="Served after its queue",
        means="a request was served after more grants to others than there can have been requests"
        " ahead of it in the queue",
        remedy="Serve the queue from its head, and count every grant against those who wait.",
    ),
    "starved": Kind(
        name="Starved",
        means="somebody waited while the lock was granted again and again to others who came later",
        remedy="Let no reader in past a writer that waits, and let whoever is passed over age.",
    ),
    "false-answer": Kind(
        name="False answer",
        means="what the service said about a lock contradicts what it had granted and ended",
        remedy="Answer questions from the same agreed state that grants, not from a copy of it.",
    ),
    "false-length": Kind(
        name="False queue length",
        means="the service said that more clients wait for a lock than can, or fewer than do",
        remedy="Count the queue in the same agreed state that grants, the holder left out.",
    ),
    "false-entries": Kind(
        name="False release answer",
        means="a release said that its owner has more entries left in the lock than it can have, or"
        " that the lock is fully released, or nearer to that, than it was",
        remedy="Count the entries of an owner in the step that ends one, and answer that count.",
    ),
    "false-condition": Kind(
        name="False condition",
        means="a grant that was to be given only if nobody held since was given, or refused,"
        " against what happened",
        remedy="Check the condition in the step that grants, also for those who had to wait.",
    ),
    "orphan": Kind(
        name="Orphaned lock",
        means="a lock that nobody can hold any more was still refused to those who asked for it",
        remedy="Give every lock an owner that can die: a lease or a session that expires.",
    ),
    "not-linearizable": Kind(
        name="Not linearizable",
        means="no order of the operations, each taking effect between its call and its return, is"
        " one that the object allows",
        remedy="Look at the operation named first, and at those that were running with it.",
    ),
    "hung-request": Kind(
        name="Hung request",
        means="a request was neither granted nor refused within its timeout",
        remedy="Give every call a deadline of its own, on the client and at the service.",
    ),
    "multi-lock-deadlock": Kind(
        name="Multi-lock deadlock",
        means="clients waited for each other's locks in a circle that nobody broke",
        remedy="Take locks in one agreed order, or detect the circle and fail one of the waits.",
    ),
    "spurious-refusal": Kind(
        name="Spurious refusal",
        means="the service answered that a lock was held although nobody can have held it",
        remedy="Check for state that outlives its owner, such as the partial grants of a failed"
        " quorum.",
    ),
}


CAUSES: dict[str, tuple[str, str]] = {
    "foreign-release": (
        "foreign-release",
        "a release by a client that did not hold freed another client's hold, so the next grant met"
        " that hold:",
    ),
    "late-release": (
        "foreign-release",
        "a release was answered ok after its lease may have run out; either it freed another"
        " client's hold, or",
    ),
}
"""What brings a finding about: the kind of finding that it is by itself, and what comes first."""


def kind(name: str, cause: str = "") -> Kind:
    """The words for a kind of finding; a plain stand-in for one that has no row here.

    cause   what brought it about, of CAUSES: it is named first, and its remedy is the one
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
        means="what was recorded contradicts the property",
        remedy="Read the events that prove it, in their order.",
    )
