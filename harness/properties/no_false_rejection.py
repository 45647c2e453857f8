"""What no-false-rejection means, and the kinds of its findings."""

from __future__ import annotations

from holdfast.harness.core.verdict import Kind, Property, Severity

PROPERTY = Property(
    place=180,
    severity=Severity.MEDIUM,
    sentence="requests of the holder, and requests for a free lock, are not rejected",
    kinds={
        "false-rejection": Kind(
            name="False rejection",
            mechanism="rejection",
            lost_row="a release",
            means="the resource rejected the valid token of the current holder",
            remedy=("Reject only tokens < the largest seen, and persist that largest token."),
        ),
        "spurious-refusal": Kind(
            name="Spurious refusal",
            mechanism="none",
            lost_row="a row of a client that held it",
            means=(
                "the service responded that a lock was held although no client can have held it"
            ),
            remedy=(
                "Check for state that outlives its owner, such as the partial grants of a"
                " failed quorum."
            ),
        ),
    },
)
