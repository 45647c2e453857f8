"""Ownership: only the holder can release or renew.

Claims: a renewal or release returned ok although its attempt had certainly lost the lock to a later
grant, had released it before, or was never granted it
Assumes: that an ok means what the promises declare. If it is declared to mean little, only an ok
within another's proved or promised hold counts
Blind to: a release that returned ok without effect, of an attempt that did not hold, if the
system declares that it may return so
Cost: n log n in the number of attempts

Two explanations do not cancel each other: of "not the owner" before an ok one is false, and an ok
within a lease that the service cut short was another's, or the lease is. Each is a doubt: UNKNOWN.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from holdfast.checkers.coverage.requirements import conclude, exercise
from holdfast.checkers.facts import witnesses
from holdfast.checkers.facts.wording import drawn, lock_name, name, seconds, who
from holdfast.checkers.holds.attempt_table import table
from holdfast.checkers.holds.contradictions import stands_for
from holdfast.checkers.holds.derive import INF, Attempt
from holdfast.checkers.holds.history_index import UNKNOWN, Indices, column, rows_of
from holdfast.checkers.holds.overlaps import proof_reach, reach, slack
from holdfast.checkers.holds.statements import LASTING, answers, believed
from holdfast.checkers.holds.succession import Succession, succession_of
from holdfast.checkers.properties import ownership_opportunities
from holdfast.harness.core.case import Case
from holdfast.harness.core.operations import Op, Status
from holdfast.harness.core.verdict import Finding, Proof, PropertyVerdict

PROPERTY = "ownership"
NEEDS = ("stale-releases", "faults")
OPPORTUNITIES = ownership_opportunities.OPPORTUNITIES


def check(case: Case) -> PropertyVerdict:
    """The verdict, with at most one finding per attempt: its first ok that cannot be right."""
    findings, either, oks, reported = [], _contradicted(case), _Oks(case), set[int]()
    for key, entries in table(case).by_lock().items():
        succession = succession_of(case, key)
        for attempt in table(case).pick(_suspects(oks, entries, succession)):
            finding = next(_findings(case, oks, attempt, succession), None)
            if finding is not None and attempt.id not in reported:
                reported.add(attempt.id)
                findings.append(finding)
            elif finding is None and not stands_for(case, attempt.key, LASTING):
                either += _within_a_lease(case, oks, attempt, succession)
    findings.sort(key=lambda finding: finding.t_ns)
    met = exercise(case, needs=NEEDS)
    met = replace(met, either=tuple(either[:1]))
    return conclude(case, PROPERTY, findings, (), met)


def _contradicted(case: Case) -> list[str]:
    """Attempts that the service called over and then confirmed, one per lock and kind: one of the
    two responses is false. An ok release before is a finding, not a doubt."""
    attempts, rows, doubts = table(case), case.history.rows, list[str]()
    for by_name in answers(case).values():
        for contradiction in by_name.values():
            over, again = contradiction.rows
            entry = int(attempts.of_rows(np.array([over]))[0])
            known = entry >= 0 and bool(attempts.ok[entry])
            if rows["status"][over] != Status.NOT_OWNER or not known:
                continue
            if rows["t_inv"][over] <= attempts.ret[entry]:
                continue  # It may have been decided before the grant.
            owner = name(case, int(rows["process"][over]))
            lock = case.history.strings[int(rows["key"][over])]
            doubts.append(
                f"{owner} was answered at {seconds(case, int(rows['t_ret'][over]))} that its hold"
                f" of '{lock}' was over, and its {_what(case, again)} sent at"
                f" {seconds(case, int(rows['t_inv'][again]))} returned ok: the first response is"
                " false, or an attempt that did not hold was confirmed"
            )
    return doubts


def _within_a_lease(
    case: Case, oks: _Oks, attempt: Attempt, succession: Succession
) -> Iterator[str]:
    """An ok within another's lease of a lock whose leases the service contradicted in this run."""
    for row in sorted((*attempt.renewals, *attempt.releases)):
        if not oks.counts(row):
            continue
        done_ns = int(oks.ret[row]) + slack(case)
        for other in succession.successors(attempt, oks.inv[row]):
            if reach(case)(other) > done_ns:
                yield (
                    f"{name(case, attempt.process)}'s {_what(case, row)} of"
                    f" '{lock_name(case, attempt)}', sent at {seconds(case, int(oks.inv[row]))},"
                    f" returned ok within a lease of {name(case, other.process)} that the service"
                    " should have kept: it confirmed or ended a hold of another, or a lease was"
                    " over before its time"
                )
                return


class _Oks:
    """Columns computed once, used for every renewal and release.

    last_ns   per entry of the table, when the last of them that returned ok was sent
    done_ns   per entry, when the first release returned ok
    """

    def __init__(self, case: Case) -> None:
        self.ok = column(case, "status") == Status.OK
        self.is_release = column(case, "f") == Op.RELEASE
        self.inv = column(case, "t_inv")
        self.ret = column(case, "t_ret")
        self.table = table(case)
        rows = rows_of(case, Op.RENEW, Op.RELEASE)
        rows = rows[self.ok[rows]]
        entry = self.table.of_rows(rows)
        rows, entry = rows[entry >= 0], entry[entry >= 0]
        self.last_ns = np.full(len(self.table), -1)
        np.maximum.at(self.last_ns, entry, self.inv[rows])
        self.done_ns = np.full(len(self.table), INF)
        released = self.is_release[rows]
        np.minimum.at(self.done_ns, entry[released], self.ret[rows[released]])
        self._release_says_owned = case.promises.release_once or case.promises.release_proves

    def counts(self, row: int) -> bool:
        """Whether a row returned ok, and such an ok is declared to mean anything."""
        return bool(self.ok[row] and (self._release_says_owned or not self.is_release[row]))


