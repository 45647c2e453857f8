"""What ownership means, and the kinds of its findings."""

from __future__ import annotations

from holdfast.harness.core.verdict import Kind, Property, Severity

PROPERTY = Property(
    place=90,
    severity=Severity.CRITICAL,
    sentence="only the holder can release or renew",
    kinds={
        "foreign-release": Kind(
            name="Foreign release",
            mechanism="foreign",
            means=(
                "a release by a client that did not hold the lock succeeded and may have"
                " freed the lock of a later owner"
            ),
            remedy=(
                "If you use this lock: do not release after its lease is over, and let the"
                " resource compare fencing tokens. If you wrote it: store a value unique to"
                " each attempt and release by compare-and-delete."
            ),
        ),
        "foreign-renewal": Kind(
            name="Foreign renewal",
            mechanism="foreign",
            means="a renewal by a client that did not hold the lock succeeded",
            remedy="Renew by attempt and token, never by client name or by key alone.",
        ),
    },
)
