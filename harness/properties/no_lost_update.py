"""What no-lost-update means, and the kinds of its findings."""

from __future__ import annotations

from holdfast.harness.core.verdict import Kind, Property, Severity

PROPERTY = Property(
    place=40,
    severity=Severity.CRITICAL,
    sentence="no two accepted writes build on the same version",
    kinds={
        "lost-update": Kind(
            name="Lost update",
            mechanism="work",
            means=(
                "two accepted writes were built on the same version, so one of them"
                " silently overwrote the other"
            ),
            remedy=(
                "Make the write conditional on the version that was read (compare-and-set),"
                " or fence it."
            ),
        ),
    },
)
