"""What no-multi-lock-deadlock means, and the kinds of its findings."""

from __future__ import annotations

from holdfast.harness.core.verdict import Kind, Property, Severity

PROPERTY = Property(
    place=150,
    severity=Severity.HIGH,
    sentence="every wait-for cycle is detected and one of its requests is rejected",
    kinds={
        "multi-lock-deadlock": Kind(
            name="Multi-lock deadlock",
            mechanism="wait",
            lost_row="a release",
            means=(
                "clients waited for each other's locks in a wait-for cycle that was not resolved"
            ),
            remedy=(
                "Acquire locks in one agreed order, or detect the cycle and abort one request."
            ),
        ),
    },
)
