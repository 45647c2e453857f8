"""What proves findings of exactly-once-job, and its opportunities."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.harness.verification.owner_opportunities import OwnerPattern, Owners, served
from holdfast.harness.verification.rule import ANY, OK, Rule

_TWICE = {"before": ("served-write", OK), "again": ("served-write", OK)}
RULES: dict[str, Rule] = {
    "job-done-twice": Rule(
        kinds=("job-done-twice",),
        lock="again",
        roles=_TWICE,
        where=("logged(before, again)", "before.key == again.key", "job(before)[2] == 0"),
        values={"before_job": "job(before)[1]", "again_job": "job(again)[1]"},
        facts=("-1 < before_job", "before_job == again_job"),
    ),
    "job-never-done/told": Rule(
        kinds=("job-never-done",),
        lock="told",
        roles={"told": ("read|write", OK)},
        where=("undone(told)", "told.f == 10 or job(told)[2] == 0"),
        facts=("0 < told.res",),
    ),
    "job-never-done/later": Rule(
        kinds=("job-never-done",),
        lock="later",
        roles={
            "asked": ("read|write|served-write|served-read", ANY),
            "later": ("served-write", OK),
        },
        where=("undone(asked)", "job(asked)[0] == job(later)[0]", "job(later)[2] == 0"),
        values={"asked_job": "job(asked)[1]", "later_job": "job(later)[1]"},
        facts=("asked_job < later_job",),
    ),
}
PATTERNS: Mapping[str, OwnerPattern] = {
    "exactly-once-job/done-again/any": served(Owners.job_done),
}
