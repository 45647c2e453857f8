"""Dead grants: no attempt of whose end the service had notified its client is granted a lock.

Claims
    A dead grant: a token that is larger than one that was requested, or proved to be held, only
    after the loss notice of its own attempt. No client will release it.
Assumes
    That tokens of the lock are in order, and that no two clients share an attempt.
Blind to
    Grants without tokens; returns that were only late.
Cost
    n log n in the attempts of a lock.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from holdfast.checkers.facts import witnesses
from holdfast.checkers.facts.wording import drawn, lock_name, name, seconds
from holdfast.checkers.holds.attempt_table import table
from holdfast.checkers.holds.contradictions import first_come
from holdfast.checkers.holds.derive import ENDS, Attempt, conflict
from holdfast.checkers.holds.history_index import Indices
from holdfast.checkers.holds.overlaps import proof_reaches, slack
from holdfast.checkers.holds.token_order import granted_by_token, ordered
from holdfast.harness.core.case import Case
from holdfast.harness.core.operations import Mode, Op
from holdfast.harness.core.verdict import Finding, Proof


def dead_grants(case: Case) -> Iterator[Finding]:
    """Grants to attempts whose loss notification came before the grant can have been given.

    Only a smaller token proves that, requested after the notice or proved to be held then:
    otherwise the return may only have been late. A client that races requests again with the same
    attempt, so there it proves nothing.
    """
    for key, entries in granted_by_token(case).items():
        if ordered(case, key) and first_come(case, key):
            for latest, attempt in _told_before(case, entries):
                yield _dead_grant(case, latest, attempt)


def _told_before(case: Case, ordered: Indices) -> Iterator[tuple[Attempt, Attempt]]:
    """(smaller, dead): the smaller token was held or requested after the other's loss notice."""
    attempts, kind = table(case), case.history.rows["f"]
    lost = attempts.why[ordered[1:]] == ENDS.index("lost")
    if not lost.any():
        return
    far, token = proof_reaches(case)[ordered], attempts.token[ordered]
    latest = np.maximum.accumulate(far)
    place = np.where(far > np.concatenate(([-1], latest))[:-1], np.arange(len(far)), 0)
    before = np.maximum.accumulate(place)[:-1]
    after = latest[:-1] > attempts.end[ordered[1:]] + slack(case)
    after &= lost & (token[before] < token[1:])
    dead = np.flatnonzero(after)
    dead = dead[kind[attempts.end_row[ordered[dead + 1]]] == Op.LOST]
    pairs = attempts.pick(ordered[before[dead]]), attempts.pick(ordered[dead + 1])
    for smaller, lost in zip(*pairs, strict=True):
        # Of two that share the lock, tokens show no order: who joins others may get their token.
        shared = smaller.mode == lost.mode != Mode.EXCLUSIVE
        asked_later = smaller.inv_ns > lost.end_ns + slack(case)
        if conflict(smaller, lost) or (asked_later and not shared):
            yield smaller, lost


def _dead_grant(case: Case, smaller: Attempt, dead: Attempt) -> Finding:
    owner, lock = name(case, dead.process), lock_name(case, dead)
    if smaller.inv_ns > dead.end_ns + slack(case):
        what, t_ns, row = "was requested only", smaller.inv_ns, smaller.row
    else:
        what, t_ns, row = "was still held", smaller.proof_ns, smaller.proof_row
    return Finding(
        kind="dead-grant",
        sentence=(
            f"{owner} was granted '{lock}' (token {dead.token}) although it was notified at"
            f" {seconds(case, dead.end_ns)} that this attempt was over: the smaller token"
            f" {smaller.token} {what} at {seconds(case, t_ns)}"
        ),
        witnesses=(dead.end_row, row, dead.row),
        lock=lock,
        t_ns=t_ns,
        spans=(drawn(case, smaller, smaller.end_ns), drawn(case, dead, dead.known_ns)),
        proof=Proof(
            rule="dead-grant",
            roles={
                **witnesses.known(case, dead=dead, smaller=smaller),
                "smaller_proof": row,
                "notice": dead.end_row,
            },
        ),
    )
