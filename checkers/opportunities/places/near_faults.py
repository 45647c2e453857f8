"""Places at which a defect would have been seen whatever the fault is, near the faults of a kind.

Who checks an owner, a token or the end of a hold, and who tells that a hold was lost, do so under
any fault: what counts is that there was something to check when the fault can have mattered.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from holdfast.checkers.facts.verdicts_by_fault import near, near_any
from holdfast.checkers.holds.history_index import Ints
from holdfast.harness.core.case import Case, Window
from holdfast.harness.core.verdict import Seen


class Places(NamedTuple):
    """Places in a history, as columns, in any order.

    t_ns     when the defect would have been seen
    from_ns  the first call of the rows that show it
    roles    name -> its row at each place
    """

    t_ns: Ints
    from_ns: Ints
    roles: Mapping[str, Ints]


class Where(NamedTuple):
    """What a row looks for.

    places  finds them
    none    what there was none of, for the nearest miss: "no ... was ..."
    seldom  a run without any does not contain what they are about, and requires nothing
    extra   only some runs have any: one without any near a fault is judged by what else it shows
    """

    places: Callable[[Case], Places]
    none: str
    seldom: bool = False
    extra: bool = False


def near_faults(case: Case, windows: Sequence[Window], where: Where) -> Seen:
    """The places near which one of these faults was at work, as findings are attributed."""
    found = _places(case, where)
    kinds = " or ".join(dict.fromkeys(window.do for window in windows))
    if where.seldom and not len(found.t_ns):
        return Seen(staged=False, nearest=f"{where.none}: 0 in the whole run")
    any_near = near_any(case, windows, found.from_ns, found.t_ns)
    count = int(any_near.sum())
    if not count:
        nearest = f"{where.none} near a {kinds}: 0 of {len(found.t_ns)} in the run"
        return Seen(staged=not where.extra, nearest=nearest)
    first = int(np.argmax(any_near))
    at = found.from_ns[first : first + 1], found.t_ns[first : first + 1]
    fault = next(window.id for window in windows if near(case, window, *at).all())
    roles = {name: int(rows[first]) for name, rows in found.roles.items()}
    return Seen(count=count, roles=roles, fault=fault)


def _places(case: Case, where: Where) -> Places:
    """Those that a row looks for, in order of time."""
    memo: dict[object, Places] = case.memo.setdefault("near places", {})
    if where.places not in memo:
        places = where.places(case)
        order = np.argsort(places.t_ns, kind="stable")
        roles = {name: rows[order] for name, rows in places.roles.items()}
        memo[where.places] = Places(places.t_ns[order], places.from_ns[order], roles)
    return memo[where.places]
