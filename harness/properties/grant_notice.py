"""What grant-notice means, and the kinds of its findings."""

from __future__ import annotations

from holdfast.harness.core.verdict import Kind, Property, Severity

PROPERTY = Property(
    place=110,
    severity=Severity.MEDIUM,
    sentence="a client that waited for a lock is notified of its grant in time",
    kinds={
        "late-grant-notice": Kind(
            name="Late grant notice",
            mechanism="none",
            lost_row="the notice",
            means=(
                "a waiting client was granted the lock and notified later than the system"
                " promises, while its lease ran and other clients waited"
            ),
            remedy=(
                "Notify the waiter in the step that grants, and let it poll if there is no"
                " notification for a while."
            ),
        ),
    },
)
