"""Grant notice: a client that waited for a lock is notified of its grant, in time.

Claims: a queued client received its grant later than the promised time after a holder query had
    returned that client as the holder, although it was reachable all the time
Assumes: that a client is reachable while no fault affects its node or a server and neither it nor
    its host is starved of CPU; that a fault on a server, or a cut connection, is over one recovery
    time after it was healed
Blind to: a grant that no holder query returned before the acquire did; tokens that several holds
    share, as those of readers and of reentries of one owner; times in which a fault was active
Cost: n log n in the number of attempts

A late grant affects other clients too: its lease runs while the clients behind it wait. A grant
that returns after the wait's timeout is a hung request.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from holdfast.checkers.coverage.requirements import conclude, exercise
from holdfast.checkers.facts.reachable import out_of_reach
from holdfast.checkers.facts.wording import lock_name, name, seconds, span
from holdfast.checkers.holds.attempt_table import table
from holdfast.checkers.holds.derive import Attempt
from holdfast.checkers.holds.history_index import column, rows_of
from holdfast.checkers.holds.overlaps import slack
from holdfast.checkers.opportunities.places.answered_queries import named_waiters
from holdfast.checkers.opportunities.places.near_faults import Where, near_faults
from holdfast.checkers.opportunities.row import CONTENDED, OpportunityRow, of_any_fault
from holdfast.checkers.properties.lock_timeline import story
from holdfast.harness.core.case import Case
from holdfast.harness.core.operations import NO_TOKEN, Op, Status
from holdfast.harness.core.verdict import Finding, Proof, PropertyVerdict

PROPERTY = "grant-notice"
NEEDS = ("named-waits", "faults")
OPPORTUNITIES: Sequence[OpportunityRow] = (
    of_any_fault(
        id="grant-notice/late-word/any",
        property="grant-notice",
        defect="notifies a client that waits too late of its grant",
        sentence="a query named a client that had waited, within the time of a notice",
        twin="reference:late-word",
        look=partial(
            near_faults, where=Where(named_waiters, "no query named a client that had waited")
        ),
        change=CONTENDED,
    ),
)


def check(case: Case) -> PropertyVerdict:
    """The verdict, with a finding per grant whose waiter was notified late."""
    met, limit_ns = exercise(case, needs=NEEDS), case.promises.notice_ns
    if limit_ns <= 0:
        met = replace(met, missing=("no time for a notice is promised", *met.missing))
        return conclude(case, PROPERTY, (), (), met)
    findings, slowest_ns, excused = list[Finding](), 0, 0
    named = _named_before(case)
    for a, row in named:
        named_ns = int(column(case, "t_ret")[row]) + slack(case)
        if _disturbed(case, a.node, named_ns - slack(case), limit_ns + 2 * slack(case)):
            excused += 1
            continue
        slowest_ns = max(slowest_ns, a.ret_ns - named_ns)
        if a.ret_ns - named_ns > limit_ns:
            findings.append(_finding(case, a, row, limit_ns))
    counts = {**met.counts, "slowest grant notice ms": slowest_ns // 1_000_000}
    if excused:
        counts["named before their return, unreachable"] = excused
    # A grant that returned before a response named it came in time.
    in_time = met.counts["of them named by a response"] - sum(
        a.status == Status.OK for a, _ in named
    )
    if excused and excused == len(named) and not in_time:
        why = f"every client that was named was out of reach meanwhile: {excused} of {excused}"
        met = replace(met, missing=(*met.missing, why))
    findings.sort(key=lambda finding: finding.t_ns)
    return conclude(case, PROPERTY, findings, (), replace(met, counts=counts))


def _named_before(case: Case) -> list[tuple[Attempt, int]]:
    """Attempts that had waited, with the holder query that returned each as the holder before its
    own return.

    One of unknown outcome counts if its response carried the token that it was granted.
    """
    attempts = table(case)
    token, keys, ret = (column(case, each) for each in ("token", "key", "t_ret"))
    carried = Counter(
        (int(keys[row]), int(token[row])) for row in attempts.row.tolist() if token[row] != NO_TOKEN
    )
    first: dict[tuple[int, int], int] = {}
    asked = rows_of(case, Op.HOLDER)
    asked = asked[column(case, "status")[asked] == Status.OK]
    for row in asked[ret[asked].argsort(kind="stable")].tolist():
        first.setdefault((int(keys[row]), int(token[row])), row)
    waited = (attempts.queued >= 0).nonzero()[0]
    pairs = []
    for a in attempts.pick(waited):
        grant = a.key, int(token[a.row])
        known = a.status in (Status.OK, Status.INFO) and carried[grant] == 1
        if not known or grant not in first:
            continue
        named_ns = int(ret[first[grant]])
        if named_ns + slack(case) < a.ret_ns and not story(case, a.key).entered_unknown(
            a, named_ns
        ):
            pairs.append((a, first[grant]))
    return pairs


def _disturbed(case: Case, node: str, from_ns: int, span_ns: int) -> bool:
    """Whether a client was unreachable at any time within span_ns from from_ns on."""
    spans = out_of_reach(case, node)
    return any(start <= from_ns + span_ns and end >= from_ns for start, end in spans)


def _finding(case: Case, a: Attempt, row: int, limit_ns: int) -> Finding:
    named_ns, asker = int(column(case, "t_ret")[row]), int(column(case, "process")[row])
    waiting = min(a.waitings, key=column(case, "t_inv").__getitem__)
    return Finding(
        kind="late-grant-notice",
        sentence=(
            f"{name(case, a.process)}, which waited for '{lock_name(case, a)}', was notified of its"
            f" grant only at {seconds(case, a.ret_ns)}: a query of {name(case, asker)} had"
            f" named it as holder by {seconds(case, named_ns)}, and the limit is {span(limit_ns)}"
        ),
        witnesses=(a.row, waiting, row),
        lock=lock_name(case, a),
        t_ns=a.ret_ns,
        proof=Proof(rule="late-grant-notice", roles={"a": a.row, "waiting": waiting, "named": row}),
    )
