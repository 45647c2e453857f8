"""Derived data for the plot of a run: the holds, and the time left of leases at their renewals."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from holdfast.checkers.evidence.summary import renewal_margins
from holdfast.checkers.holds.attempt_table import table
from holdfast.checkers.holds.leases import INF
from holdfast.harness.core.case import Case

NEVER = -1


def drawn(case: Case) -> dict[str, npt.NDArray[np.generic]]:
    """Columns, one entry per hold, and two with one per renewal; times in ns of the run's clock.

    row        of the acquire, index into the history; the hold begins at its return
    end        of the claim, NEVER if nothing ended it
    sure       end of the certain part: proved by a response or within its lease; at least its
               beginning
    lapses     whether a lease bounds it: after `sure` it has expired; else it is only believed
    lease      end of its lease as renewed, by its contract: the earliest; NEVER without a lease
    renewal    rows of the acknowledged renewals; margin: time left of the lease at each
    """
    found = table(case)
    which = np.flatnonzero(found.certain)
    start, end = found.ret[which], found.end[which]
    sure = np.maximum(np.maximum(found.proof[which], found.bound[which]), start)
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
