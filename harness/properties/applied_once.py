"""What applied-once means, and the kinds of its findings."""

from __future__ import annotations

from holdfast.harness.core.verdict import Kind, Property, Severity

PROPERTY = Property(
    place=50,
    severity=Severity.CRITICAL,
    sentence="a retried command takes effect once",
    kinds={
        "applied-twice": Kind(
            name="Applied twice",
            mechanism="none",
            means=(
                "one command was executed twice, most likely after a retry whose first try"
                " had succeeded without a response"
            ),
            remedy=(
                "Give every command an idempotency key and let the receiver store applied keys."
            ),
        ),
    },
)
