"""What truthful-queries means, and the kinds of its findings."""

from __future__ import annotations

from holdfast.harness.core.verdict import Kind, Property, Severity

PROPERTY = Property(
    place=200,
    severity=Severity.LOW,
    sentence="query results (holder, queue, version) match the history",
    kinds={
        "false-answer": Kind(
            name="False answer",
            mechanism="none",
            means="a query result contradicts the grants and releases of the lock",
            remedy=("Answer queries from the same agreed state that grants, not from a copy."),
        ),
        "false-length": Kind(
            name="False queue length",
            mechanism="none",
            means=("the service reported a queue longer than it can be, or shorter than it was"),
            remedy=("Count the queue in the same agreed state that grants, without the holder."),
        ),
        "false-entries": Kind(
            name="False entry count",
            mechanism="none",
            lost_row="an entry",
            means=(
                "a release reported more entries left for its owner than there can be, or"
                " fewer than there were, such as a lock that is fully released"
            ),
            remedy=(
                "Count the entries of an owner in the step that ends one, and return that count."
            ),
        ),
        "false-condition": Kind(
            name="False condition",
            mechanism="none",
            means=("a conditional acquire was granted or rejected contrary to its condition"),
            remedy=("Check the condition in the step that grants, also for queued requests."),
        ),
    },
)
