"""What no-hung-request means, and the kinds of its findings."""

from __future__ import annotations

from holdfast.harness.core.verdict import Kind, Property, Severity

PROPERTY = Property(
    place=140,
    severity=Severity.HIGH,
    sentence="every request returns within its timeout",
    kinds={
        "hung-request": Kind(
            name="Hung request",
            mechanism="none",
            lost_row="the response",
            means="a request was neither granted nor rejected within its timeout",
            remedy="Give every call its own deadline, in the client and in the service.",
        ),
    },
)
