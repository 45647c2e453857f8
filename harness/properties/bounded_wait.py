"""What bounded-wait means, and the kinds of its findings."""

from __future__ import annotations

from holdfast.harness.core.verdict import Kind, Property, Severity

PROPERTY = Property(
    place=190,
    severity=Severity.LOW,
    sentence=("no request is granted after more other grants than there were requests ahead of it"),
    kinds={
        "beyond-queue": Kind(
            name="Served after its queue",
            mechanism="wait",
            lost_row="an entry of who overtook",
            means=(
                "a request was granted after more grants to others than there can have been"
                " requests ahead of it in the queue"
            ),
            remedy="Serve the queue from its head.",
        ),
    },
)
