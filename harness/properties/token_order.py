"""What token-order means, and the kinds of its findings."""

from __future__ import annotations

from holdfast.harness.core.verdict import Kind, Property, Severity

PROPERTY = Property(
    place=70,
    severity=Severity.CRITICAL,
    sentence="a later grant always carries a larger fencing token",
    kinds={
        "token-inversion": Kind(
            name="Token went backwards",
            mechanism="token",
            means=(
                "a later grant carried a fencing token that is not larger than an earlier"
                " one, so a resource that compares tokens rejects the current owner or"
                " admits an outdated one"
            ),
            remedy=(
                "Take tokens from one ordered, durable counter; the largest of several"
                " independent counters is not ordered when servers drop out or restart."
            ),
        ),
        "token-repeated": Kind(
            name="Token used twice",
            mechanism="token",
            means=(
                "two grants carried the same fencing token, so the resource cannot"
                " distinguish their owners"
            ),
            remedy=("Increment the counter in the same durable step that records the grant."),
        ),
    },
)
