"""Whether a run reached its planned rate of acquires, and the latency that late sending hides."""

from __future__ import annotations

from holdfast.checkers.facts.distribution import dist
from holdfast.checkers.holds.history_index import column, rows_of, took
from holdfast.harness.core.case import Case
from holdfast.harness.core.operations import Op, Status
from holdfast.harness.history.calls import due, too_few
from holdfast.harness.verdicts.evidence import Pace


def planned(case: Case) -> int:
    """Number of acquires due from start to stop; 0 without a rate."""
    return due(case.options, case.stop_ns - case.start_ns)


def too_slow(case: Case) -> str | None:
    """Why the run does not show the planned load, None if it does."""
    return too_few(len(rows_of(case, Op.ACQUIRE, Op.TRY)), planned(case))


def pace(case: Case) -> Pace:
    """Planned and issued acquires; latency of ok ones from their sending and from their due time.
    The difference is what a measurement from the sending omits (coordinated omission)."""
    rows = rows_of(case, Op.ACQUIRE, Op.TRY)
    done = rows[column(case, "status")[rows] == Status.OK]
    sent = took(case)[done]
    return Pace(
        planned=planned(case),
        issued=len(rows),
        from_send_ns=dist(sent),
        from_due_ns=dist(sent + 1000 * column(case, "late")[done]),
    )
