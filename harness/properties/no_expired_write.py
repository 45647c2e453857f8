"""What no-expired-write means, and the kinds of its findings."""

from __future__ import annotations

from holdfast.harness.core.verdict import Kind, Property, Severity

PROPERTY = Property(
    place=30,
    severity=Severity.CRITICAL,
    sentence="the resource never accepts a write of an owner whose hold has ended",
    kinds={
        "expired-owner-write": Kind(
            name="Expired-owner write",
            mechanism="late",
            lost_row="a renewal, or an entry of the same owner",
            means="the resource accepted a write whose owner's hold had already ended",
            remedy=(
                "Compare fencing tokens: they stop the write once a newer owner was served."
                " Before that, keep writes well inside the lease (check the remaining time"
                " before each), or let the resource ask the lock service whether the hold is"
                " in force."
            ),
        ),
    },
)
