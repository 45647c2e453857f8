"""No false rejection: neither a holder's request nor a try of a free lock is rejected.

Claims
    VIOLATED: the resource rejected a request that carried its owner's own token while that owner's
    hold was proved or promised; or a try returned "held" although no client could hold the lock at
    any time between its call and its return, and no client was queued for it.
Assumes
    The response to a try is true at some instant between its call and its return. A hold that was
    not released may be ended late, by the time allowed to notice a free lock, and its lock stays
    closed for the promised delay.
Blind to
    Rejections of locks that several hold at once; tries during faults and until the service has
    recovered from them; rejections without a clear reason, or of a client whose session may have
    ended meanwhile; a strict resource's rejection of an equal token. After an acquire of unknown
    outcome no rejection is judged.
Cost
    O(n log n) in the attempts of each lock and the requests to the resource.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from holdfast.checkers.coverage.requirements import conclude, exercise
from holdfast.checkers.facts import resource_log
from holdfast.checkers.facts.stalls import longest_ns
from holdfast.checkers.facts.wording import drawn, lock_name, name, seconds, who
from holdfast.checkers.holds.attempt_table import table
from holdfast.checkers.holds.derive import ENDS
from holdfast.checkers.holds.history_index import Bools, Indices, Ints, column
from holdfast.checkers.holds.leases import EXPIRY_SLACK_NS
from holdfast.checkers.holds.starvation import overdue_ns
from holdfast.checkers.holds.statements import believed
from holdfast.checkers.opportunities.places.served_again import within_holds
from holdfast.harness.core.case import Case
from holdfast.harness.core.operations import Op, Status
from holdfast.harness.core.verdict import Finding, Proof, PropertyVerdict
from holdfast.harness.history.distinct_values import distinct

PROPERTY = "no-false-rejection"
NEEDS = ("contention", "faults")
RELEASED = ENDS.index("release")
HELD = "held"


def check(case: Case) -> PropertyVerdict:
    """The verdict on no-false-rejection, with a finding per unjustified rejection."""
    met = exercise(case, needs=NEEDS)
    holders = within_holds(case)
    tries = _refused_tries(case)
    findings = [*_requests(case, holders), *_tries(case, tries)]
    findings.sort(key=lambda finding: finding.t_ns)
    calm = int((~_amid(case, tries, _troubled(case))).sum())
    counts = {**met.counts, "requests of holders": int(holders.sum()), "refused tries": len(tries)}
    counts["of them apart from faults"] = calm
    missing = [*met.missing]
    if not holders.any() and not calm:
        missing.append(
            "no certain holder sent the resource a request, and no try was refused apart from"
            " faults and what follows them"
        )
    met = replace(met, counts=counts, missing=tuple(missing))
    return conclude(case, PROPERTY, findings, (), met)


def _requests(case: Case, holders: Bools) -> Iterator[Finding]:
    rows = resource_log.log(case).rows
    write = column(case, "f")[rows] == Op.SERVED_WRITE
    highest = np.where(write, column(case, "aux")[rows], column(case, "arg")[rows])
    refused = holders & (column(case, "status")[rows] == Status.FAIL)
    if case.options.get("resource") == "strict":
        refused &= column(case, "token")[rows] != highest
    which = np.flatnonzero(refused)
    owners = table(case).pick(table(case).of_rows(rows[which]))
    for place, owner in zip(which.tolist(), owners, strict=True):
        row = int(rows[place])
        at = int(column(case, "t_inv")[row])
        sent = int(resource_log.log(case).sent[place])
        yield Finding(
            kind="false-rejection",
            sentence=(
                f"the resource refused a request of {who(case, owner)} at {seconds(case, at)},"
                f" which held '{lock_name(case, owner)}'; the highest token that it had admitted"
                f" was {int(highest[place])}"
            ),
            witnesses=tuple(r for r in (owner.row, sent, row) if r >= 0),
            lock=case.history.strings[int(column(case, "key")[row])],
            t_ns=at,
            spans=(drawn(case, owner, owner.end_ns),),
            proof=Proof(
                rule="false-rejection",
                roles={"owner": owner.row, "request": row},
                values={"owner_until": max(owner.proof_ns, owner.bound_ns)},
            ),
        )


def _refused_tries(case: Case) -> Indices:
    """Entries of the tries that returned "held", or were rejected without a reason."""
    attempts = table(case)
    tries = np.flatnonzero((attempts.op == Op.TRY) & (attempts.status == Status.FAIL))
    errors = column(case, "err")[attempts.row[tries]]
    texts = case.history.strings
    plain = [not texts[e] or texts[e].startswith(HELD) for e in errors.tolist()]
    tries = np.compress(np.array(plain, bool), tries)
    return np.compress(~_session_ended(case, tries), tries)


def _session_ended(case: Case, tries: Indices) -> Bools:
    """Whether a try may have been rejected because its client's session was over.

    The service ends a session before the client is notified: a try in [1.0, 1.3] of a client that
    is notified at 1.4 may have reached a service that no longer knew its session.
    """
    attempts, closed = table(case), case.history.of(Op.CLOSED)
    closed = closed[column(case, "attempt")[closed] == 0]
    promises = case.promises
    limit_ns = case.error_ns + (promises.notice_ns or promises.lasting_ns(case.lease_ns))
    # Calls and ends of sessions in one order, per process by time. Of c1's call at 1.0 and c1's
    # ends at 0.5 and 1.4 the order is 0.5 end, 1.0 call, 1.4 end: what follows the call counts.
    ends = np.repeat([True, False], [len(closed), len(tries)])
    process = np.concatenate((column(case, "process")[closed], attempts.process[tries]))
    t_ns = np.concatenate((column(case, "t_inv")[closed], attempts.inv[tries] - case.error_ns))
    order = np.lexsort((ends, t_ns, process))
    places = np.where(ends[order], np.arange(len(order)), len(order) - 1)
    following = order[np.minimum.accumulate(places[::-1])[::-1]]
    after = np.empty_like(order)
    after[order] = following
    mine = after[len(closed) :]
    own = ends[mine] & (process[mine] == attempts.process[tries])
    return np.asarray(own & (t_ns[mine] <= attempts.ret[tries] + limit_ns))


def _tries(case: Case, tries: Indices) -> Iterator[Finding]:
    attempts = table(case)
    for key, entries in attempts.by_lock().items():
        mine = tries[attempts.key[tries] == key]
        if not len(mine):
            continue
        spans = _spans(case, entries)
        free = mine[~_amid(case, mine, spans)]
        shut = _shut_until(case, free, spans).tolist()
        for a, shut_ns in zip(attempts.pick(free), shut, strict=True):
            yield Finding(
                kind="spurious-refusal",
                sentence=(
                    f"{name(case, a.process)} asked for '{case.history.strings[key]}' from"
                    f" {seconds(case, a.inv_ns)} to {seconds(case, a.ret_ns)} and was rejected"
                    " as held, although no client could hold it then or waited for it"
                ),
                witnesses=(a.row,),
                lock=case.history.strings[key],
                t_ns=a.inv_ns,
                proof=Proof(
                    rule="spurious-refusal",
                    roles={"refused": a.row},
                    values={"shut_until": shut_ns},
                ),
            )


def _amid(case: Case, mine: Indices, spans: tuple[Ints, Ints]) -> Bools:
    """Which entries were in flight in one of the spans, given as their begins and ends."""
    met = _shut_until(case, mine, spans)
    return np.asarray(met + case.error_ns >= table(case).inv[mine])


def _shut_until(case: Case, mine: Indices, spans: tuple[Ints, Ints]) -> Ints:
    """The latest end of these spans that began before each entry's return; -1: none."""
    attempts = table(case)
    begun, over = spans
    order = np.argsort(begun, kind="stable")
    begun = begun[order] - case.error_ns
    reached = np.maximum.accumulate(over[order])
    # The latest end of the spans begun so far; if none has, last is -1 and picks the -1 appended.
    last = np.searchsorted(begun, attempts.ret[mine], "right") - 1
    return np.asarray(np.concatenate((reached, [-1]))[last])


