"""What mutual-exclusion means, and the kinds of its findings."""

from __future__ import annotations

from holdfast.harness.core.verdict import Kind, Property, Severity

PROPERTY = Property(
    place=10,
    severity=Severity.CRITICAL,
    sentence="two clients never hold a lock at the same time",
    kinds={
        "double-grant": Kind(
            name="Double grant",
            mechanism="overlap",
            means=(
                "the service granted a lock while its own responses prove that another"
                " client still held it, without any assumption about clocks (split brain)"
            ),
            remedy=(
                "Until it is fixed, let the resource compare fencing tokens. Its author:"
                " check what is held and grant in one step, from state that survives a"
                " restart."
            ),
        ),
        "broken-lease": Kind(
            name="Broken lease",
            mechanism="overlap",
            lost_row="a release",
            means=(
                "the service granted a lock to another client before a lease that it had"
                " granted had expired"
            ),
            remedy=(
                "Expire a lease no earlier than the clock error and the network delay of a"
                " renewal allow, and never shorten it across a restart or a failover."
            ),
        ),
        "double-holder": Kind(
            name="Double holder",
            mechanism="overlap",
            lost_row="a release",
            means=(
                "two clients held a lock at the same time: the first had neither released"
                " it nor been notified of a loss (split brain)"
            ),
            remedy=(
                "Grant it again only after a release by the same attempt, or after the"
                " holder was notified. A holder that renews needs a timeout on every"
                " request, and stops before a lease that it counts from its last"
                " acknowledged renewal, on a monotonic clock."
            ),
        ),
        "dead-grant": Kind(
            name="Dead grant",
            mechanism="overlap",
            means=(
                "the service granted a lock to a session or attempt whose end it had"
                " already acknowledged, so no client will release it"
            ),
            remedy="Remove the waiters of a session in the step that ends the session.",
        ),
        "stale-belief": Kind(
            name="Owner past its lease, no violation",
            mechanism="none",
            means=(
                "a client still believed that it held the lock after its lease expired,"
                " while another client held it; no lock can prevent this, fencing makes it"
                " harmless"
            ),
            remedy=(
                "Send the fencing token with every request and let the resource reject old ones."
            ),
        ),
        "early-grant": Kind(
            name="Early grant",
            mechanism="overlap",
            lost_row="a release",
            means=(
                "a lock was granted within its lock-delay, after the session of its holder had died"
            ),
            remedy=(
                "Start the lock-delay in the step that ends the session; a new leader restarts it."
            ),
        ),
        "over-admission": Kind(
            name="Over-admission",
            mechanism="overlap",
            means="more permits of a semaphore were held at the same time than exist",
            remedy="Count permits, not holders, and admit in the step that counts.",
        ),
    },
)
