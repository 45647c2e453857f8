"""What exactly-once-job means, and the kinds of its findings."""

from __future__ import annotations

from holdfast.harness.core.verdict import Kind, Property, Severity

PROPERTY = Property(
    place=60,
    severity=Severity.CRITICAL,
    sentence="a singleton job is done exactly once",
    kinds={
        "job-done-twice": Kind(
            name="Job done twice",
            mechanism="work",
            means=(
                "a singleton job took effect twice, because its second owner could not see"
                " what the first owner had done or was still doing"
            ),
            remedy=(
                "Make the effect itself the mark that the job is done, and fence it, or"
                " give it an idempotency key; a separate mark can be lost between the two."
            ),
        ),
        "job-never-done": Kind(
            name="Job never done",
            mechanism="work",
            lost_row="the write of the job",
            means="a job was considered done although it never took effect",
            remedy=(
                "Mark a job as done with its effect or after it, never before; treat a"
                " missing response as unknown, and check again."
            ),
        ),
    },
)
