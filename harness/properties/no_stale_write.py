"""What no-stale-write means, and the kinds of its findings."""

from __future__ import annotations

from holdfast.harness.core.verdict import Kind, Property, Severity

PROPERTY = Property(
    place=20,
    severity=Severity.CRITICAL,
    sentence=(
        "the resource never accepts a write of an older owner after it admitted a newer owner"
    ),
    kinds={
        "stale-accepted-write": Kind(
            name="Stale accepted write",
            mechanism="late",
            means=(
                "the resource accepted a write of an earlier owner after it had served a"
                " later one, because the request did not identify the earlier owner as"
                " outdated"
            ),
            remedy=(
                "Send a fencing token with every write, and reject any smaller than the"
                " largest seen; a longer lease does not make a lock without tokens safe."
            ),
        ),
    },
)
