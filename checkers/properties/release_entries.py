"""Checks the remaining entries that a release reports against those possible and those certain.

At most those are left that the owner requested and that the service had not reported as over. At
least those are left that were granted before the release was sent and whose hold, by lease or
proof, lasts beyond its return.

    acquires   re-enters   releases the inner: "0 left, fully released"   renews the outer: ok
    the outer entry was held throughout, so that 0 is false
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from holdfast.checkers.facts import witnesses
from holdfast.checkers.facts.wording import lock_name, name, seconds
from holdfast.checkers.holds.contradictions import stands_for
from holdfast.checkers.holds.derive import Attempt, by_id, by_lock
from holdfast.checkers.holds.history_index import column, rows_of
from holdfast.checkers.holds.overlaps import reach, slack
from holdfast.checkers.holds.statements import LASTING, believed
from holdfast.checkers.properties import lock_timeline
from holdfast.harness.core.case import Case
from holdfast.harness.core.operations import Op, Status
from holdfast.harness.core.verdict import Finding, Proof

MOST_OPEN = 64
"""An owner with more possibly open attempts at one lock is not judged."""


def false_entries(case: Case) -> Iterator[Finding]:
    """A finding per ok release whose response cannot be right.

    One pass per owner and lock over its attempts in order of time, with those still open: linear if
    few are.
    """
    rows = rows_of(case, Op.RELEASE)
    counted = rows[(column(case, "status")[rows] == Status.OK) & (column(case, "res")[rows] > 0)]
    if not len(counted):
        return
    sent, releases = column(case, "t_inv"), dict[tuple[int, int], list[int]]()
    keys, processes = column(case, "key"), column(case, "process")
    for row in counted[sent[counted].argsort(kind="stable")].tolist():
        releases.setdefault((int(keys[row]), int(processes[row])), []).append(row)
    for key, attempts in by_lock(case).items():
        mine: dict[int, list[Attempt]] = {}
        for a in attempts:
            mine.setdefault(a.process, []).append(a)
        for process, own in mine.items():
            yield from _of_owner(case, own, releases.get((key, process), ()))


def _of_owner(case: Case, own: Sequence[Attempt], releases: Sequence[int]) -> Iterator[Finding]:
    sent, back = column(case, "t_inv"), column(case, "t_ret")
    open_now, next_one, slack_ns = list[Attempt](), 0, slack(case)
    for row in releases:
        inv_ns, ret_ns = int(sent[row]), int(back[row])
        story = lock_timeline.story(case, own[0].key)
        while next_one < len(own) and own[next_one].inv_ns <= ret_ns + slack_ns:
            open_now.append(own[next_one])
            next_one += 1
        open_now = [a for a in open_now if not _over(story, a, inv_ns)]
        if len(open_now) > MOST_OPEN:
            return
        finding = _judged(case, row, [a for a in open_now if a.inv_ns <= ret_ns + slack_ns])
        if finding is not None:
            yield finding


def _over(story: lock_timeline.LockStory, a: Attempt, by_ns: int) -> bool:
    refused = a.status in (Status.FAIL, Status.NOT_OWNER)
    return (refused and a.ret_ns + story.slack_ns < by_ns) or story.over(a, by_ns)


def _judged(case: Case, row: int, open_now: Sequence[Attempt]) -> Finding | None:
    one = case.history.rows[row]
    released = by_id(case).get(int(one["attempt"]))
    if released is None or int(one["key"]) != released.key:
        return None
    left, others = int(one["res"]) - 1, [a for a in open_now if a.id != released.id]
    if left > len(others) and believed(case, released.key).renew_proves:
        proof = Proof(
            rule="false-entries/more", roles={"release": row}, values={"most": len(others)}
        )
        why = f"at most {len(others)} can have been left"
        return _finding(case, released, row, left, why, (released.row, row), proof)
    if not stands_for(case, released.key, LASTING):
        return None
    far, ret_ns = reach(case), int(one["t_ret"]) + slack(case)
    inside = [a for a in others if a.known_ns < int(one["t_inv"]) and far(a) > ret_ns]
    if left >= len(inside):
        return None
    roles, values = {"release": row}, dict[str, int]()
    for n, a in enumerate(inside[: left + 1], 1):
        roles |= witnesses.known(case, **{f"other{n}": a})
        values[f"other{n}_reach"] = far(a)
    proof = Proof(rule="false-entries/fewer", roles=roles, values=values)
    since = ", ".join(seconds(case, a.known_ns) for a in inside[:2])
    why = f"its entry granted by {since} was still in force"
    if len(inside) > 1:
        why = f"{len(inside)} others of its entries, among them those granted by {since}, were"
        why += " still in force"
    shown = (*(a.row for a in inside[:2]), released.row, row)
    return _finding(case, released, row, left, why, shown, proof)


def _finding(
    case: Case, a: Attempt, row: int, told: int, why: str, shown: Sequence[int], proof: Proof
) -> Finding:
    sent_ns = int(case.history.rows["t_inv"][row])
    left = f"leaves it {told} more" if told else "fully releases it"
    return Finding(
        kind="false-entries",
        sentence=(
            f"{name(case, a.process)}'s release of '{lock_name(case, a)}', sent at"
            f" {seconds(case, sent_ns)}, returned that it {left}; but {why}"
        ),
        witnesses=tuple(dict.fromkeys(shown)),
        lock=lock_name(case, a),
        t_ns=sent_ns,
        proof=proof,
    )
