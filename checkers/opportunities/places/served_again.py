"""Places at which a resource, or what keeps its data, had to know what it had done before: a
command that came again, a job that was done, an update that builds on an old version."""

from __future__ import annotations

import numpy as np

from holdfast.checkers.facts import resource_log
from holdfast.checkers.holds.attempt_table import table
from holdfast.checkers.holds.history_index import Bools, Indices, Ints, column, rows_of
from holdfast.checkers.opportunities.places.near_faults import Places
from holdfast.harness.core.case import Case
from holdfast.harness.core.job_keys import job_of
from holdfast.harness.core.operations import Mode, Op, Status


def sent_again(case: Case) -> Places:
    """Accepted writes that their client sent more than once under their identity."""
    rows = rows_of(case, Op.WRITE)
    again = (column(case, "aux")[rows] > 0) & (column(case, "status")[rows] == Status.OK)
    return _of_owners(case, rows[again])


def jobs_known(case: Case) -> Places:
    """Responses that a job is done which another client had done before."""
    rows, key = case.history.rows, column(case, "key")
    asked = rows_of(case, Op.READ, Op.WRITE)
    asked = asked[(column(case, "status")[asked] == Status.OK) & (rows["res"][asked] > 0)]
    jobs = [int(each) for each in np.unique(key[asked]) if job_of(case.history.strings[int(each)])]
    asked = asked[np.isin(key[asked], np.array(jobs, np.int64))]
    wrote = column(case, "f")[asked] == Op.WRITE
    done, looked = asked[wrote], asked[~wrote]
    by = dict(zip(key[done].tolist(), column(case, "process")[done].tolist(), strict=True))
    other = np.array(
        [
            by.get(job, process) != process
            for job, process in zip(
                key[looked].tolist(), column(case, "process")[looked].tolist(), strict=True
            )
        ],
        bool,
    )
    return _of_owners(case, looked[other])


def outdated_updates(case: Case) -> Places:
    """Updates that reached the resource with an older version than the one it had, or that made a
    version again: refused or not, only these show whether an update can be lost."""
    served = resource_log.log(case).rows
    served = served[column(case, "f")[served] == Op.SERVED_WRITE]
    based, made = column(case, "arg")[served], column(case, "res")[served]
    accepted = column(case, "status")[served] == Status.OK
    stale = np.zeros(len(served), bool)
    order = np.argsort(column(case, "key")[served], kind="stable")
    edges = np.flatnonzero(np.diff(column(case, "key")[served][order])) + 1
    for mine in np.split(order, edges) if len(order) else ():
        # Versions 1 2 2 3 before which the highest were 0 1 2 2: the third was made again.
        highest = np.maximum.accumulate(np.where(accepted[mine], made[mine], 0))
        before = np.concatenate(([0], highest[:-1]))
        behind = (based[mine] >= 0) & (based[mine] < before)
        stale[mine] = behind | (accepted[mine] & (made[mine] <= before))
    return _of_owners(case, served[stale])


def requests_of_holders(case: Case) -> Places:
    """Requests that the resource decided within their owner's hold."""
    return _of_owners(case, resource_log.log(case).rows[within_holds(case)])


def within_holds(case: Case) -> Bools:
    """Which requests of the resource's log were decided within their owner's exclusive hold and
    carried its token."""
    attempts, rows = table(case), resource_log.log(case).rows
    if case.options.get("resource") not in resource_log.MODES_WITH_TOKENS or not len(attempts):
        return np.zeros(len(rows), bool)
    entry = attempts.of_rows(rows)
    until = np.maximum(attempts.proof, attempts.bound)[entry] - case.error_ns
    mine = (entry >= 0) & attempts.ok[entry] & (attempts.mode[entry] == Mode.EXCLUSIVE)
    mine &= column(case, "token")[rows] == attempts.token[entry]
    mine &= column(case, "t_inv")[rows] >= attempts.known[entry] + case.error_ns
    return np.asarray(mine & (column(case, "t_ret")[rows] <= until))


def _of_owners(case: Case, rows: Indices) -> Places:
    """Places that a request of an owner shows, with the acquire of its attempt."""
    attempts, entry = table(case), table(case).of_rows(rows) if len(rows) else np.zeros(0, np.intp)
    kept = entry >= 0
    rows, owner = rows[kept], attempts.row[entry[kept]]
    inv: Ints = column(case, "t_inv")
    t_ns = np.maximum(inv[rows], column(case, "t_ret")[rows])
    return Places(t_ns, np.minimum(inv[owner], inv[rows]), {"owner": owner, "request": rows})
