"""What starvation-freedom means, and the kinds of its findings."""

from __future__ import annotations

from holdfast.harness.core.verdict import Kind, Property, Severity

PROPERTY = Property(
    place=160,
    severity=Severity.MEDIUM,
    sentence="no request waits forever while others are granted",
    kinds={
        "livelock": Kind(
            name="Livelock",
            mechanism="wait",
            lost_row="a row of a client that held it",
            means=(
                "clients kept retrying while no client could hold the lock, and no request"
                " was granted"
            ),
            remedy=(
                "Retry with randomized exponential backoff, or queue; look for failed tries"
                " that block each other."
            ),
        ),
        "starved": Kind(
            name="Starved",
            mechanism="wait",
            lost_row="an entry of who overtook",
            means=("a request waited while the lock was repeatedly granted to later requests"),
            remedy=(
                "Admit no reader while a writer waits, and give priority to overtaken requests."
            ),
        ),
    },
)
