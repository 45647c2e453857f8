"""Needs about the use of locks: who waits behind whom, which are asked for, what is done."""

from __future__ import annotations

import numpy as np

from holdfast.checkers.coverage.met_spans import Met, spans_met
from holdfast.checkers.holds.attempt_table import table
from holdfast.checkers.holds.hierarchy import below, paths
from holdfast.checkers.holds.waits import first_told, waits
from holdfast.checkers.opportunities.overtaking import behind_waiters, patient_waits
from holdfast.harness.core.case import Case
from holdfast.harness.core.job_keys import job_of
from holdfast.harness.core.operations import Op, Status
from holdfast.harness.history.distinct_values import distinct


def rivals(case: Case) -> Met:
    """Acquires that were sent while another client was queued for the same lock."""
    found, since, behind = table(case), first_told(case), 0
    asked = found.op != Op.PROBE
    for entries in found.by_lock().values():
        waited = entries[asked[entries] & (found.queued[entries] >= 0)]
        mine = entries[asked[entries]]
        spans = waited, since[waited], found.ret[waited]
        behind += int(spans_met(found, mine, found.inv[mine], *spans).sum())
    lacks = [] if behind else ["no other client asked for a lock while a client waited for it"]
    return {"acquires behind one that waited": behind}, lacks


def waits_behind(case: Case) -> Met:
    """Grants in whose order it shows whether a queue is served in turn. Waits without one are not
    missing: of those that tokens do not order, the reason names the tokens."""
    behind = len(behind_waiters(case).t_ns)
    judged = waits(case).judged
    lacks = [f"no client waited behind another one: 0 of {judged} waits"] if judged else []
    return {"waits with another behind": behind}, [] if behind else lacks


def patient(case: Case) -> Met:
    """Only if clients wait behind each other: waits in which one could starve. Where at most one
    waits and the others try, there are none."""
    behind, patient = len(behind_waiters(case).t_ns), len(patient_waits(case).t_ns)
    counts = {"waits with another behind": behind, "of them long enough to starve": patient}
    lack = f"no wait with another behind it outlasted a grant to each other client: 0 of {behind}"
    return counts, [lack] if behind and not patient else []


def subtrees(case: Case) -> Met:
    """Only if locks are paths: acquires that met a hold of an ancestor or a descendant."""
    if not paths(case):
        return {}, []
    found, met = table(case), 0
    for entries in found.by_lock().values():
        for key in np.unique(found.key[entries]).tolist():
            mine = entries[found.key[entries] == key]
            others = entries[(found.key[entries] != key) & found.certain[entries]]
            spans = others, found.ret[others], found.end[others]
            met += int(spans_met(found, mine, found.ret[mine], *spans).sum())
    lacks = [] if met else ["no client asked for a lock above or below one that another held"]
    return {"acquires above or below a held lock": met}, lacks


def probes(case: Case) -> Met:
    found = table(case)
    asked = set(distinct(found.key[found.op != Op.PROBE]).tolist())
    probed = set(distinct(found.key[found.op == Op.PROBE]).tolist())
    known = paths(case)
    tops = [known[key] for key in probed if key in known]
    met = {key for key in asked if key in known and any(below(known[key], top) for top in tops)}
    names = sorted(case.history.strings[key] for key in asked - probed - met)
    lacks = [f"never probed after the run: {', '.join(names)}"] if names else []
    if not asked and not probed:
        lacks.append("no client asked for a lock")
    return {"probed locks": len(probed)}, lacks


def jobs(case: Case) -> Met:
    """Jobs that were done, and those that another owner found done."""
    asked = case.history.rows[case.history.of(Op.READ, Op.WRITE)]
    told = asked[(asked["status"] == Status.OK) & (asked["res"] > 0)]
    named = {key for key in np.unique(told["key"]).tolist() if job_of(case.history.strings[key])}
    told = told[np.isin(told["key"], np.array(sorted(named), np.int64))]
    looked, did = told[told["f"] == Op.READ], told[told["f"] == Op.WRITE]
    by = dict(zip(did["key"].tolist(), did["process"].tolist(), strict=True))
    found = sum(
        by.get(key, process) != process
        for key, process in zip(looked["key"].tolist(), looked["process"].tolist(), strict=True)
    )
    lacks = [] if found else [f"no client found a job that another had done: 0 of {len(by)} jobs"]
    return {"jobs done": len(by), "jobs that others found done": found}, lacks
