"""Derived data for the plot of a run: the holds, and the time left of leases at their renewals."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from holdfast.checkers.evidence.renewals import renewal_margins
from holdfast.checkers.holds.attempt_table import Table, table
from holdfast.checkers.holds.derive import ENDS
from holdfast.checkers.holds.history_index import Bools, Indices
from holdfast.checkers.holds.leases import INF
from holdfast.harness.core.case import Case
from holdfast.harness.core.operations import Mode

NEVER = -1


def drawn(case: Case) -> dict[str, npt.NDArray[np.generic]]:
    """Columns, one entry per hold, and two with one per renewal; times in ns of the run's clock.

    row        of the acquire, index into the history; the hold begins at its return
    end        of the claim, NEVER if nothing ended it
    sure       end of the certain part: proved by a response or within its lease; at least its
               beginning. The ok of a release shows nothing where another client was granted the
               lock after the lease: a lock whose every release returns ok would otherwise be drawn
               as held through the pause of its owner
    lapses     whether a lease bounds it: after `sure` it has expired; else it is only believed
    lease      end of its lease as renewed, by its contract: the earliest; NEVER without a lease
    renewal    rows of the acknowledged renewals; margin: time left of the lease at each
    """
    found = table(case)
    which = np.flatnonzero(found.certain)
    start, end = found.ret[which], found.end[which]
    proof = np.where(_overtaken(found, which), -1, found.proof[which])
    sure = np.maximum(np.maximum(proof, found.bound[which]), start)
    rows, margins = renewal_margins(case)
    return {
        "row": found.row[which],
        "end": np.where(end < INF, end, NEVER),
        "sure": np.minimum(sure, end),
        "lapses": found.bound[which] >= 0,
        "lease": found.bound[which],
        "renewal": rows,
        "margin": margins,
    }


def _overtaken(found: Table, which: Indices) -> Bools:
    """Of some holds those that only their release's ok shows beyond their lease, where another
    client was granted the lock in between. O(n log n)."""
    # The lease counts from the request: a long wait may have used it up before the grant.
    ended, lease = found.end[which], np.maximum(found.bound[which], found.ret[which])
    released = (found.why[which] == ENDS.index("release")) & (found.proof[which] == ended)
    asked = (
        released
        & (found.bound[which] >= 0)
        & (ended > lease)
        & (found.mode[which] == Mode.EXCLUSIVE)
    )
    over = np.zeros(len(which), bool)
    grants = np.flatnonzero(found.ok & (found.mode == Mode.EXCLUSIVE))
    for key in np.unique(found.key[which[asked]]).tolist():
        times = np.sort(found.ret[grants[found.key[grants] == key]])
        mine = np.flatnonzero(asked & (found.key[which] == key))
        first = np.searchsorted(times, lease[mine], "right")
        over[mine] = first < np.searchsorted(times, ended[mine])
    return over
