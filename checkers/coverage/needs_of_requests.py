"""Needs of a run about the resource: what owners sent it, and what it refused."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from holdfast.checkers.coverage.need import Met, Need, count
from holdfast.checkers.facts import admissions, resource_log
from holdfast.checkers.facts.late_writes import late_writes
from holdfast.checkers.holds.history_index import column
from holdfast.harness.core.case import Case
from holdfast.harness.core.job_keys import job_of
from holdfast.harness.core.operations import Op, Status
from holdfast.harness.history.distinct_values import distinct


def _requests(case: Case) -> Met:
    log = resource_log.log(case)
    rows = case.history.rows[log.rows]
    owners = len(distinct(rows["attempt"]))
    lacks = []
    if owners < 2:
        lacks.append(f"the resource received requests of {count(owners, 'attempt')} only")
    accepted = int((rows["status"] == Status.OK).sum())
    return {"requests": len(rows), "accepted requests": accepted}, lacks


def not_logged(case: Case) -> list[str]:
    n = len(resource_log.log(case).unlogged)
    if not n:
        return []
    return [f"the resource's log lacks {count(n, 'request')} that it reported as accepted"]


def _stale_requests(case: Case) -> Met:
    """Stale requests that the resource rejected: the only evidence that it rejects older owners.

    A resource that accepts everything never rejects: there the property is violated or not
    exercised.
    """
    refused = len(admissions.stale_refused(case))
    total = len(resource_log.log(case).rows)
    if case.options.get("resource") not in resource_log.MODES_WITH_TOKENS:
        why = f"no older owner's write came after a newer owner's: 0 of {total}"
        return {}, [f"{why}, and a resource without tokens has none to refuse"]
    lacks = [] if refused else [f"the resource had no stale request to refuse: 0 of {total}"]
    return {"stale requests refused": refused}, lacks


def _expired_requests(case: Case) -> Met:
    late = late_writes(case)
    log = resource_log.log(case).rows
    total = int((column(case, "f")[log] == Op.SERVED_WRITE).sum())
    refused = sum(not request.accepted for request, _, _ in late)
    counts = {"writes of expired owners": len(late), "of them refused": refused}
    lack = f"no write came from an owner whose hold had certainly ended: 0 of {total}"
    return counts, [] if late else [lack]


def _updates(case: Case) -> Met:
    rows = case.history.rows[resource_log.log(case).rows]
    mask = (rows["f"] == Op.SERVED_WRITE) & (rows["status"] == Status.OK) & (rows["arg"] >= 0)
    updates = rows[mask]
    order = np.argsort(updates["key"], kind="stable")
    keys, owners = updates["key"][order], updates["attempt"][order]
    after_another = int(((keys[1:] == keys[:-1]) & (owners[1:] != owners[:-1])).sum())
    counts = {"updates": len(updates), "updates after another owner's": after_another}
    lacks = [] if after_another else [f"no update followed another owner's: 0 of {len(updates)}"]
    return counts, lacks


def _repeats(case: Case) -> Met:
    """Writes that were sent more than once, and accepted."""
    writes = case.history.rows[case.history.of(Op.WRITE)]
    again = int(((writes["aux"] > 0) & (writes["status"] == Status.OK)).sum())
    lacks = [] if again else [f"no accepted write was sent twice: 0 of {len(writes)}"]
    return {"writes sent again": again}, lacks


def _jobs(case: Case) -> Met:
    """Jobs that were done, and those that another owner found done."""
    asked = case.history.rows[case.history.of(Op.READ, Op.WRITE)]
    told = asked[(asked["status"] == Status.OK) & (asked["res"] > 0)]
    jobs = {key for key in np.unique(told["key"]).tolist() if job_of(case.history.strings[key])}
    told = told[np.isin(told["key"], np.array(sorted(jobs), np.int64))]
    looked, did = told[told["f"] == Op.READ], told[told["f"] == Op.WRITE]
    by = dict(zip(did["key"].tolist(), did["process"].tolist(), strict=True))
    found = sum(
        by.get(key, process) != process
        for key, process in zip(looked["key"].tolist(), looked["process"].tolist(), strict=True)
    )
    lacks = [] if found else [f"no client found a job that another had done: 0 of {len(by)} jobs"]
    return {"jobs done": len(by), "jobs that others found done": found}, lacks


NEEDS: Mapping[str, Need] = {
    "requests": (
        "requests of two attempts in the resource's log, and every request that it reported as"
        " accepted",
        _requests,
    ),
    "stale-requests": (
        "an older owner's request, after a newer owner's, that the resource had to refuse",
        _stale_requests,
    ),
    "expired-requests": (
        "a write that reached the resource after its owner's hold had certainly ended",
        _expired_requests,
    ),
    "updates": ("an accepted update that follows another owner's", _updates),
    "repeats": ("an accepted write that was sent more than once", _repeats),
    "jobs": ("a job that an owner found done by another client", _jobs),
}
