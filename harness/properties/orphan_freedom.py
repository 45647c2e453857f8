"""What orphan-freedom means, and the kinds of its findings."""

from __future__ import annotations

from holdfast.harness.core.verdict import Kind, Property, Severity

PROPERTY = Property(
    place=130,
    severity=Severity.HIGH,
    sentence="a lock that no client can hold is not refused forever",
    kinds={
        "orphan": Kind(
            name="Orphaned lock",
            mechanism="wait",
            lost_row="a row of a client that held it",
            means="a lock that no client can hold any more was still refused",
            remedy=("Give every lock an owner that can die: a lease or a session that expires."),
        ),
    },
)