def _proved_by_releases(case: Case, keys: Ints) -> Bools:
    """Of which locks an ok release means that its attempt owned the lock until then.

    Where it may be the answer to an attempt whose session was over, the lock is closed by its
    lock-delay.
    """
    sure = {
        key: (promises := believed(case, key)).release_once or promises.release_proves
        for key in distinct(keys).tolist()
    }
    return np.array([sure[key] for key in keys.tolist()], bool)


def _troubled(case: Case) -> tuple[Ints, Ints]:
    """Spans of faults, with the time to recover from them."""
    calm_ns = case.promises.recovery_ns + longest_ns(case)
    faults: Sequence[tuple[int, int]] = [(w.from_ns, w.to_ns + calm_ns) for w in case.windows]
    return np.array([f for f, _ in faults], np.int64), np.array([t for _, t in faults], np.int64)


def _spans(case: Case, entries: Indices) -> tuple[Ints, Ints]:
    """Spans in which a rejection may be right: possible holds, waiters, faults with recovery."""
    attempts = table(case)
    holds = entries[attempts.over[entries] >= 0]
    status, ret = column(case, "status"), column(case, "t_ret")
    ended = attempts.end_row[holds]
    given_back = (attempts.why[holds] == RELEASED) & (status[ended] == Status.OK)
    given_back &= ret[ended] == attempts.over[holds]
    if case.promises.delay_ns:
        given_back &= _proved_by_releases(case, attempts.key[holds])
    longest = np.iinfo(np.int64).max // 4
    ends = np.minimum(attempts.over[holds], longest)
    late = np.full(len(ends), EXPIRY_SLACK_NS)
    if case.starved:
        late = np.array([overdue_ns(case, end_ns) - end_ns for end_ns in ends.tolist()], np.int64)
    late = np.where(given_back, 0, late + case.promises.delay_ns)
    waits = entries[(attempts.op[entries] != Op.TRY) & (attempts.over[entries] < 0)]
    from_ns, to_ns = _troubled(case)
    begun = [attempts.inv[holds], attempts.inv[waits], from_ns]
    over = [
        ends + late,
        np.minimum(attempts.ret[waits], longest),
        to_ns,
    ]
    return np.concatenate(begun), np.concatenate(over)
