"""Exactly-once job: a job takes effect exactly once.

Claims
    VIOLATED: the resource's own log has two accepted effects of one job; or it has none of a job
    that counts as done: a client received that response, or a later job of the same lock was done.
Assumes
    Jobs are done in turn, each under its own key (`harness.core.job_keys`): a client begins the
    next one only after it knows that its predecessor is done. The resource logs a decision before
    it responds.
Blind to
    Effects outside the resource. The first job that is not done at the end of a run: it may be in
    progress; if no client does it any more, deadlock freedom reports that.
Cost
    O(n) in the requests to the resource.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from holdfast.checkers.coverage.requirements import conclude, exercise
from holdfast.checkers.facts import resource_log
from holdfast.checkers.facts.wording import name, seconds
from holdfast.checkers.opportunities.places.near_faults import Where, near_faults
from holdfast.checkers.opportunities.places.served_again import jobs_known
from holdfast.checkers.opportunities.row import CONTENDED, OpportunityRow, of_any_fault
from holdfast.harness.core.case import Case
from holdfast.harness.core.job_keys import job_of
from holdfast.harness.core.operations import Op, Status
from holdfast.harness.core.verdict import Finding, Proof, PropertyVerdict

PROPERTY = "exactly-once-job"
NEEDS = ("contention", "requests", "jobs", "faults")
OPPORTUNITIES: Sequence[OpportunityRow] = (
    of_any_fault(
        id="exactly-once-job/done-again/any",
        property="exactly-once-job",
        defect="forgets that a job was done",
        sentence="a client was answered that a job of another client was done",
        twin="reference:forgotten-jobs",
        look=partial(
            near_faults, where=Where(jobs_known, "no client found a job of another client done")
        ),
        change=CONTENDED,
    ),
)


@dataclass(slots=True)
class JobEvidence:
    """The evidence about one job.

    effects   accepted writes of it, in the order of the log
    told      rows with the response that it is done
    open      a client's write of it has no response at the end of the log
    """

    lock: str
    number: int
    effects: list[resource_log.Request] = field(default_factory=list)
    told: list[int] = field(default_factory=list)
    open: bool = False


def check(case: Case) -> PropertyVerdict:
    """The verdict on exactly-once-job, with a finding per job done twice or never."""
    jobs = _jobs(case)
    findings = [*_twice(case, jobs), *_never(case, jobs)]
    findings.sort(key=lambda finding: finding.t_ns)
    return conclude(case, PROPERTY, findings, (), exercise(case, needs=NEEDS))


def _jobs(case: Case) -> Mapping[str, Mapping[int, JobEvidence]]:
    """Every job that a client requested, by lock and number."""
    keys = {n: parts for n, text in enumerate(case.history.strings) if (parts := job_of(text))}
    jobs: defaultdict[str, dict[int, JobEvidence]] = defaultdict(dict)

    def of(key: int) -> tuple[JobEvidence, bool]:
        lock, number, mark = keys[key]
        return jobs[lock].setdefault(number, JobEvidence(lock=lock, number=number)), mark

    for request in resource_log.requests(case):
        if request.key in keys and request.write and request.accepted:
            job, mark = of(request.key)
            if not mark:
                job.effects.append(request)
    rows = case.history.rows
    asked = case.history.of(Op.READ, Op.WRITE)
    for row in asked[np.isin(rows["key"][asked], np.array(sorted(keys), np.int64))].tolist():
        one = rows[row]
        job, mark = of(int(one["key"]))
        read = one["f"] == Op.READ
        if one["status"] == Status.OK and one["res"] > 0 and (read or not mark):
            job.told.append(row)
        elif one["status"] == Status.INVOKED and not read and not mark:
            job.open = True
    return jobs


def _twice(case: Case, jobs: Mapping[str, Mapping[int, JobEvidence]]) -> Iterator[Finding]:
    for job in (job for of_lock in jobs.values() for job in of_lock.values()):
        for again in job.effects[1:]:
            first = job.effects[0]
            sent = tuple(row for row in (first.sent, again.sent) if row >= 0)
            yield Finding(
                kind="job-done-twice",
                sentence=(
                    f"job {job.number} of '{job.lock}' was done twice: by {_owner(case, first)} at"
                    f" {seconds(case, first.from_ns)} and by {_owner(case, again)} at"
                    f" {seconds(case, again.from_ns)}"
                ),
                witnesses=(*sent, first.row, again.row),
                lock=job.lock,
                t_ns=again.from_ns,
                proof=Proof(
                    rule="job-done-twice",
                    roles={"before": first.row, "again": again.row},
                    values={"before_job": job.number, "again_job": job.number},
                ),
            )


def _never(case: Case, jobs: Mapping[str, Mapping[int, JobEvidence]]) -> Iterator[Finding]:
    stamps = case.history.rows["t_ret"]
    for of_lock in jobs.values():
        last = max((n for n, job in of_lock.items() if job.effects), default=-1)
        for job in (of_lock[n] for n in sorted(of_lock)):
            if job.effects or job.open or not (job.told or job.number < last):
                continue
            after = job
            if job.told:
                witness = job.told[0]
                process, at = int(case.history.rows["process"][witness]), int(stamps[witness])
                why = f"{name(case, process)} was notified at {seconds(case, at)} that it was done"
            else:
                after = of_lock[min(n for n, j in of_lock.items() if n > job.number and j.effects)]
                witness, at = after.effects[0].row, after.effects[0].from_ns
                why = f"job {after.number}, which comes after it, was done at {seconds(case, at)}"
            yield Finding(
                kind="job-never-done",
                sentence=f"job {job.number} of '{job.lock}' was never done, although {why}",
                witnesses=(witness,),
                lock=job.lock,
                t_ns=at,
                proof=_proof(case, job, witness, after),
            )


def _owner(case: Case, request: resource_log.Request) -> str:
    return name(case, request.name >> 32)


def _proof(case: Case, job: JobEvidence, witness: int, after: JobEvidence) -> Proof:
    """Proof by the row that reported it as done; else by one that shows that the job existed."""
    if job.told:
        return Proof(rule="job-never-done/told", roles={"told": witness})
    strings = case.history.strings
    keys = [
        n for n, text in enumerate(strings) if (job_of(text) or ())[:2] == (job.lock, job.number)
    ]
    of_job = np.flatnonzero(np.isin(case.history.rows["key"], keys))
    return Proof(
        rule="job-never-done/later",
        roles={"asked": int(of_job[0]), "later": witness},
        values={"asked_job": job.number, "later_job": after.number},
    )
