"""Fencing tokens: a later grant always carries a larger one, and no two share one.

Claims: of two conflicting grants of one lock, where one was certainly first, the other has the
larger token; where the system declares it, no token is given twice
Assumes: nothing of clocks or leases. What is proved of a hold tells the order of grants, unless
the same lock is seen to be held twice at once: then proofs say nothing of order
Blind to: the order of grants whose calls overlap, with nothing proved of either
Cost: n log n in the number of attempts
Source: the earliest ends in token order, e = max(e before, call, last proof), against each answer
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby, pairwise

import numpy as np

from holdfast.checkers.coverage.requirements import conclude, exercise
from holdfast.checkers.facts.wording import drawn, known_row, lock_name, name, seconds
from holdfast.checkers.holds.attempt_table import table
from holdfast.checkers.holds.derive import Attempt, conflict
from holdfast.checkers.holds.history_index import Indices
from holdfast.checkers.holds.overlaps import (
    by_token,
    granted,
    inversions,
    knots,
    meetings,
    overlaps,
    proof_reach,
    proof_reaches,
    slack,
)
from holdfast.harness.core.case import Case
from holdfast.harness.core.operations import Mode
from holdfast.harness.core.verdict import Finding, PropertyVerdict

PROPERTY = "token-order"
NEEDS = ("tokens", "contention", "faults")


def check(case: Case) -> PropertyVerdict:
    """The verdict, with a finding per grant whose token does not fit; UNKNOWN without tokens."""
    met = exercise(case, needs=NEEDS)
    if case.promises.tokens == "none":
        reason = "this system has no fencing tokens"
        met = replace(met, missing=(reason, *met.missing))
        return conclude(case, PROPERTY, (), (), met)
    inverted = {
        (first.id, second.id): _inversion(case, first, second)
        for key, entries in granted(case).items()
        for first, second in inversions(case)[key] or _against_proofs(case, key, entries)
    }
    repeated = {
        (first.id, second.id): _repetition(case, first, second)
        for entries in granted(case).values()
        for first, second in _repeated(case, entries)
    }
    findings = [*inverted.values(), *repeated.values()]
    findings.sort(key=lambda finding: finding.t_ns)
    return conclude(case, PROPERTY, findings, (), met)


def _against_proofs(case: Case, key: int, entries: Indices) -> Iterator[tuple[Attempt, Attempt]]:
    """(first, second) in the only order in which the two can have held one after the other.

    Nothing where this lock was held twice at once: there a proof does not say who came first.
    """
    if overlaps(case)[key]:
        return
    seen: set[int] = set()
    tied = knots(case, by_token(case, entries), proof_reaches(case))
    met = (pair for knot in tied for pair in meetings(knot, proof_reach, slack(case)))
    for smaller, larger in met:
        if conflict(smaller, larger) and smaller.token < larger.token and smaller.id not in seen:
            seen.add(smaller.id)
            yield larger, smaller


def _repeated(case: Case, entries: Indices) -> Iterator[tuple[Attempt, Attempt]]:
    """Two owners' grants with one token.

    One owner may be let in again with what it has, and readers that hold together may share one.
    """
    ordered = by_token(case, entries)
    token = table(case).token[ordered]
    again = np.zeros(len(token) + 1, bool)
    again[1:-1] = token[1:] == token[:-1]
    twice = table(case).pick(ordered[again[:-1] | again[1:]])
    for _, same in groupby(twice, key=lambda attempt: attempt.token):
        group = sorted(same, key=lambda attempt: attempt.known_ns)
        for first, second in pairwise(group):
            in_order = second.inv_ns > first.known_ns + slack(case) and conflict(first, second)
            readers = first.mode == second.mode == Mode.SHARED
            if readers or first.process == second.process:
                continue
            if case.promises.tokens_unique or in_order:
                yield first, second


def _inversion(case: Case, first: Attempt, second: Attempt) -> Finding:
    owner, lock = name(case, second.process), lock_name(case, second)
    asked = second.inv_ns > first.known_ns + slack(case)
    if asked:
        why = f"asked for at {seconds(case, second.inv_ns)}, after"
    else:
        why = f"still held at {seconds(case, second.proof_ns)}, when"
    rows = (first.row, second.row) if asked else (first.row, second.row, second.proof_row)
    return Finding(
        kind="token-inversion",
        sentence=(
            f"{owner}'s grant of '{lock}' carries token {second.token} though it was {why}"
            f" {name(case, first.process)} had been granted it with the larger token"
            f" {first.token} by {seconds(case, first.known_ns)}"
        ),
        witnesses=tuple(dict.fromkeys((*rows, known_row(case, first)))),
        lock=lock,
        t_ns=second.known_ns,
        spans=(
            drawn(case, first, proof_reach(first)),
            drawn(case, second, proof_reach(second)),
        ),
    )


def _repetition(case: Case, first: Attempt, second: Attempt) -> Finding:
    lock = lock_name(case, second)
    return Finding(
        kind="token-repeated",
        sentence=(
            f"'{lock}' was granted with token {second.token} to {name(case, first.process)} by"
            f" {seconds(case, first.known_ns)} and to {name(case, second.process)} by"
            f" {seconds(case, second.known_ns)}"
        ),
        witnesses=_known(case, first, second),
        lock=lock,
        t_ns=second.known_ns,
        spans=(
            drawn(case, first, proof_reach(first)),
            drawn(case, second, proof_reach(second)),
        ),
    )


def _known(case: Case, *grants: Attempt) -> tuple[int, ...]:
    """Their rows, and those by which it was known that they held."""
    rows = [row for a in grants for row in (a.row, known_row(case, a))]
    return tuple(dict.fromkeys(row for row in rows if row >= 0))
