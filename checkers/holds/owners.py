"""Which attempts count as one owner, because a lock may let its holder in again.

Attempts of one client are one owner if its terms allow re-entry: if any of its requests for the
lock asks for it. Else each is an owner of its own, and a second grant to the holder is a double
grant. One owner too, whatever it asks for: a client that asks for several paths of a hierarchy, or
shared as well (it may downgrade), and every client of a lock that ends with its connection, whose
database lets its own session in again.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from holdfast.checkers.holds.hierarchy import families, paths
from holdfast.checkers.holds.history_index import Ints, column, rows_of
from holdfast.harness.core.case import Case, memoised
from holdfast.harness.core.operations import Mode, Op

Bools = npt.NDArray[np.bool_]


@memoised
def owners(case: Case) -> Ints:
    """Per acquire, in order of call: its owner. A client's number, or for an attempt that is an
    owner of its own a negative one; memoised."""
    process = column(case, "process")[rows_of(case, Op.ACQUIRE, Op.TRY, Op.PROBE)]
    alone = ~sharing(case) & (case.promises.bound != "connection")
    return np.where(alone, -2 - np.arange(len(process)), process)


@memoised
def sharing(case: Case) -> Bools:
    """Per acquire whether its client may have several holds of the lock at once: by re-entry, of
    several modes, or of several paths; memoised."""
    asked = rows_of(case, Op.ACQUIRE, Op.TRY, Op.PROBE)
    process, key = column(case, "process")[asked], column(case, "key")[asked]
    plain = column(case, "op")[asked] & 1 == 0
    plain &= column(case, "mode")[asked] == Mode.EXCLUSIVE
    several = ~plain | _moved(case, process, key)
    return _any(process, _families(case, key), several)


def owner_of(case: Case, row: int) -> int:
    """The owner of the attempt whose acquire is this row."""
    asked = rows_of(case, Op.ACQUIRE, Op.TRY, Op.PROBE)
    return int(owners(case)[np.searchsorted(asked, row)])


def _families(case: Case, key: Ints) -> Ints:
    """Per acquire one lock of the hierarchy that its lock belongs to, or its lock."""
    if not paths(case):
        return key
    first = {
        other: one
        for one, others in families(case, np.unique(key).tolist()).items()
        for other in others
    }
    return np.array([first[one] for one in key.tolist()], np.int64)


def _moved(case: Case, process: Ints, key: Ints) -> Bools:
    """Which acquires are of a client that asked for another lock of the same hierarchy."""
    if not paths(case):
        return np.zeros(len(key), bool)
    family = _families(case, key)
    first: dict[tuple[int, int], int] = {}
    names = list(zip(process.tolist(), family.tolist(), strict=True))
    for name, one in zip(names, key.tolist(), strict=True):
        first.setdefault(name, one)
    return np.array([first[n] != one for n, one in zip(names, key.tolist(), strict=True)], bool)


def _any(process: Ints, family: Ints, which: Bools) -> Bools:
    """Per acquire whether any of its client for that family is one of `which`."""
    if not which.any():
        return np.zeros(len(process), bool)
    # Client and family (1 4) (2 4) (1 4) are groups 0 1 0.
    _, group = np.unique(process << 32 | family, return_inverse=True)
    group = group.ravel()
    return np.isin(group, group[which])
