"""What bounded-bypass means, and the kinds of its findings."""

from __future__ import annotations

from holdfast.harness.core.verdict import Kind, Property, Severity

PROPERTY = Property(
    place=170,
    severity=Severity.LOW,
    sentence="no waiter is overtaken more often than the queue's order allows",
    kinds={
        "overtaken": Kind(
            name="Overtaken",
            mechanism="wait",
            lost_row="an entry of who overtook",
            means=(
                "later requests were granted the lock before a queued one, more often than"
                " the declared order allows"
            ),
            remedy=("Serve the queue from its head; grant no new request while it is not empty."),
        ),
    },
)
