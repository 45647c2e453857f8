"""What deadlock-freedom means, and the kinds of its findings."""

from __future__ import annotations

from holdfast.harness.core.verdict import Kind, Property, Severity

PROPERTY = Property(
    place=120,
    severity=Severity.HIGH,
    sentence="a lock that was released or lost is granted again",
    kinds={
        "deadlock": Kind(
            name="Deadlock",
            mechanism="wait",
            lost_row="a row of a client that held it",
            means=(
                "clients waited for a lock that its holder had released or lost, and no"
                " request was granted"
            ),
            remedy=(
                "Wake the next waiter in the same step that frees the lock; look for lost"
                " wake-ups and for dead waiters that are still in the queue."
            ),
        ),
    },
)