def _suspects(oks: _Oks, entries: Indices, succession: Succession) -> Indices:
    """Entries with an ok after another's grant, after a release, or without a grant."""
    last_ns = oks.last_ns[entries]
    doubtful = succession.overtaken(entries, last_ns)
    doubtful |= ~oks.table.ok[entries] | (oks.done_ns[entries] < last_ns)
    return np.compress(doubtful & (last_ns >= 0), entries)


def _findings(case: Case, oks: _Oks, attempt: Attempt, succession: Succession) -> Iterator[Finding]:
    given_back = _given_back(case, oks, attempt)
    for row in sorted((*attempt.renewals, *attempt.releases)):
        if not oks.counts(row):
            continue
        if oks.is_release[row] or case.promises.renew_proves:
            if attempt.status is Status.FAIL:
                yield _never_granted(case, attempt, row)
            if given_back >= 0 and oks.ret[given_back] < oks.inv[row]:
                yield _after_release(case, attempt, row, given_back)
        other = _holder_instead(case, oks, attempt, row, succession)
        if other is not None:
            yield _foreign(case, attempt, row, other)


def _given_back(case: Case, oks: _Oks, attempt: Attempt) -> int:
    """The release of the attempt that returned ok first, or -1.

    None if a renewal of unknown outcome may have taken the lock again after it.
    """
    done = [release for release in attempt.releases if oks.ok[release]]
    if not done or attempt.status is not Status.OK:
        return -1
    if not case.promises.renew_proves:
        statuses = case.history.rows["status"]
        if any(statuses[renewal] in UNKNOWN for renewal in attempt.renewals):
            return -1
    return min(done, key=oks.ret.__getitem__)


def _holder_instead(
    case: Case, oks: _Oks, attempt: Attempt, row: int, succession: Succession
) -> Attempt | None:
    """Another attempt that had the lock when `row` returned ok, so that this one had not."""
    if attempt.known_ns < INF and believed(case, attempt.key).renew_proves:
        return next(succession.successors(attempt, oks.inv[row]), None)
    far = reach(case) if stands_for(case, attempt.key, LASTING) else proof_reach
    done_ns = oks.ret[row] + slack(case)
    for other in succession.successors(attempt, oks.inv[row]):
        if far(other) > done_ns:
            return other
    return None


def _never_granted(case: Case, attempt: Attempt, row: int) -> Finding:
    proof = Proof(rule="foreign/refused", roles={"attempt": attempt.row, "row": row})
    why = f"its acquire had been refused at {seconds(case, attempt.ret_ns)}"
    return _told(case, attempt, row, why, (attempt.row, row), (), proof)


def _after_release(case: Case, attempt: Attempt, row: int, release: int) -> Finding:
    released_ns = int(case.history.rows["t_ret"][release])
    why = f"its release had returned ok at {seconds(case, released_ns)}"
    spans = (drawn(case, attempt, released_ns),)
    roles = {"attempt": attempt.row, "release": release, "row": row}
    proof = Proof(rule="foreign/given-back", roles=roles)
    return _told(case, attempt, row, why, (attempt.row, release, row), spans, proof)


def _foreign(case: Case, attempt: Attempt, row: int, other: Attempt) -> Finding:
    why = f"{who(case, other)} had been granted it by {seconds(case, other.known_ns)}"
    sent_ns = int(case.history.rows["t_inv"][row])
    spans = (drawn(case, attempt, sent_ns), drawn(case, other, reach(case)(other)))
    proof = _foreign_proof(case, attempt, row, other)
    return _told(case, attempt, row, why, (attempt.row, other.row, row), spans, proof)


def _foreign_proof(case: Case, attempt: Attempt, row: int, other: Attempt) -> Proof:
    roles = {**witnesses.known(case, attempt=attempt, other=other), "row": row}
    values, means = {}, "after"
    if not believed(case, attempt.key).renew_proves:
        done_ns = int(case.history.rows["t_ret"][row]) + slack(case)
        means = "proved" if proof_reach(other) > done_ns else "held"
        if means == "proved":
            roles |= witnesses.sides(case, other=other)
        else:
            values = {"other_reach": reach(case)(other)}
    rule = f"foreign/{means}/{witnesses.how(case, attempt, other)}"
    return Proof(rule=rule, roles=roles, values=values)


def _told(
    case: Case,
    attempt: Attempt,
    row: int,
    why: str,
    rows_shown: tuple[int, ...],
    spans: tuple[tuple[int, int, str, int], ...],
    proof: Proof,
) -> Finding:
    what = _what(case, row)
    lock, sent_ns = lock_name(case, attempt), int(case.history.rows["t_inv"][row])
    token = f" (token {attempt.token})" if attempt.token >= 0 else ""
    return Finding(
        kind=f"foreign-{what}",
        sentence=(
            f"{name(case, attempt.process)}'s {what} of '{lock}'{token}, sent at"
            f" {seconds(case, sent_ns)}, returned ok although {why}"
        ),
        witnesses=rows_shown,
        lock=lock,
        t_ns=sent_ns,
        spans=spans,
        proof=proof,
    )


def _what(case: Case, row: int) -> str:
    return "release" if case.history.rows["f"][row] == Op.RELEASE else "renewal"
