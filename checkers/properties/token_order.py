"""Order of fencing tokens: a later grant has a larger token, and no two grants share one.

Claims: of two conflicting grants of one lock of which one was certainly first, the other has the
larger token; if the system declares it, no token is granted twice
Assumes: nothing about clocks. Proofs of a hold show the order of grants, and so do leases if
exclusion is promised, unless the run shows that lock held twice at once
Blind to: the order of grants whose calls overlap, without a proof of either hold
Cost: n log n in the number of attempts
Source: the earliest ends in token order, e = max(previous e, call, last proof), against each return
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from holdfast.checkers.coverage.requirements import conclude, exercise
from holdfast.checkers.facts import witnesses
from holdfast.checkers.facts.wording import drawn, known_row, lock_name, name, seconds
from holdfast.checkers.holds.derive import Attempt
from holdfast.checkers.holds.held_at_once import disjoint
from holdfast.checkers.holds.overlaps import granted, proof_reach, reach, slack
from holdfast.checkers.holds.token_order import disordered, disputes, inversions, repeated
from holdfast.harness.core.case import Case
from holdfast.harness.core.verdict import Finding, Proof, PropertyVerdict

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
        (first.id, second.id): _inversion(case, first, second, proved)
        for key in granted(case)
        for first, second, proved in _inverted(case, key)
    }
    repetitions = {
        (first.id, second.id): _repetition(case, first, second)
        for _, first, second, in_order in repeated(case)
        if case.promises.tokens_unique or in_order
    }
    findings = [*inverted.values(), *repetitions.values()]
    findings.sort(key=lambda finding: finding.t_ns)
    met = replace(met, either=tuple(disputes(case).values()))
    return conclude(case, PROPERTY, findings, (), met)


def _inverted(case: Case, key: int) -> Iterator[tuple[Attempt, Attempt, bool]]:
    """(first, second, whether proofs or calls show it) in the only order in which the two can have
    held one after the other.

    Not by holds if the run shows one of their locks held twice at once: then they do not show
    which came first. By leases only if it is promised that no grant falls within one. Pairs that
    are left out here are a doubt: their tokens are out of order, or both held at once. Tokens that
    are out of order by their calls elsewhere explain no such pair.
    """
    yield from ((first, second, True) for first, second in inversions(case)[key])
    kinds = {window.do for window in case.windows}
    leases = case.promises.promised("mutual-exclusion", kinds)
    for larger, smaller, proved in disordered(case)[key]:
        once = disjoint(case, larger.key) and disjoint(case, smaller.key)
        if once and (proved or leases):
            yield larger, smaller, proved


def _inversion(case: Case, first: Attempt, second: Attempt, proved: bool) -> Finding:
    owner, lock = name(case, second.process), lock_name(case, second)
    asked = second.inv_ns > first.known_ns + slack(case)
    rows: tuple[int, ...] = (first.row, second.row)
    if asked:
        why = f"requested at {seconds(case, second.inv_ns)}, after"
    elif proved:
        why = f"still held at {seconds(case, second.proof_ns)}, when"
        rows = (first.row, second.row, second.proof_row)
    else:
        until_ns = reach(case)(second)
        why = f"to be held until {seconds(case, min(until_ns, case.end_ns))} at least, when"
    if asked or proved:
        roles = witnesses.known(case, first=first) | witnesses.sides(case, second=second)
        if asked:
            roles["second_proof"] = second.row
        proof = Proof(rule="token-inversion", roles=roles)
    else:
        proof = Proof(
            rule="token-inversion/lease",
            roles=witnesses.known(case, first=first, second=second),
            values={"second_reach": reach(case)(second)},
        )
    return Finding(
        kind="token-inversion",
        sentence=(
            f"{owner}'s grant of '{lock}' carries token {second.token} although it was {why}"
            f" {name(case, first.process)} had been granted it with the larger token"
            f" {first.token} by {seconds(case, first.known_ns)}"
            + ("" if asked else ": its token is out of order, or both held at once")
        ),
        witnesses=tuple(dict.fromkeys((*rows, known_row(case, first)))),
        lock=lock,
        t_ns=second.known_ns,
        spans=(
            drawn(case, first, proof_reach(first)),
            drawn(case, second, proof_reach(second)),
        ),
        proof=proof,
    )


def _repetition(case: Case, first: Attempt, second: Attempt) -> Finding:
    lock = lock_name(case, second)
    rule = "token-repeated/unique" if case.promises.tokens_unique else "token-repeated/order"
    if first.owner == second.owner:
        rule = "token-repeated/anew"
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
        proof=Proof(rule=rule, roles=witnesses.known(case, first=first, second=second)),
    )


def _known(case: Case, *grants: Attempt) -> tuple[int, ...]:
    """Their rows, and those that prove that they held."""
    rows = [row for a in grants for row in (a.row, known_row(case, a))]
    return tuple(dict.fromkeys(row for row in rows if row >= 0))
