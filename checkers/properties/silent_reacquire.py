"""A lost lock taken again by a renewal or check that was answered as if the hold had gone on.

Another client was certainly granted the lock after the owner, the owner's lease by all answers
before was over, and yet the service confirmed the old hold afterwards. Nothing tells the owner that
another client was there in between.

Not judged: a lock whose ok renewals are declared to prove an unbroken hold (there it is a
`foreign-renewal`, of ownership); an owner that asked for the lock again itself before the answer;
one that may still have been notified: within the limit from the answer on it was out of reach, gave
no sign of life, or was notified; locks that cover a subtree, and holds that no lease bounds.

Where a library renews by itself, an ok may be no more than its own word, given before its next
renewal finds the loss. So it extends no lease, and the owner has to keep the lock for the limit: a
library that has released it sends no renewal and no notice.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from holdfast.checkers.facts import witnesses
from holdfast.checkers.facts.lost_holds import first_lease_end
from holdfast.checkers.facts.wording import drawn, known_row, lock_name, name, seconds, span
from holdfast.checkers.holds.attempt_table import table
from holdfast.checkers.holds.derive import INF, Attempt
from holdfast.checkers.holds.hierarchy import paths
from holdfast.checkers.holds.history_index import UNKNOWN, Indices, Ints, column, rows_of
from holdfast.checkers.holds.leases import longest
from holdfast.checkers.holds.overlaps import reach, slack
from holdfast.checkers.holds.statements import believed
from holdfast.checkers.holds.succession import succession_of
from holdfast.harness.core.case import Case
from holdfast.harness.core.operations import Op, Status
from holdfast.harness.core.verdict import Finding, Proof


@dataclass(frozen=True, kw_only=True, slots=True)
class Reacquired:
    """A hold that was lost to `other`, and the later answer that confirmed it."""

    attempt: Attempt
    other: Attempt
    row: int
    leased_ns: int
    """the latest end of its lease by the answers before"""


def reacquired(case: Case) -> Iterator[Reacquired]:
    """The first such answer of each attempt, whether or not a notice may have followed."""
    if case.promises.bound != "lease" and not case.promises.lapses:
        return
    every, (answered, entry, last_ns) = table(case), _confirmations(case)
    inv = column(case, "t_inv")
    for key, entries in every.by_lock().items():
        if key in paths(case) or believed(case, key).renew_proves:
            continue
        succession = succession_of(case, key)
        asked = entries[every.ok[entries] & (last_ns[entries] >= 0)]
        asked = asked[succession.overtaken(asked, last_ns[asked])]
        for place, attempt in zip(asked.tolist(), every.pick(asked), strict=True):
            for row in answered[entry == place].tolist():
                other = succession.first(attempt, int(inv[row]))
                leased_ns = _leased_until(case, attempt, row)
                if other is None or leased_ns + slack(case) >= inv[row]:
                    continue
                if _alone(case, entries, attempt, row):
                    yield Reacquired(attempt=attempt, other=other, row=row, leased_ns=leased_ns)
                break


def _confirmations(case: Case) -> tuple[Indices, Ints, Ints]:
    """Renewals and checks that returned ok, in order of call; the entry of each; and per entry of
    the table when the last of them was sent, -1 if there is none."""
    every, rows = table(case), np.sort(rows_of(case, Op.RENEW, Op.CHECK))
    rows = rows[column(case, "status")[rows] == Status.OK]
    entry = every.of_rows(rows)
    rows, entry = rows[entry >= 0], entry[entry >= 0]
    # The resource may check a hold as well: its question says nothing to the owner.
    own = column(case, "process")[rows] == every.process[entry]
    rows, entry = rows[own], entry[own]
    last_ns = np.full(len(every), -1)
    np.maximum.at(last_ns, entry, column(case, "t_inv")[rows])
    return rows, entry, last_ns


def _leased_until(case: Case, a: Attempt, row: int) -> int:
    """The latest end of a lease by its grant and the renewals that were sent before a row."""
    rows, promises = case.history.rows, case.promises
    end_ns, before_ns = first_lease_end(case, a), int(rows["t_inv"][row])
    for renewal in () if promises.lapses else a.renewals:
        one = rows[renewal]
        if renewal == row or one["t_inv"] > before_ns:
            continue
        if one["status"] == Status.OK:
            end_ns = max(end_ns, int(one["t_ret"]) + longest(int(one["res"]), promises))
        elif one["status"] in UNKNOWN:
            end_ns = max(end_ns, int(one["t_inv"]) + longest(int(one["arg"]), promises))
    return end_ns


def _alone(case: Case, entries: Indices, a: Attempt, row: int) -> bool:
    """Whether no other acquire of its process can have been granted the lock again by then: each
    was refused, had returned before this attempt began, or was sent after the answer."""
    every = table(case)
    mine = entries[(every.process[entries] == a.process) & (every.row[entries] != a.row)]
    refused = ~every.ok[mine] & ~every.unknown[mine]
    before = every.ok[mine] & (every.ret[mine] < a.inv_ns)
    after = every.inv[mine] > int(column(case, "t_ret")[row])
    return bool(np.all(refused | before | after))


def notified_ns(case: Case, a: Attempt) -> int:
    """When its client was first notified of a loss, or was killed; INF: never. A release of its
    own ends no notice that is on its way."""
    inv, kind = column(case, "t_inv"), column(case, "f")
    notices = rows_of(case, Op.LOST, Op.CLOSED)
    own = column(case, "attempt")[notices] == a.id
    whole = (kind[notices] == Op.CLOSED) & (column(case, "attempt")[notices] == 0)
    own |= whole & (column(case, "process")[notices] == a.process)
    times = [int(t) for t in inv[notices[own]] if t >= a.inv_ns]
    status, ret = column(case, "status"), column(case, "t_ret")
    times += [int(ret[row]) for row in a.renewals if status[row] == Status.NOT_OWNER]
    kills = (w.from_ns for w in case.windows if w.traits.kills and a.node in w.nodes)
    return min([*times, *(t_ns for t_ns in kills if t_ns >= a.inv_ns)], default=INF)


def finding(case: Case, one: Reacquired, seen_ns: int, calm_ns: int, limit_ns: int) -> Finding:
    """What is reported. seen_ns: until when its client was there and not notified; calm_ns: where
    the time begins in which it could be reached and was not."""
    rows, a, other = case.history.rows, one.attempt, one.other
    owner, lock, row = name(case, a.process), lock_name(case, a), one.row
    check = rows["f"][row] == Op.CHECK
    what = "check" if check else "renewal"
    shown = (a.row, other.row, known_row(case, other), row)
    return Finding(
        kind="silent-reacquire",
        sentence=(
            f"{owner} lost '{lock}' to {name(case, other.process)}, which had been granted it by"
            f" {seconds(case, other.known_ns)}; {owner}'s {what}, sent at"
            f" {seconds(case, int(rows['t_inv'][row]))}, returned ok as if it had held the lock all"
            f" along, and no notice followed within {span(limit_ns)}"
        ),
        witnesses=tuple(dict.fromkeys(n for n in shown if n >= 0)),
        lock=lock,
        t_ns=int(rows["t_ret"][row]),
        spans=(
            drawn(case, a, int(rows["t_inv"][row])),
            drawn(case, other, reach(case)(other)),
        ),
        proof=Proof(
            rule=f"silent-reacquire/{witnesses.how(case, a, other)}",
            roles=witnesses.known(case, a=a, other=other) | {"row": row},
            values={
                "leased": one.leased_ns,
                "seen": seen_ns,
                "limit": limit_ns,
                "calm": calm_ns,
            },
        ),
    )
